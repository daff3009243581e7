//! The table of layers in ARCHITECTURE.md is the law; this compares it with what cargo says the crates use.
//!
//! A dependency between crates is a promise about what a crate can not do. Written once, in the table a person reads,
//! it is checked here, so that the page and the workspace cannot part.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand};

const TABLE: &str = "ARCHITECTURE.md";

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
struct Layer {
    layer: u32,
    may_use: BTreeSet<String>,
}

/// A crate of the workspace and the crates of the workspace it uses.
#[derive(Debug, Default)]
pub struct Crate {
    pub name: String,
    /// The folder it lies in: `core`, `product`, `lab`; empty beside them.
    pub house: String,
    /// Normal and build dependencies.
    pub uses: Vec<String>,
    /// Dependencies of its tests, examples and benches.
    pub tests_use: Vec<String>,
}

/// Asks cargo, without the network: only the workspace's own manifests matter.
pub fn of_workspace(root: &Path) -> Result<Vec<Crate>, String> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .map_err(|e| format!("cargo metadata failed: {e}"))?;
    let names: BTreeSet<&str> = metadata.packages.iter().map(|package| package.name.as_str()).collect();
    let crates = metadata.packages.iter().map(|package| {
        let ours = |dev: bool| {
            let of_kind = package.dependencies.iter().filter(move |d| (d.kind == DependencyKind::Development) == dev);
            of_kind.filter(|d| names.contains(d.name.as_str()) && d.path.is_some()).map(|d| d.name.clone()).collect()
        };
        let folder = package.manifest_path.as_std_path().parent().and_then(|folder| folder.strip_prefix(root).ok());
        let house = folder.and_then(Path::parent).map_or(String::new(), |house| house.display().to_string());
        Crate { name: package.name.to_string(), house, uses: ours(false), tests_use: ours(true) }
    });
    Ok(crates.collect())
}

pub fn check(architecture: &str, crates: &[Crate]) -> Vec<String> {
    let table = parse(architecture);
    let mut problems: Vec<String> = table.iter().flat_map(|(name, row)| check_row(&table, name, row)).collect();
    for name in table.keys().filter(|name| crates.iter().all(|c| c.name != **name)) {
        problems.push(format!("{TABLE}: the table names `{name}`, which is no crate of the workspace; remove the row"));
    }
    for c in crates {
        match table.get(&c.name) {
            Some(row) => problems.extend(check_crate(&table, c, row).into_iter().chain(check_house(c, crates))),
            None => {
                problems.push(format!("{TABLE}: crate `{}` is missing from the table of layers; add a row", c.name))
            }
        }
    }
    problems
}

/// Rows look like `| 1 | sched | units | what it is |`; every other line is prose.
fn parse(architecture: &str) -> BTreeMap<String, Layer> {
    let mut table = BTreeMap::new();
    for line in architecture.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, layer, name, may_use, ..] = cells[..] else { continue };
        let Ok(layer) = layer.parse() else { continue };
        let may_use = may_use.split_whitespace().map(str::to_owned).collect();
        table.insert(name.to_owned(), Layer { layer, may_use });
    }
    table
}

/// The table itself must go downward: an arrow within a layer or upward could close a circle.
fn check_row(table: &BTreeMap<String, Layer>, name: &str, row: &Layer) -> Vec<String> {
    let mut problems = Vec::new();
    for used in &row.may_use {
        match table.get(used) {
            None => problems.push(format!("{TABLE}: `{name}` may use `{used}`, which has no row of its own")),
            Some(below) if below.layer >= row.layer => problems.push(format!(
                "{TABLE}: `{name}` (layer {}) may use `{used}` (layer {}); an arrow goes to a lower layer",
                row.layer, below.layer
            )),
            Some(_) => {}
        }
    }
    problems
}

/// Tests may also use any crate of a lower layer; what is built may use only what the row says.
fn check_crate(table: &BTreeMap<String, Layer>, c: &Crate, row: &Layer) -> Vec<String> {
    let mut problems = Vec::new();
    for used in c.uses.iter().filter(|used| !row.may_use.contains(*used)) {
        problems.push(format!("{TABLE}: `{}` uses `{used}`: no such arrow in the table", c.name));
    }
    for unused in row.may_use.iter().filter(|name| !c.uses.contains(*name)) {
        problems.push(format!("{TABLE}: `{}` may use `{unused}` and does not; remove the arrow", c.name));
    }
    let is_lower = |used: &String| table.get(used).is_some_and(|below| below.layer < row.layer);
    for used in c.tests_use.iter().filter(|used| !is_lower(used)) {
        problems.push(format!("{TABLE}: tests of `{}` use `{used}`, which is not in a lower layer", c.name));
    }
    problems
}

/// What operators install is built without the laboratory, and what both share without either.
fn check_house(c: &Crate, crates: &[Crate]) -> Vec<String> {
    let allowed: &[&str] = match c.house.as_str() {
        "core" => &["core"],
        "product" => &["core", "product"],
        _ => return Vec::new(),
    };
    let used = crates.iter().filter(|other| c.uses.contains(&other.name) && !allowed.contains(&other.house.as_str()));
    used.map(|other| {
        format!("{}/{}: uses `{}` of {}/; allowed: {}", c.house, c.name, other.name, other.house, allowed.join(", "))
    })
    .collect()
}

/// Crates that a manifest names and no line of `sources` does: `(path, text)` of every Rust file.
pub fn check_named<'a>(crates: &[Crate], sources: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Vec<String> {
    let mut problems = Vec::new();
    for c in crates {
        let folder = if c.house.is_empty() { format!("{}/", c.name) } else { format!("{}/{}/", c.house, c.name) };
        let is_built = |path: &str| path.starts_with(&folder) && !path[folder.len()..].starts_with("tests/");
        for used in &c.uses {
            let path = format!("{used}::");
            let names = |text: &str| {
                text.match_indices(&path)
                    .any(|(at, _)| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
            };
            if !sources.clone().any(|(file, text)| is_built(file) && names(text)) {
                problems.push(format!("{folder}Cargo.toml: depends on `{used}`, which no source names; remove it"));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "prose\n| layer | crate | may use | what |\n|---|---|---|---|\n| 0 | units | | rates |\n\
                        | 1 | sched | units | ranks |\n| 2 | uplink | sched units | kernel |\n";

    fn made(name: &str, uses: &[&str], tests_use: &[&str]) -> Crate {
        let owned = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect();
        Crate { name: name.into(), house: "core".into(), uses: owned(uses), tests_use: owned(tests_use) }
    }

    /// What `check` says of a workspace with these crates for `sched` and `uplink`.
    fn said(sched: Crate, uplink: Crate) -> Vec<String> {
        check(PAGE, &[made("units", &[], &[]), sched, uplink])
    }

    #[test]
    fn arrows_of_the_table_pass_if_they_are_used() {
        assert_eq!(said(made("sched", &["units"], &[]), made("uplink", &["units", "sched"], &["sched"])), [""; 0]);
        let problems = said(made("sched", &["units"], &[]), made("uplink", &["units"], &["sched"]));
        assert!(problems.len() == 1 && problems[0].contains("`uplink` may use `sched` and does not"), "{problems:?}");
    }

    #[test]
    fn a_house_builds_on_those_below_it() {
        let housed = |house: &str, name: &str, uses: &[&str]| Crate { house: house.into(), ..made(name, uses, &[]) };
        let crates = [
            housed("core", "units", &[]),
            housed("product", "server", &["units"]),
            housed("lab", "sim", &["units", "server"]),
        ];
        assert!(crates.iter().all(|c| check_house(c, &crates).is_empty()));
        let wrong =
            [housed("product", "server", &["sim"]), housed("lab", "sim", &[]), housed("core", "units", &["server"])];
        let problems: Vec<String> = wrong.iter().flat_map(|c| check_house(c, &wrong)).collect();
        assert_eq!(
            problems,
            [
                "product/server: uses `sim` of lab/; allowed: core, product",
                "core/units: uses `server` of product/; allowed: core"
            ]
        );
    }

    #[test]
    fn a_dependency_is_named_by_what_is_built() {
        let crates = [made("sched", &["units"], &[])];
        let said = |path: &str, text: &str| check_named(&crates, [(path, text)].into_iter()).len();
        assert_eq!(said("core/sched/src/lib.rs", "use units::Rate;"), 0);
        assert_eq!(said("core/sched/src/lib.rs", "use time_units::Rate;"), 1);
        assert_eq!(said("core/sched/tests/laws.rs", "use units::Rate;"), 1);
    }

    #[test]
    fn an_arrow_not_in_the_table_names_both_ends() {
        let problems = said(made("sched", &["units", "uplink"], &[]), made("uplink", &["units", "sched"], &[]));
        assert!(problems.len() == 1 && problems[0].contains("`sched` uses `uplink`"), "{problems:?}");
    }

    #[test]
    fn tests_may_not_look_up() {
        let problems = said(made("sched", &["units"], &["uplink"]), made("uplink", &["units", "sched"], &["uplink"]));
        assert!(problems.len() == 2 && problems[0].contains("tests of `sched` use `uplink`"), "{problems:?}");
    }

    #[test]
    fn table_and_workspace_name_the_same_crates() {
        let problems =
            check(PAGE, &[made("units", &[], &[]), made("sched", &["units"], &[]), made("extra", &["units"], &[])]);
        assert!(problems[0].contains("`uplink`, which is no crate"), "{problems:?}");
        assert!(problems[1].contains("crate `extra` is missing"), "{problems:?}");
    }

    #[test]
    fn the_table_goes_downward() {
        let page = "| 1 | a | b c | |\n| 1 | b | | |\n";
        let problems = check(page, &[made("a", &["b", "c"], &[]), made("b", &[], &[])]);
        assert!(problems[0].contains("`a` (layer 1) may use `b` (layer 1)"), "{problems:?}");
        assert!(problems[1].contains("`c`, which has no row"), "{problems:?}");
    }
}
