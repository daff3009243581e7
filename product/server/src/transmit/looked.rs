use std::sync::{Mutex, PoisonError};

use sched::line::{Look, Looks, Seen};
use units::Nanos;
use units::wire::Framing;

use super::Status;

/// The looks at a connection, kept with its socket: over all its responses each acknowledged byte is told once, whoever looks.
#[derive(Debug, Default)]
pub struct Looked(Mutex<Looks>);

impl Looked {
    /// What is new.
    pub fn look(&self, now: Nanos, status: &Status, framing: Framing) -> Look {
        let Status { acked_bytes, sacked_bytes, acked_ago, retransmitted_bytes, .. } = *status;
        // A kernel that does not count what it sent tells at least of what has arrived.
        let sent_bytes = status.sent.map_or(acked_bytes, |sent| sent.payload_bytes.saturating_sub(retransmitted_bytes));
        let rtt = status.path.rtt;
        let seen = Seen { rtt, acked_bytes, sacked_bytes, acked_ago, sent_bytes, retransmitted_bytes };
        // Of one thread, so nobody waits for it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).look(now, &seen, framing)
    }
}
