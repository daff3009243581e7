//! What an interface has sent since it was made.

use std::io;

use crate::Interface;
use crate::netlink::{Socket, attribute, u64_at};

const RTM_GETSTATS: u16 = 94;
/// `struct if_stats_msg`: family, padding, index, and a mask of what is wanted.
const STATS_BYTES: usize = 12;
const IFLA_STATS_LINK_64: u16 = 1;
const WANTED: u32 = 1 << (IFLA_STATS_LINK_64 - 1);
/// In `struct rtnl_link_stats64`.
const TX_PACKETS_AT: usize = 8;
const TX_BYTES_AT: usize = 24;

/// The counters of an interface, to be read often.
pub struct PassedWatch {
    netlink: Socket,
    question: [u8; STATS_BYTES],
}

/// Everybody's packets, behind the queueing disciplines. A packet that is cut up further on counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Passed {
    pub bytes: u64,
    pub packets: u64,
}

impl PassedWatch {
    pub fn of(interface: &Interface) -> io::Result<PassedWatch> {
        let mut question = [0; STATS_BYTES];
        question[4..8].copy_from_slice(&interface.index.to_ne_bytes());
        question[8..].copy_from_slice(&WANTED.to_ne_bytes());
        Ok(PassedWatch { netlink: Socket::open()?, question })
    }

    /// Two system calls and the answer's; some microseconds.
    pub fn read(&mut self) -> io::Result<Passed> {
        let mut passed = None;
        self.netlink.ask(RTM_GETSTATS, &self.question, |reply| {
            let stats = reply.get(STATS_BYTES..).and_then(|rest| attribute(rest, IFLA_STATS_LINK_64)).unwrap_or(&[]);
            if let (Some(packets), Some(bytes)) = (u64_at(stats, TX_PACKETS_AT), u64_at(stats, TX_BYTES_AT)) {
                passed = Some(Passed { bytes, packets });
            }
        })?;
        passed.ok_or_else(|| io::Error::other("the kernel does not tell what the interface has sent"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{in_own_network, run};

    #[test]
    fn every_packet_sent_is_counted_once() {
        in_own_network(|| {
            run("ip link add weir0 type veth peer name weir1");
            run("ip addr add 198.18.77.1/24 dev weir0");
            run("ip link set weir1 up");
            run("ip link set weir0 up");
            run("ip neigh add 198.18.77.2 lladdr 02:00:00:00:00:02 dev weir0");
            let interface = Interface::serving("198.18.77.1".parse().unwrap()).unwrap().unwrap();
            let mut watch = PassedWatch::of(&interface).unwrap();
            let socket = std::net::UdpSocket::bind("198.18.77.1:0").unwrap();
            let mut grew_by = |payload: usize| {
                let before = watch.read().unwrap();
                for _ in 0..50 {
                    socket.send_to(&vec![0; payload], "198.18.77.2:9").unwrap();
                }
                let after = watch.read().unwrap();
                (after.packets - before.packets, after.bytes - before.bytes)
            };
            // A neighbour's question may come between, at most a few.
            for payload in [1, 1000] {
                let (packets, bytes) = grew_by(payload);
                assert!((50..60).contains(&packets), "{packets}");
                let least = 50 * (payload as u64 + 42);
                assert!((least..least + 10 * 90).contains(&bytes), "{bytes}");
            }
            run("ip link del weir0");
            assert!(watch.read().is_err());
        });
    }
}
