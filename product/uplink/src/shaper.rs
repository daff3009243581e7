//! The queueing discipline that limits an interface's rate: its rate, and the bytes that wait in it.
//!
//! The attribute numbers and layouts come from linux/pkt_sched.h, stable kernel interface.

use std::io;

use units::Rate;

use crate::Interface;
use crate::netlink::{Socket, attribute, u32_at, u64_at};
use crate::tc::{self, Class, RTM_GETQDISC, RTM_GETTCLASS, TC_H_ROOT, queue_stats, tcm};

const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_CEIL64: u16 = 7;
const TCA_CAKE_BASE_RATE64: u16 = 2;
/// The size of `struct tc_ratespec`, and the offset of its last field, the rate in bytes per second.
const RATESPEC_BYTES: usize = 12;
const RATESPEC_RATE: usize = 8;

/// The shaper at the root of an interface, as it was found.
pub struct Shaper {
    pub interface: Interface,
    /// The kind: `htb`, `tbf` or `cake`.
    pub kind: String,
    pub rate: Rate,
    /// The handle of the root.
    root: u32,
    netlink: Socket,
}

impl Shaper {
    /// Returns the shaper of this interface; `None` if its root qdisc limits no rate.
    pub fn of(interface: Interface) -> io::Result<Option<Shaper>> {
        let mut netlink = Socket::open()?;
        let qdiscs = tc::qdiscs(&mut netlink, interface.index)?;
        let Some(root) = qdiscs.into_iter().find(|qdisc| qdisc.parent == TC_H_ROOT) else { return Ok(None) };
        let bytes_per_s = match root.kind.as_str() {
            "tbf" => rate_of(&root.options, TCA_TBF_PARMS, 0, TCA_TBF_RATE64),
            "cake" => attribute(&root.options, TCA_CAKE_BASE_RATE64).and_then(|value| u64_at(value, 0)),
            "htb" => htb_ceil(&mut netlink, interface.index, root.handle)?,
            _ => None,
        };
        let rate = bytes_per_s.and_then(|bytes| bytes.checked_mul(8)).and_then(Rate::from_bits_per_s);
        Ok(rate.map(|rate| Shaper { interface, kind: root.kind, rate, root: root.handle, netlink }))
    }

    /// Returns the packets and bytes that wait in the shaper now, and the packets that it has lost, from its own
    /// counters.
    ///
    /// The kernel reports the qdiscs of all interfaces regardless of the request, but the classes of only one. HTB is
    /// therefore read through its classes, so that reading costs the same on a host with hundreds of interfaces.
    pub fn waiting(&mut self) -> io::Result<Waiting> {
        let (interface, root) = (self.interface.index, self.root);
        let mut waiting = None;
        let mut add = |reply: &[u8]| {
            let Some(queue) = queue_stats(reply) else { return };
            let (bytes, drops) = (u32_at(queue, 4).unwrap_or(0), u32_at(queue, 8).unwrap_or(0));
            let so_far: &mut Waiting = waiting.get_or_insert_default();
            so_far.bytes += u64::from(bytes);
            so_far.drops += u64::from(drops);
        };
        if self.kind == "htb" {
            self.netlink.dump(RTM_GETTCLASS, &tcm(interface, 0, 0), |reply| {
                // Classful disciplines below the shaper count the same packets again.
                if u32_at(reply, 8).is_some_and(|class| is_of(class, root)) {
                    add(reply);
                }
            })?;
        } else {
            self.netlink.dump(RTM_GETQDISC, &tcm(interface, 0, 0), |reply| {
                if u32_at(reply, 4) == Some(interface) && u32_at(reply, 12) == Some(TC_H_ROOT) {
                    add(reply);
                }
            })?;
        }
        waiting.ok_or_else(|| io::Error::other("its shaper is gone"))
    }
}

/// The packets that a shaper holds back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    pub bytes: u64,
    /// Packets lost so far.
    pub drops: u64,
}

/// Returns the rate in a parameter structure, in bytes per second. The 64-bit attribute takes precedence, as the kernel
/// sends it only for rates that do not fit in 32 bits.
fn rate_of(options: &[u8], parameters: u16, ratespec_at: usize, rate64: u16) -> Option<u64> {
    let wide = attribute(options, rate64).and_then(|value| u64_at(value, 0));
    let narrow = || attribute(options, parameters).and_then(|value| u32_at(value, ratespec_at + RATESPEC_RATE));
    wide.or_else(|| narrow().map(u64::from))
}

/// Returns the total rate that HTB's root classes may send: the sum of their ceilings.
fn htb_ceil(netlink: &mut Socket, interface: u32, root: u32) -> io::Result<Option<u64>> {
    // The top classes of a discipline below it also have no parent.
    let is_at_root = |class: &Class| class.parent == TC_H_ROOT && is_of(class.id, root);
    let at_root = tc::classes(netlink, interface)?.into_iter().filter(is_at_root);
    let ceilings = at_root.filter_map(|class| rate_of(&class.options, TCA_HTB_PARMS, RATESPEC_BYTES, TCA_HTB_CEIL64));
    Ok(ceilings.reduce(u64::saturating_add))
}

/// Returns true if the class belongs to the discipline with this handle.
fn is_of(class: u32, handle: u32) -> bool {
    class >> 16 == handle >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{in_own_network, run};

    #[test]
    fn loopback_has_no_shaper() {
        let lo = Interface::serving("127.0.0.1".parse().unwrap()).unwrap().unwrap();
        assert!(Shaper::of(lo).unwrap().is_none());
    }

    fn shaper() -> Option<Shaper> {
        let interface = Interface::serving("198.18.77.1".parse().unwrap()).unwrap().unwrap();
        Shaper::of(interface).unwrap()
    }

    #[test]
    fn finds_htb_and_tbf_and_their_rates() {
        in_own_network(|| {
            run("ip link add weir0 type veth peer name weir1");
            run("ip addr add 198.18.77.1/24 dev weir0");
            run("ip link set weir0 up");
            assert!(shaper().is_none());
            run("tc qdisc add dev weir0 root handle 1: htb default 1");
            run("tc class add dev weir0 parent 1: classid 1:1 htb rate 1mbit ceil 10mbit");
            let mut htb = shaper().unwrap();
            assert_eq!((htb.kind.as_str(), htb.rate.to_string().as_str()), ("htb", "10mbit"));
            assert_eq!(htb.waiting().unwrap(), Waiting::default());
            run("tc qdisc replace dev weir0 root tbf rate 40gbit burst 10mb latency 50ms");
            let tbf = shaper().unwrap();
            assert_eq!((tbf.kind.as_str(), tbf.rate.to_string().as_str()), ("tbf", "40gbit"));
            assert!(htb.waiting().unwrap_err().to_string().contains("gone"));
        });
    }

    /// The classes of HTB and the root of TBF report the same backlog, whatever disciplines are below them.
    #[test]
    fn tells_what_waits_and_what_was_lost() {
        in_own_network(|| {
            run("ip link add weir0 type veth peer name weir1");
            run("ip addr add 198.18.77.1/24 dev weir0");
            // With an IPv6 address the interface would announce itself, and that packet would also be in the queue.
            run("ip link set weir0 addrgenmode none");
            run("ip link set weir1 up");
            run("ip link set weir0 up");
            run("ip neigh add 198.18.77.2 lladdr 02:00:00:00:00:02 dev weir0");
            let socket = std::net::UdpSocket::bind("198.18.77.1:0").unwrap();
            let flood = || {
                for _ in 0..20 {
                    socket.send_to(&[0; 1000], "198.18.77.2:9").unwrap();
                }
            };
            run("tc qdisc add dev weir0 root handle 1: htb default 2");
            run("tc class add dev weir0 parent 1: classid 1:1 htb rate 12kbit burst 1600");
            run("tc class add dev weir0 parent 1:1 classid 1:2 htb rate 12kbit burst 1600");
            run("tc qdisc add dev weir0 parent 1:2 handle 10: pfifo limit 5");
            let mut htb = shaper().unwrap();
            flood();
            let waiting = htb.waiting().unwrap();
            assert_eq!(waiting.bytes, 5 * 1042, "{waiting:?}");
            assert!(waiting.drops >= 10, "{waiting:?}");
            run("tc qdisc replace dev weir0 parent 1:2 handle 20: htb default 1");
            run("tc class add dev weir0 parent 20: classid 20:1 htb rate 10mbit");
            run("tc qdisc add dev weir0 parent 20:1 handle 30: pfifo limit 5");
            let mut nested = shaper().unwrap();
            assert_eq!(nested.rate.bits_per_s(), 12_000, "the outer one limits the link");
            flood();
            assert_eq!(nested.waiting().unwrap().bytes, 5 * 1042, "counted once");
            run("tc qdisc replace dev weir0 root handle 2: tbf rate 12kbit burst 1600 limit 5300");
            let mut tbf = shaper().unwrap();
            flood();
            let waiting = tbf.waiting().unwrap();
            assert_eq!(waiting.bytes, 5 * 1042, "{waiting:?}");
            assert!(waiting.drops >= 10, "{waiting:?}");
        });
    }
}
