//! Reads the disciplines at the root of an interface from the kernel.

use std::io;

use units::Rate;

use super::build::{self, LINK_CLASS, PRIO, ROOT, leaf_of};
use super::classes::{self, ClassShare};
use super::{CONTROL_BAND, DATA_BAND_FIRST, Framing, Kind, OTHER_BAND, Plan, Tree, inner};
use crate::netlink::{Socket, attribute, u16_at, u32_at, u64_at};
use crate::tc::{self, Class, Counted, Qdisc, TC_H_ROOT};
use crate::{Error, Interface};

/// The offset in `struct tc_htb_opt` of the rate in the first `tc_ratespec`. The next constant is that in the second.
const HTB_RATE_AT: usize = 8;
const HTB_CEIL_AT: usize = 20;

#[derive(Debug)]
pub enum Found {
    /// The kernel's default discipline, or none.
    Default,
    Ours(Tree),
    /// Our tree, but incomplete: parts of it were removed, or `up` was killed.
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
    let is_divided = classes.iter().any(|class| class.id == inner::leaf_of(0));
    let shares = if is_divided { classes::kept(interface) } else { Some(Vec::new()) };
    Ok(match shares.and_then(|shares| plan(&qdiscs, &classes, shares)) {
        Some(plan) => Found::Ours(Tree { interface: interface.clone(), plan }),
        None => Found::Broken,
    })
}

/// Reconstructs the plan of a tree with these qdiscs, classes and shares; `None` if a part is missing.
fn plan(qdiscs: &[Qdisc], classes: &[Class], shares: Vec<ClassShare>) -> Option<Plan> {
    let class = |id: u32| classes.iter().find(|class| class.id == id);
    let link_bytes_per_s = bytes_per_s(class(LINK_CLASS)?, HTB_CEIL_AT, build::TCA_HTB_CEIL64)?;
    let rate = Rate::from_bits_per_s(link_bytes_per_s.checked_mul(8)?)?;
    let mut plan = Plan { classes: shares, framing: framing(class(LINK_CLASS)?)?, ..Plan::new(Kind::Htb, rate) };
    match qdiscs.iter().find(|qdisc| qdisc.handle == PRIO) {
        Some(prio) => {
            plan = Plan {
                framing: plan.framing,
                bands: u8::try_from(u32_at(&prio.options, 0)?).ok()?,
                ..Plan::new(Kind::Prio, rate)
            }
        }
        None => {
            let is_there = |band: &u8| class(leaf_of(&plan, 0, *band)).is_some();
            plan.bands = (0..Kind::Htb.bands_max()).take_while(is_there).count() as u8;
            let share = |band: u8| {
                let share = bytes_per_s(class(leaf_of(&plan, 0, band))?, HTB_RATE_AT, build::TCA_HTB_RATE64)?;
                Some(permille(share, link_bytes_per_s))
            };
            [plan.share_permille, plan.other_share_permille] = [share(CONTROL_BAND)?, share(OTHER_BAND)?];
        }
    }
    let limits = leaves(&plan).map(|leaf| limit(qdiscs, leaf)).collect::<Option<Vec<u32>>>()?;
    plan.packets_per_band = *limits.first()?;
    let ids: Vec<u32> = classes.iter().map(|class| class.id).collect();
    let is_whole = plan.classes.is_empty() || inner::is_whole(&plan, qdiscs, &ids);
    (is_whole && limits.iter().all(|limit| *limit == plan.packets_per_band) && plan.check().is_ok()).then_some(plan)
}

/// Returns the kernel's class for each band of each class of responses.
fn leaves(plan: &Plan) -> impl Iterator<Item = u32> {
    let own = (0..plan.own_bands()).map(|band| leaf_of(plan, 0, band));
    let inner = move |class| (DATA_BAND_FIRST..plan.bands).map(move |band| leaf_of(plan, class, band));
    own.chain((0..plan.classes.len()).flat_map(inner))
}

/// Returns true if this is the kernel's class for a band of responses.
#[cfg(feature = "bpf")]
pub fn is_response_leaf(class: u32) -> bool {
    let (of, leaf) = (class & 0xffff_0000, class & 0xffff);
    let bands = build::LEAF_FIRST & 0xffff..(build::LEAF_FIRST & 0xffff) + u32::from(Kind::Htb.bands_max());
    let is_of_class = (inner::root_of(0)..=inner::root_of(crate::constants::CLASSES_MAX - 1)).contains(&of);
    (of == ROOT || is_of_class) && bands.contains(&leaf) && leaf - bands.start >= u32::from(DATA_BAND_FIRST)
}

/// Returns a rate of an HTB class. The kernel sends the 64-bit attribute only for rates that need more than 32 bits.
fn bytes_per_s(class: &Class, at: usize, wide: u16) -> Option<u64> {
    let wide = attribute(&class.options, wide).and_then(|value| u64_at(value, 0));
    let narrow = || u32_at(attribute(&class.options, build::TCA_HTB_PARMS)?, at).map(u64::from);
    wide.or_else(narrow)
}

/// Returns the framing with which an HTB class counts packets, from its first `tc_ratespec`.
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

/// Returns the share, in thousandths, from which this guaranteed rate was computed. The minimum rate means no share.
fn permille(share_bytes_per_s: u64, link_bytes_per_s: u64) -> u16 {
    if share_bytes_per_s <= 1 || link_bytes_per_s == 0 {
        return 0;
    }
    // Both were rounded to whole bytes.
    u16::try_from((share_bytes_per_s * 1000 + link_bytes_per_s / 2) / link_bytes_per_s).unwrap_or(u16::MAX)
}

/// Returns the counters of each band, by number, summed over all classes; zeros for a band that is gone.
pub fn stats(netlink: &mut Socket, tree: &Tree) -> io::Result<Vec<Counted>> {
    let qdiscs = tc::qdiscs(netlink, tree.interface.index)?;
    let counted = |class: usize, band: u8| {
        let leaf = leaf_of(&tree.plan, class, band);
        qdiscs.iter().find(|qdisc| qdisc.parent == leaf).map(|qdisc| qdisc.counted).unwrap_or_default()
    };
    let classes = |band: u8| if band < tree.plan.own_bands() { 1 } else { tree.plan.classes.len() };
    let of = |band: u8| (0..classes(band)).map(|class| counted(class, band)).fold(Counted::default(), Counted::plus);
    Ok((0..tree.plan.bands).map(of).collect())
}

/// Returns the counters of each class of responses; zeros for a class that is gone.
pub fn class_stats(netlink: &mut Socket, tree: &Tree) -> io::Result<Vec<Counted>> {
    let qdiscs = tc::qdiscs(netlink, tree.interface.index)?;
    let counted = |class: usize| {
        let found = qdiscs.iter().find(|qdisc| qdisc.handle == inner::root_of(class));
        found.map(|qdisc| qdisc.counted).unwrap_or_default()
    };
    Ok((0..tree.plan.classes.len()).map(counted).collect())
}
