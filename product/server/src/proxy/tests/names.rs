//! Upstreams with names, whose addresses change.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use super::*;
use crate::upstream::resolver::{Name, Names};

/// The proxy of an upstream `app:80`. The test gives each answer to a lookup.
struct Named {
    bench: Bench,
    names: Arc<Names>,
    answers: Sender<io::Result<Vec<SocketAddr>>>,
    answered: u64,
}

impl Named {
    /// A proxy whose name is at `198.18.0.1`.
    fn new() -> Named {
        let mut named = Named::unknown();
        named.answers.send(Ok(vec![address(1)])).unwrap();
        named.names.introduce(&[Name { host: "app".into(), port: 80 }]);
        named.answered += 1;
        named.bench.group.addresses.renew(&named.names);
        named
    }

    /// A proxy whose name was never looked up.
    fn unknown() -> Named {
        let (answers, given) = channel();
        let given = Mutex::new(given);
        let names = Arc::new(Names::by(move |_| given.lock().unwrap().recv().map_err(io::Error::other)?));
        Named { bench: Bench::with_names(&["app:80"], 8, &names), names, answers, answered: 0 }
    }

    /// Lets a lookup be answered, and returns what is done then.
    fn answer(&mut self, last: u8) -> Vec<String> {
        self.answers.send(Ok(vec![address(last)])).unwrap();
        self.names.wait(self.answered, Duration::from_secs(100));
        self.answered += 1;
        self.bench.proxy.release();
        self.bench.run();
        self.bench.take_done()
    }

    fn connect_in_vain(&mut self) -> Vec<String> {
        let connect_timeout = self.bench.group.connect_timeout;
        self.bench.pass(connect_timeout)
    }
}

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([198, 18, 0, last], 80))
}

/// A container that was made anew once had 502 until the next regular lookup.
#[test]
fn a_request_that_cannot_be_connected_waits_for_the_names_new_address() {
    for method in [Method::Get, Method::Post] {
        let mut named = Named::new();
        named.bench.begin(1, method, NONE);
        named.names.forget_times();
        assert!(named.connect_in_vain().is_empty(), "it waits for the answer");
        assert!(named.answer(2).is_empty(), "it connects");
        let done = named.bench.hear_in_slot(1, 0, &format!("{FIVE}hello"));
        assert_eq!(done, ["1 responds 200 with 5 of 198.18.0.2:80", "1 ends of 5"]);
        assert_eq!(named.bench.proxy.upstreams().requests(), 0, "its place is free");
    }
}

#[test]
fn a_request_is_asked_again_at_a_new_address_only_if_that_is_harmless() {
    for (method, is_asked_again) in [(Method::Get, true), (Method::Post, false)] {
        let mut named = Named::new();
        named.bench.begin(1, method, NONE);
        named.bench.hear(0, "");
        named.names.forget_times();
        named.bench.far(0).has_ended.set(true);
        let failed = ["1 ends of 0", "1 fails with 502"];
        assert_eq!(named.bench.hear(0, ""), if is_asked_again { &[][..] } else { &failed });
        assert!(named.answer(2).is_empty(), "the name is looked up in both cases");
        assert_eq!(named.bench.net.made.borrow().len(), if is_asked_again { 2 } else { 1 });
    }
}

#[test]
fn an_upstream_at_its_old_address_fails_as_before_and_is_looked_up_once_a_second() {
    let mut named = Named::new();
    named.bench.begin(1, Method::Get, NONE);
    assert_eq!(named.connect_in_vain(), ["1 ends of 0", "1 fails with 504"], "the last lookup was just now");
    named.names.forget_times();
    named.bench.begin(2, Method::Get, NONE);
    named.bench.begin(3, Method::Get, NONE);
    assert!(named.connect_in_vain().is_empty(), "both wait for one answer");
    let done = named.answer(1);
    assert_eq!(done, ["2 ends of 0", "3 ends of 0", "2 fails with 504", "3 fails with 504"]);
    assert_eq!(named.bench.net.made.borrow().len(), 3);
    named.bench.begin(4, Method::Get, NONE);
    assert_eq!(named.connect_in_vain(), ["4 ends of 0", "4 fails with 504"]);
}

#[test]
fn a_client_waits_no_longer_for_a_lookup_than_for_a_connection() {
    let mut named = Named::new();
    named.bench.begin(1, Method::Get, NONE);
    named.bench.begin(2, Method::Get, NONE);
    named.names.forget_times();
    assert!(named.connect_in_vain().is_empty());
    named.bench.proxy.leave(&named.bench.net, named.bench.now, id(2));
    named.bench.run();
    assert_eq!(named.bench.take_done(), ["2 leaves"]);
    assert_eq!(named.connect_in_vain(), ["1 ends of 0", "1 fails with 504"]);
    assert!(named.answer(2).is_empty(), "no request waits any more");
}

#[test]
fn the_first_request_of_a_name_that_was_not_found_looks_it_up() {
    let mut named = Named::unknown();
    named.bench.begin(1, Method::Post, NONE);
    assert!(named.bench.take_done().is_empty() && named.answer(1).is_empty());
    let done = named.bench.hear(0, &format!("{FIVE}hello"));
    assert_eq!(done, ["1 responds 200 with 5 of 198.18.0.1:80", "1 ends of 5"]);
}
