//! Rules about forge endpoints.

use crate::domain::compare::{same_ca_bundle, same_url};
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
    fn a_removed_bundle_is_no_difference_but_told() {
        let actual = Endpoint {
            ca_cert_bundle: b"pem".to_vec(),
            ..actual()
        };
        assert!(desired().diff(&actual).is_empty());
        assert!(desired().leaves_bundle(&actual));
    }
}
