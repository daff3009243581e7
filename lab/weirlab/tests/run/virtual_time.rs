//! `weirlab run --virtual`: figures that depend only on the seed, and impossible runs that end with one line and leave
//! nothing.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::bench::{Bench, is_root, processes_in, send, stderr, wait_until};

/// The kernel of machines; a message is printed if there is none.
fn kernel() -> Option<PathBuf> {
    let why = match testbed::find_kernel() {
        Ok(kernel) => return Some(kernel),
        Err(error) => error.to_string(),
    };
    assert!(std::env::var("WEIR_REQUIRE_PRIVILEGED").as_deref() != Ok("1"), "{why}");
    println!("SKIPPED: {why}");
    None
}

const THREE_RUNS: &str = r#"question = "is it the same twice"
link = "10mbit"
rho = 0.7
seconds = 3
congestion_control = "cubic"
[[run]]
name = "fifo"
server = "weir"
policy = "fair"
shaping = "off"
[[run]]
name = "bands"
server = "weir"
policy = "srpt"
shaping = "bands"
[[run]]
name = "paced"
server = "weir"
policy = "srpt"
shaping = "paced"
"#;

/// A run of a server that a test provides; see [`VirtualBench::serve_by`].
const ONE_RUN: &str = r#"question = "does it end"
link = "10mbit"
rho = 0.5
seconds = 1
[[run]]
name = "only"
server = "weir"
policy = "fair"
shaping = "off"
"#;

/// A bench whose machines have their folders within its own.
pub(crate) struct VirtualBench {
    pub(crate) bench: Bench,
    kernel: PathBuf,
    weirlab: PathBuf,
}

impl VirtualBench {
    pub(crate) fn new(name: &str, experiment: &str) -> Option<VirtualBench> {
        let kernel = kernel()?;
        let bench = Bench::new(&format!("virtual-{name}"), experiment);
        let machines = bench.folder.join("machines");
        fs::create_dir(&machines).unwrap();
        Some(VirtualBench { bench, kernel, weirlab: env!("CARGO_BIN_EXE_weirlab").into() })
    }

    fn machines(&self) -> PathBuf {
        self.bench.folder.join("machines")
    }

    /// Uses this script in place of `weir`.
    fn serve_by(&mut self, script: &str) {
        let programs = self.bench.folder.join("programs");
        fs::create_dir(&programs).unwrap();
        self.weirlab = programs.join("weirlab");
        fs::copy(env!("CARGO_BIN_EXE_weirlab"), &self.weirlab).unwrap();
        fs::write(programs.join("weir"), script).unwrap();
        fs::set_permissions(programs.join("weir"), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.bench.command(&self.weirlab, &[&["--virtual"], args].concat());
        command.env("TMPDIR", self.machines()).env("WEIR_VIRTUAL_KERNEL", &self.kernel);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Asserts that there is no folder of a machine, and no kernel with the folder in its arguments.
    pub(crate) fn assert_nothing_left(&self) {
        let folders: Vec<_> = fs::read_dir(self.machines()).unwrap().flatten().map(|entry| entry.path()).collect();
        assert_eq!((folders, processes_in(&self.machines())), (vec![], vec![]));
    }
}

/// Returns whether there is a `weir` next to the tested program.
pub(crate) fn has_weir() -> bool {
    if Path::new(env!("CARGO_BIN_EXE_weirlab")).with_file_name("weir").is_file() {
        return true;
    }
    let why = "there is no weir beside weirlab: build the workspace";
    assert!(std::env::var("WEIR_REQUIRE_PRIVILEGED").as_deref() != Ok("1"), "{why}");
    println!("SKIPPED: {why}");
    false
}

fn summary(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn runs_of(summary: &Value) -> BTreeMap<&str, &Value> {
    summary["runs"].as_array().unwrap().iter().map(|run| (run["name"].as_str().unwrap(), run)).collect()
}

/// In addition no job beats its wire, no run is void, and the manifest names the machine.
#[test]
fn the_same_seed_gives_the_same_means() {
    let Some(bench) = VirtualBench::new("same", THREE_RUNS) else { return };
    if !has_weir() {
        return;
    }
    let first = summary(&bench.run(&["--json", "--seed", "7"]));
    let again = {
        fs::rename(bench.bench.out(), bench.bench.folder.join("first")).unwrap();
        summary(&bench.run(&["--json", "--seed", "7"]))
    };
    let (first, again) = (runs_of(&first), runs_of(&again));
    assert_eq!(first.keys().collect::<Vec<_>>(), ["bands", "fifo", "paced"].iter().collect::<Vec<_>>());
    for (name, run) in &first {
        let mean = |run: &Value| run["response_time_ms"]["mean"].as_f64().unwrap();
        let (one, other) = (mean(run), mean(again[name]));
        assert!((one / other - 1.0).abs() <= 0.001, "{name}: {one} ms, then {other} ms");
        for run in [run, &again[name]] {
            assert_eq!((&run["void"], &run["incomplete"]), (&Value::Null, &0.into()), "{name}");
            assert_eq!((&run["beat_wire_time"], &run["clock"]), (&0.into(), &"virtual".into()), "{name}");
        }
        let said = record::Run::read(&bench.bench.out().join(name)).unwrap().manifest.environment;
        assert_eq!(said["clock"], "virtual");
        assert!(said["kernel_version"].starts_with("Linux version 7.") && said.contains_key("wire"), "{said:?}");
    }
    let mean = |name: &str| first[name]["response_time_ms"]["mean"].as_f64().unwrap();
    assert!(mean("paced") < mean("fifo"), "or nothing was ordered");
    bench.assert_nothing_left();
}

/// A FIFO that overflows drops different packets as soon as a hash, a port or a sequence number differs. Within the
/// first seconds the kernel mixes data read from the host into its random numbers, so the run is longer than that.
#[test]
fn the_same_seed_drops_the_same_packets() {
    let full = "question = \"\"\nlink = \"10mbit\"\nrho = 1.5\nseconds = 16\nfifo_packets = 100\n\
                [[run]]\nname = \"nginx\"\nserver = \"nginx\"\n[[run]]\nname = \"apache\"\nserver = \"apache\"\n";
    let Some(bench) = VirtualBench::new("drops", full) else { return };
    if testbed::find_random(&bench.kernel).is_none() {
        assert!(std::env::var("WEIR_REQUIRE_PRIVILEGED").as_deref() != Ok("1"), "no random.so beside the kernel");
        println!("SKIPPED: no random.so beside the kernel: run `scripts/setup.sh virtual`");
        return;
    }
    let records = || {
        let (out, done) = (bench.bench.out(), bench.run(&["--seed", "7"]));
        assert!(done.status.success(), "{}", stderr(&done));
        let found = ["nginx", "apache"].map(|name| {
            let said = record::Run::read(&out.join(name)).unwrap().manifest.environment;
            assert_ne!(said["dropped_packets"], "0", "{name}: nothing was dropped: change the load");
            assert_eq!(said["randomness"], "of the seed", "{name}");
            (said["given_up_by_kernel"].clone(), fs::read(out.join(name).join("records.parquet")).unwrap())
        });
        fs::remove_dir_all(out).unwrap();
        found
    };
    let ([nginx, apache], [nginx_again, apache_again]) = (records(), records());
    assert!(nginx == nginx_again, "nginx: other records with the same seed");
    assert!(apache == apache_again, "apache: other records with the same seed");
    bench.assert_nothing_left();
}

#[test]
fn without_a_kernel_it_says_where_to_get_one() {
    let bench = Bench::new("no-kernel", ONE_RUN);
    let nowhere = bench.folder.join("nowhere");
    let output = bench
        .command(Path::new(env!("CARGO_BIN_EXE_weirlab")), &["--virtual"])
        .env("WEIR_VIRTUAL_KERNEL", &nowhere)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let expected = format!(
        "weirlab: --virtual: no kernel for virtual time in WEIR_VIRTUAL_KERNEL: {} is missing; build it with \
         `scripts/setup.sh virtual`\n",
        nowhere.display()
    );
    assert_eq!(stderr(&output), expected);
    assert!(!bench.out().exists());
}

/// The last line of output of a failed run.
fn failure(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", stderr(output));
    let lines = stderr(output);
    let lines: Vec<&str> = lines.lines().filter(|line| line.starts_with("weirlab: ")).collect();
    assert_eq!(lines.len(), 1, "{}", stderr(output));
    lines[0].into()
}

/// Bodies have the requested size, however the application marks their ends; the largest exceeds what a proxy reads
/// ahead.
#[test]
fn servers_pass_requests_on() {
    let mut text = String::from("question = \"\"\nlink = \"10mbit\"\nrho = 0.5\nseconds = 5\n");
    for (server, upstream) in [("nginx", "chunked"), ("weir", "length"), ("weir", "chunked"), ("weir", "close")] {
        text += &format!("[[run]]\nname = \"{server}-{upstream}\"\nserver = \"{server}\"\nupstream = \"{upstream}\"\n");
    }
    let Some(bench) = VirtualBench::new("upstream", &text).filter(|_| has_weir()) else { return };
    let said = summary(&bench.run(&["--json"]));
    let runs = runs_of(&said);
    assert_eq!(runs.len(), 4, "{said}");
    for (name, done) in &runs {
        assert_eq!(done["completed"], said["jobs"], "{done}");
        let run = record::Run::read(&bench.bench.out().join(name)).unwrap();
        assert!(run.records.iter().any(|job| job.size_bytes > 100_000), "no large response: change the seed");
        assert!(name.ends_with(&run.manifest.environment["upstream"]), "{name}");
    }
    bench.assert_nothing_left();
}

#[test]
fn a_program_that_spins_is_ended_and_named() {
    let Some(mut bench) = VirtualBench::new("spins", ONE_RUN) else { return };
    bench.serve_by("#!/bin/bash\nwhile :; do :; done\n");
    let said = failure(&bench.command(&[]).env("WEIRLAB_STUCK_AFTER_S", "3").output().unwrap());
    assert!(said.starts_with("weirlab: run `only`: `weir` spins: the virtual clock stood still at "), "{said}");
    assert!(said.contains(" for 3 s of computing, so the machine was ended; "), "{said}");
    bench.assert_nothing_left();
}

#[test]
fn a_program_that_outgrows_the_memory_is_named() {
    let Some(mut bench) = VirtualBench::new("memory", ONE_RUN) else { return };
    // All of a line without an end is kept.
    bench.serve_by("#!/bin/bash\nexec tail /dev/zero\n");
    let said = failure(&bench.command(&[]).env("WEIRLAB_MACHINE_MIB", "256").output().unwrap());
    let expected = "weirlab: run `only`: the machine ran out of its 256 MiB of memory, and its kernel ended `tail`: ";
    assert!(said.starts_with(expected), "{said}");
    bench.assert_nothing_left();

    let said = failure(&bench.command(&[]).env("WEIRLAB_MACHINE_MIB", "lots").output().unwrap());
    assert_eq!(said, "weirlab: WEIRLAB_MACHINE_MIB is `lots`: a whole number of at least 128 is expected");
}

#[test]
fn interrupted_it_leaves_no_machine() {
    let Some(bench) = VirtualBench::new("interrupted", &ONE_RUN.replace("seconds = 1", "seconds = 200")) else {
        return;
    };
    for signal in ["INT", "TERM"] {
        let child = bench.command(&[]).spawn().unwrap();
        let console =
            || fs::read_dir(bench.machines()).unwrap().flatten().next().map(|entry| entry.path().join("beat"));
        wait_until("the machine's clock goes", || console().is_some_and(|beat| beat.exists()));
        // The kernel, and on this host a process for each program inside.
        let programs = groups_of_children(child.id());
        assert!(programs.len() >= 3, "{programs:?}");
        send(signal, &child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(failure(&output), "weirlab: interrupted");
        let is_there = |pid: &String| Path::new("/proc").join(pid).exists();
        wait_until("the machine's processes have ended", || !programs.iter().any(is_there));
        bench.assert_nothing_left();
    }
}

/// The processes in the process groups led by children of this process.
fn groups_of_children(pid: u32) -> Vec<String> {
    let stats: Vec<_> = fs::read_dir("/proc").unwrap().flatten().filter_map(stat_of).collect();
    let children: Vec<&str> = stats.iter().filter(|(_, ppid, _)| *ppid == pid.to_string()).map(|s| &*s.0).collect();
    stats.iter().filter(|(.., group)| children.contains(&&**group)).map(|(pid, ..)| pid.clone()).collect()
}

/// A process, its parent and its group.
fn stat_of(entry: fs::DirEntry) -> Option<(String, String, String)> {
    let text = fs::read_to_string(entry.path().join("stat")).ok()?;
    let mut words = text.rsplit_once(") ")?.1.split(' ').skip(1).map(String::from);
    Some((entry.file_name().into_string().ok()?, words.next()?, words.next()?))
}

/// No kernel has this many bands.
#[test]
fn what_a_machine_lacks_is_left_out_with_its_reason() {
    let wide = "name = \"wide\"\nserver = \"nginx\"\nqdisc = \"bands\"\nqdisc_flags = [\"--bands\", \"99\"]";
    let experiment = format!("{}[[run]]\n{wide}\n", crate::TWO_RUNS.replace("seconds = 2", "seconds = 1"));
    let Some(bench) = VirtualBench::new("lacks", &experiment) else { return };
    if !has_weir() {
        return;
    }
    let said = failure(&bench.run(&["--only", "wide"]));
    assert!(said.contains("run `wide`: ") && said.contains("qdisc `bands` cannot be had here: "), "{said}");

    let all = summary(&bench.run(&["--only", "first,wide", "--skip-missing", "--json"]));
    assert_eq!(runs_of(&all).into_keys().collect::<Vec<_>>(), ["first"]);
    let reason = record::LeftOut::read(&bench.bench.out()).unwrap().reasons["wide"].clone();
    assert!(reason.starts_with("qdisc `bands` cannot be had here: "), "{reason}");
    assert_eq!((&all["skipped"][0]["name"], &all["skipped"][0]["reason"]), (&"wide".into(), &reason.into()));
    bench.assert_nothing_left();
}

#[test]
fn it_needs_no_root() {
    let Some(mut bench) = VirtualBench::new("nobody", &crate::TWO_RUNS.replace("seconds = 2", "seconds = 1")) else {
        return;
    };
    let args = ["--only", "first", "--json"];
    let output = if is_root() {
        // The user nobody may not have access to the folders of the build and of the kernel.
        bench.serve_by("");
        let kernel = bench.bench.folder.join("kernel");
        fs::copy(&bench.kernel, &kernel).unwrap();
        for folder in [bench.bench.folder.clone(), bench.machines()] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&bench.weirlab);
        command.args(bench.command(&args).get_args()).current_dir(&bench.bench.folder);
        command.env("TMPDIR", bench.machines()).env("WEIR_VIRTUAL_KERNEL", kernel).output().unwrap()
    } else {
        bench.run(&args)
    };
    assert_eq!(runs_of(&summary(&output)).into_keys().collect::<Vec<_>>(), ["first"]);
    bench.assert_nothing_left();
}
