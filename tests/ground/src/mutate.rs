//! Inputs that nobody would write, for everything that parses bytes from outside: mutations of good ones, by a seed.
//!
//! Some keep the form of JSON and change what is in it, so that they get past the parser; the others change bytes.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

/// Variable with the number of seconds for which inputs are made; without it a fixed, small number is.
const SECONDS: &str = "GARM_OPERATOR_MUTATION_SECONDS";
/// Variable with the seed; without it a fixed one is taken.
const SEED: &str = "GARM_OPERATOR_MUTATION_SEED";
/// Inputs made without [`SECONDS`].
const FEW: u64 = 3_000;

/// Yields mutations of these examples: a few, or for as long as the environment says.
///
/// The same seed gives the same inputs. A test names the input that it fails on, and keeps it as an example.
pub fn mutations(examples: Vec<Vec<u8>>) -> impl Iterator<Item = Vec<u8>> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seconds: Option<u64> = number(SECONDS);
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut random = Random(number(SEED).unwrap_or(0x6761_726d));
    let values: Vec<Value> = examples
        .iter()
        .filter_map(|example| serde_json::from_slice(example).ok())
        .collect();
    (0_u64..)
        .take_while(move |made| end.map_or(*made < FEW, |end| Instant::now() < end))
        .map(move |_| {
            if values.is_empty() || random.below(2) == 0 {
                random.bytes(&examples)
            } else {
                random.json(&values)
            }
        })
}

/// Numbers in an order that a seed gives (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 when that is 0.
    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % end).unwrap_or_default()
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    fn bytes(&mut self, examples: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.pick(examples).clone();
        for _ in 0..=self.below(6) {
            let at = self.below(bytes.len() + 1);
            let to = (at + self.below(24)).min(bytes.len());
            match self.below(7) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..to)),
                2 => {
                    let again = bytes[at..to].to_vec();
                    drop(bytes.splice(at..at, again));
                }
                3 => {
                    let other = self.pick(examples);
                    let start = self.below(other.len());
                    let end = (start + self.below(64)).min(other.len());
                    drop(bytes.splice(at..at, other[start..end].iter().copied()));
                }
                4 => {
                    let word = self.word();
                    drop(bytes.splice(at..to, word));
                }
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = self.next().to_le_bytes()[0];
                    }
                }
            }
        }
        bytes
    }

    /// What parsers stumble over.
    fn word(&mut self) -> Vec<u8> {
        let words: [&[u8]; 16] = [
            b"null",
            b"{}",
            b"[]",
            b"-1",
            b"1e999",
            b"18446744073709551616",
            b"0.1",
            b"true",
            b"\"\\ud800\"",
            b"\"\\u0000\"",
            b"\xff\xfe",
            b"\xef\xbb\xbf",
            b"\n---\n",
            b"\"",
            b"&a [*a]",
            b": |\n",
        ];
        if self.below(40) == 0 {
            return b"[".repeat(1 + self.below(100_000));
        }
        self.pick(&words).to_vec()
    }

    fn json(&mut self, examples: &[Value]) -> Vec<u8> {
        let mut value = self.pick(examples).clone();
        for _ in 0..=self.below(3) {
            let other = self.pick(examples).clone();
            self.change(&mut value, &other, 0);
        }
        value.to_string().into_bytes()
    }

    /// Changes one node of a tree, the deeper the likelier.
    fn change(&mut self, value: &mut Value, other: &Value, depth: usize) {
        let go_on = depth < 12 && self.below(8) != 0;
        match value {
            Value::Object(map) if go_on && !map.is_empty() => self.change_map(map, other, depth),
            Value::Array(items) if go_on && !items.is_empty() => {
                let at = self.below(items.len());
                match self.below(6) {
                    0 => drop(items.remove(at)),
                    1 => items.push(items[at].clone()),
                    _ => self.change(&mut items[at], other, depth + 1),
                }
            }
            value => *value = self.scalar(value, other),
        }
    }

    fn change_map(&mut self, map: &mut Map<String, Value>, other: &Value, depth: usize) {
        let keys: Vec<String> = map.keys().cloned().collect();
        let key = self.pick(&keys).clone();
        match self.below(10) {
            0 => drop(map.remove(&key)),
            1 => {
                if let Some(value) = map.remove(&key) {
                    map.insert(key.to_uppercase(), value);
                }
            }
            _ => {
                if let Some(value) = map.get_mut(&key) {
                    self.change(value, other, depth + 1);
                }
            }
        }
    }

    /// Another value, sometimes one of another type.
    fn scalar(&mut self, value: &Value, other: &Value) -> Value {
        match self.below(14) {
            0 => Value::Null,
            1 => json!({}),
            2 => json!([]),
            3 => json!(-1),
            4 => json!(u64::MAX),
            5 => json!(1e300),
            6 => json!(1_i64 << 33),
            7 => json!(""),
            8 => json!("ä\u{0}\u{202e}/../%"),
            9 => json!("x".repeat(self.below(5_000))),
            10 => json!("2024-01-01T00:00:00Z"),
            11 => json!([[value]]),
            12 => json!({"a": value, "spec": other}),
            _ => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs_of_both_sorts() {
        let examples = || vec![br#"{"a": [1, {"b": "c"}]}"#.to_vec()];
        let first: Vec<Vec<u8>> = mutations(examples()).collect();
        assert_eq!(first, mutations(examples()).collect::<Vec<_>>());
        let good = first
            .iter()
            .filter(|input| serde_json::from_slice::<Value>(input).is_ok())
            .count();
        assert!(
            (first.len() / 4..first.len() * 4 / 5).contains(&good),
            "{good}"
        );
    }
}
