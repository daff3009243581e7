//! Only bytes that were written leave, and no more than fit.

use http2::Stop;
use proptest::prelude::*;
use units::Nanos;

use super::rig::*;
use crate::Settings;
use crate::testing::Windows;

/// Returns a connection with these requests, all answered with a head and not written.
fn begun(requests: usize, size: usize) -> (Rig, Vec<u32>) {
    let mut rig = Rig::connected();
    let streams: Vec<u32> = (0..requests).map(|_| rig.client.request("/", &[])).collect();
    rig.run();
    for &stream in &streams {
        assert!(rig.session().respond(stream, &head(Some(size)), true));
    }
    (rig, streams)
}

#[test]
fn a_hundred_streams_at_once() {
    let (mut rig, streams) = begun(100, 0);
    assert_eq!(rig.requests(), streams);
    streams.iter().for_each(|&stream| rig.bodies.push((stream, Counting { at: 0, size: 3000 + stream as usize })));
    rig.run();
    for &stream in &streams {
        let response = rig.client.response(stream);
        assert_eq!((response.body, response.is_whole), (counted(3000 + stream as usize), true));
    }
    let mut closed = rig.closed();
    closed.sort_unstable();
    assert_eq!(closed, streams);
    // More requests follow on streams that are allowed again; quinn announces them for an eighth at a time.
    let more: Vec<u32> = (0..87).map(|_| rig.client.request("/", &[])).collect();
    rig.run();
    assert_eq!(rig.requests()[100..], more);
}

#[test]
fn nothing_of_a_stream_leaves_that_was_not_written() {
    let (mut rig, streams) = begun(3, 5000);
    rig.run();
    let mut body = Counting { at: 0, size: 5000 };
    let wrote = rig.session().write(streams[1], 3000, &mut body);
    assert_eq!(wrote.stop, Stop::Room);
    assert!(rig.make(usize::MAX) <= 3000);
    rig.run();
    assert!(rig.client.response(streams[0]).fields.is_empty());
    assert!(rig.client.response(streams[2]).fields.is_empty());
    let response = rig.client.response(streams[1]);
    assert_eq!(response.body, counted(wrote.bytes as usize));
    assert!(wrote.bytes > 2700, "{wrote:?}");
}

#[test]
fn full_datagrams_come_out_of_a_room_of_full_ones() {
    let (mut rig, streams) = begun(1, 1 << 20);
    let mut body = Counting { at: 0, size: 1 << 20 };
    // The first datagram has the head.
    for count in [2, 1, 3, 5, 1, 4] {
        rig.run();
        let full = rig.session().path().datagram_bytes as usize;
        let wrote = rig.session().write(streams[0], count * full, &mut body);
        let sent = rig.sent;
        let made = rig.make(count * full);
        assert_eq!(rig.sent - sent, count, "{wrote:?}");
        assert!(made <= count * full && made + 12 + 4 * count >= count * full, "{made} of {count} * {full}");
        assert!(wrote.carried_bytes.abs_diff(made) <= 32, "{wrote:?} {made}");
        assert!(rig.session().waiting_bytes() <= 32);
    }
    assert_eq!(rig.session().path().datagram_bytes, 1452, "the path allows it");
}

#[test]
fn responses_share_a_datagram() {
    let (mut rig, streams) = begun(3, 200);
    let mut left = 1200;
    for &stream in &streams {
        let wrote = rig.session().write(stream, left, &mut Counting { at: 0, size: 200 });
        assert_eq!((wrote.stop, wrote.bytes), (Stop::End, 200));
        // The given content fills the room by itself.
        left = 1200;
    }
    let (sent, waiting) = (rig.sent, rig.session().waiting_bytes());
    let made = rig.make(1200);
    assert_eq!(rig.sent - sent, 1);
    assert!(made <= waiting && made + 60 > waiting, "{made} of {waiting}");
    rig.run();
    streams.iter().for_each(|&stream| assert_eq!(rig.client.response(stream).body, counted(200)));
}

#[test]
fn the_congestion_window_holds_what_was_given() {
    let (mut rig, streams) = begun(2, 1 << 20);
    let mut body = Counting { at: 0, size: 1 << 20 };
    let mut given = 0;
    let held = loop {
        let wrote = rig.session().write(streams[0], 10_000, &mut body);
        given += wrote.bytes;
        rig.make(10_000);
        if rig.session().is_held() {
            break wrote;
        }
    };
    assert!(held.bytes > 0 && rig.session().waiting_bytes() > 0);
    assert!(given < 2 * rig.session().path().cwnd_bytes);
    // Nothing is read from any stream.
    for stream in [streams[1], streams[0]] {
        assert_eq!(rig.session().write(stream, 10_000, &mut Untouched).stop, Stop::Window);
    }
    rig.run();
    assert!(!rig.session().is_held());
    assert_eq!(rig.session().waiting_bytes(), 0);
    assert_eq!(rig.client.response(streams[0]).body.len() as u64, given);
}

/// A page's other responses do not wait for round trips that its first one has already waited for. A response that uses
/// little of the window does not open it.
#[test]
fn the_last_flight_of_a_response_opens_the_window() {
    let (mut rig, streams) = begun(9, 1 << 20);
    let first = rig.session().path().cwnd_bytes;
    assert!((14_520..17_000).contains(&first), "{first}");
    let (size, others) = (30_000, &streams[1..]);
    rig.bodies.push((streams[0], Counting { at: 0, size }));
    rig.run();
    let opened = rig.session().path().cwnd_bytes;
    // By acknowledgements that come while more waits it would be 27,588.
    assert!(opened > 2 * first, "{opened}");
    for &stream in others {
        rig.bodies.push((stream, Counting { at: 0, size: 10_000 }));
        rig.run();
    }
    assert_eq!(rig.session().path().cwnd_bytes, opened);
}

/// The acknowledged bytes equal the sent ones: nothing was lost, and only datagrams with acknowledgements alone are
/// left out.
#[test]
fn what_is_acknowledged_is_counted() {
    let (mut rig, streams) = begun(1, 100_000);
    rig.run();
    let (before, sent) = (rig.session().path().acked_bytes, 100_000);
    rig.bodies.push((streams[0], Counting { at: 0, size: sent }));
    rig.run();
    let acked = (rig.session().path().acked_bytes - before) as usize;
    assert!((sent..sent + sent / 20).contains(&acked), "{acked} of {sent}");
    rig.run();
    assert_eq!(rig.session().path().acked_bytes - before, acked as u64, "nothing more was sent");
}

#[test]
fn content_of_a_cancelled_stream_holds_nobody() {
    let (mut rig, streams) = begun(2, 1 << 20);
    let wrote = rig.session().write(streams[0], 10_000, &mut Counting { at: 0, size: 1 << 20 });
    assert!(wrote.bytes > 9000);
    rig.session().cancel(streams[0]);
    rig.make(10_000);
    rig.run();
    assert_eq!((rig.session().is_held(), rig.session().waiting_bytes()), (false, 0));
    let wrote = rig.session().write(streams[1], 10_000, &mut Counting { at: 0, size: 1000 });
    assert_eq!((wrote.bytes, wrote.stop), (1000, Stop::End));
}

#[test]
fn what_was_given_uses_up_the_room() {
    let (mut rig, streams) = begun(2, 1 << 20);
    let first = rig.session().write(streams[0], 5000, &mut Counting { at: 0, size: 1 << 20 });
    assert_eq!(rig.session().waiting_bytes(), first.carried_bytes);
    let wrote = rig.session().write(streams[1], 5000, &mut Untouched);
    assert_eq!((wrote.bytes, wrote.carried_bytes, wrote.stop), (0, 0, Stop::Room));
    let wrote = rig.session().write(streams[1], 8000, &mut Counting { at: 0, size: 1 << 20 });
    assert!(wrote.carried_bytes <= 3000 && wrote.carried_bytes > 2900, "{wrote:?}");
    assert!(rig.make(8000) <= 8000);
}

#[test]
fn a_datagram_that_is_lost_is_sent_again() {
    for every in [2, 3, 7, 20] {
        let (mut rig, streams) = begun(5, 100_000);
        rig.passes = Box::new(move |number| {
            ((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) & 0xffff >= 0x10000 / every
        });
        streams.iter().for_each(|&stream| rig.bodies.push((stream, Counting { at: 0, size: 100_000 })));
        rig.run_until(|rig| rig.now >= Nanos::from_secs(200) || rig.closed().len() == 5);
        rig.run_until(|rig| {
            rig.now >= Nanos::from_secs(200) || streams.iter().all(|&stream| rig.client.response(stream).is_whole)
        });
        assert!(rig.session().path().lost_bytes > 0);
        let got: Vec<usize> = streams.iter().map(|&stream| rig.client.response(stream).body.len()).collect();
        let is_same = streams.iter().all(|&stream| rig.client.response(stream).body == counted(100_000));
        assert!(is_same, "every {every}: {got:?} at {:?}, {:?}", rig.now, rig.client.lost);
    }
}

#[test]
fn a_shut_window_of_a_stream_stops_that_stream() {
    let windows = Windows { stream: 5000, ..Windows::default() };
    let mut rig = Rig::with(&Settings::default(), windows);
    rig.connect();
    rig.client.is_deaf = true;
    let streams = [rig.client.request("/", &[]), rig.client.request("/", &[])];
    rig.run();
    let mut body = Counting { at: 0, size: 20_000 };
    assert!(rig.session().respond(streams[0], &head(None), true));
    assert!(rig.session().respond(streams[1], &head(None), true));
    let wrote = rig.session().write(streams[0], 10_000, &mut body);
    assert_eq!(wrote.stop, Stop::StreamWindow);
    assert!((4900..5000).contains(&wrote.bytes));
    assert_eq!(rig.session().stream_window(streams[0]), Some(0));
    assert_ne!(rig.session().stream_window(streams[1]), Some(0));
    assert_ne!(rig.session().window(), 0);
    rig.make(10_000);
    assert_eq!(rig.session().write(streams[0], 10_000, &mut Untouched).stop, Stop::StreamWindow);
    assert_eq!(rig.session().write(streams[1], 3000, &mut Counting { at: 0, size: 100 }).stop, Stop::End);
    rig.run();
    rig.client.is_deaf = false;
    rig.client.read();
    rig.run();
    assert_ne!(rig.session().stream_window(streams[0]), Some(0));
    rig.bodies.push((streams[0], body));
    rig.run();
    assert_eq!(rig.client.response(streams[0]).body, counted(20_000));
    assert_eq!(rig.client.response(streams[1]).body, counted(100));
    assert_eq!(rig.session().stream_window(streams[0]), None);
}

#[test]
fn a_shut_window_of_the_connection_stops_all_streams() {
    let windows = Windows { connection: 6000, ..Windows::default() };
    let mut rig = Rig::with(&Settings::default(), windows);
    rig.connect();
    rig.client.is_deaf = true;
    let streams = [rig.client.request("/", &[]), rig.client.request("/", &[])];
    rig.run();
    let mut body = Counting { at: 0, size: 20_000 };
    streams.iter().for_each(|&stream| assert!(rig.session().respond(stream, &head(None), true)));
    assert_eq!(rig.session().write(streams[0], 10_000, &mut body).stop, Stop::Window);
    assert_eq!(rig.session().window(), 0);
    assert_ne!(rig.session().stream_window(streams[0]), Some(0));
    assert!(!rig.session().is_held());
    rig.make(10_000);
    let mut other = Counting { at: 0, size: 9000 };
    assert_eq!(rig.session().write(streams[1], 10_000, &mut other).stop, Stop::Window);
    rig.run();
    rig.client.is_deaf = false;
    rig.client.read();
    rig.run();
    assert_ne!(rig.session().window(), 0);
    rig.bodies.extend([(streams[0], body), (streams[1], other)]);
    rig.run();
    assert_eq!(rig.client.response(streams[0]).body, counted(20_000));
    assert_eq!(rig.client.response(streams[1]).body, counted(9000));
}

#[test]
fn a_source_that_fails_or_waits() {
    let (mut rig, streams) = begun(2, 100);
    struct Says(http2::Supply);
    impl http2::Source for Says {
        fn peek(&mut self, _: &mut Vec<u8>, _: usize) -> http2::Supply {
            self.0
        }

        fn advance(&mut self, _: usize) {}
    }
    let wrote = rig.session().write(streams[0], 5000, &mut Says(http2::Supply::Later));
    assert_eq!((wrote.stop, wrote.bytes), (Stop::Source, 0));
    assert_eq!(rig.session().write(streams[1], 5000, &mut Says(http2::Supply::Failed)).stop, Stop::Failed);
    rig.run();
    assert_eq!(rig.client.response(streams[0]).field(":status"), Some("200"));
    assert_eq!(rig.client.came(crate::testing::id(streams[1])).reset, Some(0x102));
    assert_eq!(rig.closed(), [streams[1]]);
    assert_eq!(rig.session().write(streams[1], 5000, &mut Untouched).stop, Stop::Closed);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn no_more_is_made_than_the_room(rooms in proptest::collection::vec((0usize..4, 1500usize..20_000), 1..40)) {
        let (mut rig, streams) = begun(4, 100_000);
        let mut bodies: Vec<Counting> = (0..4).map(|_| Counting { at: 0, size: 100_000 }).collect();
        let mut given = [0u64; 4];
        for (which, room) in rooms {
            rig.run();
            let wrote = rig.session().write(streams[which], room, &mut bodies[which]);
            given[which] += wrote.bytes;
            prop_assert!(wrote.carried_bytes <= room);
            prop_assert!(rig.make(room) <= room);
        }
        rig.run();
        for (&stream, given) in streams.iter().zip(given) {
            prop_assert_eq!(rig.client.response(stream).body, counted(given as usize));
        }
    }
}
