//! Classes of responses, in the operator's form and in the program's: which packets belong to each.
//!
//! A rule matches a packet that meets all its conditions. The first rule that matches decides; if none does, the packet
//! belongs to the first class, the default. The settings in the kernel hold the rules in the form in which the program
//! compares them. They also hold the operator's form as text, so that it can be read back.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::constants::{CLASSES_AT, CLASSES_TEXT_AT, CLASSES_TEXT_BYTES, PORTS_AT, RULE_BYTES, RULES_AT};
pub use crate::constants::{CLASSES_MAX, RULES_MAX};
use crate::tree::ClassShare;

/// The classes of an interface; empty if all responses are alike.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Classes {
    /// The classes, the default class first.
    pub all: Vec<Class>,
    /// The rules, in the order in which they are tried.
    pub rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    pub name: String,
    pub share: ClassShare,
}

/// The conditions for packets of a class, at least one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// The index of the class.
    pub class: usize,
    /// The local port as clients see it.
    pub port: Option<u16>,
    /// The client's network: its first address and the length of its prefix.
    pub network: Option<(IpAddr, u8)>,
    pub dscp: Option<u8>,
    /// The packet's mark, set by `SO_MARK` or nftables.
    pub mark: Option<u32>,
    pub cgroup: Option<Cgroup>,
}

/// A control group, including all groups below it, by its path below the root of the version 2 hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    pub path: String,
    /// The kernel's number of the group. It is 0 if the group does not exist, and then no packet matches.
    pub id: u64,
}

impl Cgroup {
    /// Looks for the group.
    pub fn of(path: &str) -> Cgroup {
        Cgroup { path: path.to_string(), id: id_of(path).unwrap_or(0) }
    }

    pub fn is_there(&self) -> bool {
        self.id != 0
    }

    /// Returns true if the group has processes, and each of these is in another network namespace, as in a container.
    pub fn has_own_network(&self) -> bool {
        let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net"));
        let (Ok(root), Ok(here)) = (cgroup_root(), network("self")) else { return false };
        let mut has_others = false;
        let mut folders = vec![root.join(&self.path)];
        while let Some(folder) = folders.pop() {
            let processes = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            for found in processes.lines().filter_map(|process| network(process).ok()) {
                if found == here {
                    return false;
                }
                has_others = true;
            }
            let inside = fs::read_dir(&folder).into_iter().flatten().flatten();
            folders
                .extend(inside.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|of| of.path()));
        }
        has_others
    }

    /// The number of groups above this one.
    fn level(&self) -> u8 {
        self.path.split('/').filter(|part| !part.is_empty()).count().min(u8::MAX.into()) as u8
    }
}

/// Returns the folder of the version 2 hierarchy. Fails inside a cgroup namespace, which hides the number of groups
/// above it.
pub fn cgroup_root() -> Result<PathBuf, Error> {
    let is_root =
        |folder: &&Path| folder.join("cgroup.procs").exists() && folder.join("cgroup.subtree_control").exists();
    let folders = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
    match folders.iter().copied().find(|folder| is_root(folder)) {
        None => {
            Err(Error::missing("no groups of version 2 are mounted at /sys/fs/cgroup, so no rule can have a cgroup"))
        }
        // The root of all groups has no type.
        Some(folder) if folder.join("cgroup.type").exists() => {
            Err(Error::new("a rule with a cgroup needs all groups of the host: run weir outside the container"))
        }
        Some(folder) => Ok(folder.to_path_buf()),
    }
}

fn id_of(path: &str) -> io::Result<u64> {
    let root = cgroup_root().map_err(|error| io::Error::other(error.to_string()))?;
    let about = fs::metadata(root.join(path))?;
    // The number of the folder is the number of the group.
    if about.is_dir() { Ok(about.ino()) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

const HAS_PORT: u8 = 1;
const HAS_NETWORK: u8 = 2;
const HAS_DSCP: u8 = 4;
const HAS_MARK: u8 = 8;
const HAS_CGROUP: u8 = 16;

impl Rule {
    fn conditions(&self) -> u8 {
        let has = [
            (self.port.is_some(), HAS_PORT),
            (self.network.is_some(), HAS_NETWORK),
            (self.dscp.is_some(), HAS_DSCP),
            (self.mark.is_some(), HAS_MARK),
            (self.cgroup.is_some(), HAS_CGROUP),
        ];
        has.into_iter().filter(|(is_there, _)| *is_there).map(|(_, bit)| bit).sum()
    }

    /// Returns true if each packet that meets the other rule's conditions also meets this rule's.
    pub fn covers(&self, other: &Rule) -> bool {
        fn has<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
            one.is_none() || one == other
        }
        let network = match (self.network, other.network) {
            (Some(own), Some(other)) => is_within(other, own),
            (own, _) => own.is_none(),
        };
        let is_below = |own: &Cgroup, other: &Cgroup| {
            other.path == own.path || other.path.strip_prefix(&own.path).is_some_and(|rest| rest.starts_with('/'))
        };
        let cgroup = match (&self.cgroup, &other.cgroup) {
            (Some(own), Some(other)) => is_below(own, other),
            (own, _) => own.is_none(),
        };
        let plain = has(&self.port, &other.port) && has(&self.dscp, &other.dscp) && has(&self.mark, &other.mark);
        plain && network && cgroup
    }

    /// Returns the rule as a `struct rule` of bpf/classify.h.
    fn to_bytes(&self) -> Vec<u8> {
        let mut network = [0; 16];
        let (version, bits) = match self.network {
            Some((IpAddr::V4(address), bits)) => {
                network[..4].copy_from_slice(&address.octets());
                (4, bits)
            }
            Some((IpAddr::V6(address), bits)) => {
                network = address.octets();
                (6, bits)
            }
            None => (0, 0),
        };
        let mut bytes = network.to_vec();
        bytes.extend(self.cgroup.as_ref().map_or(0, |cgroup| cgroup.id).to_ne_bytes());
        bytes.extend(self.mark.unwrap_or(0).to_ne_bytes());
        bytes.extend(self.port.unwrap_or(0).to_ne_bytes());
        let level = self.cgroup.as_ref().map_or(0, Cgroup::level);
        bytes.extend([self.conditions(), self.class as u8, version, bits, self.dscp.unwrap_or(0), level]);
        bytes.resize(RULE_BYTES, 0);
        bytes
    }

    fn to_text(&self) -> String {
        fn word<T: ToString>(value: Option<T>) -> String {
            value.map_or("-".to_string(), |value| value.to_string())
        }
        let network = word(self.network.map(|(address, bits)| format!("{address}/{bits}")));
        let cgroup = self.cgroup.as_ref();
        let (id, path) = (word(cgroup.map(|cgroup| cgroup.id)), word(cgroup.map(|cgroup| &cgroup.path)));
        let (port, dscp, mark) = (word(self.port), word(self.dscp), word(self.mark));
        format!("rule\t{}\t{port}\t{network}\t{dscp}\t{mark}\t{id}\t{path}\n", self.class)
    }

    fn of_text(words: &[&str]) -> Option<Rule> {
        fn value<T: std::str::FromStr>(word: &str) -> Option<Option<T>> {
            if word == "-" { Some(None) } else { word.parse().ok().map(Some) }
        }
        let [class, port, network, dscp, mark, id, path] = words else { return None };
        let network = match network.split_once('/') {
            Some((address, bits)) => Some((address.parse().ok()?, bits.parse().ok()?)),
            None => None,
        };
        let cgroup = value(id)?.map(|id| Cgroup { path: path.to_string(), id });
        Some(Rule {
            class: class.parse().ok()?,
            port: value(port)?,
            network,
            dscp: value(dscp)?,
            mark: value(mark)?,
            cgroup,
        })
    }
}

fn is_within((inner, inner_bits): (IpAddr, u8), (outer, outer_bits): (IpAddr, u8)) -> bool {
    let leading = |bits: u128, width: u32| bits.checked_shr(width - u32::from(outer_bits)).unwrap_or(0);
    let is_alike = match (inner, outer) {
        (IpAddr::V4(inner), IpAddr::V4(outer)) => {
            leading(inner.to_bits().into(), 32) == leading(outer.to_bits().into(), 32)
        }
        (IpAddr::V6(inner), IpAddr::V6(outer)) => leading(inner.to_bits(), 128) == leading(outer.to_bits(), 128),
        _ => false,
    };
    is_alike && inner_bits >= outer_bits
}

impl Classes {
    pub fn shares(&self) -> Vec<ClassShare> {
        self.all.iter().map(|class| class.share).collect()
    }

    /// Returns the classes with the current numbers of their control groups.
    pub fn resolved(&self) -> Classes {
        let mut found = self.clone();
        for cgroup in found.rules.iter_mut().filter_map(|rule| rule.cgroup.as_mut()) {
            *cgroup = Cgroup::of(&cgroup.path);
        }
        found
    }

    /// Returns an error if the program cannot hold these classes.
    pub fn check(&self, ports: &[u16]) -> Result<(), Error> {
        let (classes, rules, text_bytes) = (self.all.len(), self.rules.len(), self.text().len());
        if classes > CLASSES_MAX || rules > RULES_MAX {
            return Err(Error::new(format!(
                "{classes} classes and {rules} rules: an interface takes {CLASSES_MAX} (the default included) and {RULES_MAX}"
            )));
        }
        if text_bytes > CLASSES_TEXT_BYTES {
            return Err(Error::new(format!(
                "the names and cgroups of the classes have {text_bytes} bytes: shorten them to {CLASSES_TEXT_BYTES}"
            )));
        }
        match self.rules.iter().filter_map(|rule| rule.port).find(|port| !ports.contains(port)) {
            Some(port) => {
                let name =
                    self.rules.iter().find(|rule| rule.port == Some(port)).map(|rule| &self.all[rule.class].name);
                let name = name.map_or("", String::as_str);
                Err(Error::new(format!(
                    "class {name} has a rule for port {port}, which is not attached: add it to the ports"
                )))
            }
            None => Ok(()),
        }
    }

    /// Returns the part of `struct settings` that the program reads.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let conditions = self.rules.iter().fold(0, |all, rule| all | rule.conditions());
        let counts = [self.all.len() as u32, self.rules.len() as u32, conditions.into(), 0];
        let mut bytes: Vec<u8> = counts.iter().flat_map(|count| count.to_ne_bytes()).collect();
        let weights: u64 = self.all.iter().map(|class| u64::from(class.share.weight)).sum();
        let permille = |class: &Class| (u64::from(class.share.weight) * 1000).div_ceil(weights.max(1)) as u32;
        bytes.extend(self.all.iter().flat_map(|class| permille(class).to_ne_bytes()));
        bytes.resize(RULES_AT - CLASSES_AT, 0);
        bytes.extend(self.rules.iter().flat_map(Rule::to_bytes));
        bytes.resize(PORTS_AT - CLASSES_AT, 0);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Classes> {
        let text = bytes.get(CLASSES_TEXT_AT..)?;
        let text = text.split(|byte| *byte == 0).next()?;
        Classes::of_text(std::str::from_utf8(text).ok()?)
    }

    /// Returns the part that is read back.
    pub(super) fn text(&self) -> String {
        let share = |share: &ClassShare| {
            let part = |part: Option<crate::tree::Part>| part.map_or("-".to_string(), |part| part.to_string());
            format!("{}\t{}\t{}", share.weight, part(share.min_rate), part(share.max_rate))
        };
        let classes = self.all.iter().map(|class| format!("class\t{}\t{}\n", class.name, share(&class.share)));
        classes.chain(self.rules.iter().map(Rule::to_text)).collect()
    }

    fn of_text(text: &str) -> Option<Classes> {
        let part = |word: &str| if word == "-" { Some(None) } else { word.parse().ok().map(Some) };
        let mut found = Classes::default();
        for line in text.lines() {
            match line.split('\t').collect::<Vec<_>>().as_slice() {
                ["class", name, weight, min, max] => {
                    let share = ClassShare { weight: weight.parse().ok()?, min_rate: part(min)?, max_rate: part(max)? };
                    found.all.push(Class { name: name.to_string(), share });
                }
                ["rule", words @ ..] => found.rules.push(Rule::of_text(words)?),
                _ => return None,
            }
        }
        found.rules.iter().all(|rule| rule.class < found.all.len()).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::SETTINGS_BYTES;

    fn rule(network: &str, port: Option<u16>, cgroup: Option<&str>) -> Rule {
        let network = network.split_once('/').map(|(address, bits)| (address.parse().unwrap(), bits.parse().unwrap()));
        let cgroup = cgroup.map(|path| Cgroup { path: path.into(), id: 7 });
        Rule { port, network, cgroup, ..Rule::default() }
    }

    #[test]
    fn classes_read_back() {
        let share = ClassShare { weight: 1000, min_rate: Some("20%".parse().unwrap()), max_rate: None };
        let all = vec![
            Class { name: "others".into(), share: ClassShare::default() },
            Class { name: "a.b-c_d".into(), share },
        ];
        let rules = vec![
            Rule { class: 1, dscp: Some(46), mark: Some(u32::MAX), ..rule("2001:db8::/32", Some(443), Some("a/b c")) },
            Rule { class: 1, ..rule("0.0.0.0/0", None, None) },
        ];
        let classes = Classes { all, rules };
        let text = classes.text();
        assert_eq!(Classes::of_text(&text), Some(classes.clone()), "{text}");
        assert_eq!(classes.to_bytes().len(), PORTS_AT - CLASSES_AT);
        let mut bytes = vec![0; CLASSES_TEXT_AT];
        bytes.extend(text.bytes());
        bytes.resize(SETTINGS_BYTES, 0);
        assert_eq!(Classes::from_bytes(&bytes), Some(classes));
        assert_eq!(Classes::of_text(""), Some(Classes::default()));
        for broken in
            ["class\ta\t1\t-", "rule\t0\t-\t-\t-\t-\t-\t-", "class\ta\tx\t-\t-", "class\ta\t1\t-\t-\nrule\t0\t80"]
        {
            assert_eq!(Classes::of_text(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_rule_covers_those_that_ask_for_more() {
        for (one, other, is_covered) in [
            (rule("", Some(80), None), rule("10.0.0.0/8", Some(80), None), true),
            (rule("10.0.0.0/8", Some(80), None), rule("", Some(80), None), false),
            (rule("10.0.0.0/8", None, None), rule("10.1.0.0/16", Some(80), None), true),
            (rule("10.1.0.0/16", None, None), rule("10.0.0.0/8", None, None), false),
            (rule("10.0.0.0/8", None, None), rule("11.0.0.0/8", None, None), false),
            (rule("0.0.0.0/0", None, None), rule("192.0.2.1/32", None, None), true),
            (rule("0.0.0.0/0", None, None), rule("::/0", None, None), false),
            (rule("::/0", None, None), rule("2001:db8::1/128", None, None), true),
            (rule("", None, Some("a.slice")), rule("", Some(80), Some("a.slice/b")), true),
            (rule("", None, Some("a.slice")), rule("", None, Some("a.slice2")), false),
            (rule("", None, Some("a.slice/b")), rule("", None, Some("a.slice")), false),
        ] {
            assert_eq!(one.covers(&other), is_covered, "{one:?} {other:?}");
        }
    }

    #[test]
    fn what_the_program_cannot_hold_is_refused() {
        let class = |name: &str| Class { name: name.into(), share: ClassShare::default() };
        let some = Classes { all: vec![class("a")], rules: vec![rule("", Some(81), None)] };
        assert_eq!(
            some.check(&[80]).unwrap_err().to_string(),
            "class a has a rule for port 81, which is not attached: add it to the ports"
        );
        assert!(some.check(&[80, 81]).is_ok());
        let said = |classes: Classes| classes.check(&[80]).unwrap_err().to_string();
        assert!(said(Classes { all: vec![class("a"); 17], rules: vec![] }).starts_with("17 classes and 0 rules: "));
        let rules = vec![rule("", None, Some("a")); RULES_MAX + 1];
        assert!(said(Classes { all: vec![class("a")], rules }).contains("and 65 rules: "));
        let rules = vec![rule("", None, Some(&"x".repeat(200))); RULES_MAX];
        assert!(said(Classes { all: vec![class("a")], rules }).contains(" bytes: shorten them to 8192"));
    }
}
