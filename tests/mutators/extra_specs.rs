//! The extraSpecs of Pools: text that people write, and in which they keep secrets.

use garm_operator::api::v1beta1::PoolSpec;
use garm_operator::domain::compare::same_extra_specs;
use garm_operator::domain::duplicate::Fingerprint;
use garm_operator::domain::pool;
use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use crate::mutate::{any_json, change_bytes, change_somewhere};

/// Stands for a secret; no message may hold it.
const SECRET: &str = "hunter2";

const WORDS: [&str; 8] = ["disk", "token", SECRET, "1e400", "\u{0}", "{", "null", "😀"];

fn text(rng: &mut StdRng) -> Vec<u8> {
    let mut value =
        json!({"disk": 50, "token": SECRET, "list": [1, 1.0, -0, null, {"a": {"b": []}}]});
    for _ in 0..rng.random_range(0..4) {
        change_somewhere(rng, &mut value, &WORDS);
    }
    if rng.random_bool(0.1) {
        value = any_json(rng, 3, &WORDS);
    }
    let mut bytes = value.to_string().into_bytes();
    if rng.random_bool(0.1) {
        let depth = rng.random_range(0..4000);
        bytes = [vec![b'['; depth], bytes].concat();
    }
    if rng.random_bool(0.6) {
        change_bytes(rng, &mut bytes);
    }
    bytes
}

fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let spec = |text: &str| PoolSpec {
        extra_specs: Some(text.to_owned()),
        ..PoolSpec::default()
    };
    let parsed = serde_json::from_str::<Value>(&text);
    let is_good = text.trim().is_empty() || parsed.as_ref().is_ok_and(Value::is_object);
    match pool::parse_extra_specs(&text) {
        Ok(value) => {
            assert!(is_good && value.is_object());
            assert!(same_extra_specs(Some(&value), Some(&value)));
            // Written anew it means the same.
            let again = value.to_string();
            assert!(Fingerprint::of(&spec(&text)) == Fingerprint::of(&spec(&again)));
        }
        Err(fault) => {
            assert!(!is_good);
            assert_eq!(fault.path, "spec.extraSpecs");
            assert!(!fault.to_string().contains(SECRET), "{fault}");
        }
    }
    let faults = pool::judge(None, &spec(&text)).faults;
    assert_eq!(
        faults.iter().any(|one| one.path == "spec.extraSpecs"),
        !is_good
    );
    assert!(Fingerprint::of(&spec(&text)) == Fingerprint::of(&spec(&text)));
}

#[test]
fn extra_specs_are_an_object_or_refused_without_a_word_of_them() {
    crate::run(text, check);
}
