//! The questions of another thread to an event loop: classes, routes of proxies, upstreams, responses under way.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use config::Objective;
use units::{Nanos, Rate};

use super::{Counts, ResponsesStatus, UnderWay};
use crate::metrics::Metrics;
use crate::send::Line;
use crate::upstream::{RoutesStatus, UpstreamStatus};

/// What each class has had, by the order of their numbers, what is known of the line, and what was counted.
#[derive(Debug, Clone)]
pub struct Status {
    /// Empty without classes of a file.
    pub classes: Vec<ClassStatus>,
    /// `None` where nothing is paced.
    pub line: Option<Line>,
    /// `None` where nothing is counted.
    pub metrics: Option<Metrics>,
    /// That were handed to the link, with their headers; 0 where nothing is paced.
    pub wire_bytes: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ClassStatus {
    pub name: String,
    /// It is in the file as it was read last.
    pub is_in_force: bool,
    /// That have ended, however they did.
    pub responses: u64,
    /// Sent of these and of those under way.
    pub bytes: u64,
    pub under_way: UnderWay,
    pub objective: Option<ObjectiveStatus>,
}

impl ClassStatus {
    /// Whether an operator is told of it: one that the file has no more only while it has responses under way. Counts keep its number.
    pub fn is_told(&self) -> bool {
        self.is_in_force || self.under_way != UnderWay::default()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ObjectiveStatus {
    pub objective: Objective,
    /// In the last 60 to 65 seconds.
    pub lately: Counts,
    /// Since the start, or since the objective changed.
    pub total: Counts,
}

/// The line's rate, and when it was last confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub rate: Rate,
    pub at: Nanos,
}

/// Asked by one thread at a time.
#[derive(Debug)]
pub struct Question<T>(Mutex<Option<SyncSender<T>>>);

impl<T> Default for Question<T> {
    fn default() -> Question<T> {
        Question(Mutex::new(None))
    }
}

impl<T> Question<T> {
    /// `wake` has the loop look; `None` where it has not answered for so long.
    pub fn ask(&self, wake: impl FnOnce(), wait: Duration) -> Option<T> {
        let (answer, answered) = sync_channel(1);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        wake();
        answered.recv_timeout(wait).ok()
    }

    /// The loop answers, if somebody asks.
    pub fn answer(&self, answer: impl FnOnce() -> T) {
        let asker = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(asker) = asker {
            // One that waits no longer need not know.
            let _ = asker.try_send(answer());
        }
    }
}

/// The questions, and what the loop leaves there without being asked.
#[derive(Debug, Default)]
pub struct StatusChannel {
    pub status: Question<Status>,
    pub routes: Question<RoutesStatus>,
    pub upstreams: Question<Vec<UpstreamStatus>>,
    /// A question of its own: nobody looks through all responses for metrics.
    pub responses: Question<ResponsesStatus>,
    found: Mutex<Option<Found>>,
}

impl StatusChannel {
    /// The line's rate is known to be this.
    pub fn leave(&self, found: Found) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
    }

    /// What was left last.
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
