//! The differences between the tables of two files: of sites, classes and their contents, and of the server.
//!
//! Tables that may occur several times are compared by name. Compared by position, all tables after a removed one would
//! seem to have changed.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::Hash;

use super::Change;
use crate::keys::{Key, Kind};
use crate::place::Place;
use crate::section::Held;

/// The maximum length of a default that is shown unabridged; some defaults are sentences.
const DEFAULT_BYTES_MAX: usize = 40;

/// The keys that name a table among the tables of its path. Tables without such a key are compared by position, after
/// the equal ones are paired.
const NAMES: [&str; 13] = [
    "site.access.path",
    "site.cache.path",
    "site.cors.path",
    "site.error_page.status",
    "site.header.name",
    "site.header.path",
    "site.proxy.path",
    "site.redirect.from",
    "site.redirect.from_host",
    "site.request_header.name",
    "site.request_header.path",
    "site.rewrite.from",
    "site.type.extensions",
];

/// The settings of one table.
struct Table<'h> {
    at: Place,
    held: Vec<&'h Held>,
}

impl Table<'_> {
    fn name(&self) -> Vec<&str> {
        self.values(|held| NAMES.contains(&held.key)).map(|held| &*held.value).collect()
    }

    /// The settings by which another table is recognised as the same.
    fn settings(&self) -> Vec<(&str, &str)> {
        self.held.iter().map(|held| (held.key, &*held.value)).collect()
    }

    fn values(&self, is_wanted: impl Fn(&Held) -> bool) -> impl Iterator<Item = &Held> {
        self.held.iter().copied().filter(move |held| is_wanted(held))
    }

    /// Returns the name as it is shown: `/up/*`. A table without a name is shown by its settings: `path /x/*`.
    fn shown(&self) -> String {
        let of_name: Vec<&str> =
            self.values(|held| NAMES.contains(&held.key) && held.at.is_some()).map(|held| &*held.value).collect();
        if !of_name.is_empty() {
            return of_name.join(" ");
        }
        let last = |key: &'static str| key.rsplit('.').next().unwrap_or(key);
        let given = self.values(|held| held.at.is_some()).map(|held| format!("{} {}", last(held.key), held.value));
        given.collect::<Vec<_>>().join(", ")
    }

    /// A change of the whole table.
    fn change(&self, prefix: &str, path: &str, what: &str, at: Option<Place>) -> Change {
        let said = match Key::of(path).map(|key| key.kind) {
            Some(Kind::Tables) => format!("{prefix}[[{path}]] {} {what}", self.shown()),
            _ => format!("{prefix}[{path}] {what}"),
        };
        Change { key: None, said, at }
    }
}

/// Returns the differences between two lists of settings, of one table and the tables below it.
pub(super) fn of_values(prefix: &str, before: &[Held], after: &[Held]) -> Vec<Change> {
    let [before, after] = [before, after].map(by_path);
    let paths: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let of_path = |path| {
        let [before, after] = [&before, &after].map(|all| all.get(path).map_or(&[][..], Vec::as_slice));
        of_path(prefix, path, before, after)
    };
    paths.into_iter().flat_map(of_path).collect()
}

/// The tables of each path, in the order of the file.
fn by_path(held: &[Held]) -> BTreeMap<&'static str, Vec<Table<'_>>> {
    let mut all: BTreeMap<_, Vec<Table>> = BTreeMap::new();
    for held in held {
        let path = held.key.rsplit_once('.').map_or("", |(path, _)| path);
        let tables = all.entry(path).or_default();
        match tables.last_mut().filter(|table| table.at == held.table) {
            Some(table) => table.held.push(held),
            None => tables.push(Table { at: held.table, held: vec![held] }),
        }
    }
    all
}

/// The differences of the tables of one path.
fn of_path(prefix: &str, path: &str, before: &[Table], after: &[Table]) -> Vec<Change> {
    let partners = partners(before, after);
    let mut changes = Vec::new();
    for (table, partner) in after.iter().zip(&partners) {
        if let Some(partner) = partner {
            changes.extend(of_table(prefix, &before[*partner].held, table));
        } else {
            changes.push(table.change(prefix, path, "added", Some(table.at)));
            changes.extend(if is_single(path) { of_table(prefix, &[], table) } else { Vec::new() });
        }
    }
    let stays: BTreeSet<usize> = partners.iter().flatten().copied().collect();
    for (_, table) in before.iter().enumerate().filter(|(at, _)| !stays.contains(at)) {
        changes.push(table.change(prefix, path, "removed", None));
        let none = Table { at: table.at, held: Vec::new() };
        changes.extend(if is_single(path) { of_table(prefix, &table.held, &none) } else { Vec::new() });
    }
    if !partners.iter().flatten().is_sorted() {
        let said = format!("{prefix}[[{path}]] in another order");
        changes.push(Change { key: None, said, at: after.first().map(|table| table.at) });
    }
    changes
}

/// Returns true for a table that occurs at most once. If such a table is added or removed, its keys are compared with
/// their defaults.
fn is_single(path: &str) -> bool {
    Key::of(path).is_none_or(|key| key.kind != Kind::Tables)
}

/// Returns, for each new table, the corresponding old table: the equal one, or else one of the same name.
fn partners(before: &[Table], after: &[Table]) -> Vec<Option<usize>> {
    let mut partners = vec![None; after.len()];
    pair(before, after, &mut partners, Table::settings);
    pair(before, after, &mut partners, Table::name);
    partners
}

/// Pairs tables that are equal by this key, in order, unless they are paired already.
fn pair<'t, K: Hash + Eq>(
    before: &'t [Table],
    after: &'t [Table],
    partners: &mut [Option<usize>],
    key: fn(&'t Table<'t>) -> K,
) {
    let paired: BTreeSet<usize> = partners.iter().flatten().copied().collect();
    let mut free: HashMap<K, VecDeque<usize>> = HashMap::new();
    for (at, table) in before.iter().enumerate().filter(|(at, _)| !paired.contains(at)) {
        free.entry(key(table)).or_default().push_back(at);
    }
    for (table, partner) in after.iter().zip(partners).filter(|(_, partner)| partner.is_none()) {
        *partner = free.get_mut(&key(table)).and_then(VecDeque::pop_front);
    }
}

/// Returns the differences between the keys of one table. A key that is missing on one side has its default there.
fn of_table(prefix: &str, before: &[&Held], after: &Table) -> Vec<Change> {
    let (before, now) = (by_key(before), by_key(&after.held));
    let keys: BTreeSet<&'static str> = before.keys().chain(now.keys()).copied().collect();
    let of_key = |key| of_value(prefix, before.get(key).copied(), now.get(key).copied());
    keys.into_iter().filter_map(of_key).collect()
}

fn by_key<'h>(held: &[&'h Held]) -> BTreeMap<&'static str, &'h Held> {
    held.iter().map(|held| (held.key, *held)).collect()
}

fn of_value(prefix: &str, before: Option<&Held>, after: Option<&Held>) -> Option<Change> {
    let key = before.or(after)?.key;
    let [was, is] = [before, after].map(|held| held.map_or("none", shown));
    let is_default = |held: Option<&Held>| held.is_none_or(|held| held.at.is_none());
    let is_changed = was != is && !(is_default(before) && is_default(after));
    is_changed.then(|| Change {
        key: Some(key),
        said: format!("{prefix}{key} {was} → {is}"),
        at: after.and_then(|held| held.at),
    })
}

/// The value as it is shown; a long default is abridged.
fn shown(held: &Held) -> &str {
    let is_sentence = held.at.is_none() && held.value.len() > DEFAULT_BYTES_MAX;
    if is_sentence { "the default" } else { &held.value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::keys;

    /// A new table of rules gets a name, or is known here to have none.
    #[test]
    fn every_table_of_a_site_has_a_name() {
        for name in NAMES {
            assert!(Key::of(name).is_some(), "{name}");
        }
        let tables = keys().filter(|key| key.kind == Kind::Tables && key.path.starts_with("site."));
        let is_named =
            |key: &&Key| NAMES.iter().any(|name| name.rsplit_once('.').is_some_and(|(of, _)| of == key.path));
        let (named, unnamed): (Vec<_>, Vec<_>) = tables.partition(is_named);
        assert!(named.len() >= 10 && unnamed.is_empty(), "{unnamed:?}");
    }
}
