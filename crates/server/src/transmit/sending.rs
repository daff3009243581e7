use sched::{JobId, Path};
use units::Nanos;

use super::outgoing::Sent;
use super::{Departure, Failure, Mark, Outgoing, Patience, Socket, Stream};

/// A path is asked for when a response begins, when its socket takes bytes again, and after this many bytes: a few
/// windows of TCP, and one system call to fifty sends of a segment.
const PATH_BYTES: u64 = 64 << 10;

/// A response to be sent.
pub struct Dispatch<S> {
    /// Comes back in the [`Departure`].
    pub owner: u64,
    pub socket: S,
    pub outgoing: Outgoing,
    /// Payload bytes of a full segment on this connection.
    pub segment_bytes: u64,
    /// Of the customer or folder, for policies with classes.
    pub class: u8,
    /// Bytes the link carries for this response beside its segments: handshake, acknowledgements.
    pub overhead_bytes: u64,
    pub stream: Stream,
}

/// A response that is being sent.
pub(super) struct Sending<S> {
    pub id: JobId,
    owner: u64,
    socket: S,
    outgoing: Outgoing,
    sent_bytes: u64,
    /// What had been sent when the kernel was last asked about the connection.
    asked_at_bytes: u64,
    /// What the kernel had sent again when it was last asked.
    retransmitted_bytes: u64,
    /// What TCP held back when it was last asked.
    pub unsent_bytes: u64,
    /// When the reader began to be watched for slowness, and what had been sent then.
    window: (Nanos, u64),
    stream: Stream,
    /// How often the kernel was told something.
    marks: usize,
}

impl<S: Socket> Sending<S> {
    /// What an earlier response on the connection had sent again, `retransmitted_bytes`, was paid for then.
    pub fn new(id: JobId, dispatch: Dispatch<S>, retransmitted_bytes: u64, now: Nanos) -> Sending<S> {
        let Dispatch { owner, socket, outgoing, stream, .. } = dispatch;
        Sending {
            id,
            owner,
            socket,
            outgoing,
            sent_bytes: 0,
            asked_at_bytes: 0,
            retransmitted_bytes,
            unsent_bytes: 0,
            window: (now, 0),
            stream,
            marks: 0,
        }
    }

    /// Whether less than a burst waits unsent.
    pub fn has_room(&self) -> bool {
        self.socket.has_room()
    }

    /// Sees to it that what is sent next carries its mark. A band that comes and goes with the path is followed as often as
    /// there are bands, so that marking costs a response a bounded number of system calls.
    pub fn mark(&mut self, mark: &Mark, band: u8) {
        match mark {
            Mark::Bands(bands) if self.marks < bands.count() => {
                let is_marked = bands.mark(&self.socket, &mut self.stream, band, self.sent_bytes > 0);
                self.marks += usize::from(is_marked);
            }
            Mark::Told(map) if self.marks == 0 => {
                let begin = self.stream.sent_bytes;
                self.socket.tell(map, begin, begin + self.outgoing.remaining_bytes());
                self.marks = 1;
            }
            Mark::Bands(_) | Mark::Told(_) => {}
        }
    }

    pub fn send(&mut self, bytes_max: u64) -> Sent {
        let sent = self.outgoing.send(&self.socket, bytes_max);
        self.sent_bytes += sent.bytes;
        self.stream.sent_bytes += sent.bytes;
        sent
    }

    /// Asks the kernel: the bytes sent again since it was last asked, and the path as it is now.
    pub fn ask(&mut self) -> (u64, Path) {
        let status = self.socket.status();
        let since = status.retransmitted_bytes.saturating_sub(self.retransmitted_bytes);
        self.retransmitted_bytes = self.retransmitted_bytes.max(status.retransmitted_bytes);
        self.asked_at_bytes = self.sent_bytes;
        (since, status.path)
    }

    /// What TCP holds back, before and now: payload bytes, the first as of the last look.
    pub fn look_at_unsent(&mut self) -> (u64, u64) {
        let before = self.unsent_bytes;
        self.unsent_bytes = self.socket.unsent_bytes();
        (before, self.unsent_bytes)
    }

    /// Whether so much was sent since the kernel was last asked that the path may have changed.
    pub fn is_path_old(&self) -> bool {
        self.sent_bytes - self.asked_at_bytes >= PATH_BYTES
    }

    /// Whether the reader took too little in a whole window. Only time in which we waited for the reader counts, not
    /// time in which the response waited for its turn, be it here or, if the kernel orders, in a queue below TCP.
    pub fn is_stalled(&mut self, now: Nanos, is_blocked: bool, is_ordered_below: bool, patience: &Patience) -> bool {
        if !is_blocked || (is_ordered_below && self.socket.is_queued_below()) {
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
        let Sending { owner, sent_bytes, stream, outgoing, .. } = self;
        Departure { owner, sent_bytes, failure, buffer: outgoing.into_buffer(), stream }
    }
}
