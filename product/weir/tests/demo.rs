//! `weir demo` as a visitor runs it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(120);
const HINT: &str = "A third lane shows nginx if it is on PATH: ";

/// A folder for the files of demos. Nothing may be left in it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("weir-demo-test-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        Folder(folder)
    }

    fn demo(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("demo").args(words).env("TMPDIR", &self.0);
        command
    }

    fn is_empty(&self) -> bool {
        std::fs::read_dir(&self.0).unwrap().next().is_none()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running demo, killed when dropped.
struct Demo {
    child: Child,
    /// Its address, as it printed it.
    address: String,
}

impl Demo {
    fn begun(folder: &Folder) -> Demo {
        let mut command = folder.demo(&["--listen", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        let address = said.strip_prefix("Open http://").and_then(|rest| rest.split_once('/'));
        let address = address.unwrap_or_else(|| panic!("{said}")).0.into();
        Demo { child, address }
    }

    fn end(&mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn texts(output: Output) -> [String; 2] {
    [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap())
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    String::from_utf8_lossy(&response).into_owned()
}

/// The addresses of the lanes of a page by their names.
fn lanes(page: &str) -> Vec<(String, String)> {
    let settings = page.split_once("const S=").unwrap().1;
    let settings = serde_json::Deserializer::from_str(settings).into_iter::<serde_json::Value>().next();
    let settings = settings.unwrap().unwrap();
    let text = |lane: &serde_json::Value, key: &str| lane[key].as_str().unwrap().to_string();
    let lane = |lane| (text(lane, "name"), text(lane, "at").trim_start_matches("http://").to_string());
    settings["lanes"].as_array().unwrap().iter().map(lane).collect()
}

fn is_nginx_installed() -> bool {
    let is_found = Command::new("nginx").arg("-v").output().is_ok();
    if !is_found {
        println!("SKIPPED: the lane of nginx: it is not installed (scripts/setup.sh test)");
    }
    is_found
}

/// A process that only waits for its parent has ended too.
fn has_ended(pid: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
}

/// The nginx of a demo, by the file that it writes.
fn nginx_of(folder: &Folder, demo: &Demo) -> u32 {
    let file = folder.0.join(format!("weir-demo-{}/nginx.pid", demo.child.id()));
    let pid: u32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
    assert!(!has_ended(pid));
    pid
}

/// The sentence depends on the machine.
fn check_sentence(output: Output, begin: &str) -> String {
    let status = output.status.code();
    let [out, err] = texts(output);
    match status {
        Some(0) => {
            assert!(out.starts_with("During 2 downloads a page took ") && out.lines().count() == 1, "{out}{err}");
            assert!(out.contains(begin), "{out}{err}");
        }
        _ => assert!(status == Some(1) && out.is_empty() && err.contains("weir: no result: "), "{out}{err}"),
    }
    err
}

const QUICK: [&str; 5] = ["--text", "--time", "1s", "--rate", "20mbit"];

#[test]
fn it_ends_with_a_sentence_and_leaves_nothing_behind() {
    let folder = Folder::new("sentence");
    let err = check_sentence(folder.demo(&QUICK).env("PATH", "").output().unwrap(), " s in turn and ");
    assert!(err.starts_with(HINT), "{err}");
    for wrong in [["--time", "0s"], ["--rate", "10gbit"]] {
        let output = folder.demo(&[&["--text"][..], &wrong].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }

    let used = TcpListener::bind("127.0.0.1:0").unwrap();
    let output = folder.demo(&["--listen", &used.local_addr().unwrap().to_string()]).output().unwrap();
    let status = output.status.code();
    let [_, err] = texts(output);
    assert!(status == Some(1) && err.contains("another program uses it"), "{err}");
    assert!(folder.is_empty());
}

#[test]
fn nginx_has_a_lane_with_the_same_files() {
    if !is_nginx_installed() {
        return;
    }
    let folder = Folder::new("lane");
    let err = check_sentence(folder.demo(&QUICK).output().unwrap(), " s with nginx, ");
    assert!(!err.contains(HINT) && folder.is_empty(), "{err}");

    let demo = Demo::begun(&folder);
    let page = get(&demo.address, "");
    let lanes = lanes(&page);
    let names: Vec<&str> = lanes.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["nginx", "All in turn", "Weir"]);
    assert!(!page.contains(HINT));
    for (name, address) in &lanes {
        let response = get(address, "object-19");
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let head = head.to_ascii_lowercase();
        assert_eq!((body.len(), head.contains("\r\nserver: nginx")), (24_000, name == "nginx"), "{name}: {head}");
        assert!(head.contains("\r\naccess-control-allow-origin: *"), "{name}: {head}");
    }
}

#[test]
fn nginx_ends_with_the_demo() {
    if !is_nginx_installed() {
        return;
    }
    let folder = Folder::new("end");
    for signal in [Signal::TERM, Signal::INT] {
        let mut demo = Demo::begun(&folder);
        let nginx = nginx_of(&folder, &demo);
        assert_eq!(demo.end(signal), Some(0));
        assert!(has_ended(nginx) && folder.is_empty(), "{signal:?}");
    }
    // Nothing of a demo runs after SIGKILL; the kernel ends its child.
    let mut demo = Demo::begun(&folder);
    let nginx = nginx_of(&folder, &demo);
    assert_eq!(demo.end(Signal::KILL), None);
    let since = Instant::now();
    while !has_ended(nginx) {
        assert!(since.elapsed() < PATIENCE, "nginx outlives the demo");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_signal_during_the_measurement_leaves_nothing_behind() {
    let folder = Folder::new("text");
    let mut command = folder.demo(&["--text", "--time", "10min"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let own = folder.0.join(format!("weir-demo-{}/www/object-19", child.id()));
    let since = Instant::now();
    while !own.exists() && child.try_wait().unwrap().is_none() {
        assert!(since.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let status = output.status.code();
    let [out, err] = texts(output);
    assert!(status == Some(1) && out.is_empty() && err.contains("weir: no result: a signal"), "{out}{err}");
    assert!(folder.is_empty());
}

/// A demo with an nginx that cannot serve shows what it can, and says why.
#[test]
fn an_nginx_that_fails_costs_only_its_lane() {
    let folder = Folder::new("failing");
    let programs = Folder::new("programs");
    let program = programs.0.join("nginx");
    let set_mode = |mode| std::fs::set_permissions(&program, PermissionsExt::from_mode(mode)).unwrap();
    let said = |reason: &str| {
        let output = folder.demo(&QUICK).env("PATH", &programs.0).output().unwrap();
        let err = check_sentence(output, " s in turn and ");
        let expected = format!("No lane of nginx: {}: {reason}", program.display());
        assert!(err.starts_with(&expected), "{err}");
    };
    std::fs::write(&program, "#!/bin/sh\necho 'nginx: [emerg] unknown directive \"gzip\"' >&2\nexit 1\n").unwrap();
    set_mode(0o755);
    said("nginx: [emerg] unknown directive \"gzip\"\n");
    set_mode(0o644);
    said("Permission denied");
    assert!(folder.is_empty());
}
