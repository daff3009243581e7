//! The server's side of a connection: which bytes may leave now, in packets of how many segments.

use units::Nanos;
use units::wire::Framing;

use super::congestion::Window;
use super::scoreboard::Scoreboard;
use super::{Acked, Congestion, Rtt};

/// The settings that all senders of a run share.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Payload of a full segment.
    pub segment_bytes: u32,
    /// Segments.
    pub initial_window: u32,
    pub initial_rto: Nanos,
    pub min_rto: Nanos,
    pub congestion: Congestion,
    pub receive_window_bytes: u64,
    /// The most segments handed down as one packet.
    pub gso_segments: u32,
    /// True if a connection's packets in the host's qdisc are limited (TCP small queues).
    pub small_queues: bool,
    pub tail_loss_probe: bool,
    /// True if a needless reduction is undone.
    pub undoes: bool,
}

impl Settings {
    pub fn framing(&self) -> Framing {
        Framing::ETHERNET.with_segment(self.segment_bytes.into())
    }
}

/// Consecutive segments handed down as one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segments {
    pub start: u64,
    /// Payload, without the FIN.
    pub bytes: u32,
    pub fin: bool,
    /// Sent before.
    pub again: bool,
}

/// The reason why the sender wants to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alarm {
    Timeout,
    TailLossProbe,
    /// The host's qdisc had no room and nothing is in flight whose acknowledgement would wake us.
    LocalDrop,
}

#[derive(Debug)]
pub struct Sender {
    window: Window,
    rtt: Rtt,
    board: Scoreboard,
    acked: u64,
    next: u64,
    /// Bytes written to the socket, as a position in the stream; the FIN, once asked for, is one more.
    written: u64,
    fin: bool,
    /// The end of the stream when the window was last reduced: until it is acknowledged it is not reduced again.
    recovery: Option<u64>,
    /// Window and threshold before that, and when something was first sent again since.
    before: (u32, u32),
    first_resent_at: Option<Nanos>,
    /// The recovery is from a timeout: the window grows meanwhile.
    is_timeout: bool,
    backoffs: u32,
    alarm: Option<(Nanos, Alarm)>,
    sent_at: Nanos,
    /// The memory in the host's qdisc, as the kernel counts it.
    queued_bytes: u64,
    /// The begin of the packet handed down last.
    newest_start: u64,
    /// The most segments outstanding in the current window, and where that window ends; whether the window was what
    /// stopped us.
    outstanding_max: u32,
    usage_until: u64,
    is_limited: bool,
    /// End of HyStart's round.
    round_until: u64,
    is_probed: bool,
    /// A loss was just found: the first segment is sent again at once (RFC 6675 section 5, step 4.3).
    resends_now: bool,
    /// Payload bytes sent again.
    pub resent_bytes: u64,
}

/// Linux's memory of a packet besides its data: struct sk_buff, skb_shared_info and room for headers.
const PACKET_MEMORY_BYTES: u64 = 256 + 320 + 384;
/// Linux's tcp_limit_output_bytes as the lab sets it.
const SMALL_QUEUE_BYTES_MAX: u64 = 1 << 20;
/// The most bytes of a packet when the round trip is short (sk_gso_max_size), halved for every 512 µs of it.
const GSO_BYTES_MAX: u64 = 65_536;
/// TSO deferral: a packet waits for more window only if another left this recently.
const DEFER_WITHIN: Nanos = Nanos::from_millis(1);
/// Two jiffies at 250 Hz: the least a loss probe waits.
const PROBE_AFTER_MIN: Nanos = Nanos::from_millis(8);

impl Sender {
    pub fn new(settings: &Settings) -> Sender {
        Sender {
            window: Window::new(settings.congestion, settings.initial_window),
            rtt: Rtt::new(settings.initial_rto, settings.min_rto),
            board: Scoreboard::default(),
            acked: 0,
            next: 0,
            written: 0,
            fin: false,
            recovery: None,
            before: (0, 0),
            first_resent_at: None,
            is_timeout: false,
            backoffs: 0,
            alarm: None,
            sent_at: Nanos::ZERO,
            queued_bytes: 0,
            newest_start: 0,
            outstanding_max: 0,
            usage_until: 0,
            is_limited: false,
            round_until: 0,
            is_probed: false,
            resends_now: false,
            resent_bytes: 0,
        }
    }

    /// A new connection in the same memory.
    pub fn reset(&mut self, settings: &Settings) {
        let mut board = std::mem::take(&mut self.board);
        board.clear();
        *self = Sender { board, ..Sender::new(settings) };
    }

    /// The handshake measured a round trip.
    pub fn sample(&mut self, rtt: Nanos) {
        self.rtt.sample(rtt);
    }

    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    pub fn window_segments(&self) -> u32 {
        self.window.cwnd
    }

    /// The application writes; `fin` closes behind it.
    pub fn write(&mut self, now: Nanos, bytes: u64, fin: bool, settings: &Settings) {
        let timeout = self.rtt.timeout(0);
        if self.board.is_empty() && self.next == self.written && self.next > 0 && now - self.sent_at > timeout {
            self.window.on_idle((now - self.sent_at).0 / timeout.0, settings.initial_window);
        }
        self.written += bytes;
        self.fin |= fin;
    }

    /// Timeouts in a row.
    pub fn timeouts(&self) -> u32 {
        self.backoffs
    }

    /// Bytes of the stream acknowledged so far.
    pub fn acked_bytes(&self) -> u64 {
        self.acked
    }

    /// Payload beyond a gap, of which the receiver has told: an estimate by whole segments.
    pub fn sacked_bytes(&self, settings: &Settings) -> u64 {
        u64::from(self.board.sacked()) * u64::from(settings.segment_bytes)
    }

    /// Bytes written and not sent.
    pub fn unsent_bytes(&self) -> u64 {
        self.written.saturating_sub(self.next)
    }

    /// All that was written has been acknowledged, and the FIN if there is one.
    pub fn is_done(&self) -> bool {
        self.acked >= self.stream_end()
    }

    fn stream_end(&self) -> u64 {
        self.written + u64::from(self.fin)
    }

    /// The segments to hand down next, if any may be. They count as sent only once [`Sender::sent`] is told.
    pub fn poll(&mut self, now: Nanos, settings: &Settings) -> Option<Segments> {
        let in_flight = self.board.in_flight();
        let room = self.window.cwnd.saturating_sub(in_flight);
        if (room > 0 || self.resends_now)
            && let Some(lost) = self.board.first_lost()
        {
            let segments = self.segments_of(lost.start, lost.end, true);
            return self.may_queue(segments, settings).then_some(segments);
        }
        if self.next >= self.stream_end() {
            return self.stop(false);
        }
        let segment_bytes = u64::from(settings.segment_bytes);
        let gathered = self.gathered_segments(settings);
        let most = u64::from(gathered.min((self.window.cwnd / 2).max(1)).min(room)) * segment_bytes;
        let window_bytes = (self.acked + settings.receive_window_bytes).saturating_sub(self.next);
        let end = self.stream_end().min(self.next + most.min(window_bytes - window_bytes % segment_bytes));
        if end == self.next || self.defers(now, room, gathered, segment_bytes) {
            return self.stop(window_bytes >= segment_bytes);
        }
        // A FIN that would be alone in a segment of its own rides on the full one before it.
        let end = if end == self.written { self.stream_end() } else { end };
        let segments = self.segments_of(self.next, end, false);
        if self.may_queue(segments, settings) { Some(segments) } else { self.stop(false) }
    }

    /// Hands down nothing more now; `is_limited` if the window is why.
    fn stop(&mut self, is_limited: bool) -> Option<Segments> {
        let outstanding = self.board.len();
        if self.acked >= self.usage_until || is_limited || (!self.is_limited && outstanding > self.outstanding_max) {
            (self.outstanding_max, self.is_limited, self.usage_until) = (outstanding, is_limited, self.next);
        }
        None
    }

    fn segments_of(&self, start: u64, end: u64, again: bool) -> Segments {
        let fin = self.fin && end == self.stream_end();
        Segments { start, bytes: (end - start - u64::from(fin)) as u32, fin, again }
    }

    /// Bytes per second at which Linux would pace: twice a window per round trip in early slow start, else 1.2 times.
    fn pacing_bytes_per_s(&self, settings: &Settings) -> u64 {
        let Some(smoothed) = self.rtt.smoothed() else { return u64::MAX };
        let percent = if self.window.cwnd < self.window.ssthresh / 2 { 200 } else { 120 };
        let window_bytes = u64::from(self.window.cwnd) * u64::from(settings.segment_bytes);
        (u128::from(window_bytes * percent / 100) * 1_000_000_000 / u128::from(smoothed.0.max(1000))) as u64
    }

    /// Segments per packet (tcp_tso_autosize): about a millisecond at the pacing rate, and more when the other end is
    /// near.
    fn gathered_segments(&self, settings: &Settings) -> u32 {
        if settings.gso_segments == 1 {
            return 1;
        }
        let halvings = (self.rtt.least().0 / 512_000).min(63) as u32;
        let bytes = (self.pacing_bytes_per_s(settings) >> 10).saturating_add(GSO_BYTES_MAX >> halvings);
        let segments = bytes.min(GSO_BYTES_MAX) / u64::from(settings.segment_bytes);
        (segments as u32).clamp(2, settings.gso_segments)
    }

    /// Returns true if a packet should wait to become larger (tcp_tso_should_defer).
    fn defers(&self, now: Nanos, room: u32, gathered: u32, segment_bytes: u64) -> bool {
        let Some(oldest) = self.board.oldest_sent_at() else { return false };
        let smoothed = self.rtt.smoothed().unwrap_or_default();
        gathered > 1
            && now - self.sent_at <= DEFER_WITHIN
            && room < gathered
            && room < self.window.cwnd / 3
            && self.stream_end() - self.next > u64::from(room) * segment_bytes
            && now - oldest >= Nanos(smoothed.0 / 2)
    }

    /// TCP small queues: less than a millisecond at the pacing rate or two packets, whichever is more; and one packet
    /// whatever its size behind the only one that is not acknowledged (tcp_small_queue_check).
    fn may_queue(&self, segments: Segments, settings: &Settings) -> bool {
        let millisecond = self.pacing_bytes_per_s(settings) >> 10;
        let limit = millisecond.max(2 * memory_bytes(segments.bytes)).min(SMALL_QUEUE_BYTES_MAX);
        !settings.small_queues || self.queued_bytes < limit || self.acked >= self.newest_start
    }

    /// Notes that the segments of [`Sender::poll`] are in the queue now.
    pub fn sent(&mut self, now: Nanos, segments: Segments, settings: &Settings) {
        self.queued_bytes += memory_bytes(segments.bytes);
        let was_empty = self.board.is_empty();
        if segments.again {
            self.board.resend(now);
            self.resends_now = false;
            self.first_resent_at.get_or_insert(now);
            self.resent_bytes += u64::from(segments.bytes);
        } else {
            self.push(now, segments, settings);
        }
        self.sent_at = now;
        if was_empty || self.alarm.is_none_or(|(_, alarm)| alarm != Alarm::Timeout) {
            self.arm(now, settings);
        }
    }

    fn push(&mut self, now: Nanos, segments: Segments, settings: &Settings) {
        let end = segments.start + u64::from(segments.bytes);
        let mut start = segments.start;
        loop {
            let full = start + u64::from(settings.segment_bytes);
            if full >= end {
                self.board.push(start, end + u64::from(segments.fin), now);
                break;
            }
            self.board.push(start, full, now);
            start = full;
        }
        self.newest_start = segments.start;
        self.next = end + u64::from(segments.fin);
    }

    /// Notes that the segments of [`Sender::poll`] found no room in the host's own queue: TCP is told, slows down and tries again later.
    pub fn refused(&mut self, now: Nanos) {
        self.reduce();
        if self.board.is_empty() {
            self.alarm = Some((now + self.rtt.timeout(0), Alarm::LocalDrop));
        }
    }

    /// No packet of the connection waits in the host's queue.
    pub fn has_nothing_below(&self) -> bool {
        self.queued_bytes == 0
    }

    /// A packet of so many payload bytes has left the host's queue, one way or another.
    pub fn dequeued(&mut self, bytes: u32) {
        self.queued_bytes = self.queued_bytes.saturating_sub(memory_bytes(bytes));
    }

    fn reduce(&mut self) {
        if self.recovery.is_none() {
            self.remember();
            self.window.on_congestion();
            self.window.cwnd = self.window.ssthresh;
            self.recovery = Some(self.next);
        }
    }

    /// The window is about to be reduced.
    fn remember(&mut self) {
        if self.recovery.is_none() {
            self.before = (self.window.cwnd, self.window.ssthresh);
        }
        self.first_resent_at = None;
    }

    /// The first try has arrived after all, and nothing it was taken for lost with it.
    fn undo(&mut self) {
        let (cwnd, ssthresh) = self.before;
        self.window.cwnd = self.window.cwnd.max(cwnd);
        self.window.ssthresh = ssthresh;
        (self.recovery, self.is_timeout) = (None, false);
        self.board.lose_none();
    }

    pub fn on_ack(&mut self, now: Nanos, ack: Acked, settings: &Settings) {
        let reordering = Nanos(self.rtt.smoothed().unwrap_or_default().0 / 4);
        let delivered = self.board.on_ack(ack, reordering);
        let advances = ack.upto > self.acked;
        if advances {
            self.acked = ack.upto;
            (self.backoffs, self.is_probed) = (0, false);
        }
        if let Some(sent_at) = delivered.sampled {
            let starts_round = self.acked > self.round_until;
            if starts_round {
                self.round_until = self.next;
            }
            self.rtt.sample(now - sent_at);
            self.window.on_rtt(now, now - sent_at, starts_round);
        }
        if delivered.lost > 0 {
            self.resends_now = self.recovery.is_none();
            self.reduce();
        }
        if settings.undoes
            && advances
            && self.first_resent_at.is_some_and(|at| ack.echo < at)
            && self.recovery.is_some()
        {
            self.undo();
        }
        if self.recovery.is_some_and(|until| self.acked >= until) {
            (self.recovery, self.is_timeout) = (None, false);
        }
        if advances && self.grows() {
            self.window.grow(now, delivered.segments, self.rtt.smoothed().unwrap_or_default());
        }
        if self.board.is_empty() {
            self.alarm = None;
        } else if advances || delivered.segments > 0 || delivered.lost > 0 {
            self.arm(now, settings);
        }
    }

    /// The window grows while it is what limits us, and not while we recover from a loss.
    fn grows(&self) -> bool {
        let is_open = self.recovery.is_none() || self.is_timeout;
        let is_used =
            if self.window.is_slow_start() { self.window.cwnd < 2 * self.outstanding_max } else { self.is_limited };
        is_open && is_used
    }

    fn arm(&mut self, now: Nanos, settings: &Settings) {
        let timeout = self.rtt.timeout(self.backoffs);
        let probes = settings.tail_loss_probe && !self.is_probed && self.recovery.is_none() && !self.board.has_holes();
        let after = match self.rtt.smoothed().filter(|_| probes) {
            Some(smoothed) if self.board.len() == 1 => Nanos(2 * smoothed.0) + settings.min_rto,
            Some(smoothed) => Nanos(2 * smoothed.0) + PROBE_AFTER_MIN,
            None => Nanos::MAX,
        };
        self.alarm =
            Some(if after < timeout { (now + after, Alarm::TailLossProbe) } else { (now + timeout, Alarm::Timeout) });
    }

    /// When to call [`Sender::on_alarm`], if nothing comes before.
    pub fn alarm_at(&self) -> Option<Nanos> {
        self.alarm.map(|(at, _)| at)
    }

    /// The alarm's time has come. Gives what is to be sent whatever the window says; the rest is [`Sender::poll`]'s.
    pub fn on_alarm(&mut self, now: Nanos, settings: &Settings) -> Option<Segments> {
        match self.alarm.take()?.1 {
            Alarm::LocalDrop => None,
            Alarm::Timeout => {
                if !self.is_timeout {
                    self.remember();
                    self.window.on_congestion();
                    (self.is_timeout, self.recovery) = (true, Some(self.next));
                }
                self.window.cwnd = 1;
                self.backoffs += 1;
                self.board.lose_all();
                self.arm(now, settings);
                None
            }
            Alarm::TailLossProbe => {
                self.is_probed = true;
                let last = self.board.probe();
                self.arm(now, settings);
                last.map(|last| self.segments_of(last.start, last.end, true))
            }
        }
    }

    /// The probe [`Sender::on_alarm`] gave is in the queue.
    pub fn probe_sent(&mut self, segments: Segments) {
        self.queued_bytes += memory_bytes(segments.bytes);
        self.resent_bytes += u64::from(segments.bytes);
    }
}

fn memory_bytes(payload_bytes: u32) -> u64 {
    PACKET_MEMORY_BYTES + u64::from(payload_bytes)
}
