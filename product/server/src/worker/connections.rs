//! The connections of a worker, their names, and which of them have something to be read.

use std::ops::{Index, IndexMut};

use slab::Slab;
use units::Nanos;
use units::memory::Account;

use super::conn::Conn;
use super::exchange::{Exchange, ExchangeId};
use super::owner::{Owners, slot_of};
use crate::turns::Turns;

/// By slot.
#[derive(Default)]
pub(super) struct Connections {
    slots: Slab<Conn>,
    owners: Owners,
    /// Owners of connections with something to be read, each once.
    queue: Turns<u64>,
    /// Counts the memory of all of them.
    account: Account,
    /// Open streams of HTTP/2 and HTTP/3, as they were last counted.
    streams: usize,
    /// Some have ended since that was asked.
    has_ended: bool,
}

impl Index<usize> for Connections {
    type Output = Conn;

    fn index(&self, at: usize) -> &Conn {
        &self.slots[at]
    }
}

impl IndexMut<usize> for Connections {
    fn index_mut(&mut self, at: usize) -> &mut Conn {
        &mut self.slots[at]
    }
}

impl Connections {
    /// None, whose memory this account will count.
    pub fn counted_in(account: Account) -> Connections {
        Connections { account, ..Connections::default() }
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Slots, whether used or not.
    pub fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    pub fn shrink(&mut self) {
        self.slots.shrink_to_fit();
    }

    pub fn get(&self, at: usize) -> Option<&Conn> {
        self.slots.get(at)
    }

    pub fn get_mut(&mut self, at: usize) -> Option<&mut Conn> {
        self.slots.get_mut(at)
    }

    pub fn contains(&self, at: usize) -> bool {
        self.slots.contains(at)
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &Conn)> {
        self.slots.iter()
    }

    /// The slot of the next connection, and a name for it.
    pub fn vacant(&mut self) -> (usize, u64) {
        let at = self.slots.vacant_key();
        (at, self.owners.next(at))
    }

    /// Into the slot of [`Connections::vacant`].
    pub fn insert(&mut self, conn: Conn) -> usize {
        let at = self.slots.insert(conn);
        self.count(at);
        at
    }

    pub fn remove(&mut self, at: usize) {
        let conn = self.slots.remove(at);
        self.streams -= conn.held.streams();
        self.has_ended = true;
    }

    /// Whether any has ended since this was asked before.
    pub fn take_ended(&mut self) -> bool {
        std::mem::take(&mut self.has_ended)
    }

    /// Counts the memory of all of them.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Open streams of HTTP/2 and HTTP/3.
    pub fn streams(&self) -> usize {
        self.streams
    }

    /// Counts anew what no buffer of this connection counts, if it is still there.
    pub fn count(&mut self, at: usize) {
        if let Some(conn) = self.slots.get_mut(at) {
            self.streams -= conn.held.streams();
            conn.count();
            self.streams += conn.held.streams();
        }
    }

    /// A stream of the connection in this slot.
    pub fn begin_stream(&mut self, at: usize, stream: u32) -> ExchangeId {
        let owner = self.owners.next(at);
        self.slots[at].exchanges.streams_mut().into_iter().for_each(|streams| streams.begin(stream, owner));
        ExchangeId { at, stream }
    }

    /// The slot of a connection that is still there.
    pub fn slot(&self, owner: u64) -> Option<usize> {
        let at = slot_of(owner);
        self.get(at).is_some_and(|conn| conn.owner == owner).then_some(at)
    }

    pub fn exchange(&mut self, id: ExchangeId) -> &mut Exchange {
        self.slots[id.at].exchange(id.stream)
    }

    /// The exchange of this name, if it is still there.
    pub fn exchange_id(&self, owner: u64) -> Option<ExchangeId> {
        let at = slot_of(owner);
        let exchange = self.get(at)?.exchanges.iter().find(|exchange| exchange.owner == owner)?;
        Some(ExchangeId { at, stream: exchange.number })
    }

    /// Has a connection read in its turn.
    pub fn queue(&mut self, at: usize) {
        let conn = &mut self.slots[at];
        if !std::mem::replace(&mut conn.input.is_queued, true) {
            self.queue.push(conn.client, conn.owner);
        }
    }

    /// Something has happened to a connection that its turn is to see.
    pub fn wake(&mut self, at: usize) {
        self.slots[at].input.is_cut = true;
        self.queue(at);
    }

    /// What came in while a response was being sent is for the connection's next turn.
    pub fn go_on(&mut self, at: usize) {
        let Some(conn) = self.get_mut(at).filter(|conn| !conn.is_multiplexed()) else { return };
        conn.input.is_cut = conn.http1.has_kept();
        if conn.input.is_left() {
            self.queue(at);
        }
    }

    /// The same for those of these names that are still there.
    pub fn wake_all(&mut self, owners: impl Iterator<Item = u64>) {
        for owner in owners {
            if let Some(at) = self.slot(owner) {
                self.wake(at);
            }
        }
    }

    /// How many are to be read; some of them may be gone.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// The next to be read; `None` where it is gone.
    pub fn unqueue(&mut self) -> Option<usize> {
        let owner = self.queue.pop()?;
        let at = self.slot(owner)?;
        self.slots[at].input.is_queued = false;
        Some(at)
    }

    /// Every deadline is so much later.
    pub fn excuse(&mut self, paused: Nanos) {
        self.slots.iter_mut().for_each(|(_, conn)| conn.excuse(paused));
    }

    /// Nothing is read behind the responses under way.
    pub fn stop(&mut self) {
        self.slots.iter_mut().for_each(|(_, conn)| conn.http1.answering.close());
    }

    /// Slots of the connections of which this is true.
    pub fn slots(&self, is_meant: impl Fn(&Conn) -> bool) -> Vec<usize> {
        self.iter().filter(|(_, conn)| is_meant(conn)).map(|(at, _)| at).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::config::Limits;

    fn add(conns: &mut Connections, client: u32) -> usize {
        let (_, owner) = conns.vacant();
        let peer = (Ipv4Addr::LOCALHOST, 80).into();
        conns.insert(Conn::new(Nanos::ZERO, &Limits::default(), owner, client, peer, &Default::default()))
    }

    #[test]
    fn a_connection_is_queued_once_and_clients_take_turns() {
        let mut conns = Connections::default();
        let [first, second, other] = [7, 7, 3].map(|client| add(&mut conns, client));
        [first, first, second, other].into_iter().for_each(|at| conns.queue(at));
        assert_eq!(conns.queued(), 3);
        assert_eq!([(); 3].map(|()| conns.unqueue()), [first, other, second].map(Some));
        conns.queue(first);
        assert_eq!((conns.unqueue(), conns.queued()), (Some(first), 0));
    }

    #[test]
    fn what_was_meant_for_a_connection_that_is_gone_reaches_no_other() {
        let mut conns = Connections::default();
        let at = add(&mut conns, 1);
        let owner = conns[at].owner;
        conns.queue(at);
        assert_eq!((conns.slot(owner), conns.exchange_id(owner)), (Some(at), Some(at.into())));
        assert!(!conns.take_ended());
        conns.remove(at);
        assert!(conns.take_ended() && !conns.take_ended());
        assert_eq!(add(&mut conns, 1), at, "the slot is used again");
        assert_eq!((conns.slot(owner), conns.exchange_id(owner), conns.unqueue()), (None, None, None));
    }

    #[test]
    fn a_pause_moves_deadlines() {
        let mut conns = Connections::default();
        let at = add(&mut conns, 1);
        let (before, pause) = (conns[at].deadline(), Nanos::from_secs(5));
        conns.excuse(pause);
        assert_eq!(conns[at].deadline(), before + pause);
        assert_eq!(conns.slots(|conn| conn.client == 1), [at]);
    }
}
