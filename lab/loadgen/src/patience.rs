//! Finds the next user who gives up. All users wait equally long, so attempts lose patience in the order in which they
//! began, and a queue with constant cost per attempt is enough.

use std::collections::VecDeque;

use units::Nanos;

use crate::ledger::Ledger;

/// The attempts in order of the instant at which their users give up.
///
/// Attempts that ended earlier stay in the queue until their instant. The queue therefore never holds more attempts
/// than were begun within one `abort_after`, at 24 bytes each.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Waiting>,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    until: Nanos,
    job: usize,
    attempt: u32,
}

impl Queue {
    pub(crate) fn push(&mut self, until: Nanos, job: usize, attempt: u32) {
        self.waiting.push_back(Waiting { until, job, attempt });
    }

    /// The next instant at which a user may lose patience.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.waiting.front().map(|waiting| waiting.until)
    }

    /// Removes and returns the next job whose current attempt has outlasted its user's patience.
    pub(crate) fn pop_due(&mut self, now: Nanos, ledger: &Ledger<'_>) -> Option<usize> {
        while let Some(&Waiting { until, job, attempt }) = self.waiting.front() {
            let is_under_way = ledger.is_under_way(job, attempt);
            if is_under_way && until > now {
                return None;
            }
            self.waiting.pop_front();
            if is_under_way {
                return Some(job);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Patience;
    use crate::plan::tests::plan;
    use crate::testing::Jobs;
    use record::Outcome;

    #[test]
    fn only_those_still_waiting_give_up_and_in_order() {
        let (mut plan, mut source) = (plan(1), Jobs::of(&[1, 2, 3]));
        plan.patience = Some(Patience { abort_after: Nanos(100), retries: 1 });
        let mut ledger = Ledger::new(&plan, &mut source);
        let mut queue = Queue::default();
        for start in [0, 10, 20] {
            let job = ledger.submit(Nanos::from_millis(start)).unwrap();
            queue.push(Nanos(start + 100), job, 1);
        }
        ledger.end(1, Outcome::Complete, Nanos::from_millis(21));
        assert_eq!((queue.next_at(), queue.pop_due(Nanos(99), &ledger)), (Some(Nanos(100)), None));
        assert_eq!(queue.pop_due(Nanos(115), &ledger), Some(0));
        assert_eq!(queue.pop_due(Nanos(119), &ledger), None);
        assert_eq!(queue.next_at(), Some(Nanos(120)), "the one that has ended is gone");
        assert_eq!((queue.pop_due(Nanos(120), &ledger), queue.next_at()), (Some(2), None));
    }
}
