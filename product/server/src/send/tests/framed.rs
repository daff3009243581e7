//! HTTP/2 connections under simulated time, to a client that reads frames.

use std::collections::BTreeMap;

use http2::testing::{self, Came, DATA, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, frame, hello, request, wide};
use http2::{Broken, Flood, Session, Settings};
use sched::Precedence;

use super::secure::{connected, deliver, with_ticket};
use super::*;
use crate::files::temporary::Folder;

const SEGMENT: u64 = 1448;

/// The head of a response.
pub(super) fn head() -> http::ResponseHead {
    http::Response::new(http::Status::OK, ()).into_head(&http::HttpDate::new(std::time::UNIX_EPOCH)).0
}

impl Bench {
    /// An HTTP/2 client that has requested these streams, with windows that never shut or with the initial ones.
    pub(super) fn framed(
        &mut self,
        socket: &FakeSocket,
        session: Option<Box<tls::Session>>,
        streams: &[u32],
        is_wide: bool,
    ) -> usize {
        let id = self.open_secure(socket, session);
        self.transmitter.begin_framed(self.now.get(), id, Session::new(&Settings::default()).into());
        let windows = if is_wide { wide() } else { vec![] };
        let requests: Vec<u8> = streams.iter().flat_map(|stream| request(*stream, "/", &[])).collect();
        self.hear(id, &[hello(), windows, requests].concat());
        id
    }

    fn hear(&mut self, id: usize, bytes: &[u8]) {
        self.transmitter.receive(self.now.get(), id, bytes).unwrap();
    }

    /// Dispatches a response to a stream: the head, and a body that identifies the stream.
    fn respond(&mut self, id: usize, number: u32, body_bytes: u64, urgency: u8) -> JobId {
        let body = Body::from(vec![number as u8; body_bytes as usize]);
        let precedence = Precedence { urgency, ..Precedence::default() };
        let dispatch = Dispatch { precedence, ..self.on_stream(id, number, Outgoing::on_stream(head(), body)) };
        self.transmitter.dispatch(self.now.get(), dispatch).unwrap()
    }

    pub(super) fn ended(&mut self) -> Vec<(JobId, u64, bool)> {
        let ended = self.transmitter.departures();
        ended.map(|departure| (departure.job, departure.sent_bytes, departure.failure.is_none())).collect()
    }
}

fn came(socket: &FakeSocket) -> Vec<Came> {
    let mut received = socket.received.borrow().clone();
    let frames = testing::frames(&mut received);
    assert!(received.is_empty(), "frames come whole");
    frames
}

/// Bodies by stream, and which of them ended.
fn bodies(frames: &[Came]) -> BTreeMap<u32, (Vec<u8>, bool)> {
    let mut bodies: BTreeMap<u32, (Vec<u8>, bool)> = BTreeMap::new();
    for (_, flags, stream, payload) in frames.iter().filter(|frame| frame.0 == DATA) {
        let (body, has_ended) = bodies.entry(*stream).or_default();
        assert!(!*has_ended, "nothing follows an end");
        body.extend_from_slice(payload);
        *has_ended = flags & END_STREAM != 0;
    }
    bodies
}

fn whole(number: u32, bytes: u64) -> (u32, (Vec<u8>, bool)) {
    (number, (vec![number as u8; bytes as usize], true))
}

#[test]
fn paced_frames_fill_the_segments_of_the_link() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let socket = bench.socket('A', u64::MAX);
    let id = bench.framed(&socket, None, &[1], true);
    bench.transmitter.run(&|| bench.now.get());
    bench.respond(id, 1, 20_000, 3);
    bench.journal.borrow_mut().clear();
    bench.drive();
    let writes: Vec<u64> = bench.journal.borrow().iter().map(|(_, bytes)| *bytes).collect();
    let (_, full) = writes.split_last().unwrap();
    assert!(full.iter().all(|bytes| *bytes == SEGMENT) && full.len() == 13, "{writes:?}");
    assert_eq!(bodies(&came(&socket)), BTreeMap::from([whole(1, 20_000)]));
    assert_eq!(bench.ended()[0].1, head().bytes() + 20_000, "sizes are those of the content");
}

/// A connection's first frames would make the first segment longer than a packet, and its rest would be another one.
#[test]
fn own_frames_and_a_response_share_the_first_segment() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let socket = bench.socket('A', u64::MAX);
    let id = bench.framed(&socket, None, &[1], true);
    bench.respond(id, 1, 20_000, 3);
    bench.journal.borrow_mut().clear();
    bench.drive();
    let writes: Vec<u64> = bench.journal.borrow().iter().map(|(_, bytes)| *bytes).collect();
    let (_, full) = writes.split_last().unwrap();
    assert!(full.iter().all(|bytes| *bytes == SEGMENT) && full.len() >= 13, "{writes:?}");
    assert_eq!(bodies(&came(&socket)), BTreeMap::from([whole(1, 20_000)]));
    assert_eq!(bench.ended()[0].1, head().bytes() + 20_000, "sizes are those of the content");
}

/// The kernel holds the ticket of the handshake until the response begins, and both leave in one packet.
#[test]
fn a_ticket_and_a_response_share_the_first_segment() {
    let (mut client, session) = with_ticket();
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let socket = bench.socket('A', u64::MAX);
    let id = bench.framed(&socket, Some(session), &[1], true);
    bench.respond(id, 1, 20_000, 3);
    bench.journal.borrow_mut().clear();
    bench.drive();
    let writes: Vec<u64> = bench.journal.borrow().iter().map(|(_, bytes)| *bytes).collect();
    let (ticket, held) = (writes[0], socket.writes.borrow()[0]);
    assert!((64..512).contains(&ticket) && held == Write::Sent(1, true), "{ticket}, {held:?}");
    assert_eq!((ticket + writes[1], writes[2]), (4 * SEGMENT, 4 * SEGMENT), "{writes:?}");
    let (mut plain, _) = deliver(&mut client, &socket.received.borrow());
    assert_eq!(bodies(&testing::frames(&mut plain)), BTreeMap::from([whole(1, 20_000)]));
}

/// A half-empty packet wastes its headers: small responses share segments.
#[test]
fn room_in_a_segment_goes_to_the_next_response() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let socket = bench.socket('A', u64::MAX);
    let streams: Vec<u32> = (0..20).map(|nth| 1 + 2 * nth).collect();
    let id = bench.framed(&socket, None, &streams, true);
    bench.transmitter.run(&|| bench.now.get());
    for stream in &streams {
        bench.respond(id, *stream, 300, 3);
    }
    bench.journal.borrow_mut().clear();
    bench.drive();
    let writes: Vec<u64> = bench.journal.borrow().iter().map(|(_, bytes)| *bytes).collect();
    assert!(writes.len() <= 6 && writes[0] >= SEGMENT, "{writes:?}");
    assert_eq!(bodies(&came(&socket)), streams.iter().map(|stream| whole(*stream, 300)).collect());
    assert_eq!(bench.ended().len(), 20);
}

#[test]
fn urgency_orders_a_connection_and_the_policy_orders_connections() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let (shared, other) = (bench.socket('A', u64::MAX), bench.socket('B', u64::MAX));
    let id = bench.framed(&shared, None, &[1, 3], true);
    let alone = bench.framed(&other, None, &[1], true);
    let late = bench.respond(id, 1, 1_000, 7);
    let soon = bench.respond(id, 3, 6_000, 1);
    let small = bench.respond(alone, 1, 2_000, 3);
    bench.drive();
    let order: Vec<JobId> = bench.ended().into_iter().map(|(job, ..)| job).collect();
    assert_eq!(order, [small, soon, late]);
}

#[test]
fn a_wish_that_changes_counts_from_the_next_grant() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let socket = bench.socket('A', u64::MAX);
    let id = bench.framed(&socket, None, &[1, 3], true);
    let first = bench.respond(id, 1, 30_000, 3);
    let second = bench.respond(id, 3, 40_000, 3);
    bench.transmitter.run(&|| bench.now.get());
    bench.hear(id, &frame(testing::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x03u=0"));
    assert_eq!(bench.transmitter.connections[id].engine().precedence(3).urgency, 0);
    let precedence = bench.transmitter.connections[id].engine().precedence(3);
    bench.transmitter.link.scheduler_mut().on_precedence(second, precedence);
    bench.drive();
    assert_eq!(bench.ended().into_iter().map(|(job, ..)| job).collect::<Vec<_>>(), [second, first]);
}

#[test]
fn a_shut_window_holds_its_stream_and_an_open_one_lets_it_go() {
    for is_of_connection in [false, true] {
        let mut bench = Bench::new("srpt", None);
        let socket = bench.socket('A', u64::MAX);
        let id = bench.framed(&socket, None, &[1, 3], false);
        let large = bench.respond(id, 1, 100_000, 3);
        bench.drive();
        assert_eq!(bodies(&came(&socket))[&1].0.len(), 65_535, "as wide as windows are at first");
        // The connection's window is shut too: heads need none.
        bench.respond(id, 3, 10, 3);
        bench.drive();
        assert_eq!(came(&socket).iter().filter(|frame| frame.0 == HEADERS).count(), 2);
        assert_eq!(bench.ended(), []);
        let update = |stream| frame(testing::WINDOW_UPDATE, 0, stream, &[0, 1, 0, 0]);
        bench.hear(id, &update(if is_of_connection { 0 } else { 1 }));
        bench.drive();
        assert_eq!(bench.ended().len(), usize::from(is_of_connection), "the small one has a window of its own");
        bench.hear(id, &update(if is_of_connection { 1 } else { 0 }));
        bench.drive();
        assert!(bench.ended().contains(&(large, head().bytes() + 100_000, true)));
    }
}

/// Frames that were made go first, and nothing more is made on that connection before; the response departs when they have left.
#[test]
fn below_the_decision_waits_one_grant() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let socket = bench.socket('A', u64::MAX);
    let id = bench.framed(&socket, None, &[1, 3], true);
    bench.transmitter.run(&|| bench.now.get());
    let before = socket.received.borrow().len() as u64;
    socket.room.set(100);
    let first = bench.respond(id, 1, 200, 3);
    let second = bench.respond(id, 3, 5_000, 3);
    bench.drive();
    assert_eq!((socket.received.borrow().len() as u64, bench.ended()), (before + 100, vec![]));
    socket.room.set(u64::MAX);
    bench.transmitter.on_writable(bench.now.get(), id);
    assert!(socket.received.borrow().len() as u64 - before <= 2 * SEGMENT);
    assert_eq!(bench.ended().into_iter().map(|(job, ..)| job).collect::<Vec<_>>(), [first]);
    bench.drive();
    assert_eq!(bench.ended().into_iter().map(|(job, ..)| job).collect::<Vec<_>>(), [second]);
    assert_eq!(bodies(&came(&socket)), BTreeMap::from([whole(1, 200), whole(3, 5_000)]));
}

#[test]
fn a_client_that_cancels_one_response_has_the_others() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let socket = bench.socket('A', u64::MAX);
    let id = bench.framed(&socket, None, &[1, 3], true);
    let [left, kept] = [bench.respond(id, 1, 5_000, 3), bench.respond(id, 3, 9_000, 3)];
    bench.transmitter.run(&|| bench.now.get());
    bench.hear(id, &frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    bench.drive();
    let ended = bench.ended();
    assert_eq!(
        ended.iter().map(|(job, _, is_whole)| (*job, *is_whole)).collect::<Vec<_>>(),
        [(left, false), (kept, true)]
    );
    assert_eq!(bodies(&came(&socket))[&3], whole(3, 9_000).1);
}

#[test]
fn a_client_that_vanishes_frees_every_response() {
    for room in [0, 300, 3_000, u64::MAX] {
        let mut bench = Bench::new("srpt", Some("10mbit"));
        let socket = bench.socket('A', room);
        let id = bench.framed(&socket, None, &[1, 3, 5], true);
        for stream in [1, 3, 5] {
            bench.respond(id, stream, 1_000, 3);
        }
        bench.transmitter.run(&|| bench.now.get());
        bench.transmitter.end_all(bench.now.get(), id, || Failure::Disconnected);
        let ended = bench.ended();
        assert_eq!(ended.len(), 3, "{room}: {ended:?}");
        bench.transmitter.close(bench.now.get(), id);
        assert!(bench.transmitter.link.scheduler().jobs().is_empty() && bench.ended().is_empty());
        bench.drive();
    }
}

#[test]
fn a_file_that_fails_costs_its_stream_alone() {
    let mut bench = Bench::new("srpt", None);
    let socket = bench.socket('A', u64::MAX);
    let id = bench.framed(&socket, None, &[1, 3], true);
    let folder = Folder::new();
    folder.put("file", vec![7; 200_000]);
    let entry = folder.entry("file");
    folder.put("file", vec![7; 1_000]);
    let body = Body::from(Piece::File { entry, range: 0..200_000 });
    let dispatch = bench.on_stream(id, 1, Outgoing::on_stream(head(), body));
    let cut = bench.transmitter.dispatch(bench.now.get(), dispatch).unwrap();
    let whole_one = bench.respond(id, 3, 10_000, 3);
    bench.drive();
    let ended = bench.ended();
    assert!(ended.iter().any(|(job, _, is_whole)| *job == cut && !is_whole), "{ended:?}");
    assert!(ended.iter().any(|(job, _, is_whole)| *job == whole_one && *is_whole));
    let frames = came(&socket);
    assert!(frames.iter().any(|frame| (frame.0, frame.2) == (RST_STREAM, 1)));
    assert_eq!(bodies(&frames)[&3], whole(3, 10_000).1);
}

#[test]
fn answers_leave_at_the_end_of_the_turn_and_are_charged() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let socket = bench.socket('A', u64::MAX);
    let id = bench.framed(&socket, None, &[], false);
    bench.transmitter.run(&|| bench.now.get());
    let (charged, sent) =
        (bench.transmitter.link.scheduler().pacer().ledger().charged_bytes(), socket.received.borrow().len() as u64);
    assert_eq!(charged, Framing::ETHERNET.syn_ack_bytes + Framing::ETHERNET.wire_bytes(sent));
    bench.hear(id, &frame(PING, 0, 0, &[9; 8]));
    assert!(!bench.transmitter.is_idle(bench.now.get()));
    bench.transmitter.run(&|| bench.now.get());
    assert!(bench.transmitter.is_idle(bench.now.get()));
    assert_eq!(came(&socket).last().unwrap(), &(PING, 1, 0, vec![9; 8]));
    bench.transmitter.connections.with_engine(id, Engine::go_away);
    bench.transmitter.run(&|| bench.now.get());
    assert_eq!(came(&socket).last().unwrap().0, GOAWAY);
}

/// A reader whose windows stay shut is as slow as one whose socket stays full.
#[test]
fn a_client_that_opens_no_window_is_given_up() {
    let mut bench = Bench::new("srpt", None);
    let socket = bench.socket('A', u64::MAX);
    let id = bench.framed(&socket, None, &[1], false);
    bench.respond(id, 1, 100_000, 3);
    bench.drive();
    for second in [2, 11, 12, 22, 23] {
        bench.transmitter.end_all_stalled(Nanos::from_secs(second));
    }
    assert!(matches!(bench.ended()[..], [(_, sent, false)] if sent == head().bytes() + 65_535));
}

/// A reader whose socket stays full after everything was made is slow too. Its responses used to wait forever.
#[test]
fn a_client_that_does_not_read_the_last_bytes_is_given_up() {
    let mut bench = Bench::new("srpt", None);
    let socket = bench.socket('A', u64::MAX);
    let id = bench.framed(&socket, None, &[1], true);
    bench.drive();
    socket.room.set(100);
    bench.respond(id, 1, 1_000, 3);
    bench.drive();
    assert_eq!(bench.ended(), []);
    for second in 2..=12 {
        bench.transmitter.end_all_stalled(Nanos::from_secs(second));
    }
    let ended: Vec<_> = bench.transmitter.departures().map(|departure| departure.failure).collect();
    assert!(matches!(ended[..], [Some(Failure::Stalled)]), "{ended:?}");
}

#[test]
fn answers_that_nobody_reads_have_a_bound() {
    let mut bench = Bench::new("srpt", None);
    let socket = bench.socket('A', u64::MAX);
    let id = bench.framed(&socket, None, &[], false);
    bench.drive();
    socket.room.set(0);
    let pings = frame(PING, 0, 0, &[9; 8]).repeat(500);
    let kept_bytes = 17 * 500;
    let bound = (256 << 10) / kept_bytes;
    for nth in 0..=bound {
        bench.now.set(Nanos::from_secs(1 + nth));
        let taken = bench.transmitter.receive(bench.now.get(), id, &pings);
        assert_eq!(taken.err(), (nth == bound).then_some(Broken::Flood(Flood::Unread)), "{nth}");
    }
}

#[test]
fn an_idle_connection_keeps_no_memory_for_frames() {
    let mut bench = Bench::new("srpt", None);
    let socket = bench.socket('A', u64::MAX);
    let id = bench.framed(&socket, None, &[1], true);
    bench.respond(id, 1, 100_000, 3);
    bench.drive();
    assert_eq!(bench.transmitter.frames_bytes(id), 0);
    assert!(bench.transmitter.connections.spare_bytes() > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A socket may split writes anywhere, at any pace, in plaintext or under TLS: each stream has its body, the link is
    /// charged what was carried, and at most one grant is below the decision.
    #[test]
    fn cuts_change_nothing(
        sizes in prop::collection::vec((0u64..60_000, 0u8..8), 1..8),
        rooms in prop::collection::vec(1u64..40_000, 0..40),
        rate in prop::sample::select(vec![None, Some("10mbit"), Some("1gbit")]),
        is_secure in any::<bool>(),
    ) {
        let mut bench = Bench::new("srpt", rate);
        let socket = bench.socket('A', u64::MAX);
        let (mut client, session) = is_secure.then(connected).unzip();
        let streams: Vec<u32> = (0..sizes.len() as u32).map(|nth| 1 + 2 * nth).collect();
        let id = bench.framed(&socket, session, &streams, true);
        bench.drive();
        socket.room.set(0);
        for (stream, (bytes, urgency)) in streams.iter().zip(&sizes) {
            bench.respond(id, *stream, *bytes, *urgency);
        }
        for room in rooms.into_iter().chain([u64::MAX]) {
            bench.drive();
            socket.room.set(room);
            bench.transmitter.on_writable(bench.now.get(), id);
        }
        bench.drive();
        let sent: u64 = bench.ended().iter().map(|(_, sent, is_whole)| { assert!(is_whole); *sent }).sum();
        prop_assert_eq!(sent, sizes.iter().map(|(bytes, _)| bytes + head().bytes()).sum::<u64>());
        let received = socket.received.borrow().clone();
        let mut plain = match &mut client {
            Some(client) => deliver(client, &received).0,
            None => received.clone(),
        };
        let frames = testing::frames(&mut plain);
        let expected: BTreeMap<_, _> = streams.iter().zip(&sizes).filter(|(_, (bytes, _))| *bytes > 0).map(|(stream, (bytes, _))| whole(*stream, *bytes)).collect();
        prop_assert_eq!(bodies(&frames), expected);
        bench.transmitter.end_framed(bench.now.get(), id);
        let sent_bytes = bench.transmitter.connections[id].delivery.sent_bytes();
        let carried = received.len() as u64;
        // Under TLS the connection's own output is counted with a record each, which it may share.
        prop_assert!(sent_bytes >= carried && sent_bytes <= carried + if is_secure { 200 } else { 0 }, "{sent_bytes} {carried}");
    }
}
