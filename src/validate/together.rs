//! What objects of one set of manifests say about each other.

use std::collections::HashMap;

use super::finding;
use super::object::{Meaning, Object};
use super::report::{Finding, Severity};
use crate::api::v1beta1::Pool;
use crate::domain::duplicate::{Fingerprint, PoolImage, sentence};
use crate::domain::pool::adoption;

/// Names objects that are there twice, Pools that equal each other, and references that lead to no object of the set.
pub fn findings(objects: &[Object]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut known: HashMap<(&str, &str, &str), &Object> = HashMap::new();
    for object in objects.iter().filter(|object| !object.name.is_empty()) {
        let key = (
            object.kind.as_str(),
            object.namespace.as_str(),
            object.name.as_str(),
        );
        if let Some(first) = known.get(&key) {
            let message = format!(
                "the same object is also {}; one of them replaces the other",
                place(first)
            );
            findings.push(finding(object, Severity::Warning, "metadata.name", message));
        } else {
            known.insert(key, object);
        }
    }
    for object in objects {
        for reference in &object.references {
            let key = (
                reference.kind.as_str(),
                object.namespace.as_str(),
                reference.name.as_str(),
            );
            if !reference.name.is_empty() && !known.contains_key(&key) {
                let message = format!(
                    "{} {:?} is not among these manifests",
                    reference.kind, reference.name
                );
                let path = object.document.written(reference.path);
                findings.push(finding(object, Severity::Warning, path, message));
            }
        }
    }
    findings.extend(duplicates(objects, &known));
    findings.extend(adopted_twice(objects));
    findings
}

/// Names every Pool that asks for a pool of GARM that one before it asks for.
fn adopted_twice(objects: &[Object]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut first: HashMap<String, &Object> = HashMap::new();
    for object in objects {
        let Some(Meaning::Pool(pool)) = &object.meaning else {
            continue;
        };
        let Some(id) = adoption::wanted(&pool.metadata) else {
            continue;
        };
        match first.get(&id) {
            Some(other) if (&other.namespace, &other.name) != (&object.namespace, &object.name) => {
                let message = format!(
                    "Pool {:?} asks for the same pool of GARM ({}); it belongs to one of them",
                    other.name,
                    place(other)
                );
                findings.push(finding(object, Severity::Error, adoption::PATH, message));
            }
            Some(_) => {}
            None => {
                first.insert(id, object);
            }
        }
    }
    findings
}

fn place(object: &Object) -> String {
    format!("in {}:{}", object.document.file, object.document.line(""))
}

/// Names every Pool that equals one before it, as admission would refuse it.
fn duplicates(objects: &[Object], known: &HashMap<(&str, &str, &str), &Object>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut first: HashMap<(&str, Fingerprint, PoolImage<'_>), (&Object, &Pool)> = HashMap::new();
    for object in objects {
        let Some(Meaning::Pool(pool)) = &object.meaning else {
            continue;
        };
        let name = pool.spec.image_name.as_str();
        let image = known.get(&("Image", object.namespace.as_str(), name));
        let image = image.and_then(|object| match &object.meaning {
            Some(Meaning::Image(image)) => Some(image),
            _ => None,
        });
        let key = (
            object.namespace.as_str(),
            Fingerprint::of(&pool.spec),
            PoolImage::of(name, image),
        );
        match first.get(&key) {
            Some((other, _)) if other.name == object.name && !object.name.is_empty() => {}
            Some((other, twin)) => {
                let name = match other.name.as_str() {
                    "" => "without a name yet",
                    name => name,
                };
                let message = sentence(name, &pool.spec.image_name, &twin.spec.image_name);
                let message = format!("{message} ({})", place(other));
                findings.push(finding(object, Severity::Error, "spec", message));
            }
            None => {
                first.insert(key, (object, pool));
            }
        }
    }
    findings
}
