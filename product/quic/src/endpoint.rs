//! All connections of one UDP socket. Assigns datagrams to connections and decides which clients may start one.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use http::Limits;
use quinn_proto as quinn;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionEvent, ConnectionHandle, DatagramEvent, EcnCodepoint, EndpointConfig, EndpointEvent,
};
use quinn_proto::{IdleTimeout, MtuDiscoveryConfig, ServerConfig, TimeSource, TransportConfig, ValidationTokenConfig};
use units::Nanos;

use crate::counted::CountedConfig;
use crate::steering::Steering;
use crate::{Datagrams, Session, mapped_address};

/// Version 1 of QUIC (RFC 9000 section 15).
const VERSION_1: u32 = 1;

/// The number of connections in their handshake above which a client must prove its address (Retry, RFC 9000 section
/// 8.1.2).
pub const HALF_OPEN_MAX: usize = 100;
/// The maximum number of undecided attempts. Each attempt is decided immediately, so there is at most one.
const UNDECIDED_MAX: usize = 1;
/// The maximum bytes stored of further datagrams of an undecided attempt.
const UNDECIDED_BYTES_MAX: u64 = 64 << 10;
/// The UDP payload that fits every path (RFC 9000 section 14), and the maximum that is probed: 1,500 bytes without the
/// headers of IPv6 and UDP.
const DATAGRAM_BYTES_MIN: u16 = 1200;
pub(crate) const DATAGRAM_BYTES_MAX: u16 = 1452;
/// The number of unread bytes that a client may send on one stream: 20 Mbit/s at a round trip of 100 ms. quinn has a
/// single number for all streams of a connection and its whole lifetime, so windows cannot grow as they do in HTTP/2.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// The same number for all streams of a connection together, in addition to the windows of the streams with wanted
/// bodies.
pub(crate) const WINDOW_BYTES: u32 = 128 << 10;
/// Maximum content kept until the client has acknowledged it, and so also the maximum useful congestion window.
const UNACKNOWLEDGED_BYTES_MAX: u64 = 4 << 20;
/// Unidirectional streams of a client: control, QPACK's two, and a few of unknown types (RFC 9114 section 6.2).
pub(crate) const CLIENT_UNI_STREAMS_MAX: u32 = 8;
/// Bytes of a handshake that are stored until the bytes before them have arrived.
const CRYPTO_BYTES_MAX: usize = 16 << 10;
/// The round trip assumed before one is measured; lost parts of a handshake are retransmitted after three round trips.
/// RFC 9002 section 6.2.2 suggests 333 ms, which over nearly all paths wastes a second of waiting, while a datagram
/// sent twice costs little.
const INITIAL_RTT: Duration = Duration::from_millis(100);
/// The lifetime of a Retry token.
const RETRY_TOKEN_LIFETIME: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Limits on a request head, as in [`http2::Settings`].
    pub request: Limits,
    /// Maximum number of requests that a client may have open at once.
    pub streams_max: u32,
    pub has_tunnels: bool,
    /// Maximum number of connections of this socket; more are refused.
    pub connections_max: usize,
    /// The time after which a connection that receives nothing is closed.
    pub idle_timeout: Nanos,
    /// True for an IPv6 socket, on which IPv4 addresses are mapped.
    pub is_ipv6: bool,
    /// The position of this socket among several on one port.
    pub steering: Steering,
    /// A seed for simulations, from which all randomness is derived except the bytes of IDs, keys and tokens, whose
    /// lengths never vary. `None` uses the system's randomness.
    pub seed: Option<[u8; 32]>,
}

impl Default for Settings {
    fn default() -> Settings {
        let http2::Settings { request, streams_max, has_tunnels } = http2::Settings::default();
        Settings {
            request,
            streams_max,
            has_tunnels,
            connections_max: 10_000,
            idle_timeout: Nanos::from_secs(30),
            is_ipv6: false,
            steering: Steering::ALONE,
            seed: None,
        }
    }
}

/// The reason why an endpoint cannot be created.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error("TLS has no AES-128-GCM-SHA256, which QUIC begins with (RFC 9001 section 5.2)")]
    NoInitialSuite,
    #[error("an idle timeout of {0:?} is more than QUIC can say")]
    IdleTimeout(Nanos),
}

/// A session's key, chosen by the caller of [`Endpoint::accept`]; never used twice on one endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u64);

/// A received datagram for its session.
pub struct Incoming(pub(crate) ConnectionEvent);

/// A client that wants to start a connection. Pass it to [`Endpoint::accept`], [`Endpoint::refuse`],
/// [`Endpoint::retry`] or [`Endpoint::ignore`] before the next datagram. A dropped attempt keeps occupying its place
/// among the undecided ones.
pub struct Attempt {
    incoming: quinn::Incoming,
    /// Bytes of the client's connection ID.
    id_bytes: usize,
    /// True for an IPv6 socket.
    is_ipv6: bool,
}

impl Attempt {
    /// The client's address. It may be unverified.
    pub fn from(&self) -> SocketAddr {
        mapped_address::at_socket(self.incoming.remote_address(), self.is_ipv6)
    }

    /// Returns true if the client has proved its address ([`Endpoint::retry`]).
    pub fn is_proved(&self) -> bool {
        self.incoming.remote_address_validated()
    }
}

/// The result of receiving one datagram.
pub enum Arrival {
    /// The datagram would start a connection. Nothing has been computed for it yet.
    New(Attempt),
    /// The datagram belongs to this session; pass it to [`Session::receive`].
    For(Key, Incoming),
    /// The datagram was answered by one that is now in `out`: version negotiation, a Retry, a refusal, or a stateless
    /// reset.
    Answered,
    Ignored,
}

/// All connections of one UDP socket. Cheap to clone; used by a single thread, so its lock never waits.
#[derive(Clone)]
pub struct Endpoint(Arc<Mutex<Inner>>);

struct Inner {
    quinn: quinn::Endpoint,
    config: ServerConfig,
    clock: Arc<Clock>,
    settings: Settings,
    /// The key of the connection for each of quinn's handles.
    keys: Vec<Option<Key>>,
    half_open: usize,
}

/// The time of the last datagram. Without it, quinn would read the system's clock to find the age of a Retry token.
pub(crate) struct Clock {
    base: Instant,
    now: AtomicU64,
}

impl Clock {
    pub(crate) fn instant(&self, now: Nanos) -> Instant {
        self.base + Duration::from(now)
    }

    pub(crate) fn nanos(&self, instant: Instant) -> Nanos {
        instant.saturating_duration_since(self.base).into()
    }
}

impl TimeSource for Clock {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.now.load(Ordering::Relaxed))
    }
}

impl Endpoint {
    /// Creates an endpoint. Its keys are random, from the system: it accepts no Retry tokens or stateless resets of
    /// another endpoint.
    pub fn new(acceptor: &tls::Acceptor, settings: &Settings) -> Result<Endpoint, Unusable> {
        let clock = Arc::new(Clock { base: Instant::now(), now: AtomicU64::new(0) });
        let mut config = ServerConfig::with_crypto(Arc::new(crypto(acceptor)?));
        let mut tokens = ValidationTokenConfig::default();
        tokens.sent(0);
        config
            .transport_config(Arc::new(transport(settings)?))
            .validation_token_config(tokens)
            .retry_token_lifetime(RETRY_TOKEN_LIFETIME)
            .migration(true)
            .max_incoming(UNDECIDED_MAX)
            .incoming_buffer_size(UNDECIDED_BYTES_MAX)
            .incoming_buffer_size_total(UNDECIDED_BYTES_MAX)
            .time_source(Arc::clone(&clock) as Arc<dyn TimeSource>);
        let mut own = EndpointConfig::default();
        // quinn also lists drafts, which are no longer in use.
        own.supported_versions(vec![VERSION_1]);
        let steering = settings.steering;
        own.cid_generator(move || Box::new(steering)).rng_seed(settings.seed);
        let own = Arc::new(own);
        let quinn = quinn::Endpoint::new(own, Some(Arc::new(config.clone())), true, None);
        let inner = Inner { quinn, config, clock, settings: *settings, keys: Vec::new(), half_open: 0 };
        Ok(Endpoint(Arc::new(Mutex::new(inner))))
    }

    /// Replaces the certificates and the rest of the TLS configuration for new connections. Without AES-128-GCM-SHA256
    /// nothing changes.
    pub fn replace(&self, acceptor: &tls::Acceptor) {
        let Ok(crypto) = crypto(acceptor) else { return };
        let mut inner = self.lock();
        inner.config.crypto = Arc::new(crypto);
        let config = inner.config.clone();
        inner.quinn.set_server_config(Some(Arc::new(config)));
    }

    /// Sets the maximum head of a request and the idle timeout for new connections. A timeout that QUIC cannot express
    /// changes nothing.
    pub fn set_limits(&self, request: Limits, idle_timeout: Nanos) {
        let mut inner = self.lock();
        let settings = Settings { request, idle_timeout, ..inner.settings };
        let Ok(transport) = transport(&settings) else { return };
        inner.settings = settings;
        inner.config.transport_config(Arc::new(transport));
        let config = inner.config.clone();
        inner.quinn.set_server_config(Some(Arc::new(config)));
    }

    /// Receives one datagram, from this address, to this address of ours, with these two ECN bits of the IP header.
    pub fn receive(
        &self,
        now: Nanos,
        from: SocketAddr,
        to: Option<IpAddr>,
        ecn: Option<u8>,
        datagram: &[u8],
        out: &mut Datagrams,
    ) -> Arrival {
        let mut inner = self.lock();
        inner.clock.now.store(now.0, Ordering::Relaxed);
        let at = inner.clock.instant(now);
        let ecn = ecn.and_then(EcnCodepoint::from_bits);
        let mut event = None;
        let is_ipv6 = inner.settings.is_ipv6;
        let quinn = &mut inner.quinn;
        let from = mapped_address::canonical(from);
        let answered =
            out.make(is_ipv6, |buffer| match quinn.handle(at, from, to, ecn, BytesMut::from(datagram), buffer)? {
                DatagramEvent::Response(transmit) => Some(transmit),
                other => {
                    event = Some(other);
                    None
                }
            });
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => match inner.keys.get(handle.0).copied().flatten() {
                Some(key) => Arrival::For(key, Incoming(event)),
                None => Arrival::Ignored,
            },
            Some(DatagramEvent::NewConnection(incoming)) => {
                decide(inner, Attempt { incoming, id_bytes: source_id_bytes(datagram), is_ipv6 }, out)
            }
            _ if answered.is_some() => Arrival::Answered,
            _ => Arrival::Ignored,
        }
    }

    /// Starts a connection, whose later datagrams are reported under this key. The returned session has received the
    /// first datagram already. Returns `None` if the attempt was invalid.
    pub fn accept(&self, now: Nanos, attempt: Attempt, key: Key, out: &mut Datagrams) -> Option<Session> {
        let mut inner = self.lock();
        let Attempt { incoming, id_bytes, is_ipv6 } = attempt;
        let at = inner.clock.instant(now);
        let mut accepted = None;
        out.make(is_ipv6, |buffer| match inner.quinn.accept(incoming, at, buffer, None) {
            Ok(pair) => {
                accepted = Some(pair);
                None
            }
            Err(failed) => failed.response,
        });
        let (handle, connection) = accepted?;
        if inner.keys.len() <= handle.0 {
            inner.keys.resize(handle.0 + 1, None);
        }
        inner.keys[handle.0] = Some(key);
        inner.half_open += 1;
        let clock = Arc::clone(&inner.clock);
        let settings = inner.settings;
        drop(inner);
        let membership = Membership {
            endpoint: self.clone(),
            handle,
            key,
            is_ipv6: settings.is_ipv6,
            is_half_open: true,
            is_known: true,
        };
        let mut session = Session::new(membership, clock, connection, &settings, id_bytes);
        // The first datagram is processed. A mistake in it ends the session, which is then closing and informs the
        // client itself.
        let _ = session.settle(now);
        Some(session)
    }

    /// Refuses a client because there is no room for it (CONNECTION_REFUSED, RFC 9000 section 20.1).
    pub fn refuse(&self, attempt: Attempt, out: &mut Datagrams) {
        out.make(attempt.is_ipv6, |buffer| Some(self.lock().quinn.refuse(attempt.incoming, buffer)));
    }

    /// Asks the client to prove its address (Retry, RFC 9000 section 8.1.2). Only for a client that has not proved it
    /// yet.
    pub fn retry(&self, attempt: Attempt, out: &mut Datagrams) {
        out.make(attempt.is_ipv6, |buffer| self.lock().quinn.retry(attempt.incoming, buffer).ok());
    }

    /// Leaves the attempt unanswered, so that the client tries again.
    pub fn ignore(&self, attempt: Attempt) {
        self.lock().quinn.ignore(attempt.incoming);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic in Weir ends the thread that owns the endpoint.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session's registration at its endpoint, removed on drop.
pub(crate) struct Membership {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(crate) key: Key,
    /// True if the endpoint's socket is an IPv6 one.
    pub(crate) is_ipv6: bool,
    is_half_open: bool,
    is_known: bool,
}

impl Membership {
    /// Passes pending events between connection and endpoint.
    pub(crate) fn exchange(&mut self, connection: &mut Connection) {
        if self.is_half_open && !connection.is_handshaking() {
            self.is_half_open = false;
            self.endpoint.lock().half_open -= 1;
        }
        while let Some(event) = connection.poll_endpoint_events() {
            let answer = self.tell(event);
            if let Some(answer) = answer {
                connection.handle_event(answer);
            }
        }
    }

    fn tell(&mut self, event: EndpointEvent) -> Option<ConnectionEvent> {
        if !self.is_known {
            return None;
        }
        let mut inner = self.endpoint.lock();
        if event.is_drained() {
            self.is_known = false;
            inner.keys[self.handle.0] = None;
        }
        inner.quinn.handle_event(self.handle, event)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if self.is_half_open {
            self.endpoint.lock().half_open -= 1;
        }
        self.tell(EndpointEvent::drained());
    }
}

/// Refuses an attempt, asks for a proof of its address, or leaves it to the caller.
fn decide(mut inner: MutexGuard<'_, Inner>, attempt: Attempt, out: &mut Datagrams) -> Arrival {
    let Attempt { incoming, id_bytes, is_ipv6 } = attempt;
    if inner.quinn.open_connections() >= inner.settings.connections_max {
        out.make(is_ipv6, |buffer| Some(inner.quinn.refuse(incoming, buffer)));
        return Arrival::Answered;
    }
    if inner.half_open >= HALF_OPEN_MAX && !incoming.remote_address_validated() {
        // A client is asked only once: one that was asked has proved it.
        out.make(is_ipv6, |buffer| inner.quinn.retry(incoming, buffer).ok());
        return Arrival::Answered;
    }
    Arrival::New(Attempt { incoming, id_bytes, is_ipv6 })
}

fn crypto(acceptor: &tls::Acceptor) -> Result<QuicServerConfig, Unusable> {
    QuicServerConfig::try_from(acceptor.quic_config()).map_err(|_| Unusable::NoInitialSuite)
}

fn transport(settings: &Settings) -> Result<TransportConfig, Unusable> {
    let idle = Duration::from(settings.idle_timeout);
    let idle = IdleTimeout::try_from(idle).map_err(|_| Unusable::IdleTimeout(settings.idle_timeout))?;
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(DATAGRAM_BYTES_MAX);
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(settings.streams_max.into())
        .max_concurrent_uni_streams(CLIENT_UNI_STREAMS_MAX.into())
        .max_idle_timeout(Some(idle))
        .stream_receive_window(STREAM_WINDOW_BYTES.into())
        .receive_window(WINDOW_BYTES.into())
        .send_window(UNACKNOWLEDGED_BYTES_MAX)
        // Content passed first leaves first and whole, because the caller decides the order.
        .send_fairness(false)
        .initial_rtt(INITIAL_RTT)
        .initial_mtu(DATAGRAM_BYTES_MIN)
        .min_mtu(DATAGRAM_BYTES_MIN)
        .mtu_discovery_config(Some(discovery))
        .keep_alive_interval(None)
        .congestion_controller_factory(Arc::new(CountedConfig::default()))
        .crypto_buffer_size(CRYPTO_BYTES_MAX)
        .datagram_receive_buffer_size(None)
        .enable_segmentation_offload(false);
    Ok(transport)
}

/// Bytes of the source connection ID in a client's first datagram (RFC 8999 section 5.1).
fn source_id_bytes(datagram: &[u8]) -> usize {
    let destination: usize = datagram.get(5).copied().unwrap_or(0).into();
    datagram.get(6 + destination).copied().unwrap_or(0).into()
}
