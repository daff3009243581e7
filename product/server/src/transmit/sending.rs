use std::cell::OnceCell;

use sched::feedback::{Look, Looks, Seen};
use sched::{Correction, JobId, Path};
use units::Nanos;

use super::outgoing::Sent;
use super::{Departure, Failure, Mark, Outgoing, Patience, Socket, Status, Stream};
use crate::storage::{ReadDone, Storage};

/// A path is asked for when a response begins, when its socket takes bytes again, and after this many bytes: a few
/// windows of TCP, and one system call to fifty sends of a segment.
const PATH_BYTES: u64 = 64 << 10;

/// A response to be sent.
pub struct Dispatch<S> {
    /// Comes back in the [`Departure`].
    pub owner: u64,
    pub socket: S,
    /// What is left of it.
    pub outgoing: Outgoing,
    /// What was sent of it before, which only happens where nothing is paced or marked.
    pub sent_bytes: u64,
    /// Of the customer or folder, for policies with classes.
    pub class: u8,
    pub stream: Stream,
}

/// A response that is being sent.
pub(super) struct Sending<S> {
    pub id: JobId,
    owner: u64,
    socket: S,
    outgoing: Outgoing,
    sent_bytes: u64,
    first_byte_at: Option<Nanos>,
    /// What had been sent when the kernel was last asked about the connection.
    asked_at_bytes: u64,
    /// When the reader began to be watched for slowness, and what had been sent then.
    window: (Nanos, u64),
    stream: Stream,
    /// How often the kernel was told something.
    marks: usize,
    looks: Looks,
    /// See [`Socket::client`]; asked once.
    client: OnceCell<u64>,
}

impl<S: Socket> Sending<S> {
    pub fn new(id: JobId, dispatch: Dispatch<S>, now: Nanos) -> Sending<S> {
        let Dispatch { owner, socket, mut outgoing, sent_bytes, stream, .. } = dispatch;
        outgoing.shrink();
        Sending {
            id,
            owner,
            socket,
            outgoing,
            sent_bytes,
            first_byte_at: None,
            asked_at_bytes: sent_bytes,
            window: (now, sent_bytes),
            stream,
            marks: 0,
            looks: Looks::default(),
            client: OnceCell::new(),
        }
    }

    pub fn socket(&self) -> &S {
        &self.socket
    }

    pub fn client(&self) -> u64 {
        *self.client.get_or_init(|| self.socket.client())
    }

    pub fn owner(&self) -> u64 {
        self.owner
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

    pub fn send(&mut self, now: Nanos, storage: &mut dyn Storage, bytes_max: u64) -> Sent {
        let sent = self.outgoing.send(&self.socket, storage, bytes_max);
        if sent.bytes > 0 {
            self.first_byte_at.get_or_insert(now);
        }
        self.sent_bytes += sent.bytes;
        self.stream.sent_bytes += sent.bytes;
        sent
    }

    /// Has what is sent next read aside.
    pub fn read_aside(&self, storage: &mut dyn Storage) -> Result<(), Failure> {
        let (entry, range) = self.outgoing.absent();
        storage.read_aside(self.id, entry, range).map_err(|error| Failure::unreadable(entry, error))
    }

    /// Takes what was read aside.
    pub fn on_read(&mut self, done: ReadDone) -> Result<(), Failure> {
        match done.result {
            Ok(buffer) => self.outgoing.on_read(buffer),
            Err(error) => Err(Failure::unreadable(self.outgoing.absent().0, error)),
        }
    }

    /// Asks the kernel about the path.
    pub fn ask_path(&mut self) -> Path {
        self.asked_at_bytes = self.sent_bytes;
        self.socket.status().path
    }

    /// The link was charged for this payload, in segments of this connection.
    pub fn on_charged(&mut self, payload_bytes: u64) {
        self.stream.account.on_charged(self.stream.framing().wire_bytes(payload_bytes));
    }

    /// Sets the connection's account against what TCP has sent; and what that says of the line.
    pub fn settle(&mut self) -> (Correction, Look) {
        let status = self.socket.status();
        (self.stream.settle(&status), self.look(&status))
    }

    /// The same behind the last byte, where nobody may look again: what TCP still keeps is foreseen, wire bytes, and
    /// the acknowledgement of the client's FIN if the connection ends here.
    pub fn settle_last(&mut self) -> (Correction, u64, Look) {
        let status = self.socket.status();
        let settled = self.stream.settle(&status);
        let bare_segments = u64::from(self.outgoing.ends_connection());
        (settled, self.stream.account.foresee(status.unsent_bytes, bare_segments), self.look(&status))
    }

    fn look(&mut self, status: &Status) -> Look {
        let Status { acked_bytes, acked_ago, retransmitted_bytes, .. } = *status;
        let seen = Seen { rtt: status.path.rtt, acked_bytes, acked_ago, retransmitted_bytes };
        self.looks.look(&seen, self.stream.framing())
    }

    /// Whether so much was sent since the kernel was last asked that the path may have changed.
    pub fn is_path_old(&self) -> bool {
        self.sent_bytes - self.asked_at_bytes >= PATH_BYTES
    }

    /// Whether the reader took too little in a whole window. Only time in which we waited for the reader counts, not
    /// time in which the response waited for its turn, be it here or, if the kernel orders, in a queue below TCP.
    pub fn is_stalled(
        &mut self,
        now: Nanos,
        waits_for_reader: bool,
        is_ordered_below: bool,
        patience: &Patience,
    ) -> bool {
        if !waits_for_reader || (is_ordered_below && self.socket.queued_below_bytes() != Some(0)) {
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

    /// Leaves this long out of the window.
    pub fn excuse(&mut self, paused: Nanos) {
        self.window.0 += paused;
    }

    pub fn into_departure(self, ended_at: Nanos, failure: Option<Failure>) -> Departure {
        let Sending { owner, sent_bytes, stream, first_byte_at, .. } = self;
        Departure { owner, sent_bytes, failure, first_byte_at, ended_at, stream }
    }
}
