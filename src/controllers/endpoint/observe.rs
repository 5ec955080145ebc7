//! Step 1: reads the stores, the mirror and the CA bundle's Secret.

use std::sync::Arc;

use kube::ResourceExt;

use crate::api::meta;
use crate::api::v1beta1::GitHubEndpoint;
use crate::controllers::Context;
use crate::controllers::driver::Verdict;
use crate::controllers::references::{self, Reference};
use crate::domain::endpoint::DesiredEndpoint;
use crate::domain::ownership::Claim;
use crate::domain::reference::reference_index;
use crate::garm::{self, wire};

/// What a pass knows.
pub struct Observed {
    /// Name in GARM.
    pub name: String,
    /// Who owns it there.
    pub claim: Claim,
    /// What the object wants; `None` while its CA bundle is missing, or when it is terminating.
    pub desired: Option<DesiredEndpoint>,
    /// The CA bundle's Secret, where the object names one.
    pub ca_bundle: Option<Reference<()>>,
    /// GARM's endpoint.
    pub actual: Option<Arc<wire::Endpoint>>,
    /// Objects and credentials that keep GARM from deleting it.
    pub dependants: Vec<String>,
}

/// Reads what a plan needs. Deletion reads no Secret.
pub async fn observe(context: &Context, object: &GitHubEndpoint) -> Result<Observed, Verdict> {
    let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
    let mut observed = Observed {
        claim: references::endpoint_claim(context, object),
        actual: context.garm.endpoint(&name),
        desired: None,
        ca_bundle: None,
        dependants: Vec::new(),
        name,
    };
    if meta::is_terminating(&object.metadata) {
        if observed.actual.is_none() && observed.claim == Claim::Owner {
            // An answer may have been lost: the object goes only when GARM itself has none.
            observed.actual = match context.garm.read_endpoint(&observed.name).await {
                Ok(endpoint) => Some(Arc::new(endpoint)),
                Err(garm::Error::NotFound) => None,
                Err(error) => return Err(Verdict::garm(&error)),
            };
        }
        observed.dependants = dependants(context, &observed.name, &namespace);
        return Ok(observed);
    }
    let mut pem = None;
    if let Some(reference) = &object.spec.ca_cert_bundle_secret_ref {
        let value = references::secret(context, &namespace, reference).await?;
        pem = value.found().map(|value| value.bytes().to_vec());
        observed.ca_bundle = Some(value.shape());
    }
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    if !matches!(observed.ca_bundle, Some(Reference::Missing(_))) {
        observed.desired = Some(DesiredEndpoint {
            name: observed.name.clone(),
            description: text(&object.spec.description),
            api_base_url: text(&object.spec.api_base_url),
            upload_base_url: text(&object.spec.upload_base_url),
            base_url: text(&object.spec.base_url),
            ca_bundle: pem,
        });
    }
    Ok(observed)
}

/// Names what uses the endpoint in GARM: the object that stands for it, or GARM's own name where there is none.
fn dependants(context: &Context, name: &str, namespace: &str) -> Vec<String> {
    let mut names: Vec<String> = context
        .garm
        .credentials()
        .iter()
        .filter(|credential| credential.endpoint.eq_ignore_ascii_case(name))
        .map(|credential| {
            let objects = context
                .hubs
                .credentials
                .by(&reference_index("endpoint", namespace, name));
            let object = objects
                .iter()
                .find(|c| c.name_any().eq_ignore_ascii_case(&credential.name));
            object.map_or_else(
                || format!("credentials {:?} in GARM", credential.name),
                |c| format!("GitHubCredential {namespace}/{}", c.name_any()),
            )
        })
        .collect();
    names.sort();
    names
}
