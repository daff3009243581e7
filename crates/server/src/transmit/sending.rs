use sched::JobId;
use units::Nanos;

use super::outgoing::Sent;
use super::{Departure, Failure, Outgoing, Patience, Socket};

/// A response to be sent.
pub struct Dispatch<S> {
    /// Comes back in the [`Departure`].
    pub owner: u64,
    pub socket: S,
    pub outgoing: Outgoing,
    /// Payload bytes of a full segment on this connection.
    pub segment_bytes: u64,
    /// Bytes the link carries for this response beside its segments: handshake, acknowledgements.
    pub overhead_bytes: u64,
}

/// A response that is being sent.
pub(super) struct Sending<S> {
    pub id: JobId,
    owner: u64,
    socket: S,
    outgoing: Outgoing,
    sent_bytes: u64,
    /// What the kernel had sent again when it was last asked.
    retransmitted_bytes: u64,
    /// When the reader began to be watched for slowness, and what had been sent then.
    window: (Nanos, u64),
}

impl<S: Socket> Sending<S> {
    pub fn new(id: JobId, dispatch: Dispatch<S>, now: Nanos) -> Sending<S> {
        let Dispatch { owner, socket, outgoing, .. } = dispatch;
        Sending { id, owner, socket, outgoing, sent_bytes: 0, retransmitted_bytes: 0, window: (now, 0) }
    }

    pub fn send(&mut self, bytes_max: u64) -> Sent {
        let sent = self.outgoing.send(&self.socket, bytes_max);
        self.sent_bytes += sent.bytes;
        sent
    }

    /// Bytes sent again since this was last called.
    pub fn retransmitted_since(&mut self) -> u64 {
        let total = self.socket.retransmitted_bytes();
        let since = total.saturating_sub(self.retransmitted_bytes);
        self.retransmitted_bytes = self.retransmitted_bytes.max(total);
        since
    }

    /// Whether the reader took too little in a whole window. Only time in which we waited for the reader counts, not
    /// time in which the response waited for its turn.
    pub fn is_stalled(&mut self, now: Nanos, is_blocked: bool, patience: &Patience) -> bool {
        if !is_blocked {
            self.window = (now, self.sent_bytes);
            return false;
        }
        let (since, bytes_then) = self.window;
        if now - since < patience.window {
            return false;
        }
        self.window = (now, self.sent_bytes);
        let least = u128::from(patience.rate_bytes_per_s_min) * u128::from((now - since).0) / 1_000_000_000;
        u128::from(self.sent_bytes - bytes_then) < least
    }

    pub fn into_departure(self, failure: Option<Failure>) -> Departure {
        Departure { owner: self.owner, sent_bytes: self.sent_bytes, failure, buffer: self.outgoing.into_buffer() }
    }
}
