//! The effects of the queues on packets.

use super::*;
use crate::packet::ConnId;
use crate::packet::bottleneck::{Load, Packet, Queue};

fn packet(conn: u32, band: u8, at_ms: u64) -> Packet {
    let load = Load::Data { seq: 0, bytes: 1448, fin: false, again: false };
    let conn = ConnId { slot: conn, number: conn };
    Packet { conn, load, wire_bytes: 1514, queued_at: Nanos::from_millis(at_ms), band }
}

fn next(queue: &mut Queue) -> Option<u32> {
    queue.dequeue().map(|packet| packet.conn.slot)
}

#[test]
fn a_fifo_takes_so_many_packets_and_keeps_their_order() {
    let mut queue = Queue::new(Discipline::Fifo(3));
    let taken: Vec<bool> = (0..5).map(|n| queue.enqueue(packet(n, 0, 0))).collect();
    assert_eq!(taken, [true, true, true, false, false]);
    assert_eq!((queue.packets(), queue.bytes()), (3, 3 * 1514));
    assert_eq!(next(&mut queue), Some(0));
    assert!(queue.enqueue(packet(9, 0, 0)));
    let rest: Vec<_> = std::iter::from_fn(|| next(&mut queue)).collect();
    assert_eq!((rest, queue.bytes()), (vec![1, 2, 9], 0));
}

#[test]
fn the_best_band_goes_first_and_each_has_its_own_room() {
    let mut queue = Queue::new(Discipline::Bands(2));
    for (conn, band) in [(1, 3), (2, 3), (3, 3), (4, 1), (5, 0)] {
        assert_eq!(queue.enqueue(packet(conn, band, 0)), conn != 3);
    }
    let order: Vec<_> = std::iter::from_fn(|| next(&mut queue)).collect();
    assert_eq!(order, [5, 4, 1, 2]);
}
