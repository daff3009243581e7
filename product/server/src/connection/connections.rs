//! The connections of a worker, by slot: their names, the queue of connections to read, and the queue of connections
//! with output that no response carries.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use http::{BodyLength, HttpDate, Request, Response, Status};
use slab::Slab;
use units::Nanos;
use units::memory::Account;

#[cfg(test)]
use super::Opening;
use super::quic::Shared;
use super::{Connection, Engine, Exchange, Framed};
use crate::client_turns::Turns;
use crate::clock::{ClientClock, ClientTime};
use crate::exchange_id::{ExchangeId, Tokens, slot_of};
#[cfg(test)]
use crate::limits::Limits;
use crate::net::Socket;

pub struct Connections<S> {
    slots: Slab<Connection<S>>,
    tokens: Tokens,
    /// Tokens of the connections with something to read. Each token occurs once.
    queue: Turns<u64>,
    /// Counts the memory of all connections.
    account: Account,
    clock: ClientClock,
    /// The number of open HTTP/2 and HTTP/3 streams at the last count.
    streams: usize,
    /// True if a connection has ended since the last [`Connections::take_ended`].
    has_ended: bool,
    /// The slots of connections that have frames or datagrams of their own to send. Some may have been closed since.
    outputs: VecDeque<usize>,
    /// A spare buffer for frames. Only connections that are sending have one.
    spare: Vec<u8>,
    pub datagrams: Shared,
}

impl<S> Default for Connections<S> {
    fn default() -> Connections<S> {
        Connections::counted_in(Account::default(), ClientClock::default())
    }
}

impl<S> Index<usize> for Connections<S> {
    type Output = Connection<S>;

    fn index(&self, at: usize) -> &Connection<S> {
        &self.slots[at]
    }
}

impl<S> IndexMut<usize> for Connections<S> {
    fn index_mut(&mut self, at: usize) -> &mut Connection<S> {
        &mut self.slots[at]
    }
}

/// Returns the connection of an exchange, which must not have ended.
impl<S> Index<ExchangeId> for Connections<S> {
    type Output = Connection<S>;

    fn index(&self, id: ExchangeId) -> &Connection<S> {
        let connection = &self.slots[id.slot()];
        debug_assert_eq!(connection.token, id.token(), "the connection of the exchange is open");
        connection
    }
}

impl<S> IndexMut<ExchangeId> for Connections<S> {
    fn index_mut(&mut self, id: ExchangeId) -> &mut Connection<S> {
        let connection = &mut self.slots[id.slot()];
        debug_assert_eq!(connection.token, id.token(), "the connection of the exchange is open");
        connection
    }
}

impl<S> Connections<S> {
    /// Creates an empty table. `account` counts the memory of its connections, and `clock` is the clock for their
    /// deadlines.
    pub fn counted_in(account: Account, clock: ClientClock) -> Connections<S> {
        Connections {
            slots: Slab::new(),
            tokens: Tokens::default(),
            queue: Turns::default(),
            account,
            clock,
            streams: 0,
            has_ended: false,
            outputs: VecDeque::new(),
            spare: Vec::new(),
            datagrams: Shared::default(),
        }
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The number of slots, used or not.
    pub fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Frees the memory of the table after the last connection.
    pub fn shrink(&mut self) {
        self.slots.shrink_to_fit();
        self.outputs.shrink_to_fit();
    }

    pub fn get(&self, at: usize) -> Option<&Connection<S>> {
        self.slots.get(at)
    }

    pub fn get_mut(&mut self, at: usize) -> Option<&mut Connection<S>> {
        self.slots.get_mut(at)
    }

    pub fn contains(&self, at: usize) -> bool {
        self.slots.contains(at)
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &Connection<S>)> {
        self.slots.iter()
    }

    /// Returns a token for the next connection, which names its slot.
    pub fn next_token(&mut self) -> u64 {
        self.tokens.next(self.slots.vacant_key())
    }

    /// Inserts a connection into the slot that its token names.
    pub fn insert(&mut self, connection: Connection<S>) -> usize {
        let token = connection.token;
        let at = self.slots.insert(connection);
        debug_assert_eq!(at, slot_of(token), "the slot was vacant");
        self.count(at);
        at
    }

    /// Closes the socket of a connection and frees its slot.
    pub fn remove(&mut self, at: usize) {
        let connection = self.slots.remove(at);
        self.streams -= connection.held.streams();
        self.has_ended = true;
    }

    /// Returns whether a connection has ended since the last call.
    pub fn take_ended(&mut self) -> bool {
        std::mem::take(&mut self.has_ended)
    }

    /// The account of all connections' memory.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The number of open streams of HTTP/2 and HTTP/3.
    pub fn streams(&self) -> usize {
        self.streams
    }

    /// Recounts the memory of this connection outside its buffers, if the connection still exists.
    pub fn count(&mut self, at: usize) {
        if let Some(conn) = self.slots.get_mut(at) {
            self.streams -= conn.held.streams();
            conn.count();
            self.streams += conn.held.streams();
        }
    }

    /// Opens a stream on the connection in this slot.
    pub fn begin_stream(&mut self, at: usize, stream: u32) -> ExchangeId {
        let id = self.slots[at].exchange_id(stream);
        self.slots[at].protocol.streams_mut().into_iter().for_each(|streams| streams.begin(id));
        id
    }

    /// Returns the slot of a connection, or `None` if it has ended.
    pub fn slot(&self, token: u64) -> Option<usize> {
        let at = slot_of(token);
        self.get(at).is_some_and(|conn| conn.token == token).then_some(at)
    }

    /// Returns the exchange with this name; `None` if it has ended.
    pub fn find(&mut self, id: ExchangeId) -> Option<&mut Exchange> {
        let at = self.slot(id.token())?;
        self.slots[at].protocol.exchange(id.stream).filter(|exchange| exchange.id == id)
    }

    /// Returns the exchange with this name and its connection; `None` if it has ended.
    pub fn resolve(&self, id: ExchangeId) -> Option<(&Connection<S>, &Exchange)> {
        let connection = &self[self.slot(id.token())?];
        Some((connection, connection.protocol.exchanges().find(|exchange| exchange.id == id)?))
    }

    /// Returns whether the exchange with this name is still open.
    pub fn is_open(&self, id: ExchangeId) -> bool {
        self.resolve(id).is_some()
    }

    /// Returns an exchange, which must not have ended.
    pub fn exchange(&mut self, id: ExchangeId) -> &mut Exchange {
        self[id].exchange(id.stream)
    }

    /// Queues a connection. The event loop reads it when it reaches the head of the queue.
    pub fn queue(&mut self, at: usize) {
        let conn = &mut self.slots[at];
        if !std::mem::replace(&mut conn.input.is_queued, true) {
            self.queue.push(conn.client, conn.token);
        }
    }

    /// Queues a connection so that an event is handled when the connection is next read.
    pub fn wake(&mut self, at: usize) {
        self.slots[at].input.is_cut = true;
        self.queue(at);
    }

    /// Queues a connection because bytes arrived while its response was being sent.
    pub fn go_on(&mut self, at: usize) {
        let Some(conn) = self.get_mut(at) else { return };
        let Some(http1) = conn.protocol.http1() else { return };
        conn.input.is_cut = http1.has_kept();
        if conn.input.is_left() {
            self.queue(at);
        }
    }

    /// The number of queued connections, some of which may have ended.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Removes the next connection from the queue; `None` if that connection has ended.
    pub fn unqueue(&mut self) -> Option<usize> {
        let token = self.queue.pop()?;
        let at = self.slot(token)?;
        self.slots[at].input.is_queued = false;
        Some(at)
    }

    /// Converts this instant of the host's clock to the clients' clock.
    pub fn client_time(&self, now: Nanos) -> ClientTime {
        self.clock.at(now)
    }

    /// Makes each HTTP/1.1 connection stop reading after the responses in progress or, if there are none, after the
    /// next one.
    pub fn stop(&mut self) {
        self.slots
            .iter_mut()
            .filter_map(|(_, conn)| conn.protocol.http1_mut())
            .for_each(|http1| http1.answering.end_with_next());
    }

    /// Returns the slots of the connections for which `is_meant` returns true.
    pub fn slots(&self, is_meant: impl Fn(&Connection<S>) -> bool) -> Vec<usize> {
        self.iter().filter(|(_, conn)| is_meant(conn)).map(|(at, _)| at).collect()
    }
}

impl<S: Socket> Connections<S> {
    /// Calls `act` with the engine of a connection, and queues the connection because of the resulting output.
    pub fn with_engine<R>(&mut self, at: usize, act: impl FnOnce(&mut Engine) -> R) -> R {
        let result = act(self[at].engine());
        self.queue_output(at);
        result
    }

    /// Asks the client of a request on a stream to send the body, which the client may hold back until then (RFC 9110
    /// section 10.1.1).
    pub fn want_body(&mut self, id: ExchangeId, request: &Request, date: &HttpDate) {
        if !self[id].keeps_bodies() || request.body == BodyLength::None {
            return;
        }
        self.with_engine(id.slot(), |engine| {
            engine.want_body(id.stream);
            if request.values("expect").any(|value| value.eq_ignore_ascii_case(b"100-continue")) {
                let (head, ()) = Response::new(Status::CONTINUE, ()).into_head(date);
                engine.interim(id.stream, &head);
            }
        });
    }

    /// Stops accepting a request body, so that the rest of it waits at the client.
    pub fn hold_body(&mut self, id: ExchangeId, now: ClientTime) {
        self[id].hold_body(now);
        if self[id].keeps_bodies() {
            // The engine would discard a body that is not wanted.
            self.with_engine(id.slot(), |engine| engine.want_body(id.stream));
        }
    }

    /// Discards the unread part of a request body on a stream.
    pub fn leave_body(&mut self, id: ExchangeId) {
        if self[id].keeps_bodies() {
            self.with_engine(id.slot(), |engine| engine.leave_body(id.stream));
        }
    }

    /// Sends GOAWAY, so that the client sends no more requests, if the connection carries streams.
    pub fn go_away(&mut self, at: usize) {
        if self[at].takes_frames() {
            self.with_engine(at, Engine::go_away);
        }
    }

    /// Queues the own output of an HTTP/2 or HTTP/3 connection, like [`Connections::queue_output`]. Returns false for
    /// HTTP/1.1.
    pub fn queue_frames(&mut self, at: usize) -> bool {
        let has_frames = self[at].takes_frames();
        if has_frames {
            self.queue_output(at);
        }
        has_frames
    }

    /// Makes an interim response. Over HTTP/2 and HTTP/3 it becomes frames, which are sent in this turn of the event
    /// loop. Over HTTP/1.1, returns the bytes for the caller to send.
    pub fn interim(&mut self, id: ExchangeId, response: Response<()>, date: &HttpDate) -> Option<Vec<u8>> {
        if let Some(http1) = self[id].protocol.http1() {
            return http1.answering.interim(&response, date);
        }
        let (head, ()) = response.into_head(date);
        self.with_engine(id.slot(), |engine| engine.interim(id.stream, &head));
        None
    }

    /// Queues a connection's own output to be sent in this turn of the event loop.
    pub fn queue_output(&mut self, at: usize) {
        if self[at].framed().note_output() {
            self.outputs.push_back(at);
        }
    }

    /// Makes the frames of the next connection that has output of its own, and returns its slot. `None` if that
    /// connection has been closed, because another one may have its slot.
    pub fn next_output(&mut self) -> Option<usize> {
        let at = self.outputs.pop_front()?;
        let is_queued = self.get_mut(at)?.protocol.framed_mut()?.take_output();
        is_queued.then(|| self.begin_frames(at).control())?;
        Some(at)
    }

    /// Returns the time at which the next connection must be handled for reasons other than its responses.
    pub fn timeout(&self) -> Option<Nanos> {
        if self.outputs.is_empty() { self.datagrams.timer() } else { Some(Nanos::ZERO) }
    }

    /// The number of connections with output of their own, including closed connections.
    pub fn outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Gives a connection a buffer for frames, because idle connections have none.
    pub fn begin_frames(&mut self, at: usize) -> &mut Framed {
        let framed = self.slots[at].framed();
        framed.borrow(&mut self.spare);
        framed
    }

    /// Takes the buffer back once all frames have been sent.
    pub fn end_frames(&mut self, at: usize) {
        if let Some(framed) = self.slots.get_mut(at).and_then(|connection| connection.protocol.framed_mut()) {
            framed.give_back(&mut self.spare);
        }
    }

    /// Wakes the connections whose QUIC timer has fired since the last call.
    pub fn wake_due(&mut self) {
        for token in std::mem::take(&mut self.datagrams.woken) {
            if let Some(at) = self.slot(token) {
                self.wake(at);
            }
        }
    }

    /// Returns true if datagrams wait for room in the socket with this number ([`Socket::shared`]).
    pub fn is_full_at(&self, number: u64) -> bool {
        self.datagrams.full().any(|at| self[at].number_below() == number)
    }

    /// Returns an HTTP/3 connection, and the state that all HTTP/3 connections share.
    pub fn with_datagrams(&mut self, at: usize) -> (&mut Connection<S>, &mut Shared) {
        (&mut self.slots[at], &mut self.datagrams)
    }
}

#[cfg(test)]
impl<S> Connections<S> {
    /// Opens a connection in this slot, which must be the next vacant one.
    pub fn open(&mut self, now: Nanos, at: usize, opening: Opening<S>) {
        let inserted = self.insert(Connection::new(self.clock.at(now), opening, &Limits::default()));
        assert_eq!(inserted, at, "the slot is not the next vacant one");
    }

    pub fn numbers(&self) -> Vec<usize> {
        self.slots.iter().map(|(at, _)| at).collect()
    }

    pub fn clock(&self) -> &ClientClock {
        &self.clock
    }

    pub fn spare_bytes(&self) -> usize {
        self.spare.capacity()
    }

    /// The bytes of frames in memory that a connection's socket has not taken.
    pub fn frames_bytes(&mut self, at: usize) -> usize {
        self[at].framed().out.capacity()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use units::wire::Framing;

    use super::*;
    use crate::connection::ChannelKind;

    fn add(connections: &mut Connections<()>, client: u32) -> usize {
        let token = connections.next_token();
        let peer = (Ipv4Addr::LOCALHOST, 80).into();
        let (framing, account) = (Framing::ETHERNET, Account::default());
        let opening =
            Opening { token, socket: (), kind: ChannelKind::Tcp, client, peer, framing, session: None, account };
        connections.insert(Connection::new(ClientTime::default(), opening, &Limits::default()))
    }

    #[test]
    fn a_connection_is_queued_once_and_clients_take_turns() {
        let mut connections = Connections::default();
        let [first, second, other] = [7, 7, 3].map(|client| add(&mut connections, client));
        [first, first, second, other].into_iter().for_each(|at| connections.queue(at));
        assert_eq!(connections.queued(), 3);
        assert_eq!([(); 3].map(|()| connections.unqueue()), [first, other, second].map(Some));
        connections.queue(first);
        assert_eq!((connections.unqueue(), connections.queued()), (Some(first), 0));
    }

    #[test]
    fn what_was_meant_for_a_connection_that_is_gone_reaches_no_other() {
        let mut connections = Connections::default();
        let at = add(&mut connections, 1);
        let (token, id) = (connections[at].token, connections[at].exchange_id(0));
        connections.queue(at);
        assert!(connections.slot(token) == Some(at) && connections.is_open(id) && connections.find(id).is_some());
        assert!(!connections.take_ended());
        connections.remove(at);
        assert!(connections.take_ended() && !connections.take_ended());
        assert_eq!(add(&mut connections, 1), at, "the slot is used again");
        assert_eq!((connections.slot(token), connections.unqueue()), (None, None));
        assert!(!connections.is_open(id) && connections.find(id).is_none());
    }
}
