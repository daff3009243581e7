//! Converts a plan to the kernel's messages.
//!
//! Layouts: linux/pkt_sched.h (`tc_htb_opt`, `tc_ratespec`, `tc_prio_qopt`, `tc_fifo_qopt`). HTB's rate tables are left
//! out: a kernel that is given the link layer computes them from the rate (net/sched/sch_htb.c, since 3.8).

use std::io;

use units::{Nanos, Rate};

use super::{CONTROL_BAND, DATA_BAND_FIRST, Framing, HTB_PRIORITIES, Kind, OTHER_BAND, Plan, inner};
use crate::netlink::{Body, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Socket};
use crate::tc::{RTM_DELQDISC, RTM_NEWQDISC, RTM_NEWTCLASS, TC_H_ROOT, TCA_KIND, TCA_OPTIONS, tcm};

/// The root's handle `5745:`, the two letters "WE".
pub const ROOT: u32 = 0x5745_0000;
/// The class `5745:1`, through which all packets pass.
pub const LINK_CLASS: u32 = ROOT | 1;
/// The handle `5746:` of the `prio` discipline below it.
pub const PRIO: u32 = 0x5746_0000;
/// Band 0 of [`Kind::Htb`]: `5745:10`.
pub const LEAF_FIRST: u32 = ROOT | 0x10;

/// The queue of band 0: `5750:`. The queue of band 1 is `5751:`.
const QUEUE_FIRST: u32 = 0x5750;

const TCA_FQ_CODEL_TARGET: u16 = 1;
pub const TCA_FQ_CODEL_LIMIT: u16 = 2;
/// CoDel's default target in the kernel, in microseconds.
const CODEL_TARGET_US: u32 = 5000;

pub const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
pub const TCA_HTB_RATE64: u16 = 6;
pub const TCA_HTB_CEIL64: u16 = 7;
const HTB_VERSION: u32 = 3;
/// The divisor for classes without a quantum. All our classes have one, so it has no effect.
const HTB_RATE_TO_QUANTUM: u32 = 10;
/// The maximum quantum; the kernel warns about larger ones.
pub const QUANTUM_MAX: u32 = 200_000;
const TC_LINKLAYER_ETHERNET: u8 = 1;
pub const TC_LINKLAYER_ATM: u8 = 2;
/// The length of a packet scheduler tick (PSCHED_SHIFT 6; the second number in /proc/net/psched).
const TICK_NS: u64 = 64;
/// The burst that the shaper may send if its timer was late: half a millisecond of link time, at least one packet.
pub const BURST: Nanos = Nanos::from_micros(500);
const ETHERNET_HEADER_BYTES: u64 = 14;
/// The number of entries in prio's map from packet priorities to bands (TC_PRIO_MAX + 1).
const PRIORITIES: usize = 16;

/// Returns the kernel's class for a band of a class of responses, which is also the priority of its packets. Control
/// packets and other traffic belong to no class of responses.
pub fn leaf_of(plan: &Plan, class: usize, band: u8) -> u32 {
    match plan.kind {
        Kind::Prio => PRIO | (u32::from(band) + 1),
        Kind::Htb if band < plan.own_bands() => LEAF_FIRST + u32::from(band),
        Kind::Htb => inner::root_of(class) | ((LEAF_FIRST & 0xffff) + u32::from(band)),
    }
}

/// Returns the bytes of a full packet.
pub fn packet_bytes(mtu_bytes: u32) -> u64 {
    u64::from(mtu_bytes) + ETHERNET_HEADER_BYTES
}

/// Returns the guaranteed share of a band in bytes per second, never zero.
pub fn share_bytes_per_s(plan: &Plan, band: u8) -> u64 {
    // The rate is in whole bytes, so that the rate read back from the kernel gives the same share.
    plan.guaranteed(bytes_per_s(plan.rate), band)
}

/// Returns the priority with which a band of [`Kind::Htb`] borrows the rate that the shares leave over; the lowest goes
/// first, and other traffic comes last. If there are more bands than priorities, the later bands share priorities in
/// pairs, and the last band shares its priority with other traffic.
fn htb_priority(plan: &Plan, band: u8) -> u8 {
    let last = plan.bands.min(HTB_PRIORITIES) - 1;
    let after = plan.bands - 1 - band;
    match band {
        CONTROL_BAND => 0,
        OTHER_BAND => last,
        data if plan.bands <= HTB_PRIORITIES => data - 1,
        _ if after == 0 => last,
        data => (data - 1).min(last - 1 - (after - 1) / 2),
    }
}

/// Returns the bytes that a band of [`Kind::Htb`] sends before the other band of the same priority gets a turn: for the
/// first of the two, the kernel's maximum; for the second, one packet. In the synthetic trace at rho 0.95 the mean
/// response time is 13.0 ms with 13 bands of responses in pairs, 12.7 ms with 14 bands of `prio`, and 13.8 ms with 6
/// bands of a priority each.
fn quantum_bytes(plan: &Plan, band: u8, packet_bytes: u64) -> u32 {
    let priority = htb_priority(plan, band);
    let is_second = match band {
        CONTROL_BAND => false,
        OTHER_BAND => true,
        data => data > DATA_BAND_FIRST && htb_priority(plan, data - 1) == priority,
    };
    if is_second { u32::try_from(packet_bytes).unwrap_or(u32::MAX).clamp(1000, QUANTUM_MAX) } else { QUANTUM_MAX }
}

/// Converts to the kernel's unit; a fraction of a byte counts as one.
pub fn bytes_per_s(rate: Rate) -> u64 {
    rate.bits_per_s().div_ceil(8)
}

/// The interface at which a tree is built.
pub struct At<'a> {
    pub netlink: &'a mut Socket,
    pub interface: u32,
    pub mtu_bytes: u32,
}

/// Builds the tree at the interface, replacing whatever is at its root.
pub fn build(at: &mut At<'_>, plan: &Plan) -> io::Result<()> {
    let default = match plan.kind {
        Kind::Prio => LINK_CLASS,
        _ => leaf_of(plan, 0, OTHER_BAND),
    };
    make_htb(at, ROOT, TC_H_ROOT, default)?;
    set_own_rates(at, plan)?;
    if plan.kind == Kind::Prio {
        at.netlink.change(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, prio(at.interface, plan.bands).bytes())?;
    }
    (0..plan.own_bands()).try_for_each(|band| make_queue(at, plan, 0, band))?;
    inner::make(at, plan)
}

/// Creates an HTB that sends packets without a class to `default`.
pub fn make_htb(at: &mut At<'_>, handle: u32, parent: u32, default: u32) -> io::Result<()> {
    let globals: Vec<u8> =
        [HTB_VERSION, HTB_RATE_TO_QUANTUM, default & 0xffff, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let options = Body::new(&[]).attribute(TCA_HTB_INIT, &globals);
    let htb = Body::new(&tcm(at.interface, handle, parent)).text(TCA_KIND, "htb").nested(TCA_OPTIONS, options);
    at.netlink.change(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, htb.bytes())
}

/// Creates the queue of a band: a FIFO. For other traffic it is a queue in which flows take turns, if the kernel has
/// one, so that ssh does not wait behind a backup.
pub fn make_queue(at: &mut At<'_>, plan: &Plan, class: usize, band: u8) -> io::Result<()> {
    let handle =
        if band < plan.own_bands() { (QUEUE_FIRST + u32::from(band)) << 16 } else { inner::queue_of(class, band) };
    let queue = |kind: &str| Body::new(&tcm(at.interface, handle, leaf_of(plan, class, band))).text(TCA_KIND, kind);
    let mtu_bytes = at.mtu_bytes;
    let mut make = |body: Body| at.netlink.change(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, body.bytes());
    if band == OTHER_BAND {
        let options = Body::new(&[])
            .attribute(TCA_FQ_CODEL_TARGET, &fq_codel_target_us(plan, mtu_bytes).to_ne_bytes())
            .attribute(TCA_FQ_CODEL_LIMIT, &plan.packets_per_band.to_ne_bytes());
        match make(queue("fq_codel").nested(TCA_OPTIONS, options)) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            outcome => return outcome,
        }
    }
    make(queue("pfifo").attribute(TCA_OPTIONS, &plan.packets_per_band.to_ne_bytes()))
}

/// Returns how long a packet of other traffic may wait before CoDel considers the queue a standing one: CoDel's default
/// of 5 ms or, on slow links, the time for the two packets that TCP keeps in the queue of a connection.
fn fq_codel_target_us(plan: &Plan, mtu_bytes: u32) -> u32 {
    let packet_bytes = packet_bytes(mtu_bytes);
    let share_bytes_per_s = share_bytes_per_s(plan, OTHER_BAND).max(bytes_per_s(plan.rate) / 10);
    let packets_us = 2 * packet_bytes * 1_000_000 / share_bytes_per_s.max(1);
    u32::try_from(packets_us).unwrap_or(u32::MAX).max(CODEL_TARGET_US)
}

/// Changes the rates and the classes of responses to those of the plan. The tree had `before` classes.
pub fn set_rates(at: &mut At<'_>, plan: &Plan, before: usize) -> io::Result<()> {
    set_own_rates(at, plan)?;
    inner::set(at, plan, before)
}

/// Creates the classes of the HTB at the root, or changes their rates if they exist.
fn set_own_rates(at: &mut At<'_>, plan: &Plan) -> io::Result<()> {
    let ceiling = bytes_per_s(plan.rate);
    let link = HtbClass { guaranteed: ceiling, ceiling, priority: 0, quantum_bytes: QUANTUM_MAX, burst: BURST };
    link.set(at, LINK_CLASS, ROOT, plan.framing)?;
    if plan.kind == Kind::Htb {
        for band in 0..plan.own_bands() {
            let class = band_class(at, plan, band, [share_bytes_per_s(plan, band), ceiling]);
            class.set(at, leaf_of(plan, 0, band), LINK_CLASS, plan.framing)?;
        }
    }
    inner::set_leaves(at, plan)
}

/// Returns the class of a band of [`Kind::Htb`] with this guaranteed rate and ceiling.
pub fn band_class(at: &At<'_>, plan: &Plan, band: u8, [guaranteed, ceiling]: [u64; 2]) -> HtbClass {
    let quantum_bytes = quantum_bytes(plan, band, packet_bytes(at.mtu_bytes));
    HtbClass { guaranteed, ceiling, priority: htb_priority(plan, band), quantum_bytes, burst: BURST }
}

/// Removes the tree; the kernel then restores its default.
pub fn remove(netlink: &mut Socket, interface: u32) -> io::Result<()> {
    netlink.change(RTM_DELQDISC, 0, &tcm(interface, ROOT, TC_H_ROOT))
}

fn prio(interface: u32, bands: u8) -> Body {
    let mut options = i32::from(bands).to_ne_bytes().to_vec();
    options.extend([OTHER_BAND; PRIORITIES]);
    Body::new(&tcm(interface, PRIO, LINK_CLASS)).text(TCA_KIND, "prio").attribute(TCA_OPTIONS, &options)
}

/// The parameters of an HTB class. Rates in bytes per second.
pub struct HtbClass {
    pub guaranteed: u64,
    pub ceiling: u64,
    pub priority: u8,
    pub quantum_bytes: u32,
    /// The minimum time at the ceiling rate for which the class may catch up after it has waited for its turn.
    pub burst: Nanos,
}

impl HtbClass {
    /// Creates the class, or changes it if it exists.
    pub fn set(&self, at: &mut At<'_>, class: u32, parent: u32, framing: Framing) -> io::Result<()> {
        let options = self.options(packet_bytes(at.mtu_bytes), framing);
        let body = Body::new(&tcm(at.interface, class, parent)).text(TCA_KIND, "htb").nested(TCA_OPTIONS, options);
        at.netlink.change(RTM_NEWTCLASS, NLM_F_CREATE, body.bytes())
    }

    fn options(&self, packet_bytes: u64, framing: Framing) -> Body {
        let HtbClass { guaranteed, ceiling, priority, quantum_bytes, burst } = *self;
        let mut options = ratespec(guaranteed, framing).to_vec();
        options.extend(ratespec(ceiling, framing));
        let bursts =
            [(guaranteed, BURST), (ceiling, burst)].map(|(rate, least)| burst_ticks(rate, packet_bytes, least));
        let words = [bursts[0], bursts[1], quantum_bytes, 0, priority.into()];
        options.extend(words.iter().flat_map(|word: &u32| word.to_ne_bytes()));
        let mut body = Body::new(&[]).attribute(TCA_HTB_PARMS, &options);
        for (wide, rate) in [(TCA_HTB_RATE64, guaranteed), (TCA_HTB_CEIL64, ceiling)] {
            if rate > u64::from(u32::MAX) {
                body = body.attribute(wide, &rate.to_ne_bytes());
            }
        }
        body
    }
}

/// Returns a `struct tc_ratespec`: cell_log, linklayer, overhead, cell_align, mpu, rate.
fn ratespec(bytes_per_s: u64, framing: Framing) -> [u8; 12] {
    let mut spec = [0; 12];
    spec[1] = if framing.is_atm { TC_LINKLAYER_ATM } else { TC_LINKLAYER_ETHERNET };
    spec[2..4].copy_from_slice(&framing.overhead_bytes.to_ne_bytes());
    spec[6..8].copy_from_slice(&framing.least_bytes.to_ne_bytes());
    spec[8..].copy_from_slice(&u32::try_from(bytes_per_s).unwrap_or(u32::MAX).to_ne_bytes());
    spec
}

/// Returns the ticks of a burst at this rate.
fn burst_ticks(bytes_per_s: u64, packet_bytes: u64, least: Nanos) -> u32 {
    let packet_ns = u128::from(packet_bytes) * 1_000_000_000 / u128::from(bytes_per_s);
    let ticks = packet_ns.max(least.0.into()).div_ceil(TICK_NS.into());
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of 1514 bytes takes 1.2 ms at 10 Mbit/s, 12 µs at 1 Gbit/s and 25 minutes at the minimum rate.
    #[test]
    fn a_burst_is_a_packet_or_half_a_millisecond() {
        let burst_us =
            |rate: &str| u64::from(burst_ticks(bytes_per_s(rate.parse().unwrap()), 1514, BURST)) * TICK_NS / 1000;
        assert_eq!(["1mbit", "10mbit", "1gbit", "10gbit"].map(burst_us), [12_112, 1211, 500, 500]);
        assert_eq!(burst_ticks(1, 1514, BURST), u32::MAX);
    }

    #[test]
    fn a_share_is_never_nothing() {
        let plan = Plan::new(Kind::Htb, "10mbit".parse().unwrap());
        let shares = |plan: &Plan| [0, 1, 2, 7, 8, 14].map(|band| share_bytes_per_s(plan, band));
        assert_eq!(plan.bands, 15);
        assert_eq!(shares(&Plan { share_permille: 0, other_share_permille: 0, ..plan.clone() }), [1; 6]);
        let plan = Plan { share_permille: 5, other_share_permille: 100, ..plan };
        assert_eq!(shares(&plan), [6250, 125_000, 250, 250, 6250, 6250]);
        let one = Plan { bands: 3, ..plan };
        assert_eq!(share_bytes_per_s(&one, 2), 6250, "all responses are in one band");
    }

    /// A full packet takes 6 ms at the 2 Mbit/s that other traffic has of 10.
    #[test]
    fn codel_leaves_tcp_its_two_packets() {
        let target_us = |rate: &str| fq_codel_target_us(&Plan::new(Kind::Htb, rate.parse().unwrap()), 1500);
        assert_eq!(["10mbit", "100mbit"].map(target_us), [12_112, 5000]);
        assert_eq!(fq_codel_target_us(&Plan::new(Kind::Prio, "10mbit".parse().unwrap()), 1500), 24_224);
    }

    #[test]
    fn other_traffic_borrows_last() {
        let plan = Plan { bands: 5, ..Plan::new(Kind::Htb, "10mbit".parse().unwrap()) };
        assert_eq!([0, 1, 2, 3, 4].map(|band| htb_priority(&plan, band)), [0, 4, 1, 2, 3]);
    }

    #[test]
    fn later_bands_share_their_priorities_in_pairs() {
        let priorities = |bands: u8| {
            let plan = Plan { bands, ..Plan::new(Kind::Htb, "10mbit".parse().unwrap()) };
            let of = |band| (htb_priority(&plan, band), quantum_bytes(&plan, band, 1514) == 1514);
            (0..bands)
                .map(of)
                .map(|(priority, is_second)| format!("{priority}{}", if is_second { "'" } else { "" }))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(priorities(8), "0 7' 1 2 3 4 5 6");
        assert_eq!(priorities(9), "0 7' 1 2 3 4 5 6 7");
        assert_eq!(priorities(11), "0 7' 1 2 3 4 5 5' 6 6' 7");
        assert_eq!(priorities(15), "0 7' 1 1' 2 2' 3 3' 4 4' 5 5' 6 6' 7");
    }
}
