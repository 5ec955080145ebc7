//! Names of objects for what GARM names freely, or by an id only. The same GARM always gives the same names.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::garm::wire::Pool;

/// Longest part of a name that is taken from GARM's words: Runners bear the Pool's name as a label, which ends at 63 characters.
const LONGEST: usize = 45;

/// The name of the object that stands for something of this name in GARM, which is found again without regard to case. `None` where no object
/// can have such a name.
pub fn by_name(name: &str) -> Option<String> {
    let lower = name.to_lowercase();
    let is_part = |part: &str| {
        let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        ends(part.bytes().next())
            && ends(part.bytes().last())
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    (lower.len() <= 253 && lower.split('.').all(is_part)).then_some(lower)
}

/// Makes a word of lower-case letters, digits and dashes of any text.
fn word(text: &str) -> String {
    let mut word = String::new();
    for c in text.to_lowercase().chars() {
        match c {
            'a'..='z' | '0'..='9' => word.push(c),
            _ if word.is_empty() || word.ends_with('-') => {}
            _ => word.push('-'),
        }
    }
    word.truncate(LONGEST);
    word.trim_matches('-').to_owned()
}

/// The name of the Pool for a pool: what it is for, what it is like, and the beginning of its id, which tells it from all others.
pub fn of_pool(scope: &str, pool: &Pool) -> String {
    let id: String = pool.id.chars().take(8).collect();
    let words = word(&format!("{scope}-{}", pool.flavor));
    format!("{words}-{id}")
}

/// The name of the Image for each of these tags.
pub fn of_images<'a>(tags: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, String> {
    let mut by_word: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for tag in tags {
        let word = match word(tag).as_str() {
            "" => "image".to_owned(),
            word => word.to_owned(),
        };
        let alike = by_word.entry(word).or_default();
        if !alike.contains(&tag) {
            alike.push(tag);
        }
    }
    let mut names = BTreeMap::new();
    for (word, tags) in by_word {
        let is_alone = tags.len() == 1;
        for tag in tags {
            let name = if is_alone {
                word.clone()
            } else {
                format!("{word}-{}", digest(tag))
            };
            names.insert(tag.to_owned(), name);
        }
    }
    names
}

/// Eight characters that tell a text from others.
fn digest(text: &str) -> String {
    let digest = format!("{:x}", Sha256::digest(text.as_bytes()));
    digest.chars().take(8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_object_can_have_are_none() {
        assert_eq!(by_name("GHES").as_deref(), Some("ghes"));
        assert_eq!(by_name("github.com").as_deref(), Some("github.com"));
        for bad in [
            "",
            "my_repo",
            ".github",
            "a..b",
            "a-",
            "ä",
            &"a".repeat(254),
        ] {
            assert_eq!(by_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_pool_is_called_by_what_it_is_and_its_id() {
        let pool = Pool {
            id: "9a6b8c1e-5b7d-4f5e-8d3a-2f1e0c9b8a77".to_owned(),
            flavor: "m5.large".to_owned(),
            ..Pool::default()
        };
        assert_eq!(of_pool("tools", &pool), "tools-m5-large-9a6b8c1e");
        let long = of_pool(&"x".repeat(200), &pool);
        assert!(long.len() <= 63, "{long}");
        let odd = Pool {
            flavor: "Ä/!".to_owned(),
            ..pool
        };
        assert_eq!(of_pool("tools", &odd), "tools-9a6b8c1e");
    }

    #[test]
    fn tags_that_make_one_word_are_told_apart() {
        let names = of_images([
            "ubuntu:24.04",
            "alpine",
            "ubuntu:24.04",
            "ubuntu-24.04",
            "://",
        ]);
        assert_eq!(names["alpine"], "alpine");
        assert_eq!(names["://"], "image");
        let (a, b) = (&names["ubuntu:24.04"], &names["ubuntu-24.04"]);
        assert!(a != b && a.starts_with("ubuntu-24-04-") && b.starts_with("ubuntu-24-04-"));
        assert_eq!(of_images(["ubuntu:24.04"])["ubuntu:24.04"], "ubuntu-24-04");
    }
}
