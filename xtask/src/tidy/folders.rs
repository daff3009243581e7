//! Arrows inside a folder of the server: its modules stand in an order too, as those of a crate do.
//!
//! The order of a crate ends at its folders: `worker` is one module there and dozens of files here, which could use each other in circles unseen.
//! `mod.rs` composes the folder, so its own uses do not count. A submodule that uses an item of `mod.rs` has an arrow to `mod`, or to the
//! module that `mod.rs` re-exports the item from; an item that `mod.rs` imports from outside the folder makes no arrow.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{check_arrow, heights, named};
use super::source::{self, Kind, Source, Token};

/// The folders that may have an order.
const PARENT: &str = "product/server/src/";
/// The name of `mod.rs` in an order.
const ROOT: &str = "mod";

const RATCHET: &str = "xtask/tidy.toml";

/// The modules of a folder with `mod`, and how many paths of the first of a pair name the second.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Folder {
    modules: BTreeSet<String>,
    arrows: BTreeMap<(String, String), usize>,
}

/// The folders below [`PARENT`] that have a `mod.rs`, by path; tests left out.
pub fn measure(sources: &[Source]) -> BTreeMap<String, Folder> {
    let built = source::built(sources);
    let is_name = |name: &&str| !name.contains('/');
    let folder_of = |source: &Source| {
        let name = source.path.strip_prefix(PARENT)?.strip_suffix("/mod.rs").filter(is_name)?;
        Some(name.to_owned())
    };
    let roots = built.iter().filter_map(|root| Some((folder_of(root)?, root)));
    roots.map(|(name, root)| (format!("{PARENT}{name}"), measure_folder(&name, root, &built))).collect()
}

fn measure_folder(name: &str, root: &Source, built: &[&Source]) -> Folder {
    let names = Names::of(root);
    let mut arrows = BTreeMap::new();
    for source in built {
        let within = source.path.strip_prefix(PARENT).and_then(|path| path.strip_prefix(name)?.strip_prefix('/'));
        let stem = within.map_or("", |path| path.trim_end_matches(".rs"));
        let path: Vec<&str> = stem.split('/').filter(|part| !matches!(*part, "" | "mod")).collect();
        let Some(user) = path.first() else { continue };
        for used in paths_into(source, name, path.len()).iter().filter_map(|used| names.owner(used)) {
            if used != *user {
                *arrows.entry(((*user).to_owned(), used.to_owned())).or_default() += 1;
            }
        }
    }
    let mut modules = names.modules;
    modules.insert(ROOT.into());
    Folder { modules, arrows }
}

/// What the `mod.rs` of a folder declares and imports.
struct Names {
    modules: BTreeSet<String>,
    /// Imported names, each with the first word of its path.
    imported: BTreeMap<String, String>,
}

impl Names {
    fn of(root: &Source) -> Names {
        let mut names = Names { modules: BTreeSet::new(), imported: BTreeMap::new() };
        let mut depth = 0_usize;
        let tokens = code(root);
        for (at, token) in tokens.iter().enumerate() {
            match (&token.kind, tokens.get(at + 1).map(|next| &next.kind)) {
                (Kind::Open(_), _) => depth += 1,
                (Kind::Close(_), _) => depth = depth.saturating_sub(1),
                (Kind::Word(word), Some(Kind::Word(name))) if depth == 0 && word == "mod" => {
                    names.modules.insert(name.clone());
                }
                (Kind::Word(word), _) if depth == 0 && word == "use" => names.import(&tokens[at + 1..]),
                _ => {}
            }
        }
        names
    }

    /// Adds the names that the `use` with these tokens brings into scope: words that no `::` and no `as` follows.
    fn import(&mut self, tokens: &[&Token]) {
        let end = tokens.iter().position(|token| token.is_mark(';')).unwrap_or(tokens.len());
        let words = || tokens[..end].iter().filter_map(|token| word(token));
        let Some(first) = words().find(|word| *word != "self") else { return };
        for pair in tokens[..=end.min(tokens.len() - 1)].windows(2) {
            let is_last = !pair[1].is_mark(':') && !pair[1].is_word("as");
            if let Some(name) = word(pair[0]).filter(|name| is_last && *name != "as") {
                self.imported.insert(name.into(), first.into());
            }
        }
    }

    /// The module that a name of `mod.rs` belongs to; `None` if it is from outside the folder.
    fn owner<'n>(&'n self, name: &'n str) -> Option<&'n str> {
        if self.modules.contains(name) {
            return Some(name);
        }
        match self.imported.get(name) {
            Some(first) => self.modules.get(first).map(String::as_str),
            None => Some(ROOT),
        }
    }
}

fn word(token: &Token) -> Option<&str> {
    match &token.kind {
        Kind::Word(word) => Some(word),
        _ => None,
    }
}

fn code(source: &Source) -> Vec<&Token> {
    source.tokens.iter().filter(|token| !token.is_test).collect()
}

/// The names of the folder that a source's paths begin with, once for each path: `depth` times `super`, or `crate` and the folder.
fn paths_into(source: &Source, folder: &str, depth: usize) -> Vec<String> {
    let tokens = code(source);
    let is_joined = |at: usize| at > 1 && tokens[at - 1].is_mark(':') && tokens[at - 2].is_mark(':');
    let begins = |at: &usize| (tokens[*at].is_word("super") || tokens[*at].is_word("crate")) && !is_joined(*at);
    let words = |at: usize| {
        let next = (at..).step_by(3).take_while(move |next| *next == at || is_joined(*next));
        next.map_while(|next| Some((next, word(tokens.get(next)?)?)))
    };
    let behind = |at: usize| {
        if tokens[at].is_word("crate") {
            let (last, first) = words(at).nth(1)?;
            return (first == folder).then_some(last + 1);
        }
        let supers = words(at).take_while(|(_, word)| *word == "super");
        let (count, last) = supers.fold((0, at), |(count, _), (next, _)| (count + 1, next));
        (count == depth).then_some(last + 1)
    };
    (0..tokens.len()).filter(begins).filter_map(behind).flat_map(|rest| named(&tokens[rest..])).collect()
}

/// `[folders]` has the modules of a folder from the lowest on, as `[modules]` those of a crate; `[upward]` the arrows against that order.
pub fn check(ratchet: &str, folders: &BTreeMap<String, Folder>) -> Vec<String> {
    // The check of sizes reports a ratchet that is no table.
    let table: toml::Table = ratchet.parse().unwrap_or_default();
    let none = toml::Table::new();
    let section = |name: &str| table.get(name).and_then(toml::Value::as_table).unwrap_or(&none);
    let (orders, entries) = (section("folders"), section("upward"));
    let mut upward: BTreeMap<String, usize> = BTreeMap::new();
    let mut problems = Vec::new();
    for (path, order) in orders {
        match folders.get(path) {
            Some(folder) => problems.extend(check_folder(path, folder, &heights(order), &mut upward)),
            None => problems.push(format!(
                "{RATCHET}: [folders] \"{path}\" is no folder of {PARENT} with a mod.rs; correct or remove the line"
            )),
        }
    }
    problems
        .extend(upward.iter().filter_map(|(arrow, count)| check_arrow("folders", arrow, *count, entries.get(arrow))));
    let unneeded = entries.keys().filter(|arrow| is_of_folder(arrow) && !upward.contains_key(*arrow));
    problems
        .extend(unneeded.map(|arrow| format!("{RATCHET}: [upward] \"{arrow}\" is no longer needed; remove the entry")));
    problems
}

/// Compares a folder's modules with the `heights` of its order, and adds its arrows against that order to `upward`.
fn check_folder(
    path: &str,
    folder: &Folder,
    heights: &BTreeMap<&str, usize>,
    upward: &mut BTreeMap<String, usize>,
) -> Vec<String> {
    let missing = folder.modules.iter().filter(|module| !heights.contains_key(module.as_str()));
    let mut problems: Vec<String> = missing
        .map(|module| {
            format!("{RATCHET}: [folders] \"{path}\" has no place for `{module}`; add it behind the modules it uses")
        })
        .collect();
    let gone = heights.keys().filter(|module| !folder.modules.contains(**module));
    problems.extend(gone.map(|module| {
        format!("{RATCHET}: [folders] \"{path}\" names `{module}`, which is no module there; remove it")
    }));
    for ((user, used), count) in &folder.arrows {
        if heights.get(used.as_str()) > heights.get(user.as_str()) && heights.contains_key(user.as_str()) {
            upward.insert(format!("{path}: {user} -> {used}"), *count);
        }
    }
    problems
}

/// Returns true for an entry of `[upward]` that is about a folder, not about a crate.
pub fn is_of_folder(arrow: &str) -> bool {
    arrow.starts_with(PARENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOD: &str = "mod a;\npub mod b;\nmod deep;\n#[cfg(test)]\nmod fake;\npub use b::{B, Inner as Outer, part::Part};\n\
                       use self::a::A;\nuse crate::net::Net;\npub struct Whole;\nfn run() { b::go() }\n";

    /// The arrows of a folder `f` with [`MOD`] and this file.
    fn arrows(file: &str, text: &str) -> Vec<String> {
        let path = |file: &str| format!("{PARENT}f/{file}");
        let sources = [("mod.rs", MOD), (file, text)].map(|(file, text)| Source::parse(&path(file), text).unwrap());
        let folders = measure(&sources);
        let folder = &folders[&format!("{PARENT}f")];
        assert_eq!(folder.modules, ["a", "b", "deep", "mod"].map(String::from).into(), "all but the module for tests");
        folder.arrows.iter().map(|((user, used), count)| format!("{user} -> {used}: {count}")).collect()
    }

    #[test]
    fn paths_between_modules_are_arrows() {
        let text = "use super::b::{self, C};\nuse super::{a, b::D};\nfn f() { crate::f::b::go(crate::g::b) }\npub(super) fn g() {}\n\
                    use other::super_b;\n#[cfg(test)]\nmod tests { use super::super::deep; }\n";
        assert_eq!(arrows("a.rs", text), ["a -> b: 3"]);
        assert_eq!(arrows("fake.rs", text), [""; 0], "a module for tests");
        assert_eq!(arrows("tests/a.rs", text), [""; 0]);
    }

    #[test]
    fn files_of_a_submodule_count_as_that_submodule() {
        let text = "use super::super::b;\nuse super::a::own;\nuse crate::f::a::{C, D};\nuse super::super::super::g;\n";
        assert_eq!(arrows("deep/x.rs", text), ["deep -> a: 1", "deep -> b: 1"]);
        assert_eq!(arrows("deep/mod.rs", "use super::b;\n"), ["deep -> b: 1"]);
    }

    #[test]
    fn a_name_of_the_root_is_an_arrow_to_its_owner() {
        assert_eq!(arrows("a.rs", "use super::{B, Outer, Part};\n"), ["a -> b: 3"]);
        assert_eq!(arrows("b.rs", "use super::{A, Part};\n"), ["b -> a: 1"], "its own item is no arrow");
        assert_eq!(arrows("a.rs", "use super::{Net, Whole, run};\nuse super::*;\n"), ["a -> mod: 3"]);
        assert_eq!(arrows("a.rs", ""), [""; 0], "the root composes");
    }

    const ORDER: &str = "[folders]\n\"product/server/src/f\" = [\"mod\", \"low also_low\", \"high\"]\n";

    fn said(ratchet: &str, user: &str, used: &str, count: usize) -> Vec<String> {
        let modules = ["mod", "low", "also_low", "high"].map(String::from).into();
        let folder = Folder { modules, arrows: [((user.into(), used.into()), count)].into() };
        check(ratchet, &[("product/server/src/f".into(), folder)].into())
    }

    #[test]
    fn arrows_go_downward_or_stay_in_their_layer() {
        for (user, used) in [("high", "low"), ("low", "also_low"), ("high", "mod")] {
            assert_eq!(said(ORDER, user, used, 5), [""; 0]);
        }
        let problems = said(ORDER, "low", "high", 1);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("product/server/src/f: low -> high: an arrow against the order of [folders]"));
        assert_eq!(said("", "low", "high", 1), [""; 0], "a folder without an order");
    }

    #[test]
    fn exceptions_have_todays_number_of_paths() {
        let with =
            format!("{ORDER}[upward]\n\"product/server/src/f: low -> high\" = 2\n\"product/server: a -> b\" = 1\n");
        assert_eq!(said(&with, "low", "high", 2), [""; 0]);
        assert!(said(&with, "low", "high", 3)[0].contains("may only shrink"));
        assert!(said(&with, "low", "high", 1)[0].contains("lower the entry"));
        let problems = said(&with, "high", "low", 1);
        assert!(problems.len() == 1 && problems[0].contains("no longer needed"), "{problems:?}");
    }

    #[test]
    fn an_order_names_each_module_and_no_other() {
        let problems = said(&ORDER.replace("also_low", "gone"), "high", "low", 1);
        assert!(problems[0].contains("no place for `also_low`"), "{problems:?}");
        assert!(problems[1].contains("names `gone`, which is no module"), "{problems:?}");
        assert!(said(&ORDER.replace("src/f", "src/g"), "high", "low", 1)[0].contains("is no folder"));
    }
}
