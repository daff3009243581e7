//! Classes of responses in the attach file: `[[eth0.class]]` and `[[eth0.class.rule]]`, with the same keys as in
//! weir.toml.

use ::uplink::classify::{CLASSES_MAX, Cgroup, Class, Classes, RULES_MAX, Rule};
use ::uplink::tree::{
    ClassShare, OTHER_SHARE_PERMILLE, Part, Plan, RATE_MIN_BITS_PER_S, SHARE_PERMILLE, WEIGHT_MAX, check_floors,
};
use config::Network;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use units::Rate;

mod said;

pub use said::{default_name, described, listed, tables};

pub const CLASS: &str = "class";
pub const DEFAULT_CLASS: &str = "default_class";
/// The default class, unless another is named.
const OTHERS: &str = "others";
const CLASS_KEYS: [&str; 5] = ["name", "weight", "min_rate", "max_rate", "rule"];
const RULE_KEYS: [&str; 5] = ["port", "network", "dscp", "mark", "cgroup"];
const NAME_BYTES_MAX: usize = 64;
const DSCP_MAX: u64 = 63;

/// The classes of a table, and the places of their control groups in the file.
#[derive(Debug, Default)]
pub struct SavedClasses {
    pub classes: Classes,
    cgroups: Vec<(String, String)>,
}

impl SavedClasses {
    /// Returns true if a rule is for a control group, which may appear and disappear.
    pub fn has_groups(&self) -> bool {
        !self.cgroups.is_empty()
    }

    /// Names the control groups that do not exist.
    pub fn missing(&self) -> Vec<String> {
        if self.cgroups.is_empty() {
            return Vec::new();
        }
        if let Err(error) = ::uplink::classify::cgroup_root() {
            return vec![format!("{}: key `class.rule.cgroup`: {error}", self.cgroups[0].0)];
        }
        let absent = self.cgroups.iter().filter(|(_, path)| !Cgroup::of(path).is_there());
        let said = |(place, path): &(String, String)| {
            format!(
                "{place}: key `class.rule.cgroup`: \"{path}\" is not there: start what runs in it, or see `systemd-cgls`"
            )
        };
        absent.map(said).collect()
    }

    /// Names the control groups of containers for which this host routes. Their packets arrive without a socket, so no rule
    /// for a control group matches them.
    pub fn routed(&self) -> Vec<String> {
        let routed = self.cgroups.iter().filter(|(_, path)| Cgroup::of(path).has_own_network());
        let said = |(place, path): &(String, String)| {
            format!(
                "{place}: key `class.rule.cgroup`: \"{path}\" has a network of its own: packets that this host routes \
                 for it do not match; write their port, or a mark"
            )
        };
        routed.map(said).collect()
    }
}

/// The settings of an interface against which its classes are checked.
pub struct Setting<'a> {
    pub ports: &'a [u16],
    /// The configured rate; `None` if the rate is searched.
    pub rate: Option<Rate>,
}

/// Parses the classes of a table. Returns all mistakes as `FILE:LINE: …`.
pub fn parse(
    at: &dyn Fn(usize) -> String,
    interface: &str,
    keys: &DeTable<'_>,
    setting: &Setting<'_>,
) -> Result<SavedClasses, Vec<String>> {
    let mut reader = Reader { at, interface, mistakes: Vec::new(), all: Vec::new(), rules: Vec::new() };
    let value = |key: &str| keys.iter().find(|(found, _)| found.get_ref() == key).map(|(_, value)| value);
    if let Some(classes) = value(CLASS) {
        for class in reader.tables(classes, CLASS) {
            reader.class(class);
        }
    }
    let default = value(DEFAULT_CLASS).map(|value| (reader.place(value), reader.text(value, DEFAULT_CLASS)));
    reader.check(default.as_ref().and_then(|(_, name)| name.as_deref()), setting);
    if let Some((place, Some(name))) = &default
        && !reader.all.iter().any(|class| class.class.name == *name)
    {
        reader.mistakes.push(format!("{place}: key `{DEFAULT_CLASS}`: \"{name}\" is not a class of {interface}"));
    }
    let name = default.and_then(|(_, name)| name);
    if reader.mistakes.is_empty() { Ok(reader.into_classes(name.as_deref())) } else { Err(reader.mistakes) }
}

/// A class and its places in the file.
struct Placed {
    class: Class,
    place: String,
    min_place: Option<String>,
    max_place: Option<String>,
}

struct Reader<'a> {
    at: &'a dyn Fn(usize) -> String,
    interface: &'a str,
    mistakes: Vec<String>,
    all: Vec<Placed>,
    rules: Vec<(String, Rule)>,
}

type Value<'i> = Spanned<DeValue<'i>>;

impl<'a> Reader<'a> {
    fn place(&self, value: &Value<'_>) -> String {
        (self.at)(value.span().start)
    }

    fn wrong(&mut self, value: &Value<'_>, key: &str, said: &str) {
        let (place, shown) = (self.place(value), shown(value.get_ref()));
        self.mistakes.push(format!("{place}: key `{key}`: {shown}: {said}"));
    }

    /// Returns the tables of an array of tables.
    fn tables<'v, 'i>(&mut self, value: &'v Value<'i>, key: &str) -> Vec<&'v Spanned<DeValue<'i>>> {
        match value.get_ref() {
            DeValue::Array(items) if items.iter().all(|item| item.get_ref().is_table()) => items.iter().collect(),
            _ => {
                let form = format!("expected tables, each under [[{}.{key}]]", self.interface);
                self.wrong(value, key, &form);
                Vec::new()
            }
        }
    }

    fn text(&mut self, value: &Value<'_>, key: &str) -> Option<String> {
        if let DeValue::String(text) = value.get_ref() {
            return Some(text.to_string());
        }
        self.wrong(value, key, "expected a text in quotes");
        None
    }

    fn whole(&mut self, value: &Value<'_>, key: &str, least: u64, most: u64) -> Option<u64> {
        let number = match value.get_ref() {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let found = number.filter(|number| (least..=most).contains(number));
        if found.is_none() {
            self.wrong(value, key, &format!("expected a number from {least} to {most}"));
        }
        found
    }

    fn part(&mut self, value: &Value<'_>, key: &str) -> Option<Part> {
        let parsed = self.text(value, key)?.parse();
        parsed.map_err(|said: String| self.wrong(value, key, &said)).ok()
    }

    fn class(&mut self, value: &Value<'_>) {
        let DeValue::Table(keys) = value.get_ref() else { return };
        let number = self.all.len();
        let place = self.place(value);
        let mut class = Class { name: String::new(), share: ClassShare::default() };
        let (mut min_place, mut max_place) = (None, None);
        for (key, value) in keys {
            match key.get_ref().as_ref() {
                "name" => class.name = self.name(value).unwrap_or_default(),
                "weight" => {
                    let weight = self.whole(value, "class.weight", 1, WEIGHT_MAX.into());
                    class.share.weight = weight.map_or(1, |weight| weight as u16);
                }
                "min_rate" => {
                    class.share.min_rate = self.part(value, "class.min_rate");
                    min_place = Some(self.place(value));
                }
                "max_rate" => {
                    class.share.max_rate = self.part(value, "class.max_rate");
                    max_place = Some(self.place(value));
                }
                "rule" => {
                    for rule in self.tables(value, "class.rule") {
                        self.rule(rule, number);
                    }
                }
                other => {
                    let (place, keys) = ((self.at)(key.span().start), CLASS_KEYS.join(", "));
                    self.mistakes.push(format!("{place}: unknown key `class.{other}`: expected one of {keys}"));
                }
            }
        }
        if !keys.iter().any(|(key, _)| key.get_ref() == "name") {
            self.mistakes.push(format!("{place}: key `class.name` is missing: write the name of the class"));
        }
        self.all.push(Placed { class, place, min_place, max_place });
    }

    fn name(&mut self, value: &Value<'_>) -> Option<String> {
        let name = self.text(value, "class.name")?;
        let is_byte = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let said = if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_byte) {
            "expected a name of up to 64 letters, digits, `.`, `-` and `_`"
        } else if name == OTHERS {
            "it is the name of the class for all else: write another, and name it in default_class"
        } else if self.all.iter().any(|class| class.class.name == name) {
            "another class has this name: write its rules there"
        } else {
            return Some(name);
        };
        self.wrong(value, "class.name", said);
        None
    }

    fn rule(&mut self, value: &Value<'_>, class: usize) {
        let DeValue::Table(keys) = value.get_ref() else { return };
        let (place, before) = (self.place(value), self.mistakes.len());
        let mut rule = Rule { class, ..Rule::default() };
        for (key, value) in keys {
            match key.get_ref().as_ref() {
                "port" => rule.port = self.whole(value, "class.rule.port", 1, 65_535).map(|port| port as u16),
                "network" => rule.network = self.network(value),
                "dscp" => rule.dscp = self.dscp(value),
                "mark" => {
                    let mark = self.whole(value, "class.rule.mark", 0, u32::MAX.into());
                    rule.mark = mark.map(|mark| mark as u32);
                }
                "cgroup" => rule.cgroup = self.cgroup(value),
                other => {
                    let (place, keys) = ((self.at)(key.span().start), RULE_KEYS.join(", "));
                    self.mistakes.push(format!("{place}: unknown key `class.rule.{other}`: expected one of {keys}"));
                }
            }
        }
        if rule == (Rule { class, ..Rule::default() }) && self.mistakes.len() == before {
            let keys = RULE_KEYS.join(", ");
            self.mistakes
                .push(format!("{place}: key `class.rule`: no condition: write one of {keys}, or {DEFAULT_CLASS}"));
        }
        if self.mistakes.len() == before {
            self.rules.push((place, rule));
        }
    }

    fn network(&mut self, value: &Value<'_>) -> Option<(std::net::IpAddr, u8)> {
        let parsed = self.text(value, "class.rule.network")?.parse::<Network>();
        let parsed = parsed.map_err(|said| self.wrong(value, "class.rule.network", &said)).ok()?;
        Some((parsed.address(), parsed.length() as u8))
    }

    fn dscp(&mut self, value: &Value<'_>) -> Option<u8> {
        if let DeValue::String(text) = value.get_ref() {
            let found = dscp_of(text);
            if found.is_none() {
                self.wrong(value, "class.rule.dscp", "expected 0 to 63, or a name: cs1 to cs7, af11 to af43, ef, le");
            }
            return found;
        }
        self.whole(value, "class.rule.dscp", 0, DSCP_MAX).map(|dscp| dscp as u8)
    }

    fn cgroup(&mut self, value: &Value<'_>) -> Option<Cgroup> {
        let text = self.text(value, "class.rule.cgroup")?;
        let path = text.trim_start_matches('/').trim_end_matches('/');
        let is_plain = |part: &str| !["", ".", ".."].contains(&part) && !part.contains(char::is_control);
        if !path.split('/').all(is_plain) {
            self.wrong(
                value,
                "class.rule.cgroup",
                "expected a path below /sys/fs/cgroup, such as system.slice/nginx.service",
            );
            return None;
        }
        Some(Cgroup { path: path.to_string(), id: 0 })
    }

    /// Checks the classes against each other and against the interface's settings.
    fn check(&mut self, default: Option<&str>, setting: &Setting<'_>) {
        self.check_bounds();
        self.check_rules(default, setting.ports);
        for class in &self.all {
            let (share, rate) = (class.class.share, setting.rate);
            if let (Some(max), Some(place)) = (share.max_rate, &class.max_place)
                && is_too_low(max, rate)
            {
                self.mistakes.push(format!(
                    "{place}: key `class.max_rate`: \"{max}\": expected {RATE_MIN_BITS_PER_S}bit or more, below which a packet takes over a second"
                ));
            }
            if let (Some(min), Some(max), Some(place)) = (share.min_rate, share.max_rate, &class.max_place)
                && is_below(max, min, rate)
            {
                self.mistakes
                    .push(format!("{place}: key `class.max_rate`: \"{max}\": expected no less than min_rate, {min}"));
            }
        }
        self.check_floors(default, setting.rate);
    }

    fn check_bounds(&mut self) {
        let bounds = [
            (self.all.get(CLASSES_MAX - 1).map(|class| &class.place), "class", CLASSES_MAX - 1),
            (self.rules.get(RULES_MAX).map(|(place, _)| place), "class.rule", RULES_MAX),
        ];
        for (place, key, most) in bounds {
            if let Some(place) = place {
                self.mistakes.push(format!("{place}: key `{key}`: one too many: an interface takes {most}"));
            }
        }
    }

    fn check_rules(&mut self, default: Option<&str>, ports: &[u16]) {
        for (number, (place, rule)) in self.rules.iter().enumerate() {
            if let Some(port) = rule.port.filter(|port| !ports.contains(port)) {
                let said = format!(
                    "{place}: key `class.rule.port`: {port} is not attached: add it to `port` of [{}]",
                    self.interface
                );
                self.mistakes.push(said);
            }
            if let Some((earlier, of)) = self.rules[..number].iter().find(|(_, earlier)| earlier.covers(rule)) {
                let (name, line) = (&self.all[of.class].class.name, earlier.rsplit(':').next().unwrap_or_default());
                self.mistakes.push(format!(
                    "{place}: key `class.rule`: the rule of class {name} on line {line} has all its packets: write this one before, or remove it"
                ));
            }
        }
        for (number, class) in self.all.iter().enumerate() {
            let name = &class.class.name;
            let has_rule = self.rules.iter().any(|(_, rule)| rule.class == number);
            if !has_rule && default != Some(name) && self.mistakes.is_empty() {
                let (place, of) = (&class.place, self.interface);
                self.mistakes.push(format!(
                    "{place}: key `class.rule`: class {name} has none and no packets: write [[{of}.class.rule]], or {DEFAULT_CLASS} = \"{name}\""
                ));
            }
        }
    }

    /// Checks minimum rates against the configured rate. Minimums that are parts of the rate are checked even without
    /// one.
    fn check_floors(&mut self, default: Option<&str>, rate: Option<Rate>) {
        let Some(place) = self.all.iter().rev().find_map(|class| class.min_place.as_ref()) else { return };
        let percents: u64 = self.all.iter().filter_map(|class| class.class.share.min_rate).map(percent_of).sum();
        // The default class may have no table.
        let mut shares: Vec<ClassShare> = self.all.iter().map(|class| class.class.share).collect();
        shares.extend(default.is_none().then(ClassShare::default));
        let others = OTHER_SHARE_PERMILLE + SHARE_PERMILLE * (1 + shares.len() as u16);
        let percents_max = u64::from(1000_u16.saturating_sub(others)) / 10;
        if percents > percents_max {
            let said = format!(
                "the parts are {percents}% together: write at most {percents_max}%, the rest is of other traffic and of classes without one"
            );
            return self.mistakes.push(format!("{place}: key `class.min_rate`: {said}"));
        }
        let Some(rate) = rate else { return };
        if let Err(error) = check_floors(&Plan { classes: shares, ..Plan::new(::uplink::tree::Kind::Htb, rate) }) {
            self.mistakes.push(format!("{place}: key `class.min_rate`: {error}"));
        }
    }

    /// The default class comes first.
    fn into_classes(self, default: Option<&str>) -> SavedClasses {
        if self.all.is_empty() {
            return SavedClasses::default();
        }
        let of_default = self.all.iter().position(|class| Some(class.class.name.as_str()) == default);
        let mut all: Vec<Class> = self.all.into_iter().map(|class| class.class).collect();
        let first =
            of_default.map_or(Class { name: OTHERS.to_string(), share: ClassShare::default() }, |at| all.remove(at));
        all.insert(0, first);
        let moved = |class: usize| match of_default {
            Some(at) if class == at => 0,
            Some(at) if class > at => class,
            _ => class + 1,
        };
        let mut cgroups = Vec::new();
        let rules = self.rules.into_iter().map(|(place, rule)| {
            cgroups.extend(rule.cgroup.as_ref().map(|cgroup| (place, cgroup.path.clone())));
            Rule { class: moved(rule.class), ..rule }
        });
        let classes = Classes { rules: rules.collect(), all };
        SavedClasses { classes, cgroups }
    }
}

/// Returns true if the rate is below the minimum of a tree. A part is converted with the line's rate, if that is
/// configured.
fn is_too_low(max: Part, rate: Option<Rate>) -> bool {
    let link = match (max, rate) {
        (Part::Percent(_), None) => return false,
        (_, rate) => rate.map_or(u64::MAX, |rate| rate.bits_per_s() / 8),
    };
    max.of(link) < RATE_MIN_BITS_PER_S / 8
}

/// Returns true if the first rate is less than the second. If one is absolute and the other a part, they are compared
/// at this rate of the line.
fn is_below(one: Part, other: Part, rate: Option<Rate>) -> bool {
    match (one, other, rate) {
        (Part::Percent(one), Part::Percent(other), _) => one < other,
        (Part::Rate(one), Part::Rate(other), _) => one < other,
        (one, other, Some(rate)) => {
            let link = rate.bits_per_s() / 8;
            one.of(link) < other.of(link)
        }
        _ => false,
    }
}

fn percent_of(part: Part) -> u64 {
    if let Part::Percent(percent) = part { percent.into() } else { 0 }
}

/// The number of a class of RFC 4594.
fn dscp_of(name: &str) -> Option<u8> {
    let name = name.to_ascii_lowercase();
    match (name.as_bytes(), name.as_str()) {
        (_, "ef") => Some(46),
        (_, "le") => Some(1),
        ([b'c', b's', class @ b'0'..=b'7'], _) => Some((class - b'0') * 8),
        ([b'a', b'f', class @ b'1'..=b'4', drop @ b'1'..=b'3'], _) => Some((class - b'0') * 8 + (drop - b'0') * 2),
        _ => name.parse().ok().filter(|dscp| u64::from(*dscp) <= DSCP_MAX),
    }
}

fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("\"{}\"", text.escape_debug()),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(is_true) => is_true.to_string(),
        DeValue::Array(_) => "a list".to_string(),
        DeValue::Table(_) => "a table".to_string(),
        DeValue::Datetime(_) => "a date".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the table [eth0] of a text, in which lines count from the first after it.
    fn read(text: &str, rate: Option<&str>) -> Result<SavedClasses, Vec<String>> {
        let text = format!("[eth0]\n{text}");
        let tables = DeTable::parse(&text).unwrap();
        let keys = tables.get_ref().get("eth0").unwrap().get_ref().as_table().unwrap().clone();
        let at = |offset: usize| format!("f:{}", text[..offset].matches('\n').count());
        let rate = rate.map(|rate| rate.parse().unwrap());
        parse(&at, "eth0", &keys, &Setting { ports: &[80, 8443], rate })
    }

    const ONE: &str = "[[eth0.class]]\nname = \"a\"\n";
    const RULE: &str = "[[eth0.class.rule]]\nport = 80\n";

    fn class(keys: &str) -> String {
        format!("{ONE}{keys}\n{RULE}")
    }

    fn rule(keys: &str) -> String {
        format!("{ONE}[[eth0.class.rule]]\n{keys}\n")
    }

    fn are_refused(mistakes: &[(String, &str)]) {
        for (text, said) in mistakes {
            let found = read(text, Some("10mbit")).unwrap_err();
            assert!(found.iter().any(|found| found.starts_with(said)), "{text}: {found:?}");
            assert!(found.iter().all(|found| !found.contains('\n')), "{found:?}");
        }
    }

    #[test]
    fn each_mistake_of_a_class_has_its_line_its_value_and_a_cure() {
        are_refused(&[
            (class("weight = 0"), "f:3: key `class.weight`: 0: expected a number from 1 to 1000"),
            (class("weight = 1_000_000_000"), "f:3: key `class.weight`: 1000000000: expected a number from 1 to 1000"),
            (class("weight = \"1\""), "f:3: key `class.weight`: \"1\": expected a number from 1 to 1000"),
            (class("min_rate = \"2\""), "f:3: key `class.min_rate`: \"2\": `2` is not a rate: which unit?"),
            (
                class("min_rate = \"0%\""),
                "f:3: key `class.min_rate`: \"0%\": `0%` is not a part of the rate: write 1% to 100%",
            ),
            (class("min_rate = 5"), "f:3: key `class.min_rate`: 5: expected a text in quotes"),
            (
                class("min_rate = \"8mbit\""),
                "f:3: key `class.min_rate`: minimum rates of 8 Mbit/s together: write at most 7.85 Mbit/s, which 10mbit has",
            ),
            (class("min_rate = \"80%\""), "f:3: key `class.min_rate`: the parts are 80% together: write at most 78%"),
            (
                class("min_rate = \"2mbit\"\nmax_rate = \"1mbit\""),
                "f:4: key `class.max_rate`: \"1mbit\": expected no less than min_rate, 2mbit",
            ),
            (
                class("min_rate = \"20%\"\nmax_rate = \"1mbit\""),
                "f:4: key `class.max_rate`: \"1mbit\": expected no less than min_rate, 20%",
            ),
            (
                class("max_rate = \"7bit\""),
                "f:3: key `class.max_rate`: \"7bit\": expected 12000bit or more, below which",
            ),
            (class("max_rate = \"11kbit\""), "f:3: key `class.max_rate`: \"11kbit\": expected 12000bit or more"),
            (
                class("rate = 1"),
                "f:3: unknown key `class.rate`: expected one of name, weight, min_rate, max_rate, rule",
            ),
        ]);
    }

    #[test]
    fn a_class_has_a_name_and_packets() {
        are_refused(&[
            (format!("[[eth0.class]]\n{RULE}"), "f:1: key `class.name` is missing: write the name of the class"),
            (
                format!("[[eth0.class]]\nname = \"a b\"\n{RULE}"),
                "f:2: key `class.name`: \"a b\": expected a name of up to 64 letters",
            ),
            (
                format!("[[eth0.class]]\nname = \"others\"\n{RULE}"),
                "f:2: key `class.name`: \"others\": it is the name of the class for all else",
            ),
            (
                format!("{ONE}{RULE}[[eth0.class]]\nname = \"a\"\n[[eth0.class.rule]]\nmark = 1"),
                "f:6: key `class.name`: \"a\": another class has this name",
            ),
            ("class = 1".to_string(), "f:1: key `class`: 1: expected tables, each under [[eth0.class]]"),
            (
                ONE.to_string(),
                "f:1: key `class.rule`: class a has none and no packets: write [[eth0.class.rule]], or default_class = \"a\"",
            ),
            (format!("default_class = \"b\"\n{}", class("")), "f:1: key `default_class`: \"b\" is not a class of eth0"),
        ]);
    }

    #[test]
    fn each_mistake_of_a_rule_has_its_line_its_value_and_a_cure() {
        are_refused(&[
            (rule(""), "f:3: key `class.rule`: no condition: write one of port, network, dscp, mark, cgroup"),
            (
                rule("ports = 80"),
                "f:4: unknown key `class.rule.ports`: expected one of port, network, dscp, mark, cgroup",
            ),
            (rule("port = 0"), "f:4: key `class.rule.port`: 0: expected a number from 1 to 65535"),
            (rule("port = 22"), "f:3: key `class.rule.port`: 22 is not attached: add it to `port` of [eth0]"),
            (
                rule("network = \"10.1.0.0/8\""),
                "f:4: key `class.rule.network`: \"10.1.0.0/8\": expected the first address of the network, 10.0.0.0/8",
            ),
            (
                rule("network = \"::ffff:10.0.0.0/104\""),
                "f:4: key `class.rule.network`: \"::ffff:10.0.0.0/104\": expected an address of IPv4, for example 10.0.0.0",
            ),
            (rule("network = \"x\""), "f:4: key `class.rule.network`: \"x\": expected an address"),
            (rule("dscp = 64"), "f:4: key `class.rule.dscp`: 64: expected a number from 0 to 63"),
            (rule("dscp = \"af44\""), "f:4: key `class.rule.dscp`: \"af44\": expected 0 to 63, or a name"),
            (rule("mark = -1"), "f:4: key `class.rule.mark`: -1: expected a number from 0 to 4294967295"),
            (rule("cgroup = \"/\""), "f:4: key `class.rule.cgroup`: \"/\": expected a path below /sys/fs/cgroup"),
            (rule("cgroup = \"a/../b\""), "f:4: key `class.rule.cgroup`: \"a/../b\": expected a path below"),
            (rule("cgroup = \"a\\tb\""), "f:4: key `class.rule.cgroup`: \"a\\tb\": expected a path below"),
        ]);
        // All at once.
        assert_eq!(read(&format!("{}{}", class("weight = 0"), rule("dscp = 64")), None).unwrap_err().len(), 3);
    }

    #[test]
    fn rules_that_no_packet_reaches_are_refused() {
        let two = |first: &str, second: &str| {
            let rule = |keys: &str| format!("[[eth0.class.rule]]\n{keys}\n");
            let text = format!("{ONE}{}[[eth0.class]]\nname = \"b\"\n{}", rule(first), rule(second));
            read(&text, None).map(|read| read.classes.rules.len()).map_err(|said| said.join("\n"))
        };
        for (first, second) in [
            ("port = 80", "port = 80"),
            ("network = \"10.0.0.0/8\"", "network = \"10.1.0.0/16\"\nport = 80"),
            ("cgroup = \"system.slice\"", "cgroup = \"/system.slice/a.service/\""),
        ] {
            let said = two(first, second).unwrap_err();
            let expected = "f:7: key `class.rule`: the rule of class a on line 3 has all its packets: write this one before, or remove it";
            assert_eq!(said, expected, "{first}, {second}");
        }
        assert_eq!(two("network = \"10.1.0.0/16\"", "network = \"10.0.0.0/8\""), Ok(2));
        assert_eq!(two("port = 80", "mark = 1"), Ok(2));
    }

    #[test]
    fn bounds_are_named() {
        let class =
            |number: usize| format!("[[eth0.class]]\nname = \"a{number}\"\n[[eth0.class.rule]]\nmark = {number}\n");
        let classes = |count: usize| read(&(0..count).map(class).collect::<String>(), None);
        assert_eq!(classes(15).unwrap().classes.all.len(), 16);
        assert_eq!(classes(16).unwrap_err(), ["f:61: key `class`: one too many: an interface takes 15"]);
        let rules = |count: usize| {
            let rule = |number: usize| format!("[[eth0.class.rule]]\nmark = {number}\n");
            read(&format!("{ONE}{}", (0..count).map(rule).collect::<String>()), None)
        };
        assert_eq!(rules(64).unwrap().classes.rules.len(), 64);
        assert_eq!(rules(65).unwrap_err(), ["f:131: key `class.rule`: one too many: an interface takes 64"]);
    }

    #[test]
    fn what_is_written_reads_back() {
        let text = "default_class = \"b\"\n[[eth0.class]]\nname = \"a\"\nweight = 3\nmin_rate = \"20%\"\n\
            [[eth0.class.rule]]\nport = 8443\nnetwork = \"2001:db8::/32\"\ndscp = \"ef\"\nmark = 0x10\ncgroup = \"/x y.slice\"\n\
            [[eth0.class]]\nname = \"b\"\nmax_rate = \"2mbit\"\n[[eth0.class.rule]]\ndscp = 0\n\
            [[eth0.class]]\nname = \"c\"\n[[eth0.class.rule]]\nnetwork = \"192.0.2.1\"\n";
        let found = read(text, None).unwrap().classes;
        assert_eq!(found.all.iter().map(|class| class.name.as_str()).collect::<Vec<_>>(), ["b", "a", "c"]);
        assert_eq!(found.rules.iter().map(|rule| rule.class).collect::<Vec<_>>(), [1, 0, 2]);
        assert_eq!((found.rules[0].dscp, found.rules[0].mark, found.rules[1].dscp), (Some(46), Some(16), Some(0)));
        assert_eq!(found.rules[2].network.unwrap().1, 32);
        let written = format!("default_class = \"{}\"\n{}", default_name(&found).unwrap(), tables("eth0", &found));
        assert_eq!(read(&written, None).unwrap().classes, found, "{written}");
        // Without a default class there is one.
        let found = read(&format!("{ONE}{RULE}"), None).unwrap().classes;
        assert_eq!((found.all[0].name.as_str(), found.rules[0].class, default_name(&found)), ("others", 1, None));
        assert_eq!(read(&tables("eth0", &found), None).unwrap().classes, found);
        assert!(read("", None).unwrap().classes.all.is_empty());
    }

    #[test]
    fn names_of_dscp_are_those_of_the_rfc() {
        let all = [("cs0", 0), ("cs7", 56), ("af11", 10), ("AF43", 38), ("ef", 46), ("le", 1), ("63", 63)];
        assert!(all.iter().all(|(name, dscp)| dscp_of(name) == Some(*dscp)));
        assert!(["cs8", "af10", "af14", "af51", "", "64", "x"].iter().all(|name| dscp_of(name).is_none()));
    }
}
