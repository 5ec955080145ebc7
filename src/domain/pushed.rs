//! Memory of what was sent to GARM and cannot be read back from it.
//!
//! GARM never returns tokens, keys and webhook secrets, and shows a pool's extra specs only to a read by id. The annotation `…/pushed` holds
//! a keyed hash of the secret last sent and the version of the GARM object that our last write made, so that a restart sends and reads
//! nothing again. Without the GARM password nothing in it can be tried offline.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hmac::{Hmac, Mac};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// Content of the annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pushed {
    /// Keyed hash of what was sent and GARM does not show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// `updated_at` of the GARM object as our own last write left it (GARM 0.1.6 and newer).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
}

impl Pushed {
    /// Reads the annotation; what cannot be read counts as absent, which costs one more push and no harm.
    pub fn parse(annotation: Option<&str>) -> Self {
        annotation
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    /// Renders the annotation's value.
    pub fn render(&self) -> String {
        // A struct of two optional strings always serializes.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Makes the keyed hashes, with a key derived from the GARM password.
#[derive(Clone)]
pub struct Hasher {
    key: [u8; 32],
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hasher(***)")
    }
}

impl Hasher {
    /// Derives the key.
    pub fn new(password: &SecretString) -> Self {
        Self {
            key: mac(
                password.expose_secret().as_bytes(),
                &[b"garm-operator pushed annotation v1"],
            ),
        }
    }

    /// Hashes one value for one object: the same secret in two objects gives two values.
    pub fn hash(&self, uid: &str, garm_id: &str, field: &str, value: &[u8]) -> String {
        let digest = mac(
            &self.key,
            &[uid.as_bytes(), garm_id.as_bytes(), field.as_bytes(), value],
        );
        STANDARD_NO_PAD.encode(digest)
    }
}

/// HMAC-SHA256 over length-prefixed parts, so that moving a border changes the result.
fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // HMAC takes a key of any length; hashing it first keeps the call infallible in type as well.
    let mut mac = Hmac::<Sha256>::new(&padded(key).into());
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// Brings a key to the block size of SHA-256 as HMAC itself would.
fn padded(key: &[u8]) -> [u8; 64] {
    use sha2::Digest as _;
    let mut block = [0; 64];
    if key.len() > block.len() {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hasher(password: &str) -> Hasher {
        Hasher::new(&SecretString::from(password.to_owned()))
    }

    #[test]
    fn every_part_counts() {
        let h = hasher("password");
        let base = h.hash("uid", "1", "token", b"secret");
        assert_eq!(base, h.hash("uid", "1", "token", b"secret"));
        for other in [
            h.hash("uid2", "1", "token", b"secret"),
            h.hash("uid", "2", "token", b"secret"),
            h.hash("uid", "1", "key", b"secret"),
            h.hash("uid", "1", "token", b"secret2"),
            h.hash("uid1", "", "token", b"secret"),
            hasher("other").hash("uid", "1", "token", b"secret"),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn the_annotation_survives_a_round_trip_and_junk_counts_as_absent() {
        let pushed = Pushed {
            hash: Some("abc".to_owned()),
            updated_at: Some(Timestamp::from_second(1).unwrap()),
        };
        assert_eq!(Pushed::parse(Some(&pushed.render())), pushed);
        assert_eq!(Pushed::parse(Some("junk")), Pushed::default());
        assert_eq!(Pushed::parse(None), Pushed::default());
    }

    #[test]
    fn nothing_of_the_secret_shows() {
        let h = hasher("a long password");
        assert!(!format!("{h:?}").contains("password"));
        assert!(!h.hash("uid", "1", "token", b"hunter2").contains("hunter2"));
    }
}
