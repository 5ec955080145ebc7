//! Pieces of OpenAPI schema that the derive cannot say.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// Removes `format` from an integer. The CRDs that users have carry none for these fields, and a changed format is a changed API.
pub(super) fn drop_format(schema: &mut Schema) {
    schema.remove("format");
}

/// States the rules of a Pool's spec that stand in the schema, the only ones that do: `/scale` passes no webhook. An object that broke
/// the rule before stays editable as long as the two numbers stay as they are.
pub(super) fn pool_rules() -> Value {
    json!([{
        "rule": "self.minIdleRunners <= self.maxRunners || (oldSelf.hasValue() && oldSelf.value().minIdleRunners == self.minIdleRunners && oldSelf.value().maxRunners == self.maxRunners)",
        "message": "minIdleRunners must be less than or equal to maxRunners",
        "optionalOldSelf": true,
    }])
}

/// Describes `status.conditions` as the API conventions do: an atomic list with the usual limits.
pub(super) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "description": "What is known about the object, one entry for each aspect.",
        "items": {
            "type": "object",
            "description": "One aspect of the state of the object.",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When the status last changed.",
                },
                "message": {
                    "type": "string",
                    "maxLength": 32768,
                    "description": "What happened and what to do about it.",
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "The metadata.generation this condition was computed from.",
                },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                    "description": "Cause of the status in one word, for programs.",
                },
                "status": {
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                    "description": "Whether the condition holds.",
                },
                "type": {
                    "type": "string",
                    "maxLength": 316,
                    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                    "description": "Name of the aspect.",
                },
            },
        },
    })
}
