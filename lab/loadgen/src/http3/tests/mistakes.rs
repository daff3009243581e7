//! Servers that break the protocol, in known ways and at random.

use proptest::prelude::*;
use record::Outcome::{self, Complete, Incomplete, Wrong};

use super::super::REQUEST_REJECTED;
use super::super::fault::Fault;
use super::rig::{Rig, plan_of};
use super::server::{Act, Limits, Request, answer, frame, goaway, response};
use crate::exchange::Next;
use crate::testing::Jobs;
use ::quic::codec;

/// Runs two jobs, the second of which is answered by `acts`. Returns their outcomes, and the codes with which the
/// client closed the connection.
fn two(acts: Vec<Act>) -> (Vec<Outcome>, Vec<u64>) {
    let (plan, mut source) = (plan_of(9), Jobs::of(&[10; 2]));
    let mut rig = Rig::new(&plan, &mut source, Limits::default(), move |request: Request| match request.stream {
        0 => vec![],
        _ => acts.clone(),
    });
    rig.ask(2);
    rig.run();
    if rig.next == Next::Continue {
        rig.server.act(rig.now, &answer(0, 10));
        rig.run();
    }
    let closed = rig.server.closed.clone();
    (rig.outcomes(), closed)
}

fn ended(bytes: &[u8]) -> Vec<Act> {
    vec![Act::Write(4, bytes.to_vec()), Act::Finish(4)]
}

#[test]
fn a_wrong_response_is_its_own_jobs_alone() {
    let error = frame(codec::HEADERS, &[0, 0, 0xff, 0x08]);
    for (acts, case) in [
        (ended(&response(9)), "a short body"),
        (ended(&response(11)), "a long body"),
        (ended(&error), "500"),
        (ended(b""), "nothing"),
        (ended(&frame(codec::HEADERS, &[0, 0, 0xd8])), "an interim response alone"),
        (ended(&frame(codec::HEADERS, &[0, 0])), "no status"),
    ] {
        assert_eq!(two(acts), (vec![Complete, Wrong], vec![]), "{case}");
    }
}

#[test]
fn bytes_without_meaning_end_the_connection() {
    let control = |bytes: &[u8]| vec![Act::Control(bytes.to_vec())];
    for acts in [
        ended(&response(10)[..15]),
        ended(&frame(codec::DATA, b"0123456789")),
        ended(&frame(codec::HEADERS, &[0, 0, 0x80])),
        control(&frame(codec::GOAWAY, &[])),
    ] {
        let (outcomes, closed) = two(acts);
        assert_eq!(closed, [u64::from(Fault::Connection.code())]);
        // Jobs given back by GOAWAY are requested elsewhere.
        assert!(outcomes == [Wrong, Wrong] || outcomes == [Wrong, Incomplete], "{outcomes:?}");
    }
}

#[test]
fn streams_of_unknown_types_are_passed_over() {
    let unknown: Vec<Act> = (0..99).map(|_| Act::Uni(b"\x21whatever".to_vec())).collect();
    let acts = [unknown, ended(&response(10))].concat();
    assert_eq!(two(acts), (vec![Complete, Complete], vec![]));
}

/// Datagrams that do not belong to the connection have no effect.
#[test]
fn datagrams_of_others_are_passed_over() {
    let (plan, mut source) = (plan_of(9), Jobs::of(&[10; 2]));
    let mut rig = Rig::new(&plan, &mut source, Limits::default(), |request| answer(request.stream, 10));
    rig.ask(1);
    for datagram in [&b""[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", &[0xff; 1200], &[0x40; 1200], &[0; 9]] {
        rig.requests.receive(rig.now, None, datagram);
    }
    rig.run();
    rig.ask(1);
    rig.requests.receive(rig.now, None, &[0x55; 60]);
    rig.run();
    assert_eq!(rig.outcomes(), [Complete, Complete]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the server sends and whatever is lost, each job ends at most once (the ledger would panic), no job ends
    /// after it was given back, and all jobs of a closed connection end.
    #[test]
    fn any_server_ends_jobs_once(pieces in prop::collection::vec((0..11_usize, 0..4_u8), 0..12), noise: Vec<u8>, lost in 5..99_u64) {
        let piece = |&(piece, n): &(usize, u8)| {
            let stream = 4 * u64::from(n);
            match piece {
                0 | 1 => answer(stream, 10),
                2 => vec![Act::Reset(stream, REQUEST_REJECTED)],
                3 => vec![goaway(4 * n)],
                4 => vec![Act::Write(stream, response(10)[..9].to_vec())],
                5 => vec![Act::Finish(stream)],
                6 => vec![Act::Write(stream, noise.clone())],
                7 => vec![Act::Control(noise.clone())],
                8 => vec![Act::Uni(noise.clone())],
                9 => vec![Act::Close(0x100)],
                _ => vec![Act::Write(stream, frame(u64::from(n), &noise))],
            }
        };
        let acts: Vec<Act> = pieces.iter().flat_map(piece).collect();
        let (plan, mut source) = (plan_of(9), Jobs::of(&[10; 4]));
        let mut come = 0;
        let mut rig = Rig::new(&plan, &mut source, Limits::default(), move |_| {
            come += 1;
            if come == 4 { acts.clone() } else { vec![] }
        });
        rig.is_lost = Box::new(move |n| n % lost == 3);
        rig.ask(4);
        rig.run();
        rig.is_lost = Box::new(|_| true);
        rig.run_until(units::Nanos::from_secs(200));
        let mut unheard = rig.requests.take_unheard();
        unheard.sort_unstable();
        prop_assert!(unheard.windows(2).all(|pair| pair[0] != pair[1]), "given back twice: {:?}", unheard);
        for (job, outcome) in rig.outcomes().into_iter().enumerate() {
            prop_assert_eq!(outcome == Incomplete, unheard.contains(&job), "{} {:?}", job, outcome);
        }
    }
}
