//! Values of Secrets, read when they are needed: the hub of Secrets holds metadata only.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use secrecy::{ExposeSecret, SecretBox};

use super::client::explain;

/// One value of a Secret; wiped from memory when dropped, hidden from `Debug`.
#[derive(Debug)]
pub struct SecretValue(SecretBox<Vec<u8>>);

impl SecretValue {
    /// Wraps a value.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(SecretBox::new(Box::new(bytes)))
    }

    /// Shows the value byte for byte.
    pub fn bytes(&self) -> &[u8] {
        self.0.expose_secret()
    }

    /// Shows the value as text without line ends at its end, which editors and `echo` add to tokens. `None` when it
    /// is not UTF-8.
    pub fn text(&self) -> Option<&str> {
        let text = std::str::from_utf8(self.bytes()).ok()?;
        Some(text.trim_end_matches(['\r', '\n']))
    }
}

/// Why there is no value.
#[derive(Debug)]
pub enum SecretProblem {
    /// There is no Secret of that name.
    NotFound,
    /// The Secret has no such key.
    KeyMissing,
    /// The value is empty, or nothing but line ends.
    Empty,
    /// The API server did not answer, or refused.
    Kube(Box<kube::Error>),
}

impl SecretProblem {
    /// Says what is wrong with key `key` of Secret `name`, and what to do.
    pub fn message(&self, name: &str, key: &str) -> String {
        match self {
            Self::NotFound => format!(
                "secret {name:?} does not exist in this namespace; create it with key {key:?}"
            ),
            Self::KeyMissing => {
                format!("secret {name:?} has no key {key:?}; add it, or name another key")
            }
            Self::Empty => format!("key {key:?} of secret {name:?} is empty; store a value in it"),
            Self::Kube(error) => format!("secret {name:?} cannot be read: {}", explain(error)),
        }
    }

    /// Says whether the problem ends by itself when the Secret changes; a failed read has to be tried again.
    pub fn waits_for_the_secret(&self) -> bool {
        !matches!(self, Self::Kube(_))
    }
}

/// Reads single values of Secrets.
#[derive(Clone)]
pub struct SecretReader {
    client: Client,
}

impl SecretReader {
    /// Makes a reader.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Reads one value from the API server, now.
    pub async fn read(
        &self,
        namespace: &str,
        name: &str,
        key: &str,
    ) -> Result<SecretValue, SecretProblem> {
        // An empty name would read the list of all Secrets.
        if name.is_empty() {
            return Err(SecretProblem::NotFound);
        }
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let secret = match secrets.get_opt(name).await {
            Ok(Some(secret)) => secret,
            Ok(None) => return Err(SecretProblem::NotFound),
            Err(error) => return Err(SecretProblem::Kube(Box::new(error))),
        };
        pick(secret, key)
    }
}

fn pick(secret: Secret, key: &str) -> Result<SecretValue, SecretProblem> {
    let value = secret
        .data
        .and_then(|mut data| data.remove(key))
        .ok_or(SecretProblem::KeyMissing)?;
    let value = SecretValue::new(value.0);
    match value.text() {
        Some("") => Err(SecretProblem::Empty),
        _ => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn secret(value: &[u8]) -> Secret {
        Secret {
            data: Some([("token".to_owned(), ByteString(value.to_vec()))].into()),
            ..Secret::default()
        }
    }

    #[test]
    fn cuts_line_ends_from_text_but_not_from_bytes() {
        let value = pick(secret(b"abc\r\n"), "token").unwrap();
        assert_eq!(value.text(), Some("abc"));
        assert_eq!(value.bytes(), b"abc\r\n");
        assert_eq!(pick(secret(&[0xff]), "token").unwrap().text(), None);
    }

    #[test]
    fn tells_a_missing_key_from_an_empty_value() {
        assert!(matches!(
            pick(secret(b"abc"), "other"),
            Err(SecretProblem::KeyMissing)
        ));
        assert!(matches!(
            pick(Secret::default(), "token"),
            Err(SecretProblem::KeyMissing)
        ));
        assert!(matches!(
            pick(secret(b"\n"), "token"),
            Err(SecretProblem::Empty)
        ));
        assert_eq!(
            SecretProblem::KeyMissing.message("github", "token"),
            "secret \"github\" has no key \"token\"; add it, or name another key"
        );
    }

    #[test]
    fn never_shows_a_value() {
        let value = SecretValue::new(b"hunter2".to_vec());
        assert!(!format!("{value:?}").contains("hunter2"));
        assert!(!format!("{value:?}").contains("104"));
    }
}
