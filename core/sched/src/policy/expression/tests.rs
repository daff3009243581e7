use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::policy::{PolicySpec, Rank, parse};
use crate::scheduler::job::Blind;
use crate::{Job, Path, Size};
use units::Nanos;

fn expression(text: &str) -> Expression {
    text.parse().unwrap()
}

/// A job of 1,000 bytes of which 400 are sent, in class 2, three seconds after the start.
fn facts(fact: Fact) -> f64 {
    match fact {
        Fact::Size => 1000.0,
        Fact::Left => 600.0,
        Fact::Sent => 400.0,
        Fact::Arrived => 3.0,
        Fact::Class => 2.0,
        Fact::Rtt => 0.05,
        Fact::Window => 14_480.0,
        Fact::Throughput => 125_000.0,
        Fact::Route => 700.0,
        Fact::Deviate => -1.0,
    }
}

#[test]
fn values_by_hand() {
    for (text, value) in [
        ("left", 600.0),
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("8 / 4 / 2", 1.0),
        ("8 - 4 - 2", 2.0),
        ("left * rtt", 30.0),
        ("min(size, 64KB) + max(sent, 500)", 1500.0),
        ("step(left, 600) + step(left, 599)", 1.0),
        ("floor(log2(size))", 9.0),
        ("noisy(size, log2(1))", 1000.0),
        ("arrived + size / 8kbit", 4.0),
        ("1.5KiB + 250ms + class", 1538.25),
        ("gittins", 700.0),
        ("srrt", 0.05 * (1.0 + 600.0 / 14_480.0)),
        ("throughput / 2", 62_500.0),
        // A value below 0 becomes 0; a job whose value is not a number is served last.
        ("sent - size", 0.0),
        ("log2(0)", 0.0),
        ("1 / (sent - size)", f64::INFINITY),
        ("0 / 0", f64::INFINITY),
        ("0 * (1 / 0)", f64::INFINITY),
        ("1 / 0 - 1 / 0", f64::INFINITY),
        ("min(1 / 0, 3)", 3.0),
    ] {
        assert_eq!(expression(text).value(facts), value, "{text}");
    }
    assert!((expression("noisy(size, 0.5)").value(facts) - 1000.0 * (-0.5f64).exp()).abs() < 1e-9);
}

#[test]
fn mistakes_are_told_with_their_place() {
    for (text, column, said) in [
        ("", 1, "write a number or one of size, left"),
        ("left *", 7, "write a number or one of"),
        ("left rtt", 6, "write an operator"),
        ("left * rt", 8, "unknown name `rt`: write a number or one of size, left"),
        ("age", 1, "write arrived"),
        ("1 + route", 5, "`route` is of gittins(route, sent)"),
        ("min(left)", 9, "write `,` and a second value: min takes two"),
        ("min(left, 3, 4)", 12, "write `)` at the end of the values of min"),
        ("min", 1, "write min and its values in brackets"),
        ("(left", 6, "write `)` at the end of the bracket"),
        ("gittins(left)", 9, "write gittins(route, sent)"),
        ("gittins + mserpt", 11, "write one of gittins and mserpt, not both"),
        ("64kilo", 1, "`64kilo` is not a number: write one such as 1.5, 64KB, 50ms or 10mbit"),
        ("1e999", 1, "`1e999` is not a number"),
        ("-1", 1, "write a number"),
        ("1 + ö", 5, "write a number"),
        ("ö + x", 1, "write a number"),
        ("left; left", 5, "write an operator"),
    ] {
        let error = text.parse::<Expression>().unwrap_err();
        assert!(error.said.contains(said), "{error}");
        assert_eq!(error.column, column, "{error}");
        assert!(error.to_string().starts_with(&format!("rank `{text}`, column {column}: ")), "{error}");
    }
}

/// Tests the last value that is accepted and the first that is not.
#[test]
fn length_and_depth_have_bounds() {
    let sum = |values: usize| vec!["1"; values].join("+");
    let brackets = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    let waiting = |values: usize| format!("{}1{}", "1+(".repeat(values - 1), ")".repeat(values - 1));
    let blanks = |characters: usize| format!("1{}+1", " ".repeat(characters - 3));
    for (right, wrong, said) in [
        (sum(32), sum(33), "64 values and operators at most"),
        (brackets(DEPTH_MAX), brackets(DEPTH_MAX + 1), "16 brackets within brackets at most"),
        (waiting(DEPTH_MAX), waiting(DEPTH_MAX + 1), "16 values at most wait"),
        (blanks(TEXT_MAX), blanks(TEXT_MAX + 1), "beyond 300 characters, the maximum"),
    ] {
        assert!(expression(&right).value(facts) > 0.0, "{right}");
        let error = wrong.parse::<Expression>().unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn what_follows_from_the_text() {
    // The flags: is a size, needs paths, needs sizes, changes by serving.
    for (text, expected) in [
        ("left", (true, false, true, false)),
        ("size", (true, false, true, false)),
        ("sent", (false, false, false, true)),
        ("0", (false, false, false, false)),
        ("min(left, 3MB)", (true, false, true, false)),
        ("left * 2 + 64KB", (true, false, true, false)),
        ("left * rtt", (false, true, true, false)),
        ("size - sent", (true, false, true, false)),
        ("sent / size", (false, false, true, true)),
        ("size / sent", (false, false, true, false)),
        ("step(left, 1KB) + step(left, 9KB)", (false, false, true, false)),
        ("step(9KB, left)", (false, false, true, true)),
        ("floor(log2(left))", (false, false, true, false)),
        ("noisy(left, 0.5)", (true, false, true, false)),
        ("noisy(size, sent / size)", (true, false, true, true)),
        ("gittins", (true, false, false, true)),
        ("srrt", (false, true, true, false)),
        ("left + window", (true, true, true, false)),
    ] {
        let rank = expression(text);
        let told = (rank.is_size(), rank.needs_path(), rank.knows_size(), rank.takes_turns());
        assert_eq!(told, expected, "{text}");
    }
    let of = |text: &str| (expression(text).route_index(), expression(text).is_noisy());
    assert_eq!(of("mserpt + 1"), (Some(RouteIndex::MSerpt), false));
    assert_eq!(of("noisy(size, 1)"), (None, true));
    let spec: PolicySpec = "rank:sent".parse().unwrap();
    assert!(spec.takes_turns() && !spec.is_fair() && spec.bands() == 1);
}

#[test]
fn the_library_is_of_expressions() {
    let names: BTreeSet<&str> = LIBRARY.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), LIBRARY.len());
    for (name, meaning) in LIBRARY {
        let (short, long) = (expression(name), expression(meaning));
        assert_eq!((short.program, short.traits), (long.program, long.traits), "{name}");
    }
}

fn job() -> impl Strategy<Value = (Job, Path)> {
    let bytes = 0u64..1 << 50;
    let nanos = prop::option::of(0u64..1 << 40);
    (bytes.clone(), bytes, any::<bool>(), any::<u64>(), any::<u64>(), nanos, prop::option::of(any::<u64>())).prop_map(
        |(size, attained, is_known, number, at, rtt, path)| {
            let size_of = if is_known { Size::Known(size) } else { Size::AtLeast(size) };
            let job = Job {
                number,
                attained: attained.min(if is_known { size } else { u64::MAX }),
                arrived_at: Nanos(at),
                blind: Blind::default(),
                ..Job::of_size(size_of)
            };
            (job, Path { rtt: rtt.map(Nanos), cwnd_bytes: path, throughput_bps: path })
        },
    )
}

/// An expression with every kind of element, nested.
fn text() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "size",
        "left",
        "sent",
        "arrived",
        "class",
        "rtt",
        "window",
        "throughput",
        "gittins",
        "0",
        "1.5",
        "64KB",
        "50ms",
        "10mbit",
        "1e300",
        "srrt",
    ])
    .prop_map(String::from);
    leaf.prop_recursive(4, 20, 2, |inner| {
        let operators = prop::sample::select(vec!["+", "-", "*", "/"]);
        let functions = prop::sample::select(vec!["min", "max", "step", "noisy"]);
        prop_oneof![
            (inner.clone(), operators, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (functions, inner.clone(), inner.clone()).prop_map(|(name, a, b)| format!("{name}({a}, {b})")),
            (prop::sample::select(vec!["floor", "log2"]), inner).prop_map(|(name, a)| format!("{name}({a})")),
        ]
    })
}

proptest! {
    /// Any text is either a rank or a mistake with its place.
    #[test]
    fn any_text_is_parsed_or_told(text in "\\PC{0,80}") {
        if let Err(error) = text.parse::<Expression>() {
            prop_assert!(error.column <= text.trim().chars().count() + 1);
        }
    }

    #[test]
    fn any_words_are_parsed_or_told(words in prop::collection::vec(prop::sample::select(vec![
        "(", ")", ",", "+", "-", "*", "/", "left", "sent", "route", "gittins", "min", "log2", "step", "1", "9KB", "x", "é",
    ]), 0..40)) {
        let text = words.join(" ");
        match text.parse::<Expression>() {
            Ok(expression) => prop_assert!(expression.value(facts) >= 0.0),
            Err(error) => prop_assert!(error.column <= text.trim().chars().count() + 1),
        }
    }

    /// Every job has a number, and keys are in the order of the numbers.
    #[test]
    fn a_rank_is_a_number_from_zero(text in text(), jobs in prop::collection::vec(job(), 2)) {
        let Ok(expression) = text.parse::<Expression>() else { return Ok(()) };
        let ranked: Vec<(f64, u64)> = jobs
            .iter()
            .map(|(job, path)| (expression.value_of(job, path), expression.rank(job, path)))
            .collect();
        prop_assert!(ranked.iter().all(|(value, _)| *value >= 0.0), "{}: {:?}", text, ranked);
        if ranked[0].0 < ranked[1].0 {
            prop_assert!(ranked[0].1 <= ranked[1].1, "{}: {:?}", text, ranked);
        }
    }

    /// Serving a job does not worsen a rank that is reported not to take turns.
    #[test]
    fn a_rank_without_turns_never_rises(text in text(), job in job(), part in 0.0..1.0) {
        let Ok(expression) = text.parse::<Expression>() else { return Ok(()) };
        let (job, path) = job;
        prop_assume!(job.known().is_some() && !expression.takes_turns());
        let later = Job { attained: job.attained + (job.remaining() as f64 * part) as u64, ..job.clone() };
        let value = |job: &Job| expression.value_of(job, &path);
        prop_assert!(value(&later) <= value(&job), "{}: {} after {}", text, value(&later), value(&job));
    }

    /// The expression of a policy ranks as the policy does, in every unit.
    #[test]
    fn expressions_are_their_policies(job in job(), unit in prop::sample::select(vec![1.0, 1e-3, 0.00125])) {
        let (job, path) = job;
        for (name, long) in [("srpt", "left * 1"), ("psjf", "max(size, 0B)")] {
            let [rank, other] = [name, long].map(|text| expression(text).in_units_of(unit).rank(&job, &path));
            prop_assert_eq!(rank, other);
            let mut policy = parse(name).unwrap();
            policy.on_path(0, &path);
            prop_assert_eq!(rank, policy.within(0, &job), "{}", name);
        }
        let sent = expression("las").value_of(&job, &path);
        prop_assert_eq!(sent, job.attained_anew() as f64);
        let srrt = expression("srrt").value_of(&job, &path) * 1e9;
        let exact = parse("srrt").map(|mut policy| { policy.on_path(0, &path); policy.within(0, &job) }).unwrap() as f64;
        prop_assert!(exact >= 1e19 || (srrt - exact).abs() <= 2.0 + 1e-9 * exact, "{} for {}", srrt, exact);
    }
}

#[test]
fn errors_are_normal() {
    let deviates: Vec<f64> = (0..20_000)
        .map(|number| {
            let job = Job { number, ..Job::of_size(Size::Known(1000)) };
            (expression("noisy(size, 1)").value_of(&job, &Path::UNKNOWN) / 1000.0).ln()
        })
        .collect();
    let mean = deviates.iter().sum::<f64>() / 20_000.0;
    let variance = deviates.iter().map(|deviate| deviate * deviate).sum::<f64>() / 20_000.0;
    assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
}
