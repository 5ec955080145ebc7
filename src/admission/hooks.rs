//! The table of admission webhooks: what the server answers and what the webhook configurations say of it, once.

/// A kind of request.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// A new object.
    Create,
    /// A change of an object.
    Update,
    /// The end of an object.
    Delete,
    /// A call to a subresource; no rule of ours asks for it.
    Connect,
}

/// Whether a webhook judges or fills in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// It fills in.
    Mutating,
    /// It judges.
    Validating,
}

/// One admission webhook.
#[derive(Debug)]
pub struct Hook {
    /// First part of its name, before the API group.
    pub name: &'static str,
    /// Path it is served at: those that the Go operator has are as there.
    pub path: &'static str,
    /// Kind of the objects.
    pub kind: &'static str,
    /// Plural name of the kind.
    pub plural: &'static str,
    /// When it is called. Deletion stands alone: it fails open, the others closed.
    pub operations: &'static [Operation],
    /// Its phase.
    pub phase: Phase,
}

impl Hook {
    /// Says whether it refuses nothing: of the deletion of a Pool it only takes note.
    pub fn only_notices(&self) -> bool {
        self.kind == "Pool" && self.operations == [Operation::Delete]
    }
}

const WRITES: &[Operation] = &[Operation::Create, Operation::Update];

macro_rules! hook {
    ($phase:ident, $verb:literal, $singular:literal, $kind:literal, $plural:literal, $operations:expr) => {
        Hook {
            name: concat!($verb, ".", $singular),
            path: concat!(
                "/",
                $verb,
                "-garm-operator-mercedes-benz-com-v1beta1-",
                $singular
            ),
            kind: $kind,
            plural: $plural,
            operations: $operations,
            phase: Phase::$phase,
        }
    };
}

/// All admission webhooks.
#[rustfmt::skip]
pub const HOOKS: &[Hook] = &[
    hook!(Mutating, "mutate", "pool", "Pool", "pools", WRITES),
    hook!(Validating, "validate", "pool", "Pool", "pools", WRITES),
    hook!(Validating, "notice", "pool", "Pool", "pools", &[Operation::Delete]),
    hook!(Validating, "validate", "image", "Image", "images", &[Operation::Delete]),
    hook!(Validating, "validate", "repository", "Repository", "repositories", WRITES),
    hook!(Validating, "validate", "organization", "Organization", "organizations", WRITES),
    hook!(Validating, "validate", "enterprise", "Enterprise", "enterprises", WRITES),
    hook!(Validating, "validate", "githubcredential", "GitHubCredential", "githubcredentials", WRITES),
    hook!(Validating, "validate", "githubendpoint", "GitHubEndpoint", "githubendpoints", WRITES),
    hook!(Validating, "validate", "garmserverconfig", "GarmServerConfig", "garmserverconfigs", WRITES),
];
