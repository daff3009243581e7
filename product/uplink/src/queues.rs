//! The counters of an interface's queueing disciplines, read repeatedly at the cost of one request each.

use std::io;

use crate::netlink::Socket;
use crate::tc::{self, Counted, Qdisc, TC_H_ROOT};
use crate::tree;
use crate::{Error, Interface};

/// The counters since the root discipline was created, and the packets and bytes that wait now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queues {
    /// The counters of the root: the bytes and packets that have left it, and those that wait anywhere below it.
    pub root: Counted,
    /// The packets lost at any discipline. A loss is counted where it happens, and by the disciplines above that are
    /// notified of it.
    pub drops: u64,
    /// The bands of our tree, by number; empty for any other discipline.
    pub bands: Vec<Counted>,
}

/// Queries the counters of an interface, in the network namespace of the thread that opened it.
pub struct QueueWatch {
    netlink: Socket,
    interface: Interface,
    /// The classes of the bands.
    classes: Vec<u32>,
}

impl QueueWatch {
    /// Opens a watch. The current tree determines the bands.
    pub fn open(device: &str) -> Result<QueueWatch, Error> {
        let interface = Interface::by_name(device)?;
        let tree = tree::find(&interface)?;
        let classes = tree.map_or(vec![], |tree| (0..tree.plan.bands).map(|band| tree.priority(band)).collect());
        let doing = format!("reading the queues of {device}");
        let netlink = Socket::open().map_err(|error| Error::kernel(&doing, error))?;
        Ok(QueueWatch { netlink, interface, classes })
    }

    /// Returns the number of bands that [`QueueWatch::read`] returns.
    pub fn bands(&self) -> usize {
        self.classes.len()
    }

    pub fn read(&mut self) -> io::Result<Queues> {
        let qdiscs = tc::qdiscs(&mut self.netlink, self.interface.index)?;
        let of = |parent: u32| qdiscs.iter().find(|qdisc| qdisc.parent == parent).map(|qdisc| qdisc.counted);
        let root = of(TC_H_ROOT).ok_or_else(|| io::Error::other("the interface has no queueing discipline"))?;
        let lost = |qdisc: &Qdisc| qdisc.counted.drops;
        Ok(Queues {
            root,
            drops: qdiscs.iter().map(lost).max().unwrap_or(0),
            bands: self.classes.iter().map(|class| of(*class).unwrap_or_default()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{in_own_network, run};
    use crate::tree::Plan;
    use std::net::UdpSocket;

    fn send_datagrams(count: usize) {
        let socket = UdpSocket::bind("198.18.77.1:0").unwrap();
        for _ in 0..count {
            socket.send_to(&[0; 1000], "198.18.77.2:9").unwrap();
        }
    }

    #[test]
    fn tells_what_left_what_waits_and_what_was_lost() {
        in_own_network(|| {
            run("ip link add weir0 type veth peer name weir1");
            run("ip addr add 198.18.77.1/24 dev weir0");
            run("ip link set weir1 up");
            run("ip link set weir0 up");
            run("ip neigh add 198.18.77.2 lladdr 02:00:00:00:00:02 dev weir0");
            run("tc qdisc add dev weir0 root handle 1: htb default 1");
            run("tc class add dev weir0 parent 1: classid 1:1 htb rate 12kbit burst 1600");
            run("tc qdisc add dev weir0 parent 1:1 handle 10: pfifo limit 5");
            let mut watch = QueueWatch::open("weir0").unwrap();
            let before = watch.read().unwrap();
            send_datagrams(20);
            let after = watch.read().unwrap();
            assert!(after.root.packets > before.root.packets && after.bands.is_empty(), "{after:?}");
            assert_eq!(after.root.backlog_packets, 5);
            assert!(after.drops >= before.drops + 20 - 5 - (after.root.packets - before.root.packets), "{after:?}");
            run("tc qdisc del dev weir0 root");
        });
    }

    #[test]
    fn tells_each_band_apart() {
        in_own_network(|| {
            run("ip link add weir0 type veth peer name weir1");
            run("ip link set weir0 up");
            let interface = Interface::by_name("weir0").unwrap();
            tree::up(&interface, &Plan::new(tree::Kind::Htb, "1mbit".parse().unwrap()), false).unwrap();
            let mut watch = QueueWatch::open("weir0").unwrap();
            assert_eq!((watch.bands(), watch.read().unwrap().bands.len()), (15, 15));
        });
    }

    #[test]
    fn an_interface_that_is_not_there_is_said() {
        let said = QueueWatch::open("weir-none").map(drop).unwrap_err().to_string();
        assert!(said.starts_with("there is no interface weir-none"), "{said}");
    }
}
