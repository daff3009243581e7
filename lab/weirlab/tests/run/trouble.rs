//! Problems around an experiment are reported before it begins, or end it cleanly without losing finished runs.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::TWO_RUNS;
use crate::bench::{Bench, has_site, may_test, processes_in, stderr};

#[test]
fn a_trace_is_read_before_anything_begins() {
    let short = TWO_RUNS.replace("rho = 0.5", "rho = 0.5\ntrace = \"short.csv\"");
    let bench = Bench::new("trace", &short);
    let output = bench.run(&[]);
    assert!(stderr(&output).contains("short.csv") && !bench.out().exists(), "{}", stderr(&output));

    fs::write(bench.folder.join("short.csv"), "epoch_s,size_bytes\n0.0,1000\n1.0,1000\n").unwrap();
    let output = bench.run(&["--seconds", "60"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("shorter than the 60 s asked for"), "{}", stderr(&output));
    assert!(stderr(&output).ends_with("write repeat = true, or fewer seconds\n"), "{}", stderr(&output));
    assert!(!bench.out().exists());
}

#[test]
fn loads_that_cannot_be_are_refused() {
    for (wrong, says) in [
        ("rho = 0.0", "small.toml:4: `0` is not a load"),
        ("rho = 99", "small.toml:4: `99` is not a load"),
        ("profile = \"W11\"", "small.toml:4: `W11` is no load profile"),
        ("rho = 0.5\nretries = 2", "small.toml:1: retries without abort"),
    ] {
        let bench = Bench::new("loads", &TWO_RUNS.replace("rho = 0.5", wrong));
        let output = bench.run(&[]);
        assert!(stderr(&output).contains(says) && output.status.code() == Some(1), "{wrong}: {}", stderr(&output));
    }
}

/// A namespace has its own ports: a program outside on the server's port does not matter.
#[test]
fn a_port_in_use_outside_does_not_matter() {
    let Some(_alone) = may_test() else { return };
    let listener = TcpListener::bind("0.0.0.0:8080");
    let bench = Bench::new("port", TWO_RUNS);
    let output = bench.run(&["--only", "first", "--seconds", "1"]);
    assert!(output.status.success(), "{}", stderr(&output));
    drop(listener);
}

/// The folder of results is on a file system of a few pages, mounted where no other process sees it.
#[test]
fn a_full_disk_ends_it_and_leaves_nothing() {
    let Some(_alone) = may_test() else { return };
    let bench = Bench::new("full", TWO_RUNS);
    fs::create_dir(bench.out()).unwrap();
    // 64 KB do not hold the records of two runs.
    let script = format!(
        "mount -t tmpfs -o size=64k,nr_inodes=20000 none out && {} run small.toml --out out; status=$?; ls out; exit $status",
        env!("CARGO_BIN_EXE_weirlab")
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).current_dir(&bench.folder).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("No space left on device") && said.contains("kept in out"), "{said}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("www"), "{said}");
    assert!(!has_site(&bench.out()));
    assert_eq!(processes_in(&bench.out()), Vec::<String>::new());
}
