//! Chains of fields: `self.a.b.c` reaches through two types that others own, so a change of either changes this line too.
//!
//! Counted for each folder of the server, in code that is not for tests, per 1,000 lines: `quinn-proto` has 2.9. A call at the end is no field.

use std::collections::BTreeMap;

use super::source::{self, Kind, Source, Token};

/// The folders below it are counted apart from each other; files of its own count as this folder.
const PARENT: &str = "product/server/src";
/// The words that a chain begins with: what a method or an event holds.
const HEADS: [&str; 6] = ["self", "with", "conn", "connection", "context", "responder"];
const FIELDS_MIN: usize = 3;
/// In tenths of a chain per 1,000 lines.
const TENTHS_MAX: u64 = 30;
/// How far an entry may stand above today's number, so that it does not change with each line of code.
const SLACK_TENTHS: u64 = 1;
/// How many places a message lists.
const PLACES_MAX: usize = 10;

const RATCHET: &str = "xtask/tidy.toml";

/// A folder's lines without tests, and the places of its chains.
#[derive(Debug, Default)]
pub struct Folder {
    lines: u64,
    places: Vec<String>,
}

impl Folder {
    /// Chains per 1,000 lines, in tenths, rounded up.
    fn tenths(&self) -> u64 {
        (self.places.len() as u64 * 10_000).div_ceil(self.lines.max(1))
    }
}

pub fn measure(sources: &[Source]) -> BTreeMap<String, Folder> {
    let mut folders: BTreeMap<String, Folder> = BTreeMap::new();
    for source in source::built(sources) {
        let Some(within) = source.path.strip_prefix(PARENT).and_then(|path| path.strip_prefix('/')) else { continue };
        let path = within.split_once('/').map_or(PARENT.into(), |(folder, _)| format!("{PARENT}/{folder}"));
        let folder = folders.entry(path).or_default();
        folder.lines += source.line_count() as u64;
        let found = chains(source);
        folder.places.extend(found.iter().map(|(line, chain)| format!("{}:{line} `{chain}`", source.path)));
    }
    folders
}

/// The chains of a source, each with its line.
fn chains(source: &Source) -> Vec<(usize, String)> {
    let tokens: Vec<&Token> = source.tokens.iter().filter(|token| !token.is_test).collect();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let Kind::Word(head) = &token.kind else { continue };
        let is_field = at > 0 && tokens[at - 1].is_mark('.');
        if is_field || !HEADS.contains(&head.as_str()) {
            continue;
        }
        let fields = fields(&tokens[at + 1..]);
        if fields.len() >= FIELDS_MIN {
            found.push((token.line, format!("{head}.{}", fields.join("."))));
        }
    }
    found
}

/// The fields that follow a head, up to a method or anything else.
fn fields<'t>(mut tokens: &[&'t Token]) -> Vec<&'t str> {
    let mut fields = Vec::new();
    while let [dot, field, rest @ ..] = tokens
        && let (true, Kind::Word(name)) = (dot.is_mark('.'), &field.kind)
        && !matches!(rest, [next, ..] if next.kind == Kind::Open(proc_macro2::Delimiter::Parenthesis))
        && !matches!(rest, [next, after, ..] if next.is_mark(':') && after.is_mark(':'))
    {
        fields.push(name.as_str());
        tokens = rest;
    }
    fields
}

/// `[chains]` has the folders above the limit with today's numbers, which may only shrink.
pub fn check(ratchet: &str, folders: &BTreeMap<String, Folder>) -> Vec<String> {
    // The check of sizes reports a ratchet that is no table.
    let table: toml::Table = ratchet.parse().unwrap_or_default();
    let none = toml::Table::new();
    let entries = table.get("chains").and_then(toml::Value::as_table).unwrap_or(&none);
    let mut problems: Vec<String> =
        folders.iter().filter_map(|(path, folder)| check_folder(path, folder, entries.get(path))).collect();
    let unneeded = |path: &&String| folders.get(*path).is_none_or(|folder| folder.tenths() <= TENTHS_MAX);
    problems.extend(
        entries
            .keys()
            .filter(unneeded)
            .map(|path| format!("{RATCHET}: [chains] \"{path}\" is no longer needed; remove the entry")),
    );
    problems
}

fn check_folder(path: &str, folder: &Folder, entry: Option<&toml::Value>) -> Option<String> {
    let tenths = folder.tenths();
    let entry = entry.map(|value| value.as_float().map_or(0, |number| (number * 10.0).round() as u64));
    let allowed = entry.unwrap_or(TENTHS_MAX);
    if tenths <= TENTHS_MAX {
        return None;
    }
    if tenths > allowed {
        let places = &folder.places[..folder.places.len().min(PLACES_MAX)];
        let more = if places.len() < folder.places.len() { ", ..." } else { "" };
        let whose = if entry.is_some() { format!("{} in {RATCHET}", shown(allowed)) } else { shown(allowed) };
        return Some(format!(
            "{path}: {} chains of three or more fields per 1,000 lines, at most {whose}; ask the type that owns the fields by a method: {}{more}",
            shown(tenths),
            places.join(", ")
        ));
    }
    (tenths + SLACK_TENTHS < allowed).then(|| {
        let (from, to) = (shown(allowed), shown(tenths));
        format!("{RATCHET}: [chains] \"{path}\" shrank from {from} to {to} per 1,000 lines; lower the entry")
    })
}

fn shown(tenths: u64) -> String {
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let source = Source::parse("product/server/src/a/b.rs", text).unwrap();
        chains(&source).into_iter().map(|(line, chain)| format!("{line} {chain}")).collect()
    }

    #[test]
    fn three_fields_are_a_chain_and_a_final_call_is_no_field() {
        for (text, chain) in [
            ("self.a.b.c", "self.a.b.c"),
            ("with\n.a\n.b\n.c += 1", "with.a.b.c"),
            ("conn.a.b.c.d.run(1)", "conn.a.b.c.d"),
            ("f(&mut context.a.b.c?)", "context.a.b.c"),
            ("responder.a.b.c[0].d", "responder.a.b.c"),
            ("m!(connection.a.b.c..4)", "connection.a.b.c"),
        ] {
            assert_eq!(found(&format!("fn f() {{ {text}; }}")), [format!("1 {chain}")], "{text}");
        }
    }

    #[test]
    fn shorter_ones_others_and_those_of_tests_are_none() {
        for text in [
            "self.a.b",
            "self.a.b.c()",
            "self.a.b.c::<u8>()",
            "self.a.b().c.d.e",
            "other.a.b.c",
            "itself.a.b.c",
            "other.conn.a.b.c",
            "self.a.b..c.d",
        ] {
            assert_eq!(found(&format!("fn f() {{ {text}; }}")), [""; 0], "{text}");
        }
        assert_eq!(found("// self.a.b.c\nconst A: &str = \"self.a.b.c\";"), [""; 0]);
        assert_eq!(found("#[cfg(test)]\nmod tests { fn f() { self.a.b.c } }"), [""; 0]);
    }

    #[test]
    fn folders_are_counted_apart_and_without_tests() {
        let texts = [
            ("product/server/src/a/b.rs", "fn f() {\n self.a.b.c\n}\n#[cfg(test)]\nmod tests {\n}\n"),
            ("product/server/src/a/deep/c.rs", "fn f() {\n self.a.b.c\n}\n"),
            ("product/server/src/a/tests.rs", "fn f() {\n self.a.b.c\n}\n"),
            ("product/server/src/z.rs", "#[cfg(test)]\nmod sham;\n"),
            ("product/server/src/z/sham.rs", "fn f() {\n self.a.b.c\n}\n"),
            ("product/weir/src/a/b.rs", "fn f() {\n self.a.b.c\n}\n"),
        ];
        let folders = measure(&texts.map(|(path, text)| Source::parse(path, text).unwrap()));
        let counts = folders.iter().map(|(path, folder)| (path.as_str(), folder.lines, folder.places.len()));
        assert_eq!(counts.collect::<Vec<_>>(), [("product/server/src", 0, 0), ("product/server/src/a", 6, 2)]);
        assert_eq!(folders["product/server/src/a"].places[0], "product/server/src/a/b.rs:2 `self.a.b.c`");
    }

    /// The problems with `chains` of them in 1,000 lines.
    fn said(ratchet: &str, chains: usize) -> Vec<String> {
        let folder = Folder { lines: 1000, places: (0..chains).map(|n| format!("f/{n}.rs:1 `self.a.b.c`")).collect() };
        check(ratchet, &[("f".into(), folder)].into())
    }

    #[test]
    fn three_are_allowed_and_more_need_an_entry() {
        assert_eq!(said("", 3), [""; 0]);
        let problems = said("", 4);
        assert!(problems.len() == 1 && problems[0].starts_with("f: 4.0 chains"), "{problems:?}");
        assert!(problems[0].contains("at most 3.0;") && problems[0].ends_with("f/3.rs:1 `self.a.b.c`"), "{problems:?}");
        assert!(said("", 12)[0].ends_with("f/9.rs:1 `self.a.b.c`, ..."));
    }

    #[test]
    fn an_entry_has_todays_number_or_hardly_more() {
        for allowed in ["5.0", "5.1"] {
            assert_eq!(said(&format!("[chains]\nf = {allowed}\n"), 5), [""; 0]);
        }
        assert!(said("[chains]\nf = 4.9\n", 5)[0].contains("at most 4.9 in xtask/tidy.toml"));
        assert!(said("[chains]\nf = 5.2\n", 5)[0].contains("shrank from 5.2 to 5.0"));
        assert!(said("[chains]\nf = 3.1\n", 3)[0].contains("no longer needed"));
        assert!(said("[chains]\ngone = 3.1\n", 3)[0].contains("\"gone\" is no longer needed"));
    }

    #[test]
    fn a_share_of_a_tenth_is_rounded_up() {
        let folder = Folder { lines: 5584, places: vec![String::new(); 38] };
        assert_eq!(shown(folder.tenths()), "6.9");
    }
}
