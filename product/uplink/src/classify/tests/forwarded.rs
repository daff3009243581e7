//! Forwarded flows in the table of paths: sent bytes, acknowledged bytes, and round trips.

use super::tracked::{IPV4, IPV6, TCP, UDP, arrive, ethernet, ipv4, ipv6, leave, run_on, transport};
use super::*;
use crate::Connection;
use crate::follow::Waits;

const PAYLOAD: u32 = 1400;
/// Words of a TCP header without options, and with one block of SACK after two bytes of padding.
const PLAIN: u8 = 5;
const WITH_SACK: u8 = 8;

/// A segment that leaves for this client.
fn segment(client: u8, seq: u32) -> Vec<u8> {
    ethernet(&[], IPV4, &ipv4(client, TCP, &transport(TCP, seq, PAYLOAD as usize)))
}

/// A packet of this client that acknowledges `ack` without data, with a header of this many words.
fn acknowledgement(client: u8, ack: u32, words: u8) -> Vec<u8> {
    let mut tcp = transport(TCP, 77, 0);
    tcp[..4].rotate_left(2);
    tcp[8..12].copy_from_slice(&ack.to_be_bytes());
    tcp[12] = words << 4;
    tcp.resize(usize::from(words) * 4, 1);
    let mut ip = ipv4(client, TCP, &tcp);
    ip[12..20].rotate_left(4);
    ethernet(&[], IPV4, &ip)
}

fn listed(watch: &ForwardedWatch) -> Vec<Connection> {
    let mut all = Vec::new();
    watch.read(&Waits::default(), |connection| all.push(connection));
    all
}

fn only(watch: &ForwardedWatch) -> Connection {
    let [connection] = listed(watch)[..] else { panic!("{:?}", listed(watch)) };
    connection
}

fn at_tcx(test: impl FnOnce(&Site, ForwardedWatch) + Send + 'static) {
    with(wanted(Policy::Psjf), |site| match Hook::of_new(&site.interface).unwrap() {
        Hook::Tcx => test(site, ForwardedWatch::open(&site.interface).unwrap().unwrap()),
        Hook::Clsact => println!("SKIPPED: this kernel has no TCX"),
    });
}

#[test]
fn what_leaves_and_is_acknowledged_is_counted_with_its_round_trip() {
    at_tcx(|site, watch| {
        assert_eq!(listed(&watch), []);
        for nth in 0..4 {
            leave(site, &segment(1, 5000 + nth * PAYLOAD));
        }
        // Nothing shows yet that acknowledgements would be seen.
        assert_eq!(listed(&watch), []);
        arrive(site, &acknowledgement(1, 5000 + PAYLOAD, PLAIN));
        let sent = only(&watch);
        assert!(sent.is_forwarded && !sent.is_ipv6 && sent.client[..5] == [198, 18, 1, 1, 0], "{sent:?}");
        let info = sent.info;
        assert_eq!((info.sent_bytes, info.acked_bytes, info.retransmitted_bytes), (5600, 1400, 0));
        assert_eq!((info.segment_bytes, info.unacked_segments, info.has_timestamps), (PAYLOAD, 3, false));
        // Later round trips include a wait in the bands.
        assert_eq!(info.min_rtt_us, 0, "without a handshake");
        // This acknowledges bytes that were never sent.
        arrive(site, &acknowledgement(1, 5000 + 9 * PAYLOAD, PLAIN));
        assert_eq!(only(&watch).info.acked_bytes, 1400);
        // Nothing has left since then, so no round trip is open.
        arrive(site, &acknowledgement(1, 5000 + 4 * PAYLOAD, PLAIN));
        let all = only(&watch).info;
        assert_eq!((all.acked_bytes, all.unacked_segments), (5600, 0));
        assert_eq!(only(&watch).cookie, sent.cookie);
        // If acknowledgements are seen, a flow counts from its first packet on.
        leave(site, &segment(2, 5000));
        assert_eq!(listed(&watch).len(), 2);
    });
}

/// A SYN-ACK does not wait in the bands; if it is sent more than once, it gives no round trip.
#[test]
fn a_handshake_is_the_first_round_trip() {
    at_tcx(|site, watch| {
        for client in [1, 2, 3] {
            let mut syn_ack = transport(TCP, 4999, 0);
            syn_ack[13] = 0x12;
            for _ in 0..client {
                leave(site, &ethernet(&[], IPV4, &ipv4(client, TCP, &syn_ack)));
            }
            arrive(site, &acknowledgement(client, 5000, PLAIN));
            leave(site, &segment(client, 5000));
        }
        // Its acknowledgement shows that acknowledgements of other flows would be seen.
        exchange(site, 4, 5000);
        let of = |client| listed(&watch).into_iter().find(|one| one.client[3] == client).unwrap().info;
        assert!(of(1).acked_bytes == 0 && of(1).min_rtt_us > 0, "{:?}", of(1));
        for client in [2, 3] {
            assert_eq!((of(client).acked_bytes, of(client).min_rtt_us), (0, 0), "{client}");
        }
    });
}

/// Either transmission may have been acknowledged.
#[test]
fn what_is_sent_again_ends_no_round_trip() {
    at_tcx(|site, watch| {
        leave(site, &segment(1, 5000));
        leave(site, &segment(1, 6400));
        leave(site, &segment(1, 5000));
        arrive(site, &acknowledgement(1, 7800, PLAIN));
        let info = only(&watch).info;
        assert_eq!((info.sent_bytes, info.retransmitted_bytes, info.acked_bytes), (4200, 1400, 2800));
        assert_eq!((info.rtt_us, info.min_rtt_us), (0, 0));
        // On a busy processor the round trip may be an old one when it is read.
        let has_round_trip = (0..10).any(|nth| {
            exchange(site, 1, 7800 + nth * PAYLOAD);
            only(&watch).info.rtt_us > 0
        });
        assert!(has_round_trip);
    });
}

/// A server that closes sets the FIN in its last segment, so all retransmissions of a short response follow its FIN.
#[test]
fn what_is_sent_again_after_the_end_is_counted() {
    at_tcx(|site, watch| {
        leave(site, &segment(1, 5000));
        let mut fin = transport(TCP, 6400, 600);
        fin[13] = 0x11;
        for _ in 0..2 {
            leave(site, &ethernet(&[], IPV4, &ipv4(1, TCP, &fin)));
        }
        leave(site, &segment(1, 5000));
        arrive(site, &acknowledgement(1, 7001, PLAIN));
        let info = only(&watch).info;
        assert_eq!((info.sent_bytes, info.retransmitted_bytes, info.acked_bytes), (4000, 2000, 2000));
    });
}

/// Returns an acknowledgement whose first SACK block has these edges.
fn sack(ack: u32, left: u32, right: u32) -> Vec<u8> {
    let mut packet = acknowledgement(1, ack, WITH_SACK);
    let at = packet.len() - 8;
    packet[at..at + 4].copy_from_slice(&left.to_be_bytes());
    packet[at + 4..].copy_from_slice(&right.to_be_bytes());
    packet
}

/// The first SACK block grows by what has just arrived. An acknowledgement without SACK may only update a window.
#[test]
fn segments_beyond_a_gap_have_arrived() {
    at_tcx(|site, watch| {
        let nth = |nth: u32| 5000 + nth * PAYLOAD;
        for at in 0..8 {
            leave(site, &segment(1, nth(at)));
        }
        let arrived = |packet: &[u8]| {
            arrive(site, packet);
            let info = only(&watch).info;
            (info.acked_bytes / u64::from(PAYLOAD), info.sacked_segments)
        };
        assert_eq!(arrived(&acknowledgement(1, nth(1), PLAIN)), (1, 0));
        assert_eq!(arrived(&acknowledgement(1, nth(1), PLAIN)), (1, 0));
        // The second and the fifth segment are lost.
        assert_eq!(arrived(&sack(nth(1), nth(2), nth(3))), (1, 1));
        assert_eq!(arrived(&sack(nth(1), nth(2), nth(4))), (1, 2));
        assert_eq!(arrived(&sack(nth(1), nth(5), nth(8))), (1, 5), "two acknowledgements are lost");
        assert_eq!(arrived(&sack(nth(1), nth(5), nth(8))), (1, 5), "nothing new");
        assert_eq!(arrived(&sack(nth(1), nth(5), nth(9))), (1, 5), "what was not sent has not arrived");
        leave(site, &segment(1, nth(1)));
        assert_eq!(arrived(&sack(nth(4), nth(5), nth(8))), (4, 3), "the first gap is full");
        assert_eq!(arrived(&acknowledgement(1, nth(8), PLAIN)), (8, 0));
        // A segment that arrived twice lies below the acknowledged number.
        leave(site, &segment(1, nth(8)));
        assert_eq!(arrived(&sack(nth(8), nth(7), nth(8))), (8, 0));
        // The FIN takes up a sequence number.
        assert_eq!(arrived(&acknowledgement(1, nth(9) + 1, PLAIN)), (9, 0));
    });
}

/// A flow that is first seen while it recovers from losses, as after an attach, goes on after bytes that left before.
#[test]
fn what_passed_elsewhere_counts_neither_as_sent_nor_as_acknowledged() {
    at_tcx(|site, watch| {
        let nth = |nth: u32| 5000 + nth * PAYLOAD;
        exchange(site, 1, nth(0));
        for at in [1, 5, 8] {
            leave(site, &segment(1, nth(at)));
        }
        let segments = || (only(&watch).info.sent_bytes / 1400, only(&watch).info.acked_bytes / 1400);
        assert_eq!(segments(), (4, 1));
        arrive(site, &acknowledgement(1, nth(9), PLAIN));
        assert_eq!(segments(), (4, 4));
        leave(site, &segment(1, nth(9)));
        assert_eq!((segments(), only(&watch).info.unacked_segments), ((5, 4), 1));
    });
}

/// Sends a segment, and lets it be acknowledged.
fn exchange(site: &Site, client: u8, seq: u32) {
    leave(site, &segment(client, seq));
    arrive(site, &acknowledgement(client, seq + PAYLOAD, PLAIN));
}

/// A later connection with the same ports and a flow that was idle get new numbers; datagrams get none.
#[test]
fn each_connection_has_a_number_of_its_own() {
    at_tcx(|site, watch| {
        leave(site, &ethernet(&[], IPV4, &ipv4(1, UDP, &transport(UDP, 0, 1200))));
        assert_eq!(listed(&watch), []);
        exchange(site, 1, 5000);
        let first = only(&watch);
        exchange(site, 1, 5000 + PAYLOAD);
        assert_eq!((only(&watch).cookie, only(&watch).info.acked_bytes), (first.cookie, 2800));
        exchange(site, 1, 5000 + (2 << 20));
        let all = listed(&watch);
        assert!(all.len() == 2 && all.iter().any(|one| one.cookie == first.cookie), "{all:?}");
        // The third flow has something outstanding, which may wait in the bands.
        exchange(site, 2, 5000);
        leave(site, &segment(2, 5000 + PAYLOAD));
        std::thread::sleep(std::time::Duration::from_millis(1600));
        assert_eq!(only(&watch).client[3], 2);
        exchange(site, 2, 5000 + PAYLOAD * 2);
        assert_eq!(only(&watch).info.acked_bytes, 3 * 1400);
        exchange(site, 1, 5000 + (2 << 20) + PAYLOAD);
        let again = listed(&watch).into_iter().find(|one| one.client[3] == 1).unwrap();
        assert!(all.iter().all(|one| one.cookie != again.cookie) && again.info.sent_bytes == 1400, "{again:?}");
    });
}

#[test]
fn flows_over_ipv6_are_followed() {
    at_tcx(|site, watch| {
        leave(site, &ethernet(&[], IPV6, &ipv6(9, &[], TCP, &transport(TCP, 5000, 1400))));
        let mut tcp = transport(TCP, 77, 0);
        tcp[..4].rotate_left(2);
        tcp[8..12].copy_from_slice(&6400u32.to_be_bytes());
        let mut packet = ipv6(9, &[], TCP, &tcp);
        packet[8..40].rotate_left(16);
        arrive(site, &ethernet(&[], IPV6, &packet));
        let v6 = only(&watch);
        assert_eq!((v6.is_ipv6, v6.client[..4].to_vec(), v6.client[15]), (true, vec![0x20, 1, 0xd, 0xb8], 9));
        assert_eq!((v6.info.acked_bytes, v6.info.unacked_segments), (1400, 0));
    });
}

/// Lets 6,000 new flows send two segments each, of which one is acknowledged. Returns true if the first still has its place.
fn fill(id: u32, arriving: u32, attempt: u32) -> bool {
    let began = std::time::Instant::now();
    for client in 0..6000u32 {
        let number = &(client + (attempt << 16)).to_be_bytes()[1..];
        let (mut leaves, mut arrives) = ([5000, 6400].map(|seq| segment(1, seq)), acknowledgement(1, 6400, PLAIN));
        arrives[27..30].copy_from_slice(number);
        for leaves in &mut leaves {
            leaves[31..34].copy_from_slice(number);
            run_on(id, leaves);
        }
        run_on(arriving, &arrives);
    }
    began.elapsed() < KEPT_FOR / 2
}

/// A flow with something outstanding leaves its place after this time (`PATH_GONE_NS`).
const KEPT_FOR: std::time::Duration = std::time::Duration::from_secs(8);

/// Short responses over a line of 100 Mbit/s are 3,000 flows a second, each of which keeps its place for a second and
/// longer. In a table of 4,096 places, a third of them found none. No flow disturbs another, and after attaching again,
/// all stay.
#[test]
fn the_table_has_room_for_a_fast_line_and_outlasts_its_program() {
    at_tcx(|site, watch| {
        let id = find(&site.interface).unwrap().unwrap().facts.id;
        let [arriving] = filter::look(&site.interface).unwrap().arriving[..] else { panic!("there is one") };
        // On a busy machine the first flows may be gone before the last are there; that attempt shows nothing.
        let mut attempt = 1;
        while !fill(id, arriving, attempt) {
            assert!(attempt < 10, "6,000 flows need longer than {KEPT_FOR:?} each time");
            attempt += 1;
            std::thread::sleep(KEPT_FOR + KEPT_FOR / 8);
        }
        let many = listed(&watch);
        let numbers: std::collections::HashSet<u64> = many.iter().map(|one| one.cookie).collect();
        assert_eq!(numbers.len(), many.len());
        let (whole, others): (Vec<_>, Vec<_>) =
            many.iter().map(|one| (one.info.sent_bytes, one.info.acked_bytes)).partition(|one| *one == (2800, 1400));
        // A flow that found no place at first has one from its second packet on.
        assert!(whole.len() >= 5800 && others.iter().all(|one| *one == (1400, 0)), "{} {others:?}", whole.len());
        attach(&site.interface, &wanted(Policy::Las)).unwrap();
        exchange(site, 77, 5000);
        let is_there = |watch: &ForwardedWatch| listed(watch).iter().any(|one| one.client[..4] == [198, 18, 1, 77]);
        assert!(is_there(&watch) && is_there(&ForwardedWatch::open(&site.interface).unwrap().unwrap()));
    });
}
