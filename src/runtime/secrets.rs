//! Values of Secrets, read when they are needed: the hub of Secrets holds metadata only.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use secrecy::{ExposeSecret, SecretBox};

use super::ObjectKey;

/// One value of a Secret; wiped from memory with its last clone, hidden from `Debug`.
#[derive(Clone, Debug)]
pub struct SecretValue(Arc<SecretBox<Vec<u8>>>);

impl SecretValue {
    /// Wraps a value.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(SecretBox::new(Box::new(bytes))))
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

/// Reads single values of Secrets, and keeps those that were asked for until their Secret changes: an object at rest asks nobody.
#[derive(Clone)]
pub struct SecretReader {
    client: Client,
    kept: Arc<Mutex<HashMap<ObjectKey, Kept>>>,
}

/// The values of one Secret that were asked for.
struct Kept {
    version: String,
    values: BTreeMap<String, SecretValue>,
}

impl SecretReader {
    /// Makes a reader.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            kept: Arc::default(),
        }
    }

    /// Reads one value. `version` is the Secret's resource version as the watch shows it: a value of that version is taken from memory,
    /// everything else from the API server.
    pub async fn read(
        &self,
        namespace: &str,
        name: &str,
        key: &str,
        version: Option<&str>,
    ) -> Result<SecretValue, SecretProblem> {
        // An empty name would read the list of all Secrets.
        if name.is_empty() {
            return Err(SecretProblem::NotFound);
        }
        let object = ObjectKey::new(namespace, name);
        if let Some(value) = version.and_then(|version| self.kept(&object, key, version)) {
            return Ok(value);
        }
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let secret = match secrets.get_opt(name).await {
            Ok(Some(secret)) => secret,
            Ok(None) => {
                self.forget(&object);
                return Err(SecretProblem::NotFound);
            }
            Err(error) => return Err(SecretProblem::Kube(Box::new(error))),
        };
        let version = secret.metadata.resource_version.clone().unwrap_or_default();
        let value = pick(secret, key)?;
        self.keep(object, key, version, value.clone());
        Ok(value)
    }

    /// Drops what is kept of a Secret: it is gone.
    pub fn forget(&self, secret: &ObjectKey) {
        self.lock().remove(secret);
    }

    fn kept(&self, secret: &ObjectKey, key: &str, version: &str) -> Option<SecretValue> {
        let kept = self.lock();
        let kept = kept.get(secret).filter(|kept| kept.version == version)?;
        kept.values.get(key).cloned()
    }

    fn keep(&self, secret: ObjectKey, key: &str, version: String, value: SecretValue) {
        let mut all = self.lock();
        let kept = all.entry(secret).or_insert_with(|| Kept {
            version: String::new(),
            values: BTreeMap::new(),
        });
        if kept.version != version {
            kept.values.clear();
            kept.version = version;
        }
        kept.values.insert(key.to_owned(), value);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Kept>> {
        // A panic while the lock was held leaves a map that is still whole.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
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

    use super::super::testing::{FakeApi, Reply};
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
    }

    #[tokio::test]
    async fn keeps_a_value_until_its_secret_has_another_version() {
        let fake = FakeApi::new(|_| {
            Reply::json(&serde_json::json!({
                "metadata": {"name": "s", "resourceVersion": "1"},
                "data": {"token": "YWJj", "other": "ZGVm"},
            }))
        });
        let reader = SecretReader::new(fake.client());
        let read = async |name: &str, key: &str, version: Option<&str>| {
            let value = reader.read("ns", name, key, version).await.unwrap();
            (value.text().unwrap().to_owned(), fake.requests().len())
        };
        assert_eq!(read("s", "token", None).await, ("abc".to_owned(), 1));
        assert_eq!(read("s", "token", Some("1")).await, ("abc".to_owned(), 1));
        assert_eq!(read("s", "other", Some("1")).await, ("def".to_owned(), 2));
        assert_eq!(read("s", "token", Some("1")).await, ("abc".to_owned(), 2));
        assert_eq!(read("s", "token", Some("3")).await, ("abc".to_owned(), 3));
        reader.forget(&ObjectKey::new("ns", "s"));
        assert_eq!(read("s", "token", Some("1")).await, ("abc".to_owned(), 4));
    }

    #[test]
    fn never_shows_a_value() {
        let value = SecretValue::new(b"hunter2".to_vec());
        assert!(!format!("{value:?}").contains("hunter2"));
        assert!(!format!("{value:?}").contains("104"));
    }
}
