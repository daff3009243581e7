//! From the policy's spec to the discipline of the link.
//!
//! `ps`, and `las` where service is fluid, are exact disciplines of the simulator. Everything else is a
//! [`PolicySpec`], whose sizes are turned into link time, the drain's unit here ([`super::drained`]).

use sched::policy::{self, BandSpec, Order, PolicySpec};
use sched::{Policy, Sharing};
use units::Nanos;

use super::line::Line;
use super::{Config, Error};

/// What chunks are where a policy takes turns, and none were asked for: a full segment, the server's grant.
pub const CHUNK_BYTES_USUAL: u64 = units::wire::SEGMENT_BYTES;

pub(super) enum Discipline {
    ProcessorSharing,
    LeastAttained,
    Fluid(Box<dyn Policy>),
    Chunked(Box<dyn Policy>, Nanos),
}

/// A discipline, and what the caller did not write but should know.
pub(super) struct Resolved {
    pub discipline: Discipline,
    /// Chunks in bytes on the link, if service is in chunks.
    pub chunk_bytes: Option<u64>,
    /// The cut points of bands in bytes on the link.
    pub cuts_bytes: Vec<u64>,
}

/// `quantile` is that of the bytes on the link.
pub(super) fn resolve(config: &Config, quantile: &dyn Fn(f64) -> f64, line: &Line) -> Result<Resolved, Error> {
    let exact = |discipline| Ok(Resolved { discipline, chunk_bytes: None, cuts_bytes: Vec::new() });
    let (spec, chunk_bytes) = (config.policy.as_str(), config.chunk_bytes);
    if spec == "ps" {
        check_ps(config)?;
        return exact(Discipline::ProcessorSharing);
    }
    let policy: PolicySpec = spec.parse().map_err(|error| Error::field("policy", error))?;
    let is_las = *policy.order() == Order::Las && !policy.has_classes();
    let is_paused = config.slots.as_ref().is_some_and(|slots| slots.sharing == Sharing::AnyUntilWanted);
    if is_las && !is_paused && chunk_bytes.is_none() && config.connections.is_none() && !config.clients.is_any() {
        return exact(Discipline::LeastAttained);
    }
    let cuts_bytes = cut_points(policy.order(), quantile);
    let mut cuts: Vec<u64> = cuts_bytes.iter().map(|&cut| line.time_for(cut).0).collect();
    // Above 584 years cut points saturate to the same time.
    cuts.dedup();
    let scaled = match policy.order() {
        // One band is first come, first served.
        Order::SrptBands(_) if cuts_bytes.is_empty() => policy.with_order(Order::Fcfs),
        Order::SrptBands(_) => policy.with_order(Order::SrptBands(BandSpec::at_bytes(cuts))),
        Order::QuickFix { .. } => policy.with_order(Order::QuickFix { cut_bytes: cuts[0] }),
        _ => policy.clone(),
    };
    let share = config.clients.share_of(config.link, line);
    let turns = is_las || policy.takes_turns() || share.is_some();
    let chunk_bytes = chunk_bytes.or_else(|| turns.then_some(CHUNK_BYTES_USUAL));
    let parsed = share.map_or_else(|| scaled.build(), |share| scaled.build_shared(share));
    let discipline = match chunk_bytes {
        None => Discipline::Fluid(parsed),
        Some(0) => return Err(Error::field("chunk", "chunks of 0 bytes never end: write at least 1")),
        Some(bytes) => Discipline::Chunked(parsed, line.time_for(bytes)),
    };
    Ok(Resolved { discipline, chunk_bytes, cuts_bytes })
}

fn check_ps(config: &Config) -> Result<(), Error> {
    let given = [
        ("connections", config.connections.is_some(), "ps is exact processor sharing of jobs"),
        ("clients", config.clients.is_any(), "ps is exact processor sharing of jobs"),
        ("chunk", config.chunk_bytes.is_some(), "ps is exact processor sharing and has no chunks"),
    ];
    match given.into_iter().find(|(_, is_given, _)| *is_given) {
        Some((field, _, reason)) => Err(Error::field(field, format_args!("{reason}: write fair instead"))),
        None => Ok(()),
    }
}

/// The cut points in bytes of a policy that has some, learned here from the distribution that is known.
fn cut_points(order: &Order, quantile: &dyn Fn(f64) -> f64) -> Vec<u64> {
    match order {
        Order::SrptBands(bands) => {
            bands.cuts().map_or_else(|| policy::best_cuts(quantile, bands.count()), <[u64]>::to_vec)
        }
        Order::QuickFix { cut_bytes } => vec![*cut_bytes],
        _ => Vec::new(),
    }
}
