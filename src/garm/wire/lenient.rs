//! Field decoders for GARM's habits.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Reads `null` as the zero value.
pub(super) fn or_default<'de, D, T>(input: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

/// Reads a time; GARM writes an unset one as year 1.
pub(super) fn time<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Timestamp>, D::Error> {
    let text: Option<String> = Option::deserialize(input)?;
    let year_two = "0002-01-01T00:00:00Z";
    Ok(text
        .filter(|text| text.as_str() >= year_two)
        .and_then(|text| text.parse().ok()))
}

/// Reads base64 bytes; what is not base64 counts as unset.
pub(super) fn bytes<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<u8>, D::Error> {
    let text: Option<String> = Option::deserialize(input)?;
    Ok(STANDARD
        .decode(text.unwrap_or_default())
        .unwrap_or_default())
}

/// Reads base64 text; what is not base64 is taken as it stands.
pub(super) fn base64_text<'de, D: Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    let text: Option<String> = Option::deserialize(input)?;
    let text = text.unwrap_or_default();
    Ok(match STANDARD.decode(&text) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => text,
    })
}

/// Tells a field that is there with `null` from one that is absent.
pub(super) fn present<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(input).map(Some)
}

/// Says only whether something other than `null` is there.
pub(super) fn is_there<'de, D: Deserializer<'de>>(input: D) -> Result<bool, D::Error> {
    Ok(Option::<serde::de::IgnoredAny>::deserialize(input)?.is_some())
}

/// An object of which only the name counts.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    #[serde(deserialize_with = "or_default")]
    pub name: String,
}

/// Reads an object and keeps its name.
pub(super) fn name_of<'de, D: Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    Ok(Option::<Named>::deserialize(input)?
        .unwrap_or_default()
        .name)
}

/// Reads a list of objects and keeps their names, sorted, because GARM's order is arbitrary.
pub(super) fn names_of<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    let mut names: Vec<String> = Option::<Vec<Named>>::deserialize(input)?
        .unwrap_or_default()
        .into_iter()
        .map(|named| named.name)
        .collect();
    names.sort_unstable();
    Ok(names)
}
