use record::{JobRecord, Manifest, Run, Wire};
use theory::{Carrier, Demand, clairvoyant_srpt, ideal_ps, plain_service, wire_service};
use units::{Nanos, Rate, wire};

use crate::ReportError;
use crate::wire::{carrier, packet_bound};

/// Assumed for a job of which no run ever saw a response head: a small head of a plain file.
const HEAD_BYTES_FALLBACK: u64 = 240;

/// A petabyte: a larger size or head is a damaged record, and would overflow sums of bits.
const BYTES_MAX: u64 = 1 << 50;

/// 36 years: a later instant, or more work in all, is a damaged record, and would overflow the oracles' clocks.
const SPAN_MAX: Nanos = Nanos(1 << 60);

/// The most jobs the processor sharing oracle has room for.
const JOBS_MAX: usize = 1 << 23;

/// The common part of the compared runs: the jobs, what each takes on the wire, and what the oracles make of them.
pub(crate) struct Jobs {
    pub link: Rate,
    pub sizes: Vec<u64>,
    /// Time of each job alone on the idle link: the denominator of slowdown.
    pub services: Vec<Nanos>,
    pub bound: Vec<Nanos>,
    /// Mean response time of whole packets with handshakes, for each carrier of the runs, that of the first run first.
    packet_bounds_ms: Vec<(Carrier, f64)>,
    pub ideal_ps: Vec<Nanos>,
    /// Offered bits on the wire over what the link carries in the arrival window.
    pub rho_measured: f64,
}

impl Jobs {
    /// Checks that the runs may be compared, and computes what they share.
    pub fn of(runs: &[Run]) -> Result<Jobs, ReportError> {
        let first = runs.first().ok_or(ReportError::NoRuns)?;
        let link = check_manifest(&first.manifest)?;
        for run in runs {
            check_records(run)?;
            check_conditions(run, first)?;
            check_same(run, first)?;
        }
        let heads: Vec<u64> = (0..first.records.len()).map(|job| least_head(runs, job)).collect();
        let sizes: Vec<u64> = first.records.iter().map(|record| record.size_bytes).collect();
        let service = |(&size, &head): (&u64, &u64)| match first.manifest.wire {
            Wire::Tcp => wire_service(head, size, link),
            Wire::Plain => plain_service(size, link),
        };
        let services: Vec<Nanos> = sizes.iter().zip(&heads).map(service).collect();
        check_work(&first.manifest, &services)?;
        let demands: Vec<Demand> = first
            .records
            .iter()
            .zip(&services)
            .map(|(record, &service)| Demand { arrival: Nanos(record.arrival_ns), service })
            .collect();
        let (bound, ideal_ps) = (clairvoyant_srpt(&demands), ideal_ps(&demands));
        let packet_bounds_ms = match first.manifest.wire {
            Wire::Tcp => packet_bounds_ms(runs, link),
            // Without packets nothing is finished before the next may begin.
            Wire::Plain => vec![(carrier(&first.manifest), mean_ms(&bound))],
        };
        let rho_measured = rho_measured(&first.manifest, link, &sizes, &heads)?;
        Ok(Jobs { link, sizes, services, bound, packet_bounds_ms, ideal_ps, rho_measured })
    }

    /// Mean of the packet bound over the carrier of this run, which is one of the runs.
    pub fn packet_bound_ms(&self, run: &Manifest) -> f64 {
        let of_run = carrier(run);
        let found = self.packet_bounds_ms.iter().find(|(carrier, _)| *carrier == of_run);
        found.or(self.packet_bounds_ms.first()).map_or(f64::NAN, |&(_, bound_ms)| bound_ms)
    }

    /// Returns the jobs of each of several runs that differ; only the conditions have to be the same.
    pub fn of_each(runs: &[Run]) -> Result<Vec<Jobs>, ReportError> {
        let first = runs.first().ok_or(ReportError::NoRuns)?;
        runs.iter().map(|run| check_conditions(run, first).and_then(|()| Jobs::of(std::slice::from_ref(run)))).collect()
    }
}

/// Heads are those of the runs over the carrier: over HTTP/2 they are shorter.
fn packet_bounds_ms(runs: &[Run], link: Rate) -> Vec<(Carrier, f64)> {
    let mut bounds: Vec<(Carrier, f64)> = Vec::new();
    for run in runs {
        let of_run = carrier(&run.manifest);
        if bounds.iter().all(|(carrier, _)| *carrier != of_run) {
            let alike = || runs.iter().filter(|run| carrier(&run.manifest) == of_run);
            let heads: Vec<u64> = (0..run.records.len()).map(|job| least_head(alike(), job)).collect();
            bounds.push((of_run, mean_ms(&packet_bound(run, &heads, link))));
        }
    }
    bounds
}

/// Runs without jobs are refused, so there always is a mean.
pub(crate) fn mean_ms(responses: &[Nanos]) -> f64 {
    stats::mean_nanos(responses).unwrap_or_default() / 1e6
}

/// The smallest head any of the runs saw for this job, so that the bound is the least any of them could reach.
fn least_head<'a>(runs: impl IntoIterator<Item = &'a Run>, job: usize) -> u64 {
    runs.into_iter()
        .map(|run| run.records[job].head_bytes)
        .filter(|&head_bytes| head_bytes > 0)
        .min()
        .unwrap_or(HEAD_BYTES_FALLBACK)
}

/// Handshakes count as offered load, since the shaper carries them; the bound does without them.
fn rho_measured(manifest: &Manifest, link: Rate, sizes: &[u64], heads: &[u64]) -> Result<f64, ReportError> {
    let (on_link, of_connection) = match manifest.wire {
        Wire::Tcp => (wire_bytes as fn(u64, u64) -> u64, wire::CONNECTION_BYTES as f64),
        Wire::Plain => (plain_bytes as fn(u64, u64) -> u64, 0.0),
    };
    let responses: u128 = sizes.iter().zip(heads).map(|(&size, &head)| u128::from(on_link(size, head))).sum();
    let connections = sizes.len() as f64 / manifest.per_connection as f64;
    let bits = 8.0 * (responses as f64 + connections * of_connection);
    let rho = bits / (link.bits_per_s() as f64 * manifest.seconds);
    if rho.is_finite() {
        Ok(rho)
    } else {
        Err(bad(manifest, format!("arrivals went on for {} s, too short to have a load", manifest.seconds)))
    }
}

fn wire_bytes(size: u64, head: u64) -> u64 {
    wire::bytes_of(size + head, wire::SEGMENT_BYTES)
}

fn plain_bytes(size: u64, _head: u64) -> u64 {
    size
}

fn bad(manifest: &Manifest, reason: String) -> ReportError {
    ReportError::BadRun { run: manifest.name.clone(), reason }
}

fn check_manifest(manifest: &Manifest) -> Result<Rate, ReportError> {
    let Manifest { link_bps, rho, seconds, per_connection, .. } = *manifest;
    if !(seconds.is_finite() && seconds > 0.0) {
        return Err(bad(manifest, format!("seconds is {seconds}: a run has a positive length")));
    }
    if !rho.is_finite() {
        return Err(bad(manifest, format!("rho is {rho}: a load is a number")));
    }
    if per_connection == 0 {
        return Err(bad(manifest, "per_connection is 0: a connection carries at least 1 request".into()));
    }
    if link_bps == 0 && manifest.is_of_server() {
        let reason = "a server's log does not tell the rate of its link, without which there is no bound: give it with --link RATE";
        return Err(bad(manifest, reason.into()));
    }
    Rate::from_bits_per_s(link_bps)
        .ok_or_else(|| bad(manifest, format!("link_bps is {link_bps}: a link carries from 1 bit/s to 10 Tbit/s")))
}

fn check_records(run: &Run) -> Result<(), ReportError> {
    let jobs = run.records.len();
    if jobs == 0 || jobs > JOBS_MAX {
        return Err(bad(&run.manifest, format!("it has {jobs} jobs: 1 to {JOBS_MAX} can be reported")));
    }
    for (job, record) in run.records.iter().enumerate() {
        if let Some(reason) = damage(record, job) {
            return Err(bad(&run.manifest, format!("record {job} {reason}")));
        }
    }
    Ok(())
}

/// Returns what is wrong with the record of this job, if anything.
fn damage(record: &JobRecord, job: usize) -> Option<String> {
    let JobRecord { job: number, size_bytes, head_bytes, arrival_ns, end_ns, .. } = *record;
    if number != job as u64 {
        return Some(format!("is of job {number}: jobs are numbered from 0 without a gap"));
    }
    if size_bytes.max(head_bytes) > BYTES_MAX {
        return Some(format!("has a size of {size_bytes} and a head of {head_bytes} bytes, above {BYTES_MAX}"));
    }
    if end_ns < arrival_ns {
        return Some(format!("ends at {end_ns} ns, before it arrives at {arrival_ns} ns"));
    }
    (Nanos(end_ns) > SPAN_MAX).then(|| format!("ends at {end_ns} ns, later than any run lasts"))
}

/// The oracles add up all the work: keep the sum within what they can write.
fn check_work(manifest: &Manifest, services: &[Nanos]) -> Result<(), ReportError> {
    let work_ns: u128 = services.iter().map(|service| u128::from(service.0)).sum();
    if work_ns > u128::from(SPAN_MAX.0) {
        return Err(bad(manifest, "its jobs would keep the link busy for more than 36 years".into()));
    }
    Ok(())
}

fn check_conditions(run: &Run, first: &Run) -> Result<(), ReportError> {
    let (given, expected) = (run.manifest.wire, first.manifest.wire);
    if given != expected {
        let (given, expected) = (given.name(), expected.name());
        let reason = format!(
            "wire is {given}, but {expected} in run `{}`; only runs of like links compare",
            first.manifest.name
        );
        return Err(bad(&run.manifest, reason));
    }
    let conditions = [
        ("link_bps", run.manifest.link_bps, first.manifest.link_bps),
        ("per_connection", run.manifest.per_connection, first.manifest.per_connection),
    ];
    match conditions.iter().find(|(_, given, expected)| given != expected) {
        Some(&(what, given, expected)) => {
            let (run, first) = (run.manifest.name.clone(), first.manifest.name.clone());
            Err(ReportError::DifferentConditions { run, first, what, given, expected })
        }
        None => Ok(()),
    }
}

fn check_same(run: &Run, first: &Run) -> Result<(), ReportError> {
    let (name, first_name) = (|| run.manifest.name.clone(), || first.manifest.name.clone());
    let (jobs, expected) = (run.records.len(), first.records.len());
    if jobs != expected {
        return Err(ReportError::DifferentCount { run: name(), first: first_name(), jobs, expected });
    }
    let asked = |record: &JobRecord| (record.arrival_ns, record.size_bytes);
    let mut pairs = run.records.iter().map(asked).zip(first.records.iter().map(asked)).enumerate();
    match pairs.find(|(_, (given, expected))| given != expected) {
        Some((job, (given, expected))) => {
            Err(ReportError::DifferentJob { run: name(), first: first_name(), job, given, expected })
        }
        None => Ok(()),
    }
}
