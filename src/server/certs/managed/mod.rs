//! Our own CA, for clusters without cert-manager.
//!
//! One Secret holds the CAs. Each replica reads it and signs a certificate of its own in memory, so that all of them are trusted by one bundle.
//! The leader replaces a CA before it ends, in steps: the next CA is made ([`Step::Prepare`]); the bundle with both is stored in our webhook
//! configurations and CRDs and stays there for a while; then the next CA signs ([`Step::Promote`]), and the old one stays in the bundle until it
//! has ended and the next change is made anyway. What to do is decided by [`decide`]; this shell reads, writes and waits.

mod authority;
mod bundle;
mod state;

use std::{net::IpAddr, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::PostParams, core::ObjectMeta};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use self::{
    authority::{Anchor, AuthorityError, Ca, Names},
    state::{Data, Lifetimes, State, Step, decide},
};
use crate::{
    api::install::{webhook_ca, webhook_dns_names},
    config::{Listen, WebhookConfig},
    runtime::{client::explain, lease::Leadership, pulse::Pulse},
    server::tls::{Pair, ServerCertificate},
    telemetry::metrics::Metrics,
};

pub use self::bundle::{Publisher, Stored};

/// Who our writes are by, in `managedFields`.
const MANAGER: &str = "garm-operator-certificates";

/// Why a look at the Secret led to nothing.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("the Secret {0} cannot be read or written: {1}")]
    Api(String, String),
    #[error("the Secret {0} holds no CA that works; the leader makes one")]
    NoCa(String),
    #[error("no certificate could be signed: {0}")]
    Authority(#[from] AuthorityError),
}

/// A certificate of our own and the CA that signed it.
#[derive(Debug)]
struct Leaf {
    signer: Anchor,
    /// When another takes its place.
    due: Timestamp,
}

/// Keeps a certificate that our own CA signs, and as the leader the CA.
pub struct SelfManaged {
    secrets: Api<Secret>,
    /// Namespace and name of the Secret, as it is told.
    place: String,
    name: String,
    names: Names,
    lifetimes: Lifetimes,
    poll: Duration,
    certificate: Arc<ServerCertificate>,
    metrics: Arc<Metrics>,
    leadership: watch::Receiver<Leadership>,
    /// What has to be stored; empty until there is a CA.
    wanted: watch::Sender<String>,
    /// What is stored everywhere.
    stored: watch::Receiver<Option<Stored>>,
    known: Option<State>,
    leaf: Option<Leaf>,
    trouble: Option<String>,
}

impl SelfManaged {
    /// Prepares to keep the certificate that `certificate` shows; the [`Publisher`] stores its bundle wherever it has to be.
    pub fn new(
        kube: &Client,
        config: &WebhookConfig,
        poll: Duration,
        certificate: Arc<ServerCertificate>,
        metrics: Arc<Metrics>,
        leadership: watch::Receiver<Leadership>,
    ) -> (Self, Publisher) {
        let namespace = kube.default_namespace();
        let name = webhook_ca(&config.name_prefix);
        let lifetimes = Lifetimes {
            ca: config.ca_lifetime,
            leaf: config.cert_lifetime,
            step: config.ca_step,
        };
        let (wanted, to_store) = watch::channel(String::new());
        let (publisher, stored) = Publisher::new(kube, &config.name_prefix, to_store);
        let this = Self {
            secrets: Api::default_namespaced(kube.clone()),
            place: format!("{namespace}/{name}"),
            name,
            names: names(config, namespace),
            lifetimes,
            poll: pace(poll, &lifetimes),
            certificate,
            metrics,
            leadership,
            wanted,
            stored,
            known: None,
            leaf: None,
            trouble: None,
        };
        (this, publisher)
    }

    /// Looks at the Secret and at the clock again and again; the wall clock, as machines sleep.
    pub async fn run(mut self, stop: CancellationToken, pulse: Pulse) {
        let looks = async {
            loop {
                pulse.turn();
                let again = self.look(Timestamp::now()).await;
                // Too soon would be a busy loop where somebody else keeps writing.
                let pause = if again {
                    Duration::from_millis(100)
                } else {
                    self.poll
                };
                tokio::select! {
                    () = sleep(pause) => {}
                    Ok(()) = self.leadership.changed() => {}
                }
            }
        };
        stop.run_until_cancelled(looks).await;
    }

    /// Looks once. Answers whether another look is due at once: the Secret was changed meanwhile, or the API server is so slow that the certificate
    /// has come due, which is renewed from what is known.
    async fn look(&mut self, now: Timestamp) -> bool {
        let due = self.leaf.as_ref().map(|leaf| leaf.due);
        let patience = due.and_then(|due| Duration::try_from(now.duration_until(due)).ok());
        let authorities = self.keep_authorities(now);
        let looked = match patience.filter(|patience| !patience.is_zero()) {
            Some(patience) => timeout(patience, authorities).await,
            None => Ok(authorities.await),
        };
        let (found, again, now) = match looked {
            Ok(Ok(again)) => (Ok(()), again, now),
            Ok(Err(error)) => (Err(error), false, now),
            Err(_) => (Err(self.silence()), true, due.unwrap_or(now)),
        };
        // Without the API server as well: a certificate is renewed from what is known.
        let signed = self.keep_leaf(now);
        self.note(found.and(signed));
        again
    }

    /// Brings what is known and the Secret up to date.
    async fn keep_authorities(&mut self, now: Timestamp) -> Result<bool, Trouble> {
        let found = self.secrets.get_opt(&self.name).await;
        let found = found.map_err(|error| self.api_trouble(&error))?;
        let data = found
            .as_ref()
            .and_then(|secret| secret.data.clone())
            .unwrap_or_default();
        let (read, faults) = State::read(&data);
        let state = read.or_known(self.known.as_ref(), now);
        // A fresh installation has no leader yet, and nothing that could be spoilt.
        let may_write = self.leads() || (found.is_none() && self.known.is_none());
        if !may_write {
            return self.learn(state).map(|()| false);
        }
        // Where the Secret is damaged and nothing is known of before, as in a process that has just started, this begins anew at once. Waiting would
        // only keep webhooks away for longer: nobody else mends it, since no standby may write.
        let step = decide(&state, self.stored_for(&state), now, &self.lifetimes);
        let fresh = match step {
            Step::Begin | Step::Prepare => Some(Ca::new(&self.name, now, self.lifetimes.ca)?),
            Step::Rest | Step::Promote => None,
        };
        let state = state.after(step, fresh, now);
        let desired = state.write(&data);
        if desired != data {
            if !self.write(found, desired).await? {
                return Ok(true);
            }
            if faults.is_empty() {
                tracing::info!(secret = self.place, ?step, "webhook CA was written");
            } else {
                let faults = faults.join("; ");
                tracing::warn!(
                    secret = self.place,
                    ?step,
                    faults,
                    "webhook CA was damaged, and is written anew"
                );
            }
        }
        self.learn(state).map(|()| false)
    }

    /// Takes over what the Secret holds.
    fn learn(&mut self, state: State) -> Result<(), Trouble> {
        let Some(current) = &state.current else {
            return Err(Trouble::NoCa(self.place.clone()));
        };
        self.metrics.ca_expiry(current.anchor.not_after.as_second());
        let bundle = state.bundle();
        self.known = Some(state);
        self.wanted.send_if_modified(|wanted| {
            let is_new = *wanted != bundle;
            if is_new {
                *wanted = bundle;
            }
            is_new
        });
        Ok(())
    }

    /// Writes the Secret; `false` when somebody else was faster.
    async fn write(&self, found: Option<Secret>, data: Data) -> Result<bool, Trouble> {
        let by = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let written = if let Some(mut secret) = found {
            // With the version that was read, so that a later one is not undone.
            secret.data = Some(data);
            self.secrets.replace(&self.name, &by, &secret).await
        } else {
            let secret = Secret {
                metadata: ObjectMeta {
                    name: Some(self.name.clone()),
                    ..ObjectMeta::default()
                },
                data: Some(data),
                ..Secret::default()
            };
            self.secrets.create(&by, &secret).await
        };
        match written {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
            Err(error) => Err(self.api_trouble(&error)),
        }
    }

    /// Signs a certificate when there is none, when it has lived two thirds of its life, or when another CA signs.
    fn keep_leaf(&mut self, now: Timestamp) -> Result<(), Trouble> {
        let Some(ca) = self.known.as_ref().and_then(|state| state.current.as_ref()) else {
            return Ok(());
        };
        let is_good = |leaf: &Leaf| leaf.signer == ca.anchor && now < leaf.due;
        if self.leaf.as_ref().is_some_and(is_good) || ca.anchor.is_expired(now) {
            return Ok(());
        }
        let pair = ca.sign(&self.names, now, self.lifetimes.leaf)?;
        self.leaf = Some(Leaf {
            signer: ca.anchor.clone(),
            due: due(&pair, now),
        });
        tracing::info!(not_after = %pair.not_after, "webhook certificate was signed");
        self.metrics.certificate_expiry(pair.not_after.as_second());
        self.certificate.install(pair);
        Ok(())
    }

    /// Says what is wrong, once, and to whoever asks for readiness.
    fn note(&mut self, result: Result<(), Trouble>) {
        let trouble = result.err().map(|error| error.to_string());
        if trouble != self.trouble {
            if let Some(trouble) = &trouble {
                tracing::warn!(error = trouble, "webhook CA could not be kept");
                self.certificate.explain(trouble.as_str());
            } else {
                tracing::info!("webhook CA is kept again");
            }
        }
        self.trouble = trouble;
    }

    fn leads(&self) -> bool {
        matches!(&*self.leadership.borrow(), Leadership::Leading(term) if term.may_begin())
    }

    fn stored_for(&self, state: &State) -> Option<Duration> {
        let stored = self.stored.borrow();
        let stored = stored.as_ref()?;
        (stored.bundle == state.bundle()).then(|| stored.since.elapsed())
    }

    fn silence(&self) -> Trouble {
        let silence = "the API server had not answered when the certificate came due";
        Trouble::Api(self.place.clone(), silence.to_owned())
    }

    fn api_trouble(&self, error: &kube::Error) -> Trouble {
        Trouble::Api(self.place.clone(), explain(error))
    }
}

/// How often to look: such that neither a certificate's end nor a step of a change is missed, however short they were set.
fn pace(poll: Duration, lifetimes: &Lifetimes) -> Duration {
    poll.min(lifetimes.step / 4)
        .min(lifetimes.leaf / 10)
        .max(Duration::from_millis(100))
}

/// Two thirds of a certificate's life.
fn due(pair: &Pair, now: Timestamp) -> Timestamp {
    let life = now.duration_until(pair.not_after);
    now.checked_add(life * 2 / 3).unwrap_or(pair.not_after)
}

/// For whom certificates are: the Service, and whatever the port is bound to by name or address.
fn names(config: &WebhookConfig, namespace: &str) -> Names {
    let mut names = Names {
        dns: webhook_dns_names(&config.name_prefix, namespace).into(),
        addresses: Vec::new(),
    };
    if let Listen::On { host, .. } = &config.bind_address {
        match host.parse::<IpAddr>() {
            Ok(address) if !address.is_unspecified() => names.addresses.push(address),
            Err(_) if !host.is_empty() => names.dns.push(host.clone()),
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests;
