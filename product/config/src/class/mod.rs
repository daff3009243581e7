//! Classes of requests: the rules that assign them, and their shares of the uplink.

mod assign;
mod objective;
mod rule;

use std::collections::{BTreeMap, BTreeSet};

pub use assign::{Assignment, Why};
pub use objective::Objective;
pub use rule::{Asked, Field, FieldLines, Rule, Token};
use sched::UplinkRate;
use sched::classes::{CLASSES_MAX, ClassSpec};
use sched::policy::PolicySpec;
use units::Rate;

use crate::place::{Place, Placed, quoted};
use crate::section::{Book, Held, Section};
use crate::settings::Uplink;
use crate::site::{self, Site};
use crate::suggest;
use crate::unreached_rules;
use crate::value_forms::Name;

/// The class of requests that no rule, site or default assigns.
pub const OTHERS: &str = "others";

/// A class of requests.
#[derive(Debug, Clone)]
pub struct Class {
    pub at: Place,
    pub name: String,
    /// The priority. The class with the lowest number goes first.
    pub priority: u8,
    /// The weight in the file; `None` if it is not set, which means 1.
    pub weight: Option<u32>,
    pub min_rate: Option<Rate>,
    pub max_rate: Option<Rate>,
    pub max_concurrent_requests: Option<u32>,
    /// The policy; `None` to use the uplink's policy.
    pub policy: Option<PolicySpec>,
    pub objective: Option<Objective>,
    pub held: Vec<Held>,
}

/// Reads the classes, and the rules of all classes in the order of the file.
pub(crate) fn read(file: &Section<'_, '_>, sites: &[Site]) -> (Vec<Class>, Vec<Rule>) {
    let tables = file.tables("class");
    // One class is reserved for `others`.
    let most = CLASSES_MAX - 1;
    if let Some(table) = tables.get(most) {
        file.book.mistake(table.at, format!("class {}: expected {most} at most", most + 1));
    }
    let names = site::names(sites);
    let (mut classes, mut rules) = (Vec::new(), Vec::new());
    for table in tables.into_iter().take(most) {
        let own = table.tables("rule");
        rules.extend(own.iter().filter_map(|rule| Rule::read(rule, classes.len(), &names)));
        classes.extend(Class::read(table));
    }
    rules.sort_by_key(|rule| rule.at);
    unreached_rules::check(file.book, &rules);
    (classes, rules)
}

impl Class {
    fn read(table: Section<'_, '_>) -> Option<Class> {
        let name = table.text::<Name>("name");
        let (priority, weight) = (table.whole_number("priority"), table.whole_number("weight"));
        let (min_rate, max_rate) = (table.text::<Rate>("min_rate"), table.text::<Rate>("max_rate"));
        let max_concurrent_requests =
            table.whole_number("max_concurrent_requests").and_then(|most| most.try_into().ok());
        let (policy, objective) = (table.text::<PolicySpec>("policy"), table.text::<Objective>("objective"));
        if let Some((min, max)) = min_rate.as_ref().zip(max_rate.as_ref())
            && max.value < min.value
        {
            let said = format!("class.max_rate `{}`: expected at least min_rate, {}", max.value, min.value);
            table.book.mistake(max.at, said);
        }
        let name = name?;
        if name.value.0 == OTHERS {
            let said = format!(
                "class.name `{OTHERS}`: expected another name; this one is reserved for requests that no rule assigns"
            );
            table.book.mistake(name.at, said);
        }
        Some(Class {
            at: table.at,
            name: name.value.0,
            priority: priority.and_then(|priority| priority.try_into().ok()).unwrap_or(0),
            weight: weight.and_then(|weight| weight.try_into().ok()),
            min_rate: min_rate.map(|rate| rate.value),
            max_rate: max_rate.map(|rate| rate.value),
            max_concurrent_requests,
            policy: policy.map(|policy| policy.value),
            objective: objective.map(|objective| objective.value),
            held: table.held(),
        })
    }

    /// Returns the class in the scheduler's form. A class without a policy gets the uplink's.
    pub fn spec(&self, uplink: &Uplink) -> ClassSpec {
        let order = self.policy.as_ref().unwrap_or(&uplink.policy).order().clone();
        ClassSpec {
            name: self.name.clone(),
            priority: self.priority,
            weight: self.weight.unwrap_or(1),
            guaranteed: self.min_rate,
            greatest: self.max_rate,
            concurrent_max: self.max_concurrent_requests,
            order,
            is_pooled: !self.has_share(),
        }
    }

    /// Returns whether the class has a share of its own among the classes of its priority.
    fn has_share(&self) -> bool {
        let has_rate = self.min_rate.is_some() || self.max_rate.is_some();
        has_rate || self.weight.is_some() || self.policy.is_some()
    }

    fn place_of(&self, key: &str) -> Place {
        self.held.iter().find(|held| held.key == key).and_then(|held| held.at).unwrap_or(self.at)
    }
}

/// Checks the classes against the rest of the file.
pub(crate) fn check(book: &Book<'_>, classes: &[Class], rules: &[Rule], sites: &[Site], uplink: &Uplink) {
    check_names(book, classes);
    if let Some(at) = uplink.bands_at.filter(|_| !classes.is_empty()) {
        let said =
            "uplink.shaping `bands` with [[class]], which the kernel's bands do not have: expected auto, paced or off";
        book.mistake(at, said);
    }
    match uplink.rate {
        UplinkRate::Off => note_no_order(book, classes),
        _ => check_rates(book, classes, uplink.rate.most()),
    }
    let mut used: BTreeSet<usize> = rules.iter().map(|rule| rule.class).collect();
    let names = by_name(classes);
    let of_sites = sites.iter().filter_map(|site| Some(("site.class", site.class.as_ref()?)));
    let default = uplink.default_class.as_ref().map(|name| ("uplink.default_class", name));
    for (key, name) in of_sites.chain(default) {
        used.extend(named(book, &names, key, name));
    }
    for (_, class) in classes.iter().enumerate().filter(|(index, _)| !used.contains(index)) {
        let said =
            format!("class `{}` is never reached: expected a rule, a site or uplink.default_class with it", class.name);
        book.mistake(class.at, said);
    }
}

fn check_names(book: &Book<'_>, classes: &[Class]) {
    let mut seen: BTreeMap<&str, Place> = BTreeMap::new();
    for class in classes {
        if let Some(first) = seen.insert(&class.name, class.at) {
            let line = book.line(first, class.at);
            let said = format!("class `{}`: expected a name of its own, {line} has it", class.name);
            book.mistake(class.at, said);
        }
    }
}

/// The keys of a class that determine the order of responses.
const ORDER: [&str; 4] = ["class.min_rate", "class.weight", "class.priority", "class.policy"];

fn note_no_order(book: &Book<'_>, classes: &[Class]) {
    for class in classes {
        for held in class.held.iter().filter(|held| ORDER.contains(&held.key)) {
            if let Some(at) = held.at {
                book.note(at, format!("{}: no effect with uplink.rate = \"off\"", held.key));
            }
        }
    }
}

/// Checks that all minimum rates together fit the uplink, and that no maximum rate exceeds it.
fn check_rates(book: &Book<'_>, classes: &[Class], uplink: Option<Rate>) {
    let Some(uplink) = uplink else {
        if let Some(class) = classes.iter().find(|class| class.min_rate.is_some()) {
            let said = "class.min_rate without uplink.rate: not compared with the rate of the uplink";
            book.note(class.place_of("class.min_rate"), said);
        }
        return;
    };
    let mut guaranteed_bits_per_s = 0u128;
    for class in classes {
        if let Some(max) = class.max_rate.filter(|max| *max > uplink) {
            let said = format!("class.max_rate `{max}`: expected at most the uplink's {uplink}");
            book.mistake(class.place_of("class.max_rate"), said);
        }
        let Some(own) = class.min_rate else { continue };
        let left = u128::from(uplink.bits_per_s()).saturating_sub(guaranteed_bits_per_s);
        guaranteed_bits_per_s += u128::from(own.bits_per_s());
        if u128::from(own.bits_per_s()) > left {
            let rest = u64::try_from(left).ok().and_then(Rate::from_bits_per_s);
            let rest = rest.map_or("nothing".into(), |rate| rate.to_string());
            let said = format!(
                "class.min_rate `{own}`: expected at most {rest}, what the classes above leave of the uplink's {uplink}"
            );
            book.mistake(class.place_of("class.min_rate"), said);
        }
    }
}

/// The indices of classes by name. There may be ten thousand classes, as many as sites.
pub(super) fn by_name(classes: &[Class]) -> BTreeMap<&str, usize> {
    classes.iter().enumerate().map(|(at, class)| (class.name.as_str(), at)).collect()
}

/// The index of the class of this name; `None` for [`OTHERS`] and for an unknown name, which is a mistake.
fn named(book: &Book<'_>, classes: &BTreeMap<&str, usize>, key: &str, name: &Placed<String>) -> Option<usize> {
    let found = classes.get(name.value.as_str()).copied();
    if found.is_none() && name.value != OTHERS {
        let guess = suggest::nearest(&name.value, classes.keys().copied());
        let expected = suggest::guessed("the name of a [[class]]".into(), guess);
        book.mistake(name.at, format!("{key} {}: expected {expected}", quoted(&name.value)));
    }
    found
}
