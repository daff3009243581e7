//! Tables of classes in front of the link. The scheduler keeps their guarantees in its own unit, so each test compares
//! them with link time.

use sched::Sharing;
use sched::policy::PolicySpec;

use super::*;

/// A byte takes a nanosecond. The scheduler counts packet headers for each chunk towards a maximum rate: less than a
/// percent here.
const CHUNK: u64 = 10_000;
const SIZE: u64 = 1_000_000;

fn order(text: &str) -> sched::policy::Order {
    text.parse::<PolicySpec>().unwrap().order().clone()
}

fn table(classes: Vec<ClassSpec>) -> Option<ClassTable> {
    Some(ClassTable { classes, slot_sharing: Sharing::Own })
}

fn plain() -> ClassSpec {
    ClassSpec::plain("a", order("fcfs"))
}

/// Jobs of all classes that arrive at the same instant. Returns when each leaves, in nanoseconds, to within a chunk.
fn ends(classes: Vec<ClassSpec>, of_first: f64, count: u64) -> Vec<(u32, u64)> {
    let shares = if classes.len() == 1 { vec![1.0] } else { vec![of_first, 1.0 - of_first] };
    let at_once = jobs(&(0..count).map(|nth| (nth, SIZE)).collect::<Vec<_>>());
    let config = Config {
        class_shares: shares,
        class_table: table(classes),
        chunk_bytes: Some(CHUNK),
        ..replay(CLASSES, &at_once)
    };
    recorded(&config).1.iter().map(|record| (record.group, record.end_ns)).collect()
}

/// Returns the last departure of each class.
fn last_of_each(found: &[(u32, u64)]) -> [u64; 2] {
    [0, 1].map(|class| found.iter().filter(|(of, _)| *of == class).map(|(_, end)| *end).max().unwrap())
}

fn is_near(found: u64, expected: f64) -> bool {
    (found as f64 / expected - 1.0).abs() < 0.02
}

#[test]
fn weights_share_the_link() {
    let found = ends(vec![ClassSpec { weight: 3, ..plain() }, plain()], 0.5, 40);
    let heavy = found.iter().filter(|(class, _)| *class == 0).count() as f64;
    let light = found.len() as f64 - heavy;
    assert!(heavy / 3.0 < light, "the heavy class ends first: {heavy} and {light}");
    let [first, last] = last_of_each(&found);
    assert!(is_near(first, heavy * SIZE as f64 * 4.0 / 3.0) && is_near(last, 40.0 * SIZE as f64), "{first} {last}");
}

#[test]
fn a_guarantee_is_kept_behind_a_priority() {
    let guaranteed = Some("2gbit".parse().unwrap());
    let found = ends(vec![plain(), ClassSpec { priority: 1, guaranteed, ..plain() }], 0.5, 40);
    let first = found.iter().filter(|(class, _)| *class == 0).count() as f64;
    // The other class gets a quarter of 8 Gbit/s during this time.
    assert!(is_near(last_of_each(&found)[0], first * SIZE as f64 * 4.0 / 3.0), "{first}: {found:?}");
}

#[test]
fn a_greatest_rate_is_not_exceeded_on_an_idle_link() {
    let found = ends(vec![ClassSpec { greatest: Some("80mbit".parse().unwrap()), ..plain() }], 1.0, 40);
    let last = found.iter().map(|(_, end)| *end).max().unwrap();
    assert!(is_near(last, 40.0 * SIZE as f64 * 100.0), "{last}");
}

#[test]
fn a_slot_is_given_on() {
    let fair = ClassSpec { order: order("fair"), ..plain() };
    let by_turns = ends(vec![fair.clone()], 1.0, 2);
    let after_each_other = ends(vec![ClassSpec { concurrent_max: Some(1), ..fair }], 1.0, 2);
    assert!(is_near(by_turns[0].1, 2.0 * SIZE as f64) && is_near(after_each_other[0].1, SIZE as f64));
    assert!(is_near(after_each_other[1].1, 2.0 * SIZE as f64), "{after_each_other:?}");
}

/// A single class without limits is equivalent to its policy.
#[test]
fn one_plain_class_is_no_class() {
    for policy in ["srpt", "fcfs", "psjf", "las", "srpt-bands:1000,5000"] {
        let without = Config { chunk_bytes: Some(1460), ..poisson(policy, "exponential:mean=5000", 0.8, 3000) };
        let class = ClassSpec::plain("a", order(policy));
        let with = Config { class_table: table(vec![class]), policy: CLASSES.into(), ..without.clone() };
        assert!(departures(&with) == departures(&without), "{policy}");
    }
}

#[test]
fn a_table_that_cannot_be_is_refused() {
    let fine = replay(CLASSES, &jobs(&[(0, 1)]));
    let two = table(vec![plain(), plain()]);
    for (config, said) in [
        (fine.clone(), "policy: "),
        (Config { class_table: two.clone(), ..fine.clone() }, "classes: 0 shares for 2 classes"),
        (
            Config {
                class_table: table(vec![ClassSpec { concurrent_max: Some(1), ..plain() }]),
                slots: Some(SlotSpec { slots: vec![1], sharing: Sharing::Own, buffer_bytes: 0 }),
                ..fine.clone()
            },
            "class_table: ",
        ),
        (Config { class_table: table(vec![plain()]), chunk_bytes: Some(0), ..fine }, "chunk: "),
    ] {
        let error = check(&config).unwrap_err().to_string();
        assert!(error.starts_with(said), "{error}");
    }
}
