//! When two Pools are the same, and what becomes of the second.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::api::v1beta1::{Image, PoolSpec};
use crate::domain::compare::{fold, normal_extra_specs, normal_runner_group};
use crate::domain::pool::normal_prefix;

/// What becomes of a Pool that equals another living Pool of its namespace (`operator.duplicatePools`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DuplicatePools {
    /// It is refused.
    Deny,
    /// It is accepted with a warning that names the other.
    Warn,
    /// It is accepted in silence.
    Allow,
}

/// What equal Pools have in common, in the words of users.
const COMMON: &str =
    "scope, provider, image, flavor, osType, osArch, tags, extraSpecs, runner group and prefix";

/// Stands for everything by which Pools of one namespace are compared, the image apart: what that is depends on Images.
///
/// How many runners there are, how long they may take, their order among pools and whether the pool is enabled make no other runners, so
/// they are not compared. Two Pools have one fingerprint exactly if they are equal in the rest (SHA-256), so nothing has to be compared
/// once more, and extraSpecs, which may hold secrets, are nowhere kept for it.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Takes the fingerprint of a spec, also of one that cannot work.
    pub fn of(spec: &PoolSpec) -> Self {
        let mut hasher = Sha(Sha256::new());
        Essence::of(spec).hash(&mut hasher);
        Self(hasher.0.finalize().into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Shows nothing that could be compared with guesses of a secret.
impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint")
    }
}

/// What a Pool has for an image, by which it is compared: Images with one tag are one.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum PoolImage<'a> {
    /// The tag of its Image.
    Tag(&'a str),
    /// The name of its Image, of which no tag is known.
    Name(&'a str),
}

impl<'a> PoolImage<'a> {
    /// What a Pool has that names this Image, which may not exist.
    pub fn of(name: &'a str, image: Option<&'a Image>) -> Self {
        image.and_then(tag).map_or(Self::Name(name), Self::Tag)
    }
}

/// The tag of an Image; an empty one is none.
pub fn tag(image: &Image) -> Option<&str> {
    image.spec.tag.as_deref().filter(|tag| !tag.is_empty())
}

/// All by which two Pools of one namespace are compared.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Likeness {
    /// Everything but the image.
    pub fingerprint: Fingerprint,
    /// Name of the Image; see [`PoolImage`].
    pub image: String,
}

impl Likeness {
    /// Takes the likeness of a spec.
    pub fn of(spec: &PoolSpec) -> Self {
        Self {
            fingerprint: Fingerprint::of(spec),
            image: spec.image_name.clone(),
        }
    }
}

/// The compared parts of a spec, each in the one form that all its spellings share.
#[derive(Eq, Hash, PartialEq)]
struct Essence<'a> {
    scope: (&'a str, &'a str),
    provider: &'a str,
    flavor: &'a str,
    os_type: &'a str,
    os_arch: &'a str,
    tags: BTreeSet<String>,
    extra_specs: ExtraSpecs<'a>,
    runner_group: &'a str,
    prefix: &'a str,
}

/// Extra specs by meaning.
#[derive(Eq, Hash, PartialEq)]
enum ExtraSpecs<'a> {
    /// None, in any spelling.
    None,
    /// A JSON value. The numbers 1 and 1.0 are two values, as for providers that read them into integers.
    Json(Value),
    /// Text that is no JSON; no Pool works with it, but old ones may hold it.
    Broken(&'a str),
}

impl<'a> ExtraSpecs<'a> {
    fn of(text: &'a str) -> Self {
        if text.trim().is_empty() {
            return Self::None;
        }
        match serde_json::from_str::<Value>(text) {
            Ok(value) if normal_extra_specs(Some(&value)).is_none() => Self::None,
            Ok(value) => Self::Json(value),
            Err(_) => Self::Broken(text),
        }
    }
}

impl<'a> Essence<'a> {
    fn of(spec: &'a PoolSpec) -> Self {
        let scope = &spec.github_scope_ref;
        Self {
            scope: (&scope.kind, &scope.name),
            provider: &spec.provider_name,
            flavor: &spec.flavor,
            os_type: &spec.os_type,
            os_arch: &spec.os_arch,
            tags: fold(&spec.tags),
            extra_specs: ExtraSpecs::of(spec.extra_specs.as_deref().unwrap_or_default()),
            runner_group: normal_runner_group(
                spec.github_runner_group.as_deref().unwrap_or_default(),
            ),
            prefix: normal_prefix(spec.runner_prefix.as_deref()),
        }
    }
}

/// Feeds SHA-256 with what types hash of themselves, which is equal exactly if they are: strings and lists tell where they end.
struct Sha(Sha256);

impl Hasher for Sha {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.0.clone().finalize()[..8]);
        u64::from_le_bytes(first)
    }
}

/// Tells users which Pool is the same as theirs, by its name, and what to do; `image` and `other_image` are the names of the two Images.
pub fn sentence(other: &str, image: &str, other_image: &str) -> String {
    let images = if image == other_image {
        String::new()
    } else {
        format!(" (Images {image:?} and {other_image:?} have the same tag)")
    };
    format!(
        "Pool {other:?} has the same {COMMON}{images}; raise its maxRunners instead, or let the two differ in one of these"
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::api::refs::TypedRef;
    use crate::domain::compare::{same_extra_specs, same_runner_group, same_tags};

    fn spec() -> PoolSpec {
        PoolSpec {
            github_scope_ref: TypedRef {
                kind: "Repository".to_owned(),
                name: "tools".to_owned(),
                ..TypedRef::default()
            },
            provider_name: "fake".to_owned(),
            flavor: "small".to_owned(),
            os_type: "linux".to_owned(),
            os_arch: "amd64".to_owned(),
            tags: vec!["linux".to_owned(), "gpu".to_owned()],
            extra_specs: Some(r#"{"a": 1, "b": [1, 2]}"#.to_owned()),
            max_runners: 4,
            image_name: "image".to_owned(),
            ..PoolSpec::default()
        }
    }

    fn is_same(change: impl FnOnce(&mut PoolSpec)) -> bool {
        let mut other = spec();
        change(&mut other);
        Fingerprint::of(&spec()) == Fingerprint::of(&other)
    }

    #[test]
    fn numbers_of_runners_and_the_like_make_no_other_pool() {
        assert!(is_same(|s| {
            s.max_runners = 9;
            s.min_idle_runners = 2;
            s.enabled = true;
            s.runner_bootstrap_timeout = 7;
            s.priority = Some(3);
            s.image_name = "compared apart".to_owned();
            s.github_scope_ref.api_group = Some("group".to_owned());
        }));
    }

    #[test]
    fn other_spellings_make_no_other_pool() {
        assert!(is_same(
            |s| s.tags = vec!["GPU".to_owned(), "Linux".to_owned(), "gpu".to_owned()]
        ));
        assert!(is_same(
            |s| s.extra_specs = Some("{ \"b\":[1,2],\n \"a\":1 }".to_owned())
        ));
        assert!(is_same(
            |s| s.github_runner_group = Some("dEfault".to_owned())
        ));
        assert!(is_same(|s| s.github_runner_group = Some(String::new())));
        assert!(is_same(|s| s.runner_prefix = Some(String::new())));
        assert!(is_same(|s| s.runner_prefix = Some("garm".to_owned())));
        let bare = |text: Option<&str>| {
            let mut spec = spec();
            spec.extra_specs = text.map(ToOwned::to_owned);
            Fingerprint::of(&spec)
        };
        for empty in ["", " ", "{}", "{ }", "null"] {
            assert!(bare(None) == bare(Some(empty)), "{empty:?}");
        }
        assert!(bare(None) != bare(Some("{")) && bare(Some("{")) != bare(Some("{{")));
        assert!(bare(Some("{\"a\":-0.0}")) == bare(Some("{\"a\":0.0}")));
    }

    #[test]
    fn each_compared_field_makes_another_pool() {
        let changes: &[fn(&mut PoolSpec)] = &[
            |s| s.github_scope_ref.kind = "Organization".to_owned(),
            |s| s.github_scope_ref.name = "other".to_owned(),
            |s| s.provider_name = "other".to_owned(),
            |s| s.flavor = "Small".to_owned(),
            |s| s.os_type = "windows".to_owned(),
            |s| s.os_arch = "arm64".to_owned(),
            |s| s.tags.push("x".to_owned()),
            |s| s.tags = vec!["linuxgpu".to_owned()],
            |s| s.extra_specs = None,
            |s| s.extra_specs = Some(r#"{"a": 1.0, "b": [1, 2]}"#.to_owned()),
            |s| s.extra_specs = Some(r#"{"a": 1, "b": [2, 1]}"#.to_owned()),
            |s| s.github_runner_group = Some("x".to_owned()),
            |s| s.runner_prefix = Some("Garm".to_owned()),
        ];
        for (index, change) in changes.iter().enumerate() {
            assert!(!is_same(change), "change {index}");
        }
    }

    #[test]
    fn texts_do_not_flow_into_each_other() {
        let of = |provider: &str, flavor: &str| {
            Fingerprint::of(&PoolSpec {
                provider_name: provider.to_owned(),
                flavor: flavor.to_owned(),
                ..spec()
            })
        };
        assert!(of("ab", "c") != of("a", "bc"));
        assert!(of("", "x") != of("x", ""));
    }

    #[test]
    fn a_fingerprint_shows_itself_only_to_the_index() {
        let print = Fingerprint::of(&spec());
        assert_eq!(format!("{print:?}"), "Fingerprint");
        assert_eq!(print.to_string().len(), 64);
    }

    #[test]
    fn the_sentence_names_the_images_only_where_they_differ() {
        assert!(!sentence("a", "x", "x").contains("Images"));
        assert!(sentence("a", "x", "y").contains(r#"Images "x" and "y""#));
    }

    /// Few values of each field, so that equal specs are common.
    fn any_spec() -> impl Strategy<Value = PoolSpec> {
        let word = |words: &'static [&'static str]| prop::sample::select(words);
        (
            word(&["Repository", "Organization"]),
            word(&["linux", "windows"]),
            prop::collection::vec(word(&["gpu", "GPU", "x"]), 0..3),
            prop::option::of(word(&[
                "",
                "{}",
                "null",
                "{",
                "[]",
                "1",
                "1.0",
                "{\"a\":1}",
                "{ \"a\" : 1 }",
                "{\"a\":1.0}",
            ])),
            prop::option::of(word(&["", "default", "Default", "x"])),
            prop::option::of(word(&["", "garm", "x"])),
        )
            .prop_map(|(kind, os_type, tags, extra, group, prefix)| {
                let mut spec = spec();
                kind.clone_into(&mut spec.github_scope_ref.kind);
                os_type.clone_into(&mut spec.os_type);
                spec.tags = tags.into_iter().map(ToOwned::to_owned).collect();
                spec.extra_specs = extra.map(ToOwned::to_owned);
                spec.github_runner_group = group.map(ToOwned::to_owned);
                spec.runner_prefix = prefix.map(ToOwned::to_owned);
                spec
            })
    }

    /// The rule in the words of the comparison with GARM.
    fn same(a: &PoolSpec, b: &PoolSpec) -> bool {
        fn text(value: Option<&String>) -> &str {
            value.map_or("", String::as_str)
        }
        let json = |spec: &PoolSpec| match text(spec.extra_specs.as_ref()) {
            "" => Ok(Value::Null),
            text => serde_json::from_str(text).map_err(|_| text.to_owned()),
        };
        let extra = match (json(a), json(b)) {
            (Ok(a), Ok(b)) => same_extra_specs(Some(&a), Some(&b)),
            (a, b) => a == b,
        };
        let prefix = |spec: &PoolSpec| match text(spec.runner_prefix.as_ref()) {
            "" => "garm".to_owned(),
            other => other.to_owned(),
        };
        a.github_scope_ref == b.github_scope_ref
            && a.os_type == b.os_type
            && same_tags(&a.tags, &b.tags)
            && extra
            && same_runner_group(
                text(a.github_runner_group.as_ref()),
                text(b.github_runner_group.as_ref()),
            )
            && prefix(a) == prefix(b)
    }

    proptest! {
        #[test]
        fn fingerprints_are_equal_exactly_where_a_comparison_finds_no_difference(a in any_spec(), b in any_spec()) {
            prop_assert_eq!(Fingerprint::of(&a) == Fingerprint::of(&b), same(&a, &b));
        }

        #[test]
        fn no_text_of_extra_specs_is_too_strange(text in ".{0,40}") {
            let spec = PoolSpec { extra_specs: Some(text), ..spec() };
            prop_assert!(Fingerprint::of(&spec) == Fingerprint::of(&spec));
        }
    }
}
