//! The reasons why a run may not be used: the machine and not the schedule would have been measured.

use record::{JobRecord, Run};
use theory::wire_service;
use units::wire::SEGMENT_BYTES;
use units::{Nanos, Rate};

/// The share of a core above which the server or the load generator may itself have been the bottleneck.
pub const CPU_MAX: f64 = 0.5;

/// The lateness of the load generator at the 99th percentile above which arrivals differ from the requested ones.
pub const LATENESS_P99_MAX: Nanos = Nanos::from_millis(1);

/// The share of the run's time for which the server was ready and waited for a processor, above which other programs
/// determined its speed.
///
/// Measured on the same jobs (000, figure 3, rho 0.3 to 0.8, 90,000 requests), with programs of equal priority and
/// without. The table gives the mean response time relative to the same run without other programs, by the share for
/// the 2 s in which a request arrived:
///
/// | share, % | < 1 | 1-5 | 5-7.5 | 7.5-10 | 10-15 | 15-20 | 20-30 | > 30 |
/// |---|---|---|---|---|---|---|---|---|
/// | Apache, attach srpt | 1.00 | 1.04 | 1.08 | 1.12 | 1.16 | 1.25 | 1.38 | 2.7 |
/// | Weir, bands | 1.00 | 1.04 | 1.07 | 1.16 | 1.19 | 1.39 | 1.43 | 4.2 |
///
/// For whole runs, in which the worst seconds count most, the ratio is 0.95 to 1.02 with at most 3 %, 0.98 to 1.04 with
/// 5 to 7 % (paced under W1, whose own threads wait for each other), 1.28 with 9 %, and 1.17 to 1.28 with 10 to 18 %.
/// If connections share one FIFO, requests wait there and not for the processor: the means then show no effect, but the
/// medians do (1.04 with 7.5 to 10 %).
pub const SERVER_WAIT_MAX: f64 = 0.075;

/// The share of all processors' time above which the machine was full. It is used only if the kernel does not report
/// how long the server waited.
pub const MACHINE_BUSY_MAX: f64 = 0.9;

/// Returns all reasons why the run is void, in one text; `None` if it is valid.
pub fn void_reason(run: &Run) -> Option<String> {
    let manifest = &run.manifest;
    let mut reasons: Vec<String> = manifest.void.iter().cloned().collect();
    for (who, cpu) in [("the server", manifest.server_cpu), ("the load generator", manifest.client_cpu)] {
        // A figure that is not a number was not measured, which is no better than too high.
        if let Some(cpu) = cpu.filter(|&cpu| cpu.is_nan() || cpu > CPU_MAX) {
            add(&mut reasons, format!("{who} used {cpu:.2} of a core, more than {CPU_MAX}"));
        }
    }
    if let Some(lateness) = manifest.lateness_ns_p99.map(Nanos).filter(|late| *late > LATENESS_P99_MAX) {
        let [late, most] = [lateness, LATENESS_P99_MAX].map(Nanos::as_millis_f64);
        let reason = format!("requests were submitted {late:.2} ms late at the 99th percentile, more than {most} ms");
        add(&mut reasons, reason);
    }
    for reason in processors(manifest).into_iter().chain(not_a_wire(run)) {
        add(&mut reasons, reason);
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Returns a reason if the server had too little processor time. Other programs on the machine do not void a run that
/// they did not delay.
fn processors(manifest: &record::Manifest) -> Option<String> {
    let share = |name: &str| manifest.environment.get(name)?.parse::<f64>().ok();
    let percent = |share: f64| share * 100.0;
    if let Some(wait) = share("server_wait_share") {
        let [wait_percent, most] = [wait, SERVER_WAIT_MAX].map(percent);
        let reason = format!("the server waited for a processor {wait_percent:.1} % of the time, more than {most} %");
        return (wait > SERVER_WAIT_MAX).then_some(reason);
    }
    let busy = share("machine_busy_share").filter(|busy| *busy > MACHINE_BUSY_MAX)?;
    let [busy, most] = [busy, MACHINE_BUSY_MAX].map(percent);
    Some(format!("the processors were {busy:.0} % busy, more than {most} %"))
}

/// Adds a reason, unless the load generator has reported the same.
fn add(reasons: &mut Vec<String>, reason: String) {
    if !reasons.iter().any(|said| said.contains(&reason)) {
        reasons.push(reason);
    }
}

/// The time by which a response may seem to end before its wire time. Two programs and two kernels count in nanoseconds
/// and read their clocks before and after the event. A byte takes 800 ns at 10 Mbit/s; a token bucket can be 1,211 us
/// early.
const CLOCK_GRANULARITY: Nanos = Nanos::from_micros(1);

/// The key of a manifest's environment for a link that serialises packets; its value says how. Runs over a token bucket
/// do not have it.
const WIRE: &str = "wire";

/// Returns the number of completed jobs that took less time than the link needs for their own bytes alone.
///
/// A token bucket sends a packet first and waits afterwards. A response then ends up to a packet early, and a run seems
/// closer to the bounds than any schedule on a wire can be. No figure of the run shows it.
pub(crate) fn beat_wire_time(run: &Run) -> usize {
    let Some(link) = Rate::from_bits_per_s(run.manifest.link_bps) else { return 0 };
    run.records.iter().filter(|record| record.is_complete() && beats(record, link)).count()
}

/// Returns the reason why a run that claims to have used a wire is void.
fn not_a_wire(run: &Run) -> Option<String> {
    let beat = Some(beat_wire_time(run)).filter(|beat| *beat > 0 && run.manifest.environment.contains_key(WIRE))?;
    let completed = run.records.iter().filter(|record| record.is_complete()).count();
    Some(format!("{beat} of {completed} jobs beat their own wire time: the link does not serialise"))
}

/// Links round the time of every packet to a nanosecond.
fn beats(record: &JobRecord, link: Rate) -> bool {
    let rounding = Nanos((record.head_bytes + record.body_bytes).div_ceil(SEGMENT_BYTES));
    let needed = wire_service(record.head_bytes, record.body_bytes, link);
    record.response_time() + CLOCK_GRANULARITY + rounding < needed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run;

    fn said(change: impl Fn(&mut record::Manifest)) -> Option<String> {
        let mut run = run("a", &[(0, 10, 1)]);
        change(&mut run.manifest);
        void_reason(&run)
    }

    #[test]
    fn at_the_limit_is_good() {
        assert_eq!(said(|_| ()), None);
        assert_eq!(said(|manifest| manifest.server_cpu = Some(CPU_MAX)), None);
        assert_eq!(said(|manifest| manifest.lateness_ns_p99 = Some(LATENESS_P99_MAX.0)), None);
    }

    #[test]
    fn a_server_that_waited_for_a_processor_is_void_and_a_full_machine_that_did_not_delay_it_is_not() {
        let shares = |pairs: &[(&str, &str)]| {
            said(|manifest| manifest.environment.extend(pairs.iter().map(|(k, v)| (k.to_string(), v.to_string()))))
        };
        assert_eq!(shares(&[("machine_busy_share", "0.99"), ("server_wait_share", "0.075")]), None);
        assert_eq!(shares(&[("machine_busy_share", "0.9")]), None);
        let waited = shares(&[("machine_busy_share", "0.5"), ("server_wait_share", "0.0891")]).unwrap();
        assert_eq!(waited, "the server waited for a processor 8.9 % of the time, more than 7.5 %");
        assert_eq!(shares(&[("machine_busy_share", "0.95")]).unwrap(), "the processors were 95 % busy, more than 90 %");
    }

    #[test]
    fn above_it_says_what() {
        let given = said(|manifest| manifest.void = Some("the link was wrong".into()));
        assert_eq!(given.unwrap(), "the link was wrong");
        let twice = said(|manifest| {
            manifest.void = Some("a; the load generator used 0.51 of a core, more than 0.5; b".into());
            manifest.client_cpu = Some(0.51);
        });
        assert_eq!(twice.unwrap().matches("load generator").count(), 1);
        assert!(said(|manifest| manifest.client_cpu = Some(0.51)).unwrap().starts_with("the load generator used 0.51"));
        let both = said(|manifest| {
            manifest.server_cpu = Some(1.0);
            manifest.lateness_ns_p99 = Some(1_500_000);
        });
        assert_eq!(
            both.unwrap(),
            "the server used 1.00 of a core, more than 0.5; \
             requests were submitted 1.50 ms late at the 99th percentile, more than 1 ms"
        );
    }

    /// 1,000 + 200 bytes take 1,266 us at a byte per microsecond.
    fn took(response_ns: u64) -> Run {
        let mut run = run("a", &[(0, 1000, 5), (9, 1000, 5)]);
        run.records[1].end_ns = run.records[1].arrival_ns + response_ns;
        run
    }

    #[test]
    fn a_job_sooner_than_its_own_bytes_is_found() {
        assert_eq!(beat_wire_time(&took(1_266_000)), 0);
        // At the limit of the clock's resolution, and a nanosecond for its packet.
        assert_eq!((beat_wire_time(&took(1_264_999)), beat_wire_time(&took(1_264_998))), (0, 1));
        let mut short = took(100_000);
        short.records[1].outcome = record::Outcome::Reset;
        assert_eq!(beat_wire_time(&short), 0, "it did not complete");
        let mut empty = took(266_000);
        empty.records[1].body_bytes = 0;
        assert_eq!(beat_wire_time(&empty), 0, "a head of 200 bytes and nothing else");
    }

    #[test]
    fn a_wire_that_is_none_is_void_and_a_bucket_that_is_none_is_not() {
        let mut run = took(100_000);
        assert_eq!(void_reason(&run), None);
        run.manifest.environment.insert(WIRE.into(), "netem rate 8000000".into());
        let said = "1 of 2 jobs beat their own wire time: the link does not serialise";
        assert_eq!(void_reason(&run).as_deref(), Some(said));
        let mut good = took(1_266_000);
        good.manifest.environment = run.manifest.environment;
        assert_eq!(void_reason(&good), None);
    }
}
