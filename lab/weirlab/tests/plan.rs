//! `weirlab plan` as its users meet it: the program, its table, its files, its exit statuses.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

const CLASSES: &[&str] = &["--class", "paid:0.2", "--class", "free:0.8", "--jobs", "1500", "--seeds", "3"];

fn plan(objective: &str, more: &[&str]) -> Output {
    let words = [&["plan", "synthetic", "--objective", objective], CLASSES, more].concat();
    Command::new(env!("CARGO_BIN_EXE_weirlab")).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_plan_is_a_table_with_its_pick_held_against_fresh_seeds() {
    let folder = std::env::temp_dir().join(format!("weirlab-plan-{}", std::process::id()));
    let out = folder.display().to_string();
    let objective = "paid: p90 of responses <= 64KiB under 60ms";
    let output = plan(objective, &["--rho", "0.9", "--out", &out]);
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{table}{}", text(&output.stderr));
    assert!(
        table.contains(" of 62 settings meet all objectives") && table.contains(" holds with seeds 1000001 to "),
        "{table}"
    );
    assert!(table.contains("For weir.toml:\n\n[[class]]\nname = \"paid\"\n"), "{table}");
    let csv = fs::read_to_string(folder.join("plan.csv")).unwrap();
    assert_eq!(csv.lines().count(), 63);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_cannot_be_met_exits_with_1_and_names_a_link() {
    let output = plan("paid: p99 of responses <= 64KiB under 5ms", &["--rho", "0.9", "--by", "weights", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no setting meets all objectives"), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["settings"].as_array().unwrap().len(), 11);
    assert!(found["link_that_would_do_bps"].as_u64().is_some_and(|bps| bps > 10_000_000), "{found}");
    assert_eq!(found["fresh_seeds"], Value::Array(vec![]));
}

#[test]
fn mistakes_are_wrong_usage() {
    for (objective, more, said) in [
        ("paid", &[][..], "expected CLASS: pN"),
        ("paid: fast", &[], "expected `pN of responses under TIME`"),
        ("gold: p99 of responses under 1s", &[], "no --class has that name"),
        ("paid: p99 of responses under 1s", &["--policy", "strict/srpt"], "classes above a policy are gone"),
        ("paid: p99 of responses under 1s", &["--rho", "0"], "--rho"),
        ("paid: p99 of responses under 1s", &["--class", "more:0.5"], "add up to 1"),
        ("paid: p99 of responses under 1s", &["--by-client"], "have no client"),
    ] {
        let output = plan(objective, more);
        let found = text(&output.stderr);
        assert!(output.status.code() == Some(2) && found.contains(said), "{objective} {more:?}: {found}");
    }
}

/// A folder that cannot be made is said before anything is simulated, and so is a link that carries no packet in a second.
#[test]
fn mistakes_of_the_place_cost_no_simulation() {
    let output = plan("paid: p99 of responses under 1s", &["--out", "/proc/none"]);
    assert!(
        output.status.code() == Some(1) && text(&output.stderr).starts_with("weirlab: --out /proc/none: "),
        "{output:?}"
    );
    let output = plan("paid: p99 of responses under 1s", &["--link", "1bit"]);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("at least 12kbit"), "{output:?}");
}

#[test]
fn where_nothing_is_needed_nothing_is_set() {
    let output = plan("paid: p90 of responses under 30s", &["--rho", "0.5"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("\nnothing set holds with seeds ") && said.contains("No weight, rate or slot is needed"),
        "{said}"
    );
    assert!(!said.contains("weight =") && said.contains("[[class]]\nname = \"free\""), "{said}");
}

#[test]
fn a_plan_that_meets_nothing_says_by_what_its_rows_stand() {
    let both = ["--objective", "free: p50 of responses under 30s", "--rho", "0.9", "--by", "weights"];
    let said = text(&plan("paid: p99 of responses <= 64KiB under 5ms", &both).stdout);
    assert!(said.contains("0 of 11 settings meet all objectives; the first come nearest\n"), "{said}");
    assert!(said.contains("slowdown of all classes\n"), "{said}");
}
