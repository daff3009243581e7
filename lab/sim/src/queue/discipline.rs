//! From the policy's spec to the discipline of the link.
//!
//! `ps`, and `las` where service is fluid, are exact disciplines of the simulator. Everything else is a spec of
//! [`sched::policy::parse`], whose sizes are turned into link time, the drain's unit here ([`super::drained`]).

use sched::Policy;
use sched::policy::{self, QuickFix};
use units::Nanos;

use super::Error;
use super::line::Line;

/// What chunks are where a policy takes turns, and none were asked for: a full segment, the server's grant.
pub const CHUNK_BYTES_USUAL: u64 = units::wire::SEGMENT_BYTES;

/// Bands that are counted, not cut by hand, are at most this many; a greater number is a cut point.
const BANDS_COUNTED_MAX: usize = policy::BANDS_MAX;

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
pub(super) fn resolve(
    spec: &str,
    chunk_bytes: Option<u64>,
    quantile: &dyn Fn(f64) -> f64,
    line: &Line,
) -> Result<Resolved, Error> {
    if let Some(discipline) = exact(spec, chunk_bytes)? {
        return Ok(Resolved { discipline, chunk_bytes: None, cuts_bytes: Vec::new() });
    }
    let (classes, inner) = match spec.rsplit_once('/') {
        Some((classes, inner)) => (Some(classes), inner),
        None => (None, spec),
    };
    let cuts_bytes = cut_points(inner, quantile)?;
    let name = inner.split(':').next().unwrap_or(inner);
    let inner = match (name, &cuts_bytes[..]) {
        ("srpt-bands", []) => "fcfs".into(),
        ("srpt-bands" | "quick-fix", cuts) => {
            // With a unit: a small number alone would be so many bands.
            let cuts: Vec<String> = cuts.iter().map(|&cut| format!("{}B", line.time_for(cut).0)).collect();
            format!("{name}:{}", cuts.join(","))
        }
        _ => inner.into(),
    };
    let scaled = classes.map_or(inner.clone(), |classes| format!("{classes}/{inner}"));
    // What is wrong is said of what was written, if it is wrong there too.
    let parsed =
        policy::parse(&scaled).map_err(|scaled| Error::field("policy", policy::parse(spec).err().unwrap_or(scaled)))?;
    let chunk_bytes = chunk_bytes.or_else(|| takes_turns(classes, name).then_some(CHUNK_BYTES_USUAL));
    let discipline = match chunk_bytes {
        None => Discipline::Fluid(parsed),
        Some(0) => return Err(Error::field("chunk", "chunks of 0 bytes never end: write at least 1")),
        Some(bytes) => Discipline::Chunked(parsed, line.time_for(bytes)),
    };
    Ok(Resolved { discipline, chunk_bytes, cuts_bytes })
}

/// The disciplines that no drain is needed for.
fn exact(spec: &str, chunk_bytes: Option<u64>) -> Result<Option<Discipline>, Error> {
    match (spec, chunk_bytes) {
        ("ps", None) => Ok(Some(Discipline::ProcessorSharing)),
        ("ps", Some(_)) => {
            Err(Error::field("chunk", "ps is exact processor sharing and has no chunks: write fair instead"))
        }
        ("las", None) => Ok(Some(Discipline::LeastAttained)),
        _ => Ok(None),
    }
}

/// Whether the order changes by being served, without any arrival: then there is no fluid limit to jump to.
fn takes_turns(classes: Option<&str>, inner: &str) -> bool {
    matches!(inner, "fair" | "las") || classes.is_some_and(|classes| !classes.starts_with("strict"))
}

/// The cut points in bytes of a policy that has some, learned here from the distribution that is known.
///
/// Cut points by hand are looked at by the policy itself before they are turned into time.
fn cut_points(inner: &str, quantile: &dyn Fn(f64) -> f64) -> Result<Vec<u64>, Error> {
    let (name, option) = inner.split_once(':').map_or((inner, None), |(name, option)| (name, Some(option)));
    let option = match (name, option) {
        ("srpt-bands", option) => option.unwrap_or("5"),
        ("quick-fix", None) => return Ok(vec![QuickFix::CUT_BYTES]),
        ("quick-fix", Some(option)) => option,
        _ => return Ok(Vec::new()),
    };
    match option.parse::<usize>() {
        Ok(bands) if name == "srpt-bands" && (1..=BANDS_COUNTED_MAX).contains(&bands) => {
            Ok(policy::best_cuts(quantile, bands))
        }
        _ => policy::parse(inner)
            .map_err(|error| Error::field("policy", error))
            .map(|_| option.split(','))?
            .map(|cut| units::parse_size(cut).map_err(|error| Error::field("policy", error)))
            .collect::<Result<_, _>>(),
    }
}
