//! The guard's promise under overload: an hour at a load of 1.05 with five downloads.

use sched::{Arrival, Guard, Job, JobId, Pace, Scheduler, Size, policy};
use units::wire::Framing;
use units::{Nanos, Rate};

const LINK: &str = "10mbit";
const SMALL_BYTES: u64 = 10_000;
const DOWNLOADS: usize = 5;
const DOWNLOAD_BYTES: u64 = 10_000_000;

/// A link that is never idle, and the guarantee for it.
struct Overload {
    scheduler: Scheduler,
    now: Nanos,
    /// When each job in the system last got a byte, or arrived; by slot.
    last_byte_at: Vec<(JobId, Nanos)>,
    most_ready: u64,
    longest: Nanos,
    promised: Nanos,
}

impl Overload {
    fn new(permille: u32) -> Overload {
        let rate: Rate = LINK.parse().unwrap();
        let pace = Pace { rate: Some(rate), ahead: Nanos::from_micros(300), ..Pace::UNLIMITED };
        let scheduler = Scheduler::new(policy::parse("srpt").unwrap(), pace).with_guard(Guard::new(permille));
        let (now, last_byte_at) = (Nanos::ZERO, vec![]);
        Overload { scheduler, now, last_byte_at, most_ready: 0, longest: Nanos::ZERO, promised: Nanos::ZERO }
    }

    fn arrive(&mut self, bytes: u64) {
        let id = self.scheduler.arrive(self.now, Arrival::of(Size::Known(bytes)));
        if self.last_byte_at.len() <= id.slot() {
            self.last_byte_at.resize(id.slot() + 1, (id, self.now));
        }
        self.last_byte_at[id.slot()] = (id, self.now);
        self.most_ready = self.most_ready.max(self.scheduler.jobs().len() as u64);
    }

    fn wait_of(&self, id: JobId) -> Nanos {
        self.now - self.last_byte_at[id.slot()].1
    }

    fn serve_one(&mut self) {
        self.now = self.now.max(self.scheduler.poll_timeout().expect("the load is above one"));
        let grant = self.scheduler.poll_grant(self.now).expect("the time has come");
        self.longest = self.longest.max(self.wait_of(grant.job));
        self.last_byte_at[grant.job.slot()].1 = self.now;
        let _ = self.scheduler.on_sent(self.now, grant.job, grant.bytes_max);
    }

    /// Runs for this time at a load of 1.05; then the jobs that wait still count too.
    fn run(&mut self, seconds: u64) {
        (0..DOWNLOADS).for_each(|_| self.arrive(DOWNLOAD_BYTES));
        let rate: Rate = LINK.parse().unwrap();
        let every = Nanos(rate.time_for(Framing::ETHERNET.wire_bytes(SMALL_BYTES)).0 * 100 / 105);
        let mut next_at = Nanos::ZERO;
        while self.now < Nanos::from_secs(seconds) {
            while next_at <= self.now {
                self.arrive(SMALL_BYTES);
                next_at += every;
            }
            self.serve_one();
        }
        let waiting =
            self.last_byte_at.iter().filter(|(id, _)| self.scheduler.jobs().get(*id).is_some_and(Job::is_ready));
        let longest_left = waiting.map(|(id, _)| self.wait_of(*id)).max().expect("the load is above one");
        self.longest = self.longest.max(longest_left);
        self.promised =
            self.scheduler.wait_bound(Framing::ETHERNET).map_or(Nanos::MAX, |bound| bound.with(self.most_ready));
    }
}

#[test]
fn no_ready_response_waits_longer_for_a_byte_than_was_promised() {
    for permille in [10, 20, 100] {
        let mut overload = Overload::new(permille);
        overload.run(3600);
        let (longest, promised) = (overload.longest, overload.promised);
        assert!(
            overload.scheduler.order().longest_wait() <= longest
                && overload.scheduler.jobs().most() == overload.most_ready
        );
        assert!(longest <= promised, "{permille}: {longest:?} of {promised:?}, {} ready", overload.most_ready);
    }
}

/// A bound far above the real waits would be worthless: if all but one wait only for the guard, the bound is nearly
/// reached.
#[test]
fn the_promise_is_tight() {
    let mut overload = Overload::new(20);
    (0..100).for_each(|_| overload.arrive(DOWNLOAD_BYTES));
    while overload.now < Nanos::from_secs(200) {
        if overload.scheduler.jobs().len() == 100 {
            overload.arrive(SMALL_BYTES);
        }
        overload.serve_one();
    }
    let promised = overload.scheduler.wait_bound(Framing::ETHERNET).expect("the guard is on").with(overload.most_ready);
    let longest = overload.longest;
    assert!(longest <= promised && longest.0 > promised.0 / 10 * 8, "{longest:?} of {promised:?}");
}

/// The purpose of the guard: without it the downloads get nothing as long as the load lasts.
#[test]
fn without_a_guard_nothing_is_promised_or_kept() {
    let mut overload = Overload::new(0);
    overload.run(600);
    assert_eq!(overload.promised, Nanos::MAX);
    assert!(overload.longest > Nanos::from_secs(590), "{:?}", overload.longest);
}
