//! Types stay small too: a file's limit alone is met by spreading one type over many files.
//!
//! Fields are those of the struct, methods those of all its `impl` blocks in a crate. Types are told apart by crate and name.

use std::collections::BTreeMap;

use proc_macro2::Delimiter;

use super::source::{Kind, Source, Token};

const FIELDS_MAX: usize = 12;
const METHODS_MAX: usize = 30;
/// Where types are counted: what an operator runs.
const FOLDERS: [&str; 2] = ["core", "product"];

const RATCHET: &str = "xtask/tidy.toml";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    fields: usize,
    methods: usize,
}

/// By `folder/crate::Type`.
pub type Types = BTreeMap<String, Size>;

pub fn measure(sources: &[Source]) -> Types {
    let mut types = Types::new();
    let of_tests: Vec<String> = sources.iter().flat_map(test_modules).collect();
    for source in sources {
        let Some(crate_path) = crate_of(&source.path) else { continue };
        if of_tests.iter().any(|module| is_within(&source.path, module)) {
            continue;
        }
        let tokens: Vec<&Token> = source.tokens.iter().filter(|token| !token.is_test).collect();
        for (at, token) in tokens.iter().enumerate() {
            if token.is_word("struct") {
                if let Some((name, fields)) = fields(&tokens[at + 1..]) {
                    let size = types.entry(format!("{crate_path}::{name}")).or_default();
                    size.fields = size.fields.max(fields);
                }
            } else if token.is_word("impl")
                && begins_item(&tokens[..at])
                && let Some((name, methods)) = methods(&tokens[at + 1..])
            {
                types.entry(format!("{crate_path}::{name}")).or_default().methods += methods;
            }
        }
    }
    types
}

/// `product/server` of `product/server/src/lib.rs`; not for what other crates' tests use.
fn crate_of(path: &str) -> Option<String> {
    if path.split('/').any(|part| part.trim_end_matches(".rs") == "testing") {
        return None;
    }
    let mut parts = path.split('/');
    let (folder, name, src) = (parts.next()?, parts.next()?, parts.next()?);
    (FOLDERS.contains(&folder) && src == "src").then(|| format!("{folder}/{name}"))
}

/// The modules in files of their own that are declared for tests alone, as paths without an ending.
fn test_modules(source: &Source) -> Vec<String> {
    let stem = source.path.trim_end_matches(".rs");
    let folder = match stem.rsplit_once('/') {
        Some((folder, "mod" | "lib" | "main")) => folder,
        _ => stem,
    };
    let declared = |tokens: &[Token]| match (&tokens[0], &tokens[1].kind, &tokens[2]) {
        (word, Kind::Word(name), end) if word.is_test && word.is_word("mod") && end.is_mark(';') => {
            Some(format!("{folder}/{name}"))
        }
        _ => None,
    };
    source.tokens.windows(3).filter_map(declared).collect()
}

/// Of a file and a module.
fn is_within(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// Not `impl Trait` where a type stands.
fn begins_item(before: &[&Token]) -> bool {
    before.last().is_none_or(|token| {
        token.is_word("unsafe")
            || token.is_mark(';')
            || matches!(token.kind, Kind::Open(Delimiter::Brace) | Kind::Close(Delimiter::Brace | Delimiter::Bracket))
    })
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

/// The type of the `impl` block that follows, and its number of methods.
fn methods(tokens: &[&Token]) -> Option<(String, usize)> {
    let head = tokens.iter().position(|token| token.kind == Kind::Open(Delimiter::Brace))?;
    let name = self_type(&tokens[..head])?;
    let body = body(tokens)?;
    let is_method = |pair: &&[(usize, &Token)]| {
        pair[0].0 == 1 && pair[0].1.is_word("fn") && matches!(pair[1].1.kind, Kind::Word(_))
    };
    Some((name, body.windows(2).filter(is_method).count()))
}

/// The last name of the path before its own parameters, of what follows `for` or stands alone.
fn self_type(head: &[&Token]) -> Option<String> {
    let (mut name, mut depth, mut before) = (None, 0_usize, None);
    for (at, token) in head.iter().enumerate() {
        match &token.kind {
            Kind::Mark('<') => depth += 1,
            Kind::Mark('>') if !before.is_some_and(|before: &Token| before.is_mark('-')) => {
                depth = depth.saturating_sub(1);
            }
            Kind::Word(word) if depth == 0 => match word.as_str() {
                "where" => break,
                "for" if !head.get(at + 1).is_some_and(|next| next.is_mark('<')) => name = None,
                "dyn" | "mut" => {}
                // A lifetime is a mark and a word.
                _ if before.is_some_and(|before: &Token| before.is_mark('\'')) => {}
                _ => name = Some(word.clone()),
            },
            _ => {}
        }
        before = Some(*token);
    }
    name
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

/// `[plain_data]` has types without a limit of fields and says why; `[types]` those beyond a limit with today's sizes, which may only shrink.
pub fn check(ratchet: &str, types: &Types) -> Vec<String> {
    // What is no table is said by the check of sizes.
    let table: toml::Table = ratchet.parse().unwrap_or_default();
    let none = toml::Table::new();
    let section = |name: &str| table.get(name).and_then(toml::Value::as_table).unwrap_or(&none);
    let (plain, entries) = (section("plain_data"), section("types"));
    let over = |name: &str| types.get(name).is_some_and(|size| is_over(*size, plain.contains_key(name)));
    let mut problems: Vec<String> = types
        .iter()
        .filter(|(name, _)| over(name))
        .filter_map(|(name, size)| check_type(name, *size, entries.get(name)))
        .collect();
    let unneeded = |name: &&String| !over(name);
    let is_small = |name: &&String| types.get(*name).is_none_or(|size| size.fields <= FIELDS_MAX);
    problems.extend(entries.keys().filter(unneeded).map(|name| gone("types", name)));
    problems.extend(plain.keys().filter(is_small).map(|name| gone("plain_data", name)));
    problems
}

fn is_over(size: Size, is_plain: bool) -> bool {
    size.methods > METHODS_MAX || (size.fields > FIELDS_MAX && !is_plain)
}

fn gone(section: &str, name: &str) -> String {
    format!("{RATCHET}: [{section}] \"{name}\" is no longer needed; remove the entry")
}

fn check_type(name: &str, size: Size, entry: Option<&toml::Value>) -> Option<String> {
    let Size { fields, methods } = size;
    let allowed = |key: &str| {
        let number = entry?.get(key)?.as_integer()?;
        usize::try_from(number).ok()
    };
    let (Some(fields_max), Some(methods_max)) = (allowed("fields"), allowed("methods")) else {
        return Some(format!(
            "{name}: {fields} fields and {methods} methods, at most {FIELDS_MAX} and {METHODS_MAX}; \
             give what it owns to types of their own"
        ));
    };
    if fields > fields_max || methods > methods_max {
        return Some(format!(
            "{name}: {fields} fields and {methods} methods, {fields_max} and {methods_max} in {RATCHET}; \
             an exception may only shrink"
        ));
    }
    (fields < fields_max || methods < methods_max)
        .then(|| format!("{RATCHET}: [types] \"{name}\" shrank; write {{ fields = {fields}, methods = {methods} }}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(path: &str, text: &str) -> Vec<(String, usize, usize)> {
        let types = measure(&[Source::parse(path, text).unwrap()]);
        types.into_iter().map(|(name, size)| (name, size.fields, size.methods)).collect()
    }

    fn one(text: &str) -> (usize, usize) {
        let found = measured("core/a/src/lib.rs", text);
        assert_eq!((found.len(), found[0].0.as_str()), (1, "core/a::A"), "{found:?}");
        (found[0].1, found[0].2)
    }

    #[test]
    fn fields_are_counted_whatever_their_types() {
        let text = "struct A<T: Copy> where T: Into<u8> {\n a: std::vec::Vec<(u8, T)>,\n pub(crate) b: Box<dyn Fn(u8) -> u8>,\n #[cfg(x)]\n c: [u8; { 3 }],\n}";
        assert_eq!(one(text), (3, 0));
        assert_eq!(measured("core/a/src/lib.rs", "struct A(u8, u8);\nstruct B;"), []);
    }

    #[test]
    fn methods_of_all_blocks_are_counted_and_no_functions_in_them() {
        let text = "impl A { fn a() { fn inner() {} } const fn b() {} }\n\
             impl<T: Fn() -> u8> Iterator for super::A<T> where T: Copy { fn next(&self) -> impl Copy { 5 } }\n\
             impl<'a> From<&'a str> for A { fn from() {} }\n\
             #[cfg(test)]\nimpl A { fn test() {} }\nfn free() -> impl Copy { 5 }";
        assert_eq!(one(text), (0, 4));
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

    fn types(fields: usize, methods: usize) -> Types {
        Types::from([("core/a::A".to_string(), Size { fields, methods })])
    }

    #[test]
    fn a_small_type_needs_no_entry_and_a_large_one_exactly_its_own() {
        assert_eq!(check("", &types(FIELDS_MAX, METHODS_MAX)), [""; 0]);
        let entry = "[types]\n\"core/a::A\" = { fields = 13, methods = 31 }\n";
        assert_eq!(check(entry, &types(13, 31)), [""; 0]);
        for (ratchet, size, said) in [
            ("", (13, 1), "at most 12 and 30"),
            ("", (1, 31), "at most 12 and 30"),
            (entry, (14, 31), "may only shrink"),
            (entry, (13, 32), "may only shrink"),
            (entry, (13, 30), "shrank; write { fields = 13, methods = 30 }"),
            (entry, (12, 30), "no longer needed"),
        ] {
            let problems = check(ratchet, &types(size.0, size.1));
            assert!(problems.len() == 1 && problems[0].contains(said), "{problems:?}");
        }
    }

    #[test]
    fn plain_data_has_any_number_of_fields_and_few_methods() {
        let plain = "[plain_data]\n\"core/a::A\" = \"a row of a table\"\n";
        assert_eq!(check(plain, &types(99, 30)), [""; 0]);
        assert!(check(plain, &types(99, 31))[0].contains("at most"));
        assert!(check(plain, &types(12, 1))[0].contains("no longer needed"));
    }
}
