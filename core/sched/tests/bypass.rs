//! Jobs that bypass the link: the link is as if they were not there, and each of them is sent.

use proptest::collection::vec;
use proptest::prelude::*;
use sched::{Arrival, Grant, Guard, JobId, Pace, Precedence, Scheduler, Settings, Size, Why, policy};
use units::wire::Framing;
use units::{Nanos, Rate};

/// Policies with a state of their own for each job, with lanes, and with shares of clients.
const POLICIES: [&str; 5] = ["srpt", "fsp", "fair", "las", "fcfs"];

/// A job: the millisecond of its arrival, its bytes, its client, and whether its connection carries several.
#[derive(Debug, Clone, Copy)]
struct Case {
    at_ms: u64,
    bytes: u64,
    client: u32,
    is_on_stream: bool,
    /// The job is of unknown size, and its socket is full for 7 ms after each grant.
    is_awkward: bool,
}

fn cases(bytes_max: u64, count_max: usize) -> impl Strategy<Value = Vec<Case>> {
    let case = (0_u64..200, 1..bytes_max, 0_u32..3, any::<bool>(), any::<bool>());
    let of = |(at_ms, bytes, client, is_on_stream, is_awkward)| Case { at_ms, bytes, client, is_on_stream, is_awkward };
    vec(case.prop_map(of), 1..count_max)
}

/// What can be seen of the link: its grants, by instant, number of the job and bytes; and the bytes charged to it.
#[derive(Debug, PartialEq)]
struct Seen {
    grants: Vec<(Nanos, usize, u64)>,
    charged_bytes: u64,
}

struct Bench {
    scheduler: Scheduler,
    now: Nanos,
    /// Each job, with its case, whether it bypasses the link, and its number among those.
    jobs: Vec<(JobId, Case, bool, usize)>,
    full: Vec<(Nanos, JobId)>,
    seen: Seen,
    bypass_bytes: u64,
}

impl Bench {
    fn new(policy: &str) -> Bench {
        let rate: Rate = "10mbit".parse().unwrap();
        let scheduler = Scheduler::new(policy::parse(policy).unwrap(), Pace::of_line(rate)).with_guard(Guard::new(20));
        let seen = Seen { grants: Vec::new(), charged_bytes: 0 };
        Bench { scheduler, now: Nanos::ZERO, jobs: Vec::new(), full: Vec::new(), seen, bypass_bytes: 0 }
    }

    fn arrive(&mut self, case: Case, bypasses_link: bool, number: usize) {
        let size = if case.is_awkward { Size::AtLeast(1) } else { Size::Known(case.bytes) };
        let arrival = Arrival { client: case.client, bypasses_link, ..Arrival::of(size) };
        let id = match case.is_on_stream {
            true => {
                let connection = self.scheduler.open(Framing::ETHERNET);
                self.scheduler.arrive_on(self.now, connection, arrival, Precedence::default()).unwrap()
            }
            false => self.scheduler.arrive(self.now, arrival),
        };
        self.jobs.push((id, case, bypasses_link, number));
    }

    fn serve(&mut self, grant: Grant) {
        let (id, case, bypasses_link, number) = *self.jobs.iter().find(|job| job.0 == grant.job).unwrap();
        let left_bytes = case.bytes - self.scheduler.jobs().get(id).unwrap().attained;
        let bytes = grant.bytes_max.min(left_bytes);
        match bypasses_link {
            true => self.bypass_bytes += bytes,
            false => self.seen.grants.push((self.now, number, bytes)),
        }
        if self.scheduler.on_sent(self.now, id, bytes).is_departed() {
            return;
        }
        if bytes == left_bytes {
            self.scheduler.on_end(id);
        } else if case.is_awkward {
            self.scheduler.on_wait(id, Why::Connection);
            self.full.push((self.now + Nanos::from_millis(7), id));
        }
    }

    /// Runs the cases to their end, with another order of the same policy from `reordered_ms` on.
    fn run(mut self, policy: &str, line: &[Case], bypassing: &[Case], reordered_ms: u64) -> (Seen, u64) {
        let all = line.iter().enumerate().map(|(nth, case)| (*case, false, nth));
        let mut all: Vec<_> = all.chain(bypassing.iter().enumerate().map(|(nth, case)| (*case, true, nth))).collect();
        all.sort_by_key(|(case, ..)| std::cmp::Reverse(case.at_ms));
        let mut reorder_at = Some(Nanos::from_millis(reordered_ms));
        loop {
            let arrives_at = all.last().map(|(case, ..)| Nanos::from_millis(case.at_ms));
            let full_until = self.full.iter().map(|(until, _)| *until).min();
            let grant_at = self.scheduler.poll_timeout().map(|at| at.max(self.now));
            let Some(at) = [arrives_at, full_until, grant_at].into_iter().flatten().min() else { break };
            self.now = at.max(self.now);
            if reorder_at.take_if(|at| *at <= self.now).is_some() {
                let pace = *self.scheduler.pacer().pace();
                let order = Some((policy::parse(policy).unwrap(), Guard::new(20)));
                Settings { order, pace }.apply_to(self.now, &mut self.scheduler);
            }
            while let Some((case, bypasses_link, number)) =
                all.pop_if(|(case, ..)| Nanos::from_millis(case.at_ms) <= at)
            {
                self.arrive(case, bypasses_link, number);
            }
            for (_, id) in self.full.extract_if(.., |(until, _)| *until <= at).collect::<Vec<_>>() {
                self.scheduler.on_wait_over(self.now, id, Why::Connection);
            }
            if let Some(grant) = self.scheduler.poll_grant(self.now) {
                self.serve(grant);
            }
        }
        assert!(self.scheduler.jobs().is_empty(), "all are sent");
        self.seen.charged_bytes = self.scheduler.pacer().ledger().charged_bytes();
        (self.seen, self.bypass_bytes)
    }
}

proptest! {
    /// No job of the link is granted a byte later, or in another order, because of jobs that bypass it.
    #[test]
    fn the_link_is_as_if_they_were_not_there(
        policy in prop::sample::select(&POLICIES[..]),
        line in cases(100_000, 8),
        bypassing in cases(3_000_000, 8),
        reordered_ms in 0_u64..300,
    ) {
        let (alone, _) = Bench::new(policy).run(policy, &line, &[], reordered_ms);
        let (with, bypass_bytes) = Bench::new(policy).run(policy, &line, &bypassing, reordered_ms);
        prop_assert_eq!(with, alone);
        prop_assert_eq!(bypass_bytes, bypassing.iter().map(|case| case.bytes).sum::<u64>());
    }
}

/// A link that is busy for a second leaves the jobs that bypass it to their sockets; the shortest of them goes first.
#[test]
fn they_do_not_wait_for_the_link() {
    let mut scheduler = Scheduler::new(policy::parse("srpt").unwrap(), Pace::of_line("1mbit".parse().unwrap()));
    let now = Nanos::ZERO;
    let line = scheduler.arrive(now, Arrival::of(Size::Known(125_000)));
    let bypassing = |bytes| Arrival { bypasses_link: true, ..Arrival::of(Size::Known(bytes)) };
    let [long, short] = [1 << 20, 1000].map(|bytes| scheduler.arrive(now, bypassing(bytes)));
    let mut order = Vec::new();
    while let Some(Grant { job, bytes_max, .. }) = scheduler.poll_grant(now) {
        order.push(job);
        let _ = scheduler.on_sent(now, job, bytes_max);
    }
    assert_eq!(order, [line, short, long, long, long, long]);
    assert_eq!(scheduler.poll_timeout(), scheduler.link_timeout(), "only the link is waited for");
    assert!(scheduler.link_timeout().is_some_and(|at| at > now));
}
