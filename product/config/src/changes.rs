//! Compares two configuration files and describes their differences in the files' own terms, for an operator who
//! reloads a server.

mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;

use crate::Configuration;
use crate::class::Class;
use crate::place::{Named, Place, Placed};
use crate::section::Held;
use crate::settings::Listener;
use crate::site::Site;
use tables::of_values;

/// The start of each listener's changes.
const LISTENER: &str = "listener ";

/// A difference between two files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key. `None` if a whole table was added or removed.
    pub key: Option<&'static str>,
    said: String,
    /// The place in the second file. `None` for a key or table that was removed or is now a default.
    at: Option<Place>,
}

impl Change {
    /// Returns true if a listener was added, removed or changed.
    pub fn is_of_listener(&self) -> bool {
        self.key.is_none() && self.said.starts_with(LISTENER)
    }

    /// Formats the change with the line in its file: `uplink.rate 20mbit → 18mbit (weir.toml:6)`.
    pub fn of_file<'c>(&'c self, files: &'c (impl Named + ?Sized)) -> impl fmt::Display + 'c {
        fmt::from_fn(move |f| match self.at {
            Some(at) => write!(f, "{} ({}:{})", self.said, files.name_of(at), at.line),
            None => write!(f, "{}", self.said),
        })
    }
}

/// Returns all differences: of the server, of listeners, of sites and of classes.
pub fn changes(before: &Configuration, after: &Configuration) -> Vec<Change> {
    let mut changes = of_values("", &before.settings.held, &after.settings.held);
    changes.extend(of_listeners(before, after));
    changes.extend(of_tables("site", &sites(before), &sites(after)));
    changes.extend(of_tables("class", &classes(before), &classes(after)));
    changes
}

fn sites(of: &Configuration) -> BTreeMap<&str, Table> {
    let held = |site: &Site| site.held.iter().chain(&site.answers_held).cloned().collect();
    of.sites.iter().map(|site| (site.name.as_str(), Table { at: site.at, held: held(site) })).collect()
}

/// The classes with their rules. Tokens are never shown, so a change of only a token is not reported.
fn classes(of: &Configuration) -> BTreeMap<&str, Table> {
    let table = |(at, class): (usize, &Class)| {
        let rules = of.rules.iter().filter(|rule| rule.class == at).flat_map(|rule| &rule.held);
        Table { at: class.at, held: class.held.iter().chain(rules).cloned().collect() }
    };
    of.classes.iter().enumerate().map(|class| (of.classes[class.0].name.as_str(), table(class))).collect()
}

/// The settings of a named table and of all tables below it.
struct Table {
    at: Place,
    held: Vec<Held>,
}

fn of_tables(noun: &str, before: &BTreeMap<&str, Table>, after: &BTreeMap<&str, Table>) -> Vec<Change> {
    let names: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let of_name = |name: &str| match (before.get(name), after.get(name)) {
        (Some(before), Some(after)) => of_values(&format!("{noun} {name}: "), &before.held, &after.held),
        (Some(_), None) => vec![Change { key: None, said: format!("{noun} {name} removed"), at: None }],
        (None, after) => {
            vec![Change { key: None, said: format!("{noun} {name} added"), at: after.map(|table| table.at) }]
        }
    };
    names.into_iter().flat_map(of_name).collect()
}

fn of_listeners(before: &Configuration, after: &Configuration) -> Vec<Change> {
    let (before, after) = (by_address(before), by_address(after));
    let mut changes = Vec::new();
    for (address, listener) in &after {
        let said = |said: String| Change { key: None, said, at: Some(listener.at) };
        match before.get(address) {
            None => changes.push(said(format!("{LISTENER}{} added", address.0))),
            Some(old) => changes.extend(flags(&old.value, &listener.value).into_iter().map(said)),
        }
    }
    let gone = before.keys().filter(|address| !after.contains_key(address));
    changes.extend(gone.map(|(address, _)| Change {
        key: None,
        said: format!("{LISTENER}{address} removed"),
        at: None,
    }));
    changes
}

/// The listeners by address. Several may have port 0, so a number distinguishes them.
fn by_address(of: &Configuration) -> BTreeMap<(SocketAddr, usize), &Placed<Listener>> {
    let mut all = BTreeMap::new();
    for listener in &of.settings.listeners {
        let address = listener.value.address;
        let nth = (0..).find(|nth| !all.contains_key(&(address, *nth))).unwrap_or(usize::MAX);
        all.insert((address, nth), listener);
    }
    all
}

fn flags(before: &Listener, after: &Listener) -> Vec<String> {
    let all = [
        ("tls", before.is_secure, after.is_secure),
        ("http3", before.has_http3, after.has_http3),
        ("proxy_protocol", before.has_proxy_header, after.has_proxy_header),
    ];
    let changed = all.into_iter().filter(|(_, was, is)| was != is);
    changed.map(|(key, was, is)| format!("{LISTENER}{}: listener.{key} {was} → {is}", after.address)).collect()
}
