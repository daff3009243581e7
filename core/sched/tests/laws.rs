//! Tests of what each policy promises, checked against its plainest statement: a scan of all jobs at every tick.

use proptest::prelude::*;
use sched::{Arrival, Guard, JobId, Pace, Path, Scheduler, Size, Why, policy};
use units::Nanos;
use units::wire::Framing;

/// A job: size in bytes, arrival tick, class, throughput in bit/s.
type Case = (u64, u64, u16, u64);

/// A job in the system, as the reference sees it.
#[derive(Debug, Clone, Copy)]
struct Live {
    id: JobId,
    size: u64,
    remaining: u64,
    throughput: u64,
    is_ready: bool,
}

/// Serves a byte per tick; gives `check` the ready jobs and the one served, and returns each job's last tick (after it).
struct Bench {
    scheduler: Scheduler,
    live: Vec<Live>,
    tick: u64,
}

impl Bench {
    fn new(spec: &str) -> Bench {
        Bench { scheduler: Scheduler::new(policy::parse(spec).unwrap(), Pace::UNLIMITED), live: Vec::new(), tick: 0 }
    }

    fn arrive(&mut self, (size, _, class, throughput): Case) -> JobId {
        let path = Path { throughput_bps: Some(throughput), ..Path::default() };
        let arrival =
            Arrival { framing: Framing::ETHERNET.with_segment(1), class, path, ..Arrival::of(Size::Known(size)) };
        let id = self.scheduler.arrive(Nanos(self.tick), arrival);
        self.live.push(Live { id, size, remaining: size, throughput, is_ready: true });
        id
    }

    /// Serves one byte; returns the job served as it was before.
    fn serve(&mut self) -> Option<Live> {
        let now = Nanos(self.tick);
        self.tick += 1;
        let grant = self.scheduler.poll_grant(now)?;
        let at = self.live.iter().position(|job| job.id == grant.job).expect("a granted job is in the system");
        let before = self.live[at];
        self.live[at].remaining -= 1;
        let is_departed = self.scheduler.on_sent(now, grant.job, 1).is_departed();
        assert_eq!(is_departed, before.remaining == 1);
        if is_departed {
            self.live.remove(at);
        }
        Some(before)
    }

    fn ready(&self) -> Vec<Live> {
        self.live.iter().filter(|job| job.is_ready).copied().collect()
    }
}

/// Runs the cases to their end; `check` sees the ready jobs and the one served, at every tick with any. Returns the
/// tick at which each job was complete, in order of arrival.
fn run(spec: &str, cases: &[Case], mut check: impl FnMut(&[Live], &Live)) -> Vec<u64> {
    let mut bench = Bench::new(spec);
    let mut cases = cases.to_vec();
    cases.sort_by_key(|case| case.1);
    let mut ends = vec![0; cases.len()];
    let mut next = 0;
    while next < cases.len() || !bench.live.is_empty() {
        while next < cases.len() && cases[next].1 <= bench.tick {
            bench.arrive(cases[next]);
            next += 1;
        }
        let ready = bench.ready();
        let served = bench.serve();
        assert_eq!(served.is_some(), !ready.is_empty(), "{spec} is not work-conserving");
        if let Some(served) = served {
            check(&ready, &served);
            ends[served.id.number as usize] = bench.tick;
        }
    }
    ends
}

/// The job the reference would serve: the smallest key, then the first to arrive.
fn least<K: Ord>(ready: &[Live], key: impl Fn(&Live) -> K) -> JobId {
    ready.iter().min_by_key(|job| (key(job), job.id.number)).unwrap().id
}

fn cases() -> impl Strategy<Value = Vec<Case>> {
    let sizes = prop_oneof![4 => 1u64..8, 1 => 8u64..60];
    prop::collection::vec((sizes, 0u64..80, 0u16..3, 0u64..4), 1..40)
}

proptest! {
    #[test]
    fn fcf_is_the_two_searches(cases in cases()) {
        run("fcf:1.5", &cases, |ready, served| {
            let m = ready.iter().map(|job| job.remaining).min().unwrap();
            let small: Vec<Live> =
                ready.iter().filter(|job| job.remaining == m || 2 * job.remaining < 3 * m).copied().collect();
            assert_eq!(served.id, least(&small, |job| (u64::MAX - job.throughput, job.remaining)));
        });
    }

    #[test]
    fn bands_are_a_count_of_cuts(cases in cases()) {
        for cuts in [&[6][..], &[2, 5, 20]] {
            let list: Vec<String> = cuts.iter().map(|cut| format!("{cut}B")).collect();
            run(&format!("srpt-bands:{}", list.join(",")), &cases, |ready, served| {
                assert_eq!(served.id, least(ready, |job| cuts.iter().filter(|cut| job.remaining > **cut).count()));
            });
        }
    }

    #[test]
    fn quick_fix_serves_the_small_first(cases in cases()) {
        run("quick-fix:5", &cases, |ready, served| {
            assert!(served.size <= 5 || ready.iter().all(|job| job.size > 5));
        });
    }

    /// If no path is known they order by size alone, as documented.
    #[test]
    fn without_paths_fcf_and_srrt_are_srpt(cases in cases()) {
        let blind: Vec<Case> = cases.iter().map(|&(size, at, class, _)| (size, at, class, 0)).collect();
        for spec in ["fcf", "srrt"] {
            run(spec, &blind, |ready, served| assert_eq!(served.id, least(ready, |job| job.remaining)));
        }
    }

    /// Friedman & Henderson: no job is complete later than under processor sharing, except for the rest of the tick in
    /// which it would be.
    #[test]
    fn fsp_is_never_later_than_processor_sharing(cases in cases()) {
        let mut cases = cases;
        cases.sort_by_key(|case| case.1);
        let ends = run("fsp", &cases, |_, _| {});
        for (end, shared) in ends.iter().zip(processor_sharing(&cases)) {
            // A unit of virtual time is 1/256 byte, which may swap two jobs that end within it.
            prop_assert!(*end as f64 <= shared.ceil() + 1.0, "{end} is later than {shared}: {:?}", cases);
        }
    }

    /// Jobs that block and come back, are aborted, or get a path lose no byte and idle no tick.
    #[test]
    fn every_policy_conserves_work(
        steps in prop::collection::vec((0u8..8, 0usize..1000, 1u64..30, 0u16..4), 1..200),
        guard in prop_oneof![Just(0u32), Just(100u32)],
    ) {
        for spec in policy::NAMES.iter().copied() {
            let mut bench = Bench::new(spec);
            bench.scheduler = bench.scheduler.with_guard(Guard::new(guard));
            for &(what, which, size, class) in &steps {
                let at = which % bench.live.len().max(1);
                match (what, bench.live.get_mut(at)) {
                    (0..=2, _) => { bench.arrive((size, 0, class, which as u64)); }
                    (3, Some(job)) => {
                        job.is_ready = false;
                        bench.scheduler.on_wait(job.id, Why::Connection);
                    }
                    (4, Some(job)) => {
                        job.is_ready = true;
                        bench.scheduler.on_wait_over(Nanos(0), job.id, Why::Connection);
                    }
                    (5, Some(job)) => {
                        bench.scheduler.on_end(job.id);
                        bench.live.remove(at);
                    }
                    (6, Some(job)) => bench.scheduler.on_path(job.id, Path { rtt: Some(Nanos(size)), ..Path::default() }),
                    _ => {}
                }
                let is_anybody_ready = bench.live.iter().any(|job| job.is_ready);
                let served = bench.serve();
                prop_assert_eq!(served.is_some(), is_anybody_ready, "{}", spec);
                prop_assert!(served.is_none_or(|job| job.is_ready), "{} served a blocked job", spec);
                prop_assert_eq!(bench.scheduler.jobs().len(), bench.live.len());
            }
        }
    }
}

#[test]
fn quick_fix_takes_turns_within_each_half() {
    let mut order = Vec::new();
    run("quick-fix:5", &[(8, 0, 0, 0), (8, 0, 0, 0), (3, 0, 0, 0), (3, 0, 0, 0)], |_, job| order.push(job.id.number));
    assert_eq!(order[..6], [2, 3, 2, 3, 2, 3]);
    assert_eq!(order[6..], [0, 1].repeat(8));
}

/// A blocked job comes back to its turn, not to all the turns it missed.
#[test]
fn a_blocked_job_catches_up_on_nothing_in_either_half() {
    for (spec, size) in [("quick-fix:1", 100), ("quick-fix:1000", 100), ("fair", 100)] {
        let mut bench = Bench::new(spec);
        let ids = [0, 1].map(|_| bench.arrive((size, 0, 0, 0)));
        bench.scheduler.on_wait(ids[0], Why::Connection);
        (0..50).for_each(|_| assert_eq!(bench.serve().unwrap().id, ids[1]));
        bench.scheduler.on_wait_over(Nanos(bench.tick), ids[0], Why::Connection);
        let to_first = (0..21).filter(|_| bench.serve().unwrap().id == ids[0]).count();
        assert_eq!(to_first, 11, "{spec}");
    }
}

/// Aborted jobs take no share of the virtual link.
#[test]
fn fsp_forgets_what_was_aborted() {
    let mut bench = Bench::new("fsp");
    let [aborted, large] = [1000, 10].map(|size| bench.arrive((size, 0, 0, 0)));
    bench.scheduler.on_end(aborted);
    bench.live.remove(0);
    (0..5).for_each(|_| assert_eq!(bench.serve().unwrap().id, large));
    // If it shared with no other, the large job would be due at 10 and this one at 5 + 6; if it shared with the other,
    // this one at 2.5 + 6.
    bench.arrive((6, 0, 0, 0));
    assert_eq!(bench.serve().unwrap().id, large);
}

/// A third of a byte is no whole number of units: the remainder of one grant is carried to the next, once.
#[test]
fn fsp_loses_nothing_to_rounding() {
    for (served, size, is_newcomer_first) in [(3, 9, false), (9, 6, true)] {
        let mut bench = Bench::new("fsp");
        let [first, ..] = [10, 10, 10].map(|size| bench.arrive((size, 0, 0, 0)));
        (0..served).for_each(|_| assert_eq!(bench.serve().unwrap().id, first));
        // The first is due at 10, the new one at 1 + 9, for which the older goes first, or at 3 + 6.
        let newcomer = bench.arrive((size, 0, 0, 0));
        assert_eq!(bench.serve().unwrap().id == newcomer, is_newcomer_first, "after {served} bytes");
    }
}

/// Bytes sent ahead of their time stay on the virtual link until that time.
#[test]
fn fsp_remembers_what_was_sent() {
    let mut bench = Bench::new("fsp");
    let [small, large] = [2, 10].map(|size| bench.arrive((size, 0, 0, 0)));
    let served: Vec<JobId> = (0..4).map(|_| bench.serve().unwrap().id).collect();
    assert_eq!(served, [small, small, large, large]);
    // Each has received 2 bytes: due at 10 and 2 + 7. Had the small one left when it was sent, at 3 + 7.
    let newcomer = bench.arrive((7, 0, 0, 0));
    assert_eq!(bench.serve().unwrap().id, newcomer);
}

/// When no job is left the virtual link is empty, although it had more to do than the real one.
#[test]
fn fsp_begins_anew_when_all_have_left() {
    let mut bench = Bench::new("fsp");
    let ids = [10, 10].map(|size| bench.arrive((size, 0, 0, 0)));
    (0..10).for_each(|_| assert_eq!(bench.serve().unwrap().id, ids[0]));
    bench.scheduler.on_end(ids[1]);
    bench.live.clear();
    let first = bench.arrive((10, 0, 0, 0));
    (0..4).for_each(|_| assert_eq!(bench.serve().unwrap().id, first));
    // Due at 10 and 4 + 7; with what was left of the others it would be 15 and 7 + 7.
    bench.arrive((7, 0, 0, 0));
    assert_eq!(bench.serve().unwrap().id, first);
}

/// A blocked job that is done virtually has left the virtual link; aborting it then changes nothing.
#[test]
fn fsp_lets_nobody_leave_twice() {
    let mut bench = Bench::new("fsp");
    let [blocked, large] = [5, 100].map(|size| bench.arrive((size, 0, 0, 0)));
    bench.scheduler.on_wait(blocked, Why::Connection);
    bench.live[0].is_ready = false;
    (0..10).for_each(|_| assert_eq!(bench.serve().unwrap().id, large));
    bench.scheduler.on_end(blocked);
    bench.live.remove(0);
    let ids = [10, 10].map(|size| bench.arrive((size, 0, 0, 0)));
    (0..9).for_each(|_| assert_eq!(bench.serve().unwrap().id, ids[0]));
    // Three have shared nine bytes since 5: due at 15 and at 8 + 6. Were two of them in one place: 9.5 + 6.
    let newcomer = bench.arrive((6, 0, 0, 0));
    assert_eq!(bench.serve().unwrap().id, newcomer);
}

/// A job of unknown size takes no more than an equal share under fsp, and the others are not later for it.
#[test]
fn fsp_shares_with_jobs_of_unknown_size() {
    let mut scheduler = Scheduler::new(policy::parse("fsp").unwrap(), Pace::UNLIMITED);
    let blind = scheduler
        .arrive(Nanos(0), Arrival { framing: Framing::ETHERNET.with_segment(1), ..Arrival::of(Size::AtLeast(1)) });
    let known = scheduler
        .arrive(Nanos(0), Arrival { framing: Framing::ETHERNET.with_segment(1), ..Arrival::of(Size::Known(50)) });
    let mut ticks = 0;
    while scheduler.jobs().get(known).is_some() {
        let grant = scheduler.poll_grant(Nanos(ticks)).unwrap();
        let _ = scheduler.on_sent(Nanos(ticks), grant.job, 1);
        ticks += 1;
    }
    assert!((99..=101).contains(&ticks), "{ticks} bytes until a job of 50 that shared with one other");
    scheduler.on_end(blind);
    assert!(scheduler.jobs().is_empty());
}

/// When each job is complete if all in the system share the link equally, by following every arrival and completion.
fn processor_sharing(cases: &[Case]) -> Vec<f64> {
    let mut left: Vec<f64> = cases.iter().map(|case| case.0 as f64).collect();
    let mut ends = vec![f64::NAN; cases.len()];
    let mut now = 0.0;
    while ends.iter().any(|end| end.is_nan()) {
        let is_in = |at: usize| cases[at].1 as f64 <= now && ends[at].is_nan();
        let sharing: Vec<usize> = (0..cases.len()).filter(|&at| is_in(at)).collect();
        let next = cases.iter().map(|case| case.1 as f64).filter(|at| *at > now).fold(f64::INFINITY, f64::min);
        let least = sharing.iter().map(|&at| left[at]).fold(f64::INFINITY, f64::min);
        let step = (least * sharing.len().max(1) as f64).min(next - now);
        for &at in &sharing {
            left[at] -= step / sharing.len() as f64;
            if left[at] < 1e-9 {
                ends[at] = now + step;
            }
        }
        now += step;
    }
    ends
}
