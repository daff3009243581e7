//! The open connections of the write path, and which of them have something to say that no response takes along.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::{Index, IndexMut};

use sched::Scheduler;
use sched::grow::grow_to;
use tls::{RECORD_BYTES_MAX, Session};
use units::Nanos;

use super::connection::{Connection, Load};
use super::engine::Engine;
use super::framed::{Framed, framed};
use super::sendings::Sendings;
use super::{Link, Opening, Sink, Socket, http3};

/// By the numbers that their opener gave them.
pub struct OpenConnections<S> {
    slots: Vec<Option<Connection<S>>>,
    /// Those that have something to say for themselves; some may have gone.
    unsaid: VecDeque<usize>,
    /// Memory for frames.
    spare: Vec<u8>,
    pub(super) datagrams: http3::Shared,
}

impl<S> Default for OpenConnections<S> {
    fn default() -> OpenConnections<S> {
        let (unsaid, spare, datagrams) = (VecDeque::new(), Vec::new(), http3::Shared::default());
        OpenConnections { slots: Vec::new(), unsaid, spare, datagrams }
    }
}

impl<S: Socket> OpenConnections<S> {
    /// A connection under this number, which no other has until it is closed.
    pub fn open(&mut self, now: Nanos, at: usize, opening: Opening<S>) {
        grow_to(&mut self.slots, at + 1, || None);
        let before = self.slots[at].replace(Connection::new(opening, now));
        debug_assert!(before.is_none(), "a number is one open connection's");
    }

    /// Its TLS, where the client speaks that.
    pub fn session(&mut self, at: usize) -> Option<&mut Session> {
        self[at].session.as_deref_mut()
    }

    /// The client turned out not to speak TLS.
    pub fn end_session(&mut self, at: usize) {
        self[at].session = None;
    }

    /// Where its client is reached.
    pub fn socket(&self, at: usize) -> &S {
        &self[at].socket
    }

    /// Who makes the frames of a connection that carries several responses.
    pub fn engine(&mut self, at: usize) -> &mut Engine {
        &mut framed(&mut self[at]).engine
    }

    /// No new requests are taken, and the client learns so.
    pub fn go_away(&mut self, at: usize) {
        self.engine(at).go_away();
        self.say(at);
    }

    /// A stream on which nothing is being sent will not be answered.
    pub fn cancel(&mut self, at: usize, stream: u32) {
        self.engine(at).cancel(stream);
        self.say(at);
    }

    /// Nothing more comes or goes by its own account, and all that was made has left.
    pub fn has_ended(&mut self, at: usize) -> bool {
        let connection = &mut self[at];
        !connection.has_unsent() && framed(connection).engine.has_ended()
    }

    /// What it has to say for itself leaves in this turn.
    pub fn say(&mut self, at: usize) {
        if framed(&mut self[at]).begin_unsaid() {
            self.unsaid.push_back(at);
        }
    }

    /// The next that has something to say, made. `None`: it was closed meanwhile, and its place may be another's.
    pub(super) fn next_unsaid(&mut self) -> Option<usize> {
        let at = self.unsaid.pop_front()?;
        let is_unsaid = self.get_mut(at)?.load.framed_mut()?.end_unsaid();
        is_unsaid.then(|| self.begin_frames(at).control())?;
        Some(at)
    }

    /// When one of them has to be looked after, by its own account.
    pub(super) fn timeout(&self) -> Option<Nanos> {
        if self.unsaid.is_empty() { self.datagrams.timer() } else { Some(Nanos::ZERO) }
    }

    /// How many have something to say, or had when they were closed.
    pub(super) fn unsaid(&self) -> usize {
        self.unsaid.len()
    }

    /// With memory for frames, which idle connections have none of.
    pub(super) fn begin_frames(&mut self, at: usize) -> &mut Framed {
        let connection = self.slots[at].as_mut().expect("it is open");
        let framed = framed(connection);
        framed.borrow(&mut self.spare);
        framed
    }

    /// All frames have left.
    pub(super) fn end_frames(&mut self, at: usize) {
        if let Some(framed) = self.slots[at].as_mut().and_then(|connection| connection.load.framed_mut()) {
            framed.give_back(&mut self.spare);
        }
    }

    /// Hands down what answers the client's TLS, between responses; gives how many bytes left. Nobody decides about those few bytes, and the
    /// link is charged for them.
    pub fn send_sealed(&mut self, now: Nanos, at: usize, link: &mut Link) -> usize {
        let connection = &mut self[at];
        let Some(bytes) = connection.send_sealed() else { return 0 };
        link.correct(now, connection.delivery.on_sent(bytes as u64));
        bytes
    }

    /// Hands down bytes between responses, as [`OpenConnections::send_sealed`] does; gives how many were taken. Those of a client that speaks TLS are
    /// sealed, and what of them has no room leaves before anything else; behind the end of its TLS nothing leaves.
    pub fn send_aside(&mut self, now: Nanos, at: usize, bytes: &[u8], link: &mut Link) -> usize {
        let connection = &mut self[at];
        if let Some(session) = &mut connection.session {
            if !session.can_seal() {
                return bytes.len();
            }
            bytes.chunks(RECORD_BYTES_MAX).for_each(|part| session.seal(&[IoSlice::new(part)]));
            self.send_sealed(now, at, link);
            return bytes.len();
        }
        // What fails but for want of room fails again where the connection is read.
        let sent = connection.socket.tcp().map_or(0, |tcp| tcp.send(bytes, false).unwrap_or(0));
        if sent > 0 {
            link.correct(now, connection.delivery.on_sent(sent as u64));
        }
        sent
    }

    /// Owners of the connections to which time has happened since this was last called.
    pub fn woken(&mut self) -> std::vec::Drain<'_, u64> {
        self.datagrams.woken()
    }

    /// Datagrams wait for room in the socket of this number ([`Socket::shared`]).
    pub fn is_full_at(&self, number: u64) -> bool {
        self.datagrams.full().any(|at| self[at].number_below() == number)
    }

    /// All that is to be sent on a connection waits for its reader, which took less than the least rate at so many looks of
    /// [`super::Transmitter::end_stalled`], one after another.
    pub fn is_slow(&self, at: usize, looks: u8, scheduler: &Scheduler) -> bool {
        let connection = &self[at];
        connection.load.waits_for_reader(scheduler) && connection.reader.slow_looks() >= looks
    }

    /// What was made for a connection, or has come for its responses, and has not left.
    pub fn unsent_bytes(&mut self, at: usize, sendings: &Sendings) -> usize {
        let connection = &mut self[at];
        let sealed_bytes = connection.session.as_mut().map_or(0, |session| session.unsent_bytes());
        let made_bytes = match &mut connection.load {
            Load::Single(job) => job.and_then(|job| sendings.get(job)).map_or(0, |one| one.outgoing.memory_bytes()),
            Load::Framed(framed) => framed.memory_bytes(sendings),
        };
        sealed_bytes + made_bytes
    }

    /// Nothing was sent for so long, through no fault of the readers.
    pub fn excuse(&mut self, paused: Nanos) {
        self.slots.iter_mut().flatten().for_each(|connection| connection.reader.excuse(paused));
    }

    /// Gives back what is behind the last one.
    pub(super) fn shrink(&mut self) {
        let len = self.slots.iter().rposition(Option::is_some).map_or(0, |at| at + 1);
        self.slots.truncate(len);
        self.slots.shrink_to_fit();
        self.unsaid.shrink_to_fit();
    }
}

impl<S> OpenConnections<S> {
    pub(super) fn take(&mut self, at: usize) -> Option<Connection<S>> {
        self.slots.get_mut(at)?.take()
    }

    /// One of HTTP/3, and what all of those have.
    pub(super) fn with_datagrams(&mut self, at: usize) -> (&mut Connection<S>, &mut http3::Shared) {
        (self.slots[at].as_mut().expect("it is open"), &mut self.datagrams)
    }

    pub(super) fn get(&self, at: usize) -> Option<&Connection<S>> {
        self.slots.get(at)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Connection<S>> {
        self.slots.get_mut(at)?.as_mut()
    }
}

#[cfg(test)]
impl<S> OpenConnections<S> {
    pub(super) fn numbers(&self) -> Vec<usize> {
        self.slots.iter().enumerate().filter(|(_, connection)| connection.is_some()).map(|(at, _)| at).collect()
    }

    pub(super) fn spare_bytes(&self) -> usize {
        self.spare.capacity()
    }
}

impl<S> Index<usize> for OpenConnections<S> {
    type Output = Connection<S>;

    fn index(&self, at: usize) -> &Connection<S> {
        self.get(at).expect("it is open")
    }
}

impl<S> IndexMut<usize> for OpenConnections<S> {
    fn index_mut(&mut self, at: usize) -> &mut Connection<S> {
        self.get_mut(at).expect("it is open")
    }
}
