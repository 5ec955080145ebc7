//! The webhook on GitHub that `spec.installWebhook` asks for. Its troubles stay its own: entity and pools go on without it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use crate::api::condition::{Conditions, Truth, find, reasons, types};
use crate::api::{event, meta};
use crate::controllers::Context;
use crate::controllers::driver::Effect;
use crate::garm;
use crate::garm::wire::EntityKind;

/// What is known of an object's webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Webhook {
    /// Whether the object asks for one.
    pub wanted: bool,
    /// Id of the one that was installed for this object; only that one is ever removed.
    pub ours: Option<String>,
    /// Whether this spec is known to be served by one that was there before.
    pub foreign: bool,
    /// What went wrong at the last try of this pass.
    pub failure: Option<String>,
    /// Until the next try, after one that failed; none is made before.
    pub retry: Option<Duration>,
}

/// What to do about a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Install it unless there is one.
    Install,
    /// Remove the one that is ours.
    Remove,
}

impl Webhook {
    /// Reads what annotation and condition say.
    pub fn read(
        wanted: bool,
        metadata: &ObjectMeta,
        conditions: &[Condition],
        retry: Option<Duration>,
    ) -> Self {
        let told = find(conditions, types::WEBHOOK_INSTALLED).filter(|condition| {
            condition.status == Truth::True.as_str()
                && condition.observed_generation == metadata.generation
        });
        let ours = meta::annotation(metadata, meta::WEBHOOK_ID).map(str::to_owned);
        Self {
            foreign: ours.is_none() && told.is_some(),
            wanted,
            ours,
            failure: None,
            retry,
        }
    }

    /// Decides what to do while the object lives. Pure.
    pub fn action(&self) -> Option<Action> {
        match (self.wanted, &self.ours) {
            _ if self.retry.is_some() => None,
            (true, None) if !self.foreign => Some(Action::Install),
            (false, Some(_)) => Some(Action::Remove),
            _ => None,
        }
    }

    /// Sets the condition, or takes it away from an object that neither asks for a webhook nor has one.
    pub fn show(&self, conditions: &mut Conditions) {
        let type_ = types::WEBHOOK_INSTALLED;
        match (&self.failure, self.wanted) {
            (Some(failure), _) => conditions.set(
                type_,
                Truth::False,
                reasons::WEBHOOK_FAILED,
                failure.clone(),
            ),
            (None, true) if self.ours.is_some() => {
                conditions.set(type_, Truth::True, reasons::WEBHOOK_INSTALLED, "")
            }
            (None, true) if self.foreign => conditions.set(
                type_,
                Truth::True,
                reasons::WEBHOOK_INSTALLED,
                "a webhook that was there before is used, and never removed by the operator",
            ),
            // No try was due: what the last one found still holds.
            (None, true) => return,
            (None, false) if self.ours.is_some() => return,
            (None, false) => conditions.remove(type_),
        };
    }
}

/// When webhooks that failed are tried again, by the uid of their objects.
#[derive(Default)]
pub struct Tries(Mutex<HashMap<String, (Instant, u32)>>);

impl Tries {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Instant, u32)>> {
        // A panic while the lock was held leaves a map that is still whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells until when to wait; `None` when a try is due.
    pub fn wait(&self, uid: &str) -> Option<Duration> {
        let at = self.lock().get(uid)?.0;
        Some(at.saturating_duration_since(Instant::now())).filter(|wait| !wait.is_zero())
    }

    /// Notes a failure; answers until when to wait.
    fn failed(&self, uid: &str, base: Duration, cap: Duration) -> Duration {
        let mut tries = self.lock();
        let (at, failures) = tries
            .entry(uid.to_owned())
            .or_insert_with(|| (Instant::now(), 0));
        let delay = base.saturating_mul(1 << (*failures).min(16)).min(cap);
        *failures += 1;
        *at = Instant::now() + delay;
        delay
    }

    /// Forgets an object: its webhook is in order, or it is gone.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }
}

/// Does what was decided. A failure goes into `webhook` and ends there.
pub async fn act(
    context: &Context,
    tries: &Tries,
    uid: &str,
    (kind, id): (EntityKind, &str),
    webhook: &mut Webhook,
    action: Action,
) -> Effect {
    let result = match action {
        Action::Install => install(context, kind, id, webhook).await,
        Action::Remove => match context.garm.uninstall_webhook(kind, id).await {
            Ok(()) | Err(garm::Error::NotFound) => {
                webhook.ours = None;
                Ok(Effect {
                    annotations: vec![(meta::WEBHOOK_ID, None)],
                    ..Effect::told(event::INFO, "the webhook was removed from GitHub")
                })
            }
            Err(error) => Err(error),
        },
    };
    match result {
        Ok(effect) => {
            tries.forget(uid);
            effect
        }
        Err(error) => {
            let (base, cap) = (
                context.timings.backoff_base * 10,
                context.timings.backoff_cap,
            );
            webhook.retry = Some(tries.failed(uid, base, cap));
            webhook.failure = Some(explain(&error));
            Effect::default()
        }
    }
}

async fn install(
    context: &Context,
    kind: EntityKind,
    id: &str,
    webhook: &mut Webhook,
) -> Result<Effect, garm::Error> {
    match context.garm.webhook(kind, id).await {
        Ok(_) => {
            webhook.foreign = true;
            return Ok(Effect::default());
        }
        Err(garm::Error::NotFound) => {}
        Err(error) => return Err(error),
    }
    let hook = context.garm.install_webhook(kind, id).await?;
    let number = hook.id.to_string();
    webhook.ours = Some(number.clone());
    Ok(Effect {
        annotations: vec![(meta::WEBHOOK_ID, Some(number))],
        stamped: true,
        ..Effect::told(event::INFO, "a webhook was installed on GitHub")
    })
}

/// Says what keeps a webhook from being installed or removed, and what to do.
fn explain(error: &garm::Error) -> String {
    match error {
        garm::Error::NoRoute { .. } => {
            "GARM does not manage webhooks: set enable_webhook_management in its configuration, or install the webhook by hand".to_owned()
        }
        garm::Error::Conflict { details } => {
            format!("GitHub has a webhook on GARM's host that GARM does not take for its own ({details}); remove it, or clear spec.installWebhook")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook(wanted: bool, ours: Option<&str>, foreign: bool) -> Webhook {
        Webhook {
            wanted,
            ours: ours.map(str::to_owned),
            foreign,
            failure: None,
            retry: None,
        }
    }

    #[test]
    fn only_our_own_webhook_is_ever_removed() {
        for (state, action) in [
            (webhook(true, None, false), Some(Action::Install)),
            (webhook(true, Some("1"), false), None),
            (webhook(true, None, true), None),
            (webhook(false, Some("1"), false), Some(Action::Remove)),
            (webhook(false, None, false), None),
            (webhook(false, None, true), None),
        ] {
            assert_eq!(state.action(), action, "{state:?}");
            let waiting = Webhook {
                retry: Some(Duration::from_secs(1)),
                ..state
            };
            assert_eq!(waiting.action(), None);
        }
    }

    #[test]
    fn failures_are_tried_again_ever_later() {
        let tries = Tries::default();
        let (base, cap) = (Duration::from_secs(10), Duration::from_secs(300));
        assert_eq!(tries.wait("u"), None);
        let delays: Vec<u64> = (0..7)
            .map(|_| tries.failed("u", base, cap).as_secs())
            .collect();
        assert_eq!(delays, [10, 20, 40, 80, 160, 300, 300]);
        assert!(tries.wait("u").is_some() && tries.wait("other").is_none());
        tries.forget("u");
        assert_eq!(tries.wait("u"), None);
    }
}
