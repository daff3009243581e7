//! The clients: requests, the connections that they open or reuse, users who lose patience, and the receiving side of
//! TCP.

use record::Outcome;
use slab::Slab;
use units::Nanos;
use workload::Job;

use super::ConnId;
use super::conn::ClientState;
use super::egress::RETRIES_MAX;
use super::tcp::Reply;
use super::world::{Down, Event, Up, World};

/// A job that has not ended.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    pub number: u64,
    pub job: Job,
    /// The user who made the request, if the load is closed.
    pub user: Option<u32>,
    pub first_byte: Option<Nanos>,
    /// The bytes of the response received in order on the last attempt, including the head.
    pub got_bytes: u64,
    /// The number of this attempt, from 0.
    tried: u32,
    /// The number of attempts before this one that the user gave up.
    pub aborted: u32,
    conn: ConnId,
}

const NO_CONN: ConnId = ConnId { slot: u32::MAX, number: u32::MAX };

impl Request {
    pub fn new(number: u64, job: Job, user: Option<u32>) -> Request {
        Request { number, job, user, first_byte: None, got_bytes: 0, tried: 0, aborted: 0, conn: NO_CONN }
    }
}

/// The requests in the system, and the idle connections.
#[derive(Default)]
pub struct Clients {
    requests: Slab<Request>,
    /// The idle connections, the most recently used last; some may have ended.
    idle: Vec<ConnId>,
}

impl Clients {
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Takes the remaining requests, in order of arrival.
    pub fn take_all(&mut self) -> Vec<Request> {
        let mut left: Vec<Request> = self.requests.drain().collect();
        left.sort_by_key(|request| request.number);
        left
    }

    fn insert(&mut self, request: Request) -> u32 {
        self.requests.insert(request) as u32
    }

    pub fn get(&mut self, slot: u32) -> &mut Request {
        &mut self.requests[slot as usize]
    }

    fn remove(&mut self, slot: u32) -> Request {
        self.requests.remove(slot as usize)
    }
}

impl<J: Iterator<Item = Job>> World<'_, '_, J> {
    pub fn submit(&mut self, request: Request) {
        let slot = self.clients.insert(request);
        self.try_request(slot);
    }

    /// Sends a request on a connection, and starts its user's patience.
    fn try_request(&mut self, slot: u32) {
        let request = *self.clients.get(slot);
        if let Some(user) = self.config.user {
            let event = Event::GiveUp { slot, tried: request.tried, number: request.number };
            self.calendar.push(self.now + user.aborts_after, event);
        }
        let id = match self.idle_connection() {
            Some(id) => id,
            None => self.connect(request.user),
        };
        let request = self.clients.get(slot);
        (request.conn, request.got_bytes, request.first_byte) = (id, 0, None);
        let conn = self.conns.get(id).expect("just found");
        conn.request = Some(slot);
        conn.asked += 1;
        conn.closes = conn.asked == self.config.per_connection;
        conn.is_request_acked = false;
        if conn.client == ClientState::Connected {
            self.ask(id);
        }
    }

    fn idle_connection(&mut self) -> Option<ConnId> {
        while let Some(id) = self.clients.idle.pop() {
            if let Some(conn) = self.conns.get(id)
                && std::mem::take(&mut conn.is_pooled)
            {
                return Some(id);
            }
        }
        None
    }

    fn connect(&mut self, user: Option<u32>) -> ConnId {
        let id = self.conns.open(user, self.config.paths.len() as u32, &self.settings);
        self.counts.connections_max = self.counts.connections_max.max(self.conns.len());
        let now = self.now;
        self.conns.get(id).expect("just opened").asked_at = now;
        self.send_up(id, Up::Syn);
        self.set_client_timer(id);
        id
    }

    /// Sends the request of a connected client.
    fn ask(&mut self, id: ConnId) {
        let now = self.now;
        let conn = self.conns.get(id).expect("the caller's connection");
        conn.client_backoffs = 0;
        conn.asked_at = now;
        let number = conn.asked;
        self.send_up(id, Up::Request { number });
        self.set_client_timer(id);
    }

    fn set_client_timer(&mut self, id: ConnId) {
        let now = self.now;
        let conn = self.conns.get(id).expect("the caller's connection");
        let due = conn.is_client_unacked().then(|| now + conn.client_rtt.timeout(conn.client_backoffs));
        if let Some(at) = conn.client_timer.set(due) {
            self.calendar.push(at, Event::ClientTimer(id));
        }
    }

    /// Retransmits a SYN or a request that was not answered.
    pub fn on_client_timer(&mut self, id: ConnId) {
        let conn = self.conns.get(id).expect("checked by the timer");
        if !conn.is_client_unacked() {
            return;
        }
        conn.client_backoffs += 1;
        let is_connecting = conn.client == ClientState::Connecting;
        let retries = if is_connecting { self.config.tcp.syn_retries } else { RETRIES_MAX };
        if conn.client_backoffs > retries {
            return self.refuse(id);
        }
        let up = if is_connecting { Up::Syn } else { Up::Request { number: conn.asked } };
        self.send_up(id, up);
        self.set_client_timer(id);
    }

    /// Ends a request for which no connection can be made.
    pub fn refuse(&mut self, id: ConnId) {
        let request = self.conns.get(id).and_then(|conn| conn.request.take());
        self.reset(id);
        if let Some(slot) = request {
            let request = self.clients.remove(slot);
            self.end(&request, Outcome::Refused);
        }
    }

    /// Closes the client's end of the connection immediately, with a reset.
    fn reset(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get(id) else { return };
        conn.client = ClientState::Gone;
        conn.request = None;
        if conn.server == super::conn::ServerState::Unknown {
            // The server does not know this connection. A SYN still on its way will not be answered.
            return self.conns.close(id);
        }
        self.send_up(id, Up::Reset);
    }

    pub fn on_give_up(&mut self, slot: u32, tried: u32, number: u64) {
        let request = self.clients.requests.get(slot as usize).copied();
        let Some(request) = request.filter(|request| (request.number, request.tried) == (number, tried)) else {
            return;
        };
        self.reset(request.conn);
        if request.aborted >= self.config.user.map_or(0, |user| user.retries) {
            let request = self.clients.remove(slot);
            return self.end(&request, Outcome::Aborted);
        }
        let request = self.clients.get(slot);
        (request.tried, request.aborted) = (request.tried + 1, request.aborted + 1);
        self.try_request(slot);
    }

    pub fn at_client(&mut self, id: ConnId, down: Down) {
        let Some(conn) = self.conns.get(id) else { return };
        if conn.client == ClientState::Gone {
            return self.send_up(id, Up::Reset);
        }
        match down {
            Down::SynAck => self.on_syn_ack(id),
            Down::Ack => self.on_request_acked(id),
            Down::Data { seq, bytes, fin, sent_at } => {
                self.on_request_acked(id);
                self.on_data(id, (seq, seq + u64::from(bytes)), fin, sent_at);
            }
        }
    }

    fn on_syn_ack(&mut self, id: ConnId) {
        let now = self.now;
        let conn = self.conns.get(id).expect("checked by the caller");
        if conn.client == ClientState::Connected {
            // The server did not receive the end of the handshake.
            return self.acknowledge(id);
        }
        conn.client = ClientState::Connected;
        if conn.client_backoffs == 0 {
            conn.client_rtt.sample(now - conn.asked_at);
        }
        self.ask(id);
    }

    fn on_request_acked(&mut self, id: ConnId) {
        let conn = self.conns.get(id).expect("checked by the caller");
        // A retransmission, or a packet sent before the server saw the request, says nothing about the request.
        if conn.seen == conn.asked {
            conn.is_request_acked = true;
            let _ = conn.client_timer.set(None);
        }
    }

    /// Takes the segments of a packet, one after another.
    fn on_data(&mut self, id: ConnId, (start, end): (u64, u64), fin: bool, sent_at: Nanos) {
        let mut start = start;
        loop {
            let upto = end.min(start + u64::from(self.settings.segment_bytes));
            let fin = fin && upto == end;
            self.on_segment(id, (start, upto + u64::from(fin)), sent_at);
            if upto == end {
                break;
            }
            start = upto;
        }
    }

    fn on_segment(&mut self, id: ConnId, range: (u64, u64), sent_at: Nanos) {
        let Some(conn) = self.conns.get(id) else { return };
        let reply = conn.receiver.on_segment(self.now, range, sent_at, self.config.tcp.delayed_ack);
        // Until the server has seen the request, `response` belongs to the previous one.
        let request = conn.request.filter(|_| conn.seen == conn.asked);
        let is_whole = request.is_some() && conn.receiver.next >= conn.response.1;
        if let Some(slot) = request {
            let request = self.clients.get(slot);
            request.got_bytes = conn.receiver.next.min(conn.response.1).saturating_sub(conn.response.0);
            if request.got_bytes > 0 {
                request.first_byte.get_or_insert(self.now);
            }
        }
        if conn.receiver.next > conn.response.1 {
            // For the FIN: its acknowledgement carries the client's own FIN.
            self.acknowledge(id);
        } else {
            match reply {
                Reply::Now => self.acknowledge(id),
                Reply::At(at) => {
                    if let Some(at) = conn.delayed_ack.set(Some(at)) {
                        self.calendar.push(at, Event::DelayedAck(id));
                    }
                }
            }
        }
        if is_whole {
            self.complete(id);
        } else {
            self.ask_elsewhere(id);
        }
    }

    fn complete(&mut self, id: ConnId) {
        let conn = self.conns.get(id).expect("the segment's connection");
        let slot = conn.request.take().expect("a response is for a request");
        if !conn.closes {
            conn.is_pooled = true;
            self.clients.idle.push(id);
        }
        let request = self.clients.remove(slot);
        self.end(&request, Outcome::Complete);
    }

    /// Sends a request on another connection, because the server closed this one before it saw the request.
    fn ask_elsewhere(&mut self, id: ConnId) {
        let conn = self.conns.get(id).expect("the segment's connection");
        if conn.receiver.next <= conn.response.1 {
            return;
        }
        conn.is_pooled = false;
        if let Some(slot) = conn.request.take() {
            self.clients.get(slot).tried += 1;
            self.try_request(slot);
        }
    }

    /// Acknowledges the received data.
    pub fn acknowledge(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get(id) else { return };
        if conn.client == ClientState::Gone {
            return;
        }
        let acked = conn.receiver.acknowledge();
        let fin = conn.receiver.next > conn.response.1;
        let _ = conn.delayed_ack.set(None);
        self.send_up(id, Up::Ack { acked, fin });
    }
}
