//! The life of connections: how they start, move and end.

use std::net::SocketAddr;

use http2::{Event, Priority, Stop};
use proptest::prelude::*;
use units::Nanos;

use super::rig::*;
use crate::endpoint::HALF_OPEN_MAX;
use crate::testing::*;
use crate::{Arrival, Datagrams, Key, Session, Settings};

fn address(number: usize) -> SocketAddr {
    SocketAddr::from(([198, 18, (number >> 8) as u8, number as u8], 5000))
}

/// Returns a new client and its first datagram.
fn first(number: usize) -> (Client, Vec<u8>) {
    let _ = number;
    let mut client = Client::new(Nanos(0), SERVER.parse().unwrap(), "localhost", Windows::default());
    let datagram = client.transmit(Nanos(0)).expect("a first datagram");
    (client, datagram)
}

#[test]
fn a_client_cancels_a_response() {
    let mut rig = Rig::connected();
    let stream = rig.client.request("/", &[]);
    rig.run();
    assert!(rig.session().respond(stream, &head(None), true));
    let mut body = Counting { at: 0, size: 1 << 20 };
    assert_eq!(rig.session().write(stream, 5000, &mut body).stop, Stop::Room);
    rig.make(5000);
    rig.client.stop(stream, 0x10c);
    rig.run();
    assert_eq!(rig.closed(), [stream]);
    assert_eq!(rig.session().write(stream, 5000, &mut Untouched).stop, Stop::Closed);
    assert_eq!((rig.session().priority(stream), rig.session().stream_window(stream)), (None, None));
    assert!(!rig.session().respond(stream, &head(None), true));
    let other = rig.client.request("/", &[]);
    rig.run();
    rig.answer(other, 3000);
    rig.run();
    assert_eq!(rig.client.response(other).body, counted(3000));
}

#[test]
fn a_client_takes_back_a_request_that_is_not_whole() {
    let mut rig = Rig::connected();
    let stream = rig.client.open();
    rig.client.send(id(stream), &request("/", &[]));
    rig.run();
    assert_eq!(rig.requests(), [stream]);
    rig.client.reset(id(stream), 0x10c);
    rig.run();
    assert_eq!(rig.closed(), [stream]);
    assert_eq!(rig.client.came(id(stream)).reset, Some(0x10c));
}

#[test]
fn we_cancel_a_response() {
    let mut rig = Rig::connected();
    let stream = rig.client.request("/", &[]);
    rig.run();
    rig.session().cancel(stream);
    rig.session().cancel(stream);
    rig.run();
    assert_eq!(rig.closed(), [stream]);
    assert_eq!(rig.client.came(id(stream)).reset, Some(0x102));
}

#[test]
fn a_request_whose_body_nobody_wants() {
    let mut rig = Rig::connected();
    let stream = rig.client.open();
    rig.client.send(id(stream), &request("/", &[(":method", "POST")][..0]));
    rig.client.send(id(stream), &frame(DATA, &[0; 1000]));
    rig.run();
    rig.answer(stream, 100);
    rig.run();
    assert_eq!(rig.closed(), [stream]);
    assert_eq!(rig.client.response(stream).body, counted(100));
    assert_eq!(rig.client.came(id(stream)).stopped, Some(0x100));
}

#[test]
fn wishes_are_heard() {
    let mut rig = Rig::connected();
    let of = |urgency, is_incremental| Some(Priority { urgency, is_incremental });
    let [plain, said] = [rig.client.request("/", &[]), rig.client.request("/", &[("priority", "u=5, i")])];
    rig.run();
    assert_eq!(rig.session().priority(plain), of(3, false));
    assert_eq!(rig.session().priority(said), of(5, true));
    rig.events.clear();
    rig.client.priority_update(said, "u=1");
    // A priority for a future request overrides the request's own.
    rig.client.priority_update(said + 1, "u=0, i");
    rig.run();
    assert_eq!(rig.events, [Event::Priority { stream: said }]);
    assert_eq!(rig.session().priority(said), of(1, false));
    let next = rig.client.request("/", &[("priority", "u=7")]);
    rig.run();
    assert_eq!(rig.session().priority(next), of(0, true));
    rig.client.priority_update(plain, "");
    rig.run();
    assert_eq!(rig.session().priority(plain), of(3, false));
}

#[test]
fn going_away() {
    let mut rig = Rig::connected();
    let before = rig.client.request("/", &[]);
    rig.run();
    assert!(!rig.session().awaits_farewell());
    rig.session().go_away();
    rig.session().go_away();
    assert!(rig.session().awaits_farewell());
    let after = rig.client.request("/", &[]);
    rig.run();
    assert_eq!(rig.requests(), [before]);
    assert!(!rig.session().awaits_farewell(), "it is acknowledged");
    assert_eq!(rig.client.came(id(after)).reset, Some(0x10b));
    let control = rig.client.server_streams().remove(0);
    assert!(control.bytes.ends_with(&[7, 1, 4]), "{:?}", control.bytes);
    rig.answer(before, 1000);
    rig.run();
    assert!(rig.client.response(before).is_whole);
    let now = rig.now;
    rig.session().close(now, 0x100, "");
    rig.run();
    assert_eq!(rig.client.close_code(), Some(0x100));
    assert!(rig.session().has_ended());
}

#[test]
fn a_client_leaves() {
    let mut rig = Rig::connected();
    let stream = rig.client.request("/", &[]);
    rig.run();
    rig.client.close(rig.now, 0x100);
    rig.run();
    assert_eq!(rig.closed(), [stream]);
    assert_eq!(rig.broken, None);
    assert!(rig.session().has_ended());
}

#[test]
fn an_idle_connection_ends() {
    let mut rig = Rig::with(&Settings { idle_timeout: Nanos::from_secs(3), ..Settings::default() }, Windows::default());
    rig.connect();
    let before = rig.now;
    rig.run_until(|rig| rig.session().has_ended());
    let idle = rig.now - before;
    assert!(idle >= Nanos::from_secs(1) && idle <= Nanos::from_secs(3), "{idle:?}");
    assert_eq!(rig.broken, None);
}

#[test]
fn a_response_may_wait_longer_than_the_idle_timeout() {
    let mut rig = Rig::connected();
    let stream = rig.client.request("/", &[]);
    rig.run_for(Nanos::from_secs(80));
    assert_eq!((&rig.client.lost, &rig.broken), (&None, &None));
    rig.answer(stream, 1000);
    rig.run();
    assert_eq!(rig.client.response(stream).body, counted(1000));
    // A client that receives nothing ends all the same, later by the time of one PING.
    rig.client.request("/", &[]);
    rig.run();
    rig.passes = Box::new(|_| false);
    let before = rig.now;
    rig.run_until(|rig| rig.session().has_ended());
    assert!(rig.now - before <= Nanos::from_secs(40), "{:?}", rig.now - before);
}

#[test]
fn a_client_moves() {
    let mut rig = Rig::connected();
    let stream = rig.client.request("/", &[]);
    rig.run();
    rig.answer(stream, 300_000);
    rig.run_until(|rig| rig.client.response(stream).body.len() > 10_000);
    rig.client_address = "198.18.0.3:6000".parse().unwrap();
    rig.run();
    rig.run();
    let now_at = rig.client_address;
    assert_eq!(rig.session().peer(), now_at);
    let response = rig.client.response(stream);
    assert_eq!((response.body.len(), response.is_whole), (300_000, true));
}

#[test]
fn a_connection_that_nobody_knows_any_more_is_reset() {
    let mut rig = Rig::connected();
    rig.sessions.clear();
    rig.client.request("/", &[("a", &"b".repeat(500))]);
    rig.run();
    assert_eq!(rig.client.lost.as_ref().map(ToString::to_string).as_deref(), Some("reset by peer"));
}

#[test]
fn sessions_go_from_thread_to_thread() {
    fn is_send<T: Send>() {}
    is_send::<Session>();
    is_send::<crate::Endpoint>();
    is_send::<crate::Incoming>();
}

#[test]
fn garbage_is_ignored() {
    let endpoint = endpoint(&Settings::default());
    let mut out = Datagrams::new();
    for datagram in [&[][..], &[0], &[0x40; 20], &[0xc0; 1200], &[0xff; 5], b"GET / HTTP/1.1\r\n\r\n"] {
        let arrival = endpoint.receive(Nanos(0), address(1), None, None, datagram, &mut out);
        assert!(matches!(arrival, Arrival::Ignored), "{datagram:?}");
        assert!(out.is_empty());
    }
}

#[test]
fn other_versions_are_told_of_ours() {
    let endpoint = endpoint(&Settings::default());
    let (_, mut datagram) = first(1);
    datagram[1..5].copy_from_slice(&[0xba, 0xba, 0xba, 0xba]);
    let mut out = Datagrams::new();
    assert!(matches!(endpoint.receive(Nanos(0), address(1), None, None, &datagram, &mut out), Arrival::Answered));
    let answer = out.first().unwrap();
    assert_eq!(answer.to, address(1));
    assert_eq!(answer.bytes[1..5], [0, 0, 0, 0]);
    // After the two connection IDs there is version 1 alone, apart from a reserved version (RFC 9000 section 15).
    let ids_end = 5 + 1 + usize::from(answer.bytes[5]);
    let listed = &answer.bytes[ids_end + 1 + usize::from(answer.bytes[ids_end])..];
    let versions: Vec<&[u8]> =
        listed.chunks(4).filter(|version| version.iter().any(|byte| byte & 0x0f != 0x0a)).collect();
    assert_eq!(versions, [[0, 0, 0, 1]]);
    out.advance();
    assert!(out.is_empty());
}

#[test]
fn many_handshakes_make_clients_prove_their_address() {
    let endpoint = endpoint(&Settings::default());
    let mut sessions: Vec<Session> = Vec::new();
    let mut out = Datagrams::new();
    for number in 0..HALF_OPEN_MAX {
        let (_, datagram) = first(number);
        match endpoint.receive(Nanos(0), address(number), None, None, &datagram, &mut out) {
            Arrival::New(attempt) => sessions.extend(endpoint.accept(Nanos(0), attempt, Key(number as u64), &mut out)),
            _ => panic!("client {number} was not taken"),
        }
    }
    let (mut client, datagram) = first(HALF_OPEN_MAX);
    let from = address(HALF_OPEN_MAX);
    assert!(matches!(endpoint.receive(Nanos(0), from, None, None, &datagram, &mut out), Arrival::Answered));
    let retry = out.first().unwrap().bytes.to_vec();
    assert_eq!(retry[0] >> 4, 0xf, "a Retry");
    client.receive(Nanos(0), &retry);
    let again = client.transmit(Nanos(0)).unwrap();
    out.clear();
    // The token is invalid from another address, has expired after 16 s, and is valid here and now.
    assert!(matches!(endpoint.receive(Nanos(0), address(0), None, None, &again, &mut out), Arrival::Answered));
    assert!(matches!(endpoint.receive(Nanos::from_secs(16), from, None, None, &again, &mut out), Arrival::Answered));
    let begin = |arrival, out: &mut Datagrams| match arrival {
        Arrival::New(attempt) => endpoint.accept(Nanos(0), attempt, Key(HALF_OPEN_MAX as u64), out),
        _ => None,
    };
    let arrival = endpoint.receive(Nanos(0), from, None, None, &again, &mut out);
    assert!(begin(arrival, &mut out).is_some());
    // With one handshake fewer, no proof is requested.
    sessions.pop();
    let (_, datagram) = first(1);
    let arrival = endpoint.receive(Nanos(0), address(500), None, None, &datagram, &mut out);
    assert!(begin(arrival, &mut out).is_some());
}

#[test]
fn more_connections_than_allowed_are_refused() {
    let endpoint = endpoint(&Settings { connections_max: 2, ..Settings::default() });
    let mut out = Datagrams::new();
    let mut receive = |number| {
        let (_, datagram) = first(number);
        match endpoint.receive(Nanos(0), address(number), None, None, &datagram, &mut out) {
            Arrival::New(attempt) => endpoint.accept(Nanos(0), attempt, Key(number as u64), &mut out),
            Arrival::Answered => None,
            _ => panic!("a first datagram of client {number}"),
        }
    };
    let [Some(_kept), Some(dropped)] = [receive(1), receive(2)] else { panic!("two are allowed") };
    assert!(receive(3).is_none());
    drop(dropped);
    assert!(receive(4).is_some(), "a place was given back");
}

/// A second of waiting while no round trip is known is longer than most whole handshakes.
#[test]
fn what_is_lost_of_a_handshake_is_sent_again_soon() {
    for lost in 1..=3 {
        let mut rig = Rig::new();
        rig.passes = Box::new(move |number| number != lost);
        rig.run_until(|rig| rig.client.is_connected);
        assert!(rig.now < Nanos::from_millis(500), "without datagram {lost} it took {:?}", rig.now);
    }
}

/// A refusal leaves nothing behind, however many there are.
#[test]
fn a_client_that_is_refused_learns_so() {
    let endpoint = endpoint(&Settings::default());
    for number in 0..10 {
        let (mut client, datagram) = first(number);
        let mut out = Datagrams::new();
        let arrival = endpoint.receive(Nanos(0), address(number), None, None, &datagram, &mut out);
        let Arrival::New(attempt) = arrival else { panic!("client {number} was not offered") };
        assert_eq!(attempt.from(), address(number));
        endpoint.refuse(attempt, &mut out);
        client.receive(Nanos(0), out.first().unwrap().bytes);
        let lost = client.lost.expect("it is told");
        assert!(lost.to_string().contains("refused"), "{lost}");
    }
}

/// A port changed by a NAT leads to the client by the same path, whose round trip and window are known.
#[test]
fn another_port_of_ipv4_is_no_new_path() {
    for (client, is_ipv6) in [("198.18.0.2:5000", false), ("[::ffff:198.18.0.2]:5000", true)] {
        let mut rig = Rig::with(&Settings { is_ipv6, ..Settings::default() }, Windows::default());
        rig.client_address = client.parse().unwrap();
        rig.connect();
        let stream = rig.client.request("/", &[]);
        rig.run();
        rig.answer(stream, 1_000_000);
        rig.run();
        assert!(rig.client.response(stream).is_whole);
        let known = (rig.session().path().cwnd_bytes, rig.session().path().datagram_bytes);
        rig.client_address.set_port(6000);
        rig.client.ping();
        rig.run();
        let (session, address) = (&rig.sessions[&Key(1)], rig.client_address);
        assert_eq!((session.peer(), (session.path().cwnd_bytes, session.path().datagram_bytes)), (address, known));
    }
}

#[test]
fn certificates_are_replaced() {
    let mut rig = Rig::new();
    rig.endpoint.replace(&acceptor());
    assert_eq!(rig.session_count(), 0);
    rig.connect();
    assert!(rig.client.is_connected && !rig.session().is_handshaking());
    // Existing connections go on.
    rig.endpoint.replace(&acceptor());
    let stream = rig.client.request("/", &[]);
    rig.run();
    assert_eq!(rig.requests(), [stream]);
}

#[test]
fn a_client_of_another_protocol_is_refused() {
    let mut rig = Rig::new();
    rig.client = Client::of_protocol(b"hq-interop", Nanos(0), SERVER.parse().unwrap(), "localhost", Windows::default());
    rig.run();
    // no_application_protocol (RFC 9001 section 8.1).
    assert!(rig.client.lost.as_ref().is_some_and(|why| why.to_string().contains("120")), "{:?}", rig.client.lost);
    assert!(!rig.client.is_connected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn any_bytes_on_any_stream_do_no_harm(
        streams in proptest::collection::vec((any::<bool>(), 0u8..5, proptest::collection::vec(any::<u8>(), 0..200), any::<bool>()), 1..6),
    ) {
        let mut rig = Rig::new();
        rig.run_until(|rig| rig.client.is_connected);
        for (is_uni, kind, bytes, is_whole) in streams {
            let stream = if is_uni {
                rig.client.uni(&[&[kind][..], &bytes].concat())
            } else {
                let stream = id(rig.client.open());
                rig.client.send(stream, &[&[kind][..], &bytes].concat());
                stream
            };
            if is_whole {
                rig.client.finish(stream);
            }
        }
        rig.run();
        let is_over = rig.session().is_closing();
        prop_assert_eq!(is_over, rig.client.lost.is_some());
    }

    #[test]
    fn any_datagrams_do_no_harm(mut garbage: Vec<u8>, at in 0usize..1200, is_long: bool) {
        let endpoint = endpoint(&Settings::default());
        let (_, mut datagram) = first(1);
        garbage.truncate(1200 - at);
        datagram[at..at + garbage.len()].copy_from_slice(&garbage);
        if !is_long {
            datagram.truncate(at);
        }
        let mut out = Datagrams::new();
        if let Arrival::New(attempt) = endpoint.receive(Nanos(0), address(1), None, None, &datagram, &mut out)
            && let Some(mut session) = endpoint.accept(Nanos(0), attempt, Key(1), &mut out)
        {
            session.make(Nanos(0), usize::MAX, &mut out);
        }
        prop_assert!(out.bytes() <= 3 * 1200);
    }
}
