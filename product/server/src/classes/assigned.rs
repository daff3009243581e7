//! The classes of a configuration file. Each keeps its number as long as the process runs, even across reloads.

use std::collections::HashMap;
use std::net::IpAddr;

use config::{Asked, Assignment, FieldLines, Objective};
use http::{Readings, Request};
use sched::Sharing;
use sched::classes::{CLASSES_MAX, ClassSpec, ClassTable};
use thiserror::Error;

/// The classes as the operator configured them.
#[derive(Debug, Clone)]
pub struct ClassesConfig {
    /// The classes in the order of the file, followed by the class of unassigned requests.
    pub table: ClassTable,
    pub assignment: Assignment,
    /// The objectives, in the same order.
    pub objectives: Vec<Option<Objective>>,
}

/// The reason why new classes cannot replace the present ones.
#[derive(Debug, Error)]
pub enum ClassesChange {
    #[error("the first [[class]] has come, or the last has gone: run `weir upgrade` for that")]
    Presence,
    #[error("uplink.concurrency_sharing has changed: run `weir upgrade` for that")]
    Sharing,
    #[error("class.policy `{0}` needs the paths of connections, and no class did before: run `weir upgrade` for that")]
    Path(String),
    #[error(
        "{0} classes since the start, renamed and removed ones included: expected {CLASSES_MAX} at most; run `weir upgrade`"
    )]
    TooMany(usize),
}

/// The classes in force.
#[derive(Debug)]
pub struct Assigned {
    assignment: Assignment,
    /// The number of each class, in the order of the file.
    numbers: Vec<u16>,
    /// The specs by number, including classes that are no longer in the file, because responses in progress still
    /// belong to them.
    specs: Vec<ClassSpec>,
    /// In the order of the file.
    objectives: Vec<Option<Objective>>,
    sharing: Sharing,
}

impl Assigned {
    pub fn new(config: &ClassesConfig) -> Assigned {
        let specs = config.table.classes.clone();
        let numbers = (0..specs.len() as u16).collect();
        Assigned::of_config(config, numbers, specs)
    }

    fn of_config(config: &ClassesConfig, numbers: Vec<u16>, specs: Vec<ClassSpec>) -> Assigned {
        let (assignment, objectives) = (config.assignment.clone(), config.objectives.clone());
        Assigned { assignment, numbers, specs, objectives, sharing: config.table.slot_sharing }
    }

    /// Returns the classes that replace these for a new configuration. A class with the same name and order keeps its
    /// number and its responses; a class whose order has changed becomes a new class.
    pub fn succeeded_by(&self, config: &ClassesConfig) -> Result<Assigned, ClassesChange> {
        if config.table.slot_sharing != self.sharing {
            return Err(ClassesChange::Sharing);
        }
        let needs_path = |spec: &&ClassSpec| spec.order.needs_path();
        if let Some(new) =
            config.table.classes.iter().find(needs_path).filter(|_| !self.specs.iter().any(|spec| needs_path(&spec)))
        {
            return Err(ClassesChange::Path(new.order.to_string()));
        }
        let known = |spec: &ClassSpec| (spec.name.clone(), spec.order.to_string());
        let known_numbers: HashMap<_, _> =
            (0u16..).zip(&self.specs).map(|(number, spec)| (known(spec), number)).collect();
        let mut specs: Vec<ClassSpec> = self.specs.iter().map(retired).collect();
        let mut numbers = Vec::with_capacity(config.table.classes.len());
        for spec in &config.table.classes {
            let number = known_numbers.get(&known(spec)).copied().unwrap_or(specs.len() as u16);
            if specs.len() == usize::from(number) {
                specs.push(spec.clone());
            }
            specs[usize::from(number)] = spec.clone();
            numbers.push(number);
            if specs.len() > CLASSES_MAX {
                return Err(ClassesChange::TooMany(specs.len()));
            }
        }
        Ok(Assigned::of_config(config, numbers, specs))
    }

    /// The classes of the file, with number and objective.
    pub fn in_force(&self) -> impl Iterator<Item = (u16, Option<&Objective>)> {
        self.numbers.iter().copied().zip(self.objectives.iter().map(Option::as_ref))
    }

    /// The name of the class with this number.
    pub fn name(&self, number: u16) -> &str {
        &self.specs[usize::from(number)].name
    }

    /// The priority of the class with this number; a lower one goes first.
    pub fn priority(&self, number: u16) -> u8 {
        self.specs[usize::from(number)].priority
    }

    /// The specs by number, for the scheduler.
    pub fn specs(&self) -> &[ClassSpec] {
        &self.specs
    }

    /// Returns the class of a request for the site with this index in the file.
    pub fn of(&self, site: Option<usize>, request: &Request, client: IpAddr) -> u16 {
        let Some(site) = site else { return self.default() };
        match Readings::of(request.path) {
            Ok(readings) => self.of_path(site, request, client, readings.plain()),
            Err(_) if self.assignment.looks_at_paths() && request.path.starts_with(b"/") => self.default(),
            Err(_) => self.of_path(site, request, client, b""),
        }
    }

    /// Returns a function that classifies the request by a decoded path, if any rule depends on paths.
    pub fn by_path(&self, site: usize, request: &Request, client: IpAddr) -> Option<impl Fn(&[u8]) -> u16> {
        let looks = self.assignment.looks_at_paths();
        looks.then_some(move |path: &[u8]| self.of_path(site, request, client, path))
    }

    fn of_path(&self, site: usize, request: &Request, client: IpAddr, path: &[u8]) -> u16 {
        let asked = Asked { site, path, client: Some(client.to_canonical()), fields: &Lines(request) };
        self.numbers[self.assignment.of(&asked).0]
    }

    /// Returns the class of everything that is not a request of a site.
    pub fn default(&self) -> u16 {
        self.numbers[self.assignment.default()]
    }
}

/// Returns the spec of a class that is no longer in the file. It keeps no guarantee or limit.
fn retired(spec: &ClassSpec) -> ClassSpec {
    ClassSpec { weight: 1, guaranteed: None, greatest: None, concurrent_max: None, ..spec.clone() }
}

struct Lines<'a>(&'a Request<'a>);

impl FieldLines for Lines<'_> {
    fn any(&self, name: &str, holds: &mut dyn FnMut(&str) -> bool) -> bool {
        // A value that is not UTF-8 meets no condition.
        self.0.values(name).any(|value| std::str::from_utf8(value).is_ok_and(&mut *holds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> ClassesConfig {
        let read = config::read(format!("[[site]]\nroot='a'\n{text}").as_bytes()).unwrap();
        ClassesConfig {
            table: read.class_table().unwrap(),
            assignment: read.assignment(),
            objectives: read.objectives(),
        }
    }

    fn class(name: &str, rest: &str) -> String {
        format!("[[class]]\nname='{name}'\n{rest}\n[[class.rule]]\npath='/{name}/*'\n")
    }

    fn of(assigned: &Assigned, text: &str) -> u16 {
        let parsed = http::http1::parse_request(text.as_bytes(), &http::Limits::default()).unwrap().unwrap();
        assigned.of(Some(0), &parsed.request, "::ffff:198.18.0.1".parse().unwrap())
    }

    fn get(assigned: &Assigned, path: &str) -> u16 {
        of(assigned, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
    }

    #[test]
    fn a_request_has_the_class_of_its_rule() {
        let network = "[[class]]\nname='near'\n[[class.rule]]\nnetwork='198.18.0.0/15'\nheader='X-Tier: b*'";
        let assigned = Assigned::new(&config(&(class("a", "") + network)));
        assert_eq!([get(&assigned, "/a/x"), get(&assigned, "/%61/x?q"), get(&assigned, "/b")], [0, 0, 2]);
        assert_eq!([get(&assigned, "/%zz"), get(&assigned, "/a/.."), assigned.default()], [2, 2, 2]);
        assert_eq!(of(&assigned, "GET / HTTP/1.1\r\nHost: a\r\nx-tier: bronze\r\n\r\n"), 1, "an IPv4 client in IPv6");
        assert_eq!(of(&assigned, "GET / HTTP/1.1\r\nHost: a\r\nx-tier: gold\r\n\r\n"), 2);
        assert_eq!(of(&assigned, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), 2);
    }

    #[test]
    fn a_class_keeps_its_number() {
        let first = Assigned::new(&config(&(class("a", "min_rate='1mbit'") + &class("b", ""))));
        let second = first.succeeded_by(&config(&(class("c", "") + &class("b", "weight=5")))).unwrap();
        // `a` has gone, `b` and the rest go on, `c` is new.
        assert_eq!([get(&second, "/b/"), get(&second, "/c/"), get(&second, "/a/")], [1, 3, 2]);
        let told: Vec<_> =
            second.specs().iter().map(|spec| (spec.name.as_str(), spec.weight, spec.guaranteed)).collect();
        assert_eq!(told, [("a", 1, None), ("b", 5, None), ("others", 1, None), ("c", 1, None)]);
        let third = second.succeeded_by(&config(&class("a", "policy='las'"))).unwrap();
        assert_eq!((get(&third, "/a/"), third.specs().len()), (4, 5), "another order is another class");
        let names = [0, 1, 2, 3, 4].map(|number| third.name(number));
        assert_eq!(names, ["a", "b", "others", "c", "a"]);
        assert_eq!(get(&third.succeeded_by(&config(&class("a", ""))).unwrap(), "/a/"), 0);
    }

    #[test]
    fn changes_that_need_a_restart_say_so() {
        let first = Assigned::new(&config(&class("a", "")));
        let said = |text: &str| first.succeeded_by(&config(text)).unwrap_err().to_string();
        assert!(said(&class("a", "policy='srrt'")).starts_with("class.policy `srrt` needs the paths"));
        let sharing = "[uplink]\nconcurrency_sharing='any'\n".to_string() + &class("a", "");
        assert!(said(&sharing).starts_with("uplink.concurrency_sharing has changed"));
    }

    #[test]
    fn renaming_ends_at_the_greatest_number() {
        let of = |from: usize| -> String {
            (from..from + 900).map(|n| format!("[[class]]\nname='c{n}'\n[[class.rule]]\npath='/{n}'\n")).collect()
        };
        let mut assigned = Assigned::new(&config(&of(0)));
        let refused = (1..20).find_map(|round| match assigned.succeeded_by(&config(&of(round * 900))) {
            Ok(next) => {
                assigned = next;
                None
            }
            Err(error) => Some((round, error.to_string())),
        });
        let (round, said) = refused.expect("there is an end");
        assert!(round == 11 && said.contains("expected 10000 at most"), "{round}: {said}");
    }
}
