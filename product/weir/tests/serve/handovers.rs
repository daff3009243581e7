//! `weir upgrade` when one of the two processes ends or stops in the middle: one of them serves, and the messages about
//! it are correct.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Output, Stdio};

use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Server, Site, WEIR, content, run_to_end, wait_until, weir_under};
use crate::upgrades::{file, free_port};

const SMALL: usize = 1 << 10;

/// The next process, started as by `weir upgrade`. Its standard output is full, so that it stops after it has taken the
/// sockets and started, and before it reports that it is ready.
struct Next {
    child: Child,
    stdout: Option<OwnedFd>,
}

impl Next {
    fn begin(old: &Server, file: &std::path::Path) -> Next {
        let (read, write) = std::io::pipe().unwrap();
        ioctl_fionbio(&write, true).unwrap();
        while (&write).write(&[b'-'; 4096]).is_ok() {}
        ioctl_fionbio(&write, false).unwrap();
        let mut command = weir_under(&[]);
        command.arg("run").arg(file).env("WEIR_PREDECESSOR", old.pid().to_string());
        command.stdin(Stdio::null()).stdout(write).stderr(Stdio::piped());
        Next { child: command.spawn().unwrap(), stdout: Some(read.into()) }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has the sockets and its event loops run.
    fn wait_started(&self) {
        let name = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        wait_until("an event loop of the next process", || {
            let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap().flatten();
            threads.map(name).any(|name| name.starts_with("weir-worker-"))
        });
    }

    /// Lets it continue.
    fn read_on(&mut self) {
        let mut stdout = std::fs::File::from(self.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut all = Vec::new();
            let _ = stdout.read_to_end(&mut all);
        });
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid() as i32).unwrap(), signal).unwrap();
    }

    /// The lines on standard error until it reports that it serves.
    fn said_until_it_serves(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for line in std::io::BufRead::lines(std::io::BufReader::new(self.child.stderr.as_mut().unwrap())) {
            lines.push(line.unwrap());
            if lines.last().is_some_and(|line| line == "weir: it serves") {
                return lines;
            }
        }
        panic!("it does not serve: {lines:?}");
    }

    /// The lines on standard error, and the exit status.
    fn end(&mut self) -> (String, Option<i32>) {
        let mut said = String::new();
        self.child.stderr.as_mut().unwrap().read_to_string(&mut said).unwrap();
        (said, self.child.wait().unwrap().code())
    }
}

impl Drop for Next {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn upgrade(old: u32) -> (bool, String) {
    let Output { status, stdout, stderr } = run_to_end(&["upgrade", "--pid", &old.to_string()]);
    (status.success(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

/// Ends the process that serves now, whose number `weir upgrade` printed.
fn end_serving(said: &str) {
    let pid = said.lines().find_map(|line| line.strip_prefix("weir: process ")?.split(' ').next()?.parse().ok());
    kill_process(Pid::from_raw(pid.unwrap_or_else(|| panic!("{said}"))).unwrap(), Signal::KILL).unwrap();
}

/// At each step the serving process is killed: before it knows of the next one, after it has passed on its sockets, and
/// after the next one has reported that it is ready.
#[test]
fn the_next_process_serves_where_the_one_before_is_killed() {
    for step in ["before it hears", "after it has given its sockets", "after the next one is ready"] {
        let site = Site::of_sizes(&[SMALL]);
        let file = file(&site, free_port(), "[server]\nworkers = 2\n[uplink]\nshaping = 'off'");
        let old = Server::run(&file);
        assert_eq!(old.connect().get("/size-1024").body, content(SMALL));
        if step == "before it hears" {
            old.freeze();
        }
        let mut next = Next::begin(&old, &file);
        match step {
            // Its message waits in the socket.
            "before it hears" => wait_until("the question", || has_connection_to(old.pid())),
            "after it has given its sockets" => next.wait_started(),
            _ => {
                next.wait_started();
                old.freeze();
                next.read_on();
            }
        }
        old.signal(Signal::KILL);
        old.exit_status();
        if next.stdout.is_some() {
            next.read_on();
        }
        let said = next.said_until_it_serves();
        assert!(
            said.iter().any(|line| line.contains("has ended before it left its place; this one serves")),
            "{step}: {said:?}"
        );
        assert_eq!(old.connect().get("/size-1024").body, content(SMALL), "{step}");
        // It can be replaced in its turn.
        let (is_followed, words) = upgrade(next.pid());
        assert!(is_followed, "{step}: {words}");
        assert_eq!(old.connect().get("/size-1024").body, content(SMALL), "{step}");
        end_serving(&words);
    }
}

/// Returns whether a client is connected to the socket named after this process; it may not be accepted yet.
fn has_connection_to(pid: u32) -> bool {
    let name = format!("@weir-upgrade-{pid}");
    let listed = std::fs::read_to_string("/proc/self/net/unix").unwrap();
    // The listener is among them.
    listed.lines().filter(|line| line.ends_with(&name)).count() > 1
}

/// The normal procedure, with a kill at any time.
#[test]
fn kill_during_an_upgrade_leaves_somebody_who_serves() {
    for wait_ms in [0, 5, 10, 20, 40, 80] {
        let site = Site::of_sizes(&[SMALL]);
        let old = Server::run(&file(&site, free_port(), ""));
        let mut asked = weir_under(&[]);
        asked.args(["upgrade", "--pid", &old.pid().to_string()]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let asked = asked.spawn().unwrap();
        wait_until("the next process", || {
            let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", asked.id()));
            !children.unwrap_or_default().trim().is_empty()
        });
        std::thread::sleep(std::time::Duration::from_millis(wait_ms));
        old.signal(Signal::KILL);
        old.exit_status();
        let Output { status, stdout, stderr } = asked.wait_with_output().unwrap();
        let said = String::from_utf8([stdout, stderr].concat()).unwrap();
        // A process that ended after its last message was not missed.
        let sentence = format!("serves in place of {}, which ", old.pid());
        assert!(status.success() && said.contains(&sentence), "{said}");
        assert_eq!(old.connect().get("/size-1024").body, content(SMALL), "after {wait_ms} ms: {said}");
        end_serving(&said);
    }
}

/// It has the sockets, and is not ready. The previous process serves, answers, and is replaced by another as soon as
/// this one has ended.
#[test]
fn a_next_process_that_stops_holds_nothing_up() {
    let site = Site::of_sizes(&[SMALL]);
    let file = file(&site, free_port(), "");
    let old = Server::run(&file);
    let mut next = Next::begin(&old, &file);
    next.wait_started();
    next.signal(Signal::STOP);
    let (is_followed, said) = upgrade(old.pid());
    let busy = format!("process {} is taking over from it already, and has 60 s for that", next.pid());
    assert!(
        !is_followed && said.contains(&busy) && said.contains(&format!("server {} serves on", old.pid())),
        "{said}"
    );
    assert_eq!(run_to_end(&["status", "--pid", &old.pid().to_string()]).status.code(), Some(0));
    next.signal(Signal::KILL);
    next.end();
    let line = format!("process {} has ended before it took over; this one serves on", next.pid());
    wait_until("a line about it", || old.stderr().iter().any(|said| said.contains(&line)));
    assert_eq!(old.connect().get("/size-1024").body, content(SMALL));
    let (is_followed, said) = upgrade(old.pid());
    assert!(is_followed, "{said}");
    assert_eq!(old.connect().get("/size-1024").body, content(SMALL));
    end_serving(&said);
}

/// It is stopped before it requests the sockets, and continues when another has them.
#[test]
fn a_next_process_that_comes_too_late_ends() {
    let site = Site::of_sizes(&[SMALL]);
    let file = file(&site, free_port(), "");
    let old = Server::run(&file);
    let mut late = Command::new("sh");
    late.args(["-c", "kill -STOP $$; exec \"$0\" run \"$1\"", WEIR]).arg(&file);
    late.env("WEIR_PREDECESSOR", old.pid().to_string()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut late = Next { child: late.spawn().unwrap(), stdout: None };
    let (is_followed, said) = upgrade(old.pid());
    assert!(is_followed, "{said}");
    assert_eq!(old.exit_status().code(), Some(0));
    wait_until("its stop", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", late.pid())).unwrap();
        stat.rsplit(')').next().unwrap().starts_with(" T")
    });
    late.signal(Signal::CONT);
    let (refused, status) = late.end();
    assert!(status == Some(1) && refused.contains("another program uses it"), "{refused}");
    assert_eq!(old.connect().get("/size-1024").body, content(SMALL));
    end_serving(&said);
}

/// The old process does not answer the one that is ready, which then ends; it continues to serve when it resumes.
#[test]
fn a_process_that_stops_keeps_its_place() {
    let site = Site::of_sizes(&[SMALL]);
    let file = file(&site, free_port(), "");
    let old = Server::run(&file);
    let mut next = Next::begin(&old, &file);
    next.wait_started();
    old.freeze();
    next.read_on();
    let (said, status) = next.end();
    assert!(status == Some(1) && said.contains("it has not left its place within 10 s, and keeps its place"), "{said}");
    let (is_followed, said) = upgrade(old.pid());
    assert!(
        !is_followed && said.contains("does not answer: it is stopped, or busy for 10 s; it was left as it is"),
        "{said}"
    );
    old.signal(Signal::CONT);
    assert_eq!(old.connect().get("/size-1024").body, content(SMALL));
    let line = format!("process {} has ended before it took over; this one serves on", next.pid());
    wait_until("a line about it", || old.stderr().iter().any(|said| said.contains(&line)));
    let (is_followed, said) = upgrade(old.pid());
    assert!(is_followed, "{said}");
    end_serving(&said);
}
