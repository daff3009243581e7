//! The ledger of a run. It contains every submitted job once, counts the job's attempts, and closes it once.

use hdrhistogram::Histogram;
use http_fields::Request;
use record::{JobRecord, Outcome};
use units::Nanos;
use workload::{Ask, PageTimes, Source};

use crate::Plan;
use crate::deal::{Deal, Dealt};

/// The maximum lateness recorded; higher values count as this. A generator that is an hour late has other problems.
const LATENESS_NS_MAX: u64 = 3_600_000_000_000;
/// The precision of the histogram in significant decimal digits: 0.1 %.
const LATENESS_DIGITS: u8 = 3;

pub(crate) struct Ledger<'a> {
    plan: &'a Plan,
    source: &'a mut dyn Source,
    deal: Deal,
    entries: Vec<Entry>,
    ended: usize,
}

#[derive(Debug)]
struct Entry {
    record: JobRecord,
    ask: Ask,
    dealt: Dealt,
    /// The instant at which the current or the last attempt began.
    tried_at: Nanos,
    /// The kernel was asked to connect or send for the first attempt.
    started: bool,
    ended: bool,
    /// After the job's end: its user will send no more requests.
    left: bool,
}

/// The final content of the ledger.
pub(crate) struct Books {
    pub(crate) records: Vec<JobRecord>,
    pub(crate) lateness: Histogram<u64>,
    pub(crate) pages: Vec<PageTimes>,
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(plan: &'a Plan, source: &'a mut dyn Source) -> Ledger<'a> {
        let entries = Vec::with_capacity(source.count().unwrap_or(0));
        Ledger { plan, source, deal: Deal::new(plan), entries, ended: 0 }
    }

    /// The instant of the next job; `None` if none is due before a response arrives, or if all have been submitted.
    pub(crate) fn due(&self) -> Option<Nanos> {
        self.source.due()
    }

    /// The instant at which the next user leaves.
    pub(crate) fn leaves_at(&self) -> Option<Nanos> {
        self.source.leaves_at()
    }

    /// Takes the jobs in flight of the user who leaves now.
    pub(crate) fn take_leaving(&mut self, now: Nanos) -> Option<Vec<usize>> {
        self.leaves_at().filter(|at| *at <= now)?;
        let user = self.source.take_leaving()?;
        let jobs = self.entries.iter().enumerate().filter(|(_, entry)| !entry.ended && entry.ask.user == Some(user));
        Some(jobs.map(|(job, _)| job).collect())
    }

    /// An upper bound for the instants of all jobs.
    pub(crate) fn last_at(&self) -> Nanos {
        self.source.last_at()
    }

    /// The total number of jobs, if it is known.
    pub(crate) fn count(&self) -> Option<usize> {
        self.source.count()
    }

    /// Opens the job that is due, with its first attempt, and returns its number.
    pub(crate) fn submit(&mut self, now: Nanos) -> Option<usize> {
        let ask = self.source.take()?;
        let job = self.entries.len();
        let dealt = self.deal(&ask, job as u64);
        let record = JobRecord {
            job: job as u64,
            size_bytes: ask.size_bytes,
            head_bytes: 0,
            arrival_ns: ask.at.0,
            start_ns: Some(now.0),
            first_byte_ns: None,
            end_ns: now.0,
            body_bytes: 0,
            status: 0,
            outcome: Outcome::Incomplete,
            attempts: 1,
            group: dealt.group,
            client: ask.part.map(|part| part.page),
            ahead_bytes: None,
        };
        self.entries.push(Entry { record, ask, dealt, tried_at: now, started: false, ended: false, left: false });
        Some(job)
    }

    /// Returns the client of a request. It is the same for all requests of a user, and for all requests of a client of
    /// the trace.
    fn deal(&self, ask: &Ask, job: u64) -> Dealt {
        if let Some(client) = ask.client.filter(|_| ask.group.is_none()) {
            return self.deal.of_client(client);
        }
        let number = ask.user.map_or(job, u64::from);
        ask.group.map_or_else(|| self.deal.of(number), |group| self.deal.within(group, number))
    }

    /// Records that the kernel is now asked to connect or send for this job. The time since [`Ledger::submit`] counts
    /// as lateness. Only the first call for a job counts.
    pub(crate) fn on_start(&mut self, job: usize, now: Nanos) {
        let entry = &mut self.entries[job];
        if !std::mem::replace(&mut entry.started, true) {
            entry.record.start_ns = Some(now.0);
        }
    }

    /// The request of this job.
    pub(crate) fn ask(&self, job: usize) -> Ask {
        self.entries[job].ask
    }

    /// The request of this job, in the form of HTTP/2 and HTTP/3.
    pub(crate) fn request(&self, job: usize) -> Request<()> {
        self.plan.request(self.ask(job))
    }

    pub(crate) fn has_ended(&self, job: usize) -> bool {
        self.entries[job].ended
    }

    /// Returns true if the user of the job ended the session with it.
    pub(crate) fn has_left(&self, job: usize) -> bool {
        self.entries[job].left
    }

    /// Returns the client of a job.
    pub(crate) fn dealt(&self, job: usize) -> Dealt {
        self.entries[job].dealt
    }

    /// The number of the current attempt, from 1.
    pub(crate) fn attempt(&self, job: usize) -> u32 {
        self.entries[job].record.attempts
    }

    /// Returns true if this attempt of the job has not ended.
    pub(crate) fn is_under_way(&self, job: usize, attempt: u32) -> bool {
        !self.entries[job].ended && self.attempt(job) == attempt
    }

    /// Records that bytes of the response arrived; only the first call counts.
    pub(crate) fn on_byte(&mut self, job: usize, now: Nanos) {
        self.open(job).first_byte_ns.get_or_insert(now.0);
    }

    pub(crate) fn on_head(&mut self, job: usize, status: u16, head_bytes: u64) {
        let record = self.open(job);
        (record.status, record.head_bytes) = (status, head_bytes);
    }

    pub(crate) fn on_body(&mut self, job: usize, bytes: u64, now: Nanos) {
        let record = self.open(job);
        record.body_bytes += bytes;
        let received = record.body_bytes;
        self.source.on_received(&self.entries[job].ask, received, now);
    }

    /// Records that the response is complete. The job has succeeded if it is the requested response.
    pub(crate) fn on_whole(&mut self, job: usize, now: Nanos) {
        let record = self.open(job);
        let right = record.status == 200 && record.size_bytes == record.body_bytes;
        self.end(job, if right { Outcome::Complete } else { Outcome::Wrong }, now);
    }

    /// Records that the user gives up the current attempt. Returns true if another has begun; otherwise the job has
    /// ended as aborted.
    pub(crate) fn give_up(&mut self, job: usize, now: Nanos) -> bool {
        let patience = self.plan.patience.expect("only the impatient give up");
        let tried_at = self.entries[job].tried_at;
        assert!(now - tried_at >= patience.abort_after, "job {job} was given up early");
        if self.attempt(job) > patience.retries {
            self.end(job, Outcome::Aborted, now);
            return false;
        }
        self.entries[job].tried_at = now;
        let record = self.open(job);
        record.attempts += 1;
        (record.first_byte_ns, record.head_bytes, record.body_bytes, record.status) = (None, 0, 0, 0);
        true
    }

    pub(crate) fn end(&mut self, job: usize, outcome: Outcome, now: Nanos) {
        let record = self.open(job);
        (record.outcome, record.end_ns) = (outcome, now.0);
        self.entries[job].ended = true;
        self.ended += 1;
        let ask = self.entries[job].ask;
        self.entries[job].left = !self.source.on_ended(&ask, now);
    }

    pub(crate) fn submitted(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn ended(&self) -> usize {
        self.ended
    }

    /// Closes the ledger. Jobs that are still open become incomplete, and have waited until now.
    pub(crate) fn close(mut self, now: Nanos) -> Books {
        for entry in self.entries.iter_mut().filter(|entry| !entry.ended) {
            entry.record.end_ns = now.0;
        }
        let records: Vec<JobRecord> = self.entries.into_iter().map(|entry| entry.record).collect();
        let mut lateness = Histogram::new_with_max(LATENESS_NS_MAX, LATENESS_DIGITS).expect("bounds are valid");
        records.iter().flat_map(JobRecord::lateness).for_each(|late| lateness.saturating_record(late.0));
        Books { records, lateness, pages: self.source.pages() }
    }

    /// Returns an open job. A fact about a job that has ended would change its record afterwards, which is a bug in
    /// this program.
    fn open(&mut self, job: usize) -> &mut JobRecord {
        let entry = &mut self.entries[job];
        assert!(!entry.ended, "job {job} has already ended");
        &mut entry.record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Patience;
    use crate::plan::tests::plan;
    use crate::testing::{Jobs, TwoUsers};
    use proptest::prelude::*;

    fn outcome_of(status: u16, body_bytes: u64) -> Outcome {
        let (plan, mut source) = (plan(1), Jobs::of(&[10]));
        let mut ledger = Ledger::new(&plan, &mut source);
        let job = ledger.submit(Nanos(0)).unwrap();
        ledger.on_head(job, status, 40);
        ledger.on_body(job, body_bytes, Nanos(1));
        ledger.on_whole(job, Nanos(1));
        ledger.close(Nanos(1)).records[0].outcome
    }

    #[test]
    fn only_the_response_asked_for_is_complete() {
        assert_eq!(outcome_of(200, 10), Outcome::Complete);
        for (status, body_bytes) in [(200, 9), (200, 11), (404, 10), (206, 10)] {
            assert_eq!(outcome_of(status, body_bytes), Outcome::Wrong);
        }
    }

    #[test]
    fn every_submitted_job_is_in_the_books_once() {
        let (plan, mut source) = (plan(1), Jobs::of(&[10, 20, 30]));
        let mut ledger = Ledger::new(&plan, &mut source);
        assert_eq!((ledger.due(), ledger.submit(Nanos(5))), (Some(Nanos(0)), Some(0)));
        assert_eq!((ledger.due(), ledger.submit(Nanos(1_000_600))), (Some(Nanos(1_000_000)), Some(1)));
        ledger.on_start(1, Nanos(1_000_900));
        ledger.on_start(1, Nanos(1_500_000));
        ledger.on_byte(0, Nanos(7));
        ledger.on_byte(0, Nanos(8));
        ledger.end(1, Outcome::Refused, Nanos(2_000_000));
        assert_eq!((ledger.submitted(), ledger.ended()), (2, 1));
        let Books { records, lateness, .. } = ledger.close(Nanos(3_000_000));
        let seen: Vec<_> = records.iter().map(|r| (r.job, r.start_ns, r.first_byte_ns, r.end_ns, r.outcome)).collect();
        let incomplete = (0, Some(5), Some(7), 3_000_000, Outcome::Incomplete);
        assert_eq!(seen, [incomplete, (1, Some(1_000_900), None, 2_000_000, Outcome::Refused)]);
        assert_eq!((lateness.len(), lateness.min(), lateness.max()), (2, 5, 900));
    }

    #[test]
    fn a_user_gives_up_and_asks_again() {
        let (mut plan, mut source) = (plan(1), Jobs::of(&[10]));
        plan.patience = Some(Patience { abort_after: Nanos(100), retries: 1 });
        let mut ledger = Ledger::new(&plan, &mut source);
        let job = ledger.submit(Nanos(3)).unwrap();
        ledger.on_byte(job, Nanos(50));
        ledger.on_head(job, 200, 40);
        ledger.on_body(job, 4, Nanos(51));
        assert!(ledger.is_under_way(job, 1) && ledger.give_up(job, Nanos(103)));
        assert!(!ledger.is_under_way(job, 1) && ledger.is_under_way(job, 2));
        assert!(!ledger.give_up(job, Nanos(205)), "one retry was all");
        let books = ledger.close(Nanos(900));
        let job = &books.records[0];
        assert_eq!((job.outcome, job.attempts, job.start_ns, job.end_ns), (Outcome::Aborted, 2, Some(3), 205));
        assert_eq!((job.first_byte_ns, job.body_bytes, job.status), (None, 0, 0), "nothing came of the last attempt");
    }

    #[test]
    fn a_user_thinks_from_the_end_of_the_answer() {
        let (plan, mut source) = (plan(1), TwoUsers::default());
        let mut ledger = Ledger::new(&plan, &mut source);
        assert_eq!((ledger.submit(Nanos(0)), ledger.submit(Nanos(0)), ledger.due()), (Some(0), Some(1), None));
        ledger.end(1, Outcome::Reset, Nanos(500));
        assert_eq!(ledger.due(), Some(Nanos(500) + TwoUsers::THINK));
        let next = ledger.submit(Nanos(700) + TwoUsers::THINK).unwrap();
        assert_eq!(ledger.ask(next).user, Some(1));
        let books = ledger.close(Nanos::from_secs(9));
        assert_eq!(books.lateness.max(), 200, "lateness counts from the end of the thought");
    }

    #[test]
    #[should_panic(expected = "job 0 has already ended")]
    fn a_job_ends_once() {
        let (plan, mut source) = (plan(1), Jobs::of(&[10]));
        let mut ledger = Ledger::new(&plan, &mut source);
        ledger.submit(Nanos(0));
        ledger.end(0, Outcome::Reset, Nanos(1));
        ledger.end(0, Outcome::Reset, Nanos(2));
    }

    proptest! {
        /// Whatever happens, a job has at most the retries and one attempt, and no attempt is given up before its
        /// patience has ended.
        #[test]
        fn attempts_add_up(steps in prop::collection::vec((0..3_usize, 0..5_u8, 0..300_u64), 0..60), retries in 0..4_u32) {
            let (mut plan, mut source) = (plan(1), Jobs::of(&[10, 20, 30]));
            plan.patience = Some(Patience { abort_after: Nanos(100), retries });
            let mut ledger = Ledger::new(&plan, &mut source);
            (0..3).for_each(|n| assert_eq!(ledger.submit(Nanos::from_millis(n)), Some(n as usize)));
            let mut now = Nanos::from_millis(2);
            for (job, what, later) in steps {
                now += Nanos(later);
                let attempt = ledger.attempt(job);
                match what {
                    _ if !ledger.is_under_way(job, attempt) => {}
                    0 => ledger.on_byte(job, now),
                    1 => ledger.on_body(job, later, now),
                    2 => ledger.end(job, Outcome::TimedOut, now),
                    _ if now - ledger.entries[job].tried_at >= Nanos(100) => {
                        prop_assert_eq!(ledger.give_up(job, now), attempt <= retries);
                    }
                    _ => {}
                }
            }
            for record in &ledger.close(now).records {
                let given_up = record.attempts - u32::from(record.outcome != Outcome::Aborted);
                prop_assert!(record.attempts <= retries + 1);
                prop_assert!(record.end_ns - record.start_ns.unwrap() >= 100 * u64::from(given_up));
            }
        }
    }
}
