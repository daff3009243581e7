//! What becomes of requests where the network or this machine fails, in namespaces of the test's own: nobody answers the
//! handshake, nobody acknowledges the request, there is no port left.
//!
//! No filter drops anything, since not every kernel has one. A frame to a hardware address that nobody has is lost without a
//! word, and so is one longer than its receiver takes.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use loadgen::{Outcome, Plan, run};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use units::Nanos;
use workload::{Job, Scheduled};

/// Who sends, who listens, and an address whose frames reach nobody.
const CLIENT: &str = "198.18.93.1";
const SERVER: &str = "198.18.93.2";
const NOBODY: &str = "198.18.93.9";
const PORT: u16 = 8080;

/// The longest packet the server takes, though it asks for segments of 1,460 bytes: a request of a length between the two
/// never arrives.
const SERVER_MTU_BYTES: u32 = 1000;
const REQUEST_BYTES: usize = 1200;

/// Longer than the kernel is told to try; a test that needs it has failed.
const PATIENT: Nanos = Nanos::from_secs(60);

/// Two namespaces with a cable between them, removed when dropped.
struct Network {
    client: String,
    server: String,
}

impl Network {
    /// `None`, and said, without the privilege.
    fn new() -> Option<Network> {
        if !rustix::process::geteuid().is_root() {
            let why = "needs root: making namespaces";
            assert!(std::env::var("WEIR_REQUIRE_PRIVILEGED").as_deref() != Ok("1"), "not skipped here: {why}");
            println!("SKIPPED: {why}");
            return None;
        }
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = |side| format!("weir-loadgen-{}-{number}-{side}", std::process::id());
        let network = Network { client: name("client"), server: name("server") };
        let Network { client, server } = &network;
        for words in [
            format!("netns add {client}"),
            format!("netns add {server}"),
            format!("-n {client} link add cable type veth peer name cable netns {server}"),
            format!("-n {client} addr add {CLIENT}/24 dev cable"),
            format!("-n {server} addr add {SERVER}/24 dev cable"),
            format!("-n {client} link set lo up"),
            format!("-n {client} link set cable up"),
            format!("-n {server} link set cable mtu {SERVER_MTU_BYTES} up"),
            format!("-n {server} route replace {CLIENT}/32 dev cable advmss 1460"),
            format!("-n {client} neigh add {NOBODY} lladdr 02:00:00:00:00:09 dev cable"),
        ] {
            let done = Command::new("ip").args(words.split(' ')).status().unwrap();
            assert!(done.success(), "ip {words}");
        }
        // One more SYN after a second, and one or two retransmissions: the kernel's own patience is minutes.
        inside(client, || {
            for name in ["tcp_syn_retries", "tcp_retries2"] {
                std::fs::write(format!("/proc/sys/net/ipv4/{name}"), "1").unwrap();
            }
        });
        Some(network)
    }

    /// What becomes of so many requests of a client to this address.
    fn ask(&self, address: &str, count: usize, grace: Nanos) -> Outcome {
        let target: SocketAddr = format!("{address}:{PORT}").parse().unwrap();
        let prefix = format!("/{}/", "a".repeat(REQUEST_BYTES));
        let plan = Plan { prefix, grace, ..Plan::new(target, address) };
        let jobs = vec![Job { arrival: Nanos::ZERO, size_bytes: 1, client: None }; count];
        inside(&self.client, || run(&plan, &mut Scheduled::new(&jobs), |_| ControlFlow::Continue(())).unwrap())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in [&self.client, &self.server] {
            let _ = Command::new("ip").args(["netns", "delete", name]).status();
        }
    }
}

/// In a thread of its own, which alone changes its namespace.
fn inside<T: Send>(namespace: &str, action: impl FnOnce() -> T + Send) -> T {
    let file = File::open(format!("/run/netns/{namespace}")).unwrap();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            action()
        });
        thread.join().unwrap()
    })
}

#[test]
fn what_nobody_answers_or_acknowledges_times_out() {
    let Some(network) = Network::new() else { return };
    let outcome = network.ask(NOBODY, 1, PATIENT);
    let [record] = &outcome.records[..] else { panic!("{:?}", outcome.records) };
    assert_eq!((record.outcome.name(), record.first_byte_ns, record.status), ("timed_out", None, 0));
    assert!(record.response_time() >= Nanos::from_secs(1), "the kernel asked twice: {record:?}");

    let listener = inside(&network.server, || TcpListener::bind((SERVER, PORT)).unwrap());
    let outcome = network.ask(SERVER, 1, PATIENT);
    // The handshake went through: the connection stood, and TCP gave it up.
    let (_accepted, peer) = listener.accept().unwrap();
    assert_eq!(peer.ip().to_string(), CLIENT);
    assert_eq!(outcome.records[0].outcome.name(), "timed_out", "{:?}", outcome.records);
}

/// The server answers nobody, so every connection stands: as many as there are ports, by the kernel's choice and ours, and the
/// others are our own fault and not late.
#[test]
fn connections_are_as_many_as_ports() {
    let Some(network) = Network::new() else { return };
    inside(&network.client, || std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40099").unwrap());
    let _listener = inside(&network.client, || TcpListener::bind(("127.0.0.1", PORT)).unwrap());
    let outcome = network.ask("127.0.0.1", 110, Nanos::from_millis(100));
    assert_eq!((outcome.connections_peak, outcome.turned_away), (100, 10));
    let ended = |name| outcome.records.iter().filter(|record| record.outcome.name() == name).count();
    assert_eq!((ended("incomplete"), ended("refused")), (100, 10));
}
