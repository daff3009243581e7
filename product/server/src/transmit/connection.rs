use std::io::IoSlice;

use sched::{JobId, Scheduler, Why};
use tls::{RECORD_BYTES_MAX, Session};
use units::Nanos;
use units::memory::Account;

use super::delivery::Delivery;
use super::engine::Engine;
use super::framed::Framed;
use super::producing::is_awaited;
use super::reader::Reader;
use super::{Down, Link, Opening, Patience, Sink, Socket};

/// A connection, from its acceptance to its end. What is true of it is true for all responses on it: what TCP sent again is charged
/// once, a full socket holds all of them up, and its reader is slow or not.
pub struct Connection<S> {
    /// Comes back in every [`super::Departure`].
    pub(super) owner: u64,
    pub socket: S,
    /// See [`super::Opening::client`].
    pub client: u32,
    /// The policy's band in which its packets are now; `None` while they have what the listening socket gave them.
    pub(super) band: Option<u8>,
    /// Its socket did not take all at once, since it was last known to be acknowledged.
    pub(super) was_full: bool,
    pub delivery: Delivery,
    /// Where the client speaks TLS.
    pub session: Option<Box<Session>>,
    pub(super) load: Load,
    /// Counts the memory of what is sent on it.
    pub(super) account: Account,
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
        let Opening { owner, socket, client, framing, mut session, account } = opening;
        session.iter_mut().for_each(|session| session.count_in(&account));
        Connection {
            owner,
            socket,
            client,
            band: None,
            was_full: false,
            delivery: Delivery::new(framing),
            session,
            load: Load::Single(None),
            account,
            reader: Reader::new(now),
        }
    }

    /// Its frames: it carries several responses.
    pub(super) fn framed(&mut self) -> &mut Framed {
        self.load.framed_mut().expect("it speaks HTTP/2 or HTTP/3")
    }

    /// Makes them. What that has to say for itself leaves where [`super::OpenConnections::say`] is called.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.framed().engine
    }

    /// Bytes that a record has beside its content, at most; none without TLS.
    pub fn record_overhead(&self) -> u64 {
        self.session.as_ref().map_or(0, |session| session.overhead() as u64)
    }
}

impl<S: Socket> Connection<S> {
    /// Hands down what answers the client's TLS, between responses; gives how many bytes left. Nobody decides about those few bytes, and the
    /// link is charged for them.
    pub fn send_sealed(&mut self, now: Nanos, link: &mut Link) -> usize {
        let (Some(session), Some(socket)) = (&mut self.session, self.socket.tcp()) else { return 0 };
        // What fails but for want of room fails again where the connection is read.
        let bytes = session.hand_down(&mut Down { socket, more: false }).bytes;
        link.correct(now, self.delivery.on_sent(bytes as u64));
        bytes
    }

    /// Hands down bytes between responses, as [`Connection::send_sealed`] does; gives how many were taken. Those of a client that speaks TLS are
    /// sealed, and what of them has no room leaves before anything else; behind the end of its TLS nothing leaves.
    pub fn send_aside(&mut self, now: Nanos, bytes: &[u8], link: &mut Link) -> usize {
        if let Some(session) = &mut self.session {
            if !session.can_seal() {
                return bytes.len();
            }
            bytes.chunks(RECORD_BYTES_MAX).for_each(|part| session.seal(&[IoSlice::new(part)]));
            self.send_sealed(now, link);
            return bytes.len();
        }
        // What fails but for want of room fails again where the connection is read.
        let sent = self.socket.tcp().map_or(0, |tcp| tcp.send(bytes, false).unwrap_or(0));
        if sent > 0 {
            link.correct(now, self.delivery.on_sent(sent as u64));
        }
        sent
    }

    /// The number under which its packets below are counted: its owner's, unless it shares its socket.
    pub fn number_below(&self) -> u64 {
        self.socket.shared().map_or(self.owner, |(number, _)| number)
    }

    /// Nothing more comes or goes by its own account, and all that was made has left.
    pub fn has_ended(&mut self) -> bool {
        !self.has_unsent() && self.engine().has_ended()
    }

    /// All that is to be sent waits for its reader, which took less than the least rate at so many looks of
    /// [`super::Transmitter::end_stalled`], one after another.
    pub fn is_slow(&self, looks: u8, scheduler: &Scheduler) -> bool {
        self.load.waits_for_reader(scheduler) && self.reader.slow_looks() >= looks
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
        self.reader.is_stalled(now, self.delivery.sent_bytes(), acked_bytes, waits_for_reader, patience)
    }
}

/// Of every connection, most of them idle.
#[cfg(test)]
pub const BYTES: usize = size_of::<Connection<crate::net::Transport>>();
