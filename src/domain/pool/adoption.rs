//! Whether an object may take a pool that GARM holds already. It says by an annotation which one; nothing is ever taken by its looks.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::meta::{ADOPT_ID, annotation};
use crate::domain::field::FieldError;
use crate::domain::pool::marked_uid;
use crate::domain::scope::kind_name;
use crate::garm::wire::{EntityKind, Pool};

/// The form of an id, for messages.
const FORM: &str = "must be the id of a pool in GARM, such as 9a6b8c1e-5b7d-4f5e-8d3a-2f1e0c9b8a77";

/// Path of the annotation in messages.
pub const PATH: &str = "metadata.annotations[garm-operator.mercedes-benz.com/adopt-id]";

/// Index value under which Pools are found that ask for the pool of this id.
pub fn adopt_index(id: &str) -> String {
    format!("adopt:{id}")
}

/// The id that the object asks for, in GARM's own spelling.
pub fn wanted(metadata: &ObjectMeta) -> Option<String> {
    annotation(metadata, ADOPT_ID).map(|id| id.trim().to_lowercase())
}

/// Refuses an annotation that cannot be the id of a pool.
pub fn fault(value: &str) -> Option<FieldError> {
    let groups: Vec<&str> = value.trim().split('-').collect();
    let is_hex = |group: &&str| group.bytes().all(|byte| byte.is_ascii_hexdigit());
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let is_id = lengths == [8, 4, 4, 4, 12] && groups.iter().all(is_hex);
    (!is_id).then(|| FieldError::invalid(PATH, value, FORM))
}

/// What is known of the pool that an object asks for.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The id, as the object gives it.
    pub id: String,
    /// What GARM says of it just now; `None` when it has no such pool.
    pub pool: Option<Box<Pool>>,
    /// The object that has it, or that asks for it as well and comes first: namespace and name.
    pub holder: Option<String>,
}

impl Candidate {
    /// Says why the pool is not taken for an object with this scope and provider; `None` when it may be. Whatever can be updated may differ:
    /// that is an update like any other.
    pub fn refusal(&self, scope: (EntityKind, &str), provider: &str) -> Option<String> {
        let id = &self.id;
        if let Some(fault) = fault(id) {
            return Some(fault.to_string());
        }
        if let Some(holder) = &self.holder {
            return Some(format!(
                "Pool {holder} has the pool {id} of GARM or comes first; a pool belongs to one object"
            ));
        }
        let Some(pool) = &self.pool else {
            return Some(format!(
                "GARM has no pool {id}; correct the annotation adopt-id, or remove it to have a new pool made"
            ));
        };
        if marked_uid(&pool.runner_prefix).is_some() {
            return Some(format!(
                "the pool {id} is being made for another object; correct the annotation adopt-id"
            ));
        }
        match pool.scope() {
            Some(found) if found == scope => {}
            Some((kind, owner)) => {
                return Some(format!(
                    "the pool {id} belongs to the {} {owner} in GARM, and spec.githubScopeRef leads to the {} {}; GARM cannot move a pool",
                    kind.word(),
                    scope.0.word(),
                    scope.1
                ));
            }
            None => {
                return Some(format!(
                    "GARM does not say to which {} the pool {id} belongs",
                    kind_name(scope.0)
                ));
            }
        }
        (pool.provider_name != provider).then(|| {
            format!(
                "the pool {id} has the provider {:?} and spec.providerName is {provider:?}; GARM cannot change that",
                pool.provider_name
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::pool::marker;

    const ID: &str = "9a6b8c1e-5b7d-4f5e-8d3a-2f1e0c9b8a77";
    const SCOPE: (EntityKind, &str) = (EntityKind::Organization, "o");

    fn candidate() -> Candidate {
        Candidate {
            id: ID.to_owned(),
            pool: Some(Box::new(Pool {
                id: ID.to_owned(),
                org_id: "o".to_owned(),
                provider_name: "lxd".to_owned(),
                runner_prefix: "garm".to_owned(),
                ..Pool::default()
            })),
            holder: None,
        }
    }

    fn with(change: impl FnOnce(&mut Pool)) -> Candidate {
        let mut candidate = candidate();
        change(candidate.pool.as_mut().unwrap());
        candidate
    }

    #[test]
    fn takes_a_pool_of_the_same_scope_and_provider_whatever_else_differs() {
        assert_eq!(candidate().refusal(SCOPE, "lxd"), None);
        let other = with(|pool| {
            pool.image = "other".to_owned();
            pool.max_runners = 99;
            pool.enabled = true;
        });
        assert_eq!(other.refusal(SCOPE, "lxd"), None);
    }

    #[test]
    fn says_why_a_pool_is_not_taken() {
        let held = Candidate {
            holder: Some("ns/first".to_owned()),
            ..candidate()
        };
        let gone = Candidate {
            pool: None,
            ..candidate()
        };
        let form = Candidate {
            id: "small".to_owned(),
            ..candidate()
        };
        let being_made =
            with(|pool| pool.runner_prefix = marker("01234567-89ab-cdef-0123-456789abcdef"));
        let elsewhere = with(|pool| pool.org_id = "other".to_owned());
        let of_repository = with(|pool| {
            pool.org_id = String::new();
            pool.repo_id = "o".to_owned();
        });
        let of_nobody = with(|pool| pool.org_id = String::new());
        let provider = with(|pool| pool.provider_name = "aws".to_owned());
        for (candidate, word) in [
            (held, "ns/first"),
            (gone, "no pool"),
            (form, "must be the id"),
            (being_made, "being made"),
            (elsewhere, "organization other"),
            (of_repository, "repository o"),
            (of_nobody, "does not say"),
            (provider, "\"aws\""),
        ] {
            let refusal = candidate.refusal(SCOPE, "lxd").unwrap();
            assert!(refusal.contains(word), "{refusal}");
        }
    }

    #[test]
    fn only_an_id_is_an_id() {
        for good in [ID, &ID.to_uppercase(), &format!(" {ID} ")] {
            assert_eq!(fault(good), None, "{good}");
        }
        for bad in [
            "",
            "true",
            "9a6b8c1e",
            &ID.replace('-', ""),
            &ID.replace('9', "x"),
        ] {
            assert_eq!(fault(bad).unwrap().path, PATH, "{bad}");
        }
    }

    #[test]
    fn the_id_is_read_as_garm_spells_it() {
        let metadata = |value: &str| ObjectMeta {
            annotations: Some([(ADOPT_ID.to_owned(), value.to_owned())].into()),
            ..ObjectMeta::default()
        };
        assert_eq!(wanted(&ObjectMeta::default()), None);
        let id = wanted(&metadata(&format!("{} ", ID.to_uppercase())));
        assert_eq!(id.as_deref(), Some(ID));
    }
}
