//! A client for tests, here and in other crates: quinn-proto's, with HTTP/3 frames written out. It is driven datagram
//! by datagram, in memory or over a socket, at the times its caller gives.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig,
};
use quinn_proto::{Event, ReadError, StreamEvent, TransportConfig, VarInt};
use units::Nanos;

pub use quinn_proto::{Dir, StreamId};

pub use crate::codec::{DATA, GOAWAY, HEADERS, MAX_PUSH_ID, PRIORITY_UPDATE, SETTINGS, decode, encode, varint};
use crate::h3::frames;
use crate::qpack;

/// The bytes that a client lets the server send.
#[derive(Debug, Clone, Copy)]
pub struct Windows {
    pub stream: u32,
    pub connection: u32,
}

impl Default for Windows {
    fn default() -> Windows {
        Windows { stream: 1 << 24, connection: 1 << 26 }
    }
}

/// The received part of one stream.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Came {
    pub bytes: Vec<u8>,
    /// The server has ended it.
    pub is_whole: bool,
    /// The server has reset it with this code.
    pub reset: Option<u64>,
    /// The server has stopped reading it, with this code.
    pub stopped: Option<u64>,
}

/// The received part of a response.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Response {
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub is_whole: bool,
}

impl Response {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }
}

pub struct Client {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    base: Instant,
    server: SocketAddr,
    /// The client reads nothing while this is set, so that windows fill.
    pub is_deaf: bool,
    came: BTreeMap<StreamId, Came>,
    /// The streams on which something has arrived.
    readable: BTreeSet<StreamId>,
    control: Option<StreamId>,
    /// The reason why the connection is over.
    pub lost: Option<ConnectionError>,
    pub is_connected: bool,
}

impl Client {
    /// Creates a client of a server at this address, under this name.
    pub fn new(now: Nanos, server: SocketAddr, host: &str, windows: Windows) -> Client {
        Client::of_protocol(b"h3", now, server, host, windows)
    }

    /// Creates a client that offers this protocol instead (ALPN).
    pub fn of_protocol(protocol: &[u8], now: Nanos, server: SocketAddr, host: &str, windows: Windows) -> Client {
        let crypto = QuicClientConfig::try_from(tls::testing::quic_client_config(protocol));
        Client::of_crypto(crypto.expect("the provider has the suite"), (None, true), now, server, host, windows)
    }

    /// Creates a client that sends no more than it must: it does not probe the path for larger datagrams.
    pub fn sparing(now: Nanos, server: SocketAddr, host: &str, windows: Windows) -> Client {
        let crypto = QuicClientConfig::try_from(tls::testing::quic_client_config(b"h3"));
        Client::of_crypto(crypto.expect("the provider has the suite"), (None, false), now, server, host, windows)
    }

    /// Creates a client that behaves identically for the same seed, except for the bytes of IDs and keys.
    pub fn seeded(seed: [u8; 32], now: Nanos, server: SocketAddr, host: &str, windows: Windows) -> Client {
        let crypto = QuicClientConfig::try_from(tls::testing::quic_client_config(b"h3"));
        Client::of_crypto(crypto.expect("the provider has the suite"), (Some(seed), true), now, server, host, windows)
    }

    /// Creates a client whose ClientHello takes two datagrams, as with the post-quantum key exchange of browsers.
    pub fn of_long_hello(now: Nanos, server: SocketAddr, host: &str, windows: Windows) -> Client {
        let mut config = Arc::unwrap_or_clone(tls::testing::quic_client_config(b"h3"));
        config.alpn_protocols.extend((b'a'..=b'f').map(|byte| vec![byte; 255]));
        let crypto = QuicClientConfig::try_from(config).expect("the provider has the suite");
        Client::of_crypto(crypto, (None, true), now, server, host, windows)
    }

    fn of_crypto(
        crypto: QuicClientConfig,
        (seed, probes_mtu): (Option<[u8; 32]>, bool),
        now: Nanos,
        server: SocketAddr,
        host: &str,
        windows: Windows,
    ) -> Client {
        let mut transport = TransportConfig::default();
        transport.stream_receive_window(windows.stream.into()).receive_window(windows.connection.into());
        if !probes_mtu {
            transport.mtu_discovery_config(None);
        }
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport));
        let mut own = EndpointConfig::default();
        own.rng_seed(seed);
        let mut endpoint = Endpoint::new(Arc::new(own), None, true, None);
        let base = Instant::now();
        let (handle, connection) =
            endpoint.connect(base + Duration::from(now), config, server, host).expect("a server's address");
        Client {
            endpoint,
            handle,
            connection,
            base,
            server,
            is_deaf: false,
            came: BTreeMap::new(),
            readable: BTreeSet::new(),
            control: None,
            lost: None,
            is_connected: false,
        }
    }

    fn at(&self, now: Nanos) -> Instant {
        self.base + Duration::from(now)
    }

    /// Receives a datagram.
    pub fn receive(&mut self, now: Nanos, datagram: &[u8]) {
        let mut answer = Vec::new();
        let event = self.endpoint.handle(self.at(now), self.server, None, None, BytesMut::from(datagram), &mut answer);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
        self.settle();
    }

    /// Returns the next datagram to send.
    pub fn transmit(&mut self, now: Nanos) -> Option<Vec<u8>> {
        let mut datagram = Vec::new();
        let made = self.connection.poll_transmit(self.at(now), 1, &mut datagram);
        self.settle();
        made.map(|_| datagram)
    }

    pub fn timeout(&mut self) -> Option<Nanos> {
        self.connection.poll_timeout().map(|at| at.saturating_duration_since(self.base).into())
    }

    pub fn on_timeout(&mut self, now: Nanos) {
        self.connection.handle_timeout(self.at(now));
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(answer);
            }
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.is_connected = true,
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                Event::Stream(StreamEvent::Readable { id }) => drop(self.readable.insert(id)),
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    self.came.entry(id).or_default().stopped = Some(error_code.into_inner());
                }
                _ => {}
            }
        }
        while let Some(id) = self.connection.streams().accept(Dir::Uni) {
            self.came.entry(id).or_default();
        }
        if !self.is_deaf {
            self.read();
        }
    }

    /// Reads all streams.
    pub fn read(&mut self) {
        for (&id, came) in &mut self.came {
            if id.dir() == Dir::Uni && id.initiator() == quinn_proto::Side::Client {
                continue;
            }
            let mut receiving = self.connection.recv_stream(id);
            let Ok(mut chunks) = receiving.read(true) else { continue };
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => {
                        came.bytes.extend_from_slice(&chunk.bytes);
                        continue;
                    }
                    Ok(None) => came.is_whole = true,
                    Err(ReadError::Reset(code)) => came.reset = Some(code.into_inner()),
                    Err(ReadError::Blocked) => {}
                }
                break;
            }
        }
    }

    /// Opens the control stream with empty SETTINGS.
    pub fn hello(&mut self) {
        self.control = Some(self.uni(&[0, SETTINGS as u8, 0]));
    }

    /// Sends a frame on the control stream.
    pub fn control(&mut self, kind: u64, payload: &[u8]) {
        let control = self.control.expect("a client that has said hello");
        self.send(control, &frame(kind, payload));
    }

    /// Sends a whole request. Returns the number of its stream.
    pub fn request(&mut self, path: &str, more: &[(&str, &str)]) -> u32 {
        let stream = self.open();
        let id = id(stream);
        self.send(id, &request(path, more));
        self.finish(id);
        stream
    }

    pub fn priority_update(&mut self, stream: u32, value: &str) {
        let mut payload = Vec::new();
        varint::write(id(stream).into(), &mut payload);
        payload.extend_from_slice(value.as_bytes());
        self.control(PRIORITY_UPDATE, &payload);
    }

    /// Opens a request's stream.
    pub fn open(&mut self) -> u32 {
        self.try_open(Dir::Bi).expect("a server that lets one more be opened").index() as u32
    }

    /// Opens a stream if the server allows it.
    pub fn try_open(&mut self, dir: Dir) -> Option<StreamId> {
        let id = self.connection.streams().open(dir)?;
        self.came.entry(id).or_default();
        Some(id)
    }

    /// Opens a unidirectional stream with these bytes.
    pub fn uni(&mut self, bytes: &[u8]) -> StreamId {
        let id = self.try_open(Dir::Uni).expect("a server that lets one more be opened");
        self.send(id, bytes);
        id
    }

    /// Sends the bytes on a stream as far as its window allows. Returns how many were sent.
    pub fn offer(&mut self, id: StreamId, bytes: &[u8]) -> usize {
        self.connection.send_stream(id).write(bytes).unwrap_or(0)
    }

    /// Ends a stream if it is open.
    pub fn try_finish(&mut self, id: StreamId) {
        let _ = self.connection.send_stream(id).finish();
    }

    /// Sends all bytes on a stream; the server's window must allow them.
    pub fn send(&mut self, id: StreamId, bytes: &[u8]) {
        let mut chunks = [Bytes::copy_from_slice(bytes)];
        let sent = self.connection.send_stream(id).write_chunks(&mut chunks).expect("a stream that is open");
        assert_eq!(sent.bytes, bytes.len(), "the server's window");
    }

    pub fn finish(&mut self, id: StreamId) {
        self.connection.send_stream(id).finish().expect("a stream that is open");
    }

    pub fn reset(&mut self, id: StreamId, code: u32) {
        let _ = self.connection.send_stream(id).reset(code.into());
    }

    /// Stops reading a response (STOP_SENDING).
    pub fn stop(&mut self, stream: u32, code: u32) {
        let _ = self.connection.recv_stream(id(stream)).stop(code.into());
    }

    /// Sends a PING in the next datagram.
    pub fn ping(&mut self) {
        self.connection.ping();
    }

    pub fn close(&mut self, now: Nanos, code: u32) {
        let at = self.at(now);
        self.connection.close(at, VarInt::from_u32(code), Bytes::new());
    }

    pub fn came(&self, id: StreamId) -> Came {
        self.came.get(&id).cloned().unwrap_or_default()
    }

    /// The number of responses of which something has arrived, read or not.
    pub fn begun(&self) -> usize {
        self.readable.iter().filter(|id| id.dir() == Dir::Bi).count()
    }

    /// The same, but forgets what was returned: the next call returns what arrived since.
    pub fn take(&mut self, id: StreamId) -> Came {
        let Some(came) = self.came.get_mut(&id) else { return Came::default() };
        Came { bytes: std::mem::take(&mut came.bytes), ..*came }
    }

    /// Streams that the server has opened.
    pub fn server_stream_ids(&self) -> Vec<StreamId> {
        let is_servers = |id: &&StreamId| id.initiator() == quinn_proto::Side::Server;
        self.came.keys().filter(is_servers).copied().collect()
    }

    /// The contents of the streams that the server has opened.
    pub fn server_streams(&self) -> Vec<Came> {
        let is_servers = |id: &StreamId| id.initiator() == quinn_proto::Side::Server;
        self.came.iter().filter(|(id, _)| is_servers(id)).map(|(_, came)| came.clone()).collect()
    }

    /// The response on this stream, as far as its frames are complete; includes incomplete DATA.
    pub fn response(&self, stream: u32) -> Response {
        let came = self.came(id(stream));
        let mut response = Response { is_whole: came.is_whole, ..Response::default() };
        let mut rest = &came.bytes[..];
        while let Some((kind, payload, is_whole)) = next_frame(&mut rest) {
            match kind {
                DATA => response.body.extend_from_slice(payload),
                HEADERS if is_whole => response.fields = fields(payload),
                _ => {}
            }
        }
        response
    }

    /// The server's violation of QUIC, if that has ended the connection.
    pub fn complaint(&self) -> Option<String> {
        let lost = self.lost.as_ref()?;
        matches!(lost, ConnectionError::TransportError(_)).then(|| lost.to_string())
    }

    /// Returns true if the server has refused the connection (CONNECTION_REFUSED, RFC 9000 section 20.1).
    pub fn is_refused(&self) -> bool {
        const CONNECTION_REFUSED: u64 = 2;
        matches!(&self.lost, Some(ConnectionError::ConnectionClosed(close)) if u64::from(close.error_code) == CONNECTION_REFUSED)
    }

    /// The code with which the server has closed the connection.
    pub fn close_code(&self) -> Option<u64> {
        match self.lost.as_ref()? {
            ConnectionError::ApplicationClosed(close) => Some(close.error_code.into_inner()),
            _ => None,
        }
    }
}

pub fn id(stream: u32) -> StreamId {
    crate::streams::id(stream)
}

pub fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frames::head(kind, payload.len() as u64, &mut frame);
    frame.extend_from_slice(payload);
    frame
}

/// Compresses a field section.
pub fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = Vec::new();
    qpack::encode(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())), &mut section);
    section
}

/// Returns the HEADERS of a request.
pub fn request(path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let fields =
        [&[(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", path)], more].concat();
    frame(HEADERS, &section(&fields))
}

fn fields(section: &[u8]) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    qpack::decode(section, &mut Vec::new(), |name, value| {
        fields.push((String::from_utf8_lossy(name).into(), String::from_utf8_lossy(value).into()));
        true
    })
    .expect("a field section of the server's");
    fields
}

/// Returns a frame's type, the received part of its payload, and whether it is complete.
fn next_frame<'a>(rest: &mut &'a [u8]) -> Option<(u64, &'a [u8], bool)> {
    let (kind, kind_bytes) = varint::read(rest)?;
    let (length, length_bytes) = varint::read(&rest[kind_bytes..])?;
    let payload = &rest[kind_bytes + length_bytes..];
    let (payload, behind) = payload.split_at(payload.len().min(length as usize));
    *rest = behind;
    Some((kind, payload, payload.len() as u64 == length))
}
