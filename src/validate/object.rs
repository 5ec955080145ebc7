//! One object of ours in a manifest, and what is wrong with it by itself.

use kube::CustomResourceExt as _;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::document::Document;
use super::metadata;
use super::schema::{Schemas, with_integers};
use crate::api::convert::convert;
use crate::api::meta::{ADOPT_ID, API_VERSION, API_VERSION_V1ALPHA1, GROUP, annotation};
use crate::api::v1beta1::{
    Enterprise, GarmServerConfig, GitHubCredential, GitHubEndpoint, Image, Organization, Pool,
    Repository,
};
use crate::domain::defaults::PoolDefaults;
use crate::domain::field::FieldError;
use crate::domain::judgement::{Judgement, Reference};
use crate::domain::scope::Scope;
use crate::domain::{credential, endpoint, entity, pool, server_config};

/// An object of ours.
pub struct Object {
    /// Where it is written.
    pub document: Document,
    /// Its kind.
    pub kind: String,
    /// Namespace as written; empty when it has none.
    pub namespace: String,
    /// Name as written; empty when the server shall find one.
    pub name: String,
    /// What it says in the terms of v1beta1, the defaults filled in; `None` when it says nothing that can be read.
    pub meaning: Option<Meaning>,
    /// What is wrong with it, by the paths of the version it is written in.
    pub faults: Vec<FieldError>,
    /// What is allowed and probably not meant: field and message.
    pub doubts: Vec<(String, String)>,
    /// What it refers to.
    pub references: Vec<Reference>,
}

/// What other objects have to do with an object.
#[expect(clippy::large_enum_variant, reason = "most objects are Pools")]
pub enum Meaning {
    /// A Pool.
    Pool(Pool),
    /// An Image.
    Image(Image),
    /// Something else.
    Other,
}

/// What a document is.
pub enum Sort {
    /// An object of ours.
    Ours(Box<Object>),
    /// An object of somebody else.
    Foreign,
    /// No object: it lacks a kind or a version.
    Nameless,
}

/// Judges a document by itself.
pub fn judge(document: Document, schemas: &Schemas, defaults: &PoolDefaults) -> Sort {
    let text = |field: &str| {
        document.object[field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let (version, kind) = (text("apiVersion"), text("kind"));
    if version.is_empty() || kind.is_empty() {
        return Sort::Nameless;
    }
    if version != GROUP && !version.starts_with(&format!("{GROUP}/")) {
        return Sort::Foreign;
    }
    let metadata = |field: &str| {
        let value = document.object["metadata"][field].as_str();
        value.unwrap_or_default().to_owned()
    };
    let mut object = Object {
        namespace: metadata("namespace"),
        name: metadata("name"),
        kind,
        document,
        meaning: None,
        faults: Vec::new(),
        doubts: Vec::new(),
        references: Vec::new(),
    };
    object.check_version(&version, schemas);
    if object.faults.is_empty() {
        object.check_metadata();
        object.check_spec(&version, schemas, defaults);
    }
    Sort::Ours(Box::new(object))
}

impl Object {
    fn check_version(&mut self, version: &str, schemas: &Schemas) {
        let versions = schemas.versions(&self.kind);
        let short = version.rsplit('/').next().unwrap_or_default();
        if versions.is_empty() {
            let detail = format!("{GROUP} has no such kind");
            self.faults
                .push(FieldError::invalid("kind", self.kind.as_str(), &detail));
        } else if !versions.contains(&short) {
            self.faults
                .push(FieldError::not_supported("apiVersion", short, &versions));
        } else if version == API_VERSION_V1ALPHA1 {
            let deprecated = "v1alpha1 is deprecated; use v1beta1".to_owned();
            self.doubts.push(("apiVersion".to_owned(), deprecated));
        }
    }

    /// Names what the API server would refuse of the metadata.
    fn check_metadata(&mut self) {
        let metadata = &self.document.object["metadata"];
        self.faults.extend(metadata::faults(metadata));
        let has = |field: &str| {
            metadata[field]
                .as_str()
                .is_some_and(|name| !name.is_empty())
        };
        let is_told = self
            .faults
            .iter()
            .any(|fault| fault.path.starts_with("metadata"));
        if !(has("name") || has("generateName") || is_told) {
            self.faults
                .push(FieldError::required("metadata.name", "or generateName"));
        }
    }

    fn check_spec(&mut self, version: &str, schemas: &Schemas, defaults: &PoolDefaults) {
        let mut raw = self.document.object.clone();
        with_integers(&mut raw);
        if self.kind == Pool::api_resource().kind {
            defaults.fill(&mut raw);
        }
        let short = version.rsplit('/').next().unwrap_or_default();
        let faults = schemas.faults(&self.kind, short, &raw).unwrap_or_default();
        self.faults.extend(faults);
        let Ok(object) = convert(without_status(raw), API_VERSION) else {
            // The schema has said what is missing.
            return;
        };
        let Some((meaning, judged)) = rules(&self.kind, &self.name, object) else {
            if self.faults.is_empty() && self.kind != "Runner" {
                let detail = "a field has a type that cannot be read";
                self.faults.push(FieldError::wrong_type("spec", detail));
            }
            return;
        };
        for fault in judged.faults {
            let path = self.document.written(&fault.path).to_owned();
            // What has the wrong type or is absent is told once, with all below it.
            let is_told = |known: &FieldError| {
                let below = path.strip_prefix(&known.path);
                below.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            };
            if !self.faults.iter().any(is_told) {
                self.faults.push(FieldError { path, ..fault });
            }
        }
        for doubt in judged.doubts {
            let (path, message) = doubt.split_once(": ").unwrap_or(("", &doubt));
            let path = self.document.written(path).to_owned();
            self.doubts.push((path, message.to_owned()));
        }
        self.references = judged.references;
        self.meaning = Some(meaning);
    }
}

/// Status is not applied, and one that does not fit its type must not hide the spec.
fn without_status(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        fields.entry("spec").or_insert(Value::Object(Map::new()));
    }
    object
}

/// Applies the rules of a kind; `None` when a field has the wrong type.
fn rules(kind: &str, name: &str, object: Value) -> Option<(Meaning, Judgement)> {
    let judged = match kind {
        "Pool" => {
            let pool: Pool = decode(object)?;
            let mut judged = pool::judge(None, &pool.spec);
            let adopts = annotation(&pool.metadata, ADOPT_ID).and_then(pool::adoption::fault);
            judged.faults.extend(adopts);
            return Some((Meaning::Pool(pool), judged));
        }
        "Image" => return Some((Meaning::Image(decode(object)?), Judgement::default())),
        Repository::NAME => entity::judge(None, &decode::<Repository>(object)?.view()),
        Organization::NAME => entity::judge(None, &decode::<Organization>(object)?.view()),
        Enterprise::NAME => entity::judge(None, &decode::<Enterprise>(object)?.view()),
        "GitHubCredential" => credential::judge(None, &decode::<GitHubCredential>(object)?.spec),
        "GitHubEndpoint" => endpoint::judge(name, &decode::<GitHubEndpoint>(object)?.spec),
        "GarmServerConfig" => server_config::judge(&decode::<GarmServerConfig>(object)?.spec),
        _ => return None,
    };
    Some((Meaning::Other, judged))
}

fn decode<K: DeserializeOwned>(object: Value) -> Option<K> {
    serde_json::from_value(object).ok()
}
