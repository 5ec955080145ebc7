use std::sync::Arc;

use proptest::prelude::*;
use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};

use super::*;
use crate::server::{certs::managed::authority::Names, testing::Authority, tls::Pair};

const NAME: &str = "garm-operator-webhook-service.garm.svc";
const START: i64 = 1_900_000_000;

fn lifetimes() -> Lifetimes {
    Lifetimes {
        ca: Duration::from_secs(900),
        leaf: Duration::from_secs(200),
        step: Duration::from_secs(100),
    }
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(START + second).unwrap()
}

fn ca(second: i64) -> Ca {
    Ca::new("test", time(second), lifetimes().ca).unwrap()
}

fn leaf(ca: &Ca, second: i64) -> Pair {
    let names = Names {
        dns: vec![NAME.to_owned()],
        ..Names::default()
    };
    ca.sign(&names, time(second), lifetimes().leaf).unwrap()
}

/// Whether an API server with this bundle takes this certificate.
fn verifies(pair: &Pair, bundle: &str, now: Timestamp) -> Result<(), Box<dyn std::error::Error>> {
    let mut roots = RootCertStore::empty();
    for anchor in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(anchor?)?;
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build()?;
    let name = ServerName::try_from(NAME)?;
    let seconds = u64::try_from(now.as_second())?;
    let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    verifier.verify_server_cert(&pair.chain()[0], &[], &name, &[], now)?;
    Ok(())
}

fn with_current(second: i64) -> State {
    State {
        current: Some(ca(second)),
        ..State::default()
    }
}

#[test]
fn begins_prepares_promotes_and_rests() {
    let (rules, step) = (lifetimes(), lifetimes().step);
    let now = time(0);
    assert_eq!(decide(&State::default(), None, now, &rules), Step::Begin);
    let state = State::default().after(Step::Begin, Some(ca(0)), now);
    assert_eq!(decide(&state, None, now, &rules), Step::Rest);
    assert_eq!(decide(&state, Some(step), time(599), &rules), Step::Rest);
    assert_eq!(decide(&state, None, time(600), &rules), Step::Prepare);
    let first = state.current.clone().unwrap();
    let state = state.after(Step::Prepare, Some(ca(600)), time(600));
    let both = state.bundle();
    for (stored_for, expected) in [
        (None, Step::Rest),
        (Some(step / 2), Step::Rest),
        (Some(step), Step::Promote),
    ] {
        assert_eq!(decide(&state, stored_for, time(700), &rules), expected);
    }
    let state = state.after(Step::Promote, None, time(700));
    assert_eq!(state.previous, Some(first.anchor));
    assert!(state.next.is_none());
    assert_eq!(
        state.bundle(),
        both,
        "promoting needs no write of the bundle"
    );
    // The old one stays past its end until another change is made anyway.
    let state = state.after(Step::Rest, None, time(1000));
    assert_eq!(state.bundle(), both);
    assert_eq!(
        decide(&state, Some(step), time(1200), &rules),
        Step::Prepare
    );
    let state = state.after(Step::Prepare, Some(ca(1200)), time(1200));
    assert!(state.previous.is_none());
}

#[test]
fn a_ca_that_has_ended_gives_way_to_one_that_nobody_knows_yet() {
    let rules = lifetimes();
    let mut state = with_current(0);
    assert_eq!(decide(&state, None, time(900), &rules), Step::Begin);
    state.next = Some(ca(600));
    assert_eq!(decide(&state, None, time(900), &rules), Step::Promote);
    assert_eq!(decide(&state, None, time(1500), &rules), Step::Begin);
    // A next one that ended while nothing could be stored is made anew.
    state.current = Some(ca(1000));
    assert_eq!(decide(&state, None, time(1700), &rules), Step::Prepare);
}

#[test]
fn a_secret_reads_as_it_was_written_and_keeps_foreign_keys() {
    let state = State {
        current: Some(ca(0)),
        next: Some(ca(1)),
        previous: Some(ca(2).anchor),
    };
    let foreign = Data::from([("note".to_owned(), ByteString(b"mine".to_vec()))]);
    let data = state.write(&foreign);
    assert_eq!(data["note"].0, b"mine");
    let (read, faults) = State::read(&data);
    assert_eq!(read, state);
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(read.write(&data), data);
    // What is gone from the state goes from the Secret.
    let data = with_current(3).write(&data);
    assert!(!data.contains_key(NEXT_KEY) && data.contains_key("note"));
}

#[test]
fn damage_is_told_and_no_certificate_about_is_given_up() {
    let state = State {
        current: Some(ca(0)),
        next: Some(ca(1)),
        previous: None,
    };
    let data = state.write(&Data::new());
    let with = |key: &str, text: &[u8]| {
        let mut data = data.clone();
        data.insert(key.to_owned(), ByteString(text.to_vec()));
        State::read(&data)
    };
    let (read, faults) = with(CURRENT_KEY, b"broken");
    assert!(read.current.is_none() && read.next.is_some());
    assert_eq!(
        read.previous,
        state.current.as_ref().map(|ca| ca.anchor.clone())
    );
    assert_eq!(faults, ["current: it holds no usable key (PKCS#8)"]);
    let foreign = ca(5);
    let (_, faults) = with(CURRENT_KEY, foreign.key_pem().as_bytes());
    assert_eq!(
        faults,
        ["current: its key does not belong to its certificate"]
    );
    let (_, faults) = with(NEXT_CERTIFICATE, b"\xff\x00");
    assert_eq!(faults, ["next: it holds no certificate"]);
    let (chain, key) = Authority::new().pems();
    let mut server = data.clone();
    server.insert(CURRENT_CERTIFICATE.into(), ByteString(chain.into_bytes()));
    server.insert(CURRENT_KEY.into(), ByteString(key.into_bytes()));
    assert_eq!(
        State::read(&server).1,
        ["current: its certificate is not one of a CA"]
    );
    // Whoever still knows the CA puts it back.
    let (read, _) = with(CURRENT_KEY, b"");
    assert_eq!(read.or_known(Some(&state), time(5)), state);
    let (read, _) = State::read(&Data::new());
    assert_eq!(read.or_known(Some(&state), time(5)), state);
    // But not one that has ended.
    let (read, _) = State::read(&Data::new());
    assert!(read.or_known(Some(&state), time(1000)).current.is_none());
}

#[test]
fn a_key_is_never_shown() {
    let state = with_current(0);
    let shown = format!("{state:?}");
    let key = state.current.as_ref().unwrap().key_pem();
    let inner = key.lines().nth(1).unwrap();
    assert!(
        !shown.contains(inner) && !shown.contains("PRIVATE"),
        "{shown}"
    );
}

/// What happens to a cluster.
#[derive(Clone, Debug)]
enum Act {
    /// Time passes, in seconds.
    Pass(i64),
    /// A replica looks at the Secret.
    Look(usize),
    /// The leader's bundle reaches an object.
    Store(usize),
    /// Somebody wipes an object's bundle, and the leader puts it back.
    Wipe(usize),
    /// Another replica leads.
    Lead(usize),
    /// A replica starts anew.
    Restart(usize),
    /// A key of the Secret is broken or removed.
    Damage(usize, bool),
    /// The Secret is deleted.
    Delete,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => (1..60_i64).prop_map(Act::Pass),
        4 => (0..2_usize).prop_map(Act::Look),
        4 => (0..2_usize).prop_map(Act::Store),
        1 => (0..2_usize).prop_map(Act::Wipe),
        1 => (0..2_usize).prop_map(Act::Lead),
        1 => (0..2_usize).prop_map(Act::Restart),
        1 => (0..KEYS.len(), any::<bool>()).prop_map(|(key, gone)| Act::Damage(key, gone)),
        1 => Just(Act::Delete),
    ];
    prop::collection::vec(act, 40..120)
}

#[derive(Default)]
struct Replica {
    known: Option<State>,
    leaf: Option<(Anchor, Pair, i64)>,
    looked: i64,
}

/// A cluster with two replicas and two objects that hold a bundle.
struct Cluster {
    now: i64,
    secret: Data,
    replicas: [Replica; 2],
    leader: usize,
    objects: [String; 2],
    stored_since: Option<(String, i64)>,
    /// The objects have held a bundle: from here on calls must not fail.
    is_up: bool,
    rotations: usize,
}

impl Cluster {
    fn new() -> Self {
        Self {
            now: 0,
            secret: Data::new(),
            replicas: Default::default(),
            leader: 0,
            objects: Default::default(),
            stored_since: None,
            is_up: false,
            rotations: 0,
        }
    }

    fn look(&mut self, index: usize) {
        let (now, rules) = (time(self.now), lifetimes());
        let (read, _) = State::read(&self.secret);
        let mut state = read.or_known(self.replicas[index].known.as_ref(), now);
        if index == self.leader {
            let stored_for = self
                .stored_since
                .as_ref()
                .filter(|(bundle, _)| *bundle == state.bundle())
                .map(|(_, since)| Duration::from_secs((self.now - since).unsigned_abs()));
            let step = decide(&state, stored_for, now, &rules);
            let fresh = matches!(step, Step::Begin | Step::Prepare).then(|| ca(self.now));
            self.rotations += usize::from(step == Step::Promote);
            state = state.after(step, fresh, now);
            self.secret = state.write(&self.secret);
        }
        let replica = &mut self.replicas[index];
        replica.looked = self.now;
        if state.current.is_some() {
            replica.known = Some(state);
        }
        self.sign(index);
        self.note();
    }

    fn sign(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        let Some(ca) = replica
            .known
            .as_ref()
            .and_then(|state| state.current.as_ref())
        else {
            return;
        };
        let is_good =
            |(signer, _, due): &(Anchor, Pair, i64)| *signer == ca.anchor && self.now < *due;
        if !replica.leaf.as_ref().is_some_and(is_good) && !ca.anchor.is_expired(time(self.now)) {
            let pair = leaf(ca, self.now);
            let life = pair.not_after.as_second() - START - self.now;
            replica.leaf = Some((ca.anchor.clone(), pair, self.now + life * 2 / 3));
        }
    }

    fn wanted(&self) -> Option<String> {
        self.replicas[self.leader].known.as_ref().map(State::bundle)
    }

    fn store(&mut self, object: usize) {
        if let Some(bundle) = self.wanted() {
            self.objects[object] = bundle;
        }
        self.note();
    }

    /// What the leader's watch sees.
    fn note(&mut self) {
        let wanted = self.wanted();
        let is_stored = wanted.is_some() && self.objects.iter().all(|o| Some(o) == wanted.as_ref());
        match (&self.stored_since, wanted) {
            (Some((bundle, _)), Some(wanted)) if is_stored && *bundle == wanted => {}
            (_, Some(wanted)) if is_stored => self.stored_since = Some((wanted, self.now)),
            _ => self.stored_since = None,
        }
        self.is_up |= is_stored;
    }

    fn is_whole(&self) -> bool {
        let (state, faults) = State::read(&self.secret);
        state.current.is_some() && faults.is_empty()
    }

    fn all_know(&self) -> bool {
        self.replicas.iter().all(|replica| replica.known.is_some())
    }

    /// What happens by itself: everybody looks in time, and the leader stores what it wants.
    fn settle(&mut self) {
        for index in 0..2 {
            if self.now - self.replicas[index].looked >= 20 {
                self.look(index);
            }
            self.sign(index);
        }
        if self.now % 50 < 10 {
            self.store(0);
            self.store(1);
        }
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Pass(seconds) => {
                for _ in 0..*seconds {
                    self.now += 1;
                    if self.now % 5 == 0 {
                        self.settle();
                    }
                }
            }
            Act::Look(index) => self.look(*index),
            Act::Store(object) => self.store(*object),
            Act::Wipe(object) => {
                self.objects[*object] = String::new();
                self.note();
                self.store(*object);
            }
            Act::Lead(index) => {
                self.leader = *index;
                self.stored_since = None;
                self.look(*index);
            }
            // Who has lost its memory and finds nothing can only begin anew.
            Act::Restart(index) if self.is_whole() => {
                self.replicas[*index] = Replica::default();
                self.look(*index);
            }
            // Somebody who leads has to know the CA: it is in no other place.
            Act::Damage(key, is_gone) if self.all_know() => {
                let key = KEYS[*key].to_owned();
                if *is_gone {
                    self.secret.remove(&key);
                } else {
                    self.secret.insert(key, ByteString(b"nonsense".to_vec()));
                }
            }
            Act::Delete if self.all_know() => self.secret.clear(),
            Act::Restart(_) | Act::Damage(..) | Act::Delete => {}
        }
    }

    fn check(&self) -> Result<(), String> {
        if !self.is_up {
            return Ok(());
        }
        for replica in &self.replicas {
            let Some((_, pair, _)) = &replica.leaf else {
                continue;
            };
            for bundle in &self.objects {
                verifies(pair, bundle, time(self.now))
                    .map_err(|error| format!("at {}: {error}", self.now))?;
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever certificate a replica may show verifies against whatever bundle may be stored, at each moment of many rotations.
    #[test]
    fn no_certificate_meets_a_bundle_that_does_not_know_its_ca(acts in acts()) {
        let mut cluster = Cluster::new();
        for act in acts {
            cluster.act(&act);
            let checked = cluster.check();
            prop_assert!(checked.is_ok(), "{act:?}: {}", checked.unwrap_err());
        }
    }

    #[test]
    fn any_content_of_the_secret_is_read_and_repaired(
        texts in prop::collection::vec(prop_oneof![
            Just(None),
            any::<Vec<u8>>().prop_map(Some),
            (0..3_i64).prop_map(|second| Some(ca(second).anchor.to_pem().into_bytes())),
            (0..3_i64).prop_map(|second| Some(ca(second).key_pem().as_bytes().to_vec())),
        ], KEYS.len())
    ) {
        let data: Data = KEYS.iter().zip(texts)
            .filter_map(|(key, text)| Some(((*key).to_owned(), ByteString(text?))))
            .collect();
        let (state, _) = State::read(&data);
        let written = state.write(&data);
        let (again, faults) = State::read(&written);
        prop_assert!(faults.is_empty(), "{faults:?}");
        prop_assert_eq!(again.write(&written), written);
    }
}

#[test]
fn a_quiet_cluster_rotates_again_and_again() {
    let mut cluster = Cluster::new();
    for _ in 0..80 {
        cluster.act(&Act::Pass(59));
        cluster.check().unwrap();
    }
    assert!(cluster.rotations >= 6, "{}", cluster.rotations);
}
