//! Conditions: their types and reasons, and the one place that decides what is written into the list.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// Condition types.
pub mod types {
    /// Everything the object asks for is done.
    pub const READY: &str = "Ready";
    /// The Image of a Pool.
    pub const IMAGE_REFERENCE: &str = "ImageReference";
    /// The Repository, Organization or Enterprise of a Pool.
    pub const SCOPE_REFERENCE: &str = "ScopeReference";
    /// GARM's pool manager of a Repository, Organization or Enterprise.
    pub const POOL_MANAGER: &str = "PoolManager";
    /// The Secret an object names: webhook secret, token or key, CA bundle.
    pub const WEBHOOK_SECRET_REFERENCE: &str = "WebhookSecretReference";
    /// The GitHubCredential of a Repository, Organization or Enterprise.
    pub const GITHUB_CREDENTIALS_REFERENCE: &str = "GithubCredentialsReference";
    /// The GitHubEndpoint of a GitHubCredential.
    pub const GITHUB_ENDPOINT_REFERENCE: &str = "GithubEndpointReference";
    /// The webhook on GitHub that `spec.installWebhook` asks for.
    pub const WEBHOOK_INSTALLED: &str = "WebhookInstalled";
    /// The object is paused by its annotation.
    pub const PAUSED: &str = "Paused";
    /// Another Pool of the namespace has the same effective spec.
    pub const DUPLICATE_POOL: &str = "DuplicatePoolFound";
    /// Runners of a Pool that the provider failed to create.
    pub const FAILED_RUNNERS: &str = "FailedRunners";
}

/// Condition reasons.
pub mod reasons {
    /// All is as the spec says.
    pub const RECONCILE_SUCCESS: &str = "ReconcileSuccess";
    /// The object could not be brought to what its spec says.
    pub const RECONCILE_ERROR: &str = "ReconcileError";
    /// The object is being deleted.
    pub const DELETING: &str = "Deleting";
    /// Deletion met an error and goes on trying.
    pub const DELETION_FAILED: &str = "DeletionFailed";
    /// GARM refused or failed a call.
    pub const GARM_API_ERROR: &str = "GarmAPIError";
    /// Nothing is known yet.
    pub const UNKNOWN_REASON: &str = "UnknownReason";
    /// The Image exists.
    pub const FETCHING_IMAGE_REF_SUCCESS: &str = "FetchingImageRefSuccess";
    /// The Image does not exist.
    pub const FETCHING_IMAGE_REF_FAILED: &str = "FetchingImageRefFailed";
    /// The scope object exists.
    pub const FETCHING_SCOPE_REF_SUCCESS: &str = "FetchingScopeRefSuccess";
    /// The scope object does not exist.
    pub const FETCHING_SCOPE_REF_FAILED: &str = "FetchingScopeRefFailed";
    /// The scope object has no id in GARM yet.
    pub const SCOPE_REF_NOT_READY: &str = "ScopeRefNotReady";
    /// GARM's pool manager runs.
    pub const POOL_MANAGER_RUNNING: &str = "PoolManagerRunning";
    /// GARM's pool manager does not run; the message is GARM's own reason.
    pub const POOL_MANAGER_FAILURE: &str = "PoolManagerFailure";
    /// GARM cannot delete because the pool manager does not run.
    pub const POOL_MANAGER_NOT_RUNNING: &str = "PoolManagerNotRunning";
    /// The Secret and its key exist.
    pub const FETCHING_WEBHOOK_SECRET_REF_SUCCESS: &str = "FetchingWebhookSecretRefSuccess";
    /// The Secret or its key does not exist.
    pub const FETCHING_WEBHOOK_SECRET_REF_FAILED: &str = "FetchingWebhookSecretRefFailed";
    /// The GitHubCredential is usable.
    pub const GITHUB_CREDENTIALS_REF_SUCCESS: &str = "GithubCredentialsRefSuccess";
    /// The GitHubCredential is missing or not usable.
    pub const GITHUB_CREDENTIALS_REF_FAILED: &str = "GithubCredentialsRefFailed";
    /// The GitHubEndpoint is usable.
    pub const FETCHING_GITHUB_ENDPOINT_REF_SUCCESS: &str = "FetchingGithubEndpointRefSuccess";
    /// The GitHubEndpoint is missing or not usable.
    pub const FETCHING_GITHUB_ENDPOINT_REF_FAILED: &str = "FetchingGithubEndpointRefFailed";
    /// The pool that the annotation `adopt-id` names is not taken.
    pub const ADOPTION_REFUSED: &str = "AdoptionRefused";
    /// Another Pool has the same effective spec.
    pub const DUPLICATE_POOL_FOUND: &str = "DuplicatePoolFound";
    /// Another object claims the same object in GARM and comes first.
    pub const NAME_CONFLICT: &str = "NameConflict";
    /// Another GarmServerConfig is older and gives GARM its settings.
    pub const SUPERSEDED: &str = "Superseded";
    /// GARM refuses to change an endpoint that has credentials.
    pub const ENDPOINT_IN_USE: &str = "EndpointInUse";
    /// The object is paused by its annotation.
    pub const PAUSED: &str = "Paused";
    /// Another object has to come, change or go first; its watch ends the wait.
    pub const WAITING: &str = "Waiting";
    /// Objects that use this one have to be deleted first.
    pub const WAITING_FOR_DEPENDANTS: &str = "WaitingForDependants";
    /// GARM has not been told its URLs; a GarmServerConfig does that.
    pub const WAITING_FOR_CONTROLLER_URLS: &str = "WaitingForControllerURLs";
    /// GARM cannot be reached or used at present.
    pub const WAITING_FOR_GARM: &str = "WaitingForGarm";
    /// A webhook on GitHub exists, as asked for.
    pub const WEBHOOK_INSTALLED: &str = "WebhookInstalled";
    /// The webhook on GitHub could not be installed or removed.
    pub const WEBHOOK_FAILED: &str = "WebhookFailed";
    /// A runner that works on a job is not removed.
    pub const RUNNER_BUSY: &str = "RunnerBusy";
    /// The provider failed to create some runners.
    pub const PROVIDER_FAULT: &str = "ProviderFault";
    /// The spec holds a value that cannot work.
    pub const INVALID_SPEC: &str = "InvalidSpec";
}

/// Longest message the API server accepts, in bytes.
const MESSAGE_MAX: usize = 32_768;

/// What a condition says about its aspect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It cannot be told.
    Unknown,
}

impl Truth {
    /// Spells the value as the API does.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// The conditions of one object while a pass computes them.
///
/// Starts from the stored list; what a pass does not mention stays as it was. Equal facts give an equal list, so that comparing
/// it with the stored one tells whether a write is due.
#[derive(Clone, Debug)]
pub struct Conditions {
    list: Vec<Condition>,
    generation: Option<i64>,
    now: Timestamp,
}

impl Conditions {
    /// Takes over the stored conditions. `generation` is the object's `metadata.generation`; `now` dates the changes of this pass.
    pub fn from_previous(previous: &[Condition], generation: Option<i64>, now: Timestamp) -> Self {
        // Whole seconds, as all Kubernetes clients write them.
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        Self {
            list: previous.to_vec(),
            generation,
            now,
        }
    }

    /// Sets a condition. The transition time moves only when the status does.
    pub fn set(
        &mut self,
        type_: &str,
        truth: Truth,
        reason: &str,
        message: impl Into<String>,
    ) -> &mut Self {
        let status = truth.as_str();
        let last_transition_time = match self.get(type_) {
            Some(known) if known.status == status => known.last_transition_time.clone(),
            _ => Time(self.now),
        };
        let condition = Condition {
            last_transition_time,
            message: cut(message.into()),
            observed_generation: self.generation,
            // An empty reason would make the API server refuse the whole status.
            reason: if reason.is_empty() {
                reasons::UNKNOWN_REASON
            } else {
                reason
            }
            .to_owned(),
            status: status.to_owned(),
            type_: type_.to_owned(),
        };
        match self.list.iter_mut().find(|known| known.type_ == type_) {
            Some(known) => *known = condition,
            None => self.list.push(condition),
        }
        self
    }

    /// Removes a condition that says nothing (any more).
    pub fn remove(&mut self, type_: &str) -> &mut Self {
        self.list.retain(|known| known.type_ != type_);
        self
    }

    /// Reads a condition as it stands now.
    pub fn get(&self, type_: &str) -> Option<&Condition> {
        find(&self.list, type_)
    }

    /// Ends the pass: the list in its stored order, `Ready` first, then by type.
    pub fn into_vec(mut self) -> Vec<Condition> {
        self.list.sort_by(|a, b| {
            (a.type_ != types::READY, &a.type_).cmp(&(b.type_ != types::READY, &b.type_))
        });
        self.list
    }
}

/// Finds a condition by type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Tells whether a condition is there and `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == Truth::True.as_str())
}

/// Cuts a message to what the API server accepts, never inside a character.
fn cut(mut message: String) -> String {
    let mut end = MESSAGE_MAX.min(message.len());
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.truncate(end);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn first() -> Vec<Condition> {
        let mut conditions = Conditions::from_previous(&[], Some(1), at(100));
        conditions.set(
            types::READY,
            Truth::False,
            reasons::DELETING,
            "2 runners remain",
        );
        conditions.into_vec()
    }

    #[test]
    fn keeps_transition_time_when_status_is_unchanged() {
        let mut again = Conditions::from_previous(&first(), Some(2), at(200));
        again.set(
            types::READY,
            Truth::False,
            reasons::DELETION_FAILED,
            "other",
        );
        let ready = again.get(types::READY).unwrap();
        assert_eq!(ready.last_transition_time.0, at(100));
        assert_eq!(
            (ready.reason.as_str(), ready.message.as_str()),
            (reasons::DELETION_FAILED, "other")
        );
        assert_eq!(ready.observed_generation, Some(2));
    }

    #[test]
    fn moves_transition_time_when_status_changes() {
        let mut again = Conditions::from_previous(&first(), Some(1), at(200));
        again.set(types::READY, Truth::True, reasons::RECONCILE_SUCCESS, "");
        assert_eq!(
            again.get(types::READY).unwrap().last_transition_time.0,
            at(200)
        );
    }

    #[test]
    fn equal_facts_give_an_equal_list() {
        let mut again = Conditions::from_previous(&first(), Some(1), at(200));
        again.set(
            types::READY,
            Truth::False,
            reasons::DELETING,
            "2 runners remain",
        );
        assert_eq!(again.into_vec(), first());
    }

    #[test]
    fn keeps_what_a_pass_does_not_mention_and_forgets_what_it_removes() {
        let mut again = Conditions::from_previous(&first(), Some(1), at(200));
        again
            .set(types::PAUSED, Truth::True, reasons::PAUSED, "")
            .remove(types::DUPLICATE_POOL);
        assert_eq!(again.clone().into_vec().len(), 2);
        again.remove(types::READY);
        assert_eq!(again.into_vec().len(), 1);
    }

    #[test]
    fn puts_ready_first_then_sorts_by_type() {
        let mut conditions = Conditions::from_previous(&[], None, at(1));
        for type_ in [
            types::SCOPE_REFERENCE,
            types::READY,
            types::IMAGE_REFERENCE,
            types::DUPLICATE_POOL,
        ] {
            conditions.set(type_, Truth::Unknown, "", "");
        }
        let order: Vec<_> = conditions.into_vec().into_iter().map(|c| c.type_).collect();
        assert_eq!(
            order,
            [
                "Ready",
                "DuplicatePoolFound",
                "ImageReference",
                "ScopeReference"
            ]
        );
    }

    #[test]
    fn cuts_a_long_message_at_a_character() {
        let mut conditions = Conditions::from_previous(&[], None, at(1));
        conditions.set(
            types::READY,
            Truth::False,
            reasons::GARM_API_ERROR,
            format!("a{}", "ü".repeat(MESSAGE_MAX)),
        );
        assert_eq!(
            conditions.get(types::READY).unwrap().message.len(),
            MESSAGE_MAX - 1
        );
    }

    #[test]
    fn never_writes_an_empty_reason() {
        let mut conditions = Conditions::from_previous(&[], None, at(1));
        conditions.set(types::READY, Truth::Unknown, "", "");
        assert_eq!(
            conditions.get(types::READY).unwrap().reason,
            reasons::UNKNOWN_REASON
        );
    }

    #[test]
    fn dates_changes_in_whole_seconds() {
        let now = Timestamp::from_millisecond(1_500).unwrap();
        let mut conditions = Conditions::from_previous(&[], None, now);
        conditions.set(types::READY, Truth::Unknown, "", "");
        assert_eq!(
            conditions.get(types::READY).unwrap().last_transition_time.0,
            at(1)
        );
    }
}
