//! Requests that wait for a connection, if a client opens only a limited number, as browsers do.

use std::collections::{HashMap, VecDeque};

use crate::ledger::Ledger;
use crate::pool::Owner;

/// The waiting attempts by client, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Waiting(HashMap<Owner, VecDeque<(usize, u32)>>);

impl Waiting {
    /// Adds this attempt of the job to the waiting ones.
    pub(crate) fn push(&mut self, owner: Owner, job: usize, attempt: u32) {
        self.0.entry(owner).or_default().push_back((job, attempt));
    }

    /// Removes and returns the client's first job that has not been given up.
    pub(crate) fn pop(&mut self, owner: Owner, ledger: &Ledger<'_>) -> Option<usize> {
        let jobs = self.0.get_mut(&owner)?;
        let mut first = None;
        while let Some((job, attempt)) = jobs.pop_front() {
            if ledger.is_under_way(job, attempt) {
                first = Some(job);
                break;
            }
        }
        if jobs.is_empty() {
            self.0.remove(&owner);
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;
    use crate::testing::Jobs;
    use record::Outcome;
    use units::Nanos;

    #[test]
    fn each_client_has_a_queue_without_those_who_gave_up() {
        let (plan, mut source) = (plan(1), Jobs::of(&[1, 2, 3, 4]));
        let mut ledger = Ledger::new(&plan, &mut source);
        let mut waiting = Waiting::default();
        for job in 0..4 {
            assert_eq!(ledger.submit(Nanos::from_secs(1)), Some(job));
            waiting.push(Owner::Client(job as u32 % 2), job, 1);
        }
        ledger.end(0, Outcome::Aborted, Nanos::from_secs(2));
        let taken = [1, 0, 0, 1].map(|client| waiting.pop(Owner::Client(client), &ledger));
        assert_eq!(taken, [Some(1), Some(2), None, Some(3)]);
        assert!(waiting.0.is_empty());
    }
}
