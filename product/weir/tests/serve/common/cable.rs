use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use uplink::congestion;

/// Two hosts, the server's and the clients', connected by a cable; both are removed when this is dropped.
pub struct Cable {
    server: String,
    client: String,
}

static CABLES: AtomicU32 = AtomicU32::new(0);

/// The address of the server. Every cable has its own pair of hosts, so all can use the same address.
pub const SERVER: &str = "198.18.60.1:80";

impl Cable {
    /// `None` without the required privilege; prints that, or fails if no test may be skipped.
    pub fn lay() -> Option<Cable> {
        if !rustix::process::geteuid().is_root() {
            let why = "making network namespaces needs root";
            assert!(std::env::var("WEIR_REQUIRE_PRIVILEGED").as_deref() != Ok("1"), "not skipped here: {why}");
            println!("SKIPPED: {why}");
            return None;
        }
        let name = format!("weir-test-{}-{}", std::process::id(), CABLES.fetch_add(1, Ordering::Relaxed));
        let cable = Cable { server: format!("{name}-s"), client: format!("{name}-c") };
        let Cable { server, client } = &cable;
        ip(&format!("netns add {server}"));
        ip(&format!("netns add {client}"));
        ip(&format!("link add uplink netns {server} type veth peer name downlink netns {client}"));
        for (host, interface, address) in [(server, "uplink", "198.18.60.1"), (client, "downlink", "198.18.60.2")] {
            // One packet is one segment: larger ones are cut up below the queues that count them.
            ip(&format!("-n {host} link set dev {interface} gso_max_segs 1"));
            ip(&format!("-n {host} addr add {address}/24 dev {interface}"));
            ip(&format!("-n {host} link set lo up"));
            ip(&format!("-n {host} link set {interface} up"));
        }
        // BBR would leave gaps between its packets, which worse bands would fill.
        congestion::while_allowed("cubic", || {
            cable.at_server(|| std::fs::write(congestion::CHOSEN, "cubic").unwrap());
            Ok::<(), uplink::Error>(())
        })
        .unwrap();
        Some(cable)
    }

    /// Does something on the server's host.
    pub fn at_server<T: Send>(&self, action: impl FnOnce() -> T + Send) -> T {
        at(&self.server, action)
    }

    /// Does something on the clients' host.
    pub fn at_client<T: Send>(&self, action: impl FnOnce() -> T + Send) -> T {
        at(&self.client, action)
    }

    pub fn address(&self) -> SocketAddr {
        SERVER.parse().unwrap()
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for host in [&self.server, &self.client] {
            // The record of what a tree there would have restored.
            if let Ok(namespace) = std::fs::metadata(format!("/run/netns/{host}")) {
                uplink::tree::forget_namespace(namespace.ino());
            }
            let _ = Command::new("ip").args(["netns", "del", host]).status();
        }
    }
}

pub fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split_whitespace()).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

/// Runs in a separate thread, so that only that thread changes its network; programs that it starts have that network
/// too.
pub fn at<T: Send>(host: &str, action: impl FnOnce() -> T + Send) -> T {
    let network = File::open(format!("/run/netns/{host}")).unwrap();
    let inside = || {
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        action()
    };
    std::thread::scope(|scope| scope.spawn(inside).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}
