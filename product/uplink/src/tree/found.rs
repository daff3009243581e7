//! Reads from the kernel what is at the root of an interface.

use std::io;

use units::Rate;

use super::build::{self, LINK_CLASS, PRIO, ROOT, class_of};
use super::{CONTROL_BAND, Framing, Kind, OTHER_BAND, Plan, Tree};
use crate::netlink::{Socket, attribute, u16_at, u32_at, u64_at};
use crate::tc::{self, Class, Counted, Qdisc, TC_H_ROOT};
use crate::{Error, Interface};

/// Offsets in `struct tc_htb_opt` of the rates in its two `tc_ratespec`.
const HTB_RATE_AT: usize = 8;
const HTB_CEIL_AT: usize = 20;

#[derive(Debug)]
pub enum Found {
    /// The kernel's default, or nothing.
    Default,
    Ours(Tree),
    /// Our tree, incomplete: parts of it were removed, or `up` was killed half way.
    Broken,
    Others(Qdisc),
}

pub fn look(interface: &Interface) -> Result<Found, Error> {
    let doing = format!("reading the queueing disciplines of {}", interface.name);
    inspect(interface).map_err(|error| Error::kernel(&doing, error))
}

fn inspect(interface: &Interface) -> io::Result<Found> {
    let mut netlink = Socket::open()?;
    let qdiscs = tc::qdiscs(&mut netlink, interface.index)?;
    let Some(root) = qdiscs.iter().find(|qdisc| qdisc.parent == TC_H_ROOT) else { return Ok(Found::Default) };
    if root.handle == 0 {
        return Ok(Found::Default);
    }
    if root.handle != ROOT || root.kind != "htb" {
        return Ok(Found::Others(root.clone()));
    }
    let classes = tc::classes(&mut netlink, interface.index)?;
    Ok(match plan(&qdiscs, &classes) {
        Some(plan) => Found::Ours(Tree { interface: interface.clone(), plan }),
        None => Found::Broken,
    })
}

/// Returns the plan that these were made by; `None` if a part is missing.
fn plan(qdiscs: &[Qdisc], classes: &[Class]) -> Option<Plan> {
    let class = |id: u32| classes.iter().find(|class| class.id == id);
    let link_bytes_per_s = bytes_per_s(class(LINK_CLASS)?, HTB_CEIL_AT, build::TCA_HTB_CEIL64)?;
    let rate = Rate::from_bits_per_s(link_bytes_per_s.checked_mul(8)?)?;
    let (kind, bands, [share_permille, other_share_permille]) = match qdiscs.iter().find(|qdisc| qdisc.handle == PRIO) {
        Some(prio) => (Kind::Prio, u8::try_from(u32_at(&prio.options, 0)?).ok()?, [0, 0]),
        None => {
            let bands =
                (0..Kind::Htb.bands_max()).take_while(|band| class(class_of(Kind::Htb, *band)).is_some()).count();
            let share = |band: u8| {
                let share = bytes_per_s(class(class_of(Kind::Htb, band))?, HTB_RATE_AT, build::TCA_HTB_RATE64)?;
                Some(permille(share, link_bytes_per_s))
            };
            (Kind::Htb, bands as u8, [share(CONTROL_BAND)?, share(OTHER_BAND)?])
        }
    };
    let limits: Vec<u32> = (0..bands).map(|band| limit(qdiscs, class_of(kind, band))).collect::<Option<_>>()?;
    let packets_per_band = *limits.first()?;
    let framing = framing(class(LINK_CLASS)?)?;
    let plan = Plan { kind, rate, framing, bands, packets_per_band, share_permille, other_share_permille };
    (limits.iter().all(|limit| *limit == packets_per_band) && plan.check().is_ok()).then_some(plan)
}

/// Returns a rate of an HTB class; the kernel sends the 64-bit attribute only for rates that do not fit in 32 bits.
fn bytes_per_s(class: &Class, at: usize, wide: u16) -> Option<u64> {
    let wide = attribute(&class.options, wide).and_then(|value| u64_at(value, 0));
    let narrow = || u32_at(attribute(&class.options, build::TCA_HTB_PARMS)?, at).map(u64::from);
    wide.or_else(narrow)
}

/// Returns what an HTB class adds to each packet: the fields of its first `tc_ratespec`.
fn framing(class: &Class) -> Option<Framing> {
    let spec = attribute(&class.options, build::TCA_HTB_PARMS)?;
    Some(Framing {
        overhead_bytes: u16_at(spec, 2)?,
        least_bytes: u16_at(spec, 6)?,
        is_atm: *spec.get(1)? == build::TC_LINKLAYER_ATM,
    })
}

/// Returns the maximum number of packets in the queue of this class.
fn limit(qdiscs: &[Qdisc], class: u32) -> Option<u32> {
    let queue = qdiscs.iter().find(|qdisc| qdisc.parent == class)?;
    match queue.kind.as_str() {
        "pfifo" => u32_at(&queue.options, 0),
        "fq_codel" => u32_at(attribute(&queue.options, build::TCA_FQ_CODEL_LIMIT)?, 0),
        _ => None,
    }
}

/// Returns the share in thousandths that gave this guarantee; the minimum rate means no share.
fn permille(share_bytes_per_s: u64, link_bytes_per_s: u64) -> u16 {
    if share_bytes_per_s <= 1 || link_bytes_per_s == 0 {
        return 0;
    }
    // Both were rounded to whole bytes.
    u16::try_from((share_bytes_per_s * 1000 + link_bytes_per_s / 2) / link_bytes_per_s).unwrap_or(u16::MAX)
}

/// Returns the counters of each band, by number; zeros for a band that has disappeared.
pub fn stats(netlink: &mut Socket, tree: &Tree) -> io::Result<Vec<Counted>> {
    let qdiscs = tc::qdiscs(netlink, tree.interface.index)?;
    let of = |band: u8| {
        let class = class_of(tree.plan.kind, band);
        qdiscs.iter().find(|qdisc| qdisc.parent == class).map(|qdisc| qdisc.counted).unwrap_or_default()
    };
    Ok((0..tree.plan.bands).map(of).collect())
}
