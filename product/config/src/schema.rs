//! Generates a schema of the keys for editors: JSON Schema, draft 2020-12.
//!
//! The schema describes names, types and forms. Rules that involve several keys are checked only by `weir check`.

use serde_json::{Map, Value, json};

use crate::keys::{Form, Key, Kind, Unset};

pub fn schema() -> Value {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "weir.toml",
    });
    if let (Some(top), Value::Object(table)) = (schema.as_object_mut(), table("")) {
        top.extend(table);
    }
    schema
}

fn table(path: &str) -> Value {
    let properties: Map<String, Value> =
        Key::of_table(path).map(|key| (key.parts().1.to_string(), property(key))).collect();
    let required: Vec<&str> =
        Key::of_table(path).filter(|key| key.default == Unset::Required).map(|key| key.parts().1).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn property(key: &Key) -> Value {
    let mut property = match key.kind {
        Kind::Table => table(key.path),
        Kind::Tables => json!({ "type": "array", "items": table(key.path) }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Whole { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Code(codes) => json!({ "enum": codes }),
        Kind::Text(form) => text(form),
        Kind::Texts(form) => json!({ "type": "array", "items": text(form), "minItems": 1 }),
    };
    let unit = match key.kind.unit() {
        unit if unit.is_empty() => String::new(),
        unit => format!(" Expected: {unit}."),
    };
    property["description"] = format!("{}{unit}", key.effect).into();
    if let Some(default) = default(key) {
        property["default"] = default;
    }
    property
}

fn default(key: &Key) -> Option<Value> {
    let Unset::Is(text) = key.default else { return None };
    match key.kind {
        Kind::Texts(_) => Some(json!([text])),
        Kind::Text(_) => Some(text.into()),
        _ => serde_json::from_str(text).ok(),
    }
}

/// Returns the schema of a string. Patterns are no stricter than the check, because users would disable an editor that
/// marks correct values as wrong.
fn text(form: Form) -> Value {
    let pattern = match form {
        Form::OneOf(names) => return json!({ "enum": names }),
        Form::Size => {
            return json!({ "type": ["string", "integer"], "pattern": "^[0-9]+(\\.[0-9]+)?(B|[kK]B|[MG]B|[KMG]iB)?$", "minimum": 0 });
        }
        Form::Statuses => {
            return json!({ "type": ["string", "integer"], "pattern": "^([45][0-9][0-9]|[45]xx|[*])$", "minimum": 400, "maximum": 599 });
        }
        Form::Rate => "^[0-9]+(\\.[0-9]+)?[kKmMgGtT]?[bB][iI][tT]$",
        Form::Uplink => {
            "^(auto|off|[0-9]+(\\.[0-9]+)?[kKmMgGtT]?[bB][iI][tT](\\.\\.[0-9]+(\\.[0-9]+)?[kKmMgGtT]?[bB][iI][tT])?)$"
        }
        Form::Percent(_) => "^[0-9]+(\\.[0-9]+)?%$",
        Form::Time | Form::Timeout => "^[0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|min|h)$",
        Form::Pattern => "^[/*]",
        Form::PathBelow => "^/.",
        Form::Origin => "^([*]$|[a-z][a-z0-9+.-]*://)",
        Form::Target => "^(/|https?://)",
        Form::HttpsUrl => "^https://[^/]",
        Form::Mail => "^[^@ ]+@[^@ ]+$",
        Form::Upstream => "^(((h2c|fastcgi):)?unix:/.*|https://.*|h2://.*|((http|h2c|fastcgi)://)?.*[0-9]/?)$",
        Form::Name => "^[A-Za-z0-9._-]{1,64}$",
        Form::ClientPrefix => "^[0-9]{1,2},[0-9]{1,3}$",
        Form::ClientWeight => "=[0-9]{1,3}$",
        Form::Network => "/[0-9]+$",
        Form::Objective => "^p[0-9.]+\\s+of\\s+responses\\s",
        _ => return json!({ "type": "string", "minLength": 1 }),
    };
    json!({ "type": "string", "pattern": pattern })
}
