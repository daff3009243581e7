//! The estimator of the line's rate, fed from outside the server: by the kernel's lists of connections and by the bytes
//! that have left the bands. It does no I/O. A sight is a reading of both at one instant.
//!
//! A server that paces itself keeps its queue in itself, so its connections meet only the line's queue. Here packets
//! wait in the bands after TCP has sent them, and TCP's round trips include that wait. Used uncorrected, they would
//! show our own queue as the line's, and the pace would fall until nothing waits here. So three things are corrected.
//! First, bytes count as sent once they have left the bands. They are counted for all connections together, because
//! most connections have a few packets, of which one too many is a third. Second, bytes sent again after a timeout are
//! not lost if packets waited here. Third, a connection whose packets wait here has the minimum round trip of its own,
//! to which is added the delay that the bytes of all connections have beyond the interface ([`super::beyond`]). The
//! waiting bytes are divided between the connections by the memory that each has below TCP, or, for flows that are only
//! forwarded, by the wait in the band of each ([`super::waits`]).
//!
//! Flows that are only forwarded are in the same list, as the classifier sees them pass. TCP of this host notices that
//! a band refuses a packet. TCP of another host does not, and sends it again, which is not a loss of the line.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use sched::line::{Bounds, Change, Estimator, Look, Looks, Seen, Status};
use units::wire::Framing;
use units::{Nanos, Rate};

use super::beyond::{Beyond, Flight};
use super::handed::{Below, Handed, part};
use super::waits::age;
use crate::Connection;

/// The maximum number of connections that are known simultaneously; others are left out.
const SENDERS_MAX: usize = 1 << 16;
/// The number of sights for which a connection that is no longer listed is remembered, because its end is reported
/// later.
const REMEMBERED_TURNS: u64 = 80;
/// The number of segments that must be acknowledged for a round trip; it is the estimator's own minimum.
const TRIP_SEGMENTS: u64 = 8;
/// The minimum time without an acknowledgement after which TCP sends again (TCP_RTO_MIN).
const TIMEOUT_MIN_MS: u32 = 200;
/// The time after a drop in a band for which retransmissions of forwarded flows are attributed to the bands: a flow
/// meets their queue first, and may lose several packets before it slows down.
const DROPS_SHOW_FOR: Nanos = Nanos::from_secs(3);
/// The part of the bytes sent by forwarded flows, in thousandths, that they needlessly send again while their packets
/// wait here: packets that leave from two bands may arrive in another order, and the last of a window is sent again
/// after two round trips. If more is sent again, the line loses bytes. In overload it was 10 to 40.
const HASTY_PERMILLE: u64 = 80;
/// The minimum lateness that counts. A late sight attributes earlier events to the time after it.
const LATE_MIN: Nanos = Nanos::from_millis(3);
/// The time without an acknowledgement after which a client's bytes wait for the client and not for the line.
const SILENT_MS: u32 = 1000;
/// The part of the bytes that left, in thousandths, above which bytes without a connection count as arrived: QUIC and
/// other datagrams. Below it they are mainly handshakes and the like, and have arrived in the same proportion as the
/// rest. Without this rule, the rate found of a line that carries many such bytes would be too low.
const UNSEEN_PERMILLE: u64 = 250;
/// The key of the unseen bytes in place of a client's key.
const UNSEEN: u64 = 0;
/// The bytes of an IPv6 address that identify a client, as in the server's default.
const CLIENT_BYTES_V6: usize = 7;

/// The state of an interface at one instant.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    /// The bytes that have left the bands.
    pub left_bytes: u64,
    /// The bytes that wait in the bands.
    pub waiting_bytes: u64,
    /// The bytes that the bands of responses have dropped.
    pub dropped_bytes: u64,
    /// The time by which the sight was taken later than it was due.
    pub late: Nanos,
    /// The connections that may send through the interface.
    pub connections: &'a [Connection],
    /// The connections that ended since the last sight.
    pub ended: &'a [Connection],
}

/// Finds the rate of the line behind an interface whose bands it paces.
#[derive(Debug)]
pub struct Follower {
    estimator: Estimator,
    senders: HashMap<u64, Sender>,
    keys: RandomState,
    /// The number of the last sight, and the bytes that had left then.
    turn: u64,
    left_bytes: u64,
    tally: Tally,
    /// The same counts, fading.
    recent: Tally,
    handed: Handed,
    beyond: Beyond,
    host: Host,
}

/// The drops and the lateness by which this host itself distorts the evidence.
#[derive(Debug, Default)]
struct Host {
    /// The bytes that the bands had dropped by the last sight, and the last sight that showed a drop.
    dropped_bytes: u64,
    dropped_at: Option<Nanos>,
    /// The lateness of the last sight, and of all sights.
    late: Nanos,
    lost: Nanos,
}

impl Host {
    /// Records the drops of a sight. Returns the bytes dropped since the last.
    fn see_drops(&mut self, now: Nanos, sight: &Sight<'_>) -> u64 {
        let dropped = sight.dropped_bytes.saturating_sub(self.dropped_bytes);
        self.dropped_bytes = sight.dropped_bytes;
        if dropped > 0 {
            self.dropped_at = Some(now);
        }
        dropped
    }

    /// Records the lateness of a sight. Returns the time spoiled by all lateness: acknowledgements that waited for the
    /// same processor are seen in the sight after the late one.
    fn see_late(&mut self, sight: &Sight<'_>) -> Nanos {
        let late = if sight.late > LATE_MIN { sight.late } else { Nanos::ZERO };
        self.lost += late + std::mem::replace(&mut self.late, late);
        self.lost
    }

    fn has_dropped_lately(&self, now: Nanos) -> bool {
        self.dropped_at.is_some_and(|at| now - at < DROPS_SHOW_FOR)
    }
}

/// The bytes of the interface since the start, and the part of them that connections account for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub left_bytes: u64,
    pub sent_bytes: u64,
    /// The bytes that were acknowledged.
    pub delivered_bytes: u64,
    /// The bytes without a connection that count as arrived.
    pub unseen_bytes: u64,
    /// The part of `sent_bytes` that had been sent before, and that no band had dropped.
    pub again_bytes: u64,
}

impl Tally {
    /// Returns true if more is sent again than flows needlessly send again because their packets wait here.
    fn has_much_again(&self) -> bool {
        self.again_bytes * 1000 > HASTY_PERMILLE * self.sent_bytes
    }

    /// Forgets a part, so that about the last 64 sights count.
    fn fade(&mut self) {
        let Tally { left_bytes, sent_bytes, unseen_bytes, again_bytes, .. } = self;
        for bytes in [left_bytes, sent_bytes, unseen_bytes, again_bytes] {
            *bytes -= *bytes / 64;
        }
    }
}

#[derive(Debug, Default)]
struct Sender {
    looks: Looks,
    turn: u64,
    /// True if the estimator has its minimum round trip.
    has_base: bool,
    /// The bytes acknowledged by the last round trip.
    tripped_bytes: u64,
    /// True if packets waited here then.
    was_waiting: bool,
    /// The instant of the last sight, and the bytes acknowledged by then.
    seen_at: Nanos,
    seen_bytes: u64,
    /// The last round trip, including the wait here.
    rtt_us: u32,
    /// The bytes that had been sent when its packets last waited here for a timeout.
    stalled_bytes: u64,
    /// The time for which the client's window had been shut by the last sight.
    shut_us: u64,
}

impl Follower {
    pub fn new(bounds: Bounds) -> Follower {
        let mut estimator = Estimator::new(bounds);
        estimator.begin_midway();
        Follower {
            estimator,
            senders: HashMap::new(),
            keys: RandomState::new(),
            turn: 0,
            left_bytes: 0,
            tally: Tally::default(),
            recent: Tally::default(),
            handed: Handed::default(),
            beyond: Beyond::default(),
            host: Host::default(),
        }
    }

    /// Returns the rate at which the bands may send; `None` while the line's rate is not known.
    pub fn pace(&self) -> Option<Rate> {
        self.estimator.pace()
    }

    pub fn status(&self, now: Nanos) -> Status {
        self.estimator.status(now)
    }

    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Returns the part of the bytes that left recently, in per cent, that counts as arrived without acknowledgements;
    /// `None` if it is too small to count.
    pub fn unseen_percent(&self) -> Option<u64> {
        let Tally { left_bytes, sent_bytes, .. } = self.recent;
        let unseen = left_bytes.saturating_sub(sent_bytes);
        (unseen * 1000 > UNSEEN_PERMILLE * left_bytes).then(|| part(100, unseen, left_bytes))
    }

    /// Records a sight, and returns the new pace if it changes.
    pub fn see(&mut self, now: Nanos, sight: &Sight<'_>) -> Option<Change> {
        let is_first = self.turn == 0;
        self.turn += 1;
        let lost = self.host.see_late(sight);
        // Nothing is handed down ahead: the kernel paces the bands.
        self.estimator.on_sender(Nanos::ZERO, lost);
        let left = if is_first { 0 } else { sight.left_bytes.saturating_sub(self.left_bytes) };
        self.left_bytes = sight.left_bytes;
        for tally in [&mut self.tally, &mut self.recent] {
            tally.left_bytes += left;
        }
        for connection in sight.ended {
            self.look(now, connection, 0, sight.left_bytes);
            self.senders.remove(&connection.cookie);
        }
        let below = Below::of(sight.connections);
        self.look_at_drops(now, sight, &below);
        let mut is_backlogged = sight.waiting_bytes > 0;
        for connection in sight.connections {
            let sender = self.senders.get_mut(&connection.cookie);
            is_backlogged |= sender.map_or(connection.info.notsent_bytes > 0, |sender| sender.waits(now, connection));
            let waiting_bytes = below.waiting_bytes(connection, sight.waiting_bytes);
            self.look(now, connection, waiting_bytes, sight.left_bytes);
        }
        let sent_bytes = self.look_at_sent(now, sight);
        self.beyond.end_sight(now, sight.waiting_bytes + self.handed.owed_bytes(), sent_bytes);
        self.look_at_unseen(now, left, sight.left_bytes);
        let turn = self.turn;
        self.senders.retain(|_, sender| sender.turn + REMEMBERED_TURNS >= turn);
        if !is_backlogged {
            self.estimator.on_idle();
        }
        self.estimator.is_due(now).then(|| self.estimator.judge(now, sight.left_bytes)).flatten()
    }

    /// Replaces a sight while nothing is sent.
    pub fn rest(&mut self, now: Nanos, left_bytes: u64) -> Option<Change> {
        self.estimator.on_idle();
        self.estimator.is_due(now).then(|| self.estimator.judge(now, left_bytes)).flatten()
    }

    /// Subtracts the bytes that the bands have dropped, except the part of datagrams, which nobody sends again.
    fn look_at_drops(&mut self, now: Nanos, sight: &Sight<'_>, below: &Below) {
        let dropped = self.host.see_drops(now, sight);
        let seen = part(dropped, 100 - self.unseen_percent().unwrap_or(0), 100);
        self.handed.drop(seen, part(seen, below.forwarded_bytes, below.bytes));
        let forwarded = sight.connections.iter().filter(|connection| connection.is_forwarded);
        self.handed.limit_owed(forwarded.map(on_way).sum());
    }

    /// Counts the bytes that TCP handed down and that no longer wait as sent.
    fn look_at_sent(&mut self, now: Nanos, sight: &Sight<'_>) -> u64 {
        let sent_bytes = self.handed.leave(sight.waiting_bytes);
        for tally in [&mut self.tally, &mut self.recent] {
            tally.sent_bytes += sent_bytes;
        }
        self.estimator.on_look(now, sight.left_bytes, || UNSEEN, Look { sent_bytes, ..Look::default() });
        sent_bytes
    }

    /// Counts the bytes that left without a connection as arrived, if they are many.
    fn look_at_unseen(&mut self, now: Nanos, left: u64, left_bytes: u64) {
        if let Some(percent) = self.unseen_percent().filter(|_| left > 0) {
            // The number is at most what connections leave unexplained, since earlier connections may be seen only now.
            let Tally { left_bytes: all, sent_bytes, unseen_bytes, .. } = self.recent;
            let bytes = part(left, percent, 100).min(all.saturating_sub(sent_bytes + unseen_bytes));
            for tally in [&mut self.tally, &mut self.recent] {
                tally.unseen_bytes += bytes;
            }
            let look = Look { sent_bytes: bytes, delivered_bytes: bytes, ..Look::default() };
            self.estimator.on_look(now, left_bytes, || UNSEEN, look);
        }
        self.recent.fade();
    }

    /// Looks at a connection, of which `waiting_bytes` wait in the bands.
    fn look(&mut self, now: Nanos, connection: &Connection, waiting_bytes: u64, left_bytes: u64) {
        let is_known = self.senders.contains_key(&connection.cookie);
        if !is_known && self.senders.len() >= SENDERS_MAX {
            return;
        }
        let client = self.keys.hash_one(client_of(connection));
        let sender = self.senders.entry(connection.cookie).or_default();
        sender.turn = self.turn;
        let flight = sender.flight(now, connection, waiting_bytes);
        self.beyond.add(&Flight { acked_bytes: if is_known { flight.acked_bytes } else { 0 }, ..flight });
        let seen = sender.seen(connection, waiting_bytes, &self.beyond);
        let look = sender.looks.look(now, &seen, framing(connection));
        // A handshake does not wait in the bands.
        let look = Look { is_vague: look.rtt.is_some() && !look.is_handshake, ..look };
        let takes_base = connection.info.min_rtt_us > 0 && self.estimator.takes_bases();
        if takes_base && !std::mem::replace(&mut sender.has_base, true) {
            self.estimator.on_base(now, client, micros(connection.info.min_rtt_us));
        }
        // More bytes than have left recently cannot have arrived: they were sent before the connection was first seen.
        if !is_known && look.delivered_bytes > self.recent.left_bytes {
            return;
        }
        self.tally.delivered_bytes += look.delivered_bytes;
        self.handed.add(look.sent_bytes);
        let is_forwarded = connection.is_forwarded;
        let again = if is_forwarded { self.handed.add_again(look.lost_bytes) } else { look.lost_bytes };
        for tally in [&mut self.tally, &mut self.recent] {
            tally.sent_bytes += again;
            tally.again_bytes += again;
        }
        let may_be_hasty = waiting_bytes > 0 || self.host.has_dropped_lately(now);
        let is_lost_here = is_forwarded && may_be_hasty && !self.recent.has_much_again();
        let is_no_loss = sender.is_stalled(connection, waiting_bytes) || is_lost_here;
        let lost_bytes = if is_no_loss { 0 } else { again };
        self.estimator.on_look(now, left_bytes, || client, Look { sent_bytes: 0, lost_bytes, ..look });
    }
}

impl Sender {
    /// Returns the bytes in flight and those acknowledged since the last sight, as counted on the wire.
    fn flight(&mut self, now: Nanos, connection: &Connection, waiting_bytes: u64) -> Flight {
        let info = &connection.info;
        self.seen_at = now;
        if info.rtt_us > 0 {
            self.rtt_us = info.rtt_us;
        }
        let acked_bytes = info.acked_bytes.saturating_sub(std::mem::replace(&mut self.seen_bytes, info.acked_bytes));
        Flight {
            bytes: on_way(connection),
            waiting_bytes,
            age: age(micros(self.rtt_us), Nanos::from_millis(info.last_ack_ms.into())),
            acked_bytes: framing(connection).wire_bytes(acked_bytes),
            least: least(connection),
        }
    }

    /// Returns true if bytes wait for the line, and not for a client that has stopped reading or has gone.
    fn waits(&mut self, now: Nanos, connection: &Connection) -> bool {
        let info = &connection.info;
        let shut_us = info.rwnd_limited_us.saturating_sub(std::mem::replace(&mut self.shut_us, info.rwnd_limited_us));
        let is_shut = shut_us.saturating_mul(2000) > (now - self.seen_at).0;
        info.notsent_bytes > 0 && info.last_ack_ms < SILENT_MS && !is_shut
    }

    /// Returns true if the bytes it sends again were not acknowledged in time because they waited here.
    fn is_stalled(&mut self, connection: &Connection, waiting_bytes: u64) -> bool {
        let info = &connection.info;
        if waiting_bytes > 0 && info.last_ack_ms >= TIMEOUT_MIN_MS {
            self.stalled_bytes = info.sent_bytes.saturating_sub(info.retransmitted_bytes);
        }
        // After a timeout, everything outstanding is sent again.
        info.acked_bytes < self.stalled_bytes
    }

    /// Returns the counters of the connection, with the round trip beyond the interface.
    fn seen(&mut self, connection: &Connection, waiting_bytes: u64, beyond: &Beyond) -> Seen {
        let (info, framing) = (&connection.info, framing(connection));
        let segment_bytes = framing.segment_bytes;
        let sacked_bytes = u64::from(info.sacked_segments) * segment_bytes;
        let arrived_bytes = info.acked_bytes + sacked_bytes;
        // If a kernel does not count sent bytes, at least the arrived bytes were sent.
        let sent_bytes = info.sent_bytes.saturating_sub(info.retransmitted_bytes);
        Seen {
            rtt: self.rtt(connection, waiting_bytes > 0, beyond),
            acked_bytes: info.acked_bytes,
            sacked_bytes,
            acked_ago: Nanos::from_millis(info.last_ack_ms.into()),
            sent_bytes: sent_bytes.max(arrived_bytes),
            retransmitted_bytes: info.retransmitted_bytes,
            shut_for: Nanos(info.rwnd_limited_us.saturating_mul(1000)),
            is_by_program: false,
        }
    }

    /// Returns the round trip beyond the interface; `None` if it is unknown.
    fn rtt(&mut self, connection: &Connection, is_waiting: bool, beyond: &Beyond) -> Option<Nanos> {
        let info = &connection.info;
        let smoothed = Some(micros(info.rtt_us)).filter(|rtt| *rtt > Nanos::ZERO);
        let acked = info.acked_bytes.saturating_sub(self.tripped_bytes);
        if acked < TRIP_SEGMENTS * framing(connection).segment_bytes {
            // Before the first round trip, the handshake's, nothing has been acknowledged.
            return smoothed.filter(|_| info.acked_bytes == 0);
        }
        let was_waiting = std::mem::replace(&mut self.was_waiting, is_waiting);
        self.tripped_bytes = info.acked_bytes;
        if is_waiting || was_waiting { beyond.round_trip(least(connection)) } else { smoothed }
    }
}

fn micros(us: u32) -> Nanos {
    Nanos(u64::from(us) * 1000)
}

/// Returns the minimum round trip of a connection, if the handshake was seen; later ones include the wait here.
fn least(connection: &Connection) -> Option<Nanos> {
    Some(micros(connection.info.min_rtt_us)).filter(|least| *least > Nanos::ZERO)
}

/// Returns the bytes that the client has not received, as far as is known, including those that wait here. Segments are
/// not counted, because most are short if responses are.
fn on_way(connection: &Connection) -> u64 {
    let (framing, outstanding) = (framing(connection), u64::from(connection.outstanding_bytes));
    let sacked = u64::from(connection.info.sacked_segments) * framing.segment_bytes;
    framing.wire_bytes(outstanding.saturating_sub(sacked))
}

fn framing(connection: &Connection) -> Framing {
    let info = &connection.info;
    Framing::new(info.segment_bytes.into(), connection.is_ipv6, info.has_timestamps)
}

/// Returns the prefix that identifies the client.
fn client_of(connection: &Connection) -> [u8; 16] {
    let mut client = connection.client;
    if connection.is_ipv6 {
        client[CLIENT_BYTES_V6..].fill(0);
    }
    client
}
