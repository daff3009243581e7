//! The page of the reference and the schema follow the table of keys.

use std::path::PathBuf;

use serde_json::Value;

#[test]
fn the_page_is_the_table() {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    if std::env::var_os("WEIR_WRITE").is_some() {
        std::fs::write(&page, config::reference()).unwrap();
    }
    let written = std::fs::read_to_string(&page).unwrap();
    assert!(
        written == config::reference(),
        "docs/configuration.md is old: WEIR_WRITE=1 cargo test -p config --test reference"
    );
}

/// Each row of the table of renamed words.
#[test]
fn the_page_of_renamed_words_has_them_all() {
    let page = include_str!("../../../docs/renamed.md");
    for config::Renamed { old, new, .. } in config::RENAMED {
        let has = |row: &str| {
            let is_of =
                |cell: &str, word: &str| cell.contains(&format!("`{word}`")) || cell.contains(&format!("`{word} "));
            row.split_once(" | ").is_some_and(|(before, after)| is_of(before, old) && is_of(after, new))
        };
        assert!(page.lines().any(has), "docs/renamed.md lacks {old}, now {new}");
    }
}

fn is_of_type(types: Option<&Value>, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "string" => value.is_string(),
        other => panic!("type {other}"),
    };
    match types {
        Some(Value::Array(types)) => types.iter().any(is),
        Some(one) => is(one),
        None => true,
    }
}

/// The mistakes according to the keywords of draft 2020-12 that are used here, as far as they are used.
fn mistakes(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let known = [
        "$schema",
        "title",
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "minItems",
        "minLength",
        "minimum",
        "maximum",
        "pattern",
        "enum",
        "description",
        "default",
    ];
    let rules = schema.as_object().unwrap();
    assert!(rules.keys().all(|key| known.contains(&key.as_str())), "{path}: {rules:?}");
    let mut found = Vec::new();
    if !is_of_type(rules.get("type"), value)
        || rules.get("enum").is_some_and(|names| !names.as_array().unwrap().contains(value))
    {
        found.push(format!("{path}: {value}"));
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        match rules["properties"].get(name) {
            Some(property) => found.extend(mistakes(property, value, &format!("{path}.{name}"))),
            None => found.push(format!("{path}.{name}: unknown")),
        }
    }
    for value in value.as_array().into_iter().flatten() {
        found.extend(mistakes(&rules["items"], value, path));
    }
    let required = rules.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    found.extend(required.filter(|name| value.get(name).is_none()).map(|name| format!("{path}.{name}: missing")));
    found
}

#[test]
fn the_schema_accepts_the_examples_and_refuses_mistakes() {
    let schema = config::schema();
    for name in ["small-site", "several-sites", "hoster", "proxy"] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../examples/{name}.toml"));
        let table: Value = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(mistakes(&schema, &table, ""), [""; 0], "{name}");
    }
    let wrong: Value = toml::from_str("lst = 1\n[[listener]]\n[uplink]\nshaping = 'x'\nstarvation_share = 5").unwrap();
    assert_eq!(
        mistakes(&schema, &wrong, ""),
        [
            ".lst: unknown",
            ".listener.address: missing",
            ".uplink.shaping: \"x\"",
            ".uplink.starvation_share: 5",
            ".site: missing"
        ]
    );
}
