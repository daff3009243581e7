//! The class of a request, and the classes that the scheduler gets.

use config::{Asked, FieldLines, Why, read};
use sched::Sharing;

const FILE: &str = "\
[uplink]
rate = '10mbit'
policy = 'fsp'
concurrency_sharing = 'preempt'
default_class = 'late'
[[site]]
root = 'a'
hosts = ['a.example']
class = 'gold'
[[site]]
root = 'b'
default = true
[[class]]
name = 'gold'
weight = 3
min_rate = '4mbit'
max_rate = '8mbit'
max_concurrent_requests = 7
[[class.rule]]
site = 'default'
path = '/gold/*'
[[class]]
name = 'silver'
priority = 1
policy = 'las'
[[class.rule]]
header = 'X-Tier: silver*'
[[class.rule]]
network = '198.18.0.0/15'
[[class.rule]]
token = '0123456789abcdef'
[[class]]
name = 'late'
priority = 4
";

#[test]
fn the_first_rule_decides_then_the_site_then_the_default() {
    let assignment = read(FILE.as_bytes()).unwrap().assignment();
    let none = Vec::new();
    let of = |site, path: &str, client: &str, fields: &dyn FieldLines| {
        assignment.of(&Asked { site, path: path.as_bytes(), client: client.parse().ok(), fields })
    };
    let far = "203.0.113.1";
    assert_eq!(of(0, "/", far, &none), (0, Why::Site));
    assert_eq!(of(0, "/gold/x", far, &none), (0, Why::Site), "the rule is of the other site");
    assert_eq!(of(1, "/gold/x", far, &none), (0, Why::Rule(0)));
    assert_eq!(of(1, "/", far, &none), (2, Why::Default));
    assert_eq!(of(1, "/", "198.18.0.1", &none), (1, Why::Rule(2)));
    assert_eq!(of(0, "/", "198.18.0.1", &none), (1, Why::Rule(2)), "a rule goes before the site");
    assert_eq!(of(1, "/gold/x", "198.18.0.1", &none), (0, Why::Rule(0)), "and the first before the others");
    let field = |name: &str, value: &str| vec![(name.to_string(), value.to_string())];
    assert_eq!(of(1, "/", far, &field("x-tier", "silver-2")), (1, Why::Rule(1)));
    assert_eq!(of(1, "/", far, &field("Authorization", "Bearer 0123456789abcdef")), (1, Why::Rule(3)));
    assert_eq!(of(1, "/", far, &field("Authorization", "Bearer 0123456789abcdeX")), (2, Why::Default));
    assert_eq!((assignment.default(), assignment.looks_at_paths()), (2, true));
}

#[test]
fn the_drain_has_the_classes_and_one_for_the_rest() {
    let table = read(FILE.as_bytes()).unwrap().class_table().unwrap();
    assert_eq!(table.slot_sharing, Sharing::AnyUntilWanted);
    let told: Vec<_> = (table.classes.iter())
        .map(|class| {
            let slots = class.concurrent_max;
            (class.name.as_str(), class.priority, class.weight, class.is_pooled, slots, class.order.to_string())
        })
        .collect();
    assert_eq!(
        told,
        [
            ("gold", 0, 3, false, Some(7), "fsp".into()),
            ("silver", 1, 1, false, None, "las".into()),
            ("late", 4, 1, true, None, "fsp".into()),
            ("others", 4, 1, true, None, "fsp".into()),
        ]
    );
    let rates = [table.classes[0].guaranteed, table.classes[0].greatest].map(|rate| rate.map(|rate| rate.to_string()));
    assert_eq!(rates, [Some("4mbit".into()), Some("8mbit".into())]);
    assert!(read(b"[[site]]\nroot='a'\n").unwrap().class_table().is_none());
}

#[test]
fn without_a_default_the_rest_are_others() {
    let file = "[[site]]\nroot='a'\n[[class]]\nname='a'\n[[class.rule]]\npath='/a'\n";
    let assignment = read(file.as_bytes()).unwrap().assignment();
    let asked = Asked { site: 0, path: b"/b", client: None, fields: &Vec::new() };
    assert_eq!((assignment.of(&asked), assignment.default()), ((1, Why::Nothing), 1));
}
