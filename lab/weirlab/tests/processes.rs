//! `weirlab processes` as a program: sleeping processes are stopped, and however the scheduler ends, none stays
//! stopped.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use procfs::process::Process;
use rustix::process::{Pid, Signal, geteuid, kill_process};

/// A child process, ended and reaped with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A master with processes that look like servers to a scheduler.
struct Server {
    _master: Ended,
    master: u32,
    workers: Vec<u32>,
    pipe: PathBuf,
}

impl Server {
    fn start(name: &str) -> Server {
        let pipe = std::env::temp_dir().join(format!("weirlab-processes-test-{}-{name}", std::process::id()));
        let script = "for i in 1 2 3; do sleep 600 & echo $!; done; echo; wait";
        let mut master = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(master.stdout.take().unwrap()).lines().map(Result::unwrap);
        let workers = lines.take_while(|line| !line.is_empty()).map(|line| line.parse().unwrap()).collect();
        Server { master: master.id(), _master: Ended(master), workers, pipe }
    }

    fn state(&self, worker: usize) -> char {
        Process::new(self.workers[worker].cast_signed()).unwrap().stat().unwrap().state
    }

    fn wait_for(&self, worker: usize, state: char) {
        while self.state(worker) != state {
            std::thread::yield_now();
        }
    }

    fn line(&self, text: &str) {
        std::fs::File::options().append(true).open(&self.pipe).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn schedule(&self) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weirlab"));
        command.args(["processes", "schedule", "--by", "nice", "--class", "A:/a/:5", "--class", "B:/:1:1"]);
        command.args(["--apache", &self.master.to_string(), "--log"]).arg(&self.pipe);
        let scheduler = Ended(command.stdout(Stdio::piped()).spawn().unwrap());
        while !self.pipe.exists() {
            std::thread::yield_now();
        }
        scheduler
    }

    /// Adds two requests of B, the second of which sleeps.
    fn two_of_b(&self) {
        for worker in &self.workers[..2] {
            self.line(&format!("+{worker}:1:0|GET /x HTTP/1.1|Host:a\n"));
        }
        self.wait_for(1, 'T');
        assert_eq!(self.state(0), 'S');
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for worker in &self.workers {
            let _ = kill_process(Pid::from_raw(worker.cast_signed()).unwrap(), Signal::KILL);
        }
        let _ = std::fs::remove_file(&self.pipe);
    }
}

fn is_root(test: &str) -> bool {
    let is = geteuid().is_root();
    if !is {
        assert!(std::env::var_os("WEIR_REQUIRE_PRIVILEGED").is_none(), "{test} needs root");
        println!("SKIPPED {test}: giving a priority back needs root");
    }
    is
}

#[test]
fn a_slot_that_is_free_again_wakes_the_oldest() {
    if !is_root("a_slot_that_is_free_again_wakes_the_oldest") {
        return;
    }
    let server = Server::start("slots");
    let mut scheduler = server.schedule();
    server.two_of_b();
    server.line(&format!("+{}:1:0|GET /a/x HTTP/1.1|Host:a\n", server.workers[2]));
    server.line(&format!("-{}:1:0\n", server.workers[0]));
    server.wait_for(1, 'S');
    // A process that does not belong to it is not touched: otherwise this one would stop.
    server.line(&format!("+{}:1:0|GET /x HTTP/1.1|Host:a\n", std::process::id()));
    server.line(&format!("+{}:1:1|GET /x HTTP/1.1|Host:a\n", server.workers[0]));
    server.wait_for(0, 'T');
    kill_process(Pid::from_child(&scheduler.0), Signal::TERM).unwrap();
    assert!(scheduler.0.wait().unwrap().success());
    let mut said = String::new();
    scheduler.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.starts_with("5 requests, 0 escaped, 0 overslept; "), "{said}");
    server.wait_for(0, 'S');
    assert_eq!(server.state(1), 'S');
}

/// No thread of it runs any more, and another process resumes the sleeping ones.
#[test]
fn a_scheduler_that_is_killed_leaves_nobody_asleep() {
    if !is_root("a_scheduler_that_is_killed_leaves_nobody_asleep") {
        return;
    }
    let server = Server::start("killed");
    let mut scheduler = server.schedule();
    server.two_of_b();
    scheduler.0.kill().unwrap();
    server.wait_for(1, 'S');
    let nice = |worker: usize| Process::new(server.workers[worker].cast_signed()).unwrap().stat().unwrap().nice;
    while [0, 1].map(nice) != [0, 0] {
        std::thread::yield_now();
    }
}
