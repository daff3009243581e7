//! `weirlab report` as a user runs it: folders in, table or JSON out, exit status.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::{Folder, text};
use record::{JobRecord, Manifest, Run};

fn run(name: &str, response_ms: u64) -> Run {
    let records = (0..300).map(|job| {
        let end_ns = (job * 3 + response_ms) * 1_000_000;
        JobRecord { head_bytes: 210, ..JobRecord::complete(job, 10 * (job + 1), job * 3_000_000, end_ns) }
    });
    let manifest =
        Manifest { link_bps: 10_000_000, rho: 0.5, seconds: 1.0, lateness_ns_p99: Some(1000), ..Manifest::new(name) };
    Run { manifest, records: records.collect(), pages: vec![] }
}

fn report(args: &[&Path]) -> Output {
    let weirlab = env!("CARGO_BIN_EXE_weirlab");
    Command::new(weirlab).arg("report").args(args).output().expect("weirlab can be started")
}

/// Two runs in one folder, named so that their order is that of their names.
fn two_runs(test: &str) -> Folder {
    let folder = Folder::new("report", test);
    run("b-fast", 30).write(&folder.path().join("b-fast")).expect("a run can be written");
    run("a-slow", 90).write(&folder.path().join("a-slow")).expect("a run can be written");
    folder
}

#[test]
fn prints_a_table_of_a_folder_of_runs() {
    let folder = two_runs("table");
    let output = report(&[folder.path()]);
    let table = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(table.starts_with(folder.path().file_name().unwrap().to_str().unwrap()), "{table}");
    assert!(table.contains("bound (clairvoyant SRPT)") && table.contains("3.00"), "{table}");
    assert!(table.find("a-slow").unwrap() < table.find("b-fast").unwrap(), "{table}");
}

#[test]
fn prints_one_json_object_and_nothing_else() {
    let folder = two_runs("json");
    let fast_first = [folder.path().join("b-fast"), folder.path().join("a-slow")];
    let output = report(&[Path::new("--json"), &fast_first[0], &fast_first[1]]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    let names: Vec<&str> = json["runs"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["b-fast", "a-slow"], "in the order given");
    assert_eq!(json["runs"][0]["response_time_ms"]["mean"], 30.0);
    assert_eq!(json["experiment"].as_str(), folder.path().file_name().unwrap().to_str());
    assert!(json["runs"][0]["bound_ratio"].as_f64().unwrap() > 1.0);
}

#[test]
fn says_what_is_wrong_with_the_folder() {
    let folder = two_runs("wrong");
    let absent = report(&[&folder.path().join("absent")]);
    assert_eq!(absent.status.code(), Some(1));
    assert!(text(&absent.stderr).contains("absent: "), "{}", text(&absent.stderr));

    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let output = report(&[&empty]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no run here"), "{}", text(&output.stderr));

    assert_eq!(report(&[]).status.code(), Some(2), "no folder is a mistake of usage");
}

#[test]
fn a_run_cut_short_is_named_and_left_out() {
    let folder = two_runs("short");
    std::fs::remove_file(folder.path().join("b-fast/manifest.json")).unwrap();
    let output = report(&[folder.path()]);
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("b-fast: left out"), "{}", text(&output.stderr));
    assert!(!text(&output.stdout).contains("b-fast"));
}

#[test]
fn runs_of_different_jobs_are_refused() {
    let folder = two_runs("different");
    let mut other = run("c-other", 10);
    other.records[17].size_bytes += 1;
    other.write(&folder.path().join("c-other")).unwrap();
    let output = report(&[folder.path()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let said = text(&output.stderr);
    assert!(said.starts_with("weirlab: run `c-other`: job 17 ") && said.contains("`a-slow`"), "{said}");
}

/// The pages name the source of their figures: every folder of results that they link to is read by `weirlab report`.
#[test]
fn the_results_that_the_pages_link_to_can_be_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = ["README.md", "docs/measurements.md"].map(|page| std::fs::read_to_string(root.join(page)).unwrap());
    let links = pages.iter().flat_map(|page| page.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
    let links = links.filter_map(|link| link.trim_start_matches("../").strip_prefix("results/"));
    let folders: Vec<&str> =
        links.filter(|link| !link.ends_with(".md")).map(|link| link.trim_end_matches('/')).collect();
    assert!(folders.len() >= 4, "{folders:?}");
    for folder in folders {
        let path = root.join("results").join(folder);
        for output in [report(&[&path]), report(&["--json".as_ref(), &path])] {
            assert!(output.status.success(), "results/{folder}: {}", text(&output.stderr));
            assert!(text(&output.stdout).contains("nginx"), "results/{folder}: {}", text(&output.stdout));
        }
    }
}

/// As `weir serve --access-log FILE --log-format json` leaves it: in the order in which responses ended, and without a generator.
#[test]
fn reports_an_access_log() {
    let folder = Folder::new("report", "of-server");
    let line = |job: u64| {
        let start = format!("2026-11-21T10:00:{:02}.{:02}0000000Z", job / 100, job % 100);
        format!(
            "{{\"start_time\":\"{start}\",\"remote_addr\":\"198.18.0.7\",\"status\":200,\"content_length\":1000,\"head_bytes\":200,\"body_bytes\":1000,\
             \"first_byte_ms\":1.000000,\"duration_ms\":30.000000,\
             \"connection_reused\":false,\"outcome\":\"complete\"}}\n"
        )
    };
    let log = folder.path().join("access.json");
    std::fs::write(&log, (0..300).rev().map(line).collect::<String>()).unwrap();
    let output = report(&[Path::new("--json"), Path::new("--link"), Path::new("10mbit"), &log]);
    assert!(output.status.success(), "{}", text_of(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let run = &json["runs"][0];
    assert_eq!(
        (&json["jobs"], &run["name"], &run["completed"], &run["response_time_ms"]["mean"]),
        (&300.into(), &"access".into(), &300.into(), &30.0.into())
    );
    assert!(run["client_lateness_p99_ms"].is_null() && run["void"].is_null(), "{run}");
    assert!(run["not_a_wire"].as_str().unwrap().starts_with("recorded by the server"), "{run}");
    assert!(report(&[Path::new("--link=10mbit"), &log]).status.success(), "the table too");

    let output = report(&[&log]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text_of(&output).contains("give it with --link RATE"), "{}", text_of(&output));
    std::fs::write(&log, line(0) + "torn").unwrap();
    let output = report(&[Path::new("--link=10mbit"), &log]);
    assert!(output.status.code() == Some(1) && text_of(&output).contains("access.json:2: "), "{}", text_of(&output));
}

fn text_of(output: &Output) -> String {
    text(&output.stderr)
}
