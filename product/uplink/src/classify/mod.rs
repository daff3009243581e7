//! The classifier that `weir attach` puts at an interface's egress: a tc program that marks every packet of a TCP
//! server with its urgency, so that the responses of any server can be ordered by size.
//!
//! It reads the start and length of each response from the packets themselves (see bpf/classify.bpf.c). It needs no
//! process: it stays attached until it is detached or its interface disappears, and its whole state is read back from
//! the kernel. Its settings record what attaching made, so that [`detach`] removes that and nothing else, even if a
//! process was killed in between.

mod attach;
mod class;
mod counters;
mod cuts;
mod filter;
mod forwarded;
mod gain;
mod meter;
mod program;
mod record;
mod settings;
mod tcx;
#[cfg(test)]
mod tests;
mod trips;
mod verdict;
mod warnings;

use sched::policy::ClientShareSpec;
use units::Rate;

use crate::device::{RelatedInterface, links};
use crate::netlink::Socket;
use crate::tree::Overhead;
use crate::{Error, Interface};
use program::Program;
use tcx::Side;

pub use attach::{Preview, Unrecorded, attach, detach, is_in_place, preview};
pub use class::{CLASSES_MAX, Cgroup, Class, Classes, RULES_MAX, Rule, cgroup_root};
pub use counters::{BandCounters, Counters};
pub use cuts::Cuts;
pub use forwarded::ForwardedWatch;
pub use gain::{keep_gain, kept_gain};
pub use meter::{Meter, Missed, Response, is_tried, now};
pub use program::Facts;
pub use record::{Lost, forget_gone, lost};
pub use settings::{CUTS_MAX, ClientBy, Policy, Settings, Share};
pub use verdict::{Sample, Verdict, look, watch};
pub use warnings::warnings;

/// The settings of the classifier to attach at an interface.
#[derive(Debug, Clone)]
pub struct Classify {
    /// The ports that the servers listen on.
    pub ports: Vec<u16>,
    /// True if packets to the ports are ordered too, such as uploads from hosts behind this one.
    pub has_uploads: bool,
    pub policy: Policy,
    pub cuts: Cuts,
    /// The uplink's rate. Required if there is no tree yet.
    pub rate: Option<Rate>,
    /// True if the rate is followed. The clients' share of the link may then be based on a rate that differs by up to a
    /// quarter.
    pub is_followed: bool,
    /// The bytes that the line adds to each packet; `None` keeps the bands' present setting.
    pub overhead: Option<Overhead>,
    /// The sharing of the link between clients; `None` disables it.
    pub clients: Option<Clients>,
    pub classes: Classes,
    /// True to replace a queueing discipline that is not ours.
    pub replace: bool,
}

/// The sharing of a link between clients (`sched::policy::ClientShareSpec`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clients {
    pub share: ClientShareSpec,
    /// Number of leading bits of an IPv4 address that identify a client, 1 to 32.
    pub v4_bits: u8,
    /// Number of leading bits of an IPv6 address that identify a client, 1 to 128.
    pub v6_bits: u8,
    pub by: ClientBy,
}

impl Clients {
    /// Returns true if clients are identified by what arrives.
    fn reads_headers(self) -> bool {
        self.by == ClientBy::Proxy && self.share != ClientShareSpec::Off
    }
}

/// A classifier attached to an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    pub interface: Interface,
    pub place: Hook,
    /// The settings; `None` if another version of weir attached the classifier.
    pub settings: Option<Settings>,
    pub facts: Facts,
    pub counters: Counters,
}

impl Attached {
    /// Names the parts that the classifier needs and that have been removed since, with the remedy; `None` if nothing
    /// is missing.
    pub fn missing(&self) -> Option<String> {
        record::missing(self)
    }
}

/// The place where a classifier is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// The first program at TCX.
    Tcx,
    Clsact,
}

impl Hook {
    pub fn name(self) -> &'static str {
        match self {
            Hook::Tcx => "tcx",
            Hook::Clsact => "clsact",
        }
    }

    /// Returns the place where a new classifier would be attached to this interface.
    pub fn of_new(interface: &Interface) -> Result<Hook, Error> {
        let programs = tcx::programs(interface.index);
        let programs =
            programs.map_err(|error| program::unlisted(&format!("looking for TCX at {}", interface.name), error))?;
        Ok(if programs.is_some() { Hook::Tcx } else { Hook::Clsact })
    }
}

/// Returns all our classifiers in this network namespace.
pub fn list() -> Result<Vec<Attached>, Error> {
    let doing = "looking for classifiers";
    let has_programs = |index| tcx::programs(index).map(|programs| programs.is_some_and(|ids| !ids.is_empty()));
    let candidates = || {
        let beside_root = filter::beside_root(&mut Socket::open()?)?;
        let mut found = Vec::new();
        for RelatedInterface { interface, .. } in links()? {
            if beside_root.iter().any(|(index, _)| *index == interface.index) || has_programs(interface.index)? {
                found.push(interface);
            }
        }
        Ok(found)
    };
    let mut found = Vec::new();
    for interface in candidates().map_err(|error| Error::kernel(doing, error))? {
        // An interface that has since disappeared has none.
        match find(&interface) {
            Err(_) if interface.check().is_err() => {}
            classifier => found.extend(classifier?),
        }
    }
    Ok(found)
}

/// Returns the numbers of all programs at TCX of this interface. The kernel does not report changes to them.
pub fn numbers(interface: &Interface) -> Result<Vec<u32>, Error> {
    let doing = format!("looking for TCX at {}", interface.name);
    let mut all = Vec::new();
    for side in [Side::Leaving, Side::Arriving] {
        let found = tcx::programs_at(side, interface.index).map_err(|error| program::unlisted(&doing, error))?;
        all.extend(found.unwrap_or_default());
    }
    Ok(all)
}

/// Returns our classifier at this interface.
pub fn find(interface: &Interface) -> Result<Option<Attached>, Error> {
    let there = filter::look(interface)?;
    let Some(id) = there.ours() else { return Ok(None) };
    let program = Program::open(id)?;
    let settings = program.settings()?.and_then(|bytes| Settings::from_bytes(&bytes));
    Ok(Some(Attached {
        interface: interface.clone(),
        place: if there.at_tcx.is_empty() { Hook::Clsact } else { Hook::Tcx },
        settings,
        facts: program.facts,
        counters: Counters::read(&program)?,
    }))
}
