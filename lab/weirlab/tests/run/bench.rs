//! A folder for one test with an experiment in it, and helpers that inspect the system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::common::{Folder, text};

/// The maximum time of a step in these tests, beyond which it counts as hung.
const HUNG_AFTER: Duration = Duration::from_secs(60);

/// A folder for one test with an experiment in it.
pub(crate) struct Bench {
    pub(crate) folder: PathBuf,
    _removed: Folder,
}

impl Bench {
    pub(crate) fn new(name: &str, experiment: &str) -> Bench {
        let own = Folder::new(name);
        fs::write(own.file("small.toml"), experiment).unwrap();
        Bench { folder: own.path().into(), _removed: own }
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.folder.join("out")
    }

    pub(crate) fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder).args(["run", "small.toml", "--out", "out"]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(Path::new(env!("CARGO_BIN_EXE_weirlab")), args).output().unwrap()
    }
}

pub(crate) fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().unwrap();
    output.stdout == b"0\n"
}

/// Allows one test at a time to create namespaces and start nginx, because remains of one are removed by the next.
/// Prints the reason if tests cannot run.
pub(crate) fn may_test() -> Option<MutexGuard<'static, ()>> {
    static ALONE: Mutex<()> = Mutex::new(());
    let has =
        |name: &str| ["/usr/sbin", "/usr/bin", "/sbin"].iter().any(|folder| Path::new(folder).join(name).exists());
    let why = match ["ip", "tc", "ethtool", "nginx"].into_iter().find(|name| !has(name)) {
        Some(missing) => format!("needs {missing}"),
        None if !is_root() => "needs root: making namespaces".into(),
        None => return Some(ALONE.lock().unwrap_or_else(PoisonError::into_inner)),
    };
    assert!(std::env::var("WEIR_REQUIRE_PRIVILEGED").as_deref() != Ok("1"), "{why}");
    println!("SKIPPED: {why}");
    None
}

pub(crate) fn stderr(output: &Output) -> String {
    text(&output.stderr)
}

/// The namespaces created by the process `pid`.
pub(crate) fn namespaces_of(pid: u32) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/run/netns") else { return vec![] };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(&format!("weir-{pid}-"))).collect()
}

/// The command lines of the processes that work in `folder`: they name it, or were started there.
pub(crate) fn processes_in(folder: &Path) -> Vec<String> {
    let is_there = |of: &Path, line: &str| {
        // A process that has ended has no command line.
        let works_in = !line.is_empty() && fs::read_link(of.join("cwd")).is_ok_and(|at| at.starts_with(folder));
        works_in || line.contains(&*folder.to_string_lossy())
    };
    let entries = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let lines = entries.filter_map(|of| fs::read_to_string(of.join("cmdline")).ok().map(|line| (of, line)));
    lines.filter(|(of, line)| is_there(of, line)).map(|(_, line)| line).collect()
}

/// Returns whether the folder of served files still exists.
pub(crate) fn has_site(out: &Path) -> bool {
    fs::read_dir(out).unwrap().flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("www"))
}

pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < HUNG_AFTER, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn send(signal: &str, child: &Child) {
    let script = format!("kill -{signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
}
