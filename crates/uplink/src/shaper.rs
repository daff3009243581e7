//! The queueing discipline that limits an interface's rate: what rate, and how many bytes wait in it.
//!
//! The attribute numbers and layouts are those of linux/pkt_sched.h and linux/gen_stats.h, stable kernel interface.

use std::io;

use units::Rate;

use crate::Interface;
use crate::netlink::{Socket, attribute, u32_at, u64_at};

const RTM_GETQDISC: u16 = 38;
const RTM_GETTCLASS: u16 = 42;
const TCM_BYTES: usize = 20;
const TC_H_ROOT: u32 = u32::MAX;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_CEIL64: u16 = 7;
const TCA_CAKE_BASE_RATE64: u16 = 2;
/// `struct tc_ratespec`: its rate, in bytes per second, is the last of its 12 bytes' fields.
const RATESPEC_BYTES: usize = 12;
const RATESPEC_RATE: usize = 8;

/// The shaper at the root of an interface, as it was when it was found.
pub struct Shaper {
    pub interface: Interface,
    /// `htb`, `tbf` or `cake`.
    pub kind: String,
    pub rate: Rate,
    netlink: Socket,
}

impl Shaper {
    /// The shaper of this interface; `None` when its root qdisc limits no rate.
    pub fn of(interface: Interface) -> io::Result<Option<Shaper>> {
        let mut netlink = Socket::open()?;
        let mut root = None;
        netlink.dump(RTM_GETQDISC, &tcm(interface.index), |reply| {
            if is_root_of(reply, interface.index) {
                root = kind_and_options(reply);
            }
        })?;
        let Some((kind, options)) = root else { return Ok(None) };
        let bytes_per_s = match kind.as_str() {
            "tbf" => rate_of(&options, TCA_TBF_PARMS, 0, TCA_TBF_RATE64),
            "cake" => attribute(&options, TCA_CAKE_BASE_RATE64).and_then(|value| u64_at(value, 0)),
            "htb" => htb_ceil(&mut netlink, interface.index)?,
            _ => None,
        };
        let rate = bytes_per_s.and_then(|bytes| bytes.checked_mul(8)).and_then(Rate::from_bits_per_s);
        Ok(rate.map(|rate| Shaper { interface, kind, rate, netlink }))
    }

    /// Bytes waiting in the shaper now, as it counts them.
    pub fn backlog_bytes(&mut self) -> io::Result<u64> {
        let mut backlog = None;
        let interface = self.interface.index;
        self.netlink.dump(RTM_GETQDISC, &tcm(interface), |reply| {
            if !is_root_of(reply, interface) {
                return;
            }
            backlog = reply
                .get(TCM_BYTES..)
                .and_then(|fields| attribute(fields, TCA_STATS2))
                .and_then(|stats| attribute(stats, TCA_STATS_QUEUE))
                .and_then(|queue| u32_at(queue, 4));
        })?;
        backlog.map(u64::from).ok_or_else(|| io::Error::other("the root qdisc tells no backlog"))
    }
}

/// A `struct tcmsg` that names an interface.
fn tcm(interface: u32) -> [u8; TCM_BYTES] {
    let mut message = [0; TCM_BYTES];
    message[4..8].copy_from_slice(&interface.to_ne_bytes());
    message
}

fn is_root_of(reply: &[u8], interface: u32) -> bool {
    u32_at(reply, 4) == Some(interface) && u32_at(reply, 12) == Some(TC_H_ROOT)
}

fn kind_and_options(reply: &[u8]) -> Option<(String, Vec<u8>)> {
    let fields = reply.get(TCM_BYTES..)?;
    let kind = attribute(fields, TCA_KIND)?;
    let kind = String::from_utf8_lossy(kind).trim_end_matches('\0').to_string();
    Some((kind, attribute(fields, TCA_OPTIONS).unwrap_or_default().to_vec()))
}

/// The rate in a parameter structure, in bytes per second; the 64-bit attribute wins, as the kernel sends it only for
/// rates that do not fit in 32 bits.
fn rate_of(options: &[u8], parameters: u16, ratespec_at: usize, rate64: u16) -> Option<u64> {
    let wide = attribute(options, rate64).and_then(|value| u64_at(value, 0));
    let narrow = || attribute(options, parameters).and_then(|value| u32_at(value, ratespec_at + RATESPEC_RATE));
    wide.or_else(|| narrow().map(u64::from))
}

/// What HTB's classes at the root may send in all: the sum of their ceilings.
fn htb_ceil(netlink: &mut Socket, interface: u32) -> io::Result<Option<u64>> {
    let mut sum: Option<u64> = None;
    netlink.dump(RTM_GETTCLASS, &tcm(interface), |reply| {
        if !is_root_of(reply, interface) {
            return;
        }
        let Some((_, options)) = kind_and_options(reply) else { return };
        if let Some(ceil) = rate_of(&options, TCA_HTB_PARMS, RATESPEC_BYTES, TCA_HTB_CEIL64) {
            sum = Some(sum.unwrap_or(0).saturating_add(ceil));
        }
    })?;
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn loopback_has_no_shaper() {
        let lo = Interface::serving("127.0.0.1".parse().unwrap()).unwrap().unwrap();
        assert!(Shaper::of(lo).unwrap().is_none());
    }

    /// Runs on a thread with a network of its own, which ends with it; `false` without the privilege for that.
    fn in_own_network(test: impl FnOnce() + Send + 'static) -> bool {
        let thread = std::thread::spawn(|| {
            // SAFETY: no memory is touched; the thread's view of the network changes, and only this thread's.
            let is_alone = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
            if is_alone {
                test();
            }
            is_alone
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn run(command: &str) {
        let mut words = command.split_whitespace();
        let status = Command::new(words.next().unwrap()).args(words).status().unwrap();
        assert!(status.success(), "{command}");
    }

    fn shaper() -> Option<Shaper> {
        let interface = Interface::serving("198.18.77.1".parse().unwrap()).unwrap().unwrap();
        Shaper::of(interface).unwrap()
    }

    #[test]
    fn finds_htb_and_tbf_and_their_rates() {
        let ran = in_own_network(|| {
            run("ip link add weir0 type veth peer name weir1");
            run("ip addr add 198.18.77.1/24 dev weir0");
            run("ip link set weir0 up");
            assert!(shaper().is_none());
            run("tc qdisc add dev weir0 root handle 1: htb default 1");
            run("tc class add dev weir0 parent 1: classid 1:1 htb rate 1mbit ceil 10mbit");
            let mut htb = shaper().unwrap();
            assert_eq!((htb.kind.as_str(), htb.rate.to_string().as_str()), ("htb", "10mbit"));
            assert_eq!(htb.backlog_bytes().unwrap(), 0);
            run("tc qdisc replace dev weir0 root tbf rate 40gbit burst 10mb latency 50ms");
            let tbf = shaper().unwrap();
            assert_eq!((tbf.kind.as_str(), tbf.rate.to_string().as_str()), ("tbf", "40gbit"));
        });
        if !ran {
            let why = "making a network namespace needs root";
            assert!(std::env::var("WEIR_REQUIRE_PRIVILEGED").as_deref() != Ok("1"), "not skipped here: {why}");
            println!("SKIPPED: {why}");
        }
    }
}
