//! The programs attached to an interface, and the means to recognise ours.
//!
//! If the kernel has TCX, our program is the first there (tcx.rs). Otherwise it is a filter at the egress of the
//! interface's `clsact`, next to other programs' filters. Both persist when the process that attached them ends, and
//! disappear with the interface. Our program is recognised by its name and, if it is a filter, also by its position. It
//! lets later filters run. A filter before it that ends the search (as `tc` filters with action `ok` do) hides packets
//! from it.

use std::io;

use super::program;
use super::tcx::{self, Side};
use crate::netlink::{Socket, attribute, u32_at};
use crate::tc::{RTM_DELQDISC, RTM_GETQDISC, TCA_KIND, TCA_OPTIONS, TCM_BYTES, kind_and_options, tcm};
use crate::{Error, Interface};

/// The kernel name of the classifier. The next constant names the program that sees packets from clients.
pub const NAME: &str = "weir_classify";
pub const NAME_ARRIVING: &str = "weir_clients_in";
/// The name of a trial's program for outgoing packets. It changes packets only in time slices without the order.
pub const NAME_TRIED: &str = "weir_trial_out";
/// Our priority among the filters: "WE" again. It comes before the filters that `tc` numbers by itself (from 49152
/// down).
pub const PRIORITY: u32 = 0x5745;
pub const HANDLE: u32 = 1;

const RTM_GETTFILTER: u16 = 46;
/// TC_H_CLSACT, followed by its two sides as parents of filters.
const CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
const INGRESS: u32 = 0xffff_fff2;
const EGRESS: u32 = 0xffff_fff3;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_ID: u16 = 11;

/// The programs attached to an interface.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Filters {
    pub has_clsact: bool,
    /// True if an `ingress` qdisc takes the place of the clsact. A program for egress would be attached to ingress
    /// there.
    pub has_ingress: bool,
    /// The numbers of our programs, in the order in which they run: more than one if an attach was interrupted.
    pub at_tcx: Vec<u32>,
    pub at_clsact: Option<u32>,
    /// The numbers of our programs for incoming packets; only at TCX.
    pub arriving: Vec<u32>,
    /// True if there is a filter that is not ours.
    pub has_others: bool,
    /// True if another program's filter has our position.
    pub is_taken: bool,
    /// Egress filters of other programs, by kind and priority: those before our filter. The next field has those after
    /// it.
    pub before: Vec<String>,
    pub after: Vec<String>,
    /// Other programs at TCX: those before ours. The next field has those after it.
    pub tcx_before: Vec<u32>,
    pub tcx_after: Vec<u32>,
}

impl Filters {
    /// Returns the number of the first of our programs to see a packet.
    pub fn ours(&self) -> Option<u32> {
        self.at_tcx.first().copied().or(self.at_clsact)
    }
}

pub fn look(interface: &Interface) -> Result<Filters, Error> {
    let doing = format!("reading the filters of {}", interface.name);
    let mut found = inspect(interface.index).map_err(|error| Error::kernel(&doing, error))?;
    let programs = tcx::programs(interface.index).map_err(|error| program::unlisted(&doing, error))?;
    let has_tcx = programs.is_some();
    for id in programs.unwrap_or_default() {
        match program::has_name(id, NAME)? {
            true => found.at_tcx.push(id),
            false if program::has_name(id, NAME_TRIED)? => {}
            false if found.at_tcx.is_empty() => found.tcx_before.push(id),
            false => found.tcx_after.push(id),
        }
    }
    let arriving =
        tcx::programs_at(Side::Arriving, interface.index).map_err(|error| program::unlisted(&doing, error))?;
    for id in arriving.unwrap_or_default() {
        if program::has_name(id, NAME_ARRIVING)? {
            found.arriving.push(id);
        }
    }
    let will_be_first = has_tcx && found.ours().is_none();
    if will_be_first {
        found.tcx_after = std::mem::take(&mut found.tcx_before);
    }
    if will_be_first || !found.at_tcx.is_empty() {
        found.after.splice(..0, std::mem::take(&mut found.before));
    }
    Ok(found)
}

fn inspect(interface: u32) -> io::Result<Filters> {
    let mut netlink = Socket::open()?;
    let kind = beside_root(&mut netlink)?.into_iter().find(|(index, _)| *index == interface).map(|(_, kind)| kind);
    let Some(kind) = kind else { return Ok(Filters::default()) };
    let has_clsact = kind == "clsact";
    let mut found = Filters { has_clsact, has_ingress: !has_clsact, ..Filters::default() };
    for parent in [INGRESS, EGRESS] {
        netlink.dump(RTM_GETTFILTER, &tcm(interface, 0, parent), |reply| {
            // The kernel also reports each chain of filters itself, without a handle.
            let (Some(handle), Some(info)) = (u32_at(reply, 8), u32_at(reply, 16)) else { return };
            if u32_at(reply, 4) != Some(interface) || handle == 0 {
                return;
            }
            let is_our_place = parent == EGRESS && info >> 16 == PRIORITY;
            match our_program(reply) {
                Some(id) if is_our_place && handle == HANDLE => found.at_clsact = Some(id),
                _ => {
                    found.has_others = true;
                    found.is_taken |= is_our_place;
                    if parent == EGRESS && has_clsact {
                        let (kind, pref) =
                            (kind_and_options(reply).map_or(String::new(), |(kind, _)| kind), info >> 16);
                        let side = if pref < PRIORITY { &mut found.before } else { &mut found.after };
                        side.push(format!("{kind} (pref {pref})"));
                    }
                }
            }
        })?;
    }
    Ok(found)
}

/// Returns the number of a filter's program, if it has our name.
fn our_program(reply: &[u8]) -> Option<u32> {
    let fields = reply.get(TCM_BYTES..)?;
    if attribute(fields, TCA_KIND)? != b"bpf\0" {
        return None;
    }
    let options = attribute(fields, TCA_OPTIONS)?;
    // libbpf appends the program's number: "weir_classify:[17]".
    let name = attribute(options, TCA_BPF_NAME)?;
    let is_ours = name.strip_prefix(NAME.as_bytes()).is_some_and(|rest| matches!(rest.first(), Some(b':' | 0)));
    is_ours.then(|| attribute(options, TCA_BPF_ID).and_then(|id| u32_at(id, 0))).flatten()
}

/// Returns the interfaces that have a `clsact`, or an `ingress` in its place.
pub fn beside_root(netlink: &mut Socket) -> io::Result<Vec<(u32, String)>> {
    let mut found = Vec::new();
    netlink.dump(RTM_GETQDISC, &tcm(0, 0, 0), |reply| {
        let kind = kind_and_options(reply).map(|(kind, _)| kind);
        let kind = kind.filter(|kind| ["clsact", "ingress"].contains(&kind.as_str()));
        found.extend(u32_at(reply, 4).zip(kind));
    })?;
    Ok(found)
}

/// Removes the `clsact` with all its filters.
pub fn remove_clsact(interface: &Interface) -> Result<(), Error> {
    let doing = format!("removing the clsact of {}", interface.name);
    let remove = || Socket::open()?.change(RTM_DELQDISC, 0, &tcm(interface.index, CLSACT_HANDLE, CLSACT));
    remove().map_err(|error| Error::kernel(&doing, error))
}
