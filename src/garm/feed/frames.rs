//! Reads events. They are hints: the mirror decides what they are worth.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::super::handle::Shared;
use super::super::mirror::Mirrored;
use super::super::wire::{Controller, Credential, Endpoint, Entity, EntityKind, Instance, Pool};

/// What an event is about.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Head {
    entity_type: String,
    operation: String,
}

/// What an event carries.
#[derive(Deserialize)]
struct Body<T> {
    payload: T,
}

/// Takes in an event. One of a kind that we do not keep, or that cannot be read, does nothing.
pub(super) fn take(shared: &Shared, text: &str) {
    shared.heard_event();
    let Ok(head) = serde_json::from_str::<Head>(text) else {
        tracing::debug!("an event of GARM could not be read");
        return;
    };
    let is_delete = head.operation == "delete";
    match head.entity_type.as_str() {
        "controller" if !is_delete => heard(shared, &head, payload::<Controller>(text)),
        "github_endpoint" => {
            // Gitea's endpoints come under this name too.
            let endpoint =
                payload::<Endpoint>(text).filter(|endpoint| endpoint.endpoint_type != "gitea");
            heard(shared, &head, endpoint);
        }
        "github_credentials" => heard(shared, &head, payload::<Credential>(text)),
        "repository" => heard(shared, &head, entity(text, EntityKind::Repository)),
        "organization" => heard(shared, &head, entity(text, EntityKind::Organization)),
        "enterprise" => heard(shared, &head, entity(text, EntityKind::Enterprise)),
        "pool" => heard(shared, &head, payload::<Pool>(text).map(Pool::with_specs)),
        "instance" => heard(shared, &head, payload(text).map(Instance::with_addresses)),
        _ => {}
    }
}

fn heard<R: Mirrored>(shared: &Shared, head: &Head, record: Option<R>) {
    let Some(record) = record else { return };
    if head.operation == "delete" {
        let key = record.key();
        shared.change(|mirror, now| mirror.deleted::<R>(&key, now));
    } else {
        shared.change(|mirror, now| mirror.heard(record, now));
    }
}

fn entity(text: &str, kind: EntityKind) -> Option<Entity> {
    Some(Entity {
        kind,
        ..payload(text)?
    })
}

fn payload<T: DeserializeOwned>(text: &str) -> Option<T> {
    match serde_json::from_str::<Body<T>>(text) {
        Ok(body) => Some(body.payload),
        Err(error) => {
            // Without its text, which may repeat what was read.
            tracing::debug!(fault = ?error.classify(), "the payload of an event of GARM could not be read");
            None
        }
    }
}
