//! What the queues do to packets.

use super::*;
use crate::packet::ConnId;
use crate::packet::bottleneck::{Load, Packet, Queue};

fn packet(conn: u32, band: u8, at_ms: u64) -> Packet {
    let load = Load::Data { seq: 0, bytes: 1448, fin: false, again: false };
    let conn = ConnId { slot: conn, number: conn };
    Packet { conn, load, wire_bytes: 1514, queued_at: Nanos::from_millis(at_ms), band }
}

fn next(queue: &mut Queue, now_ms: u64, dropped: &mut Vec<Packet>) -> Option<u32> {
    let packet = match queue {
        Queue::Bands(queue) => queue.dequeue(),
        Queue::FqCodel(queue) => queue.dequeue(Nanos::from_millis(now_ms), dropped),
    };
    packet.map(|packet| packet.conn.slot)
}

#[test]
fn a_fifo_takes_so_many_packets_and_keeps_their_order() {
    let mut queue = Queue::new(Discipline::Fifo(3));
    let mut dropped = Vec::new();
    let taken: Vec<bool> = (0..5).map(|n| queue.enqueue(packet(n, 0, 0), &mut dropped)).collect();
    assert_eq!(taken, [true, true, true, false, false]);
    assert_eq!((queue.packets(), queue.bytes()), (3, 3 * 1514));
    assert_eq!(next(&mut queue, 0, &mut dropped), Some(0));
    assert!(queue.enqueue(packet(9, 0, 0), &mut dropped));
    let rest: Vec<_> = std::iter::from_fn(|| next(&mut queue, 0, &mut dropped)).collect();
    assert_eq!((rest, queue.bytes(), dropped.len()), (vec![1, 2, 9], 0, 0));
}

#[test]
fn the_best_band_goes_first_and_each_has_its_own_room() {
    let mut queue = Queue::new(Discipline::Bands(2));
    let mut dropped = Vec::new();
    for (conn, band) in [(1, 3), (2, 3), (3, 3), (4, 1), (5, 0)] {
        assert_eq!(queue.enqueue(packet(conn, band, 0), &mut dropped), conn != 3);
    }
    let order: Vec<_> = std::iter::from_fn(|| next(&mut queue, 0, &mut dropped)).collect();
    assert_eq!(order, [5, 4, 1, 2]);
}

#[test]
fn fq_codel_takes_turns_and_lets_newcomers_in() {
    let mut queue = Queue::new(Discipline::FqCodel(100));
    let mut dropped = Vec::new();
    for conn in [1, 1, 1, 2, 2, 2] {
        assert!(queue.enqueue(packet(conn, 0, 0), &mut dropped));
    }
    let mut order = vec![next(&mut queue, 1, &mut dropped), next(&mut queue, 1, &mut dropped)];
    assert!(queue.enqueue(packet(3, 0, 1), &mut dropped));
    order.extend((0..5).map(|_| next(&mut queue, 1, &mut dropped)));
    assert_eq!(order.iter().flatten().copied().collect::<Vec<_>>(), [1, 2, 3, 1, 2, 1, 2]);
    assert!(dropped.is_empty());
}

#[test]
fn codel_drops_once_a_queue_has_stood_for_an_interval() {
    let mut queue = Queue::new(Discipline::FqCodel(1000));
    let mut dropped = Vec::new();
    // One packet comes and one goes each millisecond; fifty stand, so each waits 50 ms.
    for at in 0..400 {
        assert!(queue.enqueue(packet(1, 0, at), &mut dropped));
        if at >= 50 {
            next(&mut queue, at, &mut dropped);
        }
        assert!(at >= 150 || dropped.is_empty(), "at {at} ms");
    }
    // RFC 8289's law: intervals of 100 ms over the root of the count, so at 0, 100, 171 and 229 ms.
    assert_eq!(dropped.len(), 4);
}

#[test]
fn a_full_fq_codel_drops_from_the_longest_flow() {
    let mut queue = Queue::new(Discipline::FqCodel(10));
    let mut dropped = Vec::new();
    assert!(queue.enqueue(packet(1, 0, 0), &mut dropped));
    (0..10).for_each(|_| assert!(queue.enqueue(packet(2, 0, 0), &mut dropped)));
    assert_eq!(dropped.iter().map(|packet| packet.conn.slot).collect::<Vec<_>>(), [2; 5]);
}

#[test]
fn fq_codel_isolates_a_sparse_flow_and_a_fifo_does_not() {
    let list: Vec<_> = (0..20).map(|n| (500 + 100 * n, 500)).collect();
    let mut list = jobs(&list);
    list.insert(0, Job { arrival: Nanos::ZERO, size_bytes: 4_000_000, client: None });
    let mean_ms = |bottleneck| {
        let tcp = Tcp { small_queues: false, gso_segments: 1, hears_drops: false, ..Tcp::default() };
        let config = Config { bottleneck, tcp, paths: vec![delay(5)], ..Config::default() };
        let (_, records) = records(&config, &list);
        records[1..].iter().map(|record| record.response_time().as_millis_f64()).sum::<f64>() / 20.0
    };
    let (fifo, fq_codel) = (mean_ms(Discipline::Fifo(100)), mean_ms(Discipline::FqCodel(10_240)));
    // Two round trips are 20 ms, and a packet in front of each of three takes 1.2 ms.
    assert!(fq_codel < 27.0 && fifo > 2.0 * fq_codel, "fifo {fifo}, fq_codel {fq_codel}");
}
