//! Rules about credentials.

use std::fmt;

use secrecy::SecretString;

use crate::api::v1beta1::GitHubCredentialSpec;
use crate::domain::field::FieldError;
use crate::domain::judgement::{Judgement, Reference};
use crate::domain::pushed::{Hasher, Pushed};
use crate::domain::reference::{self, secret_faults};
use crate::garm::wire::{
    AppKey, AuthMaterial, CreateCredential, Credential, Token, UpdateCredential,
};

/// `spec.authType` of a token.
const PAT: &str = "pat";
/// `spec.authType` of a GitHub App.
const APP: &str = "app";

/// Credentials as their object wants them.
#[derive(Clone)]
pub struct DesiredCredential {
    /// Name in GARM, the object's own name.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Name of the endpoint; cannot change.
    pub endpoint: String,
    /// Token or key.
    pub material: AuthMaterial,
    /// What identifies the material in the annotation `pushed`.
    fingerprint: Vec<u8>,
}

/// Shows neither the material nor its fingerprint, which holds the secret itself.
impl fmt::Debug for DesiredCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DesiredCredential")
            .field("name", &self.name)
            .field("endpoint", &self.endpoint)
            .field("auth_type", &self.material.auth_type())
            .finish_non_exhaustive()
    }
}

/// Reads a spec together with its secret; answers all faults at once.
///
/// A trailing newline, as an editor or `kubectl create secret --from-file` leaves it, is no part of a token: GARM would store it and
/// GitHub would answer 401.
pub fn desired(
    name: &str,
    spec: &GitHubCredentialSpec,
    secret: &str,
) -> Result<DesiredCredential, Vec<FieldError>> {
    let secret = secret.trim_end_matches(['\r', '\n']);
    let material = material(spec, secret)?;
    let mut fingerprint = secret.as_bytes().to_vec();
    if let AuthMaterial::App(app) = &material {
        fingerprint.extend(format!("\n{}\n{}", app.app_id, app.installation_id).into_bytes());
    }
    Ok(DesiredCredential {
        name: name.to_owned(),
        description: spec.description.clone(),
        endpoint: spec.endpoint_ref.name.clone(),
        material,
        fingerprint,
    })
}

/// Judges a spec that somebody writes, and what it makes of the one that was there.
pub fn judge(old: Option<&GitHubCredentialSpec>, spec: &GitHubCredentialSpec) -> Judgement {
    let mut faults = faults(spec);
    faults.extend(old.iter().flat_map(|old| faults_of_update(old, spec)));
    let endpoint = &spec.endpoint_ref.name;
    Judgement {
        faults,
        doubts: doubts(spec),
        references: vec![Reference::new(
            "spec.endpointRef",
            "GitHubEndpoint",
            endpoint,
        )],
    }
}

/// Names what is wrong with a spec as far as it shows without the secret, all faults at once.
fn faults(spec: &GitHubCredentialSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match spec.auth_type.as_str() {
        PAT => {}
        APP => {
            errors.extend(number("spec.appId", spec.app_id));
            errors.extend(number("spec.installationId", spec.installation_id));
        }
        "" => errors.push(FieldError::required("spec.authType", "")),
        other => errors.push(FieldError::not_supported(
            "spec.authType",
            other,
            &[APP, PAT],
        )),
    }
    if spec.endpoint_ref.name.is_empty() {
        errors.push(FieldError::required("spec.endpointRef.name", ""));
    }
    if let Some(reference) = &spec.secret_ref {
        errors.extend(secret_faults("spec.secretRef", reference));
    }
    errors
}

fn number(path: &str, value: Option<i64>) -> Option<FieldError> {
    match value {
        Some(value) if value > 0 => None,
        Some(value) => Some(FieldError::invalid(path, value, "must be greater than 0")),
        None => Some(FieldError::required(path, "a GitHub App has this number")),
    }
}

/// Names the fields of `new` that GARM cannot change from what they are in `old`.
fn faults_of_update(old: &GitHubCredentialSpec, new: &GitHubCredentialSpec) -> Vec<FieldError> {
    immutable(
        (&old.endpoint_ref.name, &old.auth_type),
        (&new.endpoint_ref.name, &new.auth_type),
    )
}

/// Names what is allowed and probably not meant.
fn doubts(spec: &GitHubCredentialSpec) -> Vec<String> {
    let mut doubts = Vec::new();
    if spec.secret_ref.is_none() {
        doubts.push("spec.secretRef: is needed before GARM gets the credentials".to_owned());
    }
    if spec.auth_type == PAT && (spec.app_id.is_some() || spec.installation_id.is_some()) {
        doubts.push("spec.appId, spec.installationId: have no effect with a token".to_owned());
    }
    doubts.extend(reference::doubt("spec.endpointRef", &spec.endpoint_ref));
    doubts
}

/// Compares endpoint and kind of the secret, which GARM cannot change.
fn immutable(old: (&str, &str), new: (&str, &str)) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !old.0.is_empty() && !old.0.eq_ignore_ascii_case(new.0) {
        errors.push(FieldError::immutable("spec.endpointRef", old.0, new.0));
    }
    if !old.1.is_empty() && old.1 != new.1 {
        errors.push(FieldError::immutable("spec.authType", old.1, new.1));
    }
    errors
}

fn material(spec: &GitHubCredentialSpec, secret: &str) -> Result<AuthMaterial, Vec<FieldError>> {
    let mut errors = faults(spec);
    let is_app = spec.auth_type == APP;
    if is_app && !secret.contains("-----BEGIN RSA PRIVATE KEY-----") {
        errors.push(FieldError::invalid_unshown(
            "spec.secretRef",
            "the key must be PEM in PKCS#1 form (BEGIN RSA PRIVATE KEY); convert it with: openssl rsa -traditional -in key.pem",
        ));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let secret = SecretString::from(secret.to_owned());
    Ok(if is_app {
        AuthMaterial::App(AppKey {
            app_id: spec.app_id.unwrap_or_default(),
            installation_id: spec.installation_id.unwrap_or_default(),
            private_key: secret,
        })
    } else {
        AuthMaterial::Pat(Token {
            oauth2_token: secret,
        })
    })
}

impl DesiredCredential {
    /// Renders the request that makes them.
    pub fn create(&self) -> CreateCredential {
        CreateCredential::new(
            self.name.clone(),
            self.description.clone(),
            self.endpoint.clone(),
            self.material.clone(),
        )
    }

    /// What to remember once the material is known to be in GARM as `actual`.
    pub fn memory(&self, hasher: &Hasher, uid: &str, actual: &Credential) -> Pushed {
        Pushed {
            hash: Some(hasher.hash(
                uid,
                &actual.id.to_string(),
                self.material.auth_type(),
                &self.fingerprint,
            )),
            updated_at: actual.updated_at,
        }
    }

    /// Lists what differs. The material, which GARM never shows, is sent when it is not known to be the one last sent, or when somebody else
    /// changed the credentials since (their `updated_at` moved).
    pub fn diff(&self, actual: &Credential, known: &Pushed, memory: &Pushed) -> UpdateCredential {
        let moved = known.updated_at.is_some() && known.updated_at != actual.updated_at;
        UpdateCredential {
            description: (self.description != actual.description).then(|| self.description.clone()),
            secret: (known.hash != memory.hash || moved).then(|| self.material.clone()),
            ..UpdateCredential::default()
        }
    }

    /// Names the fields that GARM cannot change, where they differ.
    pub fn immutable(&self, actual: &Credential) -> Vec<FieldError> {
        immutable(
            (&actual.endpoint, &actual.auth_type),
            (&self.endpoint, self.material.auth_type()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::refs::TypedRef;
    use jiff::Timestamp;

    fn spec(auth_type: &str) -> GitHubCredentialSpec {
        GitHubCredentialSpec {
            auth_type: auth_type.to_owned(),
            endpoint_ref: TypedRef {
                name: "ghes".to_owned(),
                ..TypedRef::default()
            },
            ..GitHubCredentialSpec::default()
        }
    }

    fn hasher() -> Hasher {
        Hasher::new(&SecretString::from("password".to_owned()))
    }

    fn actual(second: i64) -> Credential {
        Credential {
            id: 3,
            name: "c".to_owned(),
            endpoint: "GHES".to_owned(),
            auth_type: "pat".to_owned(),
            updated_at: Timestamp::from_second(second).ok(),
            ..Credential::default()
        }
    }

    #[test]
    fn a_known_token_is_not_sent_again_and_every_doubt_sends_it_once() {
        let wanted = desired("c", &spec("pat"), "token\n").unwrap();
        let memory = wanted.memory(&hasher(), "uid", &actual(1));
        assert!(wanted.diff(&actual(1), &memory, &memory).is_empty());
        assert!(
            wanted
                .diff(&actual(1), &Pushed::default(), &memory)
                .secret
                .is_some(),
            "nothing known"
        );
        let moved = wanted.memory(&hasher(), "uid", &actual(2));
        assert!(
            wanted.diff(&actual(2), &memory, &moved).secret.is_some(),
            "changed by somebody else"
        );
        let other = desired("c", &spec("pat"), "rotated").unwrap();
        let rotated = other.memory(&hasher(), "uid", &actual(1));
        assert!(
            other.diff(&actual(1), &memory, &rotated).secret.is_some(),
            "rotated"
        );
    }

    #[test]
    fn a_trailing_newline_is_no_part_of_a_token() {
        let memory = |secret| {
            desired("c", &spec("pat"), secret)
                .unwrap()
                .memory(&hasher(), "uid", &actual(1))
        };
        assert_eq!(memory("token"), memory("token\r\n"));
        assert_ne!(memory("token"), memory("token "));
    }

    #[test]
    fn nothing_of_the_secret_shows() {
        let shown = format!("{:?}", desired("c", &spec("pat"), "hunter2").unwrap());
        assert!(shown.contains("\"c\"") && !shown.contains("hunter2"));
        assert!(!shown.contains("104, 117, 110"), "nor its bytes: {shown}");
    }

    #[test]
    fn an_app_needs_its_numbers_and_a_pkcs1_key() {
        let paths: Vec<String> = desired("c", &spec("app"), "-----BEGIN PRIVATE KEY-----")
            .unwrap_err()
            .into_iter()
            .map(|e| e.path)
            .collect();
        assert_eq!(
            paths,
            ["spec.appId", "spec.installationId", "spec.secretRef"]
        );
        let good = GitHubCredentialSpec {
            app_id: Some(1),
            installation_id: Some(2),
            ..spec("app")
        };
        assert!(desired("c", &good, "-----BEGIN RSA PRIVATE KEY-----\n").is_ok());
        assert_eq!(
            desired("c", &spec("token"), "x").unwrap_err()[0].path,
            "spec.authType"
        );
    }

    #[test]
    fn what_garm_cannot_change_is_named() {
        let wanted = desired("c", &spec("pat"), "token").unwrap();
        assert!(wanted.immutable(&actual(1)).is_empty());
        let other = Credential {
            endpoint: "github.com".to_owned(),
            auth_type: "app".to_owned(),
            ..actual(1)
        };
        assert_eq!(wanted.immutable(&other).len(), 2);
    }
}
