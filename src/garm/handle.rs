//! [`Garm`]: reads from memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{self, Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use tokio::sync::{Mutex, Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;

use super::availability::Availability;
use super::client::Client;
use super::error::Error;
use super::feed;
use super::mirror::{Changed, Collection, Mirror, Ticket};
use super::observer::Observer;
use super::settings::Settings;
use super::wire::{Controller, Credential, Endpoint, Entity, EntityKind, Instance, Pool};

/// How many changes a slow subscriber may be behind before it has to look at everything.
const CHANGES: usize = 4_096;

/// One GARM: an in-memory copy to read from, and calls whose answers are in the copy before they return.
///
/// Clones share everything. Nothing happens before [`run`](Self::run).
#[derive(Clone)]
pub struct Garm {
    pub(super) shared: Arc<Shared>,
}

/// What all clones share.
pub(super) struct Shared {
    pub(super) settings: Arc<Settings>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) client: Client,
    mirror: RwLock<Mirror>,
    availability: RwLock<Availability>,
    changes: broadcast::Sender<Changed>,
    /// Told when there may be something to read earlier than thought.
    pub(super) reads: Notify,
    /// Told when GARM may have become ready.
    pub(super) nudge: Notify,
    /// Whether the events socket is up.
    pub(super) socket_is_up: AtomicBool,
    /// How often it came up; each time everything is to be listed.
    pub(super) socket_came_up: watch::Sender<u64>,
    /// When the last event came, if one ever did.
    pub(super) last_event: sync::Mutex<Option<Instant>>,
    /// When the last list of all instances was requested.
    pub(super) instances_listed: Mutex<Option<Instant>>,
}

impl Garm {
    /// Describes the connection; nothing is sent yet.
    pub fn new(settings: Settings, observer: Arc<dyn Observer>) -> Self {
        let settings = Arc::new(settings);
        let shared = Shared {
            client: Client::new(Arc::clone(&settings), Arc::clone(&observer)),
            mirror: RwLock::new(Mirror::new(&settings.timings)),
            availability: RwLock::default(),
            changes: broadcast::Sender::new(CHANGES),
            reads: Notify::new(),
            nudge: Notify::new(),
            socket_is_up: AtomicBool::new(false),
            socket_came_up: watch::Sender::new(0),
            last_event: sync::Mutex::default(),
            instances_listed: Mutex::new(None),
            settings,
            observer,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Keeps the copy true until `token` is cancelled: logs in, lists, listens, and waits out a GARM that is away.
    pub async fn run(&self, token: CancellationToken) {
        Box::pin(token.run_until_cancelled(feed::run(&self.shared))).await;
        if self.shared.socket_is_up.swap(false, Ordering::Relaxed) {
            self.shared.observer.socket(false);
        }
    }

    /// Tells changes from now on. Who lags behind must look at everything.
    pub fn subscribe(&self) -> broadcast::Receiver<Changed> {
        self.shared.changes.subscribe()
    }

    /// Says whether GARM can be worked with.
    pub fn availability(&self) -> Availability {
        let availability = self.shared.availability.read();
        availability.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says whether changes are heard of at once, not only by lists.
    pub fn is_listening(&self) -> bool {
        self.shared.socket_is_up.load(Ordering::Relaxed)
    }

    /// Says when the request for the last complete list was sent, if there was one since GARM became ready. Only what
    /// came into being before that, and is not in memory, is known to be absent.
    pub fn complete(&self, collection: Collection) -> Option<Instant> {
        self.shared.mirror().complete(collection)
    }

    /// What GARM says about itself.
    pub fn controller(&self) -> Option<Arc<Controller>> {
        self.shared.mirror().get::<Controller>(&())
    }

    /// The endpoint of this name, without regard to case.
    pub fn endpoint(&self, name: &str) -> Option<Arc<Endpoint>> {
        self.shared.mirror().get::<Endpoint>(&name.to_lowercase())
    }

    /// All GitHub endpoints, in no order.
    pub fn endpoints(&self) -> Vec<Arc<Endpoint>> {
        self.shared.mirror().all()
    }

    /// The GitHub credentials of this number.
    pub fn credential(&self, id: i64) -> Option<Arc<Credential>> {
        self.shared.mirror().get::<Credential>(&id)
    }

    /// All GitHub credentials, in no order.
    pub fn credentials(&self) -> Vec<Arc<Credential>> {
        self.shared.mirror().all()
    }

    /// The entity of this id.
    pub fn entity(&self, kind: EntityKind, id: &str) -> Option<Arc<Entity>> {
        self.shared.mirror().get::<Entity>(&(kind, id.to_owned()))
    }

    /// All entities of a kind, in no order.
    pub fn entities(&self, kind: EntityKind) -> Vec<Arc<Entity>> {
        let mut entities = self.shared.mirror().all::<Entity>();
        entities.retain(|entity| entity.kind == kind);
        entities
    }

    /// The entities that use these credentials.
    pub fn entities_using(&self, credential: i64) -> Vec<Arc<Entity>> {
        self.shared.mirror().entities_using(credential)
    }

    /// The pool of this id. Its `extra_specs` is `Some` only while it is known to be current.
    pub fn pool(&self, id: &str) -> Option<Arc<Pool>> {
        self.shared.mirror().get::<Pool>(&id.to_owned())
    }

    /// All pools, in no order.
    pub fn pools(&self) -> Vec<Arc<Pool>> {
        self.shared.mirror().all()
    }

    /// The pools of an entity, by id.
    pub fn pools_of(&self, kind: EntityKind, id: &str) -> Vec<Arc<Pool>> {
        self.shared.mirror().pools_of(kind, id)
    }

    /// The pools whose runners' names begin so, by id.
    pub fn pools_by_prefix(&self, prefix: &str) -> Vec<Arc<Pool>> {
        self.shared.mirror().pools_by_prefix(prefix)
    }

    /// The instance of this name, as GARM spells it. Its `addresses` is `None` while nobody has read them: those of
    /// instances that ran before the operator started come with [`read_instance`](Self::read_instance).
    pub fn instance(&self, name: &str) -> Option<Arc<Instance>> {
        self.shared.mirror().get::<Instance>(&name.to_owned())
    }

    /// Says whether GARM said lately of this very instance that it is gone: by an event, or as an answer. A list only leaves it out.
    pub fn was_told_gone(&self, instance: &str) -> bool {
        let mirror = self.shared.mirror();
        mirror.was_told_gone::<Instance>(&instance.to_owned())
    }

    /// All instances, those of scale sets included, in no order.
    pub fn instances(&self) -> Vec<Arc<Instance>> {
        self.shared.mirror().all()
    }

    /// The instances of a pool, by name.
    pub fn instances_of(&self, pool_id: &str) -> Vec<Arc<Instance>> {
        self.shared.mirror().instances_of(pool_id)
    }
}

impl Shared {
    /// Reads the copy. Nothing slow may happen meanwhile.
    pub(super) fn mirror(&self) -> RwLockReadGuard<'_, Mirror> {
        self.mirror.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn mirror_mut(&self) -> RwLockWriteGuard<'_, Mirror> {
        self.mirror.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks that a request is sent now.
    pub(super) fn ticket(&self) -> Ticket {
        self.mirror_mut().ticket(Instant::now())
    }

    /// Changes the copy and tells what changed.
    pub(super) fn change(&self, change: impl FnOnce(&mut Mirror, Instant) -> Vec<Changed>) {
        let (changes, has_reads) = {
            let mut mirror = self.mirror_mut();
            let changes = change(&mut mirror, Instant::now());
            (changes, mirror.next_read().is_some())
        };
        for changed in changes {
            // Nobody listening is no fault.
            let _ = self.changes.send(changed);
        }
        if has_reads {
            self.reads.notify_one();
        }
    }

    /// Says it aloud when GARM's availability becomes another.
    pub(super) fn set_availability(&self, new: Availability) {
        let message = new.message();
        let is_ready = new.is_ready();
        {
            let mut current = self
                .availability
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            if *current == new {
                return;
            }
            *current = new;
        }
        if is_ready {
            tracing::info!("GARM became ready");
        } else {
            tracing::warn!(reason = message, "GARM is not ready");
        }
        let _ = self.changes.send(Changed::Availability);
    }

    /// Notes that an event came, whatever it holds.
    pub(super) fn heard_event(&self) {
        let mut last = self
            .last_event
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *last = Some(Instant::now());
        self.observer.event();
    }

    /// Refuses calls that GARM is known not to be ready for, so that nobody hammers it.
    pub(super) fn ready(&self) -> Result<(), Error> {
        let availability = self
            .availability
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        match &*availability {
            Availability::Ready => Ok(()),
            Availability::UrlsRequired => Err(Error::UrlsRequired),
            other => Err(Error::Unavailable(other.clone())),
        }
    }
}
