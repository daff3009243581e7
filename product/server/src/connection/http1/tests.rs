//! A connection without a socket, under simulated time: every split of what it receives, and every way its responses
//! leave.

use std::time::UNIX_EPOCH;

use http::{HttpDate, Response, Status};
use proptest::prelude::*;
use units::Nanos;

use super::driven::{Driven, WAYS, Way};
use super::*;
use crate::clock::ClientTime;
use crate::limits::Limits;

mod passed_on;

const GET: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST /a HTTP/1.1\r\nHost: a\r\n";
const BOTH: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n";

/// A client whose request bodies are discarded.
fn client(way: Way) -> Driven {
    Driven::new(way, Limits::default(), |_| false)
}

fn statuses(client: &Driven) -> Vec<u16> {
    let text = String::from_utf8_lossy(&client.sent);
    text.match_indices("HTTP/1.1 ").map(|(at, _)| text[at + 9..at + 12].parse().unwrap()).collect()
}

/// The statuses, and whether nothing is read after them.
type Outcome = (Vec<u16>, bool);

/// The tests of the server's sockets, as bytes.
fn conversations() -> Vec<(String, Outcome)> {
    let stays = |statuses: &[u16]| (statuses.to_vec(), false);
    let ends = |statuses: &[u16]| (statuses.to_vec(), true);
    let chunked = format!("{POST}Transfer-Encoding: chunked\r\n\r\n");
    let of_length = |bytes: u64| format!("{POST}Content-Length: {bytes}\r\n\r\n");
    let old = |connection: &str| format!("GET /a HTTP/1.0\r\n{connection}\r\n");
    vec![
        (GET.repeat(7), stays(&[200; 7])),
        (format!("\r\n{GET}\r\n{GET}"), stays(&[200; 2])),
        (GET.replace("GET", "HEAD") + GET, stays(&[200; 2])),
        (format!("{}hello{GET}", of_length(5)), stays(&[405, 200])),
        (format!("{GET}{}hello{GET}{}x{GET}", of_length(5), of_length(1)), stays(&[200, 405, 200, 405, 200])),
        (format!("{}{GET}", of_length(0)), stays(&[405, 200])),
        (format!("{chunked}5;a=b\r\nhello\r\n0\r\nT: x\r\n\r\n{GET}"), stays(&[405, 200])),
        (format!("{GET}{chunked}5\r\nhellO\r\n0\r\n\r\n{chunked}0\r\n\r\n"), stays(&[200, 405, 405])),
        (old("") + GET, ends(&[200])),
        (old("Connection: keep-alive\r\n") + GET, stays(&[200; 2])),
        (GET.replace("Host", "Connection: close\r\nHost") + GET, ends(&[200])),
        (format!("{POST}Content-Length: 5\r\nExpect: 100-continue\r\n\r\nhello{GET}"), ends(&[405])),
        (format!("{POST}Content-Length: 5\r\nExpect: 100-continue\r\n\r\n"), ends(&[405])),
        (format!("{POST}Content-Length: 5000000\r\nExpect: 100-continue\r\n\r\n"), ends(&[405])),
        (format!("{GET}{}hello{GET}", of_length(2 << 20)), ends(&[200, 405])),
        (format!("{GET}nonsense\r\n\r\n{GET}"), ends(&[200, 400])),
        (format!("{chunked}5\r\nhello!\r\n{GET}"), ends(&[400])),
        (format!("BREW /a HTTP/1.1\r\nHost: a\r\n\r\n{GET}"), stays(&[405, 200])),
        (format!("{} /a HTTP/1.1\r\nHost: a\r\n\r\n{GET}", "B".repeat(http::METHOD_BYTES_MAX + 1)), ends(&[501])),
        (format!("{GET}GET /a HTTP/1.1\r\nHos"), stays(&[200])),
        (format!("{}hel", of_length(5)), stays(&[])),
        (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(65_000)), stays(&[200])),
    ]
}

fn converse(way: Way, pieces: &[&[u8]]) -> (Vec<u8>, Outcome) {
    let mut client = client(way);
    pieces.iter().for_each(|piece| client.receive(piece));
    client.let_go();
    let outcome = (statuses(&client), client.http1.is_lingering());
    (client.sent, outcome)
}

#[test]
fn every_split_of_input_and_output_has_one_outcome() {
    for (text, expected) in conversations() {
        let bytes = text.as_bytes();
        let (whole, outcome) = converse(Way::AtOnce, &[bytes]);
        assert_eq!(outcome, expected, "{text:.200?}");
        let step = (bytes.len() / 300).max(1);
        for way in WAYS {
            for at in (0..=bytes.len()).step_by(step) {
                let (sent, split) = converse(way, &[&bytes[..at], &bytes[at..]]);
                assert_eq!(split, expected, "{way:?}, split at {at}: {text:.200?}");
                assert!(sent == whole, "{way:?}, split at {at}: {text:.200?}");
            }
            for piece in [1, 2, 7] {
                let pieces: Vec<&[u8]> = bytes.chunks(piece).collect();
                assert_eq!(converse(way, &pieces).1, expected, "{way:?}, {piece} at a time: {text:.200?}");
            }
        }
    }
}

/// A body over the limit is not awaited, however its client says how long it is, and nothing in it is read as a request.
#[test]
fn a_body_that_is_too_long_costs_the_connection_and_not_the_answer() {
    let chunked = "Transfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n6\r\nabcdef\r\n0\r\n\r\n";
    for (way, body) in WAYS.into_iter().flat_map(|way| [chunked, "Content-Length: 11\r\n\r\n"].map(|body| (way, body)))
    {
        let text = format!("{GET}{POST}{body}{GET}");
        for piece in [1, 2, 7, 1000] {
            let mut client = Driven::new(way, Limits { body_bytes_max: 10, ..Limits::default() }, |_| false);
            text.as_bytes().chunks(piece).for_each(|piece| client.receive(piece));
            client.let_go();
            let outcome = (statuses(&client), client.http1.is_lingering());
            assert_eq!(outcome, (vec![200, 405], true), "{way:?}, {piece} at a time: {body}");
        }
    }
}

/// Only the last response announces it.
#[test]
fn a_connection_is_closed_behind_the_response_that_says_so() {
    for (text, (statuses, ends)) in conversations() {
        let (sent, _) = converse(Way::AtOnce, &[text.as_bytes()]);
        let sent = String::from_utf8(sent).unwrap();
        let closing = sent.split("HTTP/1.1 ").skip(1).map(|one| one.contains("Connection: close")).collect::<Vec<_>>();
        assert_eq!(closing, (1..=statuses.len()).map(|at| ends && at == statuses.len()).collect::<Vec<_>>());
    }
}

const SECOND: Nanos = Nanos::from_secs(1);

/// When the connection is refused or closed, in seconds from now, while nothing arrives; at most a day.
fn ends_after(client: &mut Driven) -> (u64, Vec<u16>, bool) {
    let before = statuses(client).len();
    for second in 1..=86_400 {
        client.pass(SECOND);
        if client.is_closed || statuses(client).len() > before {
            return (second, statuses(client)[before..].to_vec(), client.is_closed);
        }
    }
    (86_400, vec![], false)
}

#[test]
fn a_client_that_sends_nothing_is_closed_and_a_part_is_refused() {
    let limits = Limits::default();
    let [head, idle, body] = [limits.head_timeout, limits.idle_timeout, limits.body_timeout].map(|at| at.0 / SECOND.0);
    for way in WAYS {
        let after = |text: &str| {
            let mut client = client(way);
            client.receive(text.as_bytes());
            client.let_go();
            ends_after(&mut client)
        };
        assert_eq!(after(""), (head, vec![], true));
        assert_eq!(after("GET /a HTTP/1.1\r\nHos"), (head, vec![408], false));
        assert_eq!(after(GET), (idle, vec![], true));
        assert_eq!(after(&format!("{GET}GET /a HTTP/1.1\r\nHos")), (head, vec![408], false));
        assert_eq!(after(&format!("{POST}Content-Length: 9\r\n\r\nhello")), (body, vec![408], false));
        assert_eq!(after(&format!("{POST}Transfer-Encoding: chunked\r\n\r\n5\r\nhe")), (body, vec![408], false));
        assert_eq!(after("nonsense\r\n\r\n"), (2, vec![], true), "the refusal is there already");
    }
}

/// A byte now and then does not restart the time of a head or of a body; nor do bytes after a refusal.
#[test]
fn a_slow_client_has_no_more_time_than_a_silent_one() {
    let seconds_of = |begin: &str, every: u64, byte: &[u8]| {
        let mut client = client(Way::AtOnce);
        client.receive(begin.as_bytes());
        let before = statuses(&client).len();
        (1..).find(|second| {
            client.pass(SECOND);
            if second % every == 0 && !client.is_closed {
                client.receive(byte);
            }
            client.is_closed || statuses(&client).len() > before
        })
    };
    let limits = Limits::default();
    assert_eq!(seconds_of("GET /a HTTP/1.1\r\n", 1, b"X: y\r\n"), Some(limits.head_timeout.0 / SECOND.0));
    let body = format!("{POST}Content-Length: 1000000\r\n\r\n");
    assert_eq!(seconds_of(&body, 1, b"x"), Some(limits.body_timeout.0 / SECOND.0));
    assert_eq!(seconds_of("nonsense\r\n\r\n", 1, b"more nonsense"), Some(2));
}

#[test]
fn a_response_being_sent_has_all_the_time_it_wants() {
    let mut client = client(Way::Held);
    client.receive(GET.as_bytes());
    assert!(client.http1.answering.is_on() && client.http1.deadline() == ClientTime::NEVER);
    client.pass(Nanos::from_secs(100_000));
    assert!(!client.is_closed && client.http1.on_deadline().is_none());
    client.let_go();
    assert_eq!(client.http1.deadline(), client.now + client.limits.idle_timeout);
}

/// A body that half arrived before the response to an earlier request was sent is not late because of that.
#[test]
fn a_body_is_not_late_for_an_earlier_response() {
    let mut client = client(Way::Postponed);
    client.take(format!("{GET}{POST}Content-Length: 9\r\n\r\nhello").as_bytes());
    client.http1.on_held(client.now);
    client.now = client.now + Nanos::from_secs(1_000);
    client.http1.on_sent(client.now, &client.limits);
    assert_eq!(ends_after(&mut client), (client.limits.body_timeout.0 / SECOND.0, vec![408], false));
}

#[test]
fn a_stopping_server_reads_nothing_behind_the_response_it_owes() {
    for way in [Way::AtOnce, Way::Held] {
        let mut client = client(way);
        let mut http1 = Http1::new(client.now, &client.limits);
        let mut received = http1.receive(GET.as_bytes());
        assert!(is_request(&mut http1, &client, &mut received));
        http1.answering.close();
        client.answer(&mut http1, Status::OK, false);
        http1.keep(received);
        client.http1 = http1;
        client.let_go();
        client.receive(GET.as_bytes());
        assert_eq!((statuses(&client), client.http1.is_lingering()), (vec![200], true));
        assert!(String::from_utf8_lossy(&client.sent).contains("Connection: close"));
    }
}

/// Returns whether the next event is a request.
fn is_request(http1: &mut Http1, client: &Driven, received: &mut Received) -> bool {
    matches!(http1.next(client.now, &client.limits, received, |_| false), Some(Event::Request { .. }))
}

/// Earlier responses may leave when a request was taken and its own response is not made: it waits for a disk.
#[test]
fn a_response_is_owed_until_it_is_made() {
    let mut client = client(Way::Gathered);
    let limits = client.limits.clone();
    let mut http1 = Http1::new(client.now, &limits);
    let mut received = http1.receive(BOTH.as_bytes());
    assert!(is_request(&mut http1, &client, &mut received));
    client.answer(&mut http1, Status::OK, false);
    assert!(is_request(&mut http1, &client, &mut received));
    http1.on_sent(client.now, &limits);
    assert!(http1.answering.is_on() && http1.deadline() == ClientTime::NEVER && http1.on_deadline().is_none());
    client.answer(&mut http1, Status::OK, false);
    http1.on_sent(client.now, &limits);
    assert!(!http1.answering.is_on() && received.is_empty());
}

/// Gathered responses that a full socket does not take hold back what follows them.
#[test]
fn what_was_gathered_may_have_to_wait() {
    let mut client = client(Way::Gathered);
    let limits = client.limits.clone();
    let mut http1 = Http1::new(client.now, &limits);
    let mut received = http1.receive(BOTH.as_bytes());
    assert!(is_request(&mut http1, &client, &mut received));
    client.answer(&mut http1, Status::OK, false);
    assert!(!http1.answering.is_on());
    http1.on_held(client.now);
    assert!(http1.answering.is_on() && http1.deadline() == ClientTime::NEVER);
    assert_eq!(http1.next(client.now, &limits, &mut received, |_| false), None);
    http1.on_sent(client.now, &limits);
    assert!(is_request(&mut http1, &client, &mut received));
}

/// The worker's two questions: whether the connection may be given up, and whether part of a request needs an
/// acknowledgement.
#[test]
fn what_a_connection_is_waiting_for() {
    let state = |text: &str| {
        let mut client = client(Way::AtOnce);
        client.receive(text.as_bytes());
        (client.http1.is_idle(), client.http1.has_part(), client.http1.has_kept())
    };
    assert_eq!([state(""), state(GET)], [(true, false, false); 2]);
    assert_eq!(state("GET /"), (false, true, true));
    assert_eq!(state(&format!("{POST}Content-Length: 9\r\n\r\nhello")), (false, true, false));
    assert_eq!(state("nonsense\r\n\r\nmore"), (true, false, false), "the end is on its way");
    let mut client = client(Way::Held);
    client.receive(GET.as_bytes());
    assert!(!client.http1.is_idle() && !client.http1.has_part());
}

/// It keeps nothing while it waits for a request.
#[test]
fn an_idle_connection_is_small() {
    assert!(size_of::<Http1>() <= 48, "{}", size_of::<Http1>());
}

proptest! {
    /// Arbitrary bytes: no panic, and no outcome that depends on how they arrived.
    #[test]
    fn any_bytes_in_any_pieces(
        parts in prop::collection::vec(0..8usize, 1..12),
        noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        way in prop::sample::select(&WAYS[..]),
    ) {
        const PARTS: [&str; 8] =
            [GET, POST, "\r\n", "Content-Length: 5\r\n\r\n", "hello", "Transfer-Encoding: chunked\r\n\r\n", "5\r\n", "0\r\n\r\n"];
        let mut bytes = parts.iter().map(|&part| PARTS[part]).collect::<String>().into_bytes();
        for (at, byte) in noise {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        let (expected, outcome) = converse(Way::AtOnce, &[&bytes]);
        prop_assert_eq!(converse(way, &pieces), (expected, outcome));
    }
}
