//! What the connections tell of the line while we pace blind, and the pace that follows from it.
//!
//! It costs no system call: what the kernel says of a connection is asked for the byte ledger anyhow.

use sched::Feedback;
use sched::feedback::{Change, Look, Notice};
use units::{Nanos, Rate};

#[derive(Debug)]
pub(super) struct Observer {
    feedback: Feedback,
}

impl Observer {
    pub fn new(ceiling: Rate) -> Observer {
        Observer { feedback: Feedback::new(ceiling) }
    }

    /// The kernel was asked about a connection of this client.
    pub fn on_look(&mut self, now: Nanos, charged_bytes: u64, client: u32, look: Look) {
        // Neighbours are not to meet in one place of a table: the odd multiplier is 2^64 over the golden ratio.
        let key = || u64::from(client).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(32);
        self.feedback.on_look(now, charged_bytes, key, look);
    }

    /// The pace, where it changes, and what to tell of it.
    pub fn poll(&mut self, now: Nanos, charged_bytes: u64) -> Option<(Rate, Option<Notice>)> {
        let Change { rate, notice } = self.feedback.poll(now, charged_bytes)?;
        Some((rate, notice))
    }
}
