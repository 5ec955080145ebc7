//! Rules about forge endpoints.

use crate::api::v1beta1::GitHubEndpointSpec;
use crate::domain::compare::{certificates, same_ca_bundle, same_url};
use crate::domain::field::FieldError;
use crate::domain::judgement::Judgement;
use crate::domain::reference::secret_faults;
use crate::domain::server_config::url_fault;
use crate::garm::wire::{CreateEndpoint, Endpoint, UpdateEndpoint};

/// Name of the endpoint that GARM makes by itself. It may be described by an object but is never deleted by us.
pub const BUILT_IN: &str = "github.com";

/// An endpoint as its object wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredEndpoint {
    /// Name in GARM, the object's own name.
    pub name: String,
    /// Free text.
    pub description: String,
    /// API URL.
    pub api_base_url: String,
    /// Upload URL.
    pub upload_base_url: String,
    /// URL that people use.
    pub base_url: String,
    /// PEM bundle; `None` when the object names none (GARM cannot clear one).
    pub ca_bundle: Option<Vec<u8>>,
}

/// Judges a spec that somebody writes for the endpoint of this name.
pub fn judge(name: &str, spec: &GitHubEndpointSpec) -> Judgement {
    Judgement {
        faults: faults(spec),
        doubts: doubts(name, spec),
        references: Vec::new(),
    }
}

/// Names what is wrong with a spec as far as it shows without the CA bundle, all faults at once.
fn faults(spec: &GitHubEndpointSpec) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = urls(spec)
        .into_iter()
        .filter_map(|(path, url)| url_fault(path, url))
        .collect();
    if let Some(reference) = &spec.ca_cert_bundle_secret_ref {
        errors.extend(secret_faults("spec.caCertBundleSecretRef", reference));
    }
    errors
}

/// Names what is allowed and probably not meant in the endpoint of this name.
fn doubts(name: &str, spec: &GitHubEndpointSpec) -> Vec<String> {
    let is_built_in = name.eq_ignore_ascii_case(BUILT_IN);
    urls(spec)
        .into_iter()
        .filter(|(_, url)| url.is_empty() && !is_built_in)
        .map(|(path, _)| format!("{path}: is needed unless GARM has this endpoint already"))
        .collect()
}

fn urls(spec: &GitHubEndpointSpec) -> [(&'static str, &str); 3] {
    [
        ("spec.apiBaseUrl", &spec.api_base_url),
        ("spec.uploadBaseUrl", &spec.upload_base_url),
        ("spec.baseUrl", &spec.base_url),
    ]
    .map(|(path, url)| (path, url.as_deref().unwrap_or_default()))
}

impl DesiredEndpoint {
    /// Lists the fields in which GARM's endpoint differs; URLs that are empty in the object are not managed.
    pub fn diff(&self, actual: &Endpoint) -> UpdateEndpoint {
        let url = |desired: &str, actual: &str| {
            (!desired.is_empty() && !same_url(desired, actual)).then(|| desired.to_owned())
        };
        UpdateEndpoint {
            description: (self.description != actual.description && !self.description.is_empty())
                .then(|| self.description.clone()),
            api_base_url: url(&self.api_base_url, &actual.api_base_url),
            upload_base_url: url(&self.upload_base_url, &actual.upload_base_url),
            base_url: url(&self.base_url, &actual.base_url),
            ca_cert_bundle: self
                .ca_bundle
                .clone()
                .filter(|bundle| !same_ca_bundle(bundle, &actual.ca_cert_bundle)),
        }
    }

    /// Renders the request that makes it.
    pub fn create(&self) -> CreateEndpoint {
        CreateEndpoint {
            name: self.name.clone(),
            description: self.description.clone(),
            api_base_url: self.api_base_url.clone(),
            upload_base_url: self.upload_base_url.clone(),
            base_url: self.base_url.clone(),
            ca_cert_bundle: self.ca_bundle.clone(),
        }
    }

    /// Names what is wrong with it, where GARM would refuse it or take it without effect.
    pub fn faults(&self, is_new: bool) -> Vec<FieldError> {
        let mut errors: Vec<FieldError> = [
            ("spec.apiBaseUrl", &self.api_base_url),
            ("spec.uploadBaseUrl", &self.upload_base_url),
            ("spec.baseUrl", &self.base_url),
        ]
        .into_iter()
        .filter_map(|(path, url)| match url.as_str() {
            "" if is_new => Some(FieldError::required(path, "")),
            url => url_fault(path, url),
        })
        .collect();
        let bundle = self.ca_bundle.as_deref();
        if bundle.is_some_and(|bundle| certificates(bundle).is_none()) {
            errors.push(FieldError::invalid_unshown(
                "spec.caCertBundleSecretRef",
                "the value that it names holds no PEM certificate (BEGIN CERTIFICATE)",
            ));
        }
        errors
    }

    /// Tells whether GARM still holds a bundle that the object no longer names.
    pub fn leaves_bundle(&self, actual: &Endpoint) -> bool {
        self.ca_bundle.is_none() && !actual.ca_cert_bundle.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desired() -> DesiredEndpoint {
        DesiredEndpoint {
            name: "ghes".to_owned(),
            description: "d".to_owned(),
            api_base_url: "https://ghes/api".to_owned(),
            upload_base_url: "https://ghes/up".to_owned(),
            base_url: "https://ghes".to_owned(),
            ca_bundle: None,
        }
    }

    fn actual() -> Endpoint {
        Endpoint {
            name: "ghes".to_owned(),
            description: "d".to_owned(),
            api_base_url: "https://ghes/api/".to_owned(),
            upload_base_url: "https://ghes/up".to_owned(),
            base_url: "https://ghes/".to_owned(),
            ..Endpoint::default()
        }
    }

    #[test]
    fn only_what_differs_is_sent() {
        assert!(desired().diff(&actual()).is_empty());
        let changed = DesiredEndpoint {
            base_url: "https://new".to_owned(),
            ..desired()
        };
        let update = changed.diff(&actual());
        assert_eq!(update.base_url.as_deref(), Some("https://new"));
        assert!(update.api_base_url.is_none() && update.description.is_none());
    }

    #[test]
    fn what_garm_would_refuse_is_named_before() {
        let paths = |endpoint: &DesiredEndpoint, is_new| -> Vec<String> {
            endpoint
                .faults(is_new)
                .into_iter()
                .map(|e| e.path)
                .collect()
        };
        assert!(paths(&desired(), true).is_empty());
        let wrong = DesiredEndpoint {
            api_base_url: "not a url".to_owned(),
            upload_base_url: "ftp://ghes".to_owned(),
            base_url: String::new(),
            ca_bundle: Some(b"a token, by mistake".to_vec()),
            ..desired()
        };
        let urls = ["spec.apiBaseUrl", "spec.uploadBaseUrl", "spec.baseUrl"];
        let expected: Vec<&str> = urls
            .into_iter()
            .chain(["spec.caCertBundleSecretRef"])
            .collect();
        assert_eq!(paths(&wrong, true), expected);
        assert_eq!(
            paths(&wrong, false).len(),
            3,
            "an absent URL of an old one is not managed"
        );
        assert!(
            wrong
                .faults(true)
                .iter()
                .all(|e| !e.message.contains("token"))
        );
    }

    #[test]
    fn a_removed_bundle_is_no_difference_but_told() {
        let actual = Endpoint {
            ca_cert_bundle: b"pem".to_vec(),
            ..actual()
        };
        assert!(desired().diff(&actual).is_empty());
        assert!(desired().leaves_bundle(&actual));
    }
}
