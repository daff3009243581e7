//! Transfers over a test socket: every division of the bytes that an upstream sends, and every order of room.

mod over_http2;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use config::{Proxy, UpstreamAddress};
use http::{BodyLength, Method, Status};
use proptest::prelude::*;
use rustix::io::Errno;
use units::Nanos;
use units::memory::Account;

use super::on_connection::OnConnection;
use super::wire::Readiness;
use super::*;
use crate::body::Pipe;
use crate::net::FarEnd;

/// The bytes that an upstream sends, in pieces, and the bytes that it receives.
#[derive(Debug, Default)]
struct Wire {
    pieces: RefCell<VecDeque<Vec<u8>>>,
    has_ended: bool,
    sent: RefCell<Vec<u8>>,
    /// The bytes that it still takes; `None` if it has reset the connection.
    takes: RefCell<Option<usize>>,
}

impl Wire {
    fn of(text: &[u8], cuts: &[usize]) -> Wire {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).chain([0, text.len()]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let pieces = cuts.windows(2).map(|pair| text[pair[0]..pair[1]].to_vec()).collect();
        Wire { pieces: RefCell::new(pieces), has_ended: true, takes: RefCell::new(Some(usize::MAX)), ..Wire::default() }
    }
}

impl FarEnd for Wire {
    fn take(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut takes = self.takes.borrow_mut();
        let Some(room) = takes.as_mut() else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let taken = bytes.len().min(*room);
        if taken == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        *room -= taken;
        self.sent.borrow_mut().extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn give(&self, into: &mut [u8]) -> rustix::io::Result<usize> {
        let mut pieces = self.pieces.borrow_mut();
        let Some(piece) = pieces.front_mut() else { return if self.has_ended { Ok(0) } else { Err(Errno::AGAIN) } };
        let bytes = piece.len().min(into.len());
        into[..bytes].copy_from_slice(&piece[..bytes]);
        piece.drain(..bytes);
        if piece.is_empty() {
            pieces.pop_front();
        }
        Ok(bytes)
    }
}

/// Wraps a connection for sending.
fn over<'w>(wire: &'w Wire, ready: &'w mut Readiness) -> OnConnection<'w, Wire> {
    on(wire, ready, &mut [])
}

fn on<'w>(wire: &'w Wire, ready: &'w mut Readiness, scratch: &'w mut [u8]) -> OnConnection<'w, Wire> {
    OnConnection { wire: super::wire::Wire::new(wire, ready, None), scratch, limits: ResponseLimits::default() }
}

/// A client that takes `portion` bytes of the body at a time.
struct Client {
    pipe: Pipe,
    body: Vec<u8>,
    portion: usize,
}

impl Client {
    fn take(&mut self) {
        let bytes = self.portion.min(self.pipe.queued().len());
        self.body.extend_from_slice(&self.pipe.queued()[..bytes]);
        self.pipe.advance(bytes);
    }
}

fn group() -> Arc<Group> {
    let to = vec![UpstreamAddress::new(":1").expect("an upstream")];
    Arc::new(
        Group::new("a", &Proxy::of_all(to), &crate::disk::Room::new(1), &|_| unreachable!(), &Default::default())
            .expect("an address"),
    )
}

fn transfer(method: Method, body: BodyLength) -> Transfer {
    let (account, head) = (Account::default(), b"HEAD\r\n\r\n".to_vec());
    let client = ClientConnection::new(&account);
    let mut transfer = Transfer::new(ExchangeId::new(7, 0), group(), method, head, body, &account, client);
    transfer.connect(0, false, Nanos::ZERO);
    transfer
}

const READY: Readiness = Readiness { is_readable: true, is_writable: true, has_ended: true };

/// Returns the complete response as received by a client that reads `portion` bytes at a time, and the last step.
fn play(wire: &Wire, method: Method, portion: usize) -> (Vec<u8>, TransferStep, bool) {
    let (mut transfer, mut ready, mut scratch) = (transfer(method, BodyLength::None), READY, vec![0; 64 << 10]);
    over(wire, &mut ready).send(&mut transfer, Nanos::ZERO).expect("it takes all");
    let head = loop {
        match on(wire, &mut ready, &mut scratch).read_head(&mut transfer, Nanos::ZERO) {
            Ok(Some(head)) => break head,
            Ok(None) => ready = READY,
            Err(fault) => return (Vec::new(), TransferStep::Failed(fault), false),
        }
    };
    let Some(pipe) = pipe_of(head.framing, &Account::default()) else {
        return (Vec::new(), TransferStep::Done, transfer.keeps_connection());
    };
    let mut client = Client { pipe, body: Vec::new(), portion };
    loop {
        let step = on(wire, &mut ready, &mut scratch).read_body(&mut transfer, &mut client.pipe, Nanos::ZERO);
        client.take();
        if !matches!(step, TransferStep::Wait) {
            while !client.pipe.queued().is_empty() {
                client.take();
            }
            return (client.body, step, transfer.keeps_connection());
        }
        ready = READY;
    }
}

fn response(framing: usize, body: &[u8]) -> Vec<u8> {
    let head = &b"HTTP/1.1 200 OK\r\n"[..];
    match framing {
        0 => [head, format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat(),
        1 => {
            let chunks: Vec<Vec<u8>> = body
                .chunks(70_001)
                .map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat())
                .collect();
            [head, b"Transfer-Encoding: chunked\r\n\r\n", &chunks.concat(), b"0\r\n\r\n"].concat()
        }
        _ => [head, b"Connection: close\r\n\r\n", body].concat(),
    }
}

proptest! {
    #[test]
    fn a_body_is_whole_however_it_comes_and_goes(
        framing in 0_usize..3,
        bytes in prop::sample::select(vec![0_usize, 1, 1000, 65_535, 65_536, 200_000]),
        cuts in prop::collection::vec(0_usize..300_000, 0..8),
        portion in prop::sample::select(vec![1000_usize, 16_384, 1 << 20]),
    ) {
        let body: Vec<u8> = (0..bytes).map(|at| (at * 31 % 251) as u8).collect();
        let (came, step, is_kept) = play(&Wire::of(&response(framing, &body), &cuts), Method::Get, portion);
        prop_assert!(came == body && matches!(step, TransferStep::Done), "{} of {bytes} bytes: {step:?}", came.len());
        prop_assert_eq!(is_kept, framing != 2);
    }

    #[test]
    fn a_response_that_is_cut_fails(framing in 0_usize..2, cuts in prop::collection::vec(0_usize..3000, 0..4), cut in 0_usize..1000) {
        let whole = response(framing, &[7; 1000]);
        let wire = Wire::of(&whole[..cut.min(whole.len() - 1)], &cuts);
        let (_, step, _) = play(&wire, Method::Get, 1 << 20);
        prop_assert!(matches!(step, TransferStep::Failed(Fault::Closed)), "{step:?}");
    }
}

#[test]
fn bytes_behind_the_response_end_the_connection() {
    let wire = Wire::of(&[&response(0, b"hello")[..], b"HTTP/1.1 200 OK\r\n"].concat(), &[]);
    let (body, step, is_kept) = play(&wire, Method::Get, 1 << 20);
    assert!(body == b"hello" && matches!(step, TransferStep::Done) && !is_kept);
    let head = Wire { has_ended: false, ..Wire::of(&response(0, b"")[..38], &[]) };
    assert!(play(&head, Method::Head, 1).2, "the response to HEAD has no body");
}

/// A body that is complete before the first byte leaves has a length; otherwise it is sent in chunks.
#[test]
fn a_body_that_came_before_its_request_left_has_a_length() {
    let head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: a\r\n\r\n";
    let measured = |length: usize| format!("POST / HTTP/1.1\r\nContent-Length: {length}\r\nHost: a\r\n\r\n");
    for (parts, sent) in [
        (&[("ab", false), ("c", true)][..], measured(3) + "abc"),
        (&[("", true)], measured(0)),
        (&[("abc", false), ("", true)], measured(3) + "abc"),
    ] {
        let (account, wire) = (Account::default(), Wire::of(b"", &[]));
        let client = ClientConnection::new(&account);
        let (id, body) = (ExchangeId::new(7, 0), BodyLength::Unknown);
        let mut transfer = Transfer::new(id, group(), Method::Post, head.to_vec(), body, &account, client);
        for (bytes, is_last) in parts {
            transfer.push_request(bytes.as_bytes(), *is_last);
            // Its socket is not connected, so nothing is decided.
            over(&wire, &mut Readiness::default()).send(&mut transfer, Nanos::ZERO).unwrap();
        }
        over(&wire, &mut { READY }).send(&mut transfer, Nanos::ZERO).unwrap();
        assert_eq!(String::from_utf8_lossy(&wire.sent.borrow()), sent);
        // The same leaves again over another connection.
        transfer.connect(1, false, Nanos::ZERO);
        over(&wire, &mut { READY }).send(&mut transfer, Nanos::ZERO).unwrap();
        let sent = if transfer.outbound.has_forgotten() { sent } else { sent.repeat(2) };
        assert_eq!(String::from_utf8_lossy(&wire.sent.borrow()), sent);
    }
}

#[test]
fn a_request_waits_for_room_and_is_sent_in_chunks() {
    let wire = Wire::of(b"", &[]);
    *wire.takes.borrow_mut() = Some(10);
    let (mut transfer, mut ready) = (transfer(Method::Post, BodyLength::Unknown), READY);
    transfer.push_request(b"hello", false);
    over(&wire, &mut ready).send(&mut transfer, Nanos::ZERO).unwrap();
    assert!(!ready.is_writable && wire.sent.borrow().len() == 10 && transfer.is_wanting());
    transfer.push_request(&[b'x'; 64 << 10], false);
    assert!(!transfer.is_wanting(), "no more than is bounded waits");
    (*wire.takes.borrow_mut(), ready) = (Some(usize::MAX), READY);
    over(&wire, &mut ready).send(&mut transfer, Nanos::ZERO).unwrap();
    assert!(transfer.is_wanting() && !transfer.deadline.is_set(), "its client is waited for");
    transfer.push_request(b"", true);
    over(&wire, &mut ready).send(&mut transfer, Nanos::ZERO).unwrap();
    // An engine may signal the end twice. The second last chunk used to become the beginning of the next request.
    transfer.push_request(b"", true);
    over(&wire, &mut ready).send(&mut transfer, Nanos::ZERO).unwrap();
    let sent = wire.sent.borrow();
    assert!(sent.starts_with(b"HEAD\r\n\r\n5\r\nhello\r\n10000\r\nxxx") && sent.ends_with(b"xxx\r\n0\r\n\r\n"));
    assert!(!transfer.is_wanting() && transfer.deadline.is_set());
}

/// A request of FastCGI has its length before its body: a body without one is gathered first.
#[test]
fn a_body_without_a_length_is_too_large_or_meets_no_memory() {
    for (memory_bytes, body_bytes, status) in
        [(64 << 20, 1 << 20, Status::LENGTH_REQUIRED), (512 << 10, 300_000, Status::SERVICE_UNAVAILABLE)]
    {
        let account = Account::of_at_most(memory_bytes);
        let (client, head) = (ClientConnection::new(&account), Head::Unmeasured(b"HEAD".to_vec()));
        let mut transfer =
            Transfer::new(ExchangeId::new(7, 0), group(), Method::Post, head, BodyLength::Unknown, &account, client);
        let mut left = body_bytes;
        while left > 0 && transfer.is_gathering() {
            left -= left.min(16_384);
            transfer.push_request(&[b'x'; 16_384], false);
        }
        assert!(!transfer.is_gathering(), "{left} bytes left");
        assert_eq!(transfer.too_large_to_gather().status(), status, "{body_bytes} bytes");
    }
}

#[test]
fn what_may_have_been_done_is_not_asked_twice() {
    let fault = || Fault::Closed;
    let sent = |method, body, was_idle| {
        let (mut transfer, mut ready) = (transfer(method, body), READY);
        transfer.connect(0, was_idle, Nanos::ZERO);
        over(&Wire::of(b"", &[]), &mut ready).send(&mut transfer, Nanos::ZERO).unwrap();
        transfer
    };
    let get = |was_idle| sent(Method::Get, BodyLength::None, was_idle);
    assert!(get(true).may_repeat(&fault()) && !get(false).may_repeat(&fault()));
    assert!(!sent(Method::Post, BodyLength::None, true).may_repeat(&fault()));
    assert!(!sent(Method::Put, BodyLength::Known(1.into()), false).may_repeat(&fault()));
    assert!(transfer(Method::Post, BodyLength::None).may_repeat(&fault()), "nothing of it was sent");
    assert!(!get(true).may_repeat(&Fault::TooSlow("x")));
}

/// An idle connection that its upstream closes while a PUT is being sent: such requests once had 502.
#[test]
fn what_was_being_sent_when_its_idle_connection_broke_is_sent_again_if_it_is_whole() {
    for (method, is_whole, may_repeat) in
        [(Method::Put, true, true), (Method::Put, false, false), (Method::Post, true, false)]
    {
        let (mut transfer, mut ready, wire) =
            (transfer(method, BodyLength::Known(5.into())), READY, Wire::of(b"", &[]));
        transfer.connect(0, true, Nanos::ZERO);
        transfer.push_request(b"hello", is_whole);
        for takes in [Some(3), None] {
            *wire.takes.borrow_mut() = takes;
            over(&wire, &mut ready).send(&mut transfer, Nanos::ZERO).unwrap();
            ready = READY;
        }
        assert!(transfer.outbound.is_refused);
        transfer.push_request(b" world", true);
        assert_eq!(transfer.may_repeat(&Fault::Closed), may_repeat, "{method:?} {is_whole}");
        transfer.connect(1, false, Nanos::ZERO);
        assert!(!transfer.outbound.is_refused && transfer.outbound.at == 0);
    }
}

/// If an upstream has closed an idle connection, a short PUT or DELETE can be repeated; the part sent of a long one is
/// lost.
#[test]
fn a_short_body_is_kept_to_be_sent_again() {
    for (method, bytes, may_repeat) in [
        (Method::Put, 5, true),
        (Method::Delete, 60_000, true),
        (Method::Put, 100_000, false),
        (Method::Post, 5, false),
    ] {
        let (mut transfer, mut ready, wire) = (transfer(method, BodyLength::Unknown), READY, Wire::of(b"", &[]));
        *wire.takes.borrow_mut() = Some(usize::MAX);
        transfer.connect(0, true, Nanos::ZERO);
        let mut left = bytes;
        while left > 0 {
            let part = left.min(16_384);
            left -= part;
            transfer.push_request(&vec![b'x'; part], left == 0);
            over(&wire, &mut ready).send(&mut transfer, Nanos::ZERO).unwrap();
        }
        assert_eq!(transfer.may_repeat(&Fault::Closed), may_repeat, "{method:?} of {bytes} bytes");
        if may_repeat {
            let once = std::mem::take(&mut *wire.sent.borrow_mut());
            transfer.connect(1, false, Nanos::ZERO);
            let mut ready = READY;
            over(&wire, &mut ready).send(&mut transfer, Nanos::ZERO).unwrap();
            assert!(*wire.sent.borrow() == once && once.len() > bytes);
        } else {
            assert!(transfer.outbound.bytes.len() < 70_000, "no more than is bounded is kept");
        }
    }
}

/// An upstream that accepts no more may have answered before.
#[test]
fn an_early_response_is_heard() {
    let wire = Wire::of(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n", &[]);
    let (mut transfer, mut ready) = (transfer(Method::Post, BodyLength::Known((1 << 20).into())), READY);
    over(&wire, &mut ready).send(&mut transfer, Nanos::ZERO).unwrap();
    *wire.takes.borrow_mut() = None;
    transfer.push_request(&[0; 1000], false);
    (ready.is_writable, ready.is_readable) = (true, false);
    over(&wire, &mut ready).send(&mut transfer, Nanos::ZERO).unwrap();
    let head = on(&wire, &mut ready, &mut [0; 1000]).read_head(&mut transfer, Nanos::ZERO).unwrap().unwrap();
    assert!(head.status.0 == 413 && transfer.room() > 1 << 30 && !transfer.keeps_connection());
}

/// Bytes that an upstream takes in small parts, while its client sends as many again, are not kept.
#[test]
fn a_request_that_never_quite_leaves_is_bounded() {
    let wire = Wire::of(b"", &[]);
    let (mut transfer, mut ready) = (transfer(Method::Post, BodyLength::Known((1 << 30).into())), READY);
    let mut pushed = 0;
    for _ in 0..2000 {
        let part = transfer.room().min(5000);
        transfer.push_request(&vec![7; part], false);
        pushed += part;
        (*wire.takes.borrow_mut(), ready.is_writable) = (Some(4000), true);
        over(&wire, &mut ready).send(&mut transfer, Nanos::ZERO).unwrap();
    }
    assert!(transfer.account().bytes() <= 4 * (64 << 10), "{} bytes", transfer.account().bytes());
    assert!(pushed > 7_000_000 && wire.sent.borrow()[8..].iter().all(|byte| *byte == 7));
}

/// The end of a body may arrive alone: from then on the upstream is awaited.
#[test]
fn an_upstream_has_its_time_when_the_request_is_whole() {
    let wire = Wire::of(b"", &[]);
    let (mut transfer, mut ready) = (transfer(Method::Post, BodyLength::Known(5.into())), READY);
    transfer.push_request(b"hello", false);
    over(&wire, &mut ready).send(&mut transfer, Nanos::ZERO).unwrap();
    assert!(!transfer.deadline.is_set());
    transfer.push_request(b"", true);
    over(&wire, &mut ready).send(&mut transfer, Nanos::ZERO).unwrap();
    assert!(transfer.deadline.is_set());
}

/// The client of an upload on a stream has no time of its own while the upstream takes nothing.
#[test]
fn a_client_is_waited_for_once_all_that_came_is_sent() {
    let wire = Wire::of(b"", &[]);
    let mut transfer = transfer(Method::Post, BodyLength::Known((1 << 20).into())).on_stream();
    transfer.connection = None;
    assert!(transfer.is_on_stream() && transfer.waits_for_client(), "its beginning is gathered");
    transfer.connect(0, true, Nanos::ZERO);
    for (takes, waits_for_client) in [(0, false), (usize::MAX, true)] {
        *wire.takes.borrow_mut() = Some(takes);
        transfer.push_request(&[7; 10], false);
        over(&wire, &mut { READY }).send(&mut transfer, Nanos::ZERO).unwrap();
        assert_eq!((transfer.waits_for_client(), transfer.deadline.is_set()), (waits_for_client, !waits_for_client));
    }
}

#[test]
fn interim_responses_are_passed_on_but_for_leave_and_those_past_the_bound() {
    let hint = |bytes: usize| format!("HTTP/1.1 103 Early Hints\r\nLink: {}\r\n\r\n", "x".repeat(bytes));
    let text =
        ["HTTP/1.1 100 Continue\r\n\r\n", &hint(10_000), &hint(10_000), &hint(10), "HTTP/1.1 204 No Content\r\n\r\n"];
    let wire = Wire::of(text.concat().as_bytes(), &[7, 12_000]);
    let (mut transfer, mut ready, mut scratch) = (transfer(Method::Get, BodyLength::None), READY, [0; 1000]);
    let mut came = Vec::new();
    while !transfer.is_answered() {
        let head = on(&wire, &mut ready, &mut scratch).read_head(&mut transfer, Nanos::ZERO).unwrap();
        came.extend(head.map(|head| (head.status.0, head.values("link").map(<[u8]>::len).sum())));
        ready = READY;
    }
    assert_eq!(came, [(103, 10_000), (103, 10), (204, 0)]);
}
