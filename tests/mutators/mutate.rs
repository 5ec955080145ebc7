//! Changes that turn good input into odd input.

use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde_json::{Map, Value, json};

/// Any JSON, at most this deep; texts and names are often some of `words`.
pub fn any_json(rng: &mut StdRng, depth: u32, words: &[&str]) -> Value {
    let kinds = if depth == 0 { 6 } else { 8 };
    match rng.random_range(0..kinds) {
        0 => Value::Null,
        1 => rng.random::<bool>().into(),
        2 => rng.random::<i64>().into(),
        3 => rng.random_range(-2..3).into(),
        4 => json!(rng.random::<f64>() * 1e300),
        5 => any_text(rng, words).into(),
        6 => {
            let count = rng.random_range(0..4);
            (0..count)
                .map(|_| any_json(rng, depth - 1, words))
                .collect()
        }
        _ => {
            let count = rng.random_range(0..4);
            let pairs = (0..count).map(|_| (any_text(rng, words), any_json(rng, depth - 1, words)));
            Value::Object(pairs.collect())
        }
    }
}

fn any_text(rng: &mut StdRng, words: &[&str]) -> String {
    if rng.random_bool(0.7)
        && let Some(word) = words.choose(rng)
    {
        return (*word).to_owned();
    }
    let length = rng.random_range(0..12);
    (0..length).map(|_| rng.random::<char>()).collect()
}

/// Changes one place of a value: it becomes another, goes, comes twice or swaps its name.
pub fn change_somewhere(rng: &mut StdRng, value: &mut Value, words: &[&str]) {
    let goes_deeper = rng.random_bool(0.85);
    match value {
        Value::Object(map) if goes_deeper && !map.is_empty() => {
            let at = rng.random_range(0..map.len());
            let name = map.keys().nth(at).cloned().unwrap_or_default();
            match rng.random_range(0..8) {
                0 => {
                    map.remove(&name);
                }
                1 => {
                    let moved = map.remove(&name).unwrap_or_default();
                    map.insert(any_text(rng, words), moved);
                }
                2 => add(rng, map, words),
                _ => change_somewhere(rng, &mut map[&name], words),
            }
        }
        Value::Array(items) if goes_deeper && !items.is_empty() => {
            let at = rng.random_range(0..items.len());
            match rng.random_range(0..6) {
                0 => {
                    items.remove(at);
                }
                1 => items.push(items[at].clone()),
                _ => change_somewhere(rng, &mut items[at], words),
            }
        }
        other => *other = any_json(rng, 2, words),
    }
}

fn add(rng: &mut StdRng, map: &mut Map<String, Value>, words: &[&str]) {
    let (name, value) = (any_text(rng, words), any_json(rng, 2, words));
    map.insert(name, value);
}

/// Changes bytes here and there, cuts, or repeats a part.
pub fn change_bytes(rng: &mut StdRng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.random_range(1..4) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.random_range(0..bytes.len());
        match rng.random_range(0..5) {
            0 => bytes[at] = rng.random(),
            1 => bytes[at] ^= 1 << rng.random_range(0..8),
            2 => {
                bytes.remove(at);
            }
            3 => bytes.truncate(at),
            _ => {
                let end = (at + rng.random_range(1..40)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                let times = rng.random_range(1..200);
                let repeated = part.iter().copied().cycle().take(part.len() * times);
                bytes.splice(at..at, repeated.collect::<Vec<_>>());
            }
        }
    }
}
