//! Request bodies that are passed on as they arrive.

use super::*;

const HELLO: &str = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
const CHUNKED: &str =
    "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\nA: b\r\n\r\n";

/// The result of the bytes received while no response is made.
#[derive(Debug, Default, PartialEq, Eq)]
struct Came {
    requests: usize,
    body: Vec<u8>,
    ends: usize,
    refused: Option<Status>,
}

struct Passing {
    http1: Http1,
    limits: Limits,
    now: ClientTime,
    came: Came,
}

impl Passing {
    fn new() -> Passing {
        let (now, limits) = (ClientTime::after(SECOND), Limits::default());
        Passing { http1: Http1::new(now, &limits), limits, now, came: Came::default() }
    }

    /// The first response is gathered and takes its time; the second request has to wait for that.
    fn postponed(text: &str) -> Passing {
        let mut passing = Passing::new();
        let now = passing.now;
        let mut received = passing.http1.receive(text.as_bytes());
        let first = passing.http1.next(now, &passing.limits, &mut received, |_| true);
        assert!(matches!(first, Some(Event::Request { .. })));
        let date = HttpDate::new(UNIX_EPOCH);
        passing.http1.encode(&Response::new(Status::OK, ()).with_length(0), false, &date, &mut Vec::new());
        passing.http1.answering.on_gathered();
        let Some(Event::Request { head }) = passing.http1.next(now, &passing.limits, &mut received, |_| true) else {
            panic!("no second request")
        };
        let head = http::http1::OwnedHead::from(&head);
        passing.http1.on_held(now);
        passing.http1.postpone(&head.view());
        assert_eq!(passing.http1.next(now, &passing.limits, &mut received, |_| true), None);
        passing.http1.keep(received);
        assert!(passing.http1.has_kept() && !passing.http1.is_reading());
        passing
    }

    fn receive(&mut self, bytes: &[u8]) {
        let mut received = self.http1.receive(bytes);
        while let Some(event) = self.http1.next(self.now, &self.limits, &mut received, |_| true) {
            match event {
                Event::Body => unreachable!("every body is wanted"),
                Event::Request { .. } => self.came.requests += 1,
                Event::Data { bytes, is_last } => {
                    self.came.body.extend_from_slice(bytes);
                    self.came.ends += usize::from(is_last);
                }
                Event::Refused { reject, .. } => self.came.refused = Some(reject.status),
            }
        }
        self.http1.keep(received);
    }

    fn answer(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let date = HttpDate::new(UNIX_EPOCH);
        self.http1.encode(&Response::new(Status::OK, ()).with_length(0), false, &date, &mut out);
        out
    }
}

proptest! {
    #[test]
    fn a_body_comes_behind_its_request_however_it_is_split(
        text in prop::sample::select(vec![HELLO, CHUNKED]),
        cuts in prop::collection::vec(0_usize..200, 0..6),
    ) {
        let mut passing = Passing::new();
        let both = [text, GET].concat();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % both.len()).chain([0, both.len()]).collect();
        cuts.sort_unstable();
        cuts.windows(2).for_each(|pair| passing.receive(&both.as_bytes()[pair[0]..pair[1]]));
        prop_assert_eq!(&passing.came, &Came { requests: 1, body: b"hello".into(), ends: 1, refused: None });
        prop_assert!(passing.http1.answering.is_on() && !passing.http1.is_reading() && !passing.http1.is_idle());
        passing.answer();
        passing.http1.on_sent(passing.now, &passing.limits);
        prop_assert!(!passing.http1.answering.closes());
        passing.receive(&[]);
        prop_assert_eq!(passing.came.requests, 2);
    }
}

#[test]
fn a_body_that_nobody_takes_waits_with_its_client() {
    let mut passing = Passing::new();
    passing.receive(&HELLO.as_bytes()[..HELLO.len() - 3]);
    assert!(passing.http1.is_reading() && passing.http1.deadline() < ClientTime::NEVER);
    passing.http1.passing().unwrap().hold(passing.now);
    assert!(!passing.http1.is_reading() && passing.http1.deadline() == ClientTime::NEVER);
    passing.receive(b"llo");
    assert_eq!(passing.came.body, b"he");
    passing.now = passing.now + Nanos::from_secs(100);
    let mut go_on = || passing.http1.passing().unwrap().go_on(passing.now);
    assert!(go_on() && !go_on(), "once");
    assert!(passing.http1.deadline() > passing.now);
    passing.receive(&[]);
    assert_eq!((passing.came.body.as_slice(), passing.came.ends), (&b"hello"[..], 1));
}

#[test]
fn a_response_before_the_end_of_the_body_is_the_last() {
    let mut passing = Passing::new();
    passing.receive(&HELLO.as_bytes()[..HELLO.len() - 3]);
    let said = String::from_utf8(passing.answer()).unwrap();
    assert!(said.contains("\r\nConnection: close\r\n"), "{said}");
    passing.receive(b"l");
    assert_eq!(passing.came.body, b"hel", "it goes on while its response is sent");
    passing.http1.on_sent(passing.now, &passing.limits);
    assert!(passing.http1.answering.closes() && passing.http1.is_lingering());
    passing.receive(b"lo");
    passing.receive(GET.as_bytes());
    assert_eq!((passing.came.requests, passing.came.ends), (1, 0));
}

#[test]
fn a_wrong_chunk_is_refused_or_ends_the_connection_behind_the_response() {
    let begin = CHUNKED.find("3\r\n").unwrap();
    let mut passing = Passing::new();
    passing.receive([&CHUNKED[..begin], "x\r\n"].concat().as_bytes());
    assert_eq!(passing.came.refused, Some(Status::BAD_REQUEST));
    let mut passing = Passing::new();
    passing.receive(&CHUNKED.as_bytes()[..begin + 1]);
    passing.answer();
    passing.receive(b"x\r\n");
    assert_eq!((passing.came.refused, passing.http1.answering.closes()), (None, true));
}

#[test]
fn a_client_that_is_too_slow_with_its_body_is_told() {
    let mut passing = Passing::new();
    passing.receive(&HELLO.as_bytes()[..HELLO.len() - 3]);
    passing.now = passing.http1.deadline();
    let late = passing.http1.on_deadline();
    assert!(matches!(late, Some(Late::Refused { reject, .. }) if reject.status == Status::REQUEST_TIMEOUT), "{late:?}");
    // While its response is in flight, the time limit of the response applies.
    let mut passing = Passing::new();
    passing.receive(&HELLO.as_bytes()[..HELLO.len() - 3]);
    passing.answer();
    passing.http1.on_held(passing.now);
    assert!(passing.http1.on_deadline().is_none() && passing.http1.deadline() == ClientTime::NEVER);
}

/// A client that only waits for 100 Continue to send its body keeps its connection.
#[test]
fn a_body_that_was_invited_does_not_end_the_connection() {
    let mut passing = Passing::new();
    let expecting = HELLO.replace("\r\n\r\nhello", "\r\nExpect: 100-continue\r\n\r\n");
    passing.receive(expecting.as_bytes());
    assert_eq!(passing.came.requests, 1);
    passing.receive(b"hello");
    assert_eq!(passing.came.ends, 1);
    assert!(!passing.answer().windows(5).any(|part| part == b"close"));
}

/// A small response is gathered before it and takes its time: what follows the head is still its body, and not a
/// request.
#[test]
fn a_request_that_waits_for_an_earlier_response_keeps_its_body() {
    let body = "GET /evil HTTP/1.1\r\nHost: a\r\n\r\n";
    let post = format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let mut passing = Passing::postponed(&[GET, &post, GET].concat());
    let now = passing.now;
    passing.http1.on_sent(now, &passing.limits);
    assert!(!passing.http1.answering.closes());
    passing.receive(&[]);
    assert_eq!(passing.came, Came { requests: 1, body: body.into(), ends: 1, refused: None });
    passing.answer();
    passing.http1.on_sent(now, &passing.limits);
    passing.receive(&[]);
    assert_eq!(passing.came.requests, 2);
}

/// The time of the earlier response used to count, although nothing was read in it.
#[test]
fn a_body_whose_request_waited_for_an_earlier_response_is_not_late() {
    let mut passing = Passing::postponed(&[GET, &HELLO[..HELLO.len() - 3]].concat());
    passing.now = passing.now + Nanos::from_secs(1_000);
    passing.http1.on_sent(passing.now, &passing.limits);
    passing.receive(&[]);
    assert_eq!((passing.came.requests, passing.came.body.as_slice()), (1, &b"he"[..]));
    assert_eq!(passing.http1.deadline(), passing.now + passing.limits.body_timeout);
}
