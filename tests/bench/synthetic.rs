//! Instances that GARM does not have: more, and faster, than its SQLite bears.
//!
//! The proxy before GARM answers about them in GARM's place and tells of them on the events socket. To the operator they are as real as
//! others; only their number is out of GARM's reach.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use garm_operator_ground::{
    Garm,
    proxy::{Fault, Frame, Matcher},
};
use http::{Method, StatusCode};
use serde_json::{Value, json};

const INSTANCES: &str = "/api/v1/instances";

/// The instances there are.
#[derive(Clone, Default)]
pub struct Synthetic(Arc<Mutex<BTreeMap<String, Value>>>);

impl Synthetic {
    /// Has the proxy before GARM answer about these instances and no others.
    pub fn stand_in(&self, garm: &Garm) {
        let matcher = Matcher::any().method(Method::GET).path_contains(INSTANCES);
        let all = self.clone();
        let answer = Fault::Answer(Arc::new(move |path| all.answer(path)));
        garm.proxy().rule(matcher, answer);
    }

    fn answer(&self, path: &str) -> Option<(StatusCode, String)> {
        let name = path.strip_prefix(INSTANCES)?.trim_matches('/');
        let all = self.lock();
        if name.is_empty() {
            let list: Vec<Value> = all.values().map(without_addresses).collect();
            return Some((StatusCode::OK, Value::from(list).to_string()));
        }
        let absent = json!({"error": "Not Found", "details": ""});
        Some(match all.get(name) {
            Some(instance) => (StatusCode::OK, instance.to_string()),
            None => (StatusCode::NOT_FOUND, absent.to_string()),
        })
    }

    /// Adds an idle instance, silently.
    pub fn add(&self, number: usize, pool: &str) {
        let instance = instance(number, pool, "running", "idle");
        self.lock().insert(name(number), instance);
    }

    /// Adds or changes an instance, and tells of it.
    pub fn put(&self, garm: &Garm, number: usize, pool: &str, status: &str, runner: &str) {
        let instance = instance(number, pool, status, runner);
        let before = self.lock().insert(name(number), instance.clone());
        tell(garm, before.map_or("create", |_| "update"), &instance);
    }

    /// Takes an instance away, and tells of it.
    pub fn remove(&self, garm: &Garm, number: usize) {
        if let Some(instance) = self.lock().remove(&name(number)) {
            let rest = json!({"id": instance["id"], "name": instance["name"], "pool_id": instance["pool_id"]});
            tell(garm, "delete", &rest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name(number: usize) -> String {
    format!("garm-bench{number:07}")
}

fn tell(garm: &Garm, operation: &str, payload: &Value) {
    let event = json!({"entity-type": "instance", "operation": operation, "payload": payload});
    garm.proxy().slip_frame(Frame::Text(event.to_string()));
}

/// Lists of instances leave addresses out.
fn without_addresses(instance: &Value) -> Value {
    let mut instance = instance.clone();
    if let Some(fields) = instance.as_object_mut() {
        fields.remove("addresses");
        fields.remove("status_messages");
    }
    instance
}

/// An instance as GARM shows it.
fn instance(number: usize, pool: &str, status: &str, runner: &str) -> Value {
    let now = k8s_openapi::jiff::Timestamp::now().to_string();
    json!({
        "id": format!("00000000-0000-4000-8000-{number:012}"),
        "provider_id": format!("fake-{}", name(number)), "provider_name": "fake", "agent_id": number + 1,
        "name": name(number), "os_type": "linux", "os_name": "ubuntu", "os_version": "24.04", "os_arch": "amd64",
        "addresses": [{"address": "192.0.2.10", "type": "private"}],
        "status": status, "runner_status": runner, "pool_id": pool,
        "created_at": now, "updated_at": now, "generation": 0,
        "status_messages": [{"created_at": now, "message": "runner successfully installed", "event_type": "status", "event_level": "info"}],
    })
}
