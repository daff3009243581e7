//! Shared code of the tests with real links.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use testbed::{Experiment, LabError, Link};

/// Allows one test at a time, because tests count the namespaces of this process; `None` without the privilege.
pub fn may_test() -> Option<MutexGuard<'static, ()>> {
    static ALONE: Mutex<()> = Mutex::new(());
    if rustix::process::geteuid().is_root() {
        return Some(ALONE.lock().unwrap_or_else(PoisonError::into_inner));
    }
    assert!(std::env::var_os("WEIR_REQUIRE_PRIVILEGED").is_none_or(|v| v != "1"), "needs root: making namespaces");
    println!("SKIPPED: needs root: making namespaces");
    None
}

/// An experiment of one run with these keys, with `more` at its top. It has no wire: if the wire is a process of the
/// program under test, a library's test lacks it.
pub fn experiment_of(more: &str, run: &str) -> Experiment {
    let text = format!(
        "question = \"\"\nlink = \"10mbit\"\nrho = 0.8\nseconds = 1\nwire = false\n{more}\n[[run]]\nname = \"a\"\n{run}\n"
    );
    Experiment::parse(&text, Path::new("x.toml")).unwrap()
}

pub fn build(experiment: &Experiment) -> Result<Link, LabError> {
    Link::build(experiment, experiment.runs().next().unwrap(), None)
}

pub fn fetch(address: SocketAddr, path: &str) -> std::io::Result<u64> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")?;
    let mut answer = vec![];
    stream.read_to_end(&mut answer)?;
    Ok(answer.len() as u64)
}
