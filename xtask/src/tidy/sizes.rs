//! Files and functions stay small: a hard limit for all, and a soft one whose exceptions are written down and only shrink.
//!
//! Every model codebase has one overgrown central file. It grew by lines nobody would have refused one by one, so each
//! exception in `xtask/tidy.toml` holds today's exact size: it cannot grow, and shrinking it lowers the entry.

use std::collections::BTreeMap;

use super::source::Source;

const FILE: Limit = Limit { soft: 500, hard: 1000 };
const FUNCTION: Limit = Limit { soft: 40, hard: 70 };

const RATCHET: &str = "xtask/tidy.toml";
/// The sections of the ratchet, for all checks.
const SECTIONS: [&str; 10] =
    ["files", "functions", "plain_data", "types", "modules", "folders", "upward", "chains", "results", "commits"];

/// Lines: above `soft` needs an entry in the ratchet, above `hard` nothing helps.
#[derive(Clone, Copy)]
struct Limit {
    soft: usize,
    hard: usize,
}

/// Lines by name: a file's path, or `path::function` (the largest, where one file has several of that name).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    files: BTreeMap<String, usize>,
    functions: BTreeMap<String, usize>,
}

pub fn measure(sources: &[Source]) -> Sizes {
    let mut sizes = Sizes::default();
    for source in sources {
        sizes.files.insert(source.path.clone(), source.line_count());
        for function in source.functions() {
            let largest = sizes.functions.entry(format!("{}::{}", source.path, function.name)).or_default();
            *largest = function.line_count.max(*largest);
        }
    }
    sizes
}

pub fn check(ratchet: &str, sizes: &Sizes) -> Vec<String> {
    let table: toml::Table = match ratchet.parse() {
        Ok(table) => table,
        Err(e) => return vec![format!("{RATCHET}: {e}")],
    };
    let mut problems = Vec::new();
    for (section, value) in &table {
        if !SECTIONS.contains(&section.as_str()) || !value.is_table() {
            problems
                .push(format!("{RATCHET}: `{section}` is unknown here; the sections are [{}]", SECTIONS.join("], [")));
        }
    }
    problems.extend(check_section(&table, "files", FILE, &sizes.files));
    problems.extend(check_section(&table, "functions", FUNCTION, &sizes.functions));
    problems
}

fn check_section(table: &toml::Table, section: &str, limit: Limit, sizes: &BTreeMap<String, usize>) -> Vec<String> {
    let none = toml::Table::new();
    let entries = table.get(section).and_then(toml::Value::as_table).unwrap_or(&none);
    let mut problems: Vec<String> =
        sizes.iter().filter_map(|(name, &lines)| check_size(section, limit, name, lines, entries.get(name))).collect();
    for name in entries.keys().filter(|name| sizes.get(*name).is_none_or(|&lines| lines <= limit.soft)) {
        problems.push(format!("{RATCHET}: [{section}] \"{name}\" is no longer needed; remove the entry"));
    }
    problems
}

fn check_size(section: &str, limit: Limit, name: &str, lines: usize, entry: Option<&toml::Value>) -> Option<String> {
    let Limit { soft, hard } = limit;
    let entry = entry.map(|value| value.as_integer().and_then(|lines| usize::try_from(lines).ok()).unwrap_or(0));
    match entry {
        _ if lines <= soft => None,
        _ if lines > hard => Some(format!("{name}: {lines} lines, at most {hard}; split it by the state it owns")),
        None => Some(format!(
            "{name}: {lines} lines, over the soft limit of {soft}; split it, or write \"{name}\" = {lines} under [{section}] in {RATCHET} and say why in the commit"
        )),
        Some(allowed) if lines > allowed => {
            Some(format!("{name}: {lines} lines, {allowed} in {RATCHET}; an exception may only shrink"))
        }
        Some(allowed) if lines < allowed => {
            Some(format!("{RATCHET}: [{section}] \"{name}\" shrank from {allowed} to {lines} lines; lower the entry"))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(files: &[(&str, usize)], functions: &[(&str, usize)]) -> Sizes {
        let map = |list: &[(&str, usize)]| list.iter().map(|&(name, lines)| (name.into(), lines)).collect();
        Sizes { files: map(files), functions: map(functions) }
    }

    #[test]
    fn small_things_need_no_entry() {
        assert_eq!(check("", &sizes(&[("a.rs", 500)], &[("a.rs::f", 40)])), [""; 0]);
    }

    #[test]
    fn an_entry_allows_exactly_todays_size() {
        let large = sizes(&[("a.rs", 600)], &[("a.rs::f", 50)]);
        assert_eq!(check("[files]\n\"a.rs\" = 600\n[functions]\n\"a.rs::f\" = 50\n", &large), [""; 0]);
        for (ratchet, said) in [
            ("", "over the soft limit"),
            ("[files]\n\"a.rs\" = 599\n[functions]\n\"a.rs::f\" = 49\n", "may only shrink"),
            ("[files]\n\"a.rs\" = 601\n[functions]\n\"a.rs::f\" = 51\n", "lower the entry"),
        ] {
            let problems = check(ratchet, &large);
            assert!(problems.len() == 2 && problems.iter().all(|p| p.contains(said)), "{problems:?}");
        }
    }

    #[test]
    fn nothing_allows_more_than_the_hard_limit() {
        let huge = sizes(&[("a.rs", 1001)], &[("a.rs::f", 71)]);
        let problems = check("[files]\n\"a.rs\" = 1001\n[functions]\n\"a.rs::f\" = 71\n", &huge);
        assert!(problems.len() == 2 && problems.iter().all(|p| p.contains("at most")), "{problems:?}");
    }

    #[test]
    fn an_entry_that_is_not_needed_goes() {
        let ratchet = "[files]\n\"a.rs\" = 600\n\"gone.rs\" = 600\n";
        let problems = check(ratchet, &sizes(&[("a.rs", 500)], &[]));
        assert!(problems.len() == 2 && problems.iter().all(|p| p.contains("remove the entry")), "{problems:?}");
    }

    #[test]
    fn a_misspelt_section_is_an_error() {
        assert!(check("[file]\n", &sizes(&[], &[]))[0].contains("`file` is unknown"));
        assert!(check("files", &sizes(&[], &[]))[0].starts_with("xtask/tidy.toml: "));
    }

    #[test]
    fn the_largest_of_a_name_counts() {
        let source = Source::parse("a.rs", "impl A { fn new() {} }\nimpl B { fn new() {\n} }\n").unwrap();
        assert_eq!(measure(&[source]), sizes(&[("a.rs", 3)], &[("a.rs::new", 2)]));
    }
}
