//! Mistakes of clients, each with its code (RFC 9114 section 8.1), and the limits on floods.

use http2::Broken;
use http2::floods::Flood;
use units::Nanos;

use super::rig::*;
use crate::streams::KEPT_BYTES_MAX;
use crate::testing::*;
use crate::{Settings, h3};

/// Runs `act` on a client after the handshake, before it has sent its control stream.
fn after(act: impl FnOnce(&mut Client)) -> Rig {
    let mut rig = Rig::new();
    rig.run_until(|rig| rig.client.is_connected);
    act(&mut rig.client);
    rig.run();
    rig
}

/// Checks that the connection ends with this code, and that the caller gets the reason.
#[track_caller]
fn ends(code: u64, act: impl FnOnce(&mut Client)) {
    let mut rig = after(act);
    assert_eq!(rig.client.close_code(), Some(code), "{:?}", rig.client.lost);
    assert!(matches!(rig.broken, Some(Broken::Protocol(_))), "{:?}", rig.broken);
    assert!(rig.session().is_closing());
    rig.run();
    assert!(rig.session().has_ended());
}

#[track_caller]
fn goes_on(act: impl FnOnce(&mut Client)) -> Rig {
    let mut rig = after(act);
    assert_eq!((&rig.client.lost, &rig.broken), (&None, &None));
    let stream = rig.client.request("/", &[]);
    rig.run();
    assert!(rig.requests().contains(&stream));
    rig
}

/// Checks that the stream that carries `bytes` is reset with this code, and that nothing else happens.
#[track_caller]
fn resets(code: u64, bytes: &[u8]) {
    let mut stream = 0;
    let rig = goes_on(|client| {
        client.hello();
        stream = client.open();
        client.send(id(stream), bytes);
        client.finish(id(stream));
    });
    assert_eq!(rig.client.came(id(stream)).reset, Some(code));
    assert!(!rig.requests().contains(&stream) || rig.closed().contains(&stream));
    assert_eq!(rig.malformed(), [stream]);
}

fn on_a_request(bytes: Vec<u8>) -> impl FnOnce(&mut Client) {
    move |client| {
        client.hello();
        let stream = client.open();
        client.send(id(stream), &bytes);
    }
}

fn on_control(bytes: Vec<u8>) -> impl FnOnce(&mut Client) {
    move |client| {
        client.uni(&bytes);
    }
}

const GET: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];

fn get(more: &[(&str, &str)]) -> Vec<u8> {
    request("/", more)
}

#[test]
fn control_streams() {
    let hello = [&[0][..], &frame(SETTINGS, &[])].concat();
    let with = |kind: u64, payload: &[u8]| on_control([&hello[..], &frame(kind, payload)].concat());
    ends(0x10a, on_control([&[0][..], &frame(GOAWAY, &[0])].concat()));
    ends(0x10a, on_control([&[0][..], &frame(0x21, &[])].concat()));
    ends(0x105, with(SETTINGS, &[]));
    ends(0x105, with(DATA, &[0]));
    ends(0x105, with(HEADERS, &[0]));
    ends(0x105, with(5, &[0]));
    [2, 6, 8, 9].into_iter().for_each(|kind| ends(0x105, with(kind, &[])));
    ends(0x106, with(GOAWAY, &[]));
    ends(0x106, with(GOAWAY, &[0, 0]));
    ends(0x106, with(MAX_PUSH_ID, &[0x40]));
    ends(0x106, with(PRIORITY_UPDATE, &[]));
    ends(0x107, with(PRIORITY_UPDATE, &[0; 4097]));
    ends(0x108, with(3, &[0]));
    ends(0x108, with(0xf_0701, b"\0u=1"));
    ends(0x108, with(PRIORITY_UPDATE, b"\x02u=1"));
    ends(0x108, with(PRIORITY_UPDATE, &[0x41, 0x90]));
    drop(goes_on(with(PRIORITY_UPDATE, &[0x41, 0x8c])));
    drop(goes_on(with(PRIORITY_UPDATE, &[0; 4096])));
    drop(goes_on(with(0x21, &[0; 10_000])));
    let twice = |kind: u64, first: u8, second: u8| {
        on_control([&hello[..], &frame(kind, &[first]), &frame(kind, &[second])].concat())
    };
    ends(0x108, twice(GOAWAY, 4, 8));
    ends(0x108, twice(MAX_PUSH_ID, 8, 4));
    drop(goes_on(twice(GOAWAY, 8, 4)));
    drop(goes_on(twice(MAX_PUSH_ID, 4, 8)));
}

#[test]
fn settings() {
    let says = |payload: &[u8]| on_control([&[0][..], &frame(SETTINGS, payload)].concat());
    [0, 2, 3, 4, 5].into_iter().for_each(|setting| ends(0x109, says(&[setting, 0])));
    ends(0x109, says(&[6, 0, 6, 1]));
    ends(0x106, says(&[6]));
    ends(0x106, says(&[0x40]));
    drop(goes_on(says(&[6, 0, 1, 0, 7, 5, 0x33, 1, 0x40, 0x99, 0])));
}

#[test]
fn streams_of_the_connection() {
    let hello = [&[0][..], &frame(SETTINGS, &[])].concat();
    let second = |kind: u8| {
        let hello = hello.clone();
        move |client: &mut Client| {
            client.uni(&hello);
            client.uni(&[2]);
            client.uni(&[3]);
            client.uni(&[kind]);
        }
    };
    [0, 1, 2, 3].into_iter().for_each(|kind| ends(0x103, second(kind)));
    for bytes in [&hello[..], &[2], &[3]] {
        ends(0x104, |client| {
            let stream = client.uni(bytes);
            client.finish(stream);
        });
    }
    let mut stream = None;
    let mut rig = goes_on(|client| stream = Some(client.uni(&hello)));
    rig.client.reset(stream.unwrap(), 0);
    rig.run();
    assert_eq!(rig.client.close_code(), Some(0x104));
    let mut unknown = None;
    let rig = goes_on(|client| {
        client.hello();
        client.uni(&[2]);
        client.uni(&[3]);
        unknown = Some(client.uni(&[0x21, 1, 2, 3]));
    });
    assert_eq!(rig.client.came(unknown.unwrap()).stopped, Some(0x103));
    // A stream that ends before its type has arrived.
    drop(goes_on(|client| {
        let stream = client.uni(&[0x40]);
        client.finish(stream);
    }));
}

#[test]
fn qpack_streams() {
    ends(0x201, on_control(vec![2, 0x3f, 0x01]));
    ends(0x201, on_control(vec![2, 0xc0]));
    ends(0x201, on_control(vec![2, 0x40]));
    ends(0x201, on_control(vec![2, 0x00]));
    drop(goes_on(on_control(vec![2, 0x20])));
    ends(0x202, on_control(vec![3, 0x80]));
    ends(0x202, on_control(vec![3, 0x01]));
    drop(goes_on(on_control(vec![3, 0x44, 0x7f, 0x81, 0x01])));
}

#[test]
fn request_streams() {
    ends(0x105, on_a_request(frame(DATA, b"a")));
    let get = get(&[]);
    for kind in [2, 3, 4, 5, 6, 7, 8, 9, 0xd, 0xf_0700, 0xf_0701] {
        ends(0x105, on_a_request(frame(kind, &[0])));
        ends(0x105, on_a_request([&get[..], &frame(kind, &[0])].concat()));
    }
    let trailers = frame(HEADERS, &section(&[("a", "b")]));
    ends(0x105, on_a_request([&get[..], &trailers, &frame(DATA, b"a")].concat()));
    ends(0x105, on_a_request([&get[..], &trailers, &trailers].concat()));
    ends(0x106, |client| {
        client.hello();
        let stream = client.open();
        client.send(id(stream), &get[..5]);
        client.finish(id(stream));
    });
    ends(0x200, on_a_request(frame(HEADERS, &[0, 0, 0x80])));
    ends(0x200, on_a_request(frame(HEADERS, &[])));
    ends(0x200, on_a_request([&get[..], &frame(HEADERS, &[0, 0, 0x80])].concat()));
    drop(goes_on(on_a_request(
        [&frame(0x21, b"abc")[..], &get, &frame(0x40, b""), &frame(DATA, b"a"), &trailers].concat(),
    )));
}

#[test]
fn malformed_requests() {
    let section = |fields: &[(&str, &str)]| frame(HEADERS, &crate::testing::section(fields));
    resets(0x10e, &section(&GET[..3]));
    resets(0x10e, &section(&[&GET[..], &[GET[0]]].concat()));
    resets(0x10e, &get(&[("connection", "close")]));
    resets(0x10e, &get(&[("transfer-encoding", "chunked")]));
    resets(0x10e, &[get(&[("content-length", "3")]), frame(DATA, b"ab")].concat());
    resets(0x10e, &[get(&[("content-length", "3")]), frame(DATA, b"abcd")].concat());
    resets(0x10d, &frame(0x21, b""));
    resets(0x10d, &[]);
    // The encoder cannot write upper case.
    resets(
        0x10e,
        &frame(HEADERS, &[&[0, 0, 0xc0 | 17, 0xc0 | 23, 0x50, 1, b'a', 0xc0 | 1][..], b"\x21A\x01b"].concat()),
    );
    for more in [("a", "b\r\nc: d"), ("a", "b\0"), ("te", "gzip"), ("content-length", "9223372036854775808")] {
        resets(0x10e, &get(&[more]));
    }
    resets(0x10e, &section(&[GET[0], GET[1], (":authority", "u@a"), GET[3]]));
    for path in ["http://b/", "b", "*"] {
        resets(0x10e, &section(&[GET[0], GET[1], GET[2], (":path", path)]));
    }
    for trailer in [(":path", "/"), ("connection", "close"), ("a", "b\nc")] {
        resets(0x10e, &[get(&[]), frame(DATA, b"ab"), section(&[trailer])].concat());
    }
    let rig = goes_on(on_a_request([get(&[("content-length", "3")]), frame(DATA, b"abc")].concat()));
    assert!(rig.closed().is_empty());
}

#[test]
fn heads_have_their_limits() {
    let most = Settings::default().request.head_bytes_max;
    let long = |bytes: usize| "a".repeat(bytes);
    // Compressed, it is shorter than the limit.
    let rig = goes_on(on_a_request(get(&[("a", &long(most / 2)), ("b", &long(most / 2))])));
    let http2::Event::Request { request: Err(refused), .. } = &rig.events[0] else { panic!("one too large") };
    assert_eq!(refused.reject.status, http::Status::HEAD_TOO_LARGE);
    let bytes = most - 20;
    let section = |bytes: usize| {
        let mut section = crate::testing::section(&GET);
        section.extend([0x21, b'a', 0x7f, 0x80]);
        let value = bytes - section.len() - 1;
        // 127, and the value of two more bytes.
        let rest = value - 127 - 2 + 2;
        section.truncate(section.len() - 1);
        section.extend([(rest & 0x7f) as u8 | 0x80, (rest >> 7 & 0x7f) as u8 | 0x80, (rest >> 14) as u8]);
        section.resize(section.len() + value, b'x');
        section
    };
    drop(goes_on(on_a_request(frame(HEADERS, &section(bytes)))));
    resets(0x107, &[0x01, 0x80, 0x01, 0x00, 0x01]);
    assert_eq!(h3::request::SECTION_BYTES_MAX, 0x1_0000);
}

#[test]
fn frames_that_are_not_whole_have_a_limit_together() {
    let each = 60_000;
    let count = KEPT_BYTES_MAX / each;
    for parts in [count, count + 1] {
        let mut rig = after(|client| client.hello());
        for _ in 0..parts {
            let stream = rig.client.open();
            rig.client.send(id(stream), &[0x01, 0x80, 0x01, 0x00, 0x00]);
            rig.client.send(id(stream), &vec![0; each]);
            // All of them together exceed a window.
            rig.run();
        }
        let is_over = parts > count;
        assert_eq!(rig.client.close_code(), is_over.then_some(0x107));
        assert_eq!(matches!(rig.broken, Some(Broken::Protocol(_))), is_over);
    }
}

#[test]
fn what_was_kept_is_given_back() {
    let mut streams = Vec::new();
    let mut rig = after(|client| {
        client.hello();
        streams = (0..3).map(|_| client.open()).collect();
        streams.iter().for_each(|&stream| client.send(id(stream), &[0x01, 0x44, 0x00, 0, 0, 0]));
    });
    assert_eq!(rig.session().streams.kept_bytes, 9);
    for (at, &stream) in streams.iter().enumerate() {
        rig.client.reset(id(stream), 0x10c);
        rig.run();
        assert_eq!(rig.session().streams.kept_bytes, 9 - 3 * (at + 1));
    }
    assert_eq!((&rig.client.lost, &rig.broken), (&None, &None));
}

/// Checks that the connection ends because of this flood.
#[track_caller]
fn floods(flood: Flood, act: impl FnOnce(&mut Rig)) {
    let mut rig = Rig::connected();
    act(&mut rig);
    rig.run();
    assert_eq!(rig.broken, Some(Broken::Flood(flood)));
    assert_eq!(rig.client.close_code(), Some(0x107));
}

#[test]
fn floods_end_the_connection() {
    // SETTINGS counts as one of the thousand.
    let updates = |rig: &mut Rig, count: usize| (0..count).for_each(|_| rig.client.priority_update(0, "u=1"));
    let mut rig = Rig::connected();
    updates(&mut rig, 999);
    rig.run();
    assert_eq!(rig.broken, None);
    floods(Flood::Control, |rig| updates(rig, 1100));
    floods(Flood::Control, |rig| {
        let stream = rig.client.open();
        rig.client.send(id(stream), &get(&[]));
        (0..1100).for_each(|_| rig.client.send(id(stream), &frame(DATA, &[0; 20])));
    });
    floods(Flood::Control, |rig| {
        let stream = rig.client.open();
        (0..1100).for_each(|_| rig.client.send(id(stream), &frame(0x21, &[])));
    });
}

#[test]
fn frames_of_quic_are_counted() {
    floods(Flood::Control, |rig| {
        for _ in 0..100 {
            for _ in 0..100 {
                rig.client.ping();
                rig.drain_client();
            }
            rig.run_for(Nanos(11_000_000));
        }
    });
}

/// A connected client that moves before each of `moves` PINGs, and answers nothing. Returns the UDP payload made for
/// it.
fn wander(moves: u16) -> (Rig, usize) {
    let mut rig = Rig::connected();
    let mut made = 0;
    for port in 1..=moves {
        rig.client_address.set_port(port);
        rig.client.ping();
        let ping = rig.client.transmit(rig.now).expect("a PING");
        rig.deliver(rig.client_address, &ping);
        made += rig.make(usize::MAX);
    }
    (rig, made)
}

#[test]
fn clients_that_move_have_their_rate() {
    let (rig, made) = wander(200);
    assert_eq!(rig.broken, Some(Broken::Flood(Flood::Paths)));
    // Each move costs a datagram to the new address, and the first also one to the old address.
    assert!((16 * 1200..18 * 1200).contains(&made), "{made}");
    let (mut rig, _) = wander(15);
    let stream = rig.client.request("/", &[]);
    rig.run();
    assert_eq!((&rig.client.lost, &rig.broken), (&None, &None));
    assert_eq!(rig.requests(), [stream]);
}

#[test]
fn cancelled_and_malformed_requests_have_their_rates() {
    /// Rounds of 20 at once while the connection lasts. Returns how many it took.
    fn rounds(mut act: impl FnMut(&mut Client)) -> (usize, Rig) {
        let mut rig = Rig::connected();
        for count in 0..100 {
            (0..20).for_each(|_| act(&mut rig.client));
            rig.run_for(Nanos(100_000_000));
            if rig.broken.is_some() {
                return (20 * (count + 1), rig);
            }
        }
        panic!("no end");
    }
    let (count, rig) = rounds(|client| {
        let stream = client.request("/", &[]);
        client.stop(stream, 0x10c);
    });
    assert!((200..300).contains(&count), "{count}");
    assert_eq!(rig.broken, Some(Broken::Flood(Flood::Resets)));
    let (count, rig) = rounds(|client| {
        let stream = client.open();
        client.send(id(stream), &request("/", &[("connection", "close")]));
        client.finish(id(stream));
    });
    assert!((100..140).contains(&count), "{count}");
    assert_eq!(rig.broken, Some(Broken::Flood(Flood::Provoked)));
}
