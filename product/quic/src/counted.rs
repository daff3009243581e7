//! A congestion controller that counts acknowledged bytes and observes when each datagram is acknowledged, which quinn
//! reports to no other component.
//!
//! quinn lets the window grow only by acknowledgements that arrive while more bytes wait to be sent. So the last flight
//! of a short response does not open the window, and later responses wait for round trips that TCP would not need. Slow
//! start therefore follows Linux: the window grows while more than half of it was in use.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics, CubicConfig};
use quinn_proto::{Connection, RttEstimator};
use units::Nanos;

use crate::endpoint::DATAGRAM_BYTES_MAX;
use crate::late_client::LateClient;

/// The first congestion window: ten full datagrams, as TCP has ten segments. RFC 9002 section 7.2 recommends ten, and
/// 14,720 bytes at most; the datagrams of the first round trip are smaller, since no larger size has been probed.
const WINDOW_BYTES_FIRST: u64 = 10 * DATAGRAM_BYTES_MAX as u64;

/// CUBIC, as implemented by quinn.
pub(crate) struct CountedConfig(Arc<CubicConfig>);

impl Default for CountedConfig {
    fn default() -> CountedConfig {
        let mut cubic = CubicConfig::default();
        cubic.initial_window(WINDOW_BYTES_FIRST);
        CountedConfig(Arc::new(cubic))
    }
}

struct Counted {
    inner: Box<dyn Controller>,
    acked_bytes: u64,
    /// UDP payload in flight at the last acknowledgement.
    in_flight_bytes: u64,
    flight: Flight,
    late: LateClient,
}

/// The largest flight of the last round trip.
#[derive(Debug, Clone, Copy, Default)]
struct Flight {
    /// UDP payload in flight, minus losses since the last acknowledgement.
    bytes: u64,
    most_bytes: u64,
    /// The last packet sent when this flight was largest. Its acknowledgement ends the round trip.
    most_at: u64,
    last_sent: u64,
}

impl Flight {
    fn on_sent(&mut self, bytes: u64, packet: u64) {
        self.bytes += bytes;
        self.last_sent = packet;
        if self.bytes > self.most_bytes {
            (self.most_bytes, self.most_at) = (self.bytes, packet);
        }
    }

    fn on_end_acks(&mut self, in_flight_bytes: u64, largest: Option<u64>) {
        self.bytes = in_flight_bytes;
        if largest.is_some_and(|largest| largest >= self.most_at) {
            (self.most_bytes, self.most_at) = (in_flight_bytes, self.last_sent);
        }
    }

    /// Returns true if slow start may continue, because more than half of the window was in use.
    fn uses(&self, metrics: &ControllerMetrics) -> bool {
        let window = metrics.congestion_window;
        metrics.ssthresh.is_none_or(|ssthresh| window < ssthresh) && window < 2 * self.most_bytes
    }
}

/// Bytes acknowledged over all paths of a connection: each path has its own controller, which counts from zero.
#[derive(Debug, Default)]
pub(crate) struct Acked {
    bytes: u64,
    /// Bytes of the current path.
    of_path: u64,
    in_flight_bytes: u64,
    /// The current path's round trips and losses.
    late: LateClient,
    /// Bytes lost because the client was late, on the paths before the current one.
    own_lost_before: u64,
    /// Acknowledgements received when the controller was last queried.
    acks: u64,
}

impl Acked {
    /// UDP payload acknowledged so far, in ack-eliciting datagrams.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the UDP payload in flight when [`Acked::look`] last returned true.
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    /// Returns the shortest of the recent round trips, as measured by [`LateClient`].
    pub fn least_rtt(&self) -> Option<Nanos> {
        self.late.least_rtt().map(Nanos::from)
    }

    /// UDP payload lost so far because the client was late.
    pub fn own_lost_bytes(&self) -> u64 {
        self.own_lost_before + self.late.own_lost_bytes()
    }

    /// Queries the controller if acknowledgements have arrived, and returns true if so.
    pub fn look(&mut self, connection: &Connection) -> bool {
        let acks = connection.stats().frame_rx.acks;
        if std::mem::replace(&mut self.acks, acks) == acks {
            return false;
        }
        let state = connection.congestion_state().clone_box().into_any();
        let Ok(counted) = state.downcast::<Counted>() else { return false };
        let new = counted.acked_bytes.checked_sub(self.of_path).unwrap_or(counted.acked_bytes);
        if counted.late.own_lost_bytes() < self.late.own_lost_bytes() {
            self.own_lost_before += self.late.own_lost_bytes();
        }
        self.late = counted.late;
        self.bytes += new;
        (self.of_path, self.in_flight_bytes) = (counted.acked_bytes, counted.in_flight_bytes);
        true
    }
}

impl ControllerFactory for CountedConfig {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = Arc::clone(&self.0).build(now, current_mtu);
        Box::new(Counted {
            inner,
            acked_bytes: 0,
            in_flight_bytes: 0,
            flight: Flight::default(),
            late: LateClient::default(),
        })
    }
}

impl Controller for Counted {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.flight.on_sent(bytes, last_packet_number);
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.acked_bytes += bytes;
        self.late.on_ack(now, sent, rtt.min());
        let app_limited = app_limited && !self.flight.uses(&self.inner.metrics());
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.in_flight_bytes = in_flight;
        self.flight.on_end_acks(in_flight, largest);
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        self.late.on_lost(sent, lost_bytes);
        self.inner.on_congestion_event(now, sent, is_persistent, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let Counted { acked_bytes, in_flight_bytes, flight, late, .. } = *self;
        Box::new(Counted { inner: self.inner.clone_box(), acked_bytes, in_flight_bytes, flight, late })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
