//! Creates the discipline of the link from the policy's spec.
//!
//! `ps`, and `las` if service is fluid, are exact disciplines of the simulator. Everything else is a [`PolicySpec`],
//! whose sizes are converted to link time, the scheduler's unit here ([`super::scheduled`]).

use sched::classes::{ByClass, ClassSpec, ClassTable};
use sched::policy::{self, BandSpec, Order, PolicySpec};
use sched::{Policy, Sharing};
use units::{Nanos, Rate};

use super::line::Line;
use super::{Config, Error};

/// The default chunk for a policy that takes turns: a full segment, as in the server's grant.
pub const CHUNK_BYTES_USUAL: u64 = units::wire::SEGMENT_BYTES;

/// A rank that grows as a job is served uses chunks of at most this part of the mean size, which is practically exact.
pub const CHUNKS_OF_MEAN_MIN: u32 = 50;

pub(super) enum Discipline {
    ProcessorSharing,
    LeastAttained,
    Fluid(Box<dyn Policy>),
    Chunked(Box<dyn Policy>, Nanos),
    Classes(Classes, Nanos),
}

/// The classes of a table, in link time.
pub(super) struct Classes {
    pub policy: Box<dyn Policy>,
    pub table: ClassTable,
}

/// A discipline, and its settings that the caller did not specify but should know.
pub(super) struct Resolved {
    pub discipline: Discipline,
    /// The bytes of a chunk on the link, if service is in chunks.
    pub chunk_bytes: Option<u64>,
    /// The cut points of bands, in bytes on the link.
    pub cuts_bytes: Vec<u64>,
}

impl Resolved {
    /// Returns the discipline with this policy in place of its own. Service stays fluid or in chunks.
    pub fn under(self, policy: Box<dyn Policy>) -> Resolved {
        let discipline = match self.discipline {
            Discipline::Chunked(_, chunk) => Discipline::Chunked(policy, chunk),
            _ => Discipline::Fluid(policy),
        };
        Resolved { discipline, ..self }
    }
}

/// Creates the discipline. `quantile` is the quantile function of the bytes on the link.
pub(super) fn resolve(config: &Config, quantile: &dyn Fn(f64) -> f64, line: &Line) -> Result<Resolved, Error> {
    let exact = |discipline| Ok(Resolved { discipline, chunk_bytes: None, cuts_bytes: Vec::new() });
    let (spec, chunk_bytes) = (config.policy.as_str(), config.chunk_bytes);
    if let Some(table) = &config.class_table {
        return classes(config, table, quantile, line);
    }
    if spec == "ps" {
        check_ps(config)?;
        return exact(Discipline::ProcessorSharing);
    }
    let policy: PolicySpec = spec.parse().map_err(|error| Error::field("policy", error))?;
    let is_las = *policy.order() == Order::Las || spec.strip_prefix("rank:").is_some_and(|rank| rank.trim() == "sent");
    let is_paused = config.slots.as_ref().is_some_and(|slots| slots.sharing == Sharing::AnyUntilWanted);
    if is_las && !is_paused && chunk_bytes.is_none() {
        return exact(Discipline::LeastAttained);
    }
    let (order, cuts_bytes) = scaled(policy.order(), quantile, line);
    let scaled = PolicySpec::from(order);
    let turns = is_las || policy.takes_turns();
    let is_rank = matches!(policy.order(), Order::Rank(_));
    let usual = || if is_rank { chunk_of(quantile) } else { CHUNK_BYTES_USUAL };
    let chunk_bytes = chunk_bytes.or_else(|| turns.then(usual));
    let parsed = scaled.build();
    let discipline = match chunk_bytes {
        None => Discipline::Fluid(parsed),
        Some(0) => return Err(Error::field("chunk", "chunks of 0 bytes never end: write at least 1")),
        Some(bytes) => Discipline::Chunked(parsed, line.time_for(bytes)),
    };
    Ok(Resolved { discipline, chunk_bytes, cuts_bytes })
}

/// The chunk for a rank that grows, for sizes with this quantile function.
fn chunk_of(quantile: &dyn Fn(f64) -> f64) -> u64 {
    const POINTS: u32 = 1000;
    let sizes = (0..POINTS).map(|point| quantile((f64::from(point) + 0.5) / f64::from(POINTS)));
    let mean = sizes.sum::<f64>() / f64::from(POINTS);
    ((mean / f64::from(CHUNKS_OF_MEAN_MIN)) as u64).clamp(1, CHUNK_BYTES_USUAL)
}

/// Converts an order from bytes to link time. Also returns its cut points in bytes.
fn scaled(order: &Order, quantile: &dyn Fn(f64) -> f64, line: &Line) -> (Order, Vec<u64>) {
    let cuts_bytes = cut_points(order, quantile);
    let mut cuts: Vec<u64> = cuts_bytes.iter().map(|&cut| line.time_for(cut).0).collect();
    // Cut points above 584 years saturate to the same time.
    cuts.dedup();
    let scaled = match order {
        // A single band is first come, first served.
        Order::SrptBands(_) if cuts_bytes.is_empty() => Order::Fcfs,
        Order::SrptBands(_) => Order::SrptBands(BandSpec::at_bytes(cuts)),
        Order::QuickFix { .. } => Order::QuickFix { cut_bytes: cuts[0] },
        Order::Rank(expression) => Order::Rank(Box::new(super::rank::of_link(expression, quantile, line))),
        other => other.clone(),
    };
    (scaled, cuts_bytes)
}

/// Converts classes. Weights and guarantees are shares and need no conversion; rates and sizes do. Service is in
/// chunks, because classes take turns.
fn classes(config: &Config, table: &ClassTable, quantile: &dyn Fn(f64) -> f64, line: &Line) -> Result<Resolved, Error> {
    let chunk_bytes = config.chunk_bytes.unwrap_or(CHUNK_BYTES_USUAL);
    if chunk_bytes == 0 {
        return Err(Error::field("chunk", "chunks of 0 bytes never end: write at least 1"));
    }
    let spec = |spec: &ClassSpec| ClassSpec {
        order: scaled(&spec.order, quantile, line).0,
        guaranteed: spec.guaranteed.map(|rate| of_link_time(rate, config.link)),
        greatest: spec.greatest.map(|rate| of_link_time(rate, config.link)),
        ..spec.clone()
    };
    let table = ClassTable { classes: table.classes.iter().map(spec).collect(), slot_sharing: table.slot_sharing };
    let policy =
        Box::new(ByClass::new(CLASSES.into(), &table.classes, None, Some(of_link_time(config.link, config.link))));
    let discipline = Discipline::Classes(Classes { policy, table }, line.time_for(chunk_bytes));
    Ok(Resolved { discipline, chunk_bytes: Some(chunk_bytes), cuts_bytes: Vec::new() })
}

/// The name of the policy if a table of classes determines the order.
pub const CLASSES: &str = "classes";

/// The rate of the link in the scheduler's unit: a nanosecond of link time, as a byte, each nanosecond.
const LINK_TIME_BITS_PER_S: u64 = 8_000_000_000;

/// Converts a rate to that unit, to a billionth of the link, which is also the minimum.
fn of_link_time(rate: Rate, link: Rate) -> Rate {
    let bits = u128::from(rate.bits_per_s()) * u128::from(LINK_TIME_BITS_PER_S) / u128::from(link.bits_per_s());
    // A rate above the link's is no limit.
    let bits = u64::try_from(bits).unwrap_or(u64::MAX).clamp(8, LINK_TIME_BITS_PER_S);
    Rate::from_bits_per_s(bits).expect("between a byte each second and a byte each nanosecond")
}

fn check_ps(config: &Config) -> Result<(), Error> {
    match config.chunk_bytes {
        Some(_) => Err(Error::field("chunk", "ps is exact processor sharing and has no chunks: write fair instead")),
        None => Ok(()),
    }
}

/// The cut points in bytes of a policy that has any, computed here from the known distribution.
fn cut_points(order: &Order, quantile: &dyn Fn(f64) -> f64) -> Vec<u64> {
    match order {
        Order::SrptBands(bands) => {
            bands.cuts().map_or_else(|| policy::best_cuts(quantile, bands.count()), <[u64]>::to_vec)
        }
        Order::QuickFix { cut_bytes } => vec![*cut_bytes],
        _ => Vec::new(),
    }
}
