//! The classifier that `weir attach` hangs at an interface's egress: a tc program that tells for every packet of a TCP
//! server how urgent it is, so that a server which knows nothing of Weir has its responses ordered by size.
//!
//! It reads where a response begins and how long it is from the packets themselves (bpf/classify.bpf.c says how), or a server
//! tells it by the map [`told_map`]. It needs nobody to live: it hangs until it is taken down or its
//! interface goes, and everything about it is read back from the kernel. What it made is written in its settings, so
//! that [`detach`] removes that and no more, whoever was killed in between.

mod attach;
mod counters;
mod cuts;
mod filter;
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

use crate::device::{Link, links};
use crate::netlink::Socket;
use crate::{Error, Interface};
use program::Program;

pub use attach::{Preview, attach, detach, preview};
pub use counters::{BandCounters, Counters};
pub use cuts::Cuts;
pub use program::Facts;
pub use record::{Lost, lost};
pub use settings::{CUTS_MAX, Policy, Settings, Share};
pub use verdict::{Sample, Verdict, look, watch};
pub use warnings::warnings;

/// What is wanted at an interface.
#[derive(Debug, Clone)]
pub struct Classify {
    /// The servers' own ports.
    pub ports: Vec<u16>,
    pub policy: Policy,
    pub cuts: Cuts,
    /// The uplink's rate; needed where there is no tree yet.
    pub rate: Option<Rate>,
    /// How clients share the link, where they do.
    pub clients: Option<Clients>,
    /// Take the place of a queueing discipline that is not ours.
    pub replace: bool,
}

/// How clients share a link (`sched::policy::ClientShareSpec`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clients {
    pub share: ClientShareSpec,
    /// Leading bits of an address that are of one client, 1 to 32.
    pub v4_bits: u8,
    /// The same of IPv6, 1 to 128.
    pub v6_bits: u8,
}

/// A classifier as it hangs at an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    pub interface: Interface,
    pub place: Place,
    /// `None` for one of another version of weir.
    pub settings: Option<Settings>,
    pub facts: Facts,
    pub counters: Counters,
}

impl Attached {
    /// What it needs and somebody has removed since, with the cure.
    pub fn missing(&self) -> Option<String> {
        record::missing(self)
    }
}

/// Where a classifier hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The first program at TCX.
    Tcx,
    Clsact,
}

impl Place {
    pub fn name(self) -> &'static str {
        match self {
            Place::Tcx => "tcx",
            Place::Clsact => "clsact",
        }
    }

    /// Where attaching to this interface hangs one.
    pub fn of_new(interface: &Interface) -> Result<Place, Error> {
        let programs = tcx::programs(interface.index);
        let programs =
            programs.map_err(|error| Error::kernel(&format!("looking for TCX at {}", interface.name), error))?;
        Ok(if programs.is_some() { Place::Tcx } else { Place::Clsact })
    }
}

/// Every classifier of ours in this network namespace.
pub fn list() -> Result<Vec<Attached>, Error> {
    let doing = "looking for classifiers";
    let has_programs = |index| tcx::programs(index).map(|programs| programs.is_some_and(|ids| !ids.is_empty()));
    let candidates = || {
        let beside_root = filter::beside_root(&mut Socket::open()?)?;
        let mut found = Vec::new();
        for Link { interface, .. } in links()? {
            if beside_root.iter().any(|(index, _)| *index == interface.index) || has_programs(interface.index)? {
                found.push(interface);
            }
        }
        Ok(found)
    };
    let mut found = Vec::new();
    for interface in candidates().map_err(|error| Error::kernel(doing, error))? {
        // An interface that has gone meanwhile has none.
        match find(&interface) {
            Err(_) if interface.check().is_err() => {}
            classifier => found.extend(classifier?),
        }
    }
    Ok(found)
}

/// The classifier of ours at this interface.
pub fn find(interface: &Interface) -> Result<Option<Attached>, Error> {
    let there = filter::look(interface)?;
    let Some(id) = there.ours() else { return Ok(None) };
    let program = Program::open(id)?;
    let settings = program.settings()?.and_then(|bytes| Settings::from_bytes(&bytes));
    Ok(Some(Attached {
        interface: interface.clone(),
        place: if there.at_tcx.is_empty() { Place::Clsact } else { Place::Tcx },
        settings,
        facts: program.facts,
        counters: Counters::read(&program)?,
    }))
}
