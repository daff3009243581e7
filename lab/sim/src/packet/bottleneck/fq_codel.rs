//! fq_codel (RFC 8290) over CoDel (RFC 8289), with Linux's defaults: 1024 flows, a quantum of one full packet, a
//! target of 5 ms, an interval of 100 ms. Packets are dropped, not marked: our senders do not ask for ECN.

use std::collections::VecDeque;

use units::Nanos;

use super::{Arena, List, Packet};

const FLOWS: usize = 1024;
/// RFC 8290 section 5.2.2: one MTU-size packet with its link header.
const QUANTUM_BYTES: i64 = 1514;
const TARGET: Nanos = Nanos::from_millis(5);
const INTERVAL: Nanos = Nanos::from_millis(100);
/// RFC 8289 section 5.5: CoDel never drops when less than this is queued.
const BACKLOG_BYTES_MIN: u64 = 1514;
/// RFC 8290 section 4.1: on overflow up to this many packets leave the fattest flow at once.
const DROP_BATCH: u32 = 64;

#[derive(Clone, Copy, Default)]
struct Flow {
    list: List,
    deficit: i64,
    is_listed: bool,
    codel: Codel,
}

pub struct FqCodel {
    flows: Vec<Flow>,
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    limit: u32,
    pub arena: Arena,
}

impl FqCodel {
    pub fn new(limit: u32) -> FqCodel {
        FqCodel {
            flows: vec![Flow::default(); FLOWS],
            new: VecDeque::new(),
            old: VecDeque::new(),
            limit,
            arena: Arena::default(),
        }
    }

    pub fn enqueue(&mut self, packet: Packet, dropped: &mut Vec<Packet>) {
        let at = bucket(&packet);
        let flow = &mut self.flows[usize::from(at)];
        self.arena.push(&mut flow.list, packet);
        if !flow.is_listed {
            (flow.is_listed, flow.deficit) = (true, QUANTUM_BYTES);
            self.new.push_back(at);
        }
        if self.arena.packets > self.limit {
            self.drop_from_fattest(dropped);
        }
    }

    /// Half of the longest flow's bytes, or a batch of packets, from its head.
    fn drop_from_fattest(&mut self, dropped: &mut Vec<Packet>) {
        let fattest = self.flows.iter_mut().max_by_key(|flow| flow.list.bytes).expect("there are flows");
        let half = fattest.list.bytes / 2;
        for _ in 0..DROP_BATCH {
            let Some(packet) = self.arena.pop(&mut fattest.list) else { break };
            dropped.push(packet);
            if fattest.list.bytes <= half {
                break;
            }
        }
    }

    /// Deficit round robin, new flows first; CoDel decides about each packet as it comes out.
    pub fn dequeue(&mut self, now: Nanos, dropped: &mut Vec<Packet>) -> Option<Packet> {
        loop {
            let is_new = !self.new.is_empty();
            let at = *if is_new { self.new.front() } else { self.old.front() }?;
            let flow = &mut self.flows[usize::from(at)];
            if flow.deficit <= 0 {
                flow.deficit += QUANTUM_BYTES;
                self.pop_front(is_new);
                self.old.push_back(at);
                continue;
            }
            if let Some(packet) = flow.codel.dequeue(now, &mut self.arena, &mut flow.list, dropped) {
                flow.deficit -= i64::from(packet.wire_bytes);
                return Some(packet);
            }
            // A flow that was new and is empty has to pass the old ones once more before it counts as new again.
            self.pop_front(is_new);
            if is_new && !self.old.is_empty() {
                self.old.push_back(at);
            } else {
                self.flows[usize::from(at)].is_listed = false;
            }
        }
    }

    fn pop_front(&mut self, is_new: bool) {
        if is_new {
            self.new.pop_front()
        } else {
            self.old.pop_front()
        };
    }
}

/// A hash of what identifies the connection; multiplicative, since numbers count up.
fn bucket(packet: &Packet) -> u16 {
    let mixed = u64::from(packet.conn.number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 54) as u16
}

/// CoDel's state, RFC 8289 section 5.
#[derive(Clone, Copy, Default)]
struct Codel {
    /// When the sojourn time will have been above the target for an interval; 0 while it is below.
    above_at: Nanos,
    drop_next: Nanos,
    count: u32,
    last_count: u32,
    is_dropping: bool,
}

impl Codel {
    fn dequeue(&mut self, now: Nanos, arena: &mut Arena, list: &mut List, dropped: &mut Vec<Packet>) -> Option<Packet> {
        let (mut packet, mut ok_to_drop) = self.take(now, arena, list);
        if self.is_dropping {
            self.is_dropping = ok_to_drop;
            while self.is_dropping && now >= self.drop_next {
                dropped.extend(packet);
                self.count += 1;
                (packet, ok_to_drop) = self.take(now, arena, list);
                self.is_dropping = ok_to_drop;
                self.drop_next = control_law(self.drop_next, self.count);
            }
        } else if ok_to_drop {
            dropped.extend(packet);
            (packet, _) = self.take(now, arena, list);
            self.is_dropping = true;
            // A recent drop rate was about right, so it is resumed instead of being found again.
            let delta = self.count.saturating_sub(self.last_count);
            let is_recent = now - self.drop_next < Nanos(16 * INTERVAL.0);
            self.count = if delta > 1 && is_recent { delta } else { 1 };
            self.last_count = self.count;
            self.drop_next = control_law(now, self.count);
        }
        packet
    }

    /// The next packet, and whether the queue has been above the target for a whole interval.
    fn take(&mut self, now: Nanos, arena: &mut Arena, list: &mut List) -> (Option<Packet>, bool) {
        let packet = arena.pop(list);
        let waits = packet.is_some_and(|packet| now - packet.queued_at >= TARGET);
        if !waits || list.bytes <= BACKLOG_BYTES_MIN {
            self.above_at = Nanos::ZERO;
            return (packet, false);
        }
        if self.above_at == Nanos::ZERO {
            self.above_at = now + INTERVAL;
            return (packet, false);
        }
        (packet, now >= self.above_at)
    }
}

/// The next drop comes sooner with the square root of their number.
fn control_law(at: Nanos, count: u32) -> Nanos {
    // In 1/1024ths, so that the root stays an integer.
    let root = (u64::from(count) << 20).isqrt().max(1);
    at + Nanos((INTERVAL.0 << 10) / root)
}
