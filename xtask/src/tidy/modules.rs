//! Arrows inside a crate: its modules stand in an order, and use those before them. An arrow against the order is named in a ratchet with
//! the number of its paths, which may only shrink.

use std::collections::BTreeMap;

use proc_macro2::Delimiter;

use super::folders;
use super::source::{Kind, Source, Token};

const RATCHET: &str = "xtask/tidy.toml";

/// How often a module names another of its crate: `product/server`, then user and used.
pub type Arrows = BTreeMap<(String, String, String), usize>;

/// Of code that is not for tests.
pub fn measure(sources: &[Source]) -> Arrows {
    let mut arrows = Arrows::new();
    for source in sources {
        let Some((of_crate, module)) = module_of(&source.path) else { continue };
        let tokens: Vec<&Token> = source.tokens.iter().filter(|token| !token.is_test).collect();
        for at in (0..tokens.len()).filter(|at| tokens[*at].is_word("crate")) {
            let used = named(&tokens[at + 1..]).into_iter().filter(|used| *used != module);
            for used in used {
                *arrows.entry((of_crate.clone(), module.clone(), used)).or_default() += 1;
            }
        }
    }
    arrows
}

/// `product/server` and `event_loop` of `product/server/src/event_loop/reading.rs`.
fn module_of(path: &str) -> Option<(String, String)> {
    let (of_crate, rest) = path.split_once("/src/")?;
    let first = rest.split('/').next()?;
    Some((of_crate.into(), first.trim_end_matches(".rs").into()))
}

/// The names that a path continues with behind its root, `crate` or `super`: one, those of a group, or `*`.
pub fn named(tokens: &[&Token]) -> Vec<String> {
    let is_path = tokens.len() > 2 && tokens[0].is_mark(':') && tokens[1].is_mark(':');
    match tokens.get(2).filter(|_| is_path).map(|token| &token.kind) {
        Some(Kind::Word(name)) => vec![name.clone()],
        Some(Kind::Mark('*')) => vec!["*".into()],
        Some(Kind::Open(Delimiter::Brace)) => {
            let (mut depth, mut names, mut begins) = (0_usize, Vec::new(), true);
            for token in &tokens[3..] {
                match &token.kind {
                    Kind::Open(_) => depth += 1,
                    Kind::Close(_) if depth == 0 => break,
                    Kind::Close(_) => depth -= 1,
                    Kind::Mark(',') => begins |= depth == 0,
                    Kind::Word(name) if begins && depth == 0 => {
                        names.push(name.clone());
                        begins = false;
                    }
                    _ => {}
                }
            }
            names
        }
        _ => Vec::new(),
    }
}

/// `[modules]` has the modules of a crate from the lowest on, each line a layer whose modules may use each other; `[upward]` the arrows
/// against that order.
pub fn check(ratchet: &str, arrows: &Arrows) -> Vec<String> {
    // What is no table is said by the check of sizes.
    let table: toml::Table = ratchet.parse().unwrap_or_default();
    let none = toml::Table::new();
    let section = |name: &str| table.get(name).and_then(toml::Value::as_table).unwrap_or(&none);
    let (orders, entries) = (section("modules"), section("upward"));
    let mut upward: BTreeMap<String, usize> = BTreeMap::new();
    let mut problems = Vec::new();
    for (of_crate, order) in orders {
        let heights = heights(order);
        for ((_, user, used), count) in arrows.iter().filter(|((named, ..), _)| named == of_crate) {
            // What the root of a crate gives its name to is no module.
            let Some(below) = heights.get(used.as_str()) else { continue };
            match heights.get(user.as_str()) {
                Some(height) if below > height => {
                    upward.insert(format!("{of_crate}: {user} -> {used}"), *count);
                }
                None if !matches!(user.as_str(), "lib" | "main") => {
                    problems.push(format!("{RATCHET}: [modules] \"{of_crate}\" has no place for `{user}`"));
                }
                _ => {}
            }
        }
    }
    problems.dedup();
    problems
        .extend(upward.iter().filter_map(|(arrow, count)| check_arrow("modules", arrow, *count, entries.get(arrow))));
    let unneeded = entries.keys().filter(|arrow| !folders::is_of_folder(arrow) && !upward.contains_key(*arrow));
    problems
        .extend(unneeded.map(|arrow| format!("{RATCHET}: [upward] \"{arrow}\" is no longer needed; remove the entry")));
    problems
}

/// The layer of each module.
pub fn heights(order: &toml::Value) -> BTreeMap<&str, usize> {
    let layers = order.as_array().into_iter().flatten().filter_map(toml::Value::as_str);
    layers.enumerate().flat_map(|(height, layer)| layer.split_whitespace().map(move |name| (name, height))).collect()
}

/// Compares an arrow against the order of `section` with its entry in `[upward]`.
pub fn check_arrow(section: &str, arrow: &str, count: usize, entry: Option<&toml::Value>) -> Option<String> {
    let allowed =
        entry.map_or(0, |value| value.as_integer().and_then(|count| usize::try_from(count).ok()).unwrap_or(0));
    match allowed {
        _ if count == allowed => None,
        0 => Some(format!(
            "{arrow}: an arrow against the order of [{section}] in {RATCHET}; move what both need below them"
        )),
        _ if count > allowed => {
            Some(format!("{arrow}: {count} paths, {allowed} in {RATCHET}; an exception may only shrink"))
        }
        _ => Some(format!("{RATCHET}: [upward] \"{arrow}\" shrank from {allowed} to {count}; lower the entry")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(path: &str, text: &str) -> Vec<(String, String, usize)> {
        let arrows = measure(&[Source::parse(path, text).unwrap()]);
        arrows.into_iter().map(|((_, user, used), count)| (user, used, count)).collect()
    }

    fn arrow(user: &str, used: &str, count: usize) -> (String, String, usize) {
        (user.into(), used.into(), count)
    }

    #[test]
    fn paths_and_groups_of_them_are_found_and_those_of_tests_are_not() {
        let text = "use crate::b::C;\nuse crate::{b, d::{e, f}, g as h};\nfn x() { crate::b::y(crate::a::z) }\n\
                    pub(crate) fn w() {}\n#[cfg(test)]\nmod tests { use crate::i; }\n";
        let found = measured("product/s/src/a/deep.rs", text);
        assert_eq!(found, [arrow("a", "b", 3), arrow("a", "d", 1), arrow("a", "g", 1)]);
        assert_eq!(measured("product/s/src/a/tests.rs", text), []);
    }

    const ORDER: &str = "[modules]\n\"product/s\" = [\"low also_low\", \"high\"]\n";

    fn said(ratchet: &str, user: &str, used: &str, count: usize) -> Vec<String> {
        check(ratchet, &Arrows::from([(("product/s".into(), user.into(), used.into()), count)]))
    }

    #[test]
    fn arrows_go_downward_or_stay_in_their_layer() {
        assert_eq!(said(ORDER, "high", "low", 5), [""; 0]);
        assert_eq!(said(ORDER, "low", "also_low", 5), [""; 0]);
        assert_eq!(said(ORDER, "lib", "high", 5), [""; 0]);
        assert!(said(ORDER, "low", "high", 1)[0].contains("against the order"));
        assert!(said(ORDER, "new", "high", 1)[0].contains("no place for `new`"));
        assert_eq!(said("", "low", "high", 1), [""; 0], "a crate without an order");
    }

    #[test]
    fn exceptions_have_todays_number_of_paths() {
        let with = format!("{ORDER}[upward]\n\"product/s: low -> high\" = 2\n");
        assert_eq!(said(&with, "low", "high", 2), [""; 0]);
        assert!(said(&with, "low", "high", 3)[0].contains("may only shrink"));
        assert!(said(&with, "low", "high", 1)[0].contains("lower the entry"));
        assert!(said(&with, "high", "low", 1)[0].contains("no longer needed"));
        let of_folder = format!("{ORDER}[upward]\n\"product/server/src/a: b -> c\" = 1\n");
        assert_eq!(said(&of_folder, "high", "low", 1), [""; 0], "folders judges its own entries");
    }
}
