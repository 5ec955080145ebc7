//! Equality by meaning: what GARM normalises on its way is no difference.

use std::collections::BTreeSet;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::Value;

/// Compares tags as sets without regard to case: since v0.1.6 GARM keeps the first spelling ever used, and answers in any order.
pub fn same_tags<A: AsRef<str>, B: AsRef<str>>(a: &[A], b: &[B]) -> bool {
    fold(a) == fold(b)
}

/// Folds tags to the set by which GARM matches jobs.
pub fn fold<S: AsRef<str>>(tags: &[S]) -> BTreeSet<String> {
    tags.iter().map(|tag| tag.as_ref().to_lowercase()).collect()
}

/// Compares extra specs as JSON values; absent, `null` and `{}` are the same, since GARM cannot return to "absent".
pub fn same_extra_specs(a: Option<&Value>, b: Option<&Value>) -> bool {
    normal_extra_specs(a) == normal_extra_specs(b)
}

/// The value that counts; `None` for what means no extra specs.
pub fn normal_extra_specs(value: Option<&Value>) -> Option<&Value> {
    value.filter(|v| !v.is_null() && v.as_object().is_none_or(|map| !map.is_empty()))
}

/// Compares URLs without regard to a trailing slash.
pub fn same_url(a: &str, b: &str) -> bool {
    a.trim_end_matches('/') == b.trim_end_matches('/')
}

/// Compares CA bundles as sets of certificates, so that comments, order and repetitions do not count.
///
/// A bundle in which no certificate can be read is compared byte for byte.
pub fn same_ca_bundle(a: &[u8], b: &[u8]) -> bool {
    match (certificates(a), certificates(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

/// Reads the certificates of a PEM bundle; `None` when it holds something that is not a certificate, or no certificate at all.
pub fn certificates(pem: &[u8]) -> Option<BTreeSet<Vec<u8>>> {
    let all: BTreeSet<Vec<u8>> = CertificateDer::pem_slice_iter(pem)
        .map(|certificate| certificate.map(|c| c.to_vec()))
        .collect::<Result<_, _>>()
        .ok()?;
    (!all.is_empty()).then_some(all)
}

/// Compares runner groups: empty and any spelling of `default` mean GitHub's default group.
pub fn same_runner_group(a: &str, b: &str) -> bool {
    normal_runner_group(a) == normal_runner_group(b)
}

/// The one spelling of a runner group; empty is GitHub's default one.
pub fn normal_runner_group(group: &str) -> &str {
    if group.eq_ignore_ascii_case("default") {
        ""
    } else {
        group
    }
}

/// Spells the pool balancer of an entity out: GARM's default is `roundrobin`.
pub fn normal_balancer(balancer: &str) -> &str {
    if balancer.is_empty() {
        "roundrobin"
    } else {
        balancer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn tags_are_sets_without_case() {
        assert!(same_tags(&["GPU", "gpu", "X"], &["x", "gpu"]));
        assert!(!same_tags(&["gpu"], &["gpu", "x"]));
        assert!(!same_tags(&[" b"], &["b"]));
    }

    #[test]
    fn empty_extra_specs_have_three_spellings() {
        let (null, empty, some) = (json!(null), json!({}), json!({"a": 1}));
        for a in [None, Some(&null), Some(&empty)] {
            for b in [None, Some(&null), Some(&empty)] {
                assert!(same_extra_specs(a, b));
            }
            assert!(!same_extra_specs(a, Some(&some)));
        }
    }

    #[test]
    fn ca_bundles_are_sets_of_certificates() {
        let pem = |bytes: &str| {
            format!("-----BEGIN CERTIFICATE-----\n{bytes}\n-----END CERTIFICATE-----\n")
        };
        let (one, two) = (pem("AAAA"), pem("BBBB"));
        let noisy = format!("# company root\n{two}{one}{two}");
        assert!(same_ca_bundle(
            format!("{one}{two}").as_bytes(),
            noisy.as_bytes()
        ));
        assert!(!same_ca_bundle(one.as_bytes(), two.as_bytes()));
        assert!(!same_ca_bundle(b"junk", b"other junk"));
        assert!(same_ca_bundle(b"", b""));
    }

    proptest! {
        #[test]
        fn tag_comparison_is_reflexive_symmetric_and_blind_to_order_and_case(tags in prop::collection::vec("[a-zA-Z0-9-]{1,8}", 0..6), other in prop::collection::vec("[a-zA-Z0-9-]{1,8}", 0..6)) {
            let mut shuffled: Vec<String> = tags.iter().rev().map(|t| t.to_uppercase()).collect();
            shuffled.extend(tags.first().cloned());
            prop_assert!(same_tags(&tags, &tags));
            prop_assert!(same_tags(&tags, &shuffled));
            prop_assert_eq!(same_tags(&tags, &other), same_tags(&other, &tags));
        }

        #[test]
        fn urls_differ_only_by_more_than_a_slash(host in "[a-z]{1,10}") {
            let (bare, slash) = (format!("https://{host}"), format!("https://{host}/"));
            prop_assert!(same_url(&bare, &slash));
            let longer = format!("{bare}x");
            prop_assert!(!same_url(&bare, &longer));
        }
    }
}
