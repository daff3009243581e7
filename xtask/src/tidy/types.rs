//! Types own little: a file's limit alone is met by spreading one type over many files.
//!
//! The fields of a struct are counted. Types are told apart by crate and name.

use std::collections::BTreeMap;

use proc_macro2::Delimiter;

use super::source::{self, Kind, Source, Token};

const FIELDS_MAX: usize = 12;
/// Where types are counted: what an operator runs.
const FOLDERS: [&str; 2] = ["core", "product"];

const RATCHET: &str = "xtask/tidy.toml";

/// Numbers of fields by `folder/crate::Type`.
pub type Types = BTreeMap<String, usize>;

pub fn measure(sources: &[Source]) -> Types {
    let mut types = Types::new();
    for source in source::built(sources) {
        let Some(crate_path) = crate_of(&source.path) else { continue };
        let tokens: Vec<&Token> = source.tokens.iter().filter(|token| !token.is_test).collect();
        for (at, token) in tokens.iter().enumerate() {
            if token.is_word("struct")
                && let Some((name, fields)) = fields(&tokens[at + 1..])
            {
                let most = types.entry(format!("{crate_path}::{name}")).or_default();
                *most = fields.max(*most);
            }
        }
    }
    types
}

/// `product/server` of `product/server/src/lib.rs`.
fn crate_of(path: &str) -> Option<String> {
    let mut parts = path.split('/');
    let (folder, name, src) = (parts.next()?, parts.next()?, parts.next()?);
    (FOLDERS.contains(&folder) && src == "src").then(|| format!("{folder}/{name}"))
}

/// The name and number of fields of the struct that follows; `None` where its fields have no names.
fn fields(tokens: &[&Token]) -> Option<(String, usize)> {
    let Kind::Word(name) = &tokens.first()?.kind else { return None };
    let body = body(tokens)?;
    let is_colon = |at: usize| body.get(at).is_some_and(|(_, token)| token.is_mark(':'));
    let is_field = |at: &usize| {
        let (depth, token) = body[*at];
        let is_alone = is_colon(at + 1) && !is_colon(at + 2) && (*at == 0 || !is_colon(at - 1));
        depth == 1 && matches!(token.kind, Kind::Word(_)) && is_alone
    };
    Some((name.clone(), (0..body.len()).filter(is_field).count()))
}

/// The tokens from the first brace to its partner with their depths, from 1; `None` where the item ends before.
fn body<'t>(tokens: &[&'t Token]) -> Option<Vec<(usize, &'t Token)>> {
    let (mut depth, mut inside) = (0_usize, Vec::new());
    let mut is_inside = false;
    for token in tokens {
        match token.kind {
            Kind::Mark(';') if depth == 0 => return None,
            Kind::Open(delimiter) => {
                is_inside |= depth == 0 && delimiter == Delimiter::Brace;
                depth += 1;
                continue;
            }
            Kind::Close(_) => {
                depth = depth.checked_sub(1)?;
                if is_inside && depth == 0 {
                    return Some(inside);
                }
                continue;
            }
            _ => {}
        }
        if is_inside {
            inside.push((depth, *token));
        }
    }
    None
}

/// `[plain_data]` has types without a limit of fields and says why; `[types]` those beyond it with today's numbers, which may only shrink.
pub fn check(ratchet: &str, types: &Types) -> Vec<String> {
    // What is no table is said by the check of sizes.
    let table: toml::Table = ratchet.parse().unwrap_or_default();
    let none = toml::Table::new();
    let section = |name: &str| table.get(name).and_then(toml::Value::as_table).unwrap_or(&none);
    let (plain, entries) = (section("plain_data"), section("types"));
    let over = |name: &str| types.get(name).is_some_and(|fields| *fields > FIELDS_MAX && !plain.contains_key(name));
    let mut problems: Vec<String> = types
        .iter()
        .filter(|(name, _)| over(name))
        .filter_map(|(name, fields)| check_type(name, *fields, entries.get(name)))
        .collect();
    let unneeded = |name: &&String| !over(name);
    let is_small = |name: &&String| types.get(*name).is_none_or(|fields| *fields <= FIELDS_MAX);
    problems.extend(entries.keys().filter(unneeded).map(|name| gone("types", name)));
    problems.extend(plain.keys().filter(is_small).map(|name| gone("plain_data", name)));
    problems
}

fn gone(section: &str, name: &str) -> String {
    format!("{RATCHET}: [{section}] \"{name}\" is no longer needed; remove the entry")
}

fn check_type(name: &str, fields: usize, entry: Option<&toml::Value>) -> Option<String> {
    let allowed = entry.and_then(|entry| usize::try_from(entry.get("fields")?.as_integer()?).ok());
    let Some(fields_max) = allowed else {
        return Some(format!("{name}: {fields} fields, at most {FIELDS_MAX}; give what it owns to types of their own"));
    };
    if fields > fields_max {
        return Some(format!("{name}: {fields} fields, {fields_max} in {RATCHET}; an exception may only shrink"));
    }
    (fields < fields_max).then(|| format!("{RATCHET}: [types] \"{name}\" shrank; write {{ fields = {fields} }}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(path: &str, text: &str) -> Vec<(String, usize)> {
        measure(&[Source::parse(path, text).unwrap()]).into_iter().collect()
    }

    #[test]
    fn fields_are_counted_whatever_their_types() {
        let text = "struct A<T: Copy> where T: Into<u8> {\n a: std::vec::Vec<(u8, T)>,\n pub(crate) b: Box<dyn Fn(u8) -> u8>,\n #[cfg(x)]\n c: [u8; { 3 }],\n}";
        assert_eq!(measured("core/a/src/lib.rs", text), [("core/a::A".to_string(), 3)]);
        assert_eq!(measured("core/a/src/lib.rs", "struct A(u8, u8);\nstruct B;"), []);
    }

    #[test]
    fn types_of_the_laboratory_are_not_counted_and_crates_are_told_apart() {
        for path in ["lab/a/src/lib.rs", "core/a/src/testing.rs", "core/a/tests/a.rs"] {
            assert_eq!(measured(path, "struct A { a: u8 }"), []);
        }
        let sources =
            ["core/a/src/lib.rs", "product/a/src/b.rs"].map(|path| Source::parse(path, "struct A { a: u8 }").unwrap());
        assert_eq!(measure(&sources).into_keys().collect::<Vec<_>>(), ["core/a::A", "product/a::A"]);
    }

    #[test]
    fn modules_for_tests_are_not_counted() {
        let parse = |path, text| Source::parse(path, text).unwrap();
        let types = measure(&[
            parse("core/a/src/lib.rs", "#[cfg(test)]\nmod fake;\nmod real;"),
            parse("core/a/src/real.rs", "struct A { a: u8 }\n#[cfg(test)]\nmod deep;"),
            parse("core/a/src/fake/b.rs", "struct B { a: u8 }"),
            parse("core/a/src/real/deep.rs", "struct C { a: u8 }"),
        ]);
        assert_eq!(types.into_keys().collect::<Vec<_>>(), ["core/a::A"]);
    }

    fn types(fields: usize) -> Types {
        Types::from([("core/a::A".to_string(), fields)])
    }

    #[test]
    fn a_small_type_needs_no_entry_and_a_large_one_exactly_its_own() {
        assert_eq!(check("", &types(FIELDS_MAX)), [""; 0]);
        let entry = "[types]\n\"core/a::A\" = { fields = 14 }\n";
        assert_eq!(check(entry, &types(14)), [""; 0]);
        for (ratchet, fields, said) in [
            ("", 13, "at most 12"),
            (entry, 15, "may only shrink"),
            (entry, 13, "shrank; write { fields = 13 }"),
            (entry, 12, "no longer needed"),
        ] {
            let problems = check(ratchet, &types(fields));
            assert!(problems.len() == 1 && problems[0].contains(said), "{problems:?}");
        }
    }

    #[test]
    fn plain_data_has_any_number_of_fields() {
        let plain = "[plain_data]\n\"core/a::A\" = \"a row of a table\"\n";
        assert_eq!(check(plain, &types(99)), [""; 0]);
        assert!(check(plain, &types(12))[0].contains("no longer needed"));
    }
}
