//! A short server on quinn-proto, which answers each request as a test specifies.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, IdleTimeout, ReadError,
    ServerConfig, StreamEvent, StreamId, TransportConfig, VarInt, WriteError,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivatePkcs8KeyDer;
use units::Nanos;

use super::super::fault;
use ::quic::codec;

/// The limits of the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The maximum number of concurrent requests on a connection.
    pub(super) streams: u32,
    pub(super) alpn: &'static str,
    /// The bytes that it accepts on a connection before it has read them.
    pub(super) window_bytes: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { streams: 100, alpn: "h3", window_bytes: 1 << 20 }
    }
}

/// A request that has arrived completely.
#[derive(Debug, Clone)]
pub(super) struct Request {
    /// The number of its connection, from 0.
    pub(super) connection: usize,
    pub(super) stream: u64,
    pub(super) authority: String,
    /// The size that its path names.
    pub(super) size: u64,
}

/// An action on a stream of the connection that a request arrived on.
#[derive(Debug, Clone)]
pub(super) enum Act {
    Write(u64, Vec<u8>),
    Finish(u64),
    Reset(u64, u64),
    Control(Vec<u8>),
    /// Sends these bytes on a new unidirectional stream, which then ends unless it is one that must stay open.
    Uni(Vec<u8>),
    Close(u32),
}

/// Returns the acts that send the head and the body of a complete response.
pub(super) fn answer(stream: u64, size: u64) -> Vec<Act> {
    vec![Act::Write(stream, response(size)), Act::Finish(stream)]
}

/// Encodes 200 with `content-length`, and `size` bytes of body in one frame.
pub(super) fn response(size: u64) -> Vec<u8> {
    let length = size.to_string();
    let fields = [&[0, 0, 0xd9, 0x54, length.len() as u8], length.as_bytes()].concat();
    [frame(codec::HEADERS, &fields), frame(codec::DATA, &vec![b'x'; size as usize])].concat()
}

/// The bytes of the HEADERS frame of such a response.
pub(super) fn head_bytes(size: u64) -> u64 {
    2 + 5 + size.to_string().len() as u64
}

pub(super) fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    codec::head(kind, payload.len() as u64, &mut out);
    out.extend(payload);
    out
}

/// Announces that no request from this stream on is answered.
pub(super) fn goaway(stream: u8) -> Act {
    Act::Control(frame(codec::GOAWAY, &[stream]))
}

type Script = Box<dyn FnMut(Request) -> Vec<Act> + Send>;

pub(super) struct Server {
    endpoint: Endpoint,
    peers: HashMap<ConnectionHandle, Peer>,
    base: Instant,
    script: Script,
    /// The endpoint's answers to datagrams that belong to no connection.
    answers: Vec<(SocketAddr, Vec<u8>)>,
    /// The streams that clients have cancelled, with their codes.
    pub(super) cancelled: Vec<(u64, u64)>,
    /// The codes with which clients have closed connections.
    pub(super) closed: Vec<u64>,
    pub(super) connections: usize,
    /// The number of requests that have arrived.
    pub(super) requests: usize,
    /// Refuses every attempt to connect.
    pub(super) refuses: bool,
}

struct Peer {
    connection: Connection,
    number: usize,
    remote: SocketAddr,
    control: Option<StreamId>,
    /// The received parts of incomplete requests.
    partial: HashMap<StreamId, Vec<u8>>,
    /// The bytes to be written, in order; an empty entry is the end of a stream.
    unwritten: Vec<(StreamId, Bytes)>,
}

impl Server {
    pub(super) fn new(limits: Limits, script: impl FnMut(Request) -> Vec<Act> + Send + 'static) -> Server {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let builder = rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).unwrap().with_no_client_auth();
        let mut tls = builder.with_single_cert(vec![made.cert.der().clone()], key.into()).unwrap();
        tls.alpn_protocols = vec![limits.alpn.into()];
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(limits.streams.into())
            .receive_window(limits.window_bytes.into())
            .max_idle_timeout(Some(IdleTimeout::try_from(Duration::from_secs(30)).unwrap()))
            .enable_segmentation_offload(false);
        let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
        config.transport_config(Arc::new(transport));
        Server {
            endpoint: Endpoint::new(Arc::default(), Some(Arc::new(config)), false, None),
            peers: HashMap::new(),
            base: Instant::now(),
            script: Box::new(script),
            answers: vec![],
            cancelled: vec![],
            closed: vec![],
            connections: 0,
            requests: 0,
            refuses: false,
        }
    }

    pub(super) fn receive(&mut self, now: Nanos, from: SocketAddr, datagram: &[u8]) {
        let (at, mut out) = (self.instant(now), vec![]);
        match self.endpoint.handle(at, from, None, None, BytesMut::from(datagram), &mut out) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                self.peers.get_mut(&handle).unwrap().connection.handle_event(event);
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.refuses => {
                let _ = self.endpoint.refuse(incoming, &mut out);
                self.answers.push((from, out));
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let Ok((handle, connection)) = self.endpoint.accept(incoming, at, &mut out, None) else {
                    self.answers.push((from, out));
                    return;
                };
                let (number, partial) = (self.connections, HashMap::new());
                self.connections += 1;
                let peer = Peer { connection, number, remote: from, control: None, partial, unwritten: vec![] };
                self.peers.insert(handle, peer);
            }
            _ => {}
        }
        self.settle(now);
    }

    pub(super) fn on_time(&mut self, now: Nanos) {
        let at = self.instant(now);
        self.peers.values_mut().for_each(|peer| peer.connection.handle_timeout(at));
        self.settle(now);
    }

    pub(super) fn due(&mut self) -> Option<Nanos> {
        let base = self.base;
        let due = self.peers.values_mut().filter_map(|peer| peer.connection.poll_timeout()).min()?;
        Some(due.saturating_duration_since(base).into())
    }

    pub(super) fn transmit(&mut self, now: Nanos) -> Option<(SocketAddr, Vec<u8>)> {
        let at = self.instant(now);
        if let Some(answer) = self.answers.pop() {
            return Some(answer);
        }
        self.peers.values_mut().find_map(|peer| {
            let mut out = vec![];
            peer.connection.poll_transmit(at, 1, &mut out).map(|_| (peer.remote, out))
        })
    }

    /// Performs these acts on every connection, without a request.
    pub(super) fn act(&mut self, now: Nanos, acts: &[Act]) {
        let at = self.instant(now);
        self.peers.values_mut().for_each(|peer| peer.act(at, acts.to_vec()));
    }

    fn settle(&mut self, now: Nanos) {
        let handles: Vec<ConnectionHandle> = self.peers.keys().copied().collect();
        for handle in handles {
            let is_drained = self.poll(handle);
            let peer = self.peers.get_mut(&handle).unwrap();
            let requests = peer.requests();
            peer.write();
            if is_drained {
                self.peers.remove(&handle);
            }
            requests.into_iter().for_each(|request| self.answer(now, request));
        }
    }

    /// Processes the events of a connection. Returns true if there will be no more.
    fn poll(&mut self, handle: ConnectionHandle) -> bool {
        let peer = self.peers.get_mut(&handle).unwrap();
        let mut is_drained = false;
        while let Some(event) = peer.connection.poll_endpoint_events() {
            is_drained |= event.is_drained();
            if let Some(answer) = self.endpoint.handle_event(handle, event) {
                peer.connection.handle_event(answer);
            }
        }
        while let Some(event) = peer.connection.poll() {
            match event {
                Event::Connected => peer.begin(),
                Event::ConnectionLost { reason: ConnectionError::ApplicationClosed(close) } => {
                    self.closed.push(close.error_code.into_inner());
                }
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    self.cancelled.push((id.into(), error_code.into_inner()));
                    let _ = peer.connection.send_stream(id).reset(error_code);
                    peer.unwritten.retain(|(of, _)| *of != id);
                }
                _ => {}
            }
        }
        is_drained
    }

    fn answer(&mut self, now: Nanos, request: Request) {
        self.requests += 1;
        let (at, own) = (self.instant(now), request.connection);
        let acts = (self.script)(request);
        // A connection that has ended receives nothing.
        if let Some(peer) = self.peers.values_mut().find(|peer| peer.number == own) {
            peer.act(at, acts);
        }
    }

    fn instant(&self, now: Nanos) -> Instant {
        self.base + Duration::from(now)
    }
}

impl Peer {
    fn begin(&mut self) {
        self.control = self.connection.streams().open(Dir::Uni);
        // The stream's type, SETTINGS with an unknown setting, and a frame of an unknown type.
        let begin = [&[0][..], &frame(codec::SETTINGS, &[0x21, 0x05, 0x06, 0x40, 0xff]), &frame(0x21, b"?")].concat();
        self.unwritten.extend(self.control.map(|id| (id, begin.into())));
        for kind in [2, 3, 0x21] {
            let id = self.connection.streams().open(Dir::Uni).unwrap();
            self.unwritten.push((id, vec![kind].into()));
        }
    }

    fn act(&mut self, at: Instant, acts: Vec<Act>) {
        let client = |stream: u64| StreamId::from(VarInt::from_u64(stream).unwrap());
        for act in acts {
            match act {
                Act::Write(_, bytes) if bytes.is_empty() => {}
                Act::Write(stream, bytes) => self.unwritten.push((client(stream), bytes.into())),
                Act::Finish(stream) => self.unwritten.push((client(stream), Bytes::new())),
                Act::Reset(stream, code) => {
                    self.write();
                    let code = VarInt::from_u64(code).unwrap();
                    // A stream that has ended stays as it is.
                    let _ = self.connection.send_stream(client(stream)).reset(code);
                }
                Act::Uni(bytes) => {
                    // Other streams must have ended.
                    let Some(id) = self.connection.streams().open(Dir::Uni) else { continue };
                    let is_to_end = bytes.first().is_some_and(|kind| *kind > 3);
                    self.unwritten.extend((!bytes.is_empty()).then(|| (id, bytes.into())));
                    self.unwritten.extend(is_to_end.then(|| (id, Bytes::new())));
                }
                Act::Control(bytes) if bytes.is_empty() => {}
                Act::Control(bytes) => self.unwritten.extend(self.control.map(|id| (id, bytes.into()))),
                Act::Close(code) => self.connection.close(at, code.into(), Bytes::new()),
            }
        }
        self.write();
    }

    /// Returns the requests that have arrived completely.
    fn requests(&mut self) -> Vec<Request> {
        while let Some(id) = self.connection.streams().accept(Dir::Bi) {
            self.partial.insert(id, vec![]);
        }
        while self.connection.streams().accept(Dir::Uni).is_some() {}
        let mut ids: Vec<StreamId> = self.partial.keys().copied().collect();
        ids.sort_unstable();
        let mut whole = vec![];
        for id in ids {
            let mut stream = self.connection.recv_stream(id);
            let Ok(mut chunks) = stream.read(true) else { continue };
            let bytes = self.partial.get_mut(&id).unwrap();
            let is_whole = loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => bytes.extend_from_slice(&chunk.bytes),
                    Ok(None) => break Some(true),
                    Err(ReadError::Reset(_)) => break Some(false),
                    Err(ReadError::Blocked) => break None,
                }
            };
            let _ = chunks.finalize();
            let Some(is_whole) = is_whole else { continue };
            let bytes = self.partial.remove(&id).unwrap();
            whole.extend(is_whole.then(|| understand(self.number, id, &bytes)));
        }
        whole
    }

    fn write(&mut self) {
        let mut blocked = vec![];
        for (id, mut bytes) in std::mem::take(&mut self.unwritten) {
            let mut stream = self.connection.send_stream(id);
            if blocked.iter().any(|(of, _)| *of == id) {
                blocked.push((id, bytes));
            } else if bytes.is_empty() {
                let _ = stream.finish();
            } else {
                while !bytes.is_empty() {
                    match stream.write(&bytes) {
                        Ok(count) => drop(bytes.split_to(count)),
                        Err(WriteError::Blocked) => {
                            blocked.push((id, bytes));
                            break;
                        }
                        Err(_) => break,
                    }
                }
            }
        }
        self.unwritten = blocked;
    }
}

/// Parses the authority and the size of a request.
fn understand(connection: usize, id: StreamId, bytes: &[u8]) -> Request {
    let [1, length, section @ ..] = bytes else { panic!("{bytes:x?} is no HEADERS frame") };
    assert_eq!(usize::from(*length), section.len());
    let mut fields = HashMap::new();
    codec::decode(section, &mut vec![], |name, value| {
        fields.insert(name.to_vec(), String::from_utf8(value.to_vec()).unwrap()).is_none()
    })
    .unwrap();
    assert_eq!((&*fields[&b":method"[..]], &*fields[&b":scheme"[..]]), ("GET", "https"));
    let (authority, path) = (fields[&b":authority"[..]].clone(), &fields[&b":path"[..]]);
    let size = path.strip_prefix('/').and_then(|path| path.strip_suffix(".bin")).unwrap().parse().unwrap();
    Request { connection, stream: id.into(), authority, size }
}

pub(super) const CANCELLED: u64 = fault::REQUEST_CANCELLED as u64;
pub(super) const NO_ERROR: u64 = fault::NO_ERROR as u64;
