//! Formats classes as text for the file, for people and for programs.

use ::uplink::Counted;
use ::uplink::classify::{Class, Classes, Rule};
use ::uplink::tree::{ClassShare, Part};
use serde_json::{Value, json};

use super::OTHERS;

/// Returns the tables of classes in the file's format.
pub fn tables(interface: &str, classes: &Classes) -> String {
    let mut order: Vec<usize> = (0..classes.all.len()).filter(|class| *class > 0 || has_table(classes)).collect();
    let first_rule = |class: usize| classes.rules.iter().position(|rule| rule.class == class).unwrap_or(usize::MAX);
    order.sort_by_key(|class| first_rule(*class));
    order.into_iter().map(|class| table(interface, classes, class)).collect()
}

/// Returns the default class's name, if it differs from the usual one.
pub fn default_name(classes: &Classes) -> Option<&str> {
    has_table(classes).then(|| classes.all[0].name.as_str())
}

fn has_table(classes: &Classes) -> bool {
    classes.all.first().is_some_and(|class| class.name != OTHERS)
}

fn table(interface: &str, classes: &Classes, class: usize) -> String {
    let Class { name, share } = &classes.all[class];
    let mut text = format!("\n[[{interface}.class]]\nname = \"{name}\"\nweight = {}\n", share.weight);
    for (key, part) in [("min_rate", share.min_rate), ("max_rate", share.max_rate)] {
        text += &part.map_or(String::new(), |part| format!("{key} = \"{part}\"\n"));
    }
    for rule in classes.rules.iter().filter(|rule| rule.class == class) {
        let lines: String = conditions(rule).into_iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        text += &format!("[[{interface}.class.rule]]\n{lines}");
    }
    text
}

/// Returns the conditions of a rule as keys and values of the file.
fn conditions(rule: &Rule) -> Vec<(&'static str, String)> {
    let quoted = |text: String| toml::Value::from(text).to_string();
    let found = [
        ("port", rule.port.map(|port| port.to_string())),
        ("network", rule.network.map(|(address, length)| quoted(format!("{address}/{length}")))),
        ("dscp", rule.dscp.map(|dscp| dscp.to_string())),
        ("mark", rule.mark.map(|mark| format!("{mark:#x}"))),
        ("cgroup", rule.cgroup.as_ref().map(|cgroup| quoted(cgroup.path.clone()))),
    ];
    found.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

/// Formats the conditions of a rule on one line. A control group that does not exist, or whose packets this host routes,
/// matches no packets.
fn said(rule: &Rule) -> String {
    let words: Vec<String> = conditions(rule).into_iter().map(|(key, value)| format!("{key} {value}")).collect();
    let more = match &rule.cgroup {
        Some(cgroup) if !cgroup.is_there() => ", which is not there",
        Some(cgroup) if cgroup.has_own_network() => ", with a network of its own",
        _ => "",
    };
    words.join(", ") + more
}

/// Formats a table of the classes, with their rules in the order in which they are tried; empty without classes.
pub fn listed(classes: &Classes, counted: &[Counted]) -> String {
    if classes.all.is_empty() {
        return String::new();
    }
    let part = |part: Option<Part>| part.map_or("-".to_string(), |part| part.to_string());
    let mut text = format!(
        "{:>24} {:>6} {:>12} {:>12} {:>12} {:>16} {:>8} {:>8}\n",
        "class", "weight", "min rate", "max rate", "packets", "bytes", "waiting", "lost"
    );
    for (class, counted) in classes.all.iter().zip(counted) {
        let (name, ClassShare { weight, min_rate, max_rate }) = (&class.name, class.share);
        let Counted { packets, bytes, drops, backlog_packets, .. } = *counted;
        let (min, max) = (part(min_rate), part(max_rate));
        text += &format!(
            "{name:>24} {weight:>6} {min:>12} {max:>12} {packets:>12} {bytes:>16} {backlog_packets:>8} {drops:>8}\n"
        );
    }
    for rule in &classes.rules {
        text += &format!("class {}: {}\n", classes.all[rule.class].name, said(rule));
    }
    text + &format!("class {}: all else\n", classes.all[0].name)
}

/// Returns the classes as JSON, with their rules and counters.
pub fn described(classes: &Classes, counted: &[Counted]) -> Vec<Value> {
    let part = |part: Option<Part>| part.map(|part| part.to_string());
    let described = |(number, (class, counted)): (usize, (&Class, &Counted))| {
        let rules: Vec<String> = classes.rules.iter().filter(|rule| rule.class == number).map(said).collect();
        json!({
            "name": class.name,
            "weight": class.share.weight,
            "min_rate": part(class.share.min_rate),
            "max_rate": part(class.share.max_rate),
            "rules": rules,
            "packets": counted.packets,
            "bytes": counted.bytes,
            "lost_packets": counted.drops,
            "waiting_packets": counted.backlog_packets,
        })
    };
    classes.all.iter().zip(counted).enumerate().map(described).collect()
}
