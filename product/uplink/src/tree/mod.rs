//! The tree of bands that `weir uplink up` puts at an interface's egress: a shaper at the uplink's rate, and below it a
//! few bounded queues. Each queue has a guaranteed share of the link; the rate that the shares leave goes to the first
//! non-empty queue.
//!
//! This is the papers' own mechanism (Harchol-Balter et al., "Implementation of SRPT scheduling in web servers", 2000,
//! section 3.2: 16 bands of `prio`), under a shaper so that the queue forms here and not in a modem or a driver, and
//! with shares, which `prio` cannot have: without them one bulk transfer in an early band stops everything behind it. A
//! packet goes to the band that its `skb->priority` names, which needs no filter: a tc program sets it, or a program
//! with SO_PRIORITY. Everything about a tree is read back from the kernel; its handle, `5745:`, identifies it.
//!
//! | band | traffic |
//! |---|---|
//! | 0 ([`CONTROL_BAND`]) | SYN-ACK, RST, ACK and FIN without data; never data |
//! | 1 ([`OTHER_BAND`]) | unclassified traffic: ssh, DNS, ARP, and a server that `weir` does not know |
//! | 2 ... ([`DATA_BAND_FIRST`]) | responses, the most urgent first |
//!
//! With classes of responses (`classes.rs`), each class has the bands from 2 on.
//!
//! On slow links the interface's packets are kept small while the tree is there: see `segments.rs`.
//!
//! Other traffic has [`OTHER_SHARE_PERMILLE`] of the link before any response, so that the machine can be reached
//! however busy it is. Beyond its share it has only the rate that the responses leave: a backup, rsync or HTTP/3 may
//! fill a link by itself. Under `prio` it comes before the responses, without a limit.

mod build;
mod classes;
mod found;
mod framing;
mod inner;
mod keep;
pub(crate) mod leftovers;
mod segments;
#[cfg(test)]
mod tests;
mod up;

use units::Rate;

use crate::device::Device;
use crate::netlink::Socket;
use crate::{Counted, Error, Interface};

pub use classes::{ClassShare, Part, WEIGHT_MAX, check_floors};
pub use framing::{Framing, Overhead};
pub use keep::RESTORABLE;
pub use leftovers::forget_namespace;
#[cfg(test)]
pub use up::IS_REFUSED;
pub use up::{Change, change_rate, check, check_root, down, is_rate, put_back, same, up};

/// The band for SYN-ACK, RST and other packets without data.
pub const CONTROL_BAND: u8 = 0;
/// The band for other, unclassified traffic.
pub const OTHER_BAND: u8 = 1;
/// The most urgent band of responses.
pub const DATA_BAND_FIRST: u8 = 2;
/// The `skb->priority` of packets that bypass the bands, unshaped: the root's own number, which HTB uses for its direct
/// queue.
pub const PAST_BANDS: u32 = build::ROOT;
/// The difference between the priorities of a band in one class and in the next.
pub const CLASS_STEP: u32 = 1 << 16;
/// Minimum number of bands: at least one for data.
pub const BANDS_MIN: u8 = DATA_BAND_FIRST + 1;
/// Maximum number of packets in each band; the papers' FIFO has as many in total.
pub const PACKETS_PER_BAND: u32 = 100;
/// The share of the link guaranteed to other traffic, in thousandths. Measured on 10 Mbit/s in competition with one
/// bulk transfer from another port: `docs/attach.md` has the figures.
pub const OTHER_SHARE_PERMILLE: u16 = 200;
/// The share guaranteed to the control band and to each band of responses, in thousandths. With 13 of them in the
/// synthetic trace at rho 0.95, shares of 5, 10 and 20 cost 2, 5 and 10 % of the mean response time.
pub const SHARE_PERMILLE: u16 = 5;
/// The divisor of the share of a band of smaller responses. It lets one in 5000 packets overtake.
const BETTER_PARTS: u8 = 25;
/// Number of priorities of an HTB: TC_HTB_NUMPRIO of linux/pkt_sched.h.
const HTB_PRIORITIES: u8 = 8;
/// The whole link, in thousandths.
const WHOLE_PERMILLE: u16 = 1000;
/// The minimum rate of a tree and of a class: below it a full packet takes more than a second.
pub const RATE_MIN_BITS_PER_S: u64 = 12_000;
/// The maximum queue length; more packets would take minutes on any link.
const PACKETS_PER_BAND_MAX: u32 = 1_000_000;

/// The mechanism that orders the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An HTB with one class that contains the `prio` discipline: up to 16 bands, in strict order.
    Prio,
    /// An HTB with a class per band: up to 15, each with a guaranteed share. The default. An HTB has only eight
    /// priorities, so with more than eight bands two share a priority, and the better of them gets nearly all of its
    /// rate.
    Htb,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Prio => "prio",
            Kind::Htb => "htb",
        }
    }

    /// Returns the maximum number of bands; for prio, TCQ_PRIO_BANDS of linux/pkt_sched.h.
    pub fn bands_max(self) -> u8 {
        match self {
            Kind::Prio => 16,
            Kind::Htb => 2 * HTB_PRIORITIES - 1,
        }
    }
}

/// The wanted tree at an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub kind: Kind,
    /// The rate in wire bytes as HTB counts them: with the interface's own header and the bytes that `framing` adds.
    pub rate: Rate,
    pub framing: Framing,
    /// The number of bands, including the control band and the other band.
    pub bands: u8,
    pub packets_per_band: u32,
    /// The share of the rate, in thousandths, that the control band and each band of larger responses get before any
    /// other band has more ([`Kind::Htb`] only); a band of smaller responses gets less ([`Plan::guaranteed`]). 0 means the minimum that HTB supports: one byte per second, which lets a
    /// packet a minute through.
    pub share_permille: u16,
    /// The share of other traffic, in the same terms.
    pub other_share_permille: u16,
    /// The classes of responses, the default class first; none if all responses are alike ([`Kind::Htb`] only).
    pub classes: Vec<ClassShare>,
}

impl Plan {
    /// Creates a plan with the maximum number of bands of this kind, and the default limits and shares.
    pub fn new(kind: Kind, rate: Rate) -> Plan {
        let share = |permille| if kind == Kind::Htb { permille } else { 0 };
        Plan {
            kind,
            rate,
            framing: Framing::default(),
            bands: kind.bands_max(),
            packets_per_band: PACKETS_PER_BAND,
            share_permille: share(SHARE_PERMILLE),
            other_share_permille: share(OTHER_SHARE_PERMILLE),
            classes: Vec::new(),
        }
    }

    /// Returns the number of the first bands, which belong to no class of responses.
    fn own_bands(&self) -> u8 {
        if self.classes.is_empty() { self.bands } else { DATA_BAND_FIRST }
    }

    /// Returns the part of a rate that is guaranteed to this band, both in bytes per second; never zero. HTB sends the
    /// first packet of a band that was idle at once, before packets of better bands. A response that grows would
    /// overtake itself in each of its bands, and TCP would send again what was overtaken. So the better half of the
    /// bands of responses, which few responses fill, has a fraction of the share.
    pub fn guaranteed(&self, bytes_per_s: u64, band: u8) -> u64 {
        let permille = if band == OTHER_BAND { self.other_share_permille } else { self.share_permille };
        let better = DATA_BAND_FIRST..DATA_BAND_FIRST + (self.bands - DATA_BAND_FIRST) / 2;
        let parts = if better.contains(&band) { BETTER_PARTS } else { 1 };
        let guaranteed = u128::from(bytes_per_s) * u128::from(permille);
        u64::try_from(guaranteed.div_ceil(1000 * u128::from(parts))).unwrap_or(u64::MAX).max(1)
    }

    /// Returns an error if no kernel could make this plan.
    pub fn check(&self) -> Result<(), Error> {
        if self.rate.bits_per_s() < RATE_MIN_BITS_PER_S {
            let rate = self.rate;
            return Err(Error::new(format!("rate {rate} is too low: write {RATE_MIN_BITS_PER_S}bit or more")));
        }
        let (name, bands, bands_max) = (self.kind.name(), self.bands, self.kind.bands_max());
        if !(BANDS_MIN..=bands_max).contains(&bands) {
            return Err(Error::new(format!("{bands} bands: {name} takes {BANDS_MIN} to {bands_max}")));
        }
        if !(1..=PACKETS_PER_BAND_MAX).contains(&self.packets_per_band) {
            let packets = self.packets_per_band;
            return Err(Error::new(format!("{packets} packets per band: a band takes 1 to {PACKETS_PER_BAND_MAX}")));
        }
        classes::check(self)?;
        self.check_shares()
    }

    fn check_shares(&self) -> Result<(), Error> {
        let (share, other) = (self.share_permille, self.other_share_permille);
        if self.kind == Kind::Prio && share.max(other) > 0 {
            return Err(Error::new("a guaranteed share needs --qdisc htb: the bands of prio are strict"));
        }
        let bands = u16::from(self.bands) - 1;
        let share_max = WHOLE_PERMILLE.saturating_sub(other) / bands;
        if other > WHOLE_PERMILLE || share > share_max {
            let [share, other, share_max] = [share, other, share_max].map(|permille| f64::from(permille) / 10.0);
            return Err(Error::new(format!(
                "shares of {share}% for each of {bands} bands and {other}% for other traffic are more than 100% together: \
                 write at most {share_max}% for each band"
            )));
        }
        Ok(())
    }
}

/// Our tree as it is in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    pub interface: Interface,
    pub plan: Plan,
}

impl Tree {
    /// Returns the `skb->priority`, set with SO_PRIORITY, of the packets of a band; a band beyond the last counts as
    /// the last. With classes it is the default class's priority; for each later class it is greater by [`CLASS_STEP`].
    pub fn priority(&self, band: u8) -> u32 {
        build::leaf_of(&self.plan, 0, band.min(self.plan.bands.saturating_sub(1)))
    }

    /// Returns the number of bands for responses.
    pub fn data_bands(&self) -> u8 {
        self.plan.bands.saturating_sub(DATA_BAND_FIRST)
    }

    /// Returns the priority of the nth band for responses, 0 being the most urgent; beyond the last, the last band's
    /// priority.
    pub fn data_priority(&self, nth: u8) -> u32 {
        self.priority(nth.saturating_add(DATA_BAND_FIRST))
    }

    /// Returns the counters of each band since the tree was made, by number.
    pub fn stats(&self) -> Result<Vec<Counted>, Error> {
        let doing = format!("reading the bands of {}", self.interface.name);
        let mut netlink = Socket::open().map_err(|error| Error::kernel(&doing, error))?;
        found::stats(&mut netlink, self).map_err(|error| Error::kernel(&doing, error))
    }

    /// Returns the counters of each class of responses since the tree was made.
    pub fn class_stats(&self) -> Result<Vec<Counted>, Error> {
        let doing = format!("reading the classes of {}", self.interface.name);
        let mut netlink = Socket::open().map_err(|error| Error::kernel(&doing, error))?;
        found::class_stats(&mut netlink, self).map_err(|error| Error::kernel(&doing, error))
    }
}

/// Returns true if this is the root of a tree of ours.
#[cfg(feature = "bpf")]
pub(crate) fn is_root(qdisc: &crate::tc::Qdisc) -> bool {
    qdisc.handle == build::ROOT && qdisc.kind == "htb"
}

/// Returns true if this is the queue of a band of responses, in a tree of kind [`Kind::Htb`].
#[cfg(feature = "bpf")]
pub(crate) fn is_response_queue(qdisc: &crate::tc::Qdisc) -> bool {
    found::is_response_leaf(qdisc.parent) && qdisc.kind != "htb"
}

/// Returns the bytes that such a line adds to packets of this interface.
pub fn framing(interface: &Interface, overhead: Overhead) -> Result<Framing, Error> {
    Ok(overhead.framing(head_bytes(interface)?))
}

/// Returns the kind of line whose numbers this tree has; `None` for other numbers.
pub fn overhead(tree: &Tree) -> Result<Option<Overhead>, Error> {
    Ok(Overhead::of(tree.plan.framing, head_bytes(&tree.interface)?))
}

fn head_bytes(interface: &Interface) -> Result<u16, Error> {
    let name = &interface.name;
    let device = Device::of(interface).map_err(|error| Error::kernel(&format!("reading {name}"), error))?;
    device.map(|device| device.head_bytes).ok_or_else(|| Error::new(format!("the interface {name} has gone")))
}

/// The state of an interface before a tree was made. A classifier's settings hold it too, because the records in
/// /run/weir may be lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Before {
    /// The maximum number of segments in a packet; 0 if it is not known.
    pub segments: u16,
    /// The kind of the queueing discipline that the tree replaced, in [`RESTORABLE`].
    pub queue: Option<&'static str>,
}

impl Before {
    /// Reads the state from the records, or from an interface without a tree.
    #[cfg(feature = "bpf")]
    pub(crate) fn of(interface: &Interface) -> Result<Before, Error> {
        let kernel = |error| Error::kernel(&format!("reading {}", interface.name), error);
        let Some(device) = Device::of(interface).map_err(kernel)? else { return Ok(Before::default()) };
        let segments = segments::before(interface, &device).map_err(kernel)?;
        let kind = match found::look(interface)? {
            found::Found::Others(qdisc) => Some(qdisc.kind),
            found::Found::Default => None,
            found::Found::Ours(_) | found::Found::Broken => replaced(interface),
        };
        let queue = kind.and_then(|kind| RESTORABLE.iter().copied().find(|known| *known == kind));
        Ok(Before { segments: u16::try_from(segments).unwrap_or(u16::MAX), queue })
    }

    /// Returns the part of the state that no record holds.
    #[cfg(feature = "bpf")]
    pub(crate) fn unrecorded(self, interface: &Interface) -> Result<Before, Error> {
        let is_lost = segments::is_lost(interface, self.segments.into())
            .map_err(|error| Error::kernel(&format!("reading {}", interface.name), error))?;
        let queue = self.queue.filter(|_| keep::kept(interface).is_none());
        Ok(Before { segments: if is_lost { self.segments } else { 0 }, queue })
    }

    /// Restores the size of packets of this tree's interface, if its record is lost.
    #[cfg(feature = "bpf")]
    pub(crate) fn restore(self, tree: &Tree) -> Result<(), Error> {
        let name = &tree.interface.name;
        segments::restore(&tree.interface, tree.plan.rate, self.segments.into())
            .map_err(|error| Error::kernel(&format!("restoring the packet size on {name}"), error))
    }
}

/// Returns the kind of the queueing discipline that our tree replaced and that will be restored.
pub fn replaced(interface: &Interface) -> Option<String> {
    keep::kept(interface).map(|qdisc| qdisc.kind)
}

/// Returns false if packets that wait in this tree may be too large for its rate, because another interface has been
/// added above its own, or another program has changed the size of packets.
pub fn has_small_packets(tree: &Tree, is_followed: bool) -> Result<bool, Error> {
    let name = &tree.interface.name;
    segments::is_bound(&tree.interface, tree.plan.rate, is_followed)
        .map_err(|error| Error::kernel(&format!("reading the packet size on {name}"), error))
}

/// Returns our tree on this interface; `None` if there is none.
pub fn find(interface: &Interface) -> Result<Option<Tree>, Error> {
    match found::look(interface)? {
        found::Found::Ours(tree) => Ok(Some(tree)),
        found::Found::Default | found::Found::Others(_) => Ok(None),
        found::Found::Broken => {
            let name = &interface.name;
            Err(Error::new(format!(
                "the tree on {name} is incomplete: run `weir uplink up` to rebuild it, or `weir uplink down {name}` \
                    to remove it"
            )))
        }
    }
}
