//! The TLS of a connection, before, during and after a handshake of rustls' own client. The input corrupts the bytes
//! that the client sends, or sends other records. `choice`, then operations.

use std::io::{self, IoSlice, Read, Write};
use std::sync::{Arc, OnceLock};

use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection};
use tls::{Acceptor, Identity, RECORD_BYTES_MAX, Session, Tickets, is_plain_http, is_tls};

use crate::{Input, Reached, Script, Target};

pub const TARGET: Target = Target {
    name: "tls",
    run,
    reaches: &[
        "HTTP/1.1 without TLS",
        "HTTP/2",
        "TLS 1.2",
        "TLS 1.3",
        "broken behind the handshake",
        "broken in the handshake",
        "broken with the first bytes",
        "client's end",
        "content",
        "our end",
        "resumed",
        "sealed",
        "write cut short",
    ],
    seeds,
    mutants: 1_000,
};

/// Sends bytes as they are.
const RAW: u8 = 0;
/// Exchanges everything that the client and the server want to send.
const CARRY: u8 = 1;
/// Sends only part of the client's bytes; the rest is lost.
const CUT: u8 = 2;
/// Sends all of the client's bytes with one byte changed.
const FLIP: u8 = 3;
const SAY: u8 = 4;
const SEAL: u8 = 5;
const END: u8 = 6;
const CLIENT_END: u8 = 7;
/// Hands down to a socket that takes this many bytes.
const DOWN: u8 = 8;
const RECORD: u8 = 9;
const NEW_KEYS: u8 = 10;
/// Starts another connection of the same client.
const AGAIN: u8 = 11;
const OPERATIONS: u8 = 12;

/// Bits of an input's first byte.
const IS_OLD: u8 = 1;
const OFFERS_HTTP_2: u8 = 2;

/// The maximum number of connections of a run.
const CONNECTIONS_MAX: u32 = 4;
/// The maximum bytes of flights and alerts that are sealed and not handed down, in addition to content: those of a
/// handshake, and those that a client can request after it.
const SPOKEN_BYTES_MAX: usize = 16 << 10;
const CARRIES: usize = 4;
/// The maximum number of records sealed before they are handed down; the bytes of many more could not be counted.
const RECORDS_MAX: usize = 32;
/// The bytes of the answer to the client's new keys, before the next record.
const NEW_KEYS_BYTES: usize = 27;

fn acceptor() -> &'static Acceptor {
    static ACCEPTOR: OnceLock<Acceptor> = OnceLock::new();
    ACCEPTOR.get_or_init(|| {
        let identity = Identity::for_development(&["localhost".to_string()]).expect("a certificate of our own");
        Acceptor::new(&[Arc::new(identity)], &Tickets::new().expect("random numbers"), |_| 0)
    })
}

/// Both sides of a connection.
struct Pair {
    config: Arc<ClientConfig>,
    client: ClientConnection,
    /// The client receives no more once it has ended its side or found an error: rustls asserts that it sends nothing
    /// after that.
    is_client_deaf: bool,
    session: Session,
    plain: Vec<u8>,
    /// The sealed content with its overhead, and the number of its records.
    sealed_bytes: usize,
    records: usize,
    connections: u32,
    reached: Reached,
}

impl Pair {
    fn new(choice: u8) -> Pair {
        let mut config = tls::testing::client_config(&[if choice & IS_OLD == 0 { &TLS13 } else { &TLS12 }]);
        let protocol: &[u8] = if choice & OFFERS_HTTP_2 == 0 { b"http/1.1" } else { b"h2" };
        config.alpn_protocols = vec![protocol.to_vec()];
        let config = Arc::new(config);
        let client = client(&config);
        let session = Session::new(acceptor());
        let reached = Reached::default();
        Pair {
            config,
            client,
            is_client_deaf: false,
            session,
            plain: Vec::new(),
            sealed_bytes: 0,
            records: 0,
            connections: 1,
            reached,
        }
    }

    /// Starts the next connection of the same client, which has tickets by now.
    fn again(&mut self) {
        if self.connections < CONNECTIONS_MAX {
            self.connections += 1;
            self.client = client(&self.config);
            self.is_client_deaf = false;
            self.session = Session::new(acceptor());
            (self.sealed_bytes, self.records) = (0, 0);
        }
    }

    fn open(&mut self, wire: &[u8]) {
        let was_handshaking = self.session.is_handshaking();
        if self.session.is_untouched() && !wire.is_empty() {
            assert!(!(is_tls(wire) && is_plain_http(wire)));
            self.reached.mark_if(is_plain_http(wire), "HTTP/1.1 without TLS");
        }
        let was_untouched = self.session.is_untouched();
        self.plain.clear();
        let opened = self.session.open(wire, &mut self.plain);
        if opened.is_err() {
            assert!(!self.session.can_seal(), "a broken connection seals");
            self.reached.mark(match (was_untouched, was_handshaking) {
                (true, _) => "broken with the first bytes",
                (false, true) => "broken in the handshake",
                (false, false) => "broken behind the handshake",
            });
        }
        self.reached.mark_if(!self.plain.is_empty(), "content");
        self.look(was_handshaking);
    }

    fn look(&mut self, was_handshaking: bool) {
        if was_handshaking && !self.session.is_handshaking() {
            self.reached.mark(if self.session.overhead() == 22 { "TLS 1.3" } else { "TLS 1.2" });
            self.reached.mark_if(self.session.speaks_http2(), "HTTP/2");
            self.reached.mark_if(self.session.is_resumed(), "resumed");
            assert_eq!(self.session.host(), Some("localhost"));
        }
        if self.session.has_peer_ended() {
            self.reached.mark("client's end");
        }
        let spoken = self.session.unsent_bytes().saturating_sub(self.sealed_bytes);
        assert!(spoken <= SPOKEN_BYTES_MAX, "{spoken} bytes beside content");
        assert_eq!(self.session.has_unsent(), self.session.unsent_bytes() > 0);
    }

    /// The bytes that the client wants to send now.
    fn said(&mut self) -> Vec<u8> {
        let mut wire = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut wire).expect("writing to memory");
        }
        wire
    }

    /// All bytes that the client wants to send, with one byte changed.
    fn flip(&mut self, at: usize, bits: u8) {
        let mut wire = self.said();
        let bytes = wire.len().max(1);
        if let Some(byte) = wire.get_mut(at % bytes) {
            *byte ^= bits;
        }
        self.open(&wire);
    }

    fn carry(&mut self) {
        for _ in 0..CARRIES {
            let wire = self.said();
            self.open(&wire);
            self.hand_down(usize::MAX);
        }
    }

    /// Hands down to a socket that takes this many bytes, and on to the client.
    fn hand_down(&mut self, room: usize) {
        let unsent = self.session.unsent_bytes();
        let mut socket = Socket { taken: Vec::new(), room };
        let handed = self.session.hand_down(&mut socket);
        assert_eq!(handed.bytes, socket.taken.len());
        assert_eq!(handed.bytes, unsent.min(room));
        assert_eq!(handed.error.is_some(), unsent > room);
        self.reached.mark_if(handed.error.is_some(), "write cut short");
        self.sealed_bytes = self.sealed_bytes.min(unsent - handed.bytes);
        if !self.session.has_unsent() {
            self.records = 0;
        }
        let mut wire = &socket.taken[..];
        while !wire.is_empty() && !self.is_client_deaf {
            let heard = self.client.read_tls(&mut wire).is_ok() && self.client.process_new_packets().is_ok();
            self.is_client_deaf = !heard;
        }
        let mut content = [0; 4096];
        while self.client.reader().read(&mut content).is_ok_and(|bytes| bytes > 0) {}
    }

    fn seal(&mut self, bytes: usize) {
        if self.session.can_seal() && self.records < RECORDS_MAX {
            self.records += 1;
            let content = vec![b'x'; bytes];
            let (head, body) = content.split_at(bytes / 3);
            let before = self.session.unsent_bytes();
            self.session.seal(&[IoSlice::new(head), IoSlice::new(body)]);
            let record = self.session.unsent_bytes() - before;
            let most = bytes + self.session.overhead() + NEW_KEYS_BYTES;
            assert!(bytes == 0 || (record > bytes && record <= most), "{record} bytes for {bytes}");
            self.sealed_bytes += record;
            self.reached.mark("sealed");
        }
    }
}

fn client(config: &Arc<ClientConfig>) -> ClientConnection {
    let host = ServerName::try_from("localhost").expect("a name");
    ClientConnection::new(Arc::clone(config), host).expect("a configuration that is whole")
}

/// A socket that takes this many bytes, and no more.
struct Socket {
    taken: Vec<u8>,
    room: usize,
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match bytes.len().min(self.room - self.taken.len()) {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => {
                self.taken.extend_from_slice(&bytes[..count]);
                Ok(count)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn run(bytes: &[u8]) -> Reached {
    let mut input = Input::new(bytes);
    let mut pair = Pair::new(input.byte());
    while !input.is_empty() {
        step(&mut pair, &mut input);
    }
    pair.carry();
    pair.session.end();
    assert!(!pair.session.can_seal());
    pair.hand_down(usize::MAX);
    pair.reached
}

fn step(pair: &mut Pair, input: &mut Input<'_>) {
    match input.byte() % OPERATIONS {
        RAW => pair.open(input.text()),
        CARRY => pair.carry(),
        CUT => {
            let mut wire = pair.said();
            wire.truncate(input.short().into());
            pair.open(&wire);
        }
        FLIP => pair.flip(input.short().into(), input.byte()),
        SAY => {
            let _ = pair.client.writer().write(input.text());
        }
        SEAL => pair.seal(usize::from(input.short()).min(RECORD_BYTES_MAX)),
        END => {
            pair.session.end();
            pair.reached.mark("our end");
        }
        CLIENT_END => {
            pair.client.send_close_notify();
            pair.is_client_deaf = true;
        }
        DOWN => pair.hand_down(input.short().into()),
        RECORD => {
            let (kind, version) = (input.byte(), input.byte());
            let content = input.long_text();
            let [high, low] = (content.len() as u16).to_be_bytes();
            pair.open(&[&[kind, 3, version, high, low], content].concat());
        }
        NEW_KEYS => {
            for _ in 0..input.byte() {
                let _ = pair.client.refresh_traffic_keys();
            }
        }
        _ => pair.again(),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let choices = [0, IS_OLD, OFFERS_HTTP_2, IS_OLD | OFFERS_HTTP_2];
    let mut seeds: Vec<Vec<u8>> = choices.into_iter().flat_map(conversations).collect();
    seeds.push(Script::new(&[0, RAW]).text(b"GET / HTTP/1.1\r\n\r\n").done());
    seeds.push(Script::new(&[0, RAW]).text(b"\x16\x03\x01\xff\xff").done());
    seeds
}

/// The same with each version and protocol.
fn conversations(choice: u8) -> Vec<Vec<u8>> {
    let op = |bytes: &[u8]| Script::new(bytes);
    let [carry, end, client_end, again] = [CARRY, END, CLIENT_END, AGAIN].map(|operation| op(&[operation]));
    let (carry, get) = (|| carry.clone(), || op(&[SAY]).text(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let seal = |bytes: u16| op(&[SEAL]).short(bytes);
    let down = |bytes: u16| op(&[DOWN]).short(bytes);
    let flip = |at: u16| op(&[FLIP]).short(at).byte(0x55);
    let cut = |bytes: u16| op(&[CUT]).short(bytes);
    let record = |kind: u8, content: &[u8]| op(&[RECORD, kind, 3]).long_text(content);
    let said = [
        vec![carry(), get(), carry(), seal(1426), down(700), seal(16_384), carry(), client_end.clone()],
        vec![carry(), again, carry(), get(), carry(), end, carry(), get(), carry()],
        vec![flip(0)],
        vec![flip(60), carry()],
        vec![cut(100), carry()],
        vec![carry(), get(), flip(9), seal(100), carry()],
        vec![carry(), record(23, b"no record of theirs"), record(21, &[1, 0])],
        vec![carry(), op(&[NEW_KEYS, 40]), carry(), seal(10), client_end, carry(), get(), carry()],
        vec![cut(600), record(22, &[1, 0, 0, 5, 3, 3]), record(20, &[1]), record(22, &[0; 40])],
        vec![down(5), carry(), down(100), seal(5)],
    ];
    said.into_iter().map(|said| said.into_iter().fold(op(&[choice]), Script::then).done()).collect()
}
