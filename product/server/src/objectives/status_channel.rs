//! Where another thread asks the event loop for what it knows of the classes.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use config::Objective;
use units::{Nanos, Rate};

use super::{Counts, UnderWay};
use crate::transmit::Line;

/// What each class has had, by the order of their numbers, and what is known of the line.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Empty without classes of a file.
    pub classes: Vec<ClassStatus>,
    /// `None` where nothing is paced.
    pub line: Option<Line>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ClassStatus {
    pub name: String,
    /// It is in the file as it was read last.
    pub is_in_force: bool,
    /// That have ended, however they did, and the bytes of these.
    pub responses: u64,
    pub bytes: u64,
    pub under_way: UnderWay,
    pub objective: Option<ObjectiveStatus>,
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

/// One question at a time; and what the loop leaves there without being asked.
#[derive(Debug, Default)]
pub struct StatusChannel {
    asker: Mutex<Option<SyncSender<Status>>>,
    found: Mutex<Option<Found>>,
}

impl StatusChannel {
    /// `wake` has the loop look; `None` where it has not answered for so long.
    pub fn ask(&self, wake: impl FnOnce(), wait: Duration) -> Option<Status> {
        let (answer, answered) = sync_channel(1);
        *self.asker.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        wake();
        answered.recv_timeout(wait).ok()
    }

    /// Where an answer goes, if somebody asks.
    pub fn asked(&self) -> Option<SyncSender<Status>> {
        self.asker.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

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
        let status_channel = StatusChannel::default();
        assert!(status_channel.asked().is_none());
        let status = Status { classes: vec![], line: None };
        let answer = || status_channel.asked().expect("somebody asks").send(status.clone()).unwrap();
        assert_eq!(status_channel.ask(answer, Duration::from_secs(60)), Some(status.clone()));
        assert!(status_channel.asked().is_none());
        assert_eq!(status_channel.ask(|| (), Duration::ZERO), None);
    }
}
