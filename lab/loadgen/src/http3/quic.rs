//! One connection of QUIC, without I/O: quinn-proto's, polled by hand on the clock of the run.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, ConnectError, Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig,
    Event, IdleTimeout, NoneTokenStore, RandomConnectionIdGenerator, ReadError, StreamId, TransportConfig, VarInt,
};
use units::Nanos;

use crate::tls::SERVER_NAME;

/// The flow-control window of a stream and of the connection, in bytes; more than any link measured holds. It is
/// reopened as bytes arrive, so that no response ever waits for it.
const STREAM_WINDOW_BYTES: u32 = 16 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;

/// The maximum number of unidirectional streams of the server: control, two for QPACK, and some of unknown types (RFC
/// 9114 section 6.2).
const SERVER_STREAMS_MAX: u32 = 16;

/// The bytes of the connection ID in each datagram of the server. Chromium, which also has a socket for each
/// connection, uses none.
const ID_BYTES: usize = 0;

/// The assumed round trip before one is measured, as in Chromium and Firefox.
const INITIAL_RTT: std::time::Duration = std::time::Duration::from_millis(100);

/// The time without a datagram after which a server counts as gone, also during the handshake, as in Chromium. The
/// server may set a shorter one.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The settings that the connections of a load share.
#[derive(Debug, Clone)]
pub(crate) struct QuicConfig {
    endpoint: Arc<EndpointConfig>,
    client: ClientConfig,
}

impl QuicConfig {
    /// Creates the settings. `tls` must allow TLS 1.3 with AES-128-GCM, with which QUIC begins (RFC 9001 section 5.2).
    pub(crate) fn new(tls: Arc<rustls::ClientConfig>) -> QuicConfig {
        let crypto = QuicClientConfig::try_from(tls).expect("the provider has AES-128-GCM");
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(0_u32.into())
            .max_concurrent_uni_streams(SERVER_STREAMS_MAX.into())
            .max_idle_timeout(Some(IdleTimeout::try_from(SILENCE_MAX).expect("half a minute")))
            .stream_receive_window(STREAM_WINDOW_BYTES.into())
            .receive_window(CONNECTION_WINDOW_BYTES.into())
            .initial_rtt(INITIAL_RTT)
            // Requests are small, so most bytes sent would be probes of the path.
            .mtu_discovery_config(None)
            .datagram_receive_buffer_size(None)
            .enable_segmentation_offload(false);
        let mut client = ClientConfig::new(Arc::new(crypto));
        // A token is valid for one address, and the connections of a load come from many.
        client.transport_config(Arc::new(transport)).token_store(Arc::new(NoneTokenStore));
        let mut endpoint = EndpointConfig::default();
        endpoint.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(ID_BYTES)));
        QuicConfig { endpoint: Arc::new(endpoint), client }
    }
}

/// A piece of the data on a stream.
#[derive(Debug, Clone, Copy)]
pub(super) enum Piece<'a> {
    Bytes(&'a [u8]),
    End,
    /// The server has reset the stream, with this code.
    Reset(u64),
}

#[derive(Debug)]
pub(super) struct Quic {
    /// The endpoint, which has only this connection, like its socket.
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    /// The zero of the run's clock, as an arbitrary instant: only differences count.
    base: Instant,
}

impl Quic {
    /// Starts a connection. The first datagram can be taken immediately.
    pub(super) fn connect(config: &QuicConfig, target: SocketAddr, now: Nanos) -> Result<Quic, ConnectError> {
        let base = Instant::now();
        let mut endpoint = Endpoint::new(Arc::clone(&config.endpoint), None, false, None);
        let (handle, connection) =
            endpoint.connect(base + Duration::from(now), config.client.clone(), target, SERVER_NAME)?;
        Ok(Quic { endpoint, handle, connection, base })
    }

    /// Processes a datagram from the server, with the congestion mark of its IP header.
    pub(super) fn receive(&mut self, now: Nanos, ecn: Option<EcnCodepoint>, datagram: &[u8]) {
        let (at, remote) = (self.instant(now), self.connection.remote_address());
        // The endpoint would answer only datagrams that do not belong to this connection; they stay unanswered.
        let mut answer = vec![];
        let event = self.endpoint.handle(at, remote, None, ecn, BytesMut::from(datagram), &mut answer);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
    }

    /// Replaces the content of `out` with the next datagram to be sent, and returns the congestion mark of its IP
    /// header; `None` if there is no datagram.
    pub(super) fn transmit(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<Option<EcnCodepoint>> {
        out.clear();
        let at = self.instant(now);
        self.connection.poll_transmit(at, 1, out).map(|transmit| transmit.ecn)
    }

    /// The instant of the next call of [`Quic::on_time`].
    pub(super) fn due(&mut self) -> Option<Nanos> {
        let at = self.connection.poll_timeout()?;
        Some(at.saturating_duration_since(self.base).into())
    }

    pub(super) fn on_time(&mut self, now: Nanos) {
        self.connection.handle_timeout(self.instant(now));
    }

    /// Returns the next event, if any.
    pub(super) fn poll(&mut self) -> Option<Event> {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(answer);
            }
        }
        self.connection.poll()
    }

    /// Reads all available data on a stream, in order.
    pub(super) fn read(&mut self, id: StreamId, mut take: impl FnMut(Piece<'_>)) {
        let mut stream = self.connection.recv_stream(id);
        // The stream was stopped, or has been read to its end.
        let Ok(mut chunks) = stream.read(true) else { return };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => take(Piece::Bytes(&chunk.bytes)),
                Ok(None) => {
                    take(Piece::End);
                    break;
                }
                Err(ReadError::Reset(code)) => {
                    take(Piece::Reset(code.into_inner()));
                    break;
                }
                Err(ReadError::Blocked) => break,
            }
        }
        // The frames that open the windows leave with the next datagrams.
        let _ = chunks.finalize();
    }

    /// Stops a stream and resets it.
    pub(super) fn cancel(&mut self, id: StreamId, code: u32) {
        // Either direction may have ended already.
        let _ = self.connection.recv_stream(id).stop(code.into());
        let _ = self.connection.send_stream(id).reset(code.into());
    }

    /// Closes the connection. The only further datagram reports this to the server.
    pub(super) fn close(&mut self, now: Nanos, code: u32) {
        self.connection.close(self.instant(now), VarInt::from(code), Bytes::new());
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    fn instant(&self, now: Nanos) -> Instant {
        self.base + Duration::from(now)
    }
}
