//! What hangs at an interface, and whether it is ours.
//!
//! Where the kernel has TCX the program is the first there (tcx.rs), else a filter at the egress of the interface's `clsact`,
//! beside the filters of others. Both live on when the process that made them ends, and go with the interface. Ours is known
//! by the name of its program, and as a filter by its place too. It lets those after it have their say; a filter before it
//! that ends the search (as `tc` filters with action `ok` do) keeps packets from it.

use std::io;

use super::{program, tcx};
use crate::netlink::{Socket, attribute, u32_at};
use crate::tc::{RTM_DELQDISC, RTM_GETQDISC, TCA_KIND, TCA_OPTIONS, TCM_BYTES, kind_and_options, tcm};
use crate::{Error, Interface};

/// The program's name in the kernel.
pub const NAME: &str = "weir_classify";
/// Our place among the filters, "WE" again: before those that `tc` numbers by itself (from 49152 down).
pub const PRIORITY: u32 = 0x5745;
pub const HANDLE: u32 = 1;

const RTM_GETTFILTER: u16 = 46;
/// TC_H_CLSACT, and its two sides as parents of filters.
const CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
const INGRESS: u32 = 0xffff_fff2;
const EGRESS: u32 = 0xffff_fff3;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_ID: u16 = 11;

/// What hangs at an interface.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Filters {
    pub has_clsact: bool,
    /// Is an `ingress` qdisc in its place? A program meant for what leaves would hang there at what comes in.
    pub has_ingress: bool,
    /// The numbers of our programs, the first to run before the rest: more than one where an attach was ended half way.
    pub at_tcx: Vec<u32>,
    pub at_clsact: Option<u32>,
    /// Is there a filter that is not ours?
    pub has_others: bool,
    /// Is our place taken by somebody else's?
    pub is_taken: bool,
    /// Those of others on what leaves, by kind and place: before ours as a filter, and after it.
    pub before: Vec<String>,
    pub after: Vec<String>,
    /// Programs of others at TCX, before ours and after it.
    pub tcx_before: Vec<u32>,
    pub tcx_after: Vec<u32>,
}

impl Filters {
    /// The number of our program, the first that sees a packet.
    pub fn ours(&self) -> Option<u32> {
        self.at_tcx.first().copied().or(self.at_clsact)
    }
}

pub fn look(interface: &Interface) -> Result<Filters, Error> {
    let doing = format!("reading the filters of {}", interface.name);
    let mut found = inspect(interface.index).map_err(|error| Error::kernel(&doing, error))?;
    let programs = tcx::programs(interface.index).map_err(|error| Error::kernel(&doing, error))?;
    let has_tcx = programs.is_some();
    for id in programs.unwrap_or_default() {
        match program::is_ours(id)? {
            true => found.at_tcx.push(id),
            false if found.at_tcx.is_empty() => found.tcx_before.push(id),
            false => found.tcx_after.push(id),
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
            // A chain of filters is told once by itself, without a handle.
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

/// The number of the program of a filter, if it goes by our name.
fn our_program(reply: &[u8]) -> Option<u32> {
    let fields = reply.get(TCM_BYTES..)?;
    if attribute(fields, TCA_KIND)? != b"bpf\0" {
        return None;
    }
    let options = attribute(fields, TCA_OPTIONS)?;
    // libbpf adds the program's number: "weir_classify:[17]".
    let name = attribute(options, TCA_BPF_NAME)?;
    let is_ours = name.strip_prefix(NAME.as_bytes()).is_some_and(|rest| matches!(rest.first(), Some(b':' | 0)));
    is_ours.then(|| attribute(options, TCA_BPF_ID).and_then(|id| u32_at(id, 0))).flatten()
}

/// The interfaces, by their numbers, that have a `clsact`, or an `ingress` in its place.
pub fn beside_root(netlink: &mut Socket) -> io::Result<Vec<(u32, String)>> {
    let mut found = Vec::new();
    netlink.dump(RTM_GETQDISC, &tcm(0, 0, 0), |reply| {
        let kind = kind_and_options(reply).map(|(kind, _)| kind);
        let kind = kind.filter(|kind| ["clsact", "ingress"].contains(&kind.as_str()));
        found.extend(u32_at(reply, 4).zip(kind));
    })?;
    Ok(found)
}

/// Takes the `clsact` away, and every filter in it.
pub fn remove_clsact(interface: &Interface) -> Result<(), Error> {
    let doing = format!("removing the clsact of {}", interface.name);
    let remove = || Socket::open()?.change(RTM_DELQDISC, 0, &tcm(interface.index, CLSACT_HANDLE, CLSACT));
    remove().map_err(|error| Error::kernel(&doing, error))
}
