//! The server's side of a connection: the bytes that may leave now, and the number of segments in each packet.

use units::Nanos;
use units::wire::Framing;

use super::congestion::Window;
use super::scoreboard::Scoreboard;
use super::{Acked, Congestion, Rtt};

/// The settings that all senders of a run share.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The payload of a full segment.
    pub segment_bytes: u32,
    /// The initial window in segments.
    pub initial_window: u32,
    pub initial_rto: Nanos,
    pub min_rto: Nanos,
    pub congestion: Congestion,
    pub receive_window_bytes: u64,
    /// The maximum number of segments handed down as one packet.
    pub gso_segments: u32,
    /// True if a connection's packets in the host's qdisc are limited (TCP small queues).
    pub small_queues: bool,
    pub tail_loss_probe: bool,
    /// True if an unnecessary reduction of the window is undone.
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
    /// The payload, without the FIN.
    pub bytes: u32,
    pub fin: bool,
    /// True for a retransmission.
    pub again: bool,
}

/// The reason why the sender wants to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alarm {
    Timeout,
    TailLossProbe,
    /// The host's qdisc had no room, and nothing is in flight whose acknowledgement would wake the sender.
    LocalDrop,
}

#[derive(Debug)]
pub struct Sender {
    window: Window,
    rtt: Rtt,
    board: Scoreboard,
    acked: u64,
    next: u64,
    /// The number of bytes written to the socket, as a position in the stream. A requested FIN counts as one more.
    written: u64,
    fin: bool,
    /// The end of the stream when the window was last reduced. Until it is acknowledged, the window is not reduced
    /// again.
    recovery: Option<u64>,
    /// The window and threshold before that, and the instant of the first retransmission since.
    before: (u32, u32),
    first_resent_at: Option<Nanos>,
    /// True if the recovery follows a timeout; the window then grows during the recovery.
    is_timeout: bool,
    backoffs: u32,
    alarm: Option<(Nanos, Alarm)>,
    sent_at: Nanos,
    /// The memory in the host's qdisc, as the kernel counts it.
    queued_bytes: u64,
    /// The beginning of the packet handed down last.
    newest_start: u64,
    /// The maximum number of outstanding segments in the current window, the end of that window, and whether the window
    /// limited the sender.
    outstanding_max: u32,
    usage_until: u64,
    is_limited: bool,
    /// The end of HyStart's round.
    round_until: u64,
    is_probed: bool,
    /// A loss was just detected: the first segment is retransmitted immediately (RFC 6675 section 5, step 4.3).
    resends_now: bool,
    /// The retransmitted payload bytes.
    pub resent_bytes: u64,
}

/// The memory that Linux uses for a packet in addition to its data: struct sk_buff, skb_shared_info and room for
/// headers.
const PACKET_MEMORY_BYTES: u64 = 256 + 320 + 384;
/// Linux's tcp_limit_output_bytes, as set in the lab.
const SMALL_QUEUE_BYTES_MAX: u64 = 1 << 20;
/// The maximum bytes of a packet with a short round trip (sk_gso_max_size), halved for every 512 µs of the round trip.
const GSO_BYTES_MAX: u64 = 65_536;
/// The deferral of TSO: a packet waits for more window only if another left this recently.
const DEFER_WITHIN: Nanos = Nanos::from_millis(1);
/// The minimum delay of a loss probe: two jiffies at 250 Hz.
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

    /// Takes the round trip measured by the handshake.
    pub fn sample(&mut self, rtt: Nanos) {
        self.rtt.sample(rtt);
    }

    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    pub fn window_segments(&self) -> u32 {
        self.window.cwnd
    }

    /// Writes bytes as the application does; `fin` closes the stream after them.
    pub fn write(&mut self, now: Nanos, bytes: u64, fin: bool, settings: &Settings) {
        let timeout = self.rtt.timeout(0);
        if self.board.is_empty() && self.next == self.written && self.next > 0 && now - self.sent_at > timeout {
            self.window.on_idle((now - self.sent_at).0 / timeout.0, settings.initial_window);
        }
        self.written += bytes;
        self.fin |= fin;
    }

    /// The number of consecutive timeouts.
    pub fn timeouts(&self) -> u32 {
        self.backoffs
    }

    /// The bytes of the stream acknowledged so far.
    pub fn acked_bytes(&self) -> u64 {
        self.acked
    }

    /// The payload beyond a gap that the receiver has selectively acknowledged, estimated in whole segments.
    pub fn sacked_bytes(&self, settings: &Settings) -> u64 {
        u64::from(self.board.sacked()) * u64::from(settings.segment_bytes)
    }

    /// The bytes written and not sent.
    pub fn unsent_bytes(&self) -> u64 {
        self.written.saturating_sub(self.next)
    }

    /// Returns true if everything written has been acknowledged, including a FIN.
    pub fn is_done(&self) -> bool {
        self.acked >= self.stream_end()
    }

    fn stream_end(&self) -> u64 {
        self.written + u64::from(self.fin)
    }

    /// Returns the segments to hand down next, if any. They count as sent only after [`Sender::sent`].
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
        // A FIN that would need a segment of its own is sent with the full segment before it.
        let end = if end == self.written { self.stream_end() } else { end };
        let segments = self.segments_of(self.next, end, false);
        if self.may_queue(segments, settings) { Some(segments) } else { self.stop(false) }
    }

    /// Hands down nothing more for now. `is_limited` is true if the window is the reason.
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

    /// The bytes per second at which Linux would pace: twice a window per round trip in early slow start, 1.2 times
    /// afterwards.
    fn pacing_bytes_per_s(&self, settings: &Settings) -> u64 {
        let Some(smoothed) = self.rtt.smoothed() else { return u64::MAX };
        let percent = if self.window.cwnd < self.window.ssthresh / 2 { 200 } else { 120 };
        let window_bytes = u64::from(self.window.cwnd) * u64::from(settings.segment_bytes);
        (u128::from(window_bytes * percent / 100) * 1_000_000_000 / u128::from(smoothed.0.max(1000))) as u64
    }

    /// The number of segments per packet (tcp_tso_autosize): about a millisecond at the pacing rate, and more if the
    /// round trip is short.
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

    /// The limit of TCP small queues: less than a millisecond at the pacing rate, or two packets if that is more. One
    /// packet of any size may also follow the only unacknowledged one (tcp_small_queue_check).
    fn may_queue(&self, segments: Segments, settings: &Settings) -> bool {
        let millisecond = self.pacing_bytes_per_s(settings) >> 10;
        let limit = millisecond.max(2 * memory_bytes(segments.bytes)).min(SMALL_QUEUE_BYTES_MAX);
        !settings.small_queues || self.queued_bytes < limit || self.acked >= self.newest_start
    }

    /// Records that the segments of [`Sender::poll`] are now in the queue.
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

    /// Records that the host's own queue had no room for the segments of [`Sender::poll`]. TCP slows down and tries
    /// again later.
    pub fn refused(&mut self, now: Nanos) {
        self.reduce();
        if self.board.is_empty() {
            self.alarm = Some((now + self.rtt.timeout(0), Alarm::LocalDrop));
        }
    }

    /// Returns true if no packet of the connection waits in the host's queue.
    pub fn has_nothing_below(&self) -> bool {
        self.queued_bytes == 0
    }

    /// Records that a packet with `bytes` of payload has left the host's queue, sent or dropped.
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

    /// Saves the window, which is about to be reduced.
    fn remember(&mut self) {
        if self.recovery.is_none() {
            self.before = (self.window.cwnd, self.window.ssthresh);
        }
        self.first_resent_at = None;
    }

    /// Undoes a reduction: the original transmission has arrived after all, and nothing was lost.
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

    /// Returns true if the window grows: it limits the sender, and there is no recovery from a loss.
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

    /// The instant at which to call [`Sender::on_alarm`] if nothing happens before.
    pub fn alarm_at(&self) -> Option<Nanos> {
        self.alarm.map(|(at, _)| at)
    }

    /// Handles the alarm. Returns segments to be sent regardless of the window; other segments come from
    /// [`Sender::poll`].
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

    /// Records that the probe of [`Sender::on_alarm`] is in the queue.
    pub fn probe_sent(&mut self, segments: Segments) {
        self.queued_bytes += memory_bytes(segments.bytes);
        self.resent_bytes += u64::from(segments.bytes);
    }
}

fn memory_bytes(payload_bytes: u32) -> u64 {
    PACKET_MEMORY_BYTES + u64::from(payload_bytes)
}
