//! The proxy alone: the test plays the upstreams, and the event loop records what it has to do.

mod names;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;

use config::UpstreamAddress;
use http::{BodyLength, Method};
use rustix::io::Errno;
use sched::upstream_queue::Bounds;
use units::memory::{Account, Charge};

use super::*;
use crate::body::{PIPE_BYTES_MAX, Pipe};
use crate::disk::Room;
use crate::net::{Connecting, FarEnd};
use crate::upstream::resolver::Names;
use crate::upstream::{ClientConnection, Group, UpstreamPlaces};
use crate::wake::Wake;

/// An upstream's end of a connection.
#[derive(Debug, Default)]
struct Far {
    /// The bytes that it was sent.
    sent: RefCell<Vec<u8>>,
    /// The maximum number of bytes that it accepts.
    takes: Cell<usize>,
    /// The bytes that it sends.
    says: RefCell<VecDeque<u8>>,
    has_ended: Cell<bool>,
    /// The number of reads of its bytes.
    asked: Cell<usize>,
}

#[derive(Debug, Clone)]
struct Near(Rc<Far>);

impl FarEnd for Near {
    fn take(&self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0.takes.get() - self.0.sent.borrow().len());
        self.0.sent.borrow_mut().extend_from_slice(&bytes[..taken]);
        if taken == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    fn give(&self, into: &mut [u8]) -> rustix::io::Result<usize> {
        self.0.asked.set(self.0.asked.get() + 1);
        let mut says = self.0.says.borrow_mut();
        let bytes = says.len().min(into.len());
        if bytes == 0 && !self.0.has_ended.get() {
            return Err(Errno::AGAIN);
        }
        into.iter_mut().zip(says.drain(..bytes)).for_each(|(into, byte)| *into = byte);
        Ok(bytes)
    }
}

/// The proxy, and an event loop that records the proxy's effects.
struct Bench {
    net: Connecting<Near>,
    proxy: Proxy<Connecting<Near>>,
    group: Arc<Group>,
    now: Nanos,
    account: Account,
    done: Vec<String>,
    /// The bodies of responses that are being sent.
    sinks: BTreeMap<u64, Pipe>,
    /// While the response of the first begins, the client of the second leaves.
    leaver: Option<(u64, u64)>,
    has_disk: bool,
    /// Request bodies arrive on streams.
    has_streams: bool,
}

/// The exchange of this number, each on a connection of its own.
fn id(number: u64) -> ExchangeId {
    ExchangeId::new(number, 0)
}

const NONE: BodyLength = BodyLength::None;
const FIVE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";

impl Bench {
    fn new(requests_max: u32) -> Bench {
        Bench::among(&[":1"], requests_max)
    }

    /// A proxy with these upstreams.
    fn among(to: &[&str], requests_max: u32) -> Bench {
        Bench::with_names(to, requests_max, &Arc::default())
    }

    /// The same, whose names are looked up with `names`.
    fn with_names(to: &[&str], requests_max: u32, names: &Arc<Names>) -> Bench {
        let to = to.iter().map(|to| UpstreamAddress::new(to).expect("an upstream")).collect();
        let group = Group::new("a", &config::Proxy::of_all(to), &Room::new(1), &|_| unreachable!(), names);
        let bounds = Bounds::halves(requests_max).of_client(requests_max);
        let connect_timeout = Nanos::from_secs(1);
        let group =
            Arc::new(Group { bounds, connect_timeout, spool: Some(Room::new(1)), ..group.expect("an address") });
        let places = Arc::new(UpstreamPlaces::new(&[Arc::new(Wake::new().unwrap())])).of_loop(0);
        let far = || Near(Rc::new(Far { takes: Cell::new(usize::MAX), ..Far::default() }));
        Bench {
            net: Connecting::to(far),
            proxy: Proxy::new(places, ResponseLimits::default(), ClientClock::default()),
            group,
            now: Nanos::from_secs(100),
            account: Account::default(),
            done: Vec::new(),
            sinks: BTreeMap::new(),
            leaver: None,
            has_disk: true,
            has_streams: false,
        }
    }

    fn begin(&mut self, number: u64, method: Method, body: BodyLength) {
        let (group, client) = (Arc::clone(&self.group), ClientConnection::new(&self.account));
        let head = b"HEAD\r\n\r\n".to_vec();
        let transfer = Transfer::new(id(number), group, method, head, body, &self.account, client).unbuffered();
        let transfer = if self.has_streams { transfer.on_stream() } else { transfer };
        self.proxy.begin(&self.net, self.now, transfer).expect("there is room");
        self.run();
    }

    fn far(&self, connection: usize) -> Rc<Far> {
        Rc::clone(&self.net.made.borrow()[connection].0)
    }

    /// Lets this time pass, and lets the proxy check its deadlines.
    fn pass(&mut self, span: Nanos) -> Vec<String> {
        self.now += span;
        self.proxy.end_late(&self.net, self.now);
        self.run();
        self.take_done()
    }

    /// Returns what is done when a connection is ready, on which its upstream has sent this.
    fn hear(&mut self, connection: usize, text: &str) -> Vec<String> {
        self.hear_in_slot(connection, connection, text)
    }

    /// The same, for a connection that took the slot of one that was closed.
    fn hear_in_slot(&mut self, connection: usize, slot: usize, text: &str) -> Vec<String> {
        self.far(connection).says.borrow_mut().extend(text.as_bytes());
        self.proxy.on_ready(&self.net, self.now, slot, EventFlags::IN | EventFlags::OUT);
        self.run();
        self.take_done()
    }

    fn take_done(&mut self) -> Vec<String> {
        std::mem::take(&mut self.done)
    }

    fn run(&mut self) {
        while let Some(effect) = self.proxy.poll(&self.net, self.now) {
            self.apply(effect);
        }
    }

    fn apply(&mut self, effect: Effect) {
        let done = match effect {
            Effect::Interim { id, head } => format!("{} interim {}", id.token(), head.status.0),
            Effect::Respond(begun) => return self.respond(*begun),
            Effect::Named(named) => format!("{} named {}", named.id.token(), String::from_utf8_lossy(&named.path)),
            Effect::Intercepted { id, head } => format!("{} gives a page for {}", id.token(), head.status.0),
            Effect::Body { id } => {
                let sink = self.sinks.get_mut(&id.token()).expect("it is being sent");
                self.proxy.read_body(&self.net, self.now, id, sink);
                format!("{} has {} bytes", id.token(), sink.queued().len())
            }
            Effect::ReadRequest { id } => format!("{} may send", id.token()),
            Effect::Upload { id, is_awaited: true } => format!("{} is awaited", id.token()),
            Effect::Upload { id, is_awaited: false } => format!("{} waits", id.token()),
            Effect::Spool { id, .. } => {
                if self.has_disk {
                    self.proxy.on_spooled(id);
                }
                format!("{} spools", id.token())
            }
            Effect::Ended { id, measured: Some(measured), .. } => {
                format!("{} ends of {}", id.token(), measured.body_bytes)
            }
            Effect::Ended { id, measured: None, .. } => format!("{} leaves", id.token()),
            Effect::Failed { id, fault, is_sending, .. } => {
                format!("{} {} with {}", id.token(), if is_sending { "is cut" } else { "fails" }, fault.status().0)
            }
            Effect::Said { said, .. } => format!("said {said}"),
            Effect::Note(line) => line,
        };
        self.done.push(done);
    }

    /// Sends a whole body at once, as for a small response, and begins another one.
    fn respond(&mut self, begun: Begun) {
        let Begun { id: exchange, head, pipe, rest, tried } = begun;
        let (number, upstream) = (exchange.token(), tried.unwrap().upstream);
        let bytes = pipe.as_ref().map_or(0, |pipe| pipe.queued().len());
        self.done.push(format!("{number} responds {} with {bytes} of {upstream}", head.status.0));
        if let Some((_, leaver)) = self.leaver.take_if(|(responding, _)| *responding == number) {
            self.proxy.leave(&self.net, self.now, id(leaver));
            self.run();
        }
        let pipe = pipe.filter(Pipe::is_awaited);
        let curve = self.proxy.on_sent(&self.net, self.now, (exchange, rest, None), pipe.is_some());
        assert!(curve.is_none(), "nothing is known of its route");
        self.sinks.extend(pipe.map(|pipe| (number, pipe)));
    }

    /// Lets the client take everything that waits for it.
    fn take_body(&mut self, number: u64) -> Vec<u8> {
        let pipe = self.sinks.get_mut(&number).expect("it is being sent");
        let taken = pipe.queued().to_vec();
        pipe.advance(taken.len());
        taken
    }
}

#[test]
fn a_response_of_known_length_comes_in_parts_and_its_connection_is_kept() {
    let mut bench = Bench::new(8);
    bench.begin(1, Method::Get, NONE);
    assert!(bench.take_done().is_empty() && bench.far(0).sent.borrow().is_empty(), "it is connecting");
    assert!(bench.hear(0, "").is_empty());
    assert_eq!(*bench.far(0).sent.borrow(), b"HEAD\r\n\r\n");
    assert_eq!(bench.hear(0, &format!("{FIVE}hel")), ["1 responds 200 with 3 of 127.0.0.1:1"]);
    assert_eq!(bench.hear(0, "lo"), ["1 has 5 bytes", "1 ends of 5"]);
    assert_eq!(bench.take_body(1), b"hello");
    assert!((bench.proxy.upstreams().transfers(), bench.net.closed.get()) == (0, 0));
    // A body that comes with its head is whole when its response begins.
    bench.begin(2, Method::Get, NONE);
    assert_eq!(bench.hear(0, &format!("{FIVE}hello")), ["2 responds 200 with 5 of 127.0.0.1:1", "2 ends of 5"]);
    assert_eq!(bench.net.made.borrow().len(), 1, "one connection for both");
}

#[test]
fn a_failure_is_an_error_before_the_head_and_a_cut_after_it() {
    for (text, failed) in [
        ("", vec!["1 ends of 0", "1 fails with 502"]),
        (FIVE, vec!["1 has 0 bytes", "1 ends of 0", "1 is cut with 502"]),
    ] {
        let mut bench = Bench::new(8);
        bench.begin(1, Method::Post, NONE);
        bench.hear(0, text);
        bench.far(0).has_ended.set(true);
        assert_eq!(bench.hear(0, ""), failed);
        assert_eq!((bench.proxy.upstreams().transfers(), bench.net.closed.get()), (0, 1));
    }
}

#[test]
fn an_upstream_that_is_too_slow_fails() {
    let mut bench = Bench::new(8);
    bench.begin(1, Method::Get, NONE);
    bench.hear(0, "");
    bench.proxy.end_late(&bench.net, bench.now);
    bench.run();
    assert!(bench.take_done().is_empty(), "it has time");
    bench.now += bench.group.read_timeout;
    bench.proxy.end_late(&bench.net, bench.now);
    bench.run();
    assert_eq!(bench.take_done(), ["1 ends of 0", "1 fails with 504"]);
}

/// Its packets are dropped, so the connection has no event.
#[test]
fn an_upstream_that_is_off_costs_time_and_no_request() {
    let mut bench = Bench::among(&[":1", ":2"], 8);
    bench.begin(1, Method::Post, NONE);
    let connect_timeout = bench.group.connect_timeout;
    assert!(bench.pass(connect_timeout).is_empty(), "it goes on at the other");
    let done = bench.hear_in_slot(1, 0, &format!("{FIVE}hello"));
    assert_eq!(done, ["1 responds 200 with 5 of 127.0.0.1:2", "1 ends of 5"]);
    // The others avoid it for a while.
    bench.begin(2, Method::Post, NONE);
    bench.begin(3, Method::Post, NONE);
    let done = bench.hear_in_slot(1, 0, &format!("{FIVE}hello"));
    assert_eq!(done, ["2 responds 200 with 5 of 127.0.0.1:2", "2 ends of 5"]);
    // If both are unreachable, the client gets a response after the first: it has waited long enough.
    assert_eq!(bench.pass(connect_timeout), ["3 ends of 0", "3 fails with 504"]);
    assert_eq!((bench.proxy.upstreams().transfers(), bench.net.made.borrow().len()), (0, 3));
}

#[test]
fn an_upstream_that_says_nothing_is_avoided_for_a_while() {
    let mut bench = Bench::among(&[":1", ":2"], 8);
    bench.begin(1, Method::Get, NONE);
    bench.hear(0, "");
    let read_timeout = bench.group.read_timeout;
    assert_eq!(bench.pass(read_timeout), ["1 ends of 0", "1 fails with 504"], "it may have been processed");
    for number in 2..6 {
        bench.begin(number, Method::Get, NONE);
        let done = bench.hear_in_slot(1, 0, &format!("{FIVE}hello"));
        assert_eq!(done[0], format!("{number} responds 200 with 5 of 127.0.0.1:2"));
    }
}

#[test]
fn upstreams_with_as_much_to_do_take_turns() {
    let mut bench = Bench::among(&[":1", ":2", ":3"], 8);
    for number in 0..6 {
        bench.begin(number, Method::Get, NONE);
        let upstream = number % 3 + 1;
        let done = bench.hear(upstream as usize - 1, &format!("{FIVE}hello"));
        assert_eq!(done[0], format!("{number} responds 200 with 5 of 127.0.0.1:{upstream}"));
    }
}

/// The received bytes would be taken for the response to the next request.
#[test]
fn a_connection_on_which_something_has_come_is_not_used_again() {
    let mut bench = Bench::new(8);
    bench.begin(1, Method::Get, NONE);
    bench.hear(0, &format!("{FIVE}hello"));
    // Its event comes later than the next request.
    bench.far(0).says.borrow_mut().extend(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno");
    bench.begin(2, Method::Get, NONE);
    assert_eq!((bench.net.made.borrow().len(), bench.net.closed.get()), (2, 1));
    let done = bench.hear_in_slot(1, 0, &format!("{FIVE}hello"));
    assert_eq!(done, ["2 responds 200 with 5 of 127.0.0.1:1", "2 ends of 5"]);
}

/// A bench with an idle connection. Unless `is_fresh`, the connection was made before the last report.
fn idle(is_fresh: bool, is_left: bool) -> Bench {
    let mut bench = Bench::new(8);
    bench.begin(1, Method::Get, NONE);
    bench.hear(0, &format!("{FIVE}hello"));
    bench.net.reports.set(u64::from(!is_fresh));
    bench.net.is_left.set(is_left);
    bench
}

/// The connection is between its last response and the next report while its event waits to be handled, and the request
/// would be lost with it.
#[test]
fn an_idle_connection_of_which_an_event_may_be_missing_is_asked() {
    for (method, is_fresh, is_left) in
        [(Method::Get, true, false), (Method::Get, false, true), (Method::Post, false, false)]
    {
        for text in ["", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno"] {
            let mut bench = idle(is_fresh, is_left);
            bench.far(0).says.borrow_mut().extend(text.as_bytes());
            bench.far(0).has_ended.set(text.is_empty());
            bench.begin(2, method, NONE);
            let closed = (bench.net.made.borrow().len(), bench.net.closed.get());
            assert_eq!(closed, (2, 1), "{method:?} {is_fresh} {is_left} {text}");
        }
    }
}

#[test]
fn an_idle_connection_is_used_again_without_asking_and_closed_by_its_event() {
    let mut bench = idle(false, false);
    let asked = bench.far(0).asked.get();
    bench.begin(2, Method::Get, NONE);
    assert_eq!((bench.net.made.borrow().len(), bench.far(0).asked.get()), (1, asked), "its response has not come");
    for text in ["", "x"] {
        let mut bench = idle(false, false);
        bench.far(0).has_ended.set(text.is_empty());
        assert!(bench.hear(0, text).is_empty());
        bench.begin(2, Method::Get, NONE);
        assert_eq!((bench.net.made.borrow().len(), bench.net.closed.get()), (2, 1), "{text}");
    }
}

/// Its upstream has closed it after the last report.
#[test]
fn a_request_that_meets_the_end_of_an_idle_connection_is_repeated() {
    let mut bench = idle(false, false);
    bench.far(0).has_ended.set(true);
    bench.begin(2, Method::Get, NONE);
    assert!(bench.hear(0, "").is_empty());
    assert_eq!((bench.net.made.borrow().len(), bench.net.closed.get()), (2, 1));
    let done = bench.hear_in_slot(1, 0, &format!("{FIVE}hello"));
    assert_eq!(done, ["2 responds 200 with 5 of 127.0.0.1:1", "2 ends of 5"]);
}

/// An upstream that announces a body in answer to HEAD may send it.
#[test]
fn a_connection_whose_upstream_may_send_more_is_not_used_again() {
    for (method, head) in [
        (Method::Head, FIVE),
        (Method::Head, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        (Method::Get, "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ] {
        let mut bench = Bench::new(8);
        bench.begin(1, method, NONE);
        bench.hear(0, head);
        bench.begin(2, Method::Get, NONE);
        assert_eq!((bench.net.made.borrow().len(), bench.net.closed.get()), (2, 1), "{method:?} {head}");
    }
}

#[test]
fn what_an_upstream_sends_to_a_client_that_has_left_is_not_read() {
    let mut bench = Bench::new(8);
    bench.begin(1, Method::Get, NONE);
    bench.hear(0, &format!("{FIVE}hel"));
    assert!(bench.proxy.needs_client(id(1)) && !bench.proxy.has_tunnel(id(1)));
    bench.proxy.leave(&bench.net, bench.now, id(1));
    bench.run();
    assert_eq!(bench.take_done(), ["1 leaves"]);
    assert_eq!((bench.net.closed.get(), bench.proxy.upstreams().transfers()), (1, 0));
    assert!(bench.hear(0, "lo").is_empty() && !bench.proxy.needs_client(id(1)));
    bench.proxy.leave(&bench.net, bench.now, id(1));
    assert!(bench.proxy.poll(&bench.net, bench.now).is_none(), "once");
}

/// The event loop may end one exchange while it applies the effect of another.
#[test]
fn a_client_may_leave_while_the_response_of_another_begins() {
    let mut bench = Bench::new(8);
    bench.begin(1, Method::Get, NONE);
    bench.begin(2, Method::Get, NONE);
    bench.leaver = Some((2, 1));
    bench.far(1).says.borrow_mut().extend(format!("{FIVE}hel").bytes());
    bench.proxy.on_ready(&bench.net, bench.now, 1, EventFlags::IN | EventFlags::OUT);
    let done = bench.hear(0, &format!("{FIVE}hel"));
    assert_eq!(done, ["2 responds 200 with 3 of 127.0.0.1:1", "1 leaves", "1 responds 200 with 3 of 127.0.0.1:1"]);
    assert_eq!(bench.hear(1, "lo"), ["2 has 5 bytes", "2 ends of 5"]);
    assert!(bench.hear(0, "lo").is_empty() && bench.proxy.upstreams().transfers() == 0);
}

#[test]
fn interim_responses_come_before_the_response() {
    let mut bench = Bench::new(8);
    bench.begin(1, Method::Get, NONE);
    let hint = "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n";
    assert_eq!(bench.hear(0, hint), ["1 interim 103"]);
    let rest = format!("{hint}{FIVE}hello");
    assert_eq!(bench.hear(0, &rest), ["1 interim 103", "1 responds 200 with 5 of 127.0.0.1:1", "1 ends of 5"]);
}

#[test]
fn a_full_sink_stops_the_body_until_there_is_room() {
    let mut bench = Bench::new(8);
    let body: String = (0..3 * PIPE_BYTES_MAX).map(|at| char::from(b'a' + (at * 7 % 26) as u8)).collect();
    bench.begin(1, Method::Get, NONE);
    bench.hear(0, &format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()));
    let mut came = Vec::new();
    assert_eq!(bench.hear(0, &body), [format!("1 has {PIPE_BYTES_MAX} bytes")]);
    assert_eq!(bench.hear(0, ""), [format!("1 has {PIPE_BYTES_MAX} bytes")], "no more than there is room for");
    while came.len() < body.len() {
        came.extend(bench.take_body(1));
        bench.proxy.refill(id(1));
        bench.run();
    }
    assert!(came == body.as_bytes() && bench.take_done().ends_with(&[format!("1 ends of {}", body.len())]));
    assert_eq!(bench.account.bytes(), 0);
}

#[test]
fn a_full_upstream_stops_the_client_until_there_is_room() {
    let mut bench = Bench::new(8);
    bench.begin(1, Method::Put, BodyLength::Known(100_000.into()));
    bench.far(0).takes.set(8);
    assert_eq!(bench.take_done(), ["1 may send"]);
    assert_eq!(bench.hear(0, ""), ["1 may send"]);
    let room = bench.proxy.request_room(id(1)).unwrap();
    bench.proxy.push_request(id(1), &vec![b'x'; room], false);
    bench.run();
    assert!(bench.take_done().is_empty(), "it must wait");
    assert_eq!(bench.proxy.request_room(id(1)), Some(0));
    bench.far(0).takes.set(usize::MAX);
    assert_eq!(bench.hear(0, ""), ["1 may send"]);
    bench.proxy.push_request(id(1), &vec![b'x'; 100_000 - room], true);
    bench.run();
    assert!(bench.take_done().is_empty(), "there is no more");
    assert_eq!(bench.far(0).sent.borrow().len(), 100_000 + b"HEAD\r\n\r\n".len());
    assert_eq!(bench.proxy.request_room(id(2)), None);
}

#[test]
fn of_an_upload_on_a_stream_the_side_that_is_awaited_is_reported() {
    let mut bench = Bench { has_streams: true, ..Bench::new(8) };
    bench.begin(1, Method::Put, BodyLength::Known(10.into()));
    assert_eq!(bench.take_done(), ["1 waits", "1 may send"], "it is connecting");
    assert_eq!(bench.hear(0, ""), ["1 is awaited", "1 may send"]);
    bench.far(0).takes.set(b"HEAD\r\n\r\n".len());
    bench.proxy.push_request(id(1), &[b'x'; 10], true);
    bench.run();
    assert_eq!(bench.take_done(), ["1 waits"]);
}

#[test]
fn a_request_waits_for_the_place_of_another() {
    let mut bench = Bench::new(1);
    bench.begin(1, Method::Get, NONE);
    bench.begin(2, Method::Get, NONE);
    bench.hear(0, "");
    assert_eq!(bench.far(0).sent.borrow().len(), 8, "one place");
    assert_eq!(bench.hear(0, &format!("{FIVE}hello")), ["1 responds 200 with 5 of 127.0.0.1:1", "1 ends of 5"]);
    assert_eq!((bench.far(0).sent.borrow().len(), bench.net.made.borrow().len()), (16, 1), "on the same connection");
    assert_eq!(bench.hear(0, &format!("{FIVE}hello")), ["2 responds 200 with 5 of 127.0.0.1:1", "2 ends of 5"]);
}

#[test]
fn the_largest_waiting_response_continues_in_a_file_while_half_of_the_places_are_held() {
    for has_disk in [true, false] {
        let mut bench = Bench { has_disk, ..Bench::new(4) };
        for (connection, pipes) in [(0, 2), (1, 3)] {
            let number = connection as u64;
            bench.begin(number, Method::Get, NONE);
            let length = pipes * PIPE_BYTES_MAX;
            bench.hear(connection, &format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"));
            let done = bench.hear(connection, &"x".repeat(length));
            let has_come = format!("{number} has {PIPE_BYTES_MAX} bytes");
            match connection {
                0 => assert_eq!(done, [has_come], "a quarter of the places"),
                _ if has_disk => assert_eq!(done, [has_come.as_str(), "1 spools"]),
                _ => assert_eq!(done, [has_come.as_str(), "1 spools", "0 spools"], "one after the other is tried"),
            }
        }
        bench.proxy.relieve_all();
        bench.run();
        assert_eq!(bench.take_done().len(), if has_disk { 0 } else { 2 });
    }
}

#[test]
fn a_body_that_waits_for_memory_goes_on_when_some_was_given_back() {
    let whole = Account::of_at_most(64 * 8192);
    let mut bench = Bench { account: whole.part(), ..Bench::new(8) };
    let held = Charge::new(&bench.account, 8192);
    bench.begin(1, Method::Get, NONE);
    bench.hear(0, &format!("{FIVE}hello"));
    let before = whole.released_bytes();
    bench.proxy.feed(before);
    bench.run();
    assert!(bench.take_done().is_empty() && !bench.proxy.may_be_fed(before), "nothing was given back");
    drop(held);
    assert!(bench.proxy.may_be_fed(whole.released_bytes()));
    bench.proxy.feed(whole.released_bytes());
    bench.run();
    assert_eq!(bench.take_done(), ["1 has 5 bytes", "1 ends of 5"]);
    assert!(!bench.proxy.may_be_fed(u64::MAX), "nobody waits");
}
