//! `weirlab trace` as its users see it: the program, real files, exit statuses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use workload::{Filter, LoadProfile, ReadOptions, Scaling};

/// A folder for each test, removed afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trace-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().into()
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.0.join(name), content).unwrap();
        self.path(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn trace(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weirlab")).arg("trace").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
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
fn info_tells_every_format_by_its_content() {
    let folder = Folder::new("formats");
    let record =
        |at: u32, size: u32| [&at.to_be_bytes()[..], &[0; 8], &size.to_be_bytes(), &[0, 0x42, 1, 0x60]].concat();
    let log = "h - - [09/Jul/1995:00:00:00 -0400] \"GET /a\"b HTTP/1.0\" 200 85465\n";
    let sample = b"44,30/Apr/1998,22:46:12,/a.gif,200,508\n45,30/Apr/1998,22:46:10,/caf\xe9,304,-\n";
    for (name, content, format, requests, max) in [
        ("a", CSV.into(), "csv", 3, 4000),
        ("b", log.into(), "log", 1, 85465),
        ("c", sample.to_vec(), "worldcup-csv", 2, 508),
        ("d", [record(894_038_400, 7), record(894_038_401, 9)].concat(), "worldcup", 2, 9),
    ] {
        let found = json(&["info", "--json", &folder.file(name, content)]);
        assert_eq!((&found["format"], &found["requests"]), (&format.into(), &requests.into()));
        assert_eq!(found["sizes"]["max_bytes"], max);
    }
}

#[test]
fn info_for_a_person() {
    let folder = Folder::new("person");
    let said = done(&["info", &folder.file("a.csv", format!("{CSV}oops\n"))]);
    for row in [
        "requests          3\n",
        "first             1998-05-01T16:00:00Z\n",
        "max size          4,000 B\n",
        "statuses          200: 2, 304: 1\n",
        "line 5: there are not two columns",
    ] {
        assert!(said.contains(row), "{row} is not in\n{said}");
    }
}

#[test]
fn convert_loses_nothing() {
    let folder = Folder::new("convert");
    for (name, content) in [("whole.csv", CSV), ("fraction.csv", "epoch_s,size_bytes\n0.0,1\n0.000000001,2\n7.25,3\n")]
    {
        let source = folder.file(name, content);
        let (packed, back) = (folder.path("packed.csv.gz"), folder.path("back.csv"));
        done(&["convert", &source, "--out", &packed]);
        done(&["convert", &packed, "--out", &back]);
        assert_eq!(fs::read(&packed).unwrap()[..2], [0x1f, 0x8b]);
        assert_eq!(fs::read_to_string(&back).unwrap(), content);
    }
    assert_eq!(folder.names(), ["back.csv", "fraction.csv", "packed.csv.gz", "whole.csv"]);
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
    let (source, out) = (folder.file("a.csv", lines.concat()), folder.path("b.csv"));
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
    let (made, kept, carried) = (folder.path("made.csv"), folder.path("kept.csv"), folder.path("carried.csv"));
    done(&["make", "--out", &made]);
    done(&["convert", shipped.to_str().unwrap(), "--out", &kept]);
    done(&["convert", "synthetic", "--out", &carried]);
    let made = fs::read(made).unwrap();
    assert!(made == fs::read(kept).unwrap(), "traces/synthetic.csv.gz is not what `weirlab trace make` makes");
    assert!(made == fs::read(carried).unwrap(), "the trace in the program is not the one in traces/");
    assert!(fs::metadata(shipped).unwrap().len() < 300_000);
}

#[test]
fn make_takes_a_seed_and_a_number() {
    let folder = Folder::new("seed");
    let (one, two) = (folder.path("1.csv"), folder.path("2.csv"));
    done(&["make", "--seed", "1", "--jobs", "50", "--out", &one]);
    done(&["make", "--seed", "2", "--jobs", "50", "--out", &two]);
    assert_eq!(fs::read_to_string(&one).unwrap().lines().count(), 51);
    assert_ne!(fs::read(one).unwrap(), fs::read(two).unwrap());
}

#[test]
fn bad_lines_are_told_and_strict_stops() {
    let folder = Folder::new("bad");
    let (source, out) = (folder.file("a.csv", "1,5\nx,6\n2,7\n"), folder.path("b.csv"));
    let output = trace(&["convert", &source, "--out", &out]);
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("1 bad line, first line 2: the time is not"), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(&out).unwrap(), "epoch_s,size_bytes\n1,5\n2,7\n");
    let said = fails(1, &["info", "--strict", &source]);
    assert!(said.contains(&format!("{source}:2: the time is not decimal seconds")), "{said}");
}

#[test]
fn what_cannot_be_read_is_said_in_a_line() {
    let folder = Folder::new("unreadable");
    let made = folder.path("a.csv.gz");
    done(&["make", "--jobs", "5000", "--out", &made]);
    let whole = fs::read(&made).unwrap();
    for (source, why) in [
        (folder.path("none"), "No such file"),
        (folder.path("."), "directory"),
        (folder.file("empty", ""), "the file is empty"),
        (folder.file("page", "<html>\n"), "not a request log"),
        (folder.file("header", "epoch_s,size_bytes\n"), "no requests in it"),
        (folder.file("half.gz", &whole[..whole.len() / 2]), "truncated"),
    ] {
        let said = fails(1, &["info", &source]);
        assert!(said.starts_with("weirlab: ") && said.contains(&source) && said.contains(why), "{said}");
    }
    let forced = fails(1, &["info", "--format", "log", &folder.file("b.csv", CSV)]);
    assert!(forced.contains("no requests in it: 4 bad lines, first line 1: there is no time like"), "{forced}");
}

#[test]
fn nonsense_is_a_usage_error() {
    let folder = Folder::new("usage");
    let (source, out) = (folder.file("a.csv", CSV), folder.path("b.csv"));
    for (args, why) in [
        (vec!["info", &source, "--format", "apache"], "worldcup-csv"),
        (vec!["cut", &source, "--out", &out, "--from", "4pm"], "16:00"),
        (vec!["cut", &source, "--out", &out, "--from", "17:00", "--to", "16:00"], "is not before"),
        (vec!["cut", &source, "--out", &out, "--min", "2KB", "--max", "1KB"], "--min is above --max"),
        (vec!["cut", &source, "--out", &out, "--min", "1kib"], "64KiB"),
        (vec!["make", "--out", &out, "--jobs", "1"], "has a span"),
        (vec!["convert", &source], "--out"),
    ] {
        let said = fails(2, &args);
        assert!(said.contains(why), "{args:?}: {said}");
    }
    assert_eq!(folder.names(), ["a.csv"]);
}

#[test]
fn a_failure_leaves_the_old_file_and_nothing_else() {
    let folder = Folder::new("old");
    let (source, out) = (folder.file("a.csv", CSV), folder.file("b.csv", "old"));
    assert!(fails(1, &["cut", &source, "--status", "404", "--out", &out]).contains("none of its 3 requests"));
    assert!(fails(1, &["convert", &source, "--out", "/dev/full"]).contains("/dev/full: No space left"));
    fails(1, &["convert", &source, "--out", &folder.path("none/c.csv")]);
    fails(1, &["convert", &source, "--out", &folder.path(".")]);
    assert_eq!(
        (fs::read_to_string(&out).unwrap().as_str(), folder.names()),
        ("old", vec!["a.csv".into(), "b.csv".into()])
    );
}

/// The figures of real logs, if this machine has them; they may not be shipped.
#[test]
fn real_logs_have_their_known_figures() {
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    if !logs.is_dir() {
        println!("SKIPPED: the real logs are not beside the repository");
        return;
    }
    let path = |name: &str| logs.join(name).to_str().unwrap().to_string();
    let sample = path("worldcup98/wc_day6_1_sample.csv.gz");
    let found = json(&["info", "--json", &sample]);
    assert_eq!((&found["requests"], &found["bad_lines"]["count"]), (&199_997.into(), &3.into()));
    assert_eq!(found["sizes"]["mean_bytes"].as_f64().unwrap().round(), 8604.0);
    let found = json(&["info", "--json", &path("worldcup98/test_log.gz")]);
    assert_eq!((&found["requests"], &found["statuses"]["200"]), (&1000.into(), &844.into()));
    let nasa = path("nasa/access_09jul1995.log.gz");
    assert_eq!(json(&["info", "--json", &nasa])["requests"], 35_272);

    // The hour and the day of the experiments, and the number of jobs that they give in a minute.
    let folder = Folder::new("real");
    let hour = folder.path("hour.csv.gz");
    done(&[
        "cut", &sample, "--from", "16:00", "--to", "17:00", "--status", "200", "--min", "1", "--max", "2020644",
        "--out", &hour,
    ]);
    assert_eq!(json(&["info", "--json", &hour])["requests"], 11_757);
    for (path, expected) in [(hour, 8790.0), (nasa, 2630.0)] {
        let jobs = minute_at(Path::new(&path), 0.8);
        assert!((jobs as f64 / expected - 1.0).abs() < 0.01, "{path}: {jobs} jobs, about {expected} expected");
    }
}

/// The number of jobs in a minute of 10 Mbit/s at this load.
fn minute_at(path: &Path, rho: f64) -> usize {
    let file = std::io::BufReader::new(fs::File::open(path).unwrap());
    let log = workload::read(file, &ReadOptions::default()).unwrap();
    let scaling = Scaling {
        load: LoadProfile::constant(rho).unwrap(),
        link: "10mbit".parse().unwrap(),
        seconds: Some(60.0),
        per_connection: 1,
        repeat: None,
    };
    let schedule = workload::schedule(&log.cut(&Filter::for_schedules()).trace(1), &scaling).unwrap();
    println!("{}: {} jobs, rho {:.3}", path.display(), schedule.jobs.len(), schedule.rho_measured);
    schedule.jobs.len()
}

/// The log would be lost, under whatever name it is read.
#[test]
fn the_file_that_is_read_is_not_written_over() {
    let folder = Folder::new("same");
    let log = folder.file("log.csv", "epoch_s,size_bytes,status\n1,5,200\n2,6,304\n");
    let link = folder.path("link.csv");
    std::os::unix::fs::symlink(&log, &link).unwrap();
    for (command, out) in [("convert", &log), ("cut", &log), ("convert", &link)] {
        let said = fails(2, &[command, &log, "--out", out]);
        assert!(said.contains("it is the file that is read: write another name"), "{said}");
    }
    assert!(fs::read_to_string(&log).unwrap().ends_with("2,6,304\n"));
}
