//! Responses under TLS, to rustls' own client.

use std::io::Read;
use std::sync::Arc;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use tls::{Acceptor, Identity, Session, Tickets};

use super::*;

/// Segments of the link, and the overhead of records in them under TLS 1.3.
const SEGMENT: u64 = 1448;
const OVERHEAD: u64 = 22;
/// The size of the alert that ends a connection.
const ENDING: u64 = OVERHEAD + 2;

/// Both ends of a connection whose handshake is over.
pub(super) fn connected() -> (ClientConnection, Box<Session>) {
    let (mut client, mut session) = with_ticket();
    let mut down = Vec::new();
    session.hand_down(&mut down);
    deliver(&mut client, &down);
    (client, session)
}

/// A client and a server whose handshake is over, but for the ticket, which the server still has.
pub(super) fn with_ticket() -> (ClientConnection, Box<Session>) {
    let config = Arc::new(tls::testing::client_config(rustls::DEFAULT_VERSIONS));
    let mut client = ClientConnection::new(config, ServerName::try_from("localhost").unwrap()).unwrap();
    let identity = Arc::new(Identity::for_development(&["localhost".to_string()]).unwrap());
    let mut session = Session::new(&Acceptor::new(&[identity], &Tickets::new().unwrap(), |_| 0));
    while session.is_handshaking() {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        client.write_tls(&mut up).unwrap();
        session.open(&up, &mut Vec::new()).unwrap();
        if session.is_handshaking() {
            session.hand_down(&mut down);
            deliver(&mut client, &down);
        }
    }
    (client, Box::new(session))
}

/// Returns the plaintext of `wire`, and whether the end was signalled.
pub(super) fn deliver(client: &mut ClientConnection, mut wire: &[u8]) -> (Vec<u8>, bool) {
    let (mut plain, mut has_ended) = (Vec::new(), false);
    while !wire.is_empty() {
        client.read_tls(&mut wire).unwrap();
        let state = client.process_new_packets().unwrap();
        has_ended |= state.peer_has_closed();
        let begin = plain.len();
        plain.resize(begin + state.plaintext_bytes_to_read(), 0);
        client.reader().read_exact(&mut plain[begin..]).unwrap();
    }
    (plain, has_ended)
}

fn content(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|at| (at / 251) as u8 ^ at as u8).collect()
}

impl Bench {
    fn dispatch_content(&mut self, socket: &FakeSocket, session: Box<Session>, bytes: u64, end: End) -> JobId {
        self.dispatch_secure(socket, session, Outgoing::new(content(bytes), Body::default(), end))
    }

    pub(super) fn dispatch_secure(&mut self, socket: &FakeSocket, session: Box<Session>, outgoing: Outgoing) -> JobId {
        let at = self.open_secure(socket, Some(session));
        self.dispatch_on(at, outgoing)
    }

    /// The session of the first connection.
    fn session(&mut self) -> &mut Session {
        self.transmitter.connections[0].session.as_deref_mut().expect("it is under TLS")
    }

    fn charged_bytes(&self) -> u64 {
        self.transmitter.link.scheduler().pacer().ledger().charged_bytes()
    }
}

/// A record fills the segments that were granted, so each packet is full: four of them, fewer near the end.
#[test]
fn paced_records_are_whole_segments_of_the_link() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let ((mut client, session), socket) = (connected(), bench.socket('A', u64::MAX));
    bench.dispatch_content(&socket, session, 10_000, End::Finish);
    bench.drive();
    let writes: Vec<u64> = bench.journal.borrow().iter().map(|(_, bytes)| *bytes).collect();
    let last = 10_000 - (6 * SEGMENT - 2 * OVERHEAD) + OVERHEAD + ENDING;
    assert_eq!(writes, [4 * SEGMENT, 2 * SEGMENT, last]);
    let departure = bench.transmitter.departures().next().unwrap();
    assert_eq!((departure.sent_bytes, departure.unreported_bytes), (10_000, 10_000), "sizes are those of the content");
    let carried = 6 * SEGMENT + last;
    assert_eq!(bench.transmitter.connections[0].delivery.sent_bytes(), carried);
    let framing = Framing::ETHERNET;
    // The SYN-ACK, the records, and the acknowledgement of the client's FIN.
    assert_eq!(bench.charged_bytes(), framing.syn_ack_bytes + framing.wire_bytes(carried) + framing.header_bytes);
    assert_eq!(deliver(&mut client, &socket.received.borrow()), (content(10_000), true));
    assert!(socket.is_finished.get());
}

#[test]
fn a_shorter_response_overtakes_between_two_records() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let ((_, long), (_, short)) = (connected(), connected());
    let (large, small) = (bench.socket('L', u64::MAX), bench.socket('S', u64::MAX));
    bench.dispatch_content(&large, long, 50_000, End::Open);
    bench.transmitter.run(&|| bench.now.get());
    bench.dispatch_content(&small, short, 3_000, End::Open);
    assert!(!bench.session().has_unsent(), "nothing is sealed ahead");
    bench.drive();
    assert_eq!(bench.order(), "LSL");
}

/// Records without a pace have the maximum length, and a few make one write.
#[test]
fn without_a_pace_records_are_long() {
    let mut bench = Bench::new("srpt", None);
    let ((mut client, session), socket) = (connected(), bench.socket('A', u64::MAX));
    bench.dispatch_content(&socket, session, 200_000, End::Open);
    bench.drive();
    let (records, tail) = (200_000 / 16_384, 200_000 % 16_384);
    let four = 4 * (16_384 + OVERHEAD);
    let writes: Vec<u64> = bench.journal.borrow().iter().map(|(_, bytes)| *bytes).collect();
    assert_eq!((records, writes), (12, vec![four, four, four, tail + OVERHEAD]));
    assert_eq!(deliver(&mut client, &socket.received.borrow()), (content(200_000), false));
}

/// The rest of a record goes first, and its content counts when all of it has left.
#[test]
fn a_record_cut_short_is_finished_before_anything_is_sealed() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let ((mut client, session), socket) = (connected(), bench.socket('A', 4 * SEGMENT + 100));
    let job = bench.dispatch_content(&socket, session, 20_000, End::Finish);
    bench.drive();
    assert_eq!(bench.transmitter.sendings.unreported_bytes(job), 4 * SEGMENT - OVERHEAD);
    assert_eq!(bench.session().unsent_bytes() as u64, 4 * SEGMENT - 100, "the tail of one record");
    socket.room.set(u64::MAX);
    bench.on_writable(bench.now.get(), job);
    bench.drive();
    assert_eq!(bench.transmitter.departures().next().unwrap().sent_bytes, 20_000);
    assert_eq!(deliver(&mut client, &socket.received.borrow()), (content(20_000), true));
}

/// A client that left: nothing signals that the response is complete.
#[test]
fn an_aborted_response_has_no_end() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let ((mut client, session), socket) = (connected(), bench.socket('A', 4 * SEGMENT));
    let job = bench.dispatch_content(&socket, session, 50_000, End::Finish);
    bench.drive();
    bench.transmitter.abort(bench.now.get(), job, Failure::Stalled);
    let (received, has_ended) = deliver(&mut client, &socket.received.borrow());
    assert_eq!((received, has_ended, socket.is_finished.get()), (content(4 * SEGMENT - OVERHEAD), false, false));
}

#[test]
fn what_is_sent_between_responses_is_charged() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let ((mut client, session), socket) = (connected(), bench.socket('A', u64::MAX));
    let at = bench.open_secure(&socket, Some(session));
    bench.session().end();
    assert_eq!(bench.transmitter.send_sealed(bench.now.get(), at) as u64, ENDING);
    assert_eq!(bench.transmitter.send_sealed(bench.now.get(), at), 0);
    let charged = Framing::ETHERNET.wire_bytes(ENDING);
    assert_eq!((bench.charged_bytes(), bench.transmitter.connections[at].delivery.sent_bytes()), (charged, ENDING));
    assert_eq!(deliver(&mut client, &socket.received.borrow()), (vec![], true));
}

/// The price of TLS for connections without it: a pointer.
#[test]
fn a_connection_without_tls_has_a_pointer_more() {
    assert_eq!(size_of::<Option<Box<Session>>>(), size_of::<usize>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// A socket may split writes anywhere, at any pace: the client has what was to be sent, the link is charged what was
    /// carried, and at most one grant is below the decision.
    #[test]
    fn cuts_change_nothing(
        bytes in 1u64..200_000,
        rooms in prop::collection::vec(1u64..40_000, 0..40),
        rate in prop::sample::select(vec![None, Some("10mbit"), Some("1gbit")]),
        finishes in any::<bool>(),
    ) {
        let mut bench = Bench::new("srpt", rate);
        let ((mut client, session), socket) = (connected(), bench.socket('A', 0));
        let end = if finishes { End::Finish } else { End::Open };
        let job = bench.dispatch_content(&socket, session, bytes, end);
        let sealed_max = if rate.is_some() { 1 } else { 4 } * (16_384 + OVERHEAD) + ENDING;
        for room in rooms.into_iter().chain([u64::MAX]) {
            bench.drive();
            prop_assert!(bench.session().unsent_bytes() as u64 <= sealed_max);
            socket.room.set(room);
            bench.on_writable(bench.now.get(), job);
        }
        bench.drive();
        let departure = bench.transmitter.departures().next().unwrap();
        let carried: u64 = bench.journal.borrow().iter().map(|(_, bytes)| *bytes).sum();
        prop_assert_eq!((departure.sent_bytes, bench.transmitter.connections[0].delivery.sent_bytes()), (bytes, carried));
        prop_assert_eq!(deliver(&mut client, &socket.received.borrow()), (content(bytes), finishes));
        prop_assert_eq!(socket.is_finished.get(), finishes);
    }
}

impl Bench {
    /// Dispatches bytes that are sealed already, on a connection that goes on after them.
    fn dispatch_flight(&mut self, socket: &FakeSocket, bytes: u64) -> JobId {
        self.dispatch_outgoing(socket, Outgoing::of_records(content(bytes)))
    }
}

/// Ordered by its bytes, among other records.
#[test]
fn a_flight_passes_a_longer_response_and_waits_for_a_shorter() {
    for (bytes, order) in [(20_000, "RFR"), (3_000, "RF")] {
        let mut bench = Bench::new("srpt", Some("10mbit"));
        let (response, flight) = (bench.socket('R', u64::MAX), bench.socket('F', u64::MAX));
        bench.dispatch_content(&response, connected().1, bytes, End::Open);
        bench.transmitter.run(&|| bench.now.get());
        bench.dispatch_flight(&flight, 4_000);
        bench.drive();
        assert_eq!(bench.order(), order);
        assert_eq!(*flight.received.borrow(), content(4_000), "as it was sealed");
    }
}

/// A flight, what leaves at once after it, and a response: everything that left was charged, once.
#[test]
fn the_link_is_charged_for_a_flight_and_what_follows() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let ((_, session), socket) = (connected(), bench.socket('A', u64::MAX));
    let at = bench.open_secure(&socket, Some(session));
    bench.dispatch_on(at, Outgoing::of_records(content(4_000)));
    bench.drive();
    assert_eq!(*socket.received.borrow(), content(4_000), "as it was sealed");
    bench.session().seal(&[std::io::IoSlice::new(b"a ticket")]);
    assert!(bench.transmitter.send_sealed(bench.now.get(), at) > 0);
    bench.dispatch_on(at, Outgoing::new(content(3_000), Body::default(), End::Open));
    bench.drive();
    let framing = Framing::ETHERNET;
    let sent = socket.sent();
    let left = sent.payload_bytes + u64::from(sent.segments) * framing.header_bytes;
    assert_eq!(bench.charged_bytes(), framing.syn_ack_bytes + left);
}

#[test]
fn a_flight_whose_connection_ends_leaves_no_job() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let socket = bench.socket('A', u64::MAX);
    let job = bench.dispatch_flight(&socket, 12_000);
    bench.transmitter.run(&|| bench.now.get());
    let at = bench.connection(job);
    let told = bench.transmitter.sendings.unreported_bytes(job);
    bench.now.set(bench.now.get() + Nanos::from_millis(2));
    bench.transmitter.run(&|| bench.now.get());
    let untold = bench.transmitter.close(bench.now.get(), at);
    assert_eq!(told + untold, socket.received.borrow().len() as u64);
    assert!(untold > 0 && told + untold < 12_000 && bench.transmitter.departures().count() == 0);
    assert!(bench.transmitter.is_idle(bench.now.get()), "nothing is left of it");
}

/// A record that the kernel holds until more follows is 200 ms late: WebSocket over HTTPS was that slow.
#[test]
fn the_end_of_what_a_producer_has_pushed_leaves_at_once() {
    for rate in [None, Some("20mbit")] {
        let mut bench = Bench::new("srpt", rate);
        let ((mut client, session), socket) = (connected(), bench.socket('A', u64::MAX));
        let body = Body::from(Pipe::new(http::Length::Unknown, &Default::default()))
            .delimited(http::http1::Delimiter::LastChunk);
        let job = bench.dispatch_secure(&socket, session, Outgoing::new(content(100), body, End::Open));
        bench.drive();
        for message in ["one", "two", "three"] {
            bench.transmitter.producer(job).push(bench.now.get(), message.as_bytes()).unwrap();
            bench.drive();
            assert!(
                matches!(socket.writes.borrow().last(), Some(Write::Sent(_, false))),
                "{message}: {:?}",
                socket.writes
            );
        }
        let (plain, _) = deliver(&mut client, &socket.received.borrow());
        assert!(plain.ends_with(b"5\r\nthree\r\n"), "{} bytes", plain.len());
    }
}

/// Room is left for another record, and its bytes are on a disk.
#[test]
fn a_record_does_not_wait_for_a_disk() {
    let folder = crate::files::temporary::Folder::new();
    folder.put("file", vec![3; 200_000]);
    let file = Piece::File { entry: folder.entry("file"), range: 0..200_000 };
    let (_, mut session) = connected();
    let socket = Bench::new("srpt", None).socket('A', u64::MAX);
    let mut outgoing = Outgoing::new(content(100), file.into(), End::Open);
    let room = Room::paced(50_000, 50_000);
    let sent = outgoing.send_on(&socket, Some(&mut session), &mut super::outgoing::Cold, room);
    assert!(sent.bytes == 100 && matches!(sent.failure, Some(Failure::Absent)), "{sent:?}");
    assert_eq!(socket.writes.borrow().last(), Some(&Write::Pushed));
}
