//! The books of a run: every job that was submitted is in them once, and is closed once.

use hdrhistogram::Histogram;
use http::ResponseHead;
use record::{JobRecord, Outcome};
use units::Nanos;

use crate::{Plan, Request};

/// Lateness above this is counted as this: a generator an hour late has other troubles.
const LATENESS_NS_MAX: u64 = 3_600_000_000_000;
/// Relative precision of the histogram in decimal digits: 0.1 %.
const LATENESS_DIGITS: u8 = 3;

#[derive(Debug)]
pub(crate) struct Ledger<'a> {
    requests: &'a [Request],
    entries: Vec<Entry>,
    ended: usize,
    lateness: Histogram<u64>,
}

#[derive(Debug)]
struct Entry {
    record: JobRecord,
    ended: bool,
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Ledger<'a> {
        let lateness = Histogram::new_with_max(LATENESS_NS_MAX, LATENESS_DIGITS).expect("bounds are valid");
        Ledger { requests: &plan.requests, entries: Vec::with_capacity(plan.requests.len()), ended: 0, lateness }
    }

    /// The next job's instant; `None` when all have been submitted.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.requests.get(self.entries.len()).map(|request| request.at)
    }

    /// Opens the next job and gives its number.
    pub(crate) fn submit(&mut self, now: Nanos) -> usize {
        let job = self.entries.len();
        let request = &self.requests[job];
        self.lateness.saturating_record((now - request.at).0);
        let record = JobRecord {
            job: job as u64,
            size_bytes: request.size_bytes.unwrap_or(0),
            head_bytes: 0,
            arrival_ns: request.at.0,
            start_ns: now.0,
            first_byte_ns: None,
            end_ns: now.0,
            body_bytes: 0,
            status: 0,
            outcome: Outcome::Incomplete,
            attempts: 1,
            group: 0,
        };
        self.entries.push(Entry { record, ended: false });
        job
    }

    /// Bytes of the response came; only the first time counts.
    pub(crate) fn on_byte(&mut self, job: usize, now: Nanos) {
        self.open(job).first_byte_ns.get_or_insert(now.0);
    }

    pub(crate) fn on_head(&mut self, job: usize, head: &ResponseHead) {
        let any_size = self.requests[job].size_bytes.is_none();
        let record = self.open(job);
        (record.status, record.head_bytes) = (head.status, head.head_bytes as u64);
        if let (true, Some(length)) = (any_size, head.content_length) {
            record.size_bytes = length;
        }
    }

    pub(crate) fn on_body(&mut self, job: usize, bytes: u64) {
        self.open(job).body_bytes += bytes;
    }

    /// The response is whole: complete if it is the one that was asked for.
    pub(crate) fn on_whole(&mut self, job: usize, now: Nanos) {
        let expected = self.requests[job].size_bytes;
        let record = self.open(job);
        let right = record.status == 200 && expected.is_none_or(|size| size == record.body_bytes);
        self.end(job, if right { Outcome::Complete } else { Outcome::Wrong }, now);
    }

    pub(crate) fn end(&mut self, job: usize, outcome: Outcome, now: Nanos) {
        let record = self.open(job);
        (record.outcome, record.end_ns) = (outcome, now.0);
        self.entries[job].ended = true;
        self.ended += 1;
    }

    pub(crate) fn submitted(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn ended(&self) -> usize {
        self.ended
    }

    /// Closes the books: jobs still open are incomplete and have waited until now.
    pub(crate) fn close(self, now: Nanos) -> (Vec<JobRecord>, Histogram<u64>) {
        let close = |entry: Entry| match entry.ended {
            true => entry.record,
            false => JobRecord { end_ns: now.0, outcome: Outcome::Incomplete, ..entry.record },
        };
        (self.entries.into_iter().map(close).collect(), self.lateness)
    }

    /// Facts about a job that has ended would change its record after the fact: that is a bug of ours.
    fn open(&mut self, job: usize) -> &mut JobRecord {
        let entry = &mut self.entries[job];
        assert!(!entry.ended, "job {job} has already ended");
        &mut entry.record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;

    fn head(status: u16, content_length: Option<u64>) -> ResponseHead {
        ResponseHead { status, head_bytes: 40, content_length, keep_alive: false }
    }

    fn outcome_of(status: u16, body_bytes: u64) -> Outcome {
        let plan = plan(&[10], 1);
        let mut ledger = Ledger::new(&plan);
        let job = ledger.submit(Nanos(0));
        ledger.on_head(job, &head(status, Some(body_bytes)));
        ledger.on_body(job, body_bytes);
        ledger.on_whole(job, Nanos(1));
        ledger.close(Nanos(1)).0[0].outcome
    }

    #[test]
    fn only_the_response_asked_for_is_complete() {
        assert_eq!(outcome_of(200, 10), Outcome::Complete);
        for (status, body_bytes) in [(200, 9), (200, 11), (404, 10), (206, 10)] {
            assert_eq!(outcome_of(status, body_bytes), Outcome::Wrong);
        }
    }

    #[test]
    fn any_size_will_do_if_none_was_named() {
        let mut plan = plan(&[10], 1);
        plan.requests[0].size_bytes = None;
        let mut ledger = Ledger::new(&plan);
        let job = ledger.submit(Nanos(0));
        ledger.on_head(job, &head(200, Some(77)));
        ledger.on_body(job, 77);
        ledger.on_whole(job, Nanos(1));
        let record = &ledger.close(Nanos(1)).0[0];
        assert_eq!((record.size_bytes, record.outcome), (77, Outcome::Complete));
    }

    #[test]
    fn every_submitted_job_is_in_the_books_once() {
        let plan = plan(&[10, 20, 30], 1);
        let mut ledger = Ledger::new(&plan);
        assert_eq!((ledger.next_at(), ledger.submit(Nanos(5))), (Some(Nanos(0)), 0));
        assert_eq!((ledger.next_at(), ledger.submit(Nanos(1_000_900))), (Some(Nanos(1_000_000)), 1));
        ledger.on_byte(0, Nanos(7));
        ledger.on_byte(0, Nanos(8));
        ledger.end(1, Outcome::Refused, Nanos(2_000_000));
        assert_eq!((ledger.submitted(), ledger.ended()), (2, 1));
        let (records, lateness) = ledger.close(Nanos(3_000_000));
        let seen: Vec<_> = records.iter().map(|r| (r.job, r.start_ns, r.first_byte_ns, r.end_ns, r.outcome)).collect();
        let incomplete = (0, 5, Some(7), 3_000_000, Outcome::Incomplete);
        assert_eq!(seen, [incomplete, (1, 1_000_900, None, 2_000_000, Outcome::Refused)]);
        assert_eq!((lateness.len(), lateness.min(), lateness.max()), (2, 5, 900));
    }

    #[test]
    #[should_panic(expected = "job 0 has already ended")]
    fn a_job_ends_once() {
        let plan = plan(&[10], 1);
        let mut ledger = Ledger::new(&plan);
        ledger.submit(Nanos(0));
        ledger.end(0, Outcome::Reset, Nanos(1));
        ledger.end(0, Outcome::Reset, Nanos(2));
    }
}
