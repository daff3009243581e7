//! The follower with thousands of short responses at 100 Mbit/s, on a connection each. The line's queue of a hundred
//! packets is 12 ms there, and hardly any response is long enough to show a round trip beyond its handshake's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;

const RTT_MS: u64 = 5;
const CLIENTS: u64 = 4;
const PACKET: u64 = SEGMENT_BYTES + HEAD_BYTES;
const LINE_MBIT: f64 = 100.0;
/// The packets of responses: most have up to three, some 30, few 700.
const MIDDLE: (f64, u64) = (0.028, 30);
const LARGE: (f64, u64) = (0.002, 700);
/// The first timeouts of data and of a handshake.
const DATA_TIMEOUT_MS: u64 = 200;
const HANDSHAKE_TIMEOUT_MS: u64 = 1000;
/// The number of outstanding packets from which a response notices a loss by the packets that arrive after it.
const LONG_PACKETS: u64 = 4;

#[derive(Debug, Default)]
struct Response {
    size: u64,
    /// The time at which its request comes, after its handshake.
    ready_ms: u64,
    window: u64,
    below: u64,
    on_way: u64,
    /// The times at which packets that the line has dropped are sent again.
    dropped: VecDeque<u64>,
    handed: u64,
    acked: u64,
    again: u64,
    acked_at_ms: u64,
    smoothed_us: u32,
    least_us: u32,
}

impl Response {
    fn outstanding(&self) -> u64 {
        self.below + self.on_way + self.dropped.len() as u64
    }

    /// Hands down the packets that the window allows, and those due to be sent again.
    fn hand_down(&mut self, ms: u64, below_max: u64) {
        while self.below < below_max {
            if self.dropped.pop_front_if(|due| *due <= ms).is_some() {
                self.again += 1;
            } else if self.handed < self.size && self.outstanding() < self.window {
                self.handed += 1;
            } else {
                return;
            }
            self.below += 1;
        }
    }

    fn acknowledge(&mut self, ms: u64, sent_ms: u64) {
        let us = (ms - sent_ms).max(1) as u32 * 1000;
        (self.on_way, self.acked, self.acked_at_ms) = (self.on_way - 1, self.acked + 1, ms);
        self.window += 1;
        self.smoothed_us = self.smoothed_us - self.smoothed_us / 8 + us / 8;
        self.least_us = self.least_us.min(us);
    }

    fn connection(&self, number: u64, ms: u64) -> Connection {
        Connection {
            cookie: number + 1,
            own: [1; 16],
            client: [(number % CLIENTS) as u8 + 2; 16],
            is_ipv6: false,
            is_forwarded: false,
            info: TcpInfo {
                segment_bytes: SEGMENT_BYTES as u32,
                unacked_segments: self.outstanding() as u32,
                rtt_us: self.smoothed_us,
                min_rtt_us: self.least_us,
                notsent_bytes: ((self.size - self.handed) * SEGMENT_BYTES) as u32,
                acked_bytes: self.acked * SEGMENT_BYTES,
                last_ack_ms: (ms - self.acked_at_ms) as u32,
                retransmitted_bytes: self.again * SEGMENT_BYTES,
                sent_bytes: (self.handed + self.again) * SEGMENT_BYTES,
                has_timestamps: true,
                ..TcpInfo::default()
            },
            outstanding_bytes: (self.outstanding() * SEGMENT_BYTES) as u32,
            below_bytes: self.below as u32 * 2304,
        }
    }
}

/// A packet: its response, and the time at which it was handed down.
type Packet = (u64, u64);

struct Line {
    follower: Follower,
    rho: f64,
    random: u64,
    next: u64,
    responses: BTreeMap<u64, Response>,
    ended: Vec<Connection>,
    /// The responses that have packets in the bands, the shortest first.
    waiting: BTreeSet<(u64, u64)>,
    queue: VecDeque<Packet>,
    arriving: VecDeque<(u64, Packet)>,
    left_bytes: u64,
    /// The credit of the bands and of the line, in bytes.
    credit: [f64; 2],
    paces: Vec<f64>,
    /// The packets that the line has dropped in each second.
    drops: Vec<u64>,
}

impl Line {
    fn new(rho: f64, seed: u64) -> Line {
        let bounds = Bounds { least: None, first: None, most: "10gbit".parse().ok() };
        Line {
            follower: Follower::new(bounds),
            rho,
            random: seed,
            next: 0,
            responses: BTreeMap::new(),
            ended: Vec::new(),
            waiting: BTreeSet::new(),
            queue: VecDeque::new(),
            arriving: VecDeque::new(),
            left_bytes: 0,
            credit: [0.0; 2],
            paces: Vec::new(),
            drops: Vec::new(),
        }
    }

    fn random(&mut self) -> f64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    fn run(mut self, seconds: usize) -> Line {
        self.drops = vec![0; seconds];
        for ms in 0..seconds as u64 * 1000 {
            self.step(ms);
            if ms % SIGHT_EVERY_MS == 0 {
                self.look(ms);
            }
            let pace = self.follower.pace().map_or(f64::INFINITY, |pace| pace.bits_per_s() as f64 / 1e6);
            self.paces.push(pace);
        }
        self
    }

    /// Returns the time that a packet would wait in the line's queue now.
    fn queue_ms(&self) -> u64 {
        (self.queue.len() as f64 * PACKET as f64 / 125.0 / LINE_MBIT) as u64
    }

    /// Begins responses by chance. Their handshakes bypass the bands, and may find the line full.
    fn begin(&mut self, ms: u64) {
        let mean = 2.0 + MIDDLE.0 * MIDDLE.1 as f64 + LARGE.0 * LARGE.1 as f64;
        let each = self.rho * LINE_MBIT * 125.0 / PACKET as f64 / mean / 8.0;
        for _ in 0..8 {
            if self.random() >= each {
                continue;
            }
            let (which, small) = (self.random(), 1 + (3.0 * self.random()) as u64);
            let size = match which {
                which if which < LARGE.0 => LARGE.1,
                which if which < LARGE.0 + MIDDLE.0 => MIDDLE.1,
                _ => small,
            };
            let took_ms = RTT_MS + self.queue_ms();
            let is_lost = self.queue.len() as u64 >= LINE_PACKETS;
            let ready_ms = ms + took_ms + if is_lost { HANDSHAKE_TIMEOUT_MS } else { 0 };
            let us = took_ms as u32 * 1000;
            let response =
                Response { size, ready_ms, window: 10, smoothed_us: us, least_us: us, ..Response::default() };
            self.responses.insert(self.next, response);
            self.next += 1;
        }
    }

    fn step(&mut self, ms: u64) {
        self.begin(ms);
        let pace = self.follower.pace().map_or(1e4, |pace| pace.bits_per_s() as f64 / 1e6);
        self.credit[0] = (self.credit[0] + pace * 125.0).min(pace * 125.0 + PACKET as f64);
        self.hand_down(ms);
        while self.credit[0] >= PACKET as f64
            && let Some((_, number)) = self.waiting.first().copied()
        {
            self.credit[0] -= PACKET as f64;
            self.leave(ms, number);
        }
        self.credit[1] = (self.credit[1] + LINE_MBIT * 125.0).min(LINE_MBIT * 125.0 + PACKET as f64);
        while self.credit[1] >= PACKET as f64
            && let Some(packet) = self.queue.pop_front()
        {
            self.credit[1] -= PACKET as f64;
            self.arriving.push_back((ms + RTT_MS, packet));
        }
        while let Some((_, (number, sent_ms))) = self.arriving.pop_front_if(|(at, _)| *at <= ms) {
            self.arrive(ms, number, sent_ms);
        }
    }

    fn hand_down(&mut self, ms: u64) {
        for (number, response) in self.responses.iter_mut().filter(|(_, response)| response.ready_ms <= ms) {
            response.hand_down(ms, BELOW_MAX);
            if response.below > 0 {
                self.waiting.insert((response.size, *number));
            }
        }
    }

    /// Sends the next packet of a response; a full line drops it.
    fn leave(&mut self, ms: u64, number: u64) {
        let response = self.responses.get_mut(&number).expect("it waits");
        self.left_bytes += PACKET;
        response.below -= 1;
        if self.queue.len() as u64 >= LINE_PACKETS {
            self.drops[(ms / 1000) as usize] += 1;
            let is_long = response.outstanding() >= LONG_PACKETS;
            let wait_ms = if is_long { RTT_MS + 12 } else { DATA_TIMEOUT_MS };
            response.dropped.push_back(ms + wait_ms);
            response.window = (response.window * 7 / 10).max(2);
        } else {
            response.on_way += 1;
            self.queue.push_back((number, ms));
        }
        // TCP hands down the next packet immediately.
        response.hand_down(ms, BELOW_MAX);
        if response.below == 0 {
            self.waiting.remove(&(response.size, number));
        }
    }

    fn arrive(&mut self, ms: u64, number: u64, sent_ms: u64) {
        let response = self.responses.get_mut(&number).expect("it has not ended");
        response.acknowledge(ms, sent_ms);
        if response.acked == response.size {
            self.ended.push(response.connection(number, ms));
            self.responses.remove(&number);
        }
    }

    fn look(&mut self, ms: u64) {
        let ready = self.responses.iter().filter(|(_, response)| response.ready_ms <= ms);
        let connections: Vec<Connection> = ready.map(|(number, response)| response.connection(*number, ms)).collect();
        let waiting_bytes = self.responses.values().map(|response| response.below * PACKET).sum();
        let sight = Sight { left_bytes: self.left_bytes, waiting_bytes, ..sight(&connections, &self.ended) };
        let _ = self.follower.see(Nanos(ms * STEP.0), &sight);
        self.ended.clear();
    }
}

/// Formerly the pace went to 1.06 to 1.27 of the line, and up to 182 packets a second were dropped.
#[test]
fn short_responses_show_that_the_line_is_full() {
    for (rho, seed) in [(0.8, 1), (0.8, 2), (1.2, 1), (1.2, 2)] {
        let line = Line::new(rho, seed).run(12);
        let paces = &line.paces[2000..];
        let (most, mean) = (paces.iter().copied().fold(0.0, f64::max), paces.iter().sum::<f64>() / paces.len() as f64);
        let case = format!("{rho} {seed}: mean {mean}, most {most}, dropped {:?}", line.drops);
        assert!(line.next > 18_000 && (0.9..1.03).contains(&(mean / LINE_MBIT)), "{case}");
        assert!(most < 1.08 * LINE_MBIT && line.drops[2..].iter().sum::<u64>() < 10, "{case}");
    }
}
