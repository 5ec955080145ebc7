//! What GARM holds, object by object.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use serde::Serialize;

use super::{Document, Holdings, names};
use crate::api::meta;
use crate::api::refs::{SecretKeyRef, TypedRef};
use crate::api::v1beta1::{
    Enterprise, EnterpriseSpec, GarmServerConfig, GarmServerConfigSpec, GitHubCredential,
    GitHubCredentialSpec, GitHubEndpoint, GitHubEndpointSpec, Image, ImageSpec, Organization,
    OrganizationSpec, Pool, PoolSpec, Repository, RepositorySpec,
};
use crate::domain::compare::{normal_balancer, normal_extra_specs, normal_runner_group};
use crate::domain::pool::{DEFAULT_PREFIX, marked_uid};
use crate::domain::scope::kind_name;
use crate::garm::wire::{self, EntityKind};

/// Folder of the Secrets that somebody has to fill in.
pub const SECRETS: &str = "secrets";

/// Keys of the Secrets, as the Go operator's samples spell them.
const TOKEN: &str = "token";
const WEBHOOK_SECRET: &str = "webhookSecret";
const CA_BUNDLE: &str = "caCertBundle";

/// Describes everything as files; answers what cannot be described as well.
///
/// # Errors
/// Fails when an object cannot be written as YAML.
pub fn describe(
    holdings: &Holdings,
    namespace: Option<&str>,
) -> anyhow::Result<(Vec<Document>, Vec<String>)> {
    let mut writer = Writer {
        namespace: namespace.map(str::to_owned),
        documents: Vec::new(),
        left_out: Vec::new(),
    };
    writer.server_config(&holdings.controller)?;
    let endpoints = writer.endpoints(&holdings.endpoints)?;
    let credentials = writer.credentials(&holdings.credentials, &endpoints)?;
    let scopes = writer.entities(&holdings.entities, &credentials)?;
    writer.pools(&holdings.pools, &scopes)?;
    Ok((writer.documents, writer.left_out))
}

/// What has been written so far. Maps from GARM's names to those of objects say what the rest may refer to.
struct Writer {
    namespace: Option<String>,
    documents: Vec<Document>,
    left_out: Vec<String>,
}

/// An entity's object: kind and name.
type ScopeName = (EntityKind, String);

impl Writer {
    fn metadata(&self, name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: self.namespace.clone(),
            ..ObjectMeta::default()
        }
    }

    /// Adds a file with an object in it.
    fn object(
        &mut self,
        folder: &str,
        name: &str,
        comment: &str,
        object: &impl Serialize,
    ) -> anyhow::Result<()> {
        let path = match folder {
            "" => format!("{name}.yaml"),
            folder => format!("{folder}/{name}.yaml"),
        };
        let yaml = serde_saphyr::to_string(object)?;
        let comment = comment.replace('\n', "\n# ");
        self.documents.push(Document {
            path,
            text: format!("# {comment}\n{yaml}"),
            is_filled_in: folder == SECRETS,
        });
        Ok(())
    }

    /// Adds an empty Secret for what GARM never shows.
    fn placeholder(&mut self, reference: &SecretKeyRef, what: &str) -> anyhow::Result<()> {
        let secret = self.secret(reference, "");
        let comment = format!(
            "Fill in {what}, which GARM never shows.\nWhile it is empty the operator waits, and GARM keeps what it has."
        );
        self.object(SECRETS, &reference.name, &comment, &secret)
    }

    fn secret(&self, reference: &SecretKeyRef, value: &str) -> Secret {
        Secret {
            metadata: self.metadata(&reference.name),
            string_data: Some([(reference.key.clone(), value.to_owned())].into()),
            ..Secret::default()
        }
    }

    fn server_config(&mut self, controller: &wire::Controller) -> anyhow::Result<()> {
        let object = GarmServerConfig {
            metadata: self.metadata("garm"),
            spec: GarmServerConfigSpec {
                metadata_url: some(&controller.metadata_url),
                callback_url: some(&controller.callback_url),
                webhook_url: some(&controller.webhook_url),
                minimum_job_age_backoff: Some(controller.minimum_job_age_backoff),
            },
            status: None,
        };
        let comment = format!(
            "GARM's own settings (controller {}).",
            controller.controller_id
        );
        self.object("", "garm-server-config", &comment, &object)
    }

    fn endpoints(
        &mut self,
        endpoints: &[wire::Endpoint],
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let mut known = BTreeMap::new();
        for endpoint in endpoints {
            let Some(name) = self.free_name("endpoint", &endpoint.name) else {
                continue;
            };
            let bundle = String::from_utf8_lossy(&endpoint.ca_cert_bundle).into_owned();
            let reference = (!bundle.is_empty()).then(|| SecretKeyRef {
                name: format!("{name}-ca"),
                key: CA_BUNDLE.to_owned(),
            });
            if let Some(reference) = &reference {
                let secret = self.secret(reference, &bundle);
                let comment = format!("The CA certificates of the endpoint {:?}.", endpoint.name);
                self.object("endpoints", &reference.name, &comment, &secret)?;
            }
            let object = GitHubEndpoint {
                metadata: self.metadata(&name),
                spec: GitHubEndpointSpec {
                    description: some(&endpoint.description),
                    api_base_url: some(&endpoint.api_base_url),
                    upload_base_url: some(&endpoint.upload_base_url),
                    base_url: some(&endpoint.base_url),
                    ca_cert_bundle_secret_ref: reference,
                },
                status: None,
            };
            let comment = format!("The endpoint {:?} of GARM.", endpoint.name);
            self.object("endpoints", &name, &comment, &object)?;
            known.insert(endpoint.name.to_lowercase(), name);
        }
        Ok(known)
    }

    fn credentials(
        &mut self,
        credentials: &[wire::Credential],
        endpoints: &BTreeMap<String, String>,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let mut known = BTreeMap::new();
        for credential in credentials {
            let Some(endpoint) = endpoints.get(&credential.endpoint.to_lowercase()) else {
                self.left_out.push(format!(
                    "the credentials {:?}: no object describes their endpoint {:?}",
                    credential.name, credential.endpoint
                ));
                continue;
            };
            let Some(name) = self.free_name("credentials", &credential.name) else {
                continue;
            };
            let secret = SecretKeyRef {
                name: format!("{name}-{TOKEN}"),
                key: TOKEN.to_owned(),
            };
            let is_app = credential.auth_type == "app";
            let what = if is_app {
                "the private key of the GitHub App (PEM, BEGIN RSA PRIVATE KEY)"
            } else {
                "the token"
            };
            self.placeholder(
                &secret,
                &format!("{what} of the credentials {:?}", credential.name),
            )?;
            let fill_in = if is_app {
                "\nFill in spec.appId and spec.installationId, which GARM does not show."
            } else {
                ""
            };
            let object = GitHubCredential {
                metadata: self.metadata(&name),
                spec: GitHubCredentialSpec {
                    description: credential.description.clone(),
                    endpoint_ref: TypedRef::new("GitHubEndpoint", endpoint),
                    auth_type: credential.auth_type.clone(),
                    app_id: None,
                    installation_id: None,
                    secret_ref: Some(secret),
                },
                status: None,
            };
            let comment = format!("The credentials {:?} of GARM.{fill_in}", credential.name);
            self.object("credentials", &name, &comment, &object)?;
            known.insert(credential.name.to_lowercase(), name);
        }
        Ok(known)
    }

    fn entities(
        &mut self,
        entities: &[wire::Entity],
        credentials: &BTreeMap<String, String>,
    ) -> anyhow::Result<BTreeMap<String, ScopeName>> {
        let mut known = BTreeMap::new();
        let mut taken: BTreeSet<ScopeName> = BTreeSet::new();
        for entity in entities {
            let told = told(entity);
            let Some(credential) = credentials.get(&entity.credentials_name.to_lowercase()) else {
                self.left_out.push(format!(
                    "{told}: no object describes its credentials {:?}",
                    entity.credentials_name
                ));
                continue;
            };
            let Some(name) = names::by_name(&entity.name) else {
                self.left_out.push(no_name(&told));
                continue;
            };
            if !taken.insert((entity.kind, name.clone())) {
                self.left_out.push(format!(
                    "{told}: another {} of this name is described already, and objects of one namespace have one name each",
                    entity.kind.word()
                ));
                continue;
            }
            self.entity(entity, &name, credential)?;
            known.insert(entity.id.clone(), (entity.kind, name));
        }
        Ok(known)
    }

    fn entity(
        &mut self,
        entity: &wire::Entity,
        name: &str,
        credential: &str,
    ) -> anyhow::Result<()> {
        let told = told(entity);
        let secret = SecretKeyRef {
            name: format!("{}-{name}-webhook", entity.kind.word()),
            key: WEBHOOK_SECRET.to_owned(),
        };
        self.placeholder(&secret, &format!("the webhook secret of {told}"))?;
        let comment = format!("{} of GARM.", capital(&told));
        let metadata = self.metadata(name);
        let credentials_ref = TypedRef::new("GitHubCredential", credential);
        let balancer = match normal_balancer(&entity.pool_balancing_type) {
            "roundrobin" => None,
            other => Some(other.to_owned()),
        };
        let folder = entity.kind.path();
        match entity.kind {
            EntityKind::Repository => {
                let object = Repository {
                    metadata,
                    spec: RepositorySpec {
                        owner: entity.owner.clone(),
                        credentials_ref,
                        webhook_secret_ref: secret,
                        pool_balancer_type: balancer,
                        install_webhook: None,
                    },
                    status: None,
                };
                self.object(folder, name, &comment, &object)
            }
            EntityKind::Organization => {
                let object = Organization {
                    metadata,
                    spec: OrganizationSpec {
                        credentials_ref,
                        webhook_secret_ref: secret,
                        pool_balancer_type: balancer,
                        install_webhook: None,
                    },
                    status: None,
                };
                self.object(folder, name, &comment, &object)
            }
            EntityKind::Enterprise => {
                let object = Enterprise {
                    metadata,
                    spec: EnterpriseSpec {
                        credentials_ref,
                        webhook_secret_ref: secret,
                        pool_balancer_type: balancer,
                    },
                    status: None,
                };
                self.object(folder, name, &comment, &object)
            }
        }
    }

    fn pools(
        &mut self,
        pools: &[wire::Pool],
        scopes: &BTreeMap<String, ScopeName>,
    ) -> anyhow::Result<()> {
        let mut described = Vec::new();
        for pool in pools {
            let scope = pool.scope().and_then(|(_, id)| scopes.get(id));
            match (scope, why_not(pool)) {
                (Some(scope), None) => described.push((pool, scope)),
                (_, Some(why)) => self.left_out.push(format!("the pool {}: {why}", pool.id)),
                (None, None) => self.left_out.push(format!(
                    "the pool {}: no object describes what it belongs to",
                    pool.id
                )),
            }
        }
        let images = names::of_images(described.iter().map(|(pool, _)| pool.image.as_str()));
        for (tag, name) in &images {
            let object = Image {
                metadata: self.metadata(name),
                spec: ImageSpec {
                    tag: Some(tag.clone()),
                },
            };
            self.object(
                "images",
                name,
                &format!("The image {tag:?} of pools of GARM."),
                &object,
            )?;
        }
        for (pool, scope) in described {
            let image = images.get(&pool.image).map(String::as_str);
            self.pool(pool, scope, image.unwrap_or_default())?;
        }
        Ok(())
    }

    fn pool(&mut self, pool: &wire::Pool, scope: &ScopeName, image: &str) -> anyhow::Result<()> {
        let (kind, scope) = scope;
        let name = names::of_pool(scope, pool);
        let mut metadata = self.metadata(&name);
        metadata.annotations = Some([(meta::ADOPT_ID.to_owned(), pool.id.clone())].into());
        let specs = normal_extra_specs(pool.extra_specs.as_ref());
        let object = Pool {
            metadata,
            spec: PoolSpec {
                github_scope_ref: TypedRef::new(kind_name(*kind), scope),
                provider_name: pool.provider_name.clone(),
                image_name: image.to_owned(),
                flavor: pool.flavor.clone(),
                os_type: pool.os_type.clone(),
                os_arch: pool.os_arch.clone(),
                tags: pool.tags.clone(),
                enabled: pool.enabled,
                max_runners: pool.max_runners,
                min_idle_runners: pool.min_idle_runners,
                runner_bootstrap_timeout: pool.runner_bootstrap_timeout,
                extra_specs: specs.map(ToString::to_string),
                github_runner_group: some(normal_runner_group(&pool.github_runner_group)),
                runner_prefix: some(&pool.runner_prefix).filter(|prefix| prefix != DEFAULT_PREFIX),
                priority: Some(pool.priority).filter(|priority| *priority != 0),
            },
            status: None,
        };
        let comment = format!(
            "A pool of the {} {scope:?} in GARM. The annotation has this object take the pool over; other names are as good.",
            kind.word()
        );
        self.object("pools", &name, &comment, &object)
    }

    /// The name of the object for something that is known by its name only.
    fn free_name(&mut self, what: &str, name: &str) -> Option<String> {
        let found = names::by_name(name);
        if found.is_none() {
            self.left_out.push(no_name(&format!("the {what} {name:?}")));
        }
        found
    }
}

/// Why no object can stand for a pool.
fn why_not(pool: &wire::Pool) -> Option<&'static str> {
    if marked_uid(&pool.runner_prefix).is_some() {
        return Some("an operator is about to make it for an object");
    }
    if pool.image.is_empty() {
        return Some("it has no image");
    }
    let specs = normal_extra_specs(pool.extra_specs.as_ref());
    specs
        .is_some_and(|specs| !specs.is_object())
        .then_some("its extra specs are no JSON object")
}

fn told(entity: &wire::Entity) -> String {
    let owner = match entity.owner.as_str() {
        "" => String::new(),
        owner => format!("{owner}/"),
    };
    format!(
        "the {} {owner}{} on {:?}",
        entity.kind.word(),
        entity.name,
        entity.endpoint
    )
}

fn no_name(told: &str) -> String {
    format!("{told}: objects have names of lower-case letters, digits, '-' and '.' only")
}

fn capital(text: &str) -> String {
    text.replacen("the ", "The ", 1)
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
