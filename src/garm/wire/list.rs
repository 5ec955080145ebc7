//! Lists in which one unreadable object does not spoil the others.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A list as GARM answered it.
#[derive(Debug, Clone, PartialEq)]
pub struct List<T> {
    /// The objects that could be read.
    pub items: Vec<T>,
    /// What identifies each object that could not be read (its `id`, and its `name`); empty when nothing does.
    pub unreadable: Vec<Vec<String>>,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            unreadable: Vec::new(),
        }
    }
}

impl<T> List<T> {
    /// Says whether an object that is not in the list is known to be absent.
    pub fn is_complete(&self) -> bool {
        self.unreadable.iter().all(|names| !names.is_empty())
    }

    /// Says whether the list has an unreadable object by this id or name.
    pub fn has_unreadable(&self, key: &str) -> bool {
        self.unreadable.iter().flatten().any(|name| name == key)
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Item<T> {
    Readable(T),
    Unreadable(Value),
}

/// GARM answers `null` for an empty list of endpoints or credentials.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let mut list = Self::default();
        for item in Option::<Vec<Item<T>>>::deserialize(input)?.unwrap_or_default() {
            match item {
                Item::Readable(item) => list.items.push(item),
                Item::Unreadable(item) => list.unreadable.push(names_in(&item)),
            }
        }
        Ok(list)
    }
}

fn names_in(item: &Value) -> Vec<String> {
    ["id", "name"]
        .iter()
        .filter_map(|key| match item.get(key)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        })
        .collect()
}
