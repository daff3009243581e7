//! The laws of connections: with one job each nothing changes, and with many each offers its best and the policy orders
//! the offers.

use std::sync::Arc;

use proptest::prelude::*;
use sched::classes::{ByClass, ClassSpec};
use sched::policy::Order;
use sched::routes::{Curve, Knot};
use sched::{Arrival, ConnectionId, Grant, Guard, JobId, Pace, Policy, Precedence, Scheduler, Sent, Size, Why, policy};
use units::Nanos;
use units::wire::Framing;

/// An event of one of the jobs, or of the system.
#[derive(Debug, Clone, Copy)]
enum Step {
    Arrive { bytes: u64, class: u16, is_known: bool },
    Serve { of_grant: u64 },
    Wait { of_jobs: usize },
    Ready { of_jobs: usize },
    Abort { of_jobs: usize },
    Pass { micros: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1u64..9000, 0u16..3, prop::bool::weighted(0.8)).prop_map(|(bytes, class, is_known)| Step::Arrive { bytes, class, is_known }),
        8 => (0u64..4).prop_map(|of_grant| Step::Serve { of_grant }),
        1 => (0usize..50).prop_map(|of_jobs| Step::Wait { of_jobs }),
        2 => (0usize..50).prop_map(|of_jobs| Step::Ready { of_jobs }),
        1 => (0usize..50).prop_map(|of_jobs| Step::Abort { of_jobs }),
        4 => (1u64..3000).prop_map(|micros| Step::Pass { micros }),
        1 => (1u64..800_000).prop_map(|micros| Step::Pass { micros }),
    ];
    prop::collection::vec(step, 1..250)
}

/// How jobs enter a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    /// Each is on a separate connection.
    Carried,
    /// Their sizes are set just after they have arrived.
    Told,
}

/// A scheduler whose jobs are known by their order of arrival.
struct Jobs {
    scheduler: Scheduler,
    way: Way,
    jobs: Vec<(JobId, Option<ConnectionId>)>,
}

impl Jobs {
    fn new(spec: &str, rate: Option<&str>, way: Way) -> Jobs {
        let pace = rate.map_or(Pace::UNLIMITED, |rate| Pace::of_line(rate.parse().unwrap()));
        let scheduler = Scheduler::new(policy_of(spec), pace).with_guard(Guard::new(20));
        Jobs { scheduler, way, jobs: Vec::new() }
    }

    fn arrive(&mut self, now: Nanos, arrival: Arrival) {
        let connection = (self.way == Way::Carried).then(|| self.scheduler.open(arrival.framing));
        let id = match connection {
            Some(connection) => self.scheduler.arrive_on(now, connection, arrival, Precedence::default()).unwrap(),
            None if self.way == Way::Told => {
                let id = self.scheduler.arrive(now, Arrival { size: Size::AtLeast(1), ..arrival });
                self.scheduler.on_size(id, arrival.size).unwrap();
                id
            }
            None => self.scheduler.arrive(now, arrival),
        };
        self.jobs.push((id, connection));
    }

    fn gone(&mut self, at: usize) {
        if let Some(connection) = self.jobs[at].1 {
            self.scheduler.close(connection);
        }
    }

    /// Performs the step. Returns its visible results: the job granted to and its bytes, and the instant of the next
    /// grant.
    fn step(&mut self, now: Nanos, step: Step) -> (Option<(usize, u64)>, Option<Nanos>) {
        let mut seen = None;
        match step {
            Step::Arrive { bytes, class, is_known } => {
                let size = if is_known { Size::Known(bytes) } else { Size::AtLeast(bytes) };
                self.arrive(now, Arrival { class, ..Arrival::of(size) });
            }
            Step::Serve { of_grant } => {
                if let Some(Grant { job, bytes_max, .. }) = self.scheduler.poll_grant(now) {
                    let at = self.jobs.iter().position(|known| known.0 == job).unwrap();
                    seen = Some((at, bytes_max));
                    // Part of the grant, in whole segments or not, or all of it.
                    let bytes = if of_grant == 0 { bytes_max } else { bytes_max * of_grant / 4 };
                    if self.scheduler.on_sent(now, job, bytes).is_departed() {
                        self.gone(at);
                    }
                }
            }
            Step::Wait { of_jobs } => self.on_job(of_jobs, |scheduler, id| scheduler.on_wait(id, Why::Connection)),
            Step::Ready { of_jobs } => {
                self.on_job(of_jobs, |scheduler, id| scheduler.on_wait_over(now, id, Why::Connection))
            }
            Step::Abort { of_jobs } => {
                self.on_job(of_jobs, |scheduler, id| scheduler.on_end(id));
                if let Some(at) = of_jobs.checked_rem(self.jobs.len()) {
                    self.gone(at);
                }
            }
            Step::Pass { .. } => {}
        }
        (seen, self.scheduler.poll_timeout())
    }

    fn on_job(&mut self, of_jobs: usize, act: impl FnOnce(&mut Scheduler, JobId)) {
        if let Some(at) = of_jobs.checked_rem(self.jobs.len()) {
            act(&mut self.scheduler, self.jobs[at].0);
        }
    }
}

const SPECS: [&str; 12] = [
    "fair",
    "fcfs",
    "srpt",
    "psjf",
    "las",
    "srrt",
    "fcf",
    "fsp",
    "quick-fix",
    "srpt-bands:3,900",
    "srpt-bands:4",
    CLASSES,
];

/// Two classes that divide the link, and one that comes after them.
const CLASSES: &str = "classes";

fn policy_of(spec: &str) -> Box<dyn Policy> {
    if spec != CLASSES {
        return policy::parse(spec).unwrap();
    }
    let class = |weight, priority, order| ClassSpec { weight, priority, ..ClassSpec::plain("c", order) };
    let classes = [class(3, 0, Order::Srpt), class(1, 0, Order::Fair), class(1, 1, Order::Srpt)];
    Box::new(ByClass::new(CLASSES.into(), &classes, None, None))
}

proptest! {
    /// Every decision of a scheduler without connections equals the decision of one with a connection for each job, step by step.
    #[test]
    fn one_job_a_connection_is_decided_as_without(steps in steps(), spec in prop::sample::select(&SPECS[..]), is_paced: bool) {
        let rate = is_paced.then_some("10mbit");
        let [mut plain, mut carried] = [Way::Plain, Way::Carried].map(|way| Jobs::new(spec, rate, way));
        let mut now = Nanos(0);
        for step in steps {
            if let Step::Pass { micros } = step {
                now += Nanos::from_micros(micros);
            }
            let seen = [plain.step(now, step), carried.step(now, step)];
            prop_assert_eq!(seen[0], seen[1], "{} after {:?}", spec, step);
            prop_assert_eq!(plain.scheduler.jobs().len(), carried.scheduler.jobs().len());
        }
        prop_assert_eq!(plain.scheduler.pacer().ledger().charged_bytes(), carried.scheduler.pacer().ledger().charged_bytes());
        prop_assert_eq!(plain.scheduler.order().longest_wait(), carried.scheduler.order().longest_wait());
    }
}

proptest! {
    /// A size that is set at once is as good as known. (Learned bands see only the sizes of arrivals.)
    #[test]
    fn a_size_told_late_is_as_one_known(steps in steps(), spec in prop::sample::select(&SPECS[..])) {
        prop_assume!(spec != "srpt-bands:4");
        let [mut plain, mut told] = [Way::Plain, Way::Told].map(|way| Jobs::new(spec, Some("10mbit"), way));
        let mut now = Nanos(0);
        for step in steps {
            if let Step::Pass { micros } = step {
                now += Nanos::from_micros(micros);
            }
            prop_assert_eq!(plain.step(now, step), told.step(now, step), "{} after {:?}", spec, step);
        }
    }
}

/// A job of a connection: connection, bytes, urgency, incremental.
type Stream = (usize, u64, u8, bool);

fn unit_framing() -> Framing {
    Framing::ETHERNET.with_segment(1)
}

fn opened(scheduler: &mut Scheduler, connections: usize) -> Vec<ConnectionId> {
    (0..connections).map(|_| scheduler.open(unit_framing())).collect()
}

fn streams(is_incremental: bool) -> impl Strategy<Value = Vec<Stream>> {
    let stream = (0usize..4, 1u64..40, 0u8..8, prop::bool::weighted(if is_incremental { 0.5 } else { 0.0 }));
    prop::collection::vec(stream, 1..30)
}

proptest! {
    /// Without wishes, a policy by rank serves as it does without connections.
    #[test]
    fn the_least_of_the_leasts_is_the_least(streams in streams(false), spec in prop::sample::select(&["srpt", "psjf", "las", "fcfs"][..])) {
        let serve = |with_connections: bool| {
            let mut scheduler = Scheduler::new(policy_of(spec), Pace::UNLIMITED);
            let connections = opened(&mut scheduler, 4);
            let (mut numbers, mut order) = (Vec::new(), Vec::new());
            for (tick, stream) in streams.iter().map(Some).chain(std::iter::repeat(None)).enumerate() {
                let now = Nanos(tick as u64);
                if let Some((at, bytes, ..)) = stream {
                    let arrival = Arrival { framing: unit_framing(), ..Arrival::of(Size::Known(*bytes)) };
                    numbers.push(match with_connections {
                        true => scheduler.arrive_on(now, connections[*at], arrival, Precedence::default()).unwrap(),
                        false => scheduler.arrive(now, arrival),
                    });
                }
                let Some(grant) = scheduler.poll_grant(now) else { return order };
                order.push(numbers.iter().position(|id| *id == grant.job).unwrap());
                let _ = scheduler.on_sent(now, grant.job, 1);
            }
            order
        };
        prop_assert_eq!(serve(true), serve(false));
    }

    /// All bytes of all jobs leave, whatever waits, is wished or closed meanwhile; the link is charged what was
    /// carried.
    #[test]
    fn content_and_link_bytes_are_conserved(streams in streams(true), waits in prop::collection::vec((0usize..30, 0usize..4), 0..60)) {
        let mut scheduler = Scheduler::new(policy::parse("srpt").unwrap(), Pace { rate: "1gbit".parse().ok(), ..Pace::UNLIMITED });
        let connections = opened(&mut scheduler, 4);
        let mut jobs: Vec<(JobId, u64, u64)> = Vec::new();
        for (at, bytes, urgency, is_incremental) in streams {
            let arrival = Arrival::of(Size::Known(bytes * 500));
            let id = scheduler.arrive_on(Nanos(0), connections[at], arrival, Precedence { urgency, is_incremental }).unwrap();
            jobs.push((id, bytes * 500, 0));
        }
        let whys = [Why::Connection, Why::Disk, Why::Source, Why::Stream];
        let (mut carried, mut waits) = (0, waits.into_iter());
        for tick in 0u64..100_000 {
            let now = Nanos::from_millis(tick);
            if let Some((at, why)) = waits.next() {
                let (id, why) = (jobs[at % jobs.len()].0, whys[why]);
                if tick % 2 == 0 { scheduler.on_wait(id, why) } else { scheduler.on_wait_over(now, id, why) }
                scheduler.on_precedence(id, Precedence { urgency: tick as u8 % 8, is_incremental: tick % 3 == 0 });
                if tick % 5 == 0 { scheduler.on_wait(connections[at % 4], Why::Connection) } else { scheduler.on_wait_over(now, connections[at % 4], Why::Connection) }
            } else {
                jobs.iter().for_each(|job| whys.into_iter().for_each(|why| scheduler.on_wait_over(now, job.0, why)));
                connections.iter().for_each(|connection| scheduler.on_wait_over(now, *connection, Why::Connection));
            }
            let Some(grant) = scheduler.poll_grant(now) else {
                if scheduler.jobs().is_empty() { break } else { continue }
            };
            // A frame's header of nine bytes goes before the content.
            let content_bytes = grant.bytes_max.min(grant.room_bytes.saturating_sub(9).max(1));
            let sent = Sent { content_bytes, carried_bytes: content_bytes + 9 };
            carried += Framing::ETHERNET.with_segment(1).wire_bytes(sent.carried_bytes);
            jobs.iter_mut().find(|job| job.0 == grant.job).unwrap().2 += content_bytes;
            let _ = scheduler.on_sent(now, grant.job, sent);
        }
        prop_assert!(jobs.iter().all(|(_, size, sent)| size == sent), "{:?}", jobs);
        prop_assert_eq!(scheduler.pacer().ledger().charged_bytes(), carried);
    }
}

/// More streams do not get more turns.
#[test]
fn fair_is_fair_between_connections() {
    for spec in ["fair", "quick-fix:1MB", "quick-fix:1B"] {
        let mut scheduler = Scheduler::new(policy_of(spec), Pace::UNLIMITED);
        let connections = opened(&mut scheduler, 2);
        let mut of_first = Vec::new();
        for (at, jobs) in [(0, 6), (1, 1)] {
            for _ in 0..jobs {
                let arrival = Arrival::of(Size::Known(1000));
                let id = scheduler.arrive_on(Nanos(0), connections[at], arrival, Precedence::default()).unwrap();
                if at == 0 {
                    of_first.push(id);
                }
            }
        }
        let mut had = [0, 0];
        for tick in 0..500 {
            let grant = scheduler.poll_grant(Nanos(tick)).unwrap();
            had[usize::from(!of_first.contains(&grant.job))] += 1;
            let _ = scheduler.on_sent(Nanos(tick), grant.job, 1);
            if tick % 50 == 0 {
                // A new stream on a busy connection is no new turn.
                let arrival = Arrival::of(Size::Known(1000));
                of_first.extend(scheduler.arrive_on(Nanos(tick), connections[0], arrival, Precedence::default()));
            }
        }
        assert_eq!(had, [250, 250], "{spec}");
    }
}

/// A stream that begins late owes its connection nothing: it and a download that has had 4 MB take turns.
#[test]
fn fair_is_fair_between_streams() {
    let mut scheduler = Scheduler::new(policy_of("fair"), Pace::UNLIMITED);
    let connection = opened(&mut scheduler, 1)[0];
    let arrival = Arrival::of(Size::Known(8_000_000));
    let begin =
        |scheduler: &mut Scheduler, now| scheduler.arrive_on(now, connection, arrival, Precedence::default()).unwrap();
    let download = begin(&mut scheduler, Nanos(0));
    let serve = |scheduler: &mut Scheduler, now| {
        let job = scheduler.poll_grant(now).unwrap().job;
        let _ = scheduler.on_sent(now, job, 1000);
        job
    };
    (0..4000).for_each(|tick| assert_eq!(serve(&mut scheduler, Nanos(tick)), download));
    let late = begin(&mut scheduler, Nanos(4000));
    let of_late = (4000..4100).filter(|tick| serve(&mut scheduler, Nanos(*tick)) == late).count();
    assert_eq!(of_late, 50);
    // One that was blocked has no more than its turns either.
    scheduler.on_wait(late, Why::Stream);
    (4100..5000).for_each(|tick| assert_eq!(serve(&mut scheduler, Nanos(tick)), download));
    scheduler.on_wait_over(Nanos(5000), late, Why::Stream);
    let of_late = (5000..5100).filter(|tick| serve(&mut scheduler, Nanos(*tick)) == late).count();
    assert!((50..=51).contains(&of_late), "{of_late}");
}

/// A client that is gone in any state leaves nothing behind, and its ids are recognised as stale.
#[test]
fn a_closed_connection_frees_its_jobs() {
    for spec in SPECS {
        let mut scheduler =
            Scheduler::new(policy_of(spec), Pace::of_line("10mbit".parse().unwrap())).with_guard(Guard::new(10));
        let connection = scheduler.open(Framing::ETHERNET);
        let arrival = Arrival::of(Size::Known(5000));
        let jobs: Vec<JobId> = (0..3)
            .map(|_| scheduler.arrive_on(Nanos(0), connection, arrival, Precedence::default()).unwrap())
            .collect();
        let grant = scheduler.poll_grant(Nanos(0)).unwrap();
        scheduler.on_wait(jobs[1], Why::Disk);
        scheduler.close(connection);
        assert_eq!((scheduler.jobs().len(), scheduler.poll_timeout()), (0, None), "{spec}");
        assert!(scheduler.on_sent(Nanos(1), grant.job, 100).is_departed());
        let next = scheduler.open(Framing::ETHERNET);
        let job = scheduler.arrive_on(Nanos(2), next, arrival, Precedence::default()).unwrap();
        scheduler.close(connection);
        scheduler.on_wait(connection, Why::Connection);
        scheduler.on_precedence(jobs[0], Precedence { urgency: 0, is_incremental: true });
        assert_eq!(scheduler.arrive_on(Nanos(2), connection, arrival, Precedence::default()), None);
        assert_eq!(scheduler.poll_grant(Nanos::from_secs(1)).map(|grant| grant.job), Some(job), "{spec}");
    }
}

#[test]
fn a_connection_has_a_bound() {
    let mut scheduler = Scheduler::new(policy::parse("srpt").unwrap(), Pace::UNLIMITED);
    let connection = scheduler.open(Framing::ETHERNET);
    let taken = (0..1000).filter(|_| {
        scheduler.arrive_on(Nanos(0), connection, Arrival::of(Size::Known(1)), Precedence::default()).is_some()
    });
    assert_eq!(taken.count(), sched::JOBS_PER_CONNECTION_MAX);
}

/// A response that ends within a segment leaves the rest of it to the next of its connection, and no other connection's
/// segment is cut short.
#[test]
fn the_rest_of_a_segment_is_the_next_jobs() {
    let mut scheduler = Scheduler::new(policy::parse("srpt").unwrap(), Pace::of_line("1mbit".parse().unwrap()));
    let connection = scheduler.open(Framing::ETHERNET);
    let [small, large] = [500, 5000].map(|bytes| {
        scheduler.arrive_on(Nanos(0), connection, Arrival::of(Size::Known(bytes)), Precedence::default()).unwrap()
    });
    let grant = scheduler.poll_grant(Nanos(0)).unwrap();
    assert_eq!((grant.job, grant.bytes_max, grant.room_bytes), (small, 500, 1448));
    assert!(scheduler.on_sent(Nanos(0), small, Sent { content_bytes: 500, carried_bytes: 509 }).is_departed());
    let filling = scheduler.order().filling(scheduler.jobs(), connection, 1448 - 509).unwrap();
    assert_eq!((filling.job, filling.bytes_max), (large, 939));
    let _ = scheduler.on_sent(Nanos(0), large, Sent { content_bytes: 930, carried_bytes: 939 });
    assert_eq!(scheduler.order().filling(scheduler.jobs(), connection, 0), None);
    let grant = scheduler.poll_grant(Nanos::from_secs(1)).unwrap();
    assert_eq!((grant.job, grant.room_bytes), (large, 1448));
}

/// The bytes left by the sizes of similar responses: ten minus what was sent, and beyond ten what was sent.
fn like_ten() -> Option<Arc<Curve>> {
    let of = |from_bytes, rank, slope| Knot { from_bytes, rank, slope };
    Some(Arc::new(Curve::new(vec![of(0, 10.0, -1.0), of(10, 10.0, 1.0)])))
}

/// A learned size ranks among the known sizes, in the same unit.
#[test]
fn a_learned_size_ranks_among_the_known() {
    let mut scheduler = Scheduler::new(policy::parse("srpt").unwrap(), Pace::UNLIMITED);
    let unit = |size| Arrival { framing: unit_framing(), ..Arrival::of(size) };
    let learned = scheduler.arrive(Nanos(0), unit(Size::AtLeast(0)));
    let small = scheduler.arrive(Nanos(0), unit(Size::Known(8)));
    let large = scheduler.arrive(Nanos(0), unit(Size::Known(15)));
    scheduler.on_curve(learned, like_ten());
    scheduler.on_curve(small, like_ten());
    let order: Vec<JobId> = (0..40)
        .map(|tick| {
            let job = scheduler.poll_grant(Nanos(tick)).unwrap().job;
            let _ = scheduler.on_sent(Nanos(tick), job, 1);
            job
        })
        .collect();
    // Eight before ten, ten before fifteen. Only when it has sent fifteen and has not ended is its size known to be
    // larger, and the tie goes to the older.
    let expected = [(small, 8), (learned, 16), (large, 15), (learned, 1)];
    let expected: Vec<JobId> = expected.into_iter().flat_map(|(job, times)| vec![job; times]).collect();
    assert_eq!(order, expected);
    scheduler.on_end(learned);
    scheduler.on_curve(learned, like_ten());
    assert!(scheduler.jobs().is_empty());
}

/// Bytes that are already known to exist count as if sent, and are left to send.
#[test]
fn what_was_read_ahead_is_left_to_send() {
    let mut scheduler = Scheduler::new(policy::parse("srpt").unwrap(), Pace::UNLIMITED);
    let unit = |size| Arrival { framing: unit_framing(), ..Arrival::of(size) };
    let learned = scheduler.arrive(Nanos(0), unit(Size::AtLeast(6)));
    scheduler.on_curve(learned, like_ten());
    let [nine, eleven] = [9, 11].map(|bytes| scheduler.arrive(Nanos(0), unit(Size::Known(bytes))));
    // Six, and four that are left of ten, equal ten.
    assert_eq!(served_whole(&mut scheduler, 9), nine);
    scheduler.on_size(learned, Size::AtLeast(9)).unwrap();
    let first: Vec<JobId> = (0..10)
        .map(|_| {
            let job = scheduler.poll_grant(Nanos(0)).unwrap().job;
            let _ = scheduler.on_sent(Nanos(0), job, 1);
            job
        })
        .collect();
    assert_eq!(first, [learned; 10]);
    // Beyond ten it is as large again as what was seen.
    scheduler.on_size(learned, Size::AtLeast(12)).unwrap();
    assert_eq!(served_whole(&mut scheduler, 11), eleven);
    // A size that becomes known counts from then on.
    scheduler.on_size(learned, Size::Known(13)).unwrap();
    assert_eq!(served_whole(&mut scheduler, 3), learned);
    assert!(scheduler.jobs().is_empty());
}

/// The job that is granted this many single bytes in turn, which are its last.
fn served_whole(scheduler: &mut Scheduler, bytes: u64) -> JobId {
    let job = scheduler.poll_grant(Nanos(0)).unwrap().job;
    for left in (0..bytes).rev() {
        assert_eq!(scheduler.poll_grant(Nanos(0)).unwrap().job, job);
        assert_eq!(scheduler.on_sent(Nanos(0), job, 1).is_departed(), left == 0);
    }
    job
}

/// Two jobs on a connection, 100 and 900 bytes, and one of 300 on another.
fn two_connections() -> (Scheduler, [JobId; 3]) {
    let mut scheduler = Scheduler::new(policy::parse("srpt").unwrap(), Pace::UNLIMITED);
    let connections = opened(&mut scheduler, 2);
    let jobs = [(0, 100), (0, 900), (1, 300)].map(|(at, bytes)| {
        let arrival = Arrival::of(Size::Known(bytes));
        scheduler.arrive_on(Nanos(0), connections[at], arrival, Precedence::default()).unwrap()
    });
    (scheduler, jobs)
}

fn first(scheduler: &mut Scheduler) -> Option<JobId> {
    scheduler.poll_grant(Nanos(0)).map(|grant| grant.job)
}

/// A PRIORITY_UPDATE counts at the next grant, within its connection alone; it may come early, twice, or while the job
/// waits.
#[test]
fn a_priority_update_counts_at_once() {
    let (mut scheduler, [small, large, other]) = two_connections();
    let of = |urgency| Precedence { urgency, is_incremental: false };
    scheduler.on_precedence(large, of(0));
    assert_eq!(first(&mut scheduler), Some(other), "no urgency buys link from another client");
    scheduler.on_precedence(other, of(7));
    scheduler.on_precedence(other, of(7));
    assert_eq!(first(&mut scheduler), Some(other));
    scheduler.on_precedence(large, of(4));
    assert_eq!(
        first(&mut scheduler),
        Some(other),
        "all that is not of the first view is one stage, here of 1000 bytes"
    );
    scheduler.on_wait(large, Why::Stream);
    scheduler.on_precedence(large, of(0));
    assert_eq!(first(&mut scheduler), Some(small), "who waits is not offered, however urgent");
    scheduler.on_wait_over(Nanos(0), large, Why::Stream);
    scheduler.on_end(other);
    assert_eq!(first(&mut scheduler), Some(large));
}

/// A shut window of a stream holds only that stream; a second reason holds it longer.
#[test]
fn a_shut_stream_window_holds_one_job() {
    let (mut scheduler, [small, large, other]) = two_connections();
    scheduler.on_wait(small, Why::Stream);
    scheduler.on_wait(small, Why::Stream);
    assert_eq!(first(&mut scheduler), Some(other), "300 before 900");
    scheduler.on_end(other);
    assert_eq!(first(&mut scheduler), Some(large));
    scheduler.on_wait(small, Why::Disk);
    scheduler.on_wait_over(Nanos(0), small, Why::Stream);
    assert_eq!(first(&mut scheduler), Some(large));
    scheduler.on_wait(large, Why::Stream);
    assert_eq!((first(&mut scheduler), scheduler.poll_timeout(), scheduler.jobs().len()), (None, None, 2));
    scheduler.on_wait_over(Nanos(0), small, Why::Disk);
    scheduler.on_wait_over(Nanos(0), small, Why::Disk);
    assert_eq!(first(&mut scheduler), Some(small));
}
