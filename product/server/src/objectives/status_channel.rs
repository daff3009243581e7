//! Queries from another thread to an event loop: about classes, routes of proxies, upstreams, and responses in
//! progress.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use config::Objective;
use units::{Nanos, Rate};

use super::{Counts, ResponsesStatus, UnderWay};
use crate::metrics::Metrics;
use crate::send::Line;
use crate::upstream::{RoutesStatus, UpstreamStatus};

/// The status of each class, in the order of the class numbers, together with the line and the metrics.
#[derive(Debug, Clone)]
pub struct Status {
    /// The classes. Empty without a class file.
    pub classes: Vec<ClassStatus>,
    /// The line; `None` if nothing is paced.
    pub line: Option<Line>,
    /// The metrics; `None` if responses are not counted.
    pub metrics: Option<Metrics>,
    /// The bytes handed to the link, including headers; 0 if nothing is paced.
    pub wire_bytes: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ClassStatus {
    pub name: String,
    /// True if the class is in the file that was read last.
    pub is_in_force: bool,
    /// The number of responses that have ended, whatever their outcome.
    pub responses: u64,
    /// The bytes sent, of responses that have ended or are in progress.
    pub bytes: u64,
    pub under_way: UnderWay,
    pub objective: Option<ObjectiveStatus>,
}

impl ClassStatus {
    /// Returns true if the class is shown to operators. A class that is no longer in the file is shown only while it
    /// has responses in progress; its counts are kept under its number.
    pub fn is_told(&self) -> bool {
        self.is_in_force || self.under_way != UnderWay::default()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ObjectiveStatus {
    pub objective: Objective,
    /// The counts of the last 60 to 65 seconds.
    pub lately: Counts,
    /// The counts since the start, or since the objective changed.
    pub total: Counts,
}

/// The line's rate, and the time at which it was last confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub rate: Rate,
    pub at: Nanos,
}

/// A query and its answer. Only one thread may query at a time.
#[derive(Debug)]
pub struct Question<T>(Mutex<Option<SyncSender<T>>>);

impl<T> Default for Question<T> {
    fn default() -> Question<T> {
        Question(Mutex::new(None))
    }
}

impl<T> Question<T> {
    /// Sends the query, and calls `wake` so that the loop checks for it. Returns `None` if the loop does not answer
    /// within `wait`.
    pub fn ask(&self, wake: impl FnOnce(), wait: Duration) -> Option<T> {
        let (answer, answered) = sync_channel(1);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        wake();
        answered.recv_timeout(wait).ok()
    }

    /// Answers if a query is pending; called by the loop.
    pub fn answer(&self, answer: impl FnOnce() -> T) {
        let asker = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(asker) = asker {
            // The asker may have stopped waiting.
            let _ = asker.try_send(answer());
        }
    }
}

/// The queries to an event loop, and data that the loop publishes without a query.
#[derive(Debug, Default)]
pub struct StatusChannel {
    pub status: Question<Status>,
    pub routes: Question<RoutesStatus>,
    pub upstreams: Question<Vec<UpstreamStatus>>,
    /// The query for responses. It is separate, so that reading metrics does not examine all responses.
    pub responses: Question<ResponsesStatus>,
    found: Mutex<Option<Found>>,
}

impl StatusChannel {
    /// Publishes the rate of the line.
    pub fn leave(&self, found: Found) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
    }

    /// Returns the rate that was published last.
    pub fn found(&self) -> Option<Found> {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_answered_once() {
        let question = Question::default();
        question.answer(|| unreachable!("nobody asks"));
        assert_eq!(question.ask(|| question.answer(|| 7), Duration::from_secs(60)), Some(7));
        question.answer(|| unreachable!("it is answered"));
        assert_eq!(question.ask(|| (), Duration::ZERO), None);
    }
}
