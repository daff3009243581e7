//! Tests sessions against rustls' own client, in memory, with writes cut anywhere.

mod identities;

use std::io::{self, Read, Write};
use std::sync::Arc;

use proptest::prelude::*;
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, SupportedProtocolVersion};

use super::*;

fn client_config(version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
    let mut config = testing::client_config(&[version]);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

fn client(config: &Arc<ClientConfig>, host: &str) -> ClientConnection {
    ClientConnection::new(Arc::clone(config), ServerName::try_from(host.to_string()).unwrap()).unwrap()
}

fn identity(names: &[&str]) -> Arc<Identity> {
    let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
    Arc::new(Identity::for_development(&names).unwrap())
}

fn acceptor() -> Acceptor {
    Acceptor::new(&[identity(&["localhost"])], &Tickets::new().unwrap(), |_| 0)
}

/// A writer that takes the next number of `counts` bytes from each write; 0 makes it block.
struct Cut<'a> {
    taken: Vec<u8>,
    counts: &'a mut dyn Iterator<Item = usize>,
}

impl Write for Cut<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.counts.next().unwrap_or(usize::MAX).min(bytes.len()) {
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

/// Carries bytes both ways until neither side has any. Returns what the session received.
fn carry(client: &mut ClientConnection, session: &mut Session, counts: &mut dyn Iterator<Item = usize>) -> Vec<u8> {
    let mut plain = Vec::new();
    for _ in 0..1000 {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let mut at = 0;
        while at < wire.len() {
            let count = counts.next().unwrap_or(usize::MAX).clamp(1, wire.len() - at);
            session.open(&wire[at..at + count], &mut plain).unwrap();
            at += count;
        }
        let mut down = Cut { taken: Vec::new(), counts };
        let handed = session.hand_down(&mut down);
        assert_eq!(handed.bytes, down.taken.len());
        deliver(client, &down.taken);
        if !session.has_unsent() && !client.wants_write() {
            return plain;
        }
    }
    panic!("they talk for ever");
}

fn deliver(client: &mut ClientConnection, mut wire: &[u8]) {
    while !wire.is_empty() {
        client.read_tls(&mut wire).unwrap();
        client.process_new_packets().unwrap();
    }
}

fn received(client: &mut ClientConnection) -> Vec<u8> {
    let mut plain = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        match client.reader().read(&mut plain[at..]) {
            Ok(0) | Err(_) => break,
            Ok(bytes) => at += bytes,
        }
    }
    plain.truncate(at);
    plain
}

fn seal(session: &mut Session, bytes: &[u8]) {
    session.seal(&[io::IoSlice::new(bytes)]);
}

/// `curl --http1.0` of Debian 12 offers HTTP/1.0 alone.
#[test]
fn the_best_protocol_that_the_client_offers_is_chosen() {
    for (offered, chosen) in [(&["http/1.0"][..], "http/1.0"), (&["http/1.0", "http/1.1"], "http/1.1")] {
        let mut config = testing::client_config(&[&TLS13]);
        config.alpn_protocols = offered.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let (mut client, mut session) = (client(&Arc::new(config), "localhost"), Session::new(&acceptor()));
        carry(&mut client, &mut session, &mut std::iter::empty());
        assert_eq!(client.alpn_protocol(), Some(chosen.as_bytes()));
        assert!(!session.speaks_http2() && session.can_seal());
    }
}

#[test]
fn a_record_is_its_content_and_a_known_overhead() {
    for (version, exactly) in [(&TLS13, 22), (&TLS12, 29)] {
        let (mut client, mut session) = (client(&client_config(version), "localhost"), Session::new(&acceptor()));
        assert!(session.is_untouched() && session.is_handshaking());
        carry(&mut client, &mut session, &mut std::iter::empty());
        assert!(!session.is_untouched() && !session.is_handshaking());
        assert_eq!(client.alpn_protocol(), Some(&b"http/1.1"[..]));
        assert_eq!(session.overhead(), exactly);
        for bytes in [1, 1426, RECORD_BYTES_MAX] {
            seal(&mut session, &vec![7; bytes]);
            assert_eq!(session.unsent_bytes(), bytes + exactly);
            carry(&mut client, &mut session, &mut std::iter::empty());
            assert_eq!(received(&mut client), vec![7; bytes]);
        }
    }
}

#[test]
fn a_session_is_resumed_by_its_one_ticket() {
    for version in [&TLS13, &TLS12] {
        let (config, acceptor) = (client_config(version), acceptor());
        for is_resumed in [false, true] {
            let (mut client, mut session) = (client(&config, "localhost"), Session::new(&acceptor));
            carry(&mut client, &mut session, &mut std::iter::empty());
            assert_eq!(session.is_resumed(), is_resumed);
            if version.version == rustls::ProtocolVersion::TLSv1_3 {
                assert_eq!(client.tls13_tickets_received(), 1);
            }
        }
    }
}

/// After a reload, a session started with the old certificates is resumed with the new ones.
#[test]
fn tickets_outlast_an_acceptor() {
    let (config, tickets) = (client_config(&TLS13), Tickets::new().unwrap());
    for is_resumed in [false, true] {
        let acceptor = Acceptor::new(&[identity(&["localhost"])], &tickets, |_| 0);
        let (mut client, mut session) = (client(&config, "localhost"), Session::new(&acceptor));
        carry(&mut client, &mut session, &mut std::iter::empty());
        assert_eq!(session.is_resumed(), is_resumed);
    }
}

#[test]
fn the_host_decides_about_the_certificate() {
    let identities = [identity(&["a.test"]), identity(&["b.test"])];
    let pick = |host: Option<&str>| usize::from(host == Some("b.test"));
    let acceptor = Acceptor::new(&identities, &Tickets::new().unwrap(), pick);
    for (host, at) in [("a.test", 0), ("b.test", 1), ("c.test", 0), ("127.0.0.1", 0)] {
        let (mut client, mut session) = (client(&client_config(&TLS13), host), Session::new(&acceptor));
        carry(&mut client, &mut session, &mut std::iter::empty());
        assert_eq!(client.peer_certificates().unwrap()[0], identities[at].key().cert[0], "{host}");
        assert_eq!(session.host(), Some(host).filter(|host| host.ends_with("test")));
    }
}

#[test]
fn both_sides_say_that_they_end() {
    let (mut client, mut session) = (client(&client_config(&TLS13), "localhost"), Session::new(&acceptor()));
    carry(&mut client, &mut session, &mut std::iter::empty());
    assert!(!session.has_peer_ended());
    client.send_close_notify();
    carry(&mut client, &mut session, &mut std::iter::empty());
    assert!(session.has_peer_ended() && !session.has_ended());
    // The client's side has ended; ours has not.
    seal(&mut session, b"late");
    session.end();
    session.end();
    carry(&mut client, &mut session, &mut std::iter::empty());
    assert_eq!(received(&mut client), b"late");
    assert!(client.process_new_packets().unwrap().peer_has_closed() && session.has_ended());
}

#[test]
fn behind_our_end_nothing_is_opened() {
    for version in [&TLS13, &TLS12] {
        let (mut client, mut session) = (client(&client_config(version), "localhost"), Session::new(&acceptor()));
        carry(&mut client, &mut session, &mut std::iter::empty());
        session.end();
        carry(&mut client, &mut session, &mut std::iter::empty());
        let mut plain = Vec::new();
        session.open(b"\x17\x03\x03\x00\x28no record of the client's, with a length", &mut plain).unwrap();
        client.writer().write_all(b"late").unwrap();
        client.write_tls(&mut plain).unwrap();
        let late = std::mem::take(&mut plain);
        session.open(&late, &mut plain).unwrap();
        assert!(plain.is_empty() && !session.has_unsent());
    }
}

/// A flight that is taken a part at a time, to be handed down elsewhere.
#[test]
fn what_is_taken_is_a_part_and_the_rest_is_kept() {
    let mut client = client(&client_config(&TLS13), "localhost");
    let mut session = Session::new(&acceptor());
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    session.open(&hello, &mut Vec::new()).unwrap();
    let whole = session.unsent_bytes();
    let taken = [100, whole - 100, 100].map(|bytes_max| session.take_unsent(bytes_max));
    assert_eq!(taken.each_ref().map(Vec::len), [100, whole - 100, 0]);
    assert!(!session.has_unsent());
    deliver(&mut client, &taken.concat());
    carry(&mut client, &mut session, &mut std::iter::empty());
    assert!(!client.is_handshaking() && !session.is_handshaking());
}

#[test]
fn garbage_is_an_end_and_an_alert_at_most() {
    for garbage in [&b"\x16\x03\x01\x00\x05hello"[..], b"\x17\x03\x03\x00\x01x", b"\x16\x03\x01\xff\xff", &[0; 50]] {
        let mut session = Session::new(&acceptor());
        assert!(session.open(garbage, &mut Vec::new()).is_err(), "{garbage:?}");
        let mut wire = Vec::new();
        session.hand_down(&mut wire);
        assert!(wire.is_empty() || wire[0] == 0x15, "{wire:?}");
    }
}

#[test]
fn the_first_bytes_tell_what_is_spoken() {
    let mut hello = Vec::new();
    client(&client_config(&TLS13), "localhost").write_tls(&mut hello).unwrap();
    assert!(is_tls(&hello) && is_tls(&hello[..1]) && !is_plain_http(&hello));
    assert!(is_plain_http(b"G") && !is_tls(b"GET / HTTP/1.1") && !is_tls(b"") && !is_tls(b"\x16\x02"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Reads and writes may be cut anywhere: sealed bytes arrive in order and once, and received bytes are decrypted.
    #[test]
    fn cuts_change_nothing(
        counts in prop::collection::vec(0usize..3000, 0..200),
        contents in prop::collection::vec(1usize..RECORD_BYTES_MAX, 1..6),
        said in prop::collection::vec(any::<u8>(), 0..20_000),
        is_old in any::<bool>(),
    ) {
        let version = if is_old { &TLS12 } else { &TLS13 };
        let (mut client, mut session) = (client(&client_config(version), "localhost"), Session::new(&acceptor()));
        let mut counts = counts.into_iter();
        carry(&mut client, &mut session, &mut counts);
        client.writer().write_all(&said).unwrap();
        prop_assert_eq!(carry(&mut client, &mut session, &mut counts), said);
        for (at, bytes) in contents.into_iter().enumerate() {
            let content = vec![at as u8; bytes];
            seal(&mut session, &content);
            carry(&mut client, &mut session, &mut counts);
            prop_assert_eq!(received(&mut client), content);
        }
    }

    /// A client may send anything.
    #[test]
    fn nothing_received_panics(bytes in prop::collection::vec(any::<u8>(), 0..600), at in 0usize..600, flips in 1u8..) {
        let mut session = Session::new(&acceptor());
        let _ = session.open(&bytes, &mut Vec::new());
        let mut hello = Vec::new();
        client(&client_config(&TLS13), "localhost").write_tls(&mut hello).unwrap();
        let at = at % hello.len();
        hello[at] ^= flips;
        let mut session = Session::new(&acceptor());
        let _ = session.open(&hello, &mut Vec::new());
        let _ = session.open(&bytes, &mut Vec::new());
        session.hand_down(&mut Vec::new());
    }
}
