//! Common parts of the tests: a folder of files, the program that serves it, and a client that checks everything.

mod cable;
mod client;
mod hosted;
#[path = "../../../../server/src/logging/log_lines.rs"]
mod lines;
pub mod pebble;
mod server;
mod site;
mod slow_disk;
pub mod tls;
mod upstream;
#[path = "../../../../../lab/testbed/tests/common/virtual_time.rs"]
mod virtual_time;

use std::time::{Duration, Instant};

pub use cable::{Cable, SERVER, ip};
pub use client::{Client, Response, get};
pub use hosted::{Hosted, whole};
pub use lines::{LogLine, read_log};
pub use server::{Server, WEIR, run_to_end, run_to_end_under, weir_under};
pub use site::{Site, content};
pub use slow_disk::SlowDisk;
pub use upstream::{Asked, Upstream, answer, answer_last};
pub use virtual_time::in_virtual_time;

/// The time limit of all waits, longer than anything takes on a busy machine; reached only when a test fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The four ways in which bytes are written: directly into the socket, in the order of a turn, at the pace of the
/// uplink, and during the search for that pace.
pub const WRITE_PATHS: [&[&str]; 4] = [
    &["--shaping", "off", "--policy", "fair"],
    &["--shaping", "off", "--policy", "srpt"],
    &["--shaping", "paced", "--uplink", "100mbit"],
    &["--shaping", "paced", "--uplink", "auto"],
];

/// Runs a test once for every write path, on the same files.
pub fn on_every_path(site: &Site, args: &[&str], test: impl Fn(&Server)) {
    for path in WRITE_PATHS {
        let server = Server::start(site, &[path, args].concat());
        test(&server);
        server.assert_alive();
    }
}

/// Does [`on_every_path`] on all paths at the same time, for tests that wait.
pub fn on_every_path_at_once(site: &Site, args: &[&str], test: impl Fn(&Server) + Sync) {
    let test = &test;
    std::thread::scope(|scope| {
        for path in WRITE_PATHS {
            scope.spawn(move || {
                let server = Server::start(site, &[path, args].concat());
                test(&server);
                server.assert_alive();
            });
        }
    });
}

/// Waits until the condition is true.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
