//! `weirlab trace` as its users see it: the program, real files, exit statuses.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{Folder, text};

use workload::{Filter, LoadProfile, Log, ReadOptions, Scaling};

/// Writes a file, and returns its path.
fn write(folder: &Folder, name: &str, content: impl AsRef<[u8]>) -> String {
    fs::write(folder.file(name), content).unwrap();
    folder.file(name)
}

fn names(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn trace(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weirlab")).arg("trace").args(args).output().unwrap()
}

/// The standard output of a command that must succeed.
fn done(args: &[&str]) -> String {
    let output = trace(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The standard error of a command that must end with this status, a single line.
fn fails(status: i32, args: &[&str]) -> String {
    let output = trace(args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
    assert!(output.stdout.is_empty(), "{args:?} printed {}", text(&output.stdout));
    assert!(status == 2 || said.lines().count() == 1, "{args:?}: {said}");
    said
}

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&done(args)).unwrap()
}

const CSV: &str = "epoch_s,size_bytes,status\n894038400,900,200\n894038401,0,304\n894038460,4000,200\n";

#[test]
fn without_conditions_nothing_is_lost() {
    let folder = Folder::new("whole");
    for (name, content) in [("whole.csv", CSV), ("fraction.csv", "epoch_s,size_bytes\n0.0,1\n0.000000001,2\n7.25,3\n")]
    {
        let source = write(&folder, name, content);
        let (packed, back) = (folder.file("packed.csv.gz"), folder.file("back.csv"));
        done(&["cut", &source, "--out", &packed]);
        done(&["cut", &packed, "--out", &back]);
        assert_eq!(fs::read(&packed).unwrap()[..2], [0x1f, 0x8b]);
        assert_eq!(fs::read_to_string(&back).unwrap(), content);
    }
    assert_eq!(names(&folder), ["back.csv", "fraction.csv", "packed.csv.gz", "whole.csv"]);
}

#[test]
fn cut_by_the_clock_of_the_busy_day() {
    let folder = Folder::new("cut");
    // Two requests on the evening before, five on the day.
    let day = 893_980_800;
    let lines: Vec<String> =
        [(-7200, 1), (-3600, 2), (57_599, 3), (57_600, 4), (57_601, 500_000), (61_200, 6), (61_201, 7)]
            .iter()
            .map(|(second, size)| format!("{},{size},200\n", day + second))
            .collect();
    let (source, out) = (write(&folder, "a.csv", lines.concat()), folder.file("b.csv"));
    done(&["cut", &source, "--from", "16:00", "--to", "17:00", "--max", "64KiB", "--out", &out]);
    assert_eq!(fs::read_to_string(&out).unwrap(), "epoch_s,size_bytes,status\n894038400,4,200\n");
    done(&["cut", &source, "--from", "1998-05-01T16:00:01Z", "--out", &out]);
    assert_eq!(fs::read_to_string(&out).unwrap().lines().count(), 4);
    let said = json(&["cut", &source, "--first", "2", "--status", "200", "--min", "2", "--out", &out, "--json"]);
    assert_eq!((&said["requests"], &said["bad_lines"]), (&2.into(), &0.into()));
    assert_eq!(fs::read_to_string(&out).unwrap(), "epoch_s,size_bytes,status\n893977200,2,200\n894038399,3,200\n");
}

#[test]
fn make_makes_the_shipped_trace_again() {
    let folder = Folder::new("make");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/synthetic.csv.gz");
    let (made, kept, carried) = (folder.file("made.csv"), folder.file("kept.csv"), folder.file("carried.csv"));
    done(&["make", "--out", &made]);
    done(&["cut", shipped.to_str().unwrap(), "--out", &kept]);
    done(&["cut", "synthetic", "--out", &carried]);
    let made = fs::read(made).unwrap();
    assert!(made == fs::read(kept).unwrap(), "traces/synthetic.csv.gz is not what `weirlab trace make` makes");
    assert!(made == fs::read(carried).unwrap(), "the trace in the program is not the one in traces/");
    assert!(fs::metadata(shipped).unwrap().len() < 300_000);
}

#[test]
fn make_takes_a_seed_and_a_number() {
    let folder = Folder::new("seed");
    let (one, two) = (folder.file("1.csv"), folder.file("2.csv"));
    done(&["make", "--seed", "1", "--jobs", "50", "--out", &one]);
    done(&["make", "--seed", "2", "--jobs", "50", "--out", &two]);
    assert_eq!(fs::read_to_string(&one).unwrap().lines().count(), 51);
    assert_ne!(fs::read(one).unwrap(), fs::read(two).unwrap());
}

#[test]
fn bad_lines_are_told_and_strict_stops() {
    let folder = Folder::new("bad");
    let (source, out) = (write(&folder, "a.csv", "1,5\nx,6\n2,7\n"), folder.file("b.csv"));
    let output = trace(&["cut", &source, "--out", &out]);
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("1 bad line, first line 2: the time is not"), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(&out).unwrap(), "epoch_s,size_bytes\n1,5\n2,7\n");
    let said = fails(1, &["cut", "--strict", &source, "--out", &out]);
    assert!(said.contains(&format!("{source}:2: the time is not decimal seconds")), "{said}");
}

#[test]
fn what_cannot_be_read_is_said_in_a_line() {
    let folder = Folder::new("unreadable");
    let (made, out) = (folder.file("a.csv.gz"), folder.file("out.csv"));
    done(&["make", "--jobs", "5000", "--out", &made]);
    let whole = fs::read(&made).unwrap();
    for (source, why) in [
        (folder.file("none"), "No such file"),
        (folder.file("."), "directory"),
        (write(&folder, "empty", ""), "the file is empty"),
        (write(&folder, "page", "<html>\n"), "not a request log"),
        (write(&folder, "header", "epoch_s,size_bytes\n"), "no requests in it"),
        (write(&folder, "half.gz", &whole[..whole.len() / 2]), "truncated"),
    ] {
        let said = fails(1, &["cut", &source, "--out", &out]);
        assert!(said.starts_with("weirlab: ") && said.contains(&source) && said.contains(why), "{said}");
    }
    let forced = fails(1, &["cut", "--format", "log", &write(&folder, "b.csv", CSV), "--out", &out]);
    assert!(forced.contains("no requests in it: 4 bad lines, first line 1: there is no time like"), "{forced}");
}

#[test]
fn nonsense_is_a_usage_error() {
    let folder = Folder::new("usage");
    let (source, out) = (write(&folder, "a.csv", CSV), folder.file("b.csv"));
    for (args, why) in [
        (vec!["cut", &source, "--out", &out, "--format", "apache"], "worldcup-csv"),
        (vec!["cut", &source, "--out", &out, "--from", "4pm"], "16:00"),
        (vec!["cut", &source, "--out", &out, "--from", "17:00", "--to", "16:00"], "is not before"),
        (vec!["cut", &source, "--out", &out, "--min", "2KB", "--max", "1KB"], "--min is above --max"),
        (vec!["cut", &source, "--out", &out, "--min", "1kib"], "64KiB"),
        (vec!["make", "--out", &out, "--jobs", "1"], "has a span"),
        (vec!["cut", &source], "--out"),
    ] {
        let said = fails(2, &args);
        assert!(said.contains(why), "{args:?}: {said}");
    }
    assert_eq!(names(&folder), ["a.csv"]);
}

#[test]
fn a_failure_leaves_the_old_file_and_nothing_else() {
    let folder = Folder::new("old");
    let (source, out) = (write(&folder, "a.csv", CSV), write(&folder, "b.csv", "old"));
    assert!(fails(1, &["cut", &source, "--status", "404", "--out", &out]).contains("none of its 3 requests"));
    assert!(fails(1, &["cut", &source, "--out", "/dev/full"]).contains("/dev/full: No space left"));
    fails(1, &["cut", &source, "--out", &folder.file("none/c.csv")]);
    fails(1, &["cut", &source, "--out", &folder.file(".")]);
    assert_eq!(
        (fs::read_to_string(&out).unwrap().as_str(), names(&folder)),
        ("old", vec!["a.csv".into(), "b.csv".into()])
    );
}

/// The figures of real logs, if this machine has them; they may not be shipped.
#[test]
fn real_logs_have_their_known_figures() {
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    if !logs.is_dir() {
        println!("SKIPPED: there are no real logs next to the repository");
        return;
    }
    let path = |name: &str| logs.join(name).to_str().unwrap().to_string();
    let sample = path("worldcup98/wc_day6_1_sample.csv.gz");
    let found = log_at(&sample);
    assert_eq!((found.requests.len(), found.bad.count), (199_997, 3));
    let sizes = || found.requests.iter().map(|request| request.size_bytes).filter(|size| *size > 0);
    assert_eq!((sizes().sum::<u64>() as f64 / sizes().count() as f64).round(), 8604.0);
    let found = log_at(&path("worldcup98/test_log.gz"));
    let fine = found.requests.iter().filter(|request| request.status == Some(200)).count();
    assert_eq!((found.requests.len(), fine), (1000, 844));
    let nasa = path("nasa/access_09jul1995.log.gz");
    assert_eq!(log_at(&nasa).requests.len(), 35_272);

    // The hour and the day of the experiments, and the number of jobs that they give in a minute.
    let folder = Folder::new("real");
    let hour = folder.file("hour.csv.gz");
    done(&[
        "cut", &sample, "--from", "16:00", "--to", "17:00", "--status", "200", "--min", "1", "--max", "2020644",
        "--out", &hour,
    ]);
    assert_eq!(log_at(&hour).requests.len(), 11_757);
    for (path, expected) in [(hour, 8790.0), (nasa, 2630.0)] {
        let jobs = minute_at(&path, 0.8);
        assert!((jobs as f64 / expected - 1.0).abs() < 0.01, "{path}: {jobs} jobs, about {expected} expected");
    }
}

fn log_at(path: &str) -> Log {
    workload::read(std::io::BufReader::new(fs::File::open(path).unwrap()), &ReadOptions::default()).unwrap()
}

/// The number of jobs in a minute of 10 Mbit/s at this load.
fn minute_at(path: &str, rho: f64) -> usize {
    let scaling = Scaling {
        load: LoadProfile::constant(rho).unwrap(),
        link: "10mbit".parse().unwrap(),
        seconds: Some(60.0),
        per_connection: 1,
        repeat: None,
    };
    let schedule = workload::schedule(&log_at(path).cut(&Filter::for_schedules()).trace(1), &scaling).unwrap();
    println!("{path}: {} jobs, rho {:.3}", schedule.jobs.len(), schedule.rho_measured);
    schedule.jobs.len()
}

/// The log would be lost, under whatever name it is read.
#[test]
fn the_file_that_is_read_is_not_written_over() {
    let folder = Folder::new("same");
    let log = write(&folder, "log.csv", "epoch_s,size_bytes,status\n1,5,200\n2,6,304\n");
    let link = folder.file("link.csv");
    std::os::unix::fs::symlink(&log, &link).unwrap();
    for out in [&log, &link] {
        let said = fails(2, &["cut", &log, "--out", out]);
        assert!(said.contains("it is the file that is read: write another name"), "{said}");
    }
    assert!(fs::read_to_string(&log).unwrap().ends_with("2,6,304\n"));
}
