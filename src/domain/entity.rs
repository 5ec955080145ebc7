//! Rules about entities: what differs in GARM, and why a pool manager does not run.

use secrecy::{ExposeSecret, SecretString};

use crate::domain::compare::normal_balancer;
use crate::domain::field::FieldError;
use crate::domain::judgement::{Judgement, Reference};
use crate::domain::pushed::{Hasher, Pushed};
use crate::domain::reference::{self, secret_faults};
use crate::domain::scope::ScopeView;
use crate::garm::wire::{CreateEntity, Entity, UpdateEntity};

/// An entity as its object wants it.
#[derive(Clone, Debug)]
pub struct DesiredEntity {
    /// Owner of a repository.
    pub owner: Option<String>,
    /// Name on GitHub, the object's own name.
    pub name: String,
    /// Credentials in GARM.
    pub credentials: String,
    /// The endpoint of those credentials.
    pub endpoint: String,
    /// Secret that GitHub signs with.
    pub webhook_secret: SecretString,
    /// `roundrobin` or `pack`.
    pub balancer: String,
}

impl DesiredEntity {
    /// Renders the request that makes it.
    pub fn create(&self) -> CreateEntity {
        CreateEntity {
            owner: self.owner.clone(),
            name: self.name.clone(),
            credentials_name: self.credentials.clone(),
            webhook_secret: self.webhook_secret.clone(),
            pool_balancer_type: Some(normal_balancer(&self.balancer).to_owned()),
        }
    }

    /// What to remember once the webhook secret is known to be in GARM.
    ///
    /// Without `updated_at`: GARM moves that of an entity by itself, with each change of its pool manager.
    pub fn memory(&self, hasher: &Hasher, uid: &str, id: &str) -> Pushed {
        Pushed {
            hash: Some(hasher.hash(
                uid,
                id,
                "webhook_secret",
                self.webhook_secret.expose_secret().as_bytes(),
            )),
            updated_at: None,
        }
    }

    /// Lists what differs. The webhook secret, which GARM never shows, is sent when it is not known to be the one last sent.
    pub fn diff(&self, actual: &Entity, known: &Pushed, memory: &Pushed) -> UpdateEntity {
        let balancer = normal_balancer(&self.balancer);
        UpdateEntity {
            credentials_name: (!self
                .credentials
                .eq_ignore_ascii_case(&actual.credentials_name))
            .then(|| self.credentials.clone()),
            webhook_secret: (known.hash != memory.hash).then(|| self.webhook_secret.clone()),
            pool_balancer_type: (balancer != normal_balancer(&actual.pool_balancing_type))
                .then(|| balancer.to_owned()),
        }
    }

    /// Names what is wrong with the spec, or what GARM cannot change.
    pub fn faults(&self, actual: Option<&Entity>) -> Vec<FieldError> {
        let mut errors = check_words(self.owner.as_deref(), &self.balancer);
        if let Some(actual) = actual {
            let owner = self.owner.as_deref().unwrap_or_default();
            errors.extend(owner_fault(&actual.owner, owner));
            errors.extend(endpoint_fault(
                &self.credentials,
                &actual.endpoint,
                &self.endpoint,
            ));
        }
        errors
    }
}

/// Judges the spec of an entity that somebody writes, and what it makes of the one that was there.
pub fn judge(old: Option<&ScopeView<'_>>, view: &ScopeView<'_>) -> Judgement {
    let mut faults = faults(view);
    faults.extend(old.and_then(|old| fault_of_update(old, view)));
    let credentials = view.credentials;
    let path = "spec.credentialsRef";
    Judgement {
        faults,
        doubts: reference::doubt(path, credentials).into_iter().collect(),
        references: vec![Reference::new(path, "GitHubCredential", &credentials.name)],
    }
}

fn faults(view: &ScopeView<'_>) -> Vec<FieldError> {
    let mut errors = check_words(view.owner, view.balancer);
    if view.credentials.name.is_empty() {
        errors.push(FieldError::required("spec.credentialsRef.name", ""));
    }
    errors.extend(secret_faults("spec.webhookSecretRef", view.webhook_secret));
    errors
}

fn fault_of_update(old: &ScopeView<'_>, new: &ScopeView<'_>) -> Option<FieldError> {
    let owner = |view: &ScopeView<'_>| view.owner.unwrap_or_default().to_owned();
    owner_fault(&owner(old), &owner(new))
}

/// Refuses credentials on another endpoint than the entity's: GARM cannot move it.
pub fn endpoint_fault(credentials: &str, old: &str, new: &str) -> Option<FieldError> {
    let detail = || {
        format!(
            "these credentials are on endpoint {new:?} and this object is on {old:?}; use credentials of the same endpoint, or delete the object and make it anew"
        )
    };
    (!old.eq_ignore_ascii_case(new))
        .then(|| FieldError::invalid("spec.credentialsRef", credentials, &detail()))
}

fn owner_fault(old: &str, new: &str) -> Option<FieldError> {
    (!old.is_empty() && !new.is_empty() && !old.eq_ignore_ascii_case(new))
        .then(|| FieldError::immutable("spec.owner", old, new))
}

fn check_words(owner: Option<&str>, balancer: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let supported = ["pack", "roundrobin"];
    if !supported.contains(&normal_balancer(balancer)) {
        let path = "spec.poolBalancerType";
        errors.push(FieldError::not_supported(path, balancer, &supported));
    }
    if owner == Some("") {
        errors.push(FieldError::required("spec.owner", ""));
    }
    errors
}

/// Why an entity's pool manager does not run; `None` while it runs.
///
/// From v0.2.0 on GARM hides the cause in the entity's events, which only a read by id shows.
pub fn manager_failure(entity: &Entity) -> Option<String> {
    if entity.manager.is_running {
        return None;
    }
    let newest_error = entity
        .events
        .iter()
        .flatten()
        .filter(|event| event.event_level == "error")
        .max_by_key(|event| event.created_at);
    let reason = &entity.manager.failure_reason;
    Some(match newest_error {
        Some(event) => event.message.clone(),
        None if reason.is_empty() => "the pool manager is starting up".to_owned(),
        None => reason.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::garm::wire::EntityEvent;

    fn desired() -> DesiredEntity {
        DesiredEntity {
            owner: Some("acme".to_owned()),
            name: "tools".to_owned(),
            credentials: "pat".to_owned(),
            endpoint: "ghes".to_owned(),
            webhook_secret: SecretString::from("hook".to_owned()),
            balancer: String::new(),
        }
    }

    fn actual() -> Entity {
        Entity {
            id: "1".to_owned(),
            owner: "Acme".to_owned(),
            credentials_name: "PAT".to_owned(),
            endpoint: "ghes".to_owned(),
            pool_balancing_type: "roundrobin".to_owned(),
            ..Entity::default()
        }
    }

    #[test]
    fn nothing_is_sent_twice() {
        let hasher = Hasher::new(&SecretString::from("p".to_owned()));
        let memory = desired().memory(&hasher, "uid", "1");
        assert!(desired().diff(&actual(), &memory, &memory).is_empty());
        assert!(
            desired()
                .diff(&actual(), &Pushed::default(), &memory)
                .webhook_secret
                .is_some()
        );
        let pack = Entity {
            pool_balancing_type: "pack".to_owned(),
            ..actual()
        };
        let update = desired().diff(&pack, &memory, &memory);
        assert_eq!(update.pool_balancer_type.as_deref(), Some("roundrobin"));
        assert!(update.webhook_secret.is_none() && update.credentials_name.is_none());
    }

    #[test]
    fn faults_name_their_fields() {
        let wrong = DesiredEntity {
            balancer: "random".to_owned(),
            owner: Some(String::new()),
            endpoint: "other".to_owned(),
            ..desired()
        };
        let paths: Vec<String> = wrong
            .faults(Some(&actual()))
            .into_iter()
            .map(|e| e.path)
            .collect();
        assert_eq!(
            paths,
            ["spec.poolBalancerType", "spec.owner", "spec.credentialsRef"]
        );
        assert!(desired().faults(Some(&actual())).is_empty());
        let moved = DesiredEntity {
            owner: Some("umbrella".to_owned()),
            ..desired()
        };
        assert_eq!(moved.faults(Some(&actual()))[0].path, "spec.owner");
        assert!(moved.faults(None).is_empty());
    }

    #[test]
    fn the_newest_error_explains_a_stopped_manager() {
        let event = |second: i64, level: &str, message: &str| EntityEvent {
            created_at: jiff::Timestamp::from_second(second).ok(),
            event_level: level.to_owned(),
            message: message.to_owned(),
        };
        let mut entity = actual();
        assert_eq!(
            manager_failure(&entity).as_deref(),
            Some("the pool manager is starting up")
        );
        entity.manager.failure_reason = "fetching tools: Unauthorized".to_owned();
        assert_eq!(
            manager_failure(&entity).as_deref(),
            Some("fetching tools: Unauthorized")
        );
        entity.events = Some(vec![
            event(2, "error", "new"),
            event(1, "error", "old"),
            event(3, "info", "noise"),
        ]);
        assert_eq!(manager_failure(&entity).as_deref(), Some("new"));
        entity.manager.is_running = true;
        assert_eq!(manager_failure(&entity), None);
    }
}
