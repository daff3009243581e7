//! Requests between a client and a server that follow the protocol, and requests that no server answers.

use record::Outcome::{Complete, Incomplete, Refused, Reset, TimedOut, Wrong};
use units::Nanos;

use super::rig::{Rig, plan_of};
use super::server::{Act, CANCELLED, Limits, NO_ERROR, Request, answer, goaway, head_bytes, response};
use crate::exchange::Next;
use crate::testing::Jobs;

fn answers(request: Request) -> Vec<Act> {
    answer(request.stream, request.size)
}

/// Returns a server that answers after this many requests have arrived, the last one first.
fn at_once(requests: usize) -> impl FnMut(Request) -> Vec<Act> + Send + 'static {
    let mut come: Vec<Request> = vec![];
    move |request| {
        come.push(request);
        if come.len() < requests { vec![] } else { come.drain(..).rev().flat_map(answers).collect() }
    }
}

/// Sizes larger than the windows of a stream and of the connection, so that the windows must be reopened, and zero.
const SIZES: [u64; 4] = [20_000_000, 0, 50_000_000, 17];

#[test]
fn bodies_larger_than_the_windows_come_whole() {
    let (plan, mut source) = (plan_of(100), Jobs::of(&SIZES));
    let mut rig = Rig::new(&plan, &mut source, Limits::default(), answers);
    rig.ask(4);
    assert!(rig.requests.has_room() && !rig.requests.is_idle());
    rig.run();
    assert!(rig.requests.is_idle() && rig.next == Next::Continue);
    let records = rig.records();
    let seen: Vec<_> = records.iter().map(|record| (record.outcome, record.body_bytes, record.status)).collect();
    assert_eq!(seen, SIZES.map(|size| (Complete, size, 200)));
    assert_eq!(records.iter().map(|record| record.head_bytes).collect::<Vec<_>>(), SIZES.map(head_bytes));
    assert!(records.iter().all(|record| record.first_byte_ns.unwrap() <= record.end_ns));
}

#[test]
fn nothing_is_missing_where_every_seventh_datagram_is_lost() {
    for which in [1, 2, 6] {
        let (plan, mut source) = (plan_of(100), Jobs::of(&[100_000; 20]));
        let mut rig = Rig::new(&plan, &mut source, Limits::default(), answers);
        rig.is_lost = Box::new(move |n| n % 7 == which);
        rig.ask(20);
        rig.run_until(Nanos::from_secs(60));
        let records = rig.records();
        assert!(records.iter().all(|record| (record.outcome, record.body_bytes) == (Complete, 100_000)), "{records:?}");
    }
}

/// The windows of the server are smaller than the requests together. The rest is written as the windows open.
#[test]
fn requests_wait_for_the_servers_windows() {
    let (plan, mut source) = (plan_of(100), Jobs::of(&[10; 100]));
    let limits = Limits { window_bytes: 500, ..Limits::default() };
    let mut rig = Rig::new(&plan, &mut source, limits, answers);
    rig.ask(100);
    rig.run();
    assert_eq!(rig.outcomes(), [Complete; 100]);
}

#[test]
fn each_answer_has_its_own_instants() {
    let (plan, mut source) = (plan_of(3), Jobs::of(&[10; 3]));
    let mut rig = Rig::new(&plan, &mut source, Limits::default(), |_| vec![]);
    rig.ask(3);
    assert!(!rig.requests.has_room());
    rig.run();
    let whole = response(10);
    let steps = [
        (10, vec![Act::Write(8, whole.clone()), Act::Finish(8)]),
        (11, vec![Act::Write(0, whole[..3].to_vec())]),
        (12, vec![Act::Write(0, whole[3..].to_vec()), Act::Finish(0), Act::Write(4, response(11)), Act::Finish(4)]),
    ];
    for (second, acts) in steps {
        rig.run_until(Nanos::from_secs(second));
        rig.now = Nanos::from_secs(second);
        rig.server.act(rig.now, &acts);
        rig.run_until(rig.now);
        assert_eq!(rig.requests.take_ended().is_some(), second != 11);
    }
    let seconds = |ns: u64| ns / 1_000_000_000;
    let seen: Vec<_> =
        rig.records().iter().map(|r| (r.outcome, r.first_byte_ns.map(seconds), seconds(r.end_ns))).collect();
    assert_eq!(seen, [(Complete, Some(11), 12), (Wrong, Some(12), 12), (Complete, Some(10), 10)]);
}

#[test]
fn the_last_request_of_a_connection_ends_it() {
    let (mut plan, mut source) = (plan_of(3), Jobs::of(&[10; 3]));
    plan.per_connection = 2;
    let mut rig = Rig::new(&plan, &mut source, Limits::default(), answers);
    rig.ask(2);
    assert!(!rig.requests.has_room());
    rig.run();
    assert_eq!(rig.next, Next::Close);
    rig.requests.close(rig.now);
    rig.run();
    assert_eq!(rig.server.closed, [NO_ERROR]);
    assert_eq!(rig.outcomes(), [Complete, Complete]);
}

/// The server announces its limit of concurrent requests in the handshake, and raises it as it answers.
#[test]
fn no_more_at_once_than_the_server_allows() {
    let (plan, mut source) = (plan_of(9), Jobs::of(&[10; 5]));
    let limits = Limits { streams: 2, ..Limits::default() };
    let mut rig = Rig::new(&plan, &mut source, limits, at_once(2));
    rig.ask(4);
    rig.run();
    assert_eq!(rig.requests.take_unheard(), [2, 3], "more than the server allows");
    assert!(rig.requests.has_room(), "the first two were answered");
    rig.ask(1);
    rig.run();
    assert_eq!(rig.server.requests, 3);
    assert_eq!(rig.outcomes(), [Complete, Complete, Incomplete, Incomplete, Incomplete]);
}

#[test]
fn a_first_request_waits_for_a_server_that_takes_none_yet() {
    let (plan, mut source) = (plan_of(9), Jobs::of(&[10; 2]));
    let mut rig = Rig::new(&plan, &mut source, Limits { streams: 0, ..Limits::default() }, answers);
    rig.ask(2);
    rig.run_until(Nanos::from_secs(3));
    assert_eq!((rig.requests.take_unheard(), rig.requests.has_room()), (vec![1], false));
    rig.run_until(Nanos::from_secs(99));
    assert_eq!(rig.next, Next::Close);
    assert_eq!(rig.outcomes(), [TimedOut, Incomplete]);
}

#[test]
fn what_comes_after_the_last_stream_of_goaway_is_asked_elsewhere() {
    let (plan, mut source) = (plan_of(9), Jobs::of(&[10; 4]));
    let mut rig = Rig::new(&plan, &mut source, Limits::default(), |_| vec![]);
    rig.ask(4);
    rig.run();
    rig.server.act(rig.now, &[goaway(8)]);
    rig.run();
    assert_eq!((rig.requests.take_unheard(), rig.requests.has_room()), (vec![2, 3], false));
    rig.server.act(rig.now, &[answer(0, 10), vec![Act::Reset(4, super::super::REQUEST_REJECTED)]].concat());
    rig.run();
    assert_eq!((rig.requests.take_unheard(), rig.next), (vec![1], Next::Close), "the rest has been answered");
    assert_eq!(rig.outcomes(), [Complete, Incomplete, Incomplete, Incomplete]);
}

#[test]
fn the_first_request_of_a_connection_is_not_asked_elsewhere() {
    let (plan, mut source) = (plan_of(9), Jobs::of(&[10; 2]));
    let mut rig = Rig::new(&plan, &mut source, Limits::default(), |_| vec![]);
    rig.ask(2);
    rig.run();
    rig.server.act(rig.now, &[goaway(0)]);
    rig.run();
    assert_eq!((rig.requests.take_unheard(), rig.next), (vec![1], Next::Close));
    assert_eq!(rig.outcomes(), [Reset, Incomplete]);
}

#[test]
fn a_stream_that_is_reset_leaves_the_others() {
    let (plan, mut source) = (plan_of(9), Jobs::of(&[10; 4]));
    let mut rig = Rig::new(&plan, &mut source, Limits::default(), |_| vec![]);
    rig.ask(4);
    rig.run();
    let half = Act::Write(4, response(10)[..12].to_vec());
    let resets = vec![Act::Reset(4, 0x102), Act::Reset(8, super::super::REQUEST_REJECTED)];
    rig.server.act(rig.now, &[answer(0, 10), vec![half], resets, answer(12, 10)].concat());
    rig.run();
    assert!(rig.requests.take_unheard().is_empty() && rig.requests.has_room() && rig.next == Next::Continue);
    assert_eq!(rig.outcomes(), [Complete, Reset, Reset, Complete]);
}

#[test]
fn a_connection_closed_with_requests_on_their_way() {
    for had_served in [true, false] {
        let (plan, mut source) = (plan_of(9), Jobs::of(&[10; 4]));
        let mut rig = Rig::new(&plan, &mut source, Limits::default(), |_| vec![]);
        rig.ask(2);
        rig.run();
        if had_served {
            rig.server.act(rig.now, &answer(0, 10));
            rig.run();
        }
        rig.ask(2);
        rig.server.act(rig.now, &[Act::Close(0x100)]);
        rig.run();
        assert_eq!(rig.next, Next::Close);
        let (unheard, outcomes) = match had_served {
            true => (vec![2, 3], [Complete, Reset, Incomplete, Incomplete]),
            false => (vec![], [Reset; 4]),
        };
        assert_eq!(rig.requests.take_unheard(), unheard, "the server had said nothing since they were asked");
        assert_eq!(rig.outcomes(), outcomes);
    }
}

#[test]
fn a_job_given_up_is_cancelled_at_the_server_and_leaves_the_others() {
    let (plan, mut source) = (plan_of(2), Jobs::of(&[10; 3]));
    let mut rig = Rig::new(&plan, &mut source, Limits::default(), |_| vec![]);
    rig.ask(2);
    rig.run();
    rig.server.act(rig.now, &[Act::Write(0, response(10)[..12].to_vec())]);
    rig.run();
    rig.requests.cancel(0);
    assert!(rig.requests.has_room());
    rig.run();
    assert_eq!(rig.server.cancelled, [(0, CANCELLED)]);
    rig.ask(1);
    rig.run();
    rig.server.act(rig.now, &[answer(4, 10), answer(8, 10)].concat());
    rig.run();
    assert_eq!(rig.outcomes(), [Incomplete, Complete, Complete]);
}

#[test]
fn a_job_given_up_before_the_handshake_is_never_asked_for() {
    let (plan, mut source) = (plan_of(2), Jobs::of(&[10; 2]));
    let mut rig = Rig::new(&plan, &mut source, Limits::default(), answers);
    rig.ask(2);
    rig.requests.cancel(0);
    rig.run();
    assert_eq!(rig.server.requests, 1);
    assert_eq!(rig.outcomes(), [Incomplete, Complete]);
}

#[test]
fn a_server_that_never_answers_costs_half_a_minute() {
    let (plan, mut source) = (plan_of(2), Jobs::of(&[10; 2]));
    let mut rig = Rig::new(&plan, &mut source, Limits::default(), answers);
    rig.is_lost = Box::new(|_| true);
    rig.ask(2);
    rig.run_until(Nanos::from_secs(20));
    assert_eq!(rig.next, Next::Continue);
    rig.run_until(Nanos::from_secs(99));
    assert_eq!(rig.next, Next::Close);
    assert!(rig.now < Nanos::from_secs(99) && rig.requests.take_unheard().is_empty());
    assert_eq!(rig.outcomes(), [TimedOut, TimedOut]);
}

#[test]
fn a_server_that_falls_silent_is_given_up_and_one_that_is_only_slow_is_not() {
    for is_silent in [true, false] {
        let (plan, mut source) = (plan_of(2), Jobs::of(&[10; 2]));
        let mut rig = Rig::new(&plan, &mut source, Limits::default(), |_| vec![]);
        rig.ask(2);
        rig.run();
        rig.server.act(rig.now, &answer(0, 10));
        rig.run();
        rig.is_lost = Box::new(move |_| is_silent);
        rig.run_until(Nanos::from_secs(200));
        rig.now = Nanos::from_secs(200);
        rig.server.act(rig.now, &answer(4, 10));
        rig.run();
        assert_eq!(rig.outcomes(), [Complete, if is_silent { TimedOut } else { Complete }]);
    }
}

#[test]
fn an_idle_connection_ends_by_itself() {
    let (plan, mut source) = (plan_of(2), Jobs::of(&[10]));
    let mut rig = Rig::new(&plan, &mut source, Limits::default(), answers);
    rig.ask(1);
    rig.run_until(Nanos::from_secs(99));
    assert_eq!((rig.next, rig.server.closed.len()), (Next::Close, 0), "its time has run out on both sides");
    assert_eq!(rig.outcomes(), [Complete]);
}

#[test]
fn a_server_of_another_protocol_is_wrong_and_one_that_takes_nobody_refuses() {
    let (plan, mut source) = (plan_of(2), Jobs::of(&[10; 2]));
    let mut rig = Rig::new(&plan, &mut source, Limits { alpn: "hq-interop", ..Limits::default() }, answers);
    rig.ask(2);
    rig.run();
    assert_eq!((rig.next, rig.requests.has_connected()), (Next::Close, false));
    assert_eq!(rig.outcomes(), [Wrong, Wrong]);
    let (plan, mut source) = (plan_of(2), Jobs::of(&[10; 2]));
    let mut rig = Rig::new(&plan, &mut source, Limits::default(), answers);
    rig.server.refuses = true;
    rig.ask(2);
    rig.run();
    assert_eq!(rig.outcomes(), [Refused, Refused]);
}
