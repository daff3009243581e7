//! The limits of an experiment on a real link, as root: each has its intended effect.

mod common;

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use common::{build, experiment_of, fetch, may_test};
use testbed::{Endpoint, Experiment, Interrupt, Link, Program, Site, start_server};

const PORT: u16 = 8080;
const NGINX: &str = "server = \"nginx\"";
/// The wait for a connection that must fail: a quarter of the time until its SYN is retransmitted.
const GIVE_UP: Duration = Duration::from_millis(250);

/// A counter of the server's TCP.
fn counter(link: &Link, name: &str) -> u64 {
    let text = link.server().enter(|| std::fs::read_to_string("/proc/thread-self/net/netstat")).unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:")).map(|line| line.split(' '));
    let at = lines.next().unwrap().position(|word| word == name).unwrap();
    lines.next().unwrap().nth(at).unwrap().parse().unwrap()
}

#[test]
fn a_full_accept_queue_drops_syns_and_they_are_counted() {
    let Some(_alone) = may_test() else { return };
    let link = build(&experiment_of("[limits]\naccept_queue = 5\nsyn_cookies = false", NGINX)).unwrap();
    let address = SocketAddr::new(link.server_address(), PORT);
    // No program accepts.
    let _listener = link.server().enter(|| TcpListener::bind(address)).unwrap();
    let connect = || link.client().enter(|| TcpStream::connect_timeout(&address, GIVE_UP));
    let inside: Vec<TcpStream> = std::iter::from_fn(|| connect().ok()).take(100).collect();
    // One more than the length of the queue. A sixth may be late on a busy machine; for a seventh there is no room.
    assert!((1..=6).contains(&inside.len()), "{}", inside.len());
    let before = counter(&link, "ListenOverflows");
    (0..100).find(|_| connect().is_err() && counter(&link, "ListenOverflows") > before).unwrap();
    assert!(counter(&link, "ListenDrops") > 0);
    assert_eq!(link.describe().unwrap()["somaxconn"], "5");
}

/// The server of an experiment's first run with one file.
struct Served {
    server: Program,
    site: Site,
    folder: PathBuf,
    address: SocketAddr,
    path: String,
}

impl Served {
    fn start(experiment: &Experiment, link: &Link, name: &str, file_bytes: u64) -> Served {
        let folder = std::env::temp_dir().join(format!("weir-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let site = Site::create(&folder, &[file_bytes].into()).unwrap();
        let address = SocketAddr::new(link.server_address(), PORT);
        let endpoint = Endpoint { server: link.server(), client: link.client(), address };
        let spec = experiment.runs().next().unwrap();
        let command = testbed::server_command(experiment, spec, address, site.folder(), &folder, None).unwrap();
        let path = format!("/{file_bytes}.bin");
        let server = start_server(endpoint, spec, &command, &folder, &path, &Interrupt::default()).unwrap();
        Served { server, site, folder, address, path }
    }

    fn end(self) {
        drop((self.server, self.site));
        std::fs::remove_dir_all(self.folder).unwrap();
    }
}

#[test]
fn segments_and_windows_and_buffers_are_as_small_as_they_are_told() {
    const FILE_BYTES: u64 = 100_000;
    let Some(_alone) = may_test() else { return };
    let limits = "[limits]\nmss = 496\ninitial_window = 2\ntcp_wmem = \"4096 16384 65536\"\nsyn_queue = 512";
    let experiment = experiment_of(&format!("gso_max_segs = 1\n{limits}"), NGINX);
    let link = build(&experiment).unwrap();
    let served = Served::start(&experiment, &link, "limits", FILE_BYTES);
    let before = link.counters().unwrap();
    link.client().enter(|| fetch(served.address, &served.path)).unwrap();
    let sent = link.counters().unwrap().since(before);
    assert!(sent.sent_packets >= FILE_BYTES / 496, "{sent:?}");
    let said = link.describe().unwrap();
    assert!(said["server_routes"].contains("initcwnd 2") && said["server_routes"].contains("mtu lock 536"), "{said:?}");
    assert_eq!((said["tcp_wmem"].as_str(), said["tcp_max_syn_backlog"].as_str()), ("4096 16384 65536", "512"));
    served.end();
}

/// Two requests take seconds to answer. The third connection is accepted and closed, whereas Apache would let it wait.
#[test]
fn nginx_closes_what_is_beyond_its_slots() {
    const FILE_BYTES: u64 = 8_000_000;
    let Some(_alone) = may_test() else { return };
    let experiment = experiment_of("[limits]\nworkers = 2", NGINX);
    let link = build(&experiment).unwrap();
    let served = Served::start(&experiment, &link, "slots", FILE_BYTES);
    let ask = || {
        let mut stream = link.client().enter(|| TcpStream::connect(served.address)).unwrap();
        let _ = write!(stream, "GET {} HTTP/1.1\r\nHost: test\r\n\r\n", served.path);
        // An end or a reset; either may come.
        let is_answered = stream.read(&mut [0]).is_ok_and(|count| count == 1);
        (stream, is_answered)
    };
    let answered = [ask(), ask(), ask()].map(|(stream, is_answered)| (is_answered, stream));
    assert_eq!([0, 1, 2].map(|n: usize| answered[n].0), [true, true, false]);
    let log = std::fs::read_to_string(served.folder.join("server.log")).unwrap();
    assert!(log.contains(" worker_connections are not enough"), "{log}");
    drop(answered);
    served.end();
}

/// Tests the client's first SYN, sent to an address that does not answer.
#[test]
fn a_syn_is_sent_again_as_late_as_it_is_told() {
    let Some(_alone) = may_test() else { return };
    let timers = |limits: &str| {
        let link = build(&experiment_of(limits, NGINX)).unwrap();
        waiting_timer(&link).unwrap()
    };
    let (slow, usual) = (timers("[limits]\ninitial_rto = \"100s\""), timers(""));
    assert!(slow.contains("min") && !usual.contains("min"), "{slow} {usual}");
}

/// The timer that `ss` reports for a connection that waits for its first answer.
fn waiting_timer(link: &Link) -> io::Result<String> {
    let IpAddr::V4(server) = link.server_address() else { unreachable!("the link is of IPv4") };
    // The server's side forwards nothing, so nothing comes back.
    let route = ["route", "add", "198.18.99.0/24", "via", &server.to_string()].map(String::from);
    link.client().enter(|| Command::new("ip").args(route).status())?;
    let folder = std::env::temp_dir();
    let log = folder.join(format!("weir-limits-{}.log", std::process::id()));
    let command = ["bash", "-c", "exec 3<>/dev/tcp/198.18.99.1/9"].map(String::from);
    let _program = testbed::Program::start(link.client(), "bash", &command, &log).map_err(io::Error::other)?;
    loop {
        let said = link.client().enter(|| Command::new("ss").args(["-Htno", "state", "syn-sent"]).output())?;
        if let Some((_, timer)) = String::from_utf8_lossy(&said.stdout).split_once("timer:(on,") {
            std::fs::remove_file(&log)?;
            return Ok(timer.split(',').next().unwrap_or_default().to_owned());
        }
    }
}

#[test]
fn a_limit_that_this_kernel_cannot_have_is_said() {
    let Some(_alone) = may_test() else { return };
    match build(&experiment_of("[limits]\nrecovery = 0", NGINX)) {
        Ok(link) => assert_eq!(link.describe().unwrap()["tcp_recovery"], "0"),
        Err(error) => assert!(error.to_string().starts_with("limits: recovery: 0 has no effect on Linux "), "{error}"),
    }
}
