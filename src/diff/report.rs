//! What was found, as text.

use std::fmt::Write as _;

use crate::controllers::Context;
use crate::controllers::driver::change::FieldChange;
use crate::domain::endpoint::BUILT_IN;
use crate::domain::pool::adoption::adopt_index;
use crate::domain::reference::{id_index, name_index};
use crate::garm::wire::EntityKind;

/// What was found.
#[derive(Debug, Default)]
pub struct Differences {
    /// Where an object and GARM differ.
    pub lines: Vec<Line>,
    /// What is worth knowing and no difference.
    pub notes: Vec<String>,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Kind, namespace and name of the object.
    pub object: String,
    /// What would happen, or why nothing can.
    pub what: String,
    /// The fields that would change.
    pub fields: Vec<FieldChange>,
}

impl Differences {
    /// Chooses the exit code, as `kubectl diff` does: 0 without differences, else 1.
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.lines.is_empty())
    }

    /// Prints a line for each object, and one for each field.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing into a string does not fail.
        for line in &self.lines {
            let _ = writeln!(text, "{}: {}", line.object, line.what);
            for field in &line.fields {
                let _ = writeln!(text, "  {}: {} -> {}", field.field, field.from, field.to);
            }
        }
        text
    }
}

/// Names what GARM holds and no object describes.
pub(super) fn unclaimed(context: &Context) -> Vec<String> {
    let (garm, hubs) = (&context.garm, &context.hubs);
    let mut found = Vec::new();
    for endpoint in garm.endpoints() {
        let is_built_in = endpoint.name.eq_ignore_ascii_case(BUILT_IN);
        if !is_built_in && hubs.endpoints.by(&name_index(&endpoint.name)).is_empty() {
            found.push(format!("the endpoint {:?}", endpoint.name));
        }
    }
    for credential in garm.credentials() {
        if hubs
            .credentials
            .by(&name_index(&credential.name))
            .is_empty()
        {
            found.push(format!("the credentials {:?}", credential.name));
        }
    }
    for kind in EntityKind::ALL {
        for entity in garm.entities(kind) {
            let index = id_index(&entity.id);
            let is_claimed = match kind {
                EntityKind::Repository => !hubs.repositories.keys_by(&index).is_empty(),
                EntityKind::Organization => !hubs.organizations.keys_by(&index).is_empty(),
                EntityKind::Enterprise => !hubs.enterprises.keys_by(&index).is_empty(),
            };
            if !is_claimed {
                let owner = match entity.owner.as_str() {
                    "" => String::new(),
                    owner => format!("{owner}/"),
                };
                found.push(format!("the {} {owner}{}", kind.word(), entity.name));
            }
        }
    }
    for pool in garm.pools() {
        let has = hubs.pools.keys_by(&id_index(&pool.id));
        let asks = hubs.pools.keys_by(&adopt_index(&pool.id));
        if has.is_empty() && asks.is_empty() {
            found.push(format!("the pool {}", pool.id));
        }
    }
    found.sort();
    let told = found.into_iter();
    told.map(|what| format!("GARM holds {what}, which no object describes"))
        .collect()
}
