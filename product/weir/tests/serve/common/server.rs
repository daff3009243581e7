use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use super::{Client, Site, wait_until};

const WARNING: &str = "WARNING: ";

pub const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// The program, running; killed when dropped.
pub struct Server {
    child: Mutex<Child>,
    pid: u32,
    pub address: SocketAddr,
    stdout: Arc<Mutex<Vec<String>>>,
    stderr: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts a server, which is ready when this returns.
    pub fn start(site: &Site, args: &[&str]) -> Server {
        Server::start_at("127.0.0.1:0", site, args)
    }

    /// Starts a server that listens on this address.
    pub fn start_at(address: &str, site: &Site, args: &[&str]) -> Server {
        Server::start_under(&[], address, site, args)
    }

    /// Starts a server with another program, given with its arguments.
    pub fn start_under(under: &[&str], address: &str, site: &Site, args: &[&str]) -> Server {
        let mut command = weir_under(under);
        command.arg("serve").arg(site.served()).args(["--listen", address]).args(args);
        Server::spawn(command)
    }

    /// Starts a server with at most this many open files.
    pub fn start_with_descriptors(site: &Site, descriptors: u32, args: &[&str]) -> Server {
        let mut command = Command::new("sh");
        let script = format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"");
        command.args(["-c", &script, WEIR, "serve"]).arg(site.served()).args(["--listen", "127.0.0.1:0"]).args(args);
        command.env("STATE_DIRECTORY", state_folder());
        Server::spawn(command)
    }

    /// Starts a server from a file, which contains the address.
    pub fn run(file: &Path) -> Server {
        let mut command = weir_under(&[]);
        command.arg("run").arg(file);
        Server::spawn(command)
    }

    /// Starts a server with this command.
    pub fn spawn(mut command: Command) -> Server {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = gather(child.stdout.take().unwrap(), std::convert::identity);
        let stderr = gather(child.stderr.take().unwrap(), untimed);
        let mut address = None;
        wait_until("the line that says the server is ready", || {
            assert!(child.try_wait().unwrap().is_none(), "the server ended: {:?}", stderr.lock().unwrap());
            // On standard error if a log uses standard output.
            let lines = [stdout.lock().unwrap().clone(), stderr.lock().unwrap().clone()].concat();
            address = lines.iter().find(|line| line.starts_with(READY)).map(|line| address_in(line));
            address.is_some()
        });
        Server { pid: child.id(), child: Mutex::new(child), address: address.unwrap(), stdout, stderr }
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// The complete lines on standard output so far.
    pub fn stdout(&self) -> Vec<String> {
        self.stdout.lock().unwrap().clone()
    }

    /// The lines on standard error, except the one at the start and the warning about root, as whom many tests run
    /// ([`Server::warnings`]).
    pub fn stderr(&self) -> Vec<String> {
        let is_known = |line: &&String| line.contains(WARNING) || line.starts_with(READY);
        self.stderr.lock().unwrap().iter().filter(|line| !is_known(line)).cloned().collect()
    }

    pub fn warnings(&self) -> Vec<String> {
        self.stderr.lock().unwrap().iter().filter(|line| line.contains(WARNING)).cloned().collect()
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid as i32).unwrap(), signal).unwrap();
    }

    /// Stops all threads; [`Signal::CONT`] lets them continue.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        wait_until("all threads to stop", || {
            let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid)).unwrap().flatten();
            let stats = threads.map(|thread| std::fs::read_to_string(thread.path().join("stat")).unwrap());
            stats.into_iter().all(|stat| stat.rsplit(')').next().unwrap().starts_with(" T"))
        });
    }

    /// Waits for the end.
    pub fn exit_status(&self) -> ExitStatus {
        let mut status = None;
        wait_until("the end of the server", || {
            status = self.child.lock().unwrap().try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    pub fn has_ended(&self) -> bool {
        self.child.lock().unwrap().try_wait().unwrap().is_some()
    }

    pub fn assert_alive(&self) {
        let status = self.child.lock().unwrap().try_wait().unwrap();
        assert_eq!(status, None, "the server ended: {:?}", self.stderr());
        let panics: Vec<String> = self.stderr().into_iter().filter(|line| line.contains("panicked")).collect();
        assert!(panics.is_empty(), "{panics:?}");
    }

    /// Changes the maximum number of its open files; returns the earlier maximum.
    pub fn limit_descriptors(&self, descriptors: u64) -> u64 {
        let pid = Pid::from_raw(self.pid as i32);
        let maximum = getrlimit(Resource::Nofile).maximum;
        let before = prlimit(pid, Resource::Nofile, Rlimit { current: Some(descriptors), maximum }).unwrap();
        before.current.unwrap_or(u64::MAX)
    }

    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid)).unwrap().count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Runs the program with arguments that make it end by itself.
pub fn run_to_end(args: &[&str]) -> Output {
    run_to_end_under(&[], args)
}

/// Runs the program in the same way, started by another program.
pub fn run_to_end_under(under: &[&str], args: &[&str]) -> Output {
    weir_under(under).args(args).stdin(Stdio::null()).output().unwrap()
}

/// The command of the program, started by another program, which is given with its arguments.
pub fn weir_under(under: &[&str]) -> Command {
    let words = [under, &[WEIR]].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command.env("STATE_DIRECTORY", state_folder());
    command
}

/// Returns a separate state folder for each server, in which it saves its rate.
fn state_folder() -> String {
    static SERVERS: AtomicUsize = AtomicUsize::new(0);
    let number = SERVERS.fetch_add(1, Ordering::Relaxed);
    format!("{}/state-{}-{number}", env!("CARGO_TARGET_TMPDIR"), std::process::id())
}

const READY: &str = "weir: serving ";

/// Parses `weir: serving DIR at http://ADDR:PORT/ (...)`; the first address if there are several, or https.
fn address_in(line: &str) -> SocketAddr {
    let url = line.strip_prefix(READY).and_then(|rest| rest.split_once(" at http"));
    let address = url.and_then(|(_, rest)| rest.split_once("://")?.1.split_once('/')).map(|(address, _)| address);
    address
        .and_then(|address| address.parse().ok())
        .unwrap_or_else(|| panic!("not a line that says it is ready: {line}"))
}

/// Removes the time from a line of the error log.
fn untimed(line: String) -> String {
    let is_time = |time: &str| {
        let digits = time.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
        digits.eq(b"0000-00-00T00:00:00.000Z".iter().copied())
    };
    match line.split_once(' ') {
        Some((time, said)) if is_time(time) => said.to_string(),
        // The reason why a command failed, and lines that only tests write.
        _ => line,
    }
}

/// Reads lines as they arrive, so that the program never waits for the test.
fn gather(pipe: impl Read + Send + 'static, kept: fn(String) -> String) -> Arc<Mutex<Vec<String>>> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    std::thread::spawn({
        let lines = Arc::clone(&lines);
        move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                lines.lock().unwrap().push(kept(line));
            }
        }
    });
    lines
}
