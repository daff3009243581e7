//! The open connections of the write path, and which of them have something to say that no response takes along.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use sched::grow::grow_to;
use units::Nanos;

use super::connection::Connection;
use super::engine::Engine;
use super::framed::Framed;
use super::{Opening, Socket, http3};

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

    /// Something is done with the frames of a connection, which has something to say of that.
    pub fn with_engine<R>(&mut self, at: usize, act: impl FnOnce(&mut Engine) -> R) -> R {
        let result = act(self[at].engine());
        self.say(at);
        result
    }

    /// What it has to say for itself leaves in this turn.
    pub fn say(&mut self, at: usize) {
        if self[at].framed().begin_unsaid() {
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
        let framed = connection.framed();
        framed.borrow(&mut self.spare);
        framed
    }

    /// All frames have left.
    pub(super) fn end_frames(&mut self, at: usize) {
        if let Some(framed) = self.slots[at].as_mut().and_then(|connection| connection.load.framed_mut()) {
            framed.give_back(&mut self.spare);
        }
    }

    /// Owners of the connections to which time has happened since this was last called.
    pub fn woken(&mut self) -> std::vec::Drain<'_, u64> {
        self.datagrams.woken()
    }

    /// Datagrams wait for room in the socket of this number ([`Socket::shared`]).
    pub fn is_full_at(&self, number: u64) -> bool {
        self.datagrams.full().any(|at| self[at].number_below() == number)
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
