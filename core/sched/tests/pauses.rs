//! A response of unknown size whose source pauses starts over in the order: for events, tunnels and followed logs, the
//! bytes sent so far say nothing about the size.

use std::sync::Arc;

use proptest::prelude::*;
use sched::routes::{Curve, Knot};
use sched::{Arrival, JobId, Pace, SOURCE_PAUSE, Scheduler, Size, Why, policy};
use units::Nanos;

const SHORT: Nanos = Nanos(SOURCE_PAUSE.0 - 1);
const KILO: u64 = 1 << 10;

fn scheduler(policy: &str) -> Scheduler {
    Scheduler::new(policy::parse(policy).unwrap(), Pace::UNLIMITED)
}

fn open_ended(scheduler: &mut Scheduler) -> JobId {
    scheduler.arrive(Nanos(0), Arrival::of(Size::AtLeast(0)))
}

fn send(scheduler: &mut Scheduler, now: Nanos, job: JobId, bytes: u64) {
    assert!(!scheduler.on_sent(now, job, bytes).is_departed());
}

/// Pauses a stream that was sent much; returns the job that is first then, in competition with a download that was sent
/// less.
fn first_after(scheduler: &mut Scheduler, stream: JobId, now: Nanos, pause: Nanos) -> JobId {
    scheduler.on_dry(now, stream);
    scheduler.on_wait_over(now + pause, stream, Why::Source);
    scheduler.poll_grant(now + pause).unwrap().job
}

#[test]
fn a_stream_that_paused_is_first_again() {
    for policy in ["srpt", "las", "psjf", "srrt", "fcf", "fsp", "srpt-bands:9000,20000", "quick-fix"] {
        let mut scheduler = scheduler(policy);
        let (download, stream) = (open_ended(&mut scheduler), open_ended(&mut scheduler));
        send(&mut scheduler, Nanos(0), download, 10 * KILO);
        send(&mut scheduler, Nanos(0), stream, 1000 * KILO);
        assert_eq!(first_after(&mut scheduler, stream, Nanos(5), SHORT), download, "{policy}");
        assert_eq!(first_after(&mut scheduler, stream, Nanos(5), SOURCE_PAUSE), stream, "{policy}");
        // It falls behind as it continues.
        send(&mut scheduler, Nanos(5), stream, 30 * KILO);
        assert_eq!(scheduler.poll_grant(Nanos(5)).unwrap().job, download, "{policy}");
        assert_eq!(scheduler.jobs().get(stream).unwrap().attained, 1030 * KILO, "what it had is counted");
    }
}

#[test]
fn what_its_like_say_holds_from_there() {
    let mut scheduler = scheduler("srpt");
    let (download, stream) = (open_ended(&mut scheduler), open_ended(&mut scheduler));
    // Small sizes are likely; a larger one is huge.
    let knot = |from_bytes, rank| Knot { from_bytes, rank, slope: 0.0 };
    let curve = Arc::new(Curve::new(vec![knot(0, 100.0), knot(2 * KILO, 1e9)]));
    scheduler.on_curve(stream, Some(curve));
    send(&mut scheduler, Nanos(0), download, 10 * KILO);
    send(&mut scheduler, Nanos(0), stream, 3 * KILO);
    assert_eq!(first_after(&mut scheduler, stream, Nanos(5), SHORT), download);
    assert_eq!(first_after(&mut scheduler, stream, Nanos(5), SOURCE_PAUSE), stream);
}

/// A slow reader, or a full link, is no pause of the source; and a known size stays what it is.
#[test]
fn only_the_source_of_an_unknown_size_counts() {
    let mut scheduler = scheduler("srpt");
    let (download, stream) = (open_ended(&mut scheduler), open_ended(&mut scheduler));
    send(&mut scheduler, Nanos(0), download, 10 * KILO);
    send(&mut scheduler, Nanos(0), stream, 100 * KILO);
    for why in [Why::Connection, Why::Disk, Why::Stream, Why::Limit] {
        scheduler.on_wait(stream, why);
        scheduler.on_wait_over(Nanos::from_secs(100), stream, why);
        assert_eq!(scheduler.poll_grant(Nanos::from_secs(100)).unwrap().job, download, "{why:?}");
    }
    // The reader waits longer than the source.
    let at = Nanos::from_secs(200);
    scheduler.on_dry(at, stream);
    scheduler.on_wait(stream, Why::Connection);
    scheduler.on_wait_over(at + SHORT, stream, Why::Source);
    scheduler.on_wait_over(at + SOURCE_PAUSE, stream, Why::Connection);
    assert_eq!(scheduler.poll_grant(at + SOURCE_PAUSE).unwrap().job, download);
    // A body of a known length that stalls.
    scheduler.on_size(stream, Size::Known(1000 * KILO)).unwrap();
    assert_eq!(first_after(&mut scheduler, stream, Nanos::from_secs(300), SOURCE_PAUSE), download);
}

/// On a connection of several responses it goes to the front among them, and the connection with it.
#[test]
fn a_stream_among_others_of_its_connection() {
    let mut scheduler = scheduler("srpt");
    let connection = scheduler.open(units::wire::Framing::ETHERNET);
    let mut arrive = || {
        let arrival = Arrival::of(Size::AtLeast(0));
        scheduler.arrive_on(Nanos(0), connection, arrival, sched::Precedence::default()).unwrap()
    };
    let (download, stream) = (arrive(), arrive());
    let alone = open_ended(&mut scheduler);
    for (job, kilos) in [(download, 20), (stream, 1000), (alone, 10)] {
        send(&mut scheduler, Nanos(0), job, kilos * KILO);
    }
    assert_eq!(first_after(&mut scheduler, stream, Nanos(5), SHORT), alone);
    assert_eq!(first_after(&mut scheduler, stream, Nanos(5), SOURCE_PAUSE), stream);
}

/// Bytes and pauses of one of several streams.
type Step = (usize, u64, u64);

proptest! {
    /// Under LAS the first is always the one with the fewest bytes since its last pause of a second, whatever happens.
    #[test]
    fn the_rank_counts_from_the_last_pause(steps in prop::collection::vec((0usize..4, 0u64..5000, 0u64..2_000), 1..100)) {
        let mut scheduler = scheduler("las");
        let jobs: Vec<JobId> = (0..4).map(|_| open_ended(&mut scheduler)).collect();
        let (mut since, mut sent, mut now) = ([0; 4], [0; 4], Nanos(0));
        for (who, bytes, pause_ms) in steps as Vec<Step> {
            send(&mut scheduler, now, jobs[who], bytes);
            (since[who], sent[who]) = (since[who] + bytes, sent[who] + bytes);
            if pause_ms % 2 == 1 {
                scheduler.on_dry(now, jobs[who]);
                // A second report of the same pause does not move its start.
                now += Nanos::from_millis(pause_ms / 3);
                scheduler.on_dry(now, jobs[who]);
                now += Nanos::from_millis(pause_ms - pause_ms / 3);
                scheduler.on_wait_over(now, jobs[who], Why::Source);
                since[who] = if pause_ms >= 1000 { 0 } else { since[who] };
            }
            let least = (0..4).min_by_key(|at| (since[*at], *at)).unwrap();
            prop_assert_eq!(scheduler.poll_grant(now).unwrap().job, jobs[least]);
            prop_assert_eq!(scheduler.jobs().get(jobs[who]).unwrap().attained, sent[who]);
        }
    }
}
