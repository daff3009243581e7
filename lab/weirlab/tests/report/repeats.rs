//! `weirlab report --over`: points and folders with several seeds, as a table, as JSON and as Markdown.

use std::fs;
use std::path::Path;

use crate::{Folder, report, run, text};

const EXPERIMENT: &str =
    "question = \"q\"\nlink = \"10mbit\"\nseconds = 1\n[vary]\nrho = [0.5, 0.8]\nseed = [1, 2, 3]\n";

fn write(folder: &Path, name: &str, seed: u64, rho: f64, response_ms: u64) {
    let mut run = run(name, response_ms);
    (run.manifest.seed, run.manifest.rho) = (seed, rho);
    run.write(&folder.join(name)).expect("a run can be written");
}

/// `ours` takes a third of the time of `theirs` at 0.5, and twice as much at 0.8.
fn experiment(test: &str) -> Folder {
    let folder = Folder::new("report", test);
    let out = folder.path().join("e");
    for seed in 1..=3 {
        let ms = 10 * seed;
        for (rho, ours_ms, theirs_ms) in [(0.5, ms, 3 * ms), (0.8, 2 * ms, ms)] {
            let point = out.join(format!("rho-{rho}_seed-{seed}"));
            write(&point, "ours", seed, rho, ours_ms);
            write(&point, "theirs", seed, rho, theirs_ms);
        }
    }
    fs::write(out.join("experiment.toml"), EXPERIMENT).unwrap();
    folder
}

fn words(table: &str, row: usize) -> Vec<&str> {
    let mut rows = table.lines().skip_while(|line| !line.starts_with("group "));
    rows.nth(1 + row).unwrap_or_default().split_whitespace().collect()
}

#[test]
fn losses_stand_first_and_seeds_are_one_group() {
    let folder = experiment("over-table");
    let output = report(&[folder.path(), "--over".as_ref(), "ours".as_ref()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    let expected = ["rho-0.8", "theirs", "3", "20.0", "±", "24.8"];
    assert_eq!(words(&table, 0)[..6], expected, "{table}");
    assert_eq!(words(&table, 0)[9..], ["0.500", "0.500-0.500", "0.500", "0.500-0.500", "mean,", "top"], "{table}");
    assert_eq!(words(&table, 1)[..3], ["rho-0.5", "theirs", "3"], "{table}");
    assert_eq!(words(&table, 1)[9..], ["3.00", "3.00-3.00", "3.00", "3.00-3.00", "-"], "{table}");
    assert_eq!(words(&table, 2)[..2], ["rho-0.5", "ours"], "{table}");
}

#[test]
fn programs_and_pages_have_the_same() {
    let folder = experiment("over-json");
    let file = folder.path().join("over.md");
    let flags = ["--json", "--over", "ours", "--md"].map(Path::new);
    let output = report(&[folder.path(), flags[0], flags[1], flags[2], flags[3], &file]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    assert_eq!(json["over"], "ours");
    let row = &json["rows"][0];
    assert_eq!((&row["group"], &row["run"], &row["standing"]), (&"rho-0.8".into(), &"theirs".into(), &"loses".into()));
    assert_eq!((&row["seeds"], &row["pairs"], &row["left_out"]), (&3.into(), &3.into(), &serde_json::json!([])));
    assert!((row["factor"]["high"].as_f64().unwrap() - 0.5).abs() < 1e-9);
    let markdown = fs::read_to_string(file).unwrap();
    assert!(markdown.starts_with("# Weir: every run over ours\n"), "{markdown}");
    assert!(markdown.contains("| **rho-0.8** | **theirs** | **3** | **20.0 ± 24.8** |"), "{markdown}");
}

/// Made with `--seed N`, each in a folder of its own; of one seed a run is void.
#[test]
fn folders_of_one_experiment_are_one_group() {
    let folder = Folder::new("report", "over-folders");
    let mut folders = vec![];
    for seed in 4..=6 {
        let out = folder.path().join(format!("e-{seed}"));
        write(&out, "ours", seed, 0.5, 10);
        write(&out, "theirs", seed, 0.5, 20);
        fs::write(out.join("experiment.toml"), format!("seconds = 1\nseed = {seed}\n")).unwrap();
        folders.push(out);
    }
    let mut void = run("theirs", 20);
    (void.manifest.seed, void.manifest.void) = (5, Some("it rained".into()));
    void.write(&folders[1].join("theirs")).unwrap();
    let [over, ours] = ["--over", "ours"].map(Path::new);
    let output = report(&[&folders[0], &folders[1], &folders[2], over, ours]);
    let table = text(&output.stdout);
    assert_eq!(words(&table, 0)[..4], ["e-4", "(+2)", "theirs", "2/3"], "{table}{}", text(&output.stderr));
    assert!(table.contains("e-4 (+2) / theirs: 1 of 3 seeds void (5): it rained"), "{table}");

    let twice = report(&[&folders[0], &folders[0], over, ours]);
    assert_eq!(twice.status.code(), Some(1));
    assert!(text(&twice.stderr).contains("run `ours` of seed 4 is there twice"), "{}", text(&twice.stderr));
}

#[test]
fn mistakes_are_named() {
    let folder = experiment("over-mistakes");
    let of = |args: &[&str]| {
        let args: Vec<&Path> = [folder.path()].into_iter().chain(args.iter().map(Path::new)).collect();
        let output = report(&args);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
        text(&output.stderr)
    };
    assert_eq!(of(&["--over", "hers"]), "weirlab: --over: there is no run `hers`; the runs are ours, theirs\n");
    assert!(of(&["--over", "ours", "--csv", "x"]).contains("--csv"));
}

/// `--line`: the same seeds, with when the rate was found and each second of a run.
#[test]
fn lines_are_compared_over_seeds_and_second_by_second() {
    let folder = experiment("line");
    let found = folder.path().join("e/rho-0.5_seed-1/ours/uplink.csv");
    fs::write(found, "at_s,text\n0.7,\"uplink: found 9.7 Mbit/s\"\n").unwrap();
    let csv = folder.path().join("csv");
    let flags = ["--line", "ours", "--csv"].map(Path::new);
    let output = report(&[folder.path(), flags[0], flags[1], flags[2], &csv]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert_eq!(words(&table, 0)[..3], ["e", "rho-0.5", "ours"], "{table}");
    assert_eq!(words(&table, 0).iter().rev().take(2).collect::<Vec<_>>(), [&"(1/3)", &"0.700"], "{table}");
    assert_eq!(words(&table, 1)[..4], ["e", "rho-0.5", "theirs", "3"], "{table}");
    assert!(words(&table, 1).windows(2).any(|pair| pair == ["3.00", "3.00-3.00"]), "{table}");
    let seconds = fs::read_to_string(csv.join("e_rho-0.5_seed-1_ours.csv")).unwrap();
    assert_eq!(seconds.lines().nth(1), Some("0,0,10000000,,,,9700000,uplink: found 9.7 Mbit/s"), "{seconds}");
    assert!(csv.join("lines.csv").is_file());
    let output = report(&[folder.path(), flags[0], "nobody".as_ref()]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("--line: there is no run `nobody`; the runs are ours, theirs"), "{said}");
}
