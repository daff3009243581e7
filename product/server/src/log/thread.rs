//! The thread that writes what the workers have sent, and says on standard error what went wrong with it.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::sink::{Complaints, Output, Sink};
use super::{Message, Shared};

/// Lines lost to a full channel are told at most this often: the thread has enough to do already.
const LOST_TOLD_EVERY: Duration = Duration::from_secs(1);

/// The state of the thread.
pub(super) struct Logger {
    pub(super) received: Receiver<Message>,
    shared: Arc<Shared>,
    pub(super) sink: Sink,
    complaints: Complaints,
    told_at: Option<Instant>,
}

impl Logger {
    pub(super) fn new(
        received: Receiver<Message>,
        shared: Arc<Shared>,
        output: Output,
        complaints: Box<dyn Write + Send>,
    ) -> Logger {
        let sink = Sink::new("access log", output);
        Logger { received, shared, sink, complaints: Complaints(complaints), told_at: None }
    }

    /// Until told to stop, or until all handles are gone.
    pub(super) fn run(mut self) {
        while let Ok(message) = self.received.recv() {
            if self.handle(message) {
                while let Ok(message) = self.received.try_recv() {
                    self.handle(message);
                }
                break;
            }
        }
        self.told_at = None;
        self.tell_lost();
    }

    /// Returns whether to stop.
    pub(super) fn handle(&mut self, message: Message) -> bool {
        if self.shared.reopen.swap(false, Relaxed) {
            self.sink.reopen(&mut self.complaints);
        }
        match message {
            Message::Lines(bytes) => self.sink.write(&bytes, &mut self.complaints),
            Message::Error(text) => self.complaints.tell(&text),
            Message::Wake => {}
            Message::Stop => return true,
        }
        self.tell_lost();
        false
    }

    fn tell_lost(&mut self) {
        if self.told_at.is_some_and(|at| at.elapsed() < LOST_TOLD_EVERY) {
            return;
        }
        let (lines, errors) = (&self.shared.lines_lost, &self.shared.errors_lost);
        let (lines, errors) = (lines.swap(0, Relaxed), errors.swap(0, Relaxed));
        if lines > 0 {
            self.complaints.tell(&format!("access log: {lines} lines lost"));
        }
        if errors > 0 {
            self.complaints.tell(&format!("error log: {errors} lines lost"));
        }
        if lines + errors > 0 {
            self.told_at = Some(Instant::now());
        }
    }
}
