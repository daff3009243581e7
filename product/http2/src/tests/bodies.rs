//! Bodies of requests, and the windows of responses.

use http::BodyLength;
use units::memory::{Account, Charge};

use super::*;
use crate::{BODY_BYTES_MAX, BodyRead, ClientSession, ClientSettings, PREFACE, STREAMS_MAX};

/// The window of a stream, and initially of the connection (RFC 9113 section 6.5.2).
const WINDOW_BYTES: usize = 65_535;
const FLOW_CONTROL_ERROR: u8 = 3;
/// The maximum size of a DATA frame (RFC 9113 section 6.5.2).
const FRAME_BYTES_MAX: usize = 16_384;

fn post(stream: u32, more: &[(&str, &str)]) -> Vec<u8> {
    let fields = [&[(":method", "POST")], &GET[1..], more].concat();
    frame(HEADERS, END_HEADERS, stream, &block(&fields))
}

fn data(flags: u8, stream: u32, bytes: &[u8]) -> Vec<u8> {
    frame(DATA, flags, stream, bytes)
}

fn trailers(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&[("checksum", "7")]))
}

fn counted(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at % 251) as u8).collect()
}

/// Returns the body length according to the head of the request.
fn length(events: &[Event]) -> BodyLength {
    let [Event::Request { request: Ok(request), .. }, ..] = events else { panic!("{events:?}") };
    request.view().body
}

impl Client {
    /// Creates a client with requests whose bodies are wanted.
    fn posting(streams: &[u32]) -> Client {
        Client::posting_in(&Account::default(), streams)
    }

    /// The same, with its memory charged to this account.
    fn posting_in(account: &Account, streams: &[u32]) -> Client {
        let mut client = Client::new();
        client.session.count_in(account);
        for &stream in streams {
            client.say(&post(stream, &[])).unwrap();
            assert_eq!(length(&[client.session.event().unwrap()]), BodyLength::Unknown);
            assert!(client.session.want_body(stream));
        }
        client
    }

    fn read(&mut self, stream: u32, bytes_max: usize) -> (Vec<u8>, BodyRead) {
        let mut into = Vec::new();
        let read = self.session.read_body(stream, &mut into, bytes_max);
        self.session.control(&mut self.out);
        (into, read)
    }

    /// Reads until no more is available.
    fn read_all(&mut self, stream: u32, into: &mut Vec<u8>) -> BodyRead {
        loop {
            let (part, read) = self.read(stream, 1000);
            into.extend(part);
            if read != BodyRead::More {
                return read;
            }
        }
    }

    /// Returns by how much the windows of this stream were opened since the last look at frames; 0 is the connection.
    fn opened(&mut self, stream: u32) -> usize {
        let frames = self.frames();
        let updates = frames.iter().filter(|frame| (frame.0, frame.2) == (WINDOW_UPDATE, stream));
        updates.map(|frame| u32::from_be_bytes(frame.3[..].try_into().unwrap()) as usize).sum()
    }
}

#[test]
fn a_head_says_how_long_the_body_is() {
    let of = |bytes: Vec<u8>| {
        let mut client = Client::new();
        client.say(&bytes).unwrap();
        length(&client.events())
    };
    assert_eq!(of(request(1, &[])), BodyLength::None);
    assert_eq!(of(post(1, &[])), BodyLength::Unknown);
    assert_eq!(of(post(1, &[("content-length", "70")])), BodyLength::Known(70.into()));
    assert_eq!(of(post(1, &[("content-length", "0")])), BodyLength::None);
}

#[test]
fn a_body_that_came_with_the_head_is_read_without_its_trailers() {
    let mut client = Client::new();
    client
        .say(&[post(1, &[("content-length", "8")]), data(0, 1, b"some"), data(0, 1, b"body"), trailers(1)].concat())
        .unwrap();
    assert_eq!(length(&[client.session.event().unwrap()]), BodyLength::Known(8.into()));
    assert!(client.session.want_body(1));
    assert_eq!(client.events(), [Event::Body { stream: 1 }]);
    assert_eq!(client.read(1, 5), (b"someb".to_vec(), BodyRead::More));
    assert_eq!(client.read(1, 5), (b"ody".to_vec(), BodyRead::End));
    assert_eq!(client.session.body_bytes(), 0);
}

#[test]
fn a_reader_is_told_once_until_it_reads() {
    let mut client = Client::posting(&[1]);
    assert_eq!(client.events(), []);
    client.say(&data(0, 1, b"a")).unwrap();
    client.say(&data(0, 1, b"b")).unwrap();
    assert_eq!(client.events(), [Event::Body { stream: 1 }]);
    assert_eq!(client.read(1, 9), (b"ab".to_vec(), BodyRead::Later));
    client.say(&data(END_STREAM, 1, b"")).unwrap();
    assert_eq!(client.events(), [Event::Body { stream: 1 }]);
    assert_eq!(client.read(1, 9), (Vec::new(), BodyRead::End));
}

#[test]
fn a_request_without_a_body_has_its_end() {
    let mut client = Client::new();
    client.say(&request(1, &[])).unwrap();
    client.session.event();
    assert!(client.session.want_body(1));
    assert_eq!(client.events(), [Event::Body { stream: 1 }]);
    assert_eq!(client.read(1, 9), (Vec::new(), BodyRead::End));
}

/// Five times the windows of streams and connection pass.
#[test]
fn a_body_that_nobody_wants_is_thrown_away() {
    let mut client = Client::new();
    client.say(&post(1, &[])).unwrap();
    client.say(&data(0, 1, &[7; 1000])).unwrap();
    client.events();
    assert!(!client.session.want_body(1), "it was too late");
    for _ in 0..20 {
        client.say(&data(0, 1, &[7; FRAME_BYTES_MAX])).unwrap();
        assert_eq!(client.session.body_bytes(), 0);
    }
    client.say(&data(END_STREAM, 1, b"")).unwrap();
    assert_eq!(client.events(), []);
    assert_eq!(client.read(1, 9), (Vec::new(), BodyRead::Cut));
}

#[test]
fn a_reader_that_stops_holds_its_stream_and_no_other() {
    let mut client = Client::posting(&[1, 3]);
    let held = counted(WINDOW_BYTES);
    held.chunks(FRAME_BYTES_MAX).for_each(|part| client.say(&data(0, 1, part)).unwrap());
    assert!(client.session.body_bytes() == BODY_BYTES_MAX);
    for _ in 0..40 {
        client.say(&data(0, 3, &[7; FRAME_BYTES_MAX])).unwrap();
        assert_eq!(client.read(3, usize::MAX >> 1), (vec![7; FRAME_BYTES_MAX], BodyRead::Later));
    }
    let frames = client.frames();
    let updates = |of| frames.iter().filter(|frame| (frame.0, frame.2) == (WINDOW_UPDATE, of)).count();
    assert_eq!(updates(1), 0, "it is held");
    assert!(updates(0) >= 20 && updates(3) >= 20, "{} {}", updates(0), updates(3));
    assert_eq!(client.read(1, WINDOW_BYTES), (held, BodyRead::Later));
    assert_eq!(client.opened(1), WINDOW_BYTES);
    client.say(&data(0, 1, b"more")).unwrap();
    assert_eq!(client.read(1, 9), (b"more".to_vec(), BodyRead::Later));
}

#[test]
fn all_streams_may_be_held_at_once() {
    let streams: Vec<u32> = (0..STREAMS_MAX).map(|nth| 1 + 2 * nth).collect();
    let mut client = Client::posting(&streams);
    let body = counted(WINDOW_BYTES);
    for &stream in &streams {
        body.chunks(FRAME_BYTES_MAX).for_each(|part| client.say(&data(0, stream, part)).unwrap());
    }
    let all = streams.len() * BODY_BYTES_MAX;
    assert!(client.opened(0) >= all - BODY_BYTES_MAX);
    assert_eq!(client.session.body_bytes(), all);
    client.say(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])).unwrap();
    assert!(client.session.body_bytes() < all);
}

/// A client at 100 ms that uses its windows fully: returns the round trips needed for these bytes if the reader takes
/// `take` in each.
fn round_trips(client: &mut Client, bytes: usize, mut take: impl FnMut(&mut Client)) -> usize {
    let (mut windows, mut left) = ([WINDOW_BYTES; 2], bytes);
    for nth in 0.. {
        let now = Nanos::from_millis(50 + 100 * nth);
        let settings = if nth == 1 { frame(testing::SETTINGS, 1, 0, &[]) } else { Vec::new() };
        client.session.receive(now, &settings, &mut client.out).unwrap();
        let may = windows[0].min(windows[1]).min(left);
        for part in counted(may).chunks(FRAME_BYTES_MAX) {
            client.session.receive(now, &data(0, 1, part), &mut client.out).unwrap();
        }
        windows = windows.map(|window| window - may);
        left -= may;
        if left == 0 || nth == 100 {
            return nth as usize + 1;
        }
        take(client);
        for (kind, _, stream, payload) in client.frames() {
            if kind == WINDOW_UPDATE {
                windows[stream as usize] += u32::from_be_bytes(payload[..].try_into().unwrap()) as usize;
            }
        }
    }
    unreachable!("it has an end")
}

/// An upload used to take 46 round trips.
#[test]
fn a_window_grows_while_its_reader_takes_all() {
    let mut client = Client::posting(&[1]);
    let mut taken = 0;
    let trips = round_trips(&mut client, 3_000_000, |client| {
        let mut into = Vec::new();
        assert_eq!(client.read_all(1, &mut into), BodyRead::Later);
        taken += into.len();
    });
    assert!(trips <= 5, "{trips} round trips");
    client.say(&data(END_STREAM, 1, b"")).unwrap();
    let mut into = Vec::new();
    assert_eq!(client.read_all(1, &mut into), BodyRead::End);
    assert_eq!((taken + into.len(), client.session.body_bytes()), (3_000_000, 0));
}

#[test]
fn a_window_stays_small_where_nobody_reads_or_memory_is_short() {
    let mut client = Client::posting(&[1]);
    assert_eq!(round_trips(&mut client, 3_000_000, |_| {}), 101, "it does not get through");
    assert!(client.session.body_bytes() <= BODY_BYTES_MAX);
    let whole = Account::of_at_most(4 << 20);
    let mut client = Client::posting_in(&whole.part(), &[1]);
    let trips = round_trips(&mut client, 1_000_000, |client| {
        client.read_all(1, &mut Vec::new());
    });
    assert!((8..=16).contains(&trips), "{trips} round trips");
    assert!(whole.bytes() <= 136_000, "{} bytes", whole.bytes());
}

/// If memory has no room, the connection's window stops many unread streams.
#[test]
fn the_window_of_a_connection_stays_shut_where_memory_is_short() {
    let whole = Account::of_at_most(1 << 20);
    let mut client = Client::posting_in(&whole.part(), &[1, 3]);
    client.frames();
    let taken = Charge::new(&whole.part(), 1 << 20);
    counted(WINDOW_BYTES).chunks(FRAME_BYTES_MAX).for_each(|part| client.say(&data(0, 1, part)).unwrap());
    client.session.control(&mut client.out);
    assert_eq!(client.opened(0), 0);
    assert_eq!(client.read(1, WINDOW_BYTES).0.len(), WINDOW_BYTES, "nothing is left, so that it may go on");
    assert_eq!(client.opened(0), WINDOW_BYTES);
    counted(WINDOW_BYTES).chunks(FRAME_BYTES_MAX).for_each(|part| client.say(&data(0, 3, part)).unwrap());
    assert_eq!(client.opened(0), 0);
    drop(taken);
    whole.set_bytes_max(16 << 20);
    client.session.control(&mut client.out);
    assert!(client.opened(0) >= WINDOW_BYTES, "there is memory again");
}

#[test]
fn a_client_that_ignores_windows_loses_the_connection() {
    let mut client = Client::posting(&[1]);
    counted(WINDOW_BYTES).chunks(FRAME_BYTES_MAX).for_each(|part| client.say(&data(0, 1, part)).unwrap());
    client.frames();
    // The last frame is refused.
    let _ = client.say(&data(0, 1, b"x"));
    let frames = client.frames();
    let last = frames.last().unwrap_or_else(|| panic!("something is said"));
    assert_eq!((last.0, last.3[7]), (GOAWAY, FLOW_CONTROL_ERROR));
    assert!(client.session.has_ended());
    assert_eq!(client.session.body_bytes(), BODY_BYTES_MAX);
}

/// RFC 9113 section 8.1.1.
#[test]
fn a_body_of_another_length_than_said_has_no_clean_end() {
    let said = [("content-length", "5")];
    let wrong: [&[Vec<u8>]; 4] = [
        &[data(END_STREAM, 1, b"four")],
        &[data(0, 1, b"four"), trailers(1)],
        &[data(END_STREAM, 1, b"sixsix")],
        &[data(0, 1, b"five5"), data(0, 1, b"x")],
    ];
    for frames in wrong {
        for is_read in [false, true] {
            let mut client = Client::new();
            client.say(&post(1, &said)).unwrap();
            client.session.event();
            assert!(client.session.want_body(1));
            let mut ends = Vec::new();
            for frame in frames {
                let _ = client.say(frame);
                ends.extend(is_read.then(|| client.read(1, 100).1));
            }
            assert!(!ends.contains(&BodyRead::End), "{frames:?}");
            assert_eq!(client.read(1, 100), (Vec::new(), BodyRead::Cut));
            assert!(client.events().contains(&Event::Closed { stream: 1 }), "{frames:?}");
            let kinds = client.kinds();
            assert!(kinds.contains(&(RST_STREAM, 1)) && !kinds.contains(&(GOAWAY, 0)), "{frames:?}: {kinds:?}");
        }
    }
}

#[test]
fn a_body_that_is_cut_off_is_told_of() {
    let mut client = Client::posting(&[1]);
    client.say(&[data(0, 1, b"half"), frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])].concat()).unwrap();
    assert_eq!(client.events(), [Event::Body { stream: 1 }, Event::Closed { stream: 1 }]);
    assert_eq!(client.read(1, 9), (Vec::new(), BodyRead::Cut));
    assert!(!client.session.want_body(1));
}

#[test]
fn the_rest_of_a_body_may_be_left() {
    let mut client = Client::posting(&[1]);
    client.say(&data(0, 1, &[7; FRAME_BYTES_MAX])).unwrap();
    client.say(&data(0, 1, &[7; FRAME_BYTES_MAX])).unwrap();
    client.say(&data(0, 1, &[7; 1000])).unwrap();
    client.session.leave_body(1);
    client.session.control(&mut client.out);
    assert_eq!((client.opened(1), client.session.body_bytes()), (2 * FRAME_BYTES_MAX + 1000, 0));
    client.say(&data(0, 1, &[7; 1000])).unwrap();
    assert_eq!(client.session.body_bytes(), 0);
    assert!(client.session.respond(1, &head(Status::OK), true));
    assert_eq!(client.write(1, 5000, &mut Plenty(10)).stop, Stop::End);
    (0..3).for_each(|_| client.say(&data(0, 1, &[7; FRAME_BYTES_MAX])).unwrap());
    assert_eq!(client.frames().last().map(|frame| (frame.0, frame.2, frame.3[3])), Some((RST_STREAM, 1, 0)));
}

/// An upload whose program answered early, for example with 413, was reset in the same moment: its window was shut by
/// bytes that nobody would read. curl 7.88 then told of an error and not of the answer.
#[test]
fn a_client_whose_window_is_shut_reads_its_answer_before_it_is_stopped() {
    let mut client = Client::posting(&[1]);
    (0..3).for_each(|_| client.say(&data(0, 1, &[7; FRAME_BYTES_MAX])).unwrap());
    client.say(&data(0, 1, &[7; WINDOW_BYTES - 3 * FRAME_BYTES_MAX])).unwrap();
    assert!(client.session.respond(1, &head(Status::CONTENT_TOO_LARGE), true));
    assert_eq!(client.write(1, 5000, &mut Plenty(10)).stop, Stop::End);
    let frames = client.frames();
    let is_of = |kind: u8| frames.iter().any(|frame| (frame.0, frame.2) == (kind, 1));
    assert!(is_of(WINDOW_UPDATE) && !is_of(RST_STREAM), "{frames:?}");
    // One that goes on all the same is stopped.
    (0..3).for_each(|_| client.say(&data(0, 1, &[7; FRAME_BYTES_MAX])).unwrap());
    client.say(&data(0, 1, &[7; 1000])).unwrap();
    assert_eq!(client.frames().last().map(|frame| (frame.0, frame.2, frame.3[3])), Some((RST_STREAM, 1, 0)));
}

/// Streams that we have reset have no window any more; the connection's window opens all the same.
#[test]
fn late_parts_of_bodies_do_not_shut_the_connection() {
    let mut client = Client::posting(&[1, 3, 5, 7, 9, 11]);
    for stream in [1, 3, 5, 7, 9] {
        client.say(&data(0, stream, &[7; FRAME_BYTES_MAX])).unwrap();
        client.session.cancel(stream);
        client.session.control(&mut client.out);
        client.say(&data(0, stream, &[7; FRAME_BYTES_MAX])).unwrap();
    }
    assert_eq!(client.session.body_bytes(), 0);
    assert!(client.opened(0) > 4 * FRAME_BYTES_MAX);
    client.say(&data(END_STREAM, 11, b"body")).unwrap();
    assert_eq!(client.read(11, 9), (b"body".to_vec(), BodyRead::End));
}

#[test]
fn interim_heads_go_before_the_response() {
    let mut client = Client::posting(&[1]);
    for status in [Status(100), Status(103)] {
        assert!(client.session.interim(1, &Response::new(status, ()).into_head(&HttpDate::new(UNIX_EPOCH)).0));
    }
    client.session.control(&mut client.out);
    let flags = |frames: Vec<testing::Came>| frames.iter().map(|frame| (frame.0, frame.1)).collect::<Vec<_>>();
    assert_eq!(flags(client.frames()), [(HEADERS, END_HEADERS); 2]);
    client.say(&data(END_STREAM, 1, b"body")).unwrap();
    assert_eq!(client.read(1, 9), (b"body".to_vec(), BodyRead::End));
    assert!(client.session.respond(1, &head(Status::OK), true));
    assert_eq!(client.write(1, 5000, &mut Plenty(10)).stop, Stop::End);
    assert_eq!(flags(client.frames()), [(HEADERS, END_HEADERS), (DATA, END_STREAM)]);
    assert!(!client.session.interim(1, &head(Status(103))), "the stream is closed");
}

proptest! {
    /// The result does not depend on how frames are made and cut, or on when how much is read.
    #[test]
    fn a_body_is_read_as_it_was_sent(
        frames in prop::collection::vec((0usize..9000, any::<bool>()), 0..20),
        cut in 1usize..5000,
        reads in prop::collection::vec(0usize..20_000, 1..10),
        has_trailers: bool,
    ) {
        let body = counted(frames.iter().map(|(bytes, _)| bytes).sum());
        let mut client = Client::posting(&[1]);
        let (mut sent, mut windows, mut read, mut reads) = (0, [65_535usize; 2], Vec::new(), reads.into_iter().cycle());
        let mut is_told = false;
        for (bytes, is_padded) in frames {
            let part = &body[sent..sent + bytes];
            let padded = [&[3], part, &[0; 3]].concat();
            let frame = if is_padded { data(8, 1, &padded) } else { data(0, 1, part) };
            let cost = if is_padded { padded.len() } else { bytes };
            while windows[0] < cost || windows[1] < cost {
                prop_assert!(is_told, "the reader is not told, and the client waits");
                let (part, end) = client.read(1, reads.next().unwrap().max(1));
                read.extend(part);
                is_told = end == BodyRead::More;
                for (kind, _, stream, payload) in client.frames() {
                    if kind == WINDOW_UPDATE {
                        windows[stream as usize] += u32::from_be_bytes(payload[..].try_into().unwrap()) as usize;
                    }
                }
            }
            frame.chunks(cut).for_each(|piece| client.say(piece).unwrap());
            is_told |= client.events().contains(&Event::Body { stream: 1 });
            windows = windows.map(|window| window - cost);
            sent += bytes;
            prop_assert!(client.session.body_bytes() <= BODY_BYTES_MAX);
        }
        client.say(&if has_trailers { trailers(1) } else { data(END_STREAM, 1, b"") }).unwrap();
        prop_assert_eq!(client.read_all(1, &mut read), BodyRead::End);
        prop_assert_eq!(read, body);
    }
}

/// A server at 100 ms that uses its windows fully: returns the round trips needed for these bytes of a response if the
/// reader takes `take` in each.
fn round_trips_of_response(account: &Account, bytes: usize, mut take: impl FnMut(&mut ClientSession, Nanos)) -> usize {
    let (mut session, mut out) = (ClientSession::new(&ClientSettings::default()), Vec::new());
    let (method, head) = super::client::request_head("GET");
    session.request(Nanos(0), method, &head, false, account, &mut out).expect("it takes requests");
    session.control(&mut out);
    out.drain(..PREFACE.len());
    let (mut windows, mut left) = ([WINDOW_BYTES; 2], bytes);
    for nth in 1.. {
        for (kind, _, stream, payload) in testing::frames(&mut out) {
            if kind == WINDOW_UPDATE {
                windows[stream as usize] += u32::from_be_bytes(payload[..].try_into().unwrap()) as usize;
            }
        }
        let now = Nanos::from_millis(100 * nth);
        if nth == 1 {
            let settings = [frame(testing::SETTINGS, 0, 0, &[]), frame(testing::SETTINGS, 1, 0, &[])].concat();
            let head = frame(HEADERS, END_HEADERS, 1, &block(&[(":status", "200")]));
            session.receive(now, &[settings, head].concat(), &mut out).unwrap();
        }
        let may = windows[0].min(windows[1]).min(left);
        for part in counted(may).chunks(FRAME_BYTES_MAX) {
            session.receive(now, &data(0, 1, part), &mut out).unwrap();
        }
        windows = windows.map(|window| window - may);
        left -= may;
        if left == 0 || nth == 100 {
            return nth as usize;
        }
        take(&mut session, now);
        session.control(&mut out);
    }
    unreachable!("it has an end")
}

/// Returns the bytes that have arrived of the response on stream 1.
fn read_response(session: &mut ClientSession, now: Nanos, bytes_max: usize) -> Vec<u8> {
    let mut into = Vec::new();
    while session.read_body(now, 1, &mut into, bytes_max) == BodyRead::More && bytes_max == usize::MAX {}
    into
}

/// A download from a far program used to take 46 round trips, too.
#[test]
fn the_window_of_a_response_grows_while_its_reader_takes_all() {
    let mut taken = Vec::new();
    let trips = round_trips_of_response(&Account::default(), 3_000_000, |session, now| {
        taken.extend(read_response(session, now, usize::MAX));
    });
    assert!(trips <= 5, "{trips} round trips");
    assert!(taken.iter().zip(counted(WINDOW_BYTES)).all(|(came, sent)| *came == sent), "the first part is right");
}

#[test]
fn the_window_of_a_response_stays_small_where_its_client_waits_or_memory_is_short() {
    assert_eq!(round_trips_of_response(&Account::default(), 3_000_000, |_, _| {}), 100, "it does not get through");
    // A client that takes 20 KB in a second.
    let mut seconds = 0;
    let account = Account::default();
    round_trips_of_response(&account, 3_000_000, |session, now| {
        if now.0 / 1_000_000_000 > seconds {
            seconds = now.0 / 1_000_000_000;
            read_response(session, now, 20_000);
        }
        assert_eq!(session.alive_bytes(1), WINDOW_BYTES.max(session.kept_bytes(1)));
    });
    let whole = Account::of_at_most(4 << 20);
    let part = whole.part();
    let trips = round_trips_of_response(&part, 1_000_000, |session, now| drop(read_response(session, now, usize::MAX)));
    assert!((8..=16).contains(&trips), "{trips} round trips");
    assert!(whole.bytes() <= 136_000, "{} bytes", whole.bytes());
}
