use sched::line::Look;
use sched::{Account, CarrierId, Correction, TcpSent};
use units::Nanos;
use units::wire::Framing;

use super::framed::Framed;
use super::unacknowledged::Listed;
use super::{Patience, Secure, Socket, Status, secure};

/// A connection on which responses are being sent. What is true of it is true for all of them: what TCP sent again is charged once,
/// a full socket holds all of them up, and its reader is slow or not.
pub(super) struct Pipe<S> {
    /// Comes back in every [`super::Departure`].
    pub owner: u64,
    pub socket: S,
    /// See [`super::Dispatch::client`].
    pub client: u32,
    pub state: PipeState,
    /// Where the client speaks TLS.
    pub secure: Option<Secure>,
    /// Where the client speaks HTTP/2.
    pub framed: Option<Box<Framed>>,
    /// By the last look.
    pub is_unacknowledged: bool,
    /// Its socket did not take all at once.
    pub was_full: bool,
    /// Where it stands among those with unacknowledged bytes.
    pub listed: Option<Listed>,
    /// Payload handed down when that was last asked.
    told_bytes: u64,
    /// Where it may carry several responses at once.
    pub carrier: Option<CarrierId>,
    /// When the reader began to be watched for slowness, and what had been sent then.
    window: (Nanos, u64),
}

/// What of a connection outlasts its responses: its next one goes on from there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PipeState {
    /// The policy's band in which its packets are now; `None` while they have what the listening socket gave them.
    pub band: Option<u8>,
    /// Bytes handed down on it, of all responses.
    pub sent_bytes: u64,
    /// What the link was charged for it.
    pub account: Account,
    /// Its place among the tails, as long as they have one of its owner there.
    pub tail: Option<u8>,
}

impl<S: Socket> Pipe<S> {
    pub fn new(owner: u64, socket: S, client: u32, state: PipeState, now: Nanos) -> Pipe<S> {
        let window = (now, state.sent_bytes);
        Pipe {
            owner,
            socket,
            client,
            state,
            secure: None,
            framed: None,
            is_unacknowledged: false,
            was_full: false,
            listed: None,
            told_bytes: state.sent_bytes,
            carrier: None,
            window,
        }
    }

    /// The same, under TLS.
    pub fn with_secure(self, secure: Option<Secure>) -> Pipe<S> {
        Pipe { secure, ..self }
    }

    /// So much payload was handed down, and the link was charged for it in segments of this connection.
    pub fn on_sent(&mut self, payload_bytes: u64) {
        self.state.on_sent(payload_bytes);
    }

    /// Payload handed down since this was last asked.
    pub fn newly_sent_bytes(&mut self) -> u64 {
        let before_bytes = std::mem::replace(&mut self.told_bytes, self.state.sent_bytes);
        self.state.sent_bytes - before_bytes
    }

    /// Bytes that a record has beside its content, at most; none without TLS.
    pub fn record_overhead(&self) -> u64 {
        self.secure.as_ref().map_or(0, |secure| secure::lock(secure).overhead() as u64)
    }

    /// Sets the connection's account against what TCP has sent; and what that says of the line.
    pub fn settle(&mut self, now: Nanos) -> (Correction, Look) {
        let status = self.socket.status();
        (self.state.settle(&status), self.look(now, &status))
    }

    /// The same behind the last byte of a response, where nobody may look again: what TCP still keeps is foreseen, wire bytes, and
    /// the acknowledgement of the client's FIN if the connection ends here.
    pub fn settle_last(&mut self, now: Nanos, ends_connection: bool) -> (Correction, u64, Look) {
        let status = self.socket.status();
        let settled = self.state.settle(&status);
        let bare_segments = u64::from(ends_connection);
        (settled, self.state.account.foresee(status.unsent_bytes, bare_segments), self.look(now, &status))
    }

    fn look(&mut self, now: Nanos, status: &Status) -> Look {
        self.is_unacknowledged = status.is_unacknowledged;
        self.socket.looked().look(now, status, self.state.framing())
    }

    /// Whether the reader took too little in a whole window. Only time in which we waited for the reader counts, not
    /// time in which its responses waited for their turn, be it here or, if the kernel orders, in a queue below TCP.
    pub fn is_stalled(
        &mut self,
        now: Nanos,
        waits_for_reader: bool,
        is_ordered_below: bool,
        patience: &Patience,
    ) -> bool {
        if !waits_for_reader || (is_ordered_below && self.socket.queued_below_bytes() != Some(0)) {
            self.window = (now, self.state.sent_bytes);
            return false;
        }
        let (since, bytes_then) = self.window;
        if now - since < patience.window {
            return false;
        }
        self.window = (now, self.state.sent_bytes);
        let least = u128::from(patience.rate_bytes_per_s_min) * u128::from((now - since).0) / 1_000_000_000;
        u128::from(self.state.sent_bytes - bytes_then) < least
    }

    /// Leaves this long out of the window.
    pub fn excuse(&mut self, paused: Nanos) {
        self.window.0 += paused;
    }
}

impl PipeState {
    /// Of a connection on which nothing was sent yet.
    pub fn new(framing: Framing) -> PipeState {
        PipeState { account: Account::new(framing), ..PipeState::default() }
    }

    /// See [`Pipe::on_sent`]; gives the wire bytes.
    pub(super) fn on_sent(&mut self, payload_bytes: u64) -> u64 {
        let wire_bytes = self.framing().wire_bytes(payload_bytes);
        self.sent_bytes += payload_bytes;
        self.account.on_charged(wire_bytes);
        wire_bytes
    }

    /// The kernel was asked before what it has sent.
    pub(super) fn is_known(&self) -> bool {
        self.account.is_settled()
    }

    pub fn framing(&self) -> Framing {
        self.account.framing()
    }

    /// Sets the account against what TCP has sent.
    pub fn settle(&mut self, status: &Status) -> Correction {
        self.account.settle(self.sent(status))
    }

    /// The same when the connection ends, with what its end will send.
    pub fn close(&self, status: &Status) -> Correction {
        // A connection that has ended keeps nothing: a reset throws away what was not sent.
        let payload_bytes = if status.closing_segments > 0 { status.unsent_bytes } else { 0 };
        self.account.close(self.sent(status), payload_bytes, status.closing_segments.into())
    }

    /// Where the kernel does not count what it sent, all that was handed down is taken for sent.
    fn sent(&self, status: &Status) -> TcpSent {
        status.sent.unwrap_or_else(|| {
            let payload_bytes = self.sent_bytes - status.unsent_bytes.min(self.sent_bytes);
            let segments = payload_bytes.div_ceil(self.framing().segment_bytes) as u32;
            TcpSent { payload_bytes, segments }
        })
    }
}
