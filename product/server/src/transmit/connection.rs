use sched::line::{Look, Looks, Seen};
use sched::{Account, Correction, JobId, Scheduler, TcpSent, Why};
use tls::Session;
use units::Nanos;
use units::wire::Framing;

use super::framed::Framed;
use super::producing::is_awaited;
use super::reader::Reader;
use super::unacknowledged::Listed;
use super::{Down, Opening, Patience, Socket, Status};

/// A connection, from its acceptance to its end. What is true of it is true for all responses on it: what TCP sent again is charged
/// once, a full socket holds all of them up, and its reader is slow or not.
pub struct Connection<S> {
    /// Comes back in every [`super::Departure`].
    pub(super) owner: u64,
    pub(super) socket: S,
    /// See [`super::Opening::client`].
    pub client: u32,
    /// The policy's band in which its packets are now; `None` while they have what the listening socket gave them.
    pub(super) band: Option<u8>,
    /// By the last look.
    pub(super) is_unacknowledged: bool,
    /// Its socket did not take all at once, since it was last known to be acknowledged.
    pub(super) was_full: bool,
    /// Its place among those with unacknowledged bytes.
    pub(super) listed: Listed,
    /// Payload handed down when that was last asked, but for multiples of 4 GiB.
    told_bytes: u32,
    /// Payload handed down on it, of all responses.
    pub(super) sent_bytes: u64,
    /// What the link was charged for it.
    account: Account,
    looks: Looks,
    /// Where the client speaks TLS.
    pub(super) session: Option<Box<Session>>,
    pub(super) load: Load,
    /// Of its client.
    pub(super) reader: Reader,
}

/// What is sent on a connection.
pub(super) enum Load {
    /// One response at a time, or none.
    Single(Option<JobId>),
    /// Several at once, as frames.
    Framed(Box<Framed>),
}

impl Load {
    pub fn framed(&self) -> Option<&Framed> {
        match self {
            Load::Single(_) => None,
            Load::Framed(framed) => Some(framed),
        }
    }

    pub fn framed_mut(&mut self) -> Option<&mut Framed> {
        match self {
            Load::Single(_) => None,
            Load::Framed(framed) => Some(framed),
        }
    }

    /// The only response of a connection that has one at a time.
    pub fn single(&self) -> Option<JobId> {
        match self {
            Load::Single(job) => *job,
            Load::Framed(_) => None,
        }
    }

    /// The responses on the connection.
    pub fn jobs<'l>(&'l self, scheduler: &'l Scheduler) -> impl Iterator<Item = JobId> + 'l {
        let several = self.framed().map(|framed| scheduler.jobs().on(framed.id));
        self.single().into_iter().chain(several.into_iter().flatten())
    }

    /// Bytes of the body of a response have come.
    pub fn on_buffered(&mut self, job: JobId) {
        self.framed_mut().into_iter().for_each(|framed| framed.on_buffered(job));
    }

    /// The connection takes no more, of any response.
    pub fn wait(&self, scheduler: &mut Scheduler) {
        match self {
            Load::Single(job) => job.iter().for_each(|job| scheduler.on_wait(*job, Why::Connection)),
            Load::Framed(framed) => scheduler.on_wait(framed.id, Why::Connection),
        }
    }

    /// It takes more again.
    pub fn wait_over(&self, now: Nanos, scheduler: &mut Scheduler) {
        match self {
            Load::Single(job) => job.iter().for_each(|job| scheduler.on_wait_over(now, *job, Why::Connection)),
            Load::Framed(framed) => scheduler.on_wait_over(now, framed.id, Why::Connection),
        }
    }

    /// Its socket takes no more, of what several responses are to send.
    pub fn is_blocked(&self, scheduler: &Scheduler) -> bool {
        self.framed().is_some_and(|framed| scheduler.jobs().is_blocked(framed.id))
    }

    /// All that is to be sent waits for the reader.
    pub fn waits_for_reader(&self, scheduler: &Scheduler) -> bool {
        match self {
            Load::Single(job) => {
                job.and_then(|job| scheduler.jobs().get(job)).is_some_and(sched::Job::waits_for_reader)
            }
            Load::Framed(framed) => {
                let silent = || self.jobs(scheduler).filter(|job| is_awaited(scheduler, *job)).count();
                framed.waits_for_reader(silent) || self.is_blocked(scheduler) && framed.has_responses()
            }
        }
    }
}

impl<S> Connection<S> {
    /// Nothing was sent on it yet.
    pub fn new(opening: Opening<S>, now: Nanos) -> Connection<S> {
        let Opening { owner, socket, client, framing, session } = opening;
        Connection {
            owner,
            socket,
            client,
            band: None,
            is_unacknowledged: false,
            was_full: false,
            listed: Listed::default(),
            told_bytes: 0,
            sent_bytes: 0,
            account: Account::new(framing),
            looks: Looks::default(),
            session,
            load: Load::Single(None),
            reader: Reader::new(now),
        }
    }

    /// How it cuts its payload.
    pub fn framing(&self) -> Framing {
        self.account.framing()
    }

    /// The kernel was asked before what it has sent.
    pub fn is_known(&self) -> bool {
        self.account.is_settled()
    }

    /// So much payload was handed down, and the link was charged for it in segments of this connection: so many wire bytes.
    pub fn on_sent(&mut self, payload_bytes: u64) -> u64 {
        let wire_bytes = self.framing().wire_bytes(payload_bytes);
        self.sent_bytes += payload_bytes;
        self.account.on_charged(wire_bytes);
        wire_bytes
    }

    /// Payload handed down since this was last asked, less than 4 GiB.
    pub fn newly_sent_bytes(&mut self) -> u64 {
        let sent_bytes = self.sent_bytes as u32;
        sent_bytes.wrapping_sub(std::mem::replace(&mut self.told_bytes, sent_bytes)).into()
    }

    /// Bytes that a record has beside its content, at most; none without TLS.
    pub fn record_overhead(&self) -> u64 {
        self.session.as_ref().map_or(0, |session| session.overhead() as u64)
    }

    /// Where the kernel does not count what it sent, all that was handed down is taken for sent.
    fn sent(&self, status: &Status) -> TcpSent {
        status.sent.unwrap_or_else(|| {
            let payload_bytes = self.sent_bytes - status.unsent_bytes.min(self.sent_bytes);
            let segments = payload_bytes.div_ceil(self.framing().segment_bytes) as u32;
            TcpSent { payload_bytes, segments }
        })
    }

    /// What is new since the last look: over all responses each acknowledged byte is told once.
    fn look(&mut self, now: Nanos, status: &Status) -> Look {
        let Status { acked_bytes, sacked_bytes, acked_ago, retransmitted_bytes, .. } = *status;
        self.is_unacknowledged = status.is_unacknowledged;
        // A kernel that does not count what it sent tells at least of what has arrived.
        let sent_bytes = status.sent.map_or(acked_bytes, |sent| sent.payload_bytes.saturating_sub(retransmitted_bytes));
        let rtt = status.path.rtt;
        let seen = Seen { rtt, acked_bytes, sacked_bytes, acked_ago, sent_bytes, retransmitted_bytes };
        self.looks.look(now, &seen, self.account.framing())
    }
}

impl<S: Socket> Connection<S> {
    /// Hands down what answers the client's TLS, between responses; gives how many bytes left. `None` without TLS.
    pub fn send_sealed(&mut self) -> Option<usize> {
        // What fails but for want of room fails again where the connection is read.
        let (session, socket) = (self.session.as_mut()?, self.socket.tcp()?);
        Some(session.hand_down(&mut Down { socket, more: false }).bytes)
    }

    /// The number under which its packets below are counted: its owner's, unless it shares its socket.
    pub fn number_below(&self) -> u64 {
        self.socket.shared().map_or(self.owner, |(number, _)| number)
    }

    /// Sets the connection's account against what TCP has sent; and what that says of the line.
    pub fn settle(&mut self, now: Nanos) -> (Correction, Look) {
        let status = self.socket.status();
        let sent = self.sent(&status);
        (self.account.settle(sent), self.look(now, &status))
    }

    /// What TCP says of the line, between responses: what was foreseen behind the last one stays charged.
    pub fn look_on(&mut self, now: Nanos) -> Look {
        let status = self.socket.status();
        self.look(now, &status)
    }

    /// The same behind the last byte of a response, where nobody may look again: what TCP still keeps is foreseen, wire bytes, and
    /// the acknowledgement of the client's FIN if the connection ends here.
    pub fn settle_last(&mut self, now: Nanos, ends_connection: bool) -> (Correction, u64, Look) {
        let status = self.socket.status();
        let sent = self.sent(&status);
        let settled = self.account.settle(sent);
        let bare_segments = u64::from(ends_connection);
        (settled, self.account.foresee(status.unsent_bytes, bare_segments), self.look(now, &status))
    }

    /// The same when the connection ends, with what its end will send.
    pub fn settle_closed(&mut self, now: Nanos) -> (Correction, Look) {
        let status = self.socket.status();
        // A connection that has ended keeps nothing: a reset throws away what was not sent.
        let payload_bytes = if status.closing_segments > 0 { status.unsent_bytes } else { 0 };
        let sent = self.sent(&status);
        let correction = self.account.close(sent, payload_bytes, status.closing_segments.into());
        (correction, self.look(now, &status))
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
        let waits_for_reader = waits_for_reader && (!is_ordered_below || self.socket.queued_below_bytes() == Some(0));
        let acked_bytes = || self.socket.status().acked_bytes;
        self.reader.is_stalled(now, self.sent_bytes, acked_bytes, waits_for_reader, patience)
    }
}

/// Of every connection, most of them idle.
#[cfg(test)]
pub const BYTES: usize = size_of::<Connection<super::Transport>>();
