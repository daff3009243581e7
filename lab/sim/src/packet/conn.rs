//! A connection with both of its ends, and the slab that contains all connections.

use sched::line::Looks;
use sched::{Account, JobId, TcpSent};
use slab::Slab;
use units::Nanos;

use super::tcp::{Receiver, Rtt, Segments, Sender, Settings};

/// Identifies a connection; an ID of a connection that has ended is recognised by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnId {
    pub slot: u32,
    pub number: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientState {
    /// The SYN is on its way, or was lost.
    Connecting,
    Connected,
    /// The client has reset the connection, and answers every packet with another reset.
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// No SYN has arrived or been accepted.
    Unknown,
    /// In the SYN queue.
    SynReceived,
    /// Established, in the accept queue.
    Waiting,
    /// A worker has it.
    Active,
}

pub struct Conn {
    pub number: u32,
    pub client: ClientState,
    pub server: ServerState,
    /// The index of its path in the configuration.
    pub path: u32,
    pub sender: Sender,
    pub receiver: Receiver,
    pub client_rtt: Rtt,
    pub client_backoffs: u32,
    /// The instant at which the client's SYN or request was first sent.
    pub asked_at: Nanos,
    pub syn_ack_at: Nanos,
    pub syn_ack_backoffs: u32,
    /// The slot of the request that the client waits for.
    pub request: Option<u32>,
    /// The number of requests that the client has made, and that the server has seen.
    pub asked: u32,
    pub seen: u32,
    pub is_request_acked: bool,
    /// The request being answered is the last one.
    pub closes: bool,
    /// The beginning and the end of the awaited response in the stream.
    pub response: (u64, u64),
    /// The response that is being handed down.
    pub job: Option<JobId>,
    /// The socket was full.
    pub is_blocked: bool,
    /// The bytes that its TCP has sent, as the kernel counts them.
    pub sent: TcpSent,
    /// The charges of the link for this connection.
    pub account: Account,
    /// The observations of the line through this connection.
    pub looks: Looks,
    /// The instant of the last acknowledgement.
    pub acked_at: Nanos,
    /// The band of its packets.
    pub band: u8,
    pub is_pooled: bool,
    /// The earliest instant at which the next packet can arrive, so that jitter keeps the order of a connection's
    /// packets.
    pub forward_at: Nanos,
    pub alarm: Timer,
    pub client_timer: Timer,
    pub server_timer: Timer,
    pub delayed_ack: Timer,
    /// The server's acknowledgement of a request, which waits to be sent with a response.
    pub request_ack: Timer,
}

impl Conn {
    fn new(number: u32, path: u32, settings: &Settings) -> Conn {
        Conn {
            number,
            client: ClientState::Connecting,
            server: ServerState::Unknown,
            path,
            sender: Sender::new(settings),
            receiver: Receiver::new(),
            client_rtt: Rtt::new(settings.initial_rto, settings.min_rto),
            client_backoffs: 0,
            asked_at: Nanos::ZERO,
            syn_ack_at: Nanos::ZERO,
            syn_ack_backoffs: 0,
            request: None,
            asked: 0,
            seen: 0,
            is_request_acked: false,
            closes: false,
            response: (0, 0),
            job: None,
            is_blocked: false,
            sent: TcpSent::default(),
            account: Account::new(settings.framing()),
            looks: Looks::default(),
            acked_at: Nanos::ZERO,
            band: 1,
            is_pooled: false,
            forward_at: Nanos::ZERO,
            alarm: Timer::default(),
            client_timer: Timer::default(),
            server_timer: Timer::default(),
            delayed_ack: Timer::default(),
            request_ack: Timer::default(),
        }
    }

    /// Counts segments that TCP handed down, both first transmissions and retransmissions.
    pub fn count(&mut self, segments: Segments, settings: &Settings) {
        self.sent.payload_bytes += u64::from(segments.bytes);
        self.sent.segments += segments.bytes.div_ceil(settings.segment_bytes).max(1);
    }

    /// Returns true if the client still waits for an acknowledgement of its SYN or request.
    pub fn is_client_unacked(&self) -> bool {
        match self.client {
            ClientState::Connecting => true,
            ClientState::Connected => self.request.is_some() && !self.is_request_acked,
            ClientState::Gone => false,
        }
    }
}

/// A timer that may be moved any number of times. The calendar contains at most one event per move to an earlier
/// instant, and an event that comes too early is entered again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timer {
    due: Option<Nanos>,
    set_for: Option<Nanos>,
}

impl Timer {
    /// Moves the timer. Returns the instant for which an event must be added to the calendar, if any.
    #[must_use]
    pub fn set(&mut self, due: Option<Nanos>) -> Option<Nanos> {
        self.due = due;
        let at = due?;
        if self.set_for.is_some_and(|set_for| set_for <= at) {
            return None;
        }
        self.set_for = Some(at);
        Some(at)
    }

    /// Handles an event of this timer. Returns whether the timer is due, or otherwise whether another event is needed.
    pub fn ring(&mut self, now: Nanos) -> Ring {
        if self.set_for != Some(now) {
            return Ring::Stale;
        }
        self.set_for = None;
        match self.due {
            Some(due) if due <= now => {
                self.due = None;
                Ring::Due
            }
            due => self.set(due).map_or(Ring::Stale, Ring::Later),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ring {
    Due,
    Later(Nanos),
    Stale,
}

/// All connections.
#[derive(Default)]
pub struct Conns {
    conns: Slab<Conn>,
    opened: u32,
}

impl Conns {
    /// Opens a connection. Users keep their path; other connections use the paths in turn.
    pub fn open(&mut self, user: Option<u32>, paths: u32, settings: &Settings) -> ConnId {
        let number = self.opened;
        self.opened += 1;
        let conn = Conn::new(number, user.unwrap_or(number) % paths, settings);
        ConnId { slot: self.conns.insert(conn) as u32, number }
    }

    pub fn get(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.conns.get_mut(id.slot as usize).filter(|conn| conn.number == id.number)
    }

    pub fn close(&mut self, id: ConnId) {
        self.conns.remove(id.slot as usize);
    }

    /// Returns the connections with unacknowledged bytes.
    pub fn unacknowledged(&self) -> impl Iterator<Item = ConnId> {
        let waiting = self.conns.iter().filter(|(_, conn)| conn.sent.payload_bytes > 0 && !conn.sender.is_done());
        waiting.map(|(slot, conn)| ConnId { slot: slot as u32, number: conn.number })
    }

    pub fn iter(&self) -> impl Iterator<Item = &Conn> {
        self.conns.iter().map(|(_, conn)| conn)
    }

    pub fn len(&self) -> usize {
        self.conns.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_moved_later_rings_once_and_moved_earlier_at_once() {
        let mut timer = Timer::default();
        assert_eq!(timer.set(Some(Nanos(10))), Some(Nanos(10)));
        assert_eq!(timer.set(Some(Nanos(20))), None);
        assert_eq!(timer.ring(Nanos(10)), Ring::Later(Nanos(20)));
        assert_eq!(timer.set(Some(Nanos(15))), Some(Nanos(15)));
        assert_eq!(timer.ring(Nanos(15)), Ring::Due);
        assert_eq!(timer.ring(Nanos(20)), Ring::Stale);
    }

    #[test]
    fn a_closed_connection_is_not_the_one_in_its_place() {
        let settings = super::super::Tcp::default().settings();
        let mut conns = Conns::default();
        let first = conns.open(None, 1, &settings);
        conns.close(first);
        let second = conns.open(None, 1, &settings);
        assert_eq!((first.slot, conns.len()), (second.slot, 1));
        assert!(conns.get(first).is_none() && conns.get(second).is_some());
    }
}
