//! The window of a stream: the number of bytes of a body that its sender may send before they are read. A constant
//! window of 64 KiB carries 64 KiB per round trip, which is 5 Mbit/s at 100 ms. The window therefore grows while its
//! reader takes everything that arrives and the sender uses the window up within a round trip. It shrinks again if the
//! reader takes less. A body that is not read keeps the initial window.

use units::Nanos;

/// The initial window of a stream (RFC 9113 section 6.5.2).
pub const WINDOW_BYTES_MIN: usize = 65_535;
/// The maximum window: it carries 320 Mbit/s at a round trip of 100 ms.
pub const WINDOW_BYTES_MAX: usize = 4 << 20;
/// The factor by which a window grows and shrinks. The window gets from the minimum to the maximum in one step, because
/// each step costs an upload a round trip.
const STEP: usize = 64;
/// The rate of the fastest line assumed (1 Gbit/s). A window that carries this rate for a round trip is wide enough.
const BYTES_PER_MS_MAX: u64 = 125_000;
/// A sender that sends half a window within this number of round trips is limited by the window.
const USED_UP_ROUND_TRIPS: u64 = 2;
/// A window is too wide if half of it takes more than this number of round trips.
const IDLE_ROUND_TRIPS: u64 = 32;

/// The window of one stream.
#[derive(Debug)]
pub struct Window {
    bytes: usize,
    /// The bytes received since the window was last adapted, and the time of that adaptation.
    came_bytes: usize,
    looked_at: Nanos,
}

impl Window {
    pub fn new(now: Nanos) -> Window {
        Window { bytes: WINDOW_BYTES_MIN, came_bytes: 0, looked_at: now }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes above the initial window.
    pub fn wider_bytes(&self) -> usize {
        self.bytes - WINDOW_BYTES_MIN
    }

    /// Resets the window to the initial one, because nothing more arrives. Returns the number of bytes by which it was
    /// wider.
    pub fn narrow(&mut self) -> usize {
        let wider_bytes = self.wider_bytes();
        self.bytes = WINDOW_BYTES_MIN;
        wider_bytes
    }

    pub fn on_bytes(&mut self, bytes: usize) {
        self.came_bytes += bytes;
    }

    /// Adapts the window after everything received was read, with memory for `room_bytes` more. Returns true if the
    /// window changed. It does not change before the round trip is known.
    pub fn on_read(&mut self, now: Nanos, round_trip: Option<Nanos>, room_bytes: usize) -> bool {
        let Some(round_trip) = round_trip.filter(|_| self.came_bytes >= self.bytes / 2) else { return false };
        let (took, before) = (now - self.looked_at, self.bytes);
        (self.came_bytes, self.looked_at) = (0, now);
        let within = |round_trips: u64| took.0 <= round_trip.0.saturating_mul(round_trips);
        if within(USED_UP_ROUND_TRIPS) {
            let wider = (self.bytes * STEP).min(widest(round_trip)).min(self.bytes.saturating_add(room_bytes));
            self.bytes = self.bytes.max(wider);
        } else if !within(IDLE_ROUND_TRIPS) {
            self.bytes = (self.bytes / STEP).max(WINDOW_BYTES_MIN);
        }
        self.bytes != before
    }
}

/// Returns the widest window that is useful at this round trip.
fn widest(round_trip: Nanos) -> usize {
    let bytes = (round_trip.0 / 1000).saturating_mul(BYTES_PER_MS_MAX) / 1000;
    usize::try_from(bytes).unwrap_or(usize::MAX).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX)
}

/// The round trip to the peer, measured from this end's SETTINGS to their acknowledgement (RFC 9113 section 6.5.3), and
/// the current time.
#[derive(Debug, Default)]
pub struct RoundTrip {
    pub now: Nanos,
    asked_at: Option<Nanos>,
    measured: Option<Nanos>,
}

impl RoundTrip {
    /// Sets the current time. At the first call, SETTINGS have just been sent.
    pub fn at(&mut self, now: Nanos) {
        self.now = now;
        self.asked_at.get_or_insert(now);
    }

    /// Records that the peer has acknowledged SETTINGS.
    pub fn on_acknowledged(&mut self) {
        let asked_at = self.asked_at.unwrap_or(self.now);
        self.measured.get_or_insert(self.now - asked_at);
    }

    /// The round trip; `None` until it is known.
    pub fn get(&self) -> Option<Nanos> {
        self.measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;
    const TRIP: Option<Nanos> = Some(Nanos::from_millis(100));

    /// Sends a full window in each round trip, as a client with more data does, and reads it at once. Returns the
    /// successive windows.
    fn windows(room_bytes: usize) -> Vec<usize> {
        let mut window = Window::new(MS(0));
        (1..=5)
            .map(|nth| {
                window.on_bytes(window.bytes());
                // The acknowledgement of SETTINGS comes with the second.
                window.on_read(MS(100 * nth), TRIP.filter(|_| nth > 1), room_bytes);
                window.bytes() >> 10
            })
            .collect()
    }

    #[test]
    fn a_window_that_is_used_up_within_a_round_trip_grows_as_far_as_memory_has_room() {
        assert_eq!(windows(usize::MAX), [63, 4095, 4096, 4096, 4096]);
        assert_eq!(windows(0), [63; 5]);
        assert_eq!(windows(100_000), [63, 161, 259, 356, 454]);
    }

    #[test]
    fn a_window_shrinks_where_its_reader_takes_less() {
        let mut window = Window::new(MS(0));
        for nth in 1..4 {
            window.on_bytes(window.bytes());
            window.on_read(MS(100 * nth), TRIP, usize::MAX);
        }
        assert_eq!(window.bytes(), WINDOW_BYTES_MAX);
        window.on_bytes(WINDOW_BYTES_MAX);
        assert!(!window.on_read(MS(2_000), TRIP, usize::MAX), "half of what the line carries");
        window.on_bytes(WINDOW_BYTES_MAX);
        assert!(window.on_read(MS(10_000), TRIP, usize::MAX) && window.bytes() == WINDOW_BYTES_MAX / STEP);
        for nth in 2..5 {
            window.on_bytes(WINDOW_BYTES_MAX);
            window.on_read(MS(nth * 10_000), TRIP, usize::MAX);
        }
        assert_eq!(window.wider_bytes(), 0);
    }

    /// A client on the same host or in the next room loses nothing with a small window, and a wide one would let it
    /// fill memory if reading stops.
    #[test]
    fn a_short_round_trip_needs_no_wide_window() {
        let mut window = Window::new(MS(0));
        for nth in 1..100 {
            window.on_bytes(window.bytes());
            window.on_read(Nanos::from_micros(nth), Some(Nanos::from_micros(100)), usize::MAX);
        }
        assert_eq!(window.bytes(), WINDOW_BYTES_MIN);
        assert_eq!(widest(Nanos::MAX), WINDOW_BYTES_MAX);
    }

    #[test]
    fn the_round_trip_is_that_of_the_first_settings() {
        let mut trip = RoundTrip::default();
        trip.at(MS(50));
        assert_eq!(trip.get(), None);
        trip.at(MS(150));
        trip.on_acknowledged();
        trip.at(MS(900));
        trip.on_acknowledged();
        assert_eq!(trip.get(), TRIP);
    }
}
