//! The server: its queues for connections, its workers, and its handling of requests.

use std::collections::VecDeque;

use sched::{Arrival, Path, Size};
use units::{Nanos, wire};
use workload::{HEAD_BYTES_NOMINAL, Job};

use super::bottleneck::Load;
use super::conn::{ClientState, Conn, ServerState};
use super::tcp::{Acked, Settings};
use super::world::{Event, Up, World};
use super::{ConnId, Shaping};

/// The time that an acknowledgement waits for a response, Linux's TCP_DELACK_MIN.
const ACK_RIDES_FOR: Nanos = Nanos::from_millis(40);

/// The connections at the server, and the limits on their number.
pub struct Listener {
    pub syn_received: u32,
    accept: VecDeque<ConnId>,
    pub active: u32,
    workers: Option<u32>,
}

impl Listener {
    pub fn new(workers: Option<u32>) -> Listener {
        Listener { syn_received: 0, accept: VecDeque::new(), active: 0, workers }
    }

    /// Connections in the accept queue.
    pub fn waiting(&self) -> u32 {
        self.accept.len() as u32
    }

    fn has_worker(&self) -> bool {
        self.workers.is_none_or(|workers| self.active < workers)
    }
}

/// The path of a connection, as read by the server. A window per round trip stands in for the delivery rate that the
/// kernel measures.
fn path_of(conn: &Conn, settings: &Settings) -> Path {
    let cwnd_bytes = u64::from(conn.sender.window_segments()) * u64::from(settings.segment_bytes);
    let rtt = conn.sender.rtt().smoothed();
    let throughput_bps = rtt.map(|rtt| (u128::from(cwnd_bytes) * 8_000_000_000 / u128::from(rtt.0.max(1000))) as u64);
    Path { rtt, cwnd_bytes: Some(cwnd_bytes), throughput_bps }
}

impl<J: Iterator<Item = Job>> World<'_, '_, J> {
    pub fn at_server(&mut self, id: ConnId, up: Up) {
        if self.conns.get(id).is_none() {
            return;
        }
        match up {
            Up::Syn => self.on_syn(id),
            Up::Request { number } => self.on_request(id, number),
            Up::Ack { acked, fin } => self.on_ack(id, acked, fin),
            Up::Reset => self.release(id),
        }
    }

    fn on_syn(&mut self, id: ConnId) {
        let conn = self.conns.get(id).expect("checked by the caller");
        match conn.server {
            ServerState::Unknown if self.config.server.syn_cookies => {}
            ServerState::Unknown if self.listener.syn_received >= self.config.server.syn_queue => {
                self.counts.syn_drops += 1;
                return;
            }
            ServerState::Unknown => {
                conn.server = ServerState::SynReceived;
                self.listener.syn_received += 1;
            }
            ServerState::SynReceived => {}
            ServerState::Waiting | ServerState::Active => return,
        }
        self.send_syn_ack(id);
    }

    fn send_syn_ack(&mut self, id: ConnId) {
        let now = self.now;
        let conn = self.conns.get(id).expect("checked by the caller");
        conn.syn_ack_at = now;
        let backoffs = conn.syn_ack_backoffs;
        if conn.server == ServerState::SynReceived {
            self.set_server_timer(id, self.config.tcp.initial_rto.0 << backoffs.min(16));
        }
        self.send_control(id, Load::SynAck, wire::SYN_ACK_BYTES);
    }

    fn set_server_timer(&mut self, id: ConnId, after_ns: u64) {
        let at = self.now + Nanos(after_ns);
        let conn = self.conns.get(id).expect("checked by the caller");
        if let Some(at) = conn.server_timer.set(Some(at)) {
            self.calendar.push(at, Event::ServerTimer(id));
        }
    }

    /// Handles an unanswered SYN-ACK, or an idle connection that has been kept long enough.
    pub fn on_server_timer(&mut self, id: ConnId) {
        let conn = self.conns.get(id).expect("checked by the timer");
        match conn.server {
            ServerState::SynReceived if conn.syn_ack_backoffs >= self.config.tcp.syn_retries => self.forget(id),
            ServerState::SynReceived => {
                conn.syn_ack_backoffs += 1;
                self.send_syn_ack(id);
            }
            ServerState::Active if conn.sender.is_done() && conn.job.is_none() => {
                conn.sender.write(self.now, 0, true, &self.settings);
                self.transmit(id);
            }
            ServerState::Active | ServerState::Waiting | ServerState::Unknown => {}
        }
    }

    /// Finishes the handshake if necessary and if there is room. Returns whether the connection is established.
    fn establish(&mut self, id: ConnId) -> bool {
        let (now, cookies) = (self.now, self.config.server.syn_cookies);
        let conn = self.conns.get(id).expect("checked by the caller");
        match conn.server {
            ServerState::Waiting | ServerState::Active => return true,
            ServerState::Unknown if !cookies => return false,
            ServerState::Unknown | ServerState::SynReceived => {}
        }
        if self.listener.waiting() >= self.config.server.accept_queue {
            self.counts.accept_drops += 1;
            return false;
        }
        self.listener.syn_received -= u32::from(conn.server == ServerState::SynReceived);
        conn.server = ServerState::Waiting;
        let _ = conn.server_timer.set(None);
        if conn.syn_ack_backoffs == 0 && !cookies {
            conn.sender.sample(now - conn.syn_ack_at);
        }
        self.listener.accept.push_back(id);
        self.accept();
        true
    }

    /// Assigns free workers to the connections that have waited longest.
    fn accept(&mut self) {
        while self.listener.has_worker() {
            let Some(id) = self.listener.accept.pop_front() else { break };
            let Some(conn) = self.conns.get(id) else { continue };
            conn.server = ServerState::Active;
            self.listener.active += 1;
            if conn.seen > 0 {
                self.respond(id);
            } else {
                self.set_server_timer(id, self.config.server.keep_alive.0);
            }
        }
    }

    fn on_request(&mut self, id: ConnId, number: u32) {
        let conn = self.conns.get(id).expect("checked by the caller");
        if conn.server == ServerState::Unknown && !self.config.server.syn_cookies {
            // The connection is unknown, and is reset.
            return self.refuse(id);
        }
        if !self.establish(id) {
            return;
        }
        self.owe_acknowledgement(id, number);
        let conn = self.conns.get(id).expect("checked by the caller");
        if number <= conn.seen || conn.request.is_none() {
            return;
        }
        conn.seen = number;
        if conn.server == ServerState::Active {
            self.respond(id);
        }
    }

    /// Acknowledges a request, immediately or with its response. A repeated request is acknowledged immediately,
    /// because the first acknowledgement was lost.
    fn owe_acknowledgement(&mut self, id: ConnId, number: u32) {
        let at = self.now + ACK_RIDES_FOR;
        let conn = self.conns.get(id).expect("checked by the caller");
        if !self.config.server.acks_ride || number <= conn.seen {
            return self.acknowledge_request(id);
        }
        if let Some(at) = conn.request_ack.set(Some(at)) {
            self.calendar.push(at, Event::RequestAck(id));
        }
    }

    pub fn acknowledge_request(&mut self, id: ConnId) {
        self.send_control(id, Load::Ack, wire::PACKET_OVERHEAD_BYTES);
    }

    /// Lets a worker answer the request.
    fn respond(&mut self, id: ConnId) {
        let conn = self.conns.get(id).expect("checked by the caller");
        // The client has left and its reset was lost; the first segment would be answered by another reset.
        let Some(slot) = conn.request else { return self.release(id) };
        let bytes = HEAD_BYTES_NOMINAL + self.clients.get(slot).job.size_bytes;
        let start = conn.response.1;
        conn.response = (start, start + bytes);
        let _ = conn.server_timer.set(None);
        let closes = conn.closes;
        if self.config.shaping == Shaping::Off {
            conn.sender.write(self.now, bytes, closes, &self.settings);
            return self.transmit(id);
        }
        let path = path_of(conn, &self.settings);
        let framing = self.settings.framing();
        let job = self.scheduler.arrive(
            self.now,
            Arrival { size: Size::Known(bytes), framing, class: 0, client: 0, path, bypasses_link: false },
        );
        self.dispatch(id, job, bytes);
    }

    fn on_ack(&mut self, id: ConnId, acked: Acked, fin: bool) {
        if !self.establish(id) {
            return;
        }
        let now = self.now;
        let conn = self.conns.get(id).expect("checked by the caller");
        conn.acked_at = now;
        conn.sender.on_ack(self.now, acked, &self.settings);
        if let Some(job) = conn.job
            && self.scheduler.order().policy().needs_path()
        {
            self.scheduler.on_path(job, path_of(conn, &self.settings));
        }
        if fin && conn.sender.is_done() {
            self.send_control(id, Load::Ack, wire::PACKET_OVERHEAD_BYTES);
            return self.release(id);
        }
        if conn.sender.is_done() && conn.job.is_none() && conn.server == ServerState::Active && conn.seen == conn.asked
        {
            self.set_server_timer(id, self.config.server.keep_alive.0);
        }
        self.transmit(id);
        self.unblock(id);
    }

    /// Removes a connection without a complete handshake. The client may still know it.
    fn forget(&mut self, id: ConnId) {
        let conn = self.conns.get(id).expect("checked by the caller");
        (conn.server, conn.syn_ack_backoffs) = (ServerState::Unknown, 0);
        self.listener.syn_received -= 1;
        if conn.client == ClientState::Gone {
            self.conns.close(id);
        }
    }

    /// Closes a connection that both ends or the client have closed, and frees its worker.
    pub fn release(&mut self, id: ConnId) {
        self.close_account(id);
        let Some(conn) = self.conns.get(id) else { return };
        match conn.server {
            ServerState::SynReceived => self.listener.syn_received -= 1,
            ServerState::Active => self.listener.active -= 1,
            ServerState::Unknown | ServerState::Waiting => {}
        }
        self.counts.resent_bytes += conn.sender.resent_bytes;
        if let Some(job) = conn.job.take() {
            self.scheduler.on_end(job);
        }
        self.conns.close(id);
        self.accept();
        self.pump();
    }
}
