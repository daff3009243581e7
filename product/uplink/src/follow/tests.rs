//! The follower with a model of bands, a line and TCP, in steps of a millisecond.

mod full_line;
mod short_flows;
mod slow_clients;

use std::collections::VecDeque;

use sched::line::Bounds;
use units::{Nanos, Rate};

use super::waits::{Waits, age};
use super::{Follower, Sight};
use crate::{Connection, Counted, TcpInfo};

const HEAD_BYTES: u64 = 66;
const SEGMENT_BYTES: u64 = 1448;
/// The maximum packets of a connection that TCP hands down to the bands at a time (its small queues).
const BELOW_MAX: u64 = 3;
const STEP: Nanos = Nanos::from_millis(1);
const SIGHT_EVERY_MS: u64 = 25;
const LINE_PACKETS: u64 = 100;
/// The number of packets that a band holds, since the packets of other hosts are not held back; and the number that it
/// drops beyond that.
const BAND_PACKETS: u64 = 100;
const DROPPED_PACKETS: u64 = 10;
const ROOM_PACKETS: u64 = 200;
/// The number of packets of responses, and the part of responses that is large.
const SMALL_PACKETS: u64 = 6;
const LARGE_PACKETS: u64 = 150;
const LARGE_PART: f64 = 0.06;
const FETCH_PACKETS: u64 = 14;
/// The time after which a flow sends again the packets that a crowded band has dropped; it doubles if they are dropped
/// again.
const TIMEOUT_MS: u64 = 200;
/// The time for which a flow that has ended is listed.
const LISTED_MS: u64 = 1500;

#[derive(Debug, Clone, Default)]
struct Flow {
    window: u64,
    /// The times at which its packets in the bands, at most [`BELOW_MAX`], were handed down.
    below: VecDeque<u64>,
    on_way: u64,
    /// The times at which packets that a crowded band has dropped are sent again, and the length of each wait.
    dropped: VecDeque<(u64, u64)>,
    acked: u64,
    lost: u64,
    /// The packets that a full band has refused; TCP counts each as sent.
    refused: u64,
    smoothed_us: f64,
    least_us: f64,
    /// The packets handed down, and the one whose acknowledgement ends the open round trip.
    handed: u64,
    opened: Option<u64>,
    /// The number of packets of its response, if it has an end.
    size: Option<u64>,
    /// The time since the flow ended.
    ended_ms: u64,
    /// The times of its last packet and of its last acknowledgement.
    handed_at_ms: u64,
    acked_at_ms: u64,
    /// The band of its last packet, as the number of doublings of what it had handed down.
    band: u32,
}

fn sight<'a>(connections: &'a [Connection], ended: &'a [Connection]) -> Sight<'a> {
    Sight { left_bytes: 0, waiting_bytes: 0, dropped_bytes: 0, late: Nanos::ZERO, connections, ended }
}

impl Flow {
    fn has_ended(&self) -> bool {
        self.size.is_some_and(|size| self.acked >= size)
    }

    fn outstanding(&self) -> u64 {
        self.on_way + (self.below.len() + self.dropped.len()) as u64
    }
}

/// A packet in flight: the flow, and the time at which it was handed down.
type Packet = (usize, u64);

struct World {
    follower: Follower,
    flows: Vec<Flow>,
    rtt_ms: u64,
    line: Box<dyn Fn(u64) -> f64>,
    /// The payload of a packet: responses may be shorter than a segment.
    payload: u64,
    /// The bytes of the line per millisecond that leave without a connection.
    unseen: f64,
    /// Whether the flows are of other hosts, and known by their packets.
    are_forwarded: bool,
    /// The factor by which arriving responses overload the line; the bands then hold [`ROOM_PACKETS`] together.
    overload: Option<f64>,
    /// The time of the first sight; and the interval between short responses of one client, all others being another's.
    begins_ms: u64,
    fetch_every_ms: Option<u64>,
    drops: u64,
    /// The number of packets of this host that its bands refuse, before they hold its TCP back.
    refusals: u64,
    /// The mean times for which the host alternately runs and is stopped.
    stops: Option<(f64, f64)>,
    stopped_until: f64,
    runs_until: f64,
    random: u64,
    queue: VecDeque<Packet>,
    arriving: VecDeque<(u64, Packet)>,
    /// The rate of the link of the first flow's client, in Mbit/s; and the packets on it, with the times at which they
    /// arrive.
    own_link: Option<f64>,
    on_own_link: VecDeque<(f64, Packet)>,
    /// The time at which the first flow's client vanishes.
    gone_at_ms: u64,
    waits: Waits,
    /// The bytes that have left each band.
    left_of_bands: [u64; 64],
    left_bytes: u64,
    turn: usize,
    credit: [f64; 3],
    paces: Vec<f64>,
    queues_ms: Vec<f64>,
}

impl World {
    fn new(first: Option<&str>, flows: usize, rtt_ms: u64, line: impl Fn(u64) -> f64 + 'static) -> World {
        let rate = |text: &str| text.parse::<Rate>().ok();
        let bounds = Bounds { least: None, first: first.and_then(rate), most: rate("10gbit") };
        World {
            follower: Follower::new(bounds),
            flows: vec![Flow { window: 10, ..Flow::default() }; flows],
            rtt_ms,
            line: Box::new(line),
            payload: SEGMENT_BYTES,
            unseen: 0.0,
            are_forwarded: false,
            overload: None,
            begins_ms: 0,
            fetch_every_ms: None,
            drops: 0,
            refusals: 0,
            stops: None,
            stopped_until: 0.0,
            runs_until: 10_000.0,
            random: 1,
            queue: VecDeque::new(),
            arriving: VecDeque::new(),
            own_link: None,
            on_own_link: VecDeque::new(),
            gone_at_ms: u64::MAX,
            waits: Waits::default(),
            left_of_bands: [0; 64],
            left_bytes: 0,
            turn: 0,
            credit: [0.0; 3],
            paces: Vec::new(),
            queues_ms: Vec::new(),
        }
    }

    fn packet(&self) -> u64 {
        self.payload + HEAD_BYTES
    }

    fn run(mut self, seconds: u64) -> World {
        let mut due = self.begins_ms;
        for ms in 0..seconds * 1000 {
            let is_stopped = self.is_stopped(ms as f64);
            // A process that waited runs before the acknowledgements that waited.
            if ms >= due && !is_stopped {
                self.look_late(ms, ms - due);
                due = ms + SIGHT_EVERY_MS;
            }
            match is_stopped {
                true => self.step_line(ms),
                false => self.step(ms),
            }
            let pace = self.follower.pace().map_or(f64::INFINITY, |pace| pace.bits_per_s() as f64 / 1e6);
            self.paces.push(pace);
            self.queues_ms.push(self.queue.len() as f64 * self.packet() as f64 * 8.0 / 1000.0 / (self.line)(ms));
        }
        self
    }

    /// Returns a uniform number in 0..1, the same in every run.
    fn random(&mut self) -> f64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns whether the host has no processor in this millisecond.
    fn is_stopped(&mut self, ms: f64) -> bool {
        let Some((runs_ms, stops_ms)) = self.stops else { return false };
        if ms >= self.runs_until {
            self.stopped_until = ms - stops_ms * (1.0 - self.random()).ln();
            self.runs_until = self.stopped_until - runs_ms * (1.0 - self.random()).ln();
        }
        ms < self.stopped_until
    }

    /// Lets the flows hand down what their windows allow.
    fn hand_down(&mut self, ms: u64) {
        let most = if self.are_forwarded { BAND_PACKETS } else { BELOW_MAX };
        for flow in self.flows.iter_mut().filter(|flow| !flow.has_ended()) {
            while flow.on_way + (flow.below.len() as u64) < flow.window
                && flow.size.is_none_or(|size| flow.handed < size)
            {
                if flow.below.len() as u64 >= most {
                    if self.are_forwarded {
                        // A whole part of the window is dropped before the flow notices.
                        (self.drops, flow.lost) = (self.drops + DROPPED_PACKETS, flow.lost + DROPPED_PACKETS);
                        flow.opened = None;
                        flow.window = (flow.window * 7 / 10).max(2);
                    } else if self.drops < self.refusals {
                        (self.drops, flow.refused) = (self.drops + 1, flow.refused + 1);
                    }
                    break;
                }
                flow.below.push_back(ms);
                flow.handed += 1;
                (flow.band, flow.handed_at_ms) = (flow.handed.ilog2(), ms);
                flow.opened = flow.opened.or(Some(flow.handed));
            }
        }
    }

    /// Begins a flow now and then. Its handshake passes the bands by.
    fn begin_flow(&mut self, ms: u64, overload: f64) {
        let mean = SMALL_PACKETS as f64 * (1.0 - LARGE_PART) + LARGE_PACKETS as f64 * LARGE_PART;
        if self.random() < overload * (self.line)(ms) * 125.0 / self.packet() as f64 / mean {
            let size = if self.random() < LARGE_PART { LARGE_PACKETS } else { SMALL_PACKETS };
            self.begin(ms, size);
        }
    }

    fn begin(&mut self, ms: u64, size: u64) {
        let queue_ms = self.queue.len() as f64 * self.packet() as f64 / 125.0 / (self.line)(ms);
        let us = (self.rtt_ms as f64 + queue_ms) * 1000.0;
        self.flows.push(Flow { window: 10, size: Some(size), smoothed_us: us, least_us: us, ..Flow::default() });
    }

    /// Lets the flows of other hosts hand down what their windows allow, and send again the packets that the crowded
    /// bands had dropped.
    fn crowd(&mut self, ms: u64, overload: f64) {
        self.begin_flow(ms, overload);
        let mut waiting = self.flows.iter().map(|flow| flow.below.len() as u64).sum::<u64>();
        for flow in self.flows.iter_mut().filter(|flow| !flow.has_ended()) {
            let due = flow.dropped.iter().filter(|(at, _)| *at <= ms).count();
            let more = flow.window.saturating_sub(flow.outstanding()).min(flow.size.unwrap_or(u64::MAX) - flow.handed);
            for again in (0..due).map(|_| true).chain((0..more).map(|_| false)) {
                let waited = if again { flow.dropped.pop_front().map_or(0, |(_, waited)| waited) } else { 0 };
                flow.lost += u64::from(again);
                flow.handed += u64::from(!again);
                (flow.band, flow.handed_at_ms) = (flow.handed.max(1).ilog2(), ms);
                flow.opened = if again { None } else { flow.opened.or(Some(flow.handed)) };
                if waiting < ROOM_PACKETS {
                    waiting += 1;
                    flow.below.push_back(ms);
                } else {
                    self.drops += 1;
                    let wait = TIMEOUT_MS.max(2 * waited);
                    flow.dropped.push_back((ms + wait, wait));
                    flow.window = (flow.window * 7 / 10).max(2);
                }
            }
        }
    }

    fn step(&mut self, ms: u64) {
        if self.fetch_every_ms.is_some_and(|every| ms.is_multiple_of(every)) {
            self.begin(ms, FETCH_PACKETS);
        }
        self.flows.iter_mut().filter(|flow| flow.has_ended()).for_each(|flow| flow.ended_ms += 1);
        match self.overload {
            Some(overload) => self.crowd(ms, overload),
            None => self.hand_down(ms),
        }
        // The bands send, and the flows take turns in them.
        let pace = self.follower.pace().map_or(1e4, |pace| pace.bits_per_s() as f64 / 1e6);
        self.credit[0] = (self.credit[0] + pace * 125.0).min(pace * 125.0 + self.packet() as f64);
        self.credit[2] = (self.credit[2] + self.unseen).min(10.0 * self.packet() as f64);
        while self.credit[2].min(self.credit[0]) >= self.packet() as f64 {
            (self.credit[2], self.credit[0]) =
                (self.credit[2] - self.packet() as f64, self.credit[0] - self.packet() as f64);
            self.left_bytes += self.packet();
            self.queue.push_back((usize::MAX, ms));
        }
        while self.credit[0] >= self.packet() as f64 && self.leave() {
            self.credit[0] -= self.packet() as f64;
        }
        self.step_line(ms);
        while self.arriving.front().is_some_and(|(at, _)| *at <= ms) {
            let (_, (flow, since)) = self.arriving.pop_front().unwrap();
            match self.own_link.filter(|_| flow == 0) {
                Some(link) => {
                    let before = self.on_own_link.back().map_or(0.0, |(at, _)| *at).max(ms as f64);
                    self.on_own_link.push_back((before + self.packet() as f64 / 125.0 / link, (flow, since)));
                }
                None => self.acknowledge(ms, flow, since),
            }
        }
        while self.on_own_link.front().is_some_and(|(at, _)| *at <= ms as f64) {
            let (_, (flow, since)) = self.on_own_link.pop_front().unwrap();
            if ms < self.gone_at_ms {
                self.acknowledge(ms, flow, since);
            }
        }
    }

    fn step_line(&mut self, ms: u64) {
        let line = (self.line)(ms);
        self.credit[1] = (self.credit[1] + line * 125.0).min(line * 125.0 + self.packet() as f64);
        while self.credit[1] >= self.packet() as f64
            && let Some(packet) = self.queue.pop_front()
        {
            self.credit[1] -= self.packet() as f64;
            self.arriving.push_back((ms + self.rtt_ms, packet));
        }
    }

    /// Sends the next packet of the bands; a full line drops it.
    fn leave(&mut self) -> bool {
        for _ in 0..self.flows.len() {
            self.turn = match self.overload {
                // The flow that has received least is next.
                Some(_) => {
                    let waiting = self.flows.iter().enumerate().filter(|(_, flow)| !flow.below.is_empty());
                    waiting.min_by_key(|(_, flow)| flow.acked + flow.on_way).map_or(0, |(at, _)| at)
                }
                None => (self.turn + 1) % self.flows.len(),
            };
            let flow = &mut self.flows[self.turn];
            if let Some(since) = flow.below.pop_front() {
                self.left_bytes += self.payload + HEAD_BYTES;
                self.left_of_bands[flow.band as usize] += self.payload + HEAD_BYTES;
                if self.queue.len() as u64 >= LINE_PACKETS {
                    (flow.lost, flow.opened) = (flow.lost + 1, None);
                    // The lost packet is sent again.
                    flow.handed -= 1;
                    flow.window = (flow.window * 7 / 10).max(2);
                } else {
                    flow.on_way += 1;
                    self.queue.push_back((self.turn, since));
                }
                return true;
            }
        }
        false
    }

    fn acknowledge(&mut self, ms: u64, flow: usize, since: u64) {
        let Some(flow) = self.flows.get_mut(flow) else { return };
        flow.on_way -= 1;
        flow.acked += 1;
        flow.acked_at_ms = ms;
        let us = ((ms - since).max(1) * 1000) as f64;
        if flow.acked.is_multiple_of(8) && (self.are_forwarded || flow.below.len() < 2) {
            flow.window += 1;
        }
        if self.are_forwarded && flow.opened.is_none_or(|opened| flow.acked < opened) {
            return;
        }
        flow.opened = None;
        let rise = if self.are_forwarded { 0.5 } else { 0.125 };
        let part = if self.are_forwarded && us < flow.smoothed_us { 1.0 } else { rise };
        flow.smoothed_us = if flow.smoothed_us == 0.0 { us } else { flow.smoothed_us * (1.0 - part) + us * part };
        flow.least_us = if flow.least_us == 0.0 { us } else { flow.least_us.min(us) };
    }

    fn connections(&self, ms: u64) -> Vec<Connection> {
        let client_of = |at: usize, flow: &Flow| match self.fetch_every_ms {
            Some(_) => usize::from(flow.size.is_some()),
            None => at % 8,
        };
        let connection = |(at, flow): (usize, &Flow)| Connection {
            cookie: at as u64 + 1,
            own: [1; 16],
            client: [client_of(at, flow) as u8 + 2; 16],
            is_ipv6: false,
            is_forwarded: self.are_forwarded,
            info: TcpInfo {
                segment_bytes: SEGMENT_BYTES as u32,
                unacked_segments: flow.outstanding() as u32,
                rtt_us: flow.smoothed_us as u32,
                min_rtt_us: flow.least_us as u32,
                notsent_bytes: if self.are_forwarded {
                    u32::from(flow.outstanding() >= 8)
                } else {
                    flow.size.map_or(1_000_000, |size| (size - flow.handed.min(size)) as u32)
                },
                acked_bytes: flow.acked * self.payload,
                retransmitted_bytes: flow.lost * self.payload,
                sent_bytes: (flow.acked + flow.outstanding() + flow.lost + flow.refused) * self.payload,
                has_timestamps: true,
                last_ack_ms: (ms - flow.acked_at_ms) as u32,
                ..TcpInfo::default()
            },
            outstanding_bytes: (flow.outstanding() * self.payload) as u32,
            below_bytes: match self.are_forwarded {
                true => self.waiting_bytes(ms, flow) as u32,
                false => flow.below.len() as u32 * 2304,
            },
        };
        self.flows.iter().enumerate().filter(|(_, flow)| flow.ended_ms < LISTED_MS).map(connection).collect()
    }

    /// Returns the estimate for a flow of another host.
    fn waiting_bytes(&self, ms: u64, flow: &Flow) -> u64 {
        let age = age(Nanos::from_micros(flow.smoothed_us as u64), Nanos::from_millis(ms - flow.acked_at_ms));
        let idle = Nanos::from_millis(ms - flow.handed_at_ms);
        self.waits.waiting_bytes(flow.band, flow.outstanding() * self.payload, age, idle)
    }

    fn look(&mut self, ms: u64) {
        self.look_late(ms, 0);
    }

    fn look_late(&mut self, ms: u64, late_ms: u64) {
        let band = |(band, bytes): (usize, &u64)| {
            let flows = self.flows.iter().filter(|flow| flow.band as usize == band);
            let backlog_bytes = flows.map(|flow| flow.below.len() as u64 * self.packet()).sum();
            (band as u32, Counted { bytes: *bytes, backlog_bytes, ..Counted::default() })
        };
        let bands = self.left_of_bands.iter().enumerate().map(band).collect::<Vec<_>>();
        self.waits.see(Nanos::from_millis(ms), bands.into_iter());
        let connections = self.connections(ms);
        let waiting = self.flows.iter().map(|flow| flow.below.len() as u64 * self.packet()).sum();
        let sight = Sight {
            left_bytes: self.left_bytes,
            waiting_bytes: waiting,
            dropped_bytes: self.drops * self.packet(),
            late: Nanos::from_millis(late_ms),
            ..sight(&connections, &[])
        };
        let _ = self.follower.see(Nanos(ms * STEP.0), &sight);
    }

    /// Returns the mean of these values from one second to another.
    fn mean(values: &[f64], from_s: usize, to_s: usize) -> f64 {
        let part = &values[from_s * 1000..to_s * 1000];
        part.iter().sum::<f64>() / part.len() as f64
    }
}

#[test]
fn the_line_is_found_and_its_queue_ends() {
    for (line, rtt_ms, flows) in [(3.0, 5, 3), (10.0, 5, 1), (10.0, 30, 4), (10.0, 100, 8), (30.0, 30, 3)] {
        let world = World::new(None, flows, rtt_ms, move |_| line).run(40);
        let (pace, queue) = (World::mean(&world.paces, 15, 40), World::mean(&world.queues_ms, 15, 40));
        assert!((0.93..1.05).contains(&(pace / line)), "{line} {rtt_ms} {flows}: {pace}");
        assert!(queue < 8.0 + 30.0 / line, "{line} {rtt_ms} {flows}: {queue} ms");
    }
}

/// Otherwise all that the bands ever refused would be in flight beyond them.
#[test]
fn what_a_band_refuses_was_not_sent() {
    for (line, rtt_ms, flows) in [(3.0, 5, 3), (10.0, 30, 4), (30.0, 30, 3)] {
        let mut world = World::new(None, flows, rtt_ms, move |_| line);
        world.refusals = 60;
        let world = world.run(40);
        let (pace, queue) = (World::mean(&world.paces, 15, 40), World::mean(&world.queues_ms, 15, 40));
        let case = format!("{line} {rtt_ms} {flows}, {} refused: pace {pace}, queue {queue} ms", world.drops);
        assert!(world.drops == 60 && (0.93..1.05).contains(&(pace / line)) && queue < 8.0 + 30.0 / line, "{case}");
    }
}

/// The windows of the flows wait in the bands, which drop the excess, and one round trip is seen at a time.
#[test]
fn the_line_is_found_by_forwarded_flows_alone() {
    for (line, rtt_ms, flows) in [(3.0, 5, 3), (10.0, 5, 1), (10.0, 30, 4), (10.0, 100, 8), (30.0, 30, 3)] {
        let mut world = World::new(None, flows, rtt_ms, move |_| line);
        world.are_forwarded = true;
        let world = world.run(60);
        let (pace, queue) = (World::mean(&world.paces, 20, 60), World::mean(&world.queues_ms, 20, 60));
        let case = format!("{line} {rtt_ms} {flows}, {} dropped: pace {pace}, queue {queue} ms", world.drops);
        assert!((0.93..1.05).contains(&(pace / line)), "{case}");
        assert!(queue < 8.0 + 30.0 / line, "{case}");
    }
}

/// Responses of other hosts overload the line: bytes dropped by the bands are sent again, have not left before, and are
/// not in flight.
#[test]
fn what_crowded_bands_drop_is_neither_lost_nor_queued_by_the_line() {
    for (line, rtt_ms, seed) in [(10.0, 5, 1), (3.0, 30, 3)] {
        let mut world = World::new(None, 1, rtt_ms, move |_| line);
        (world.are_forwarded, world.overload, world.random) = (true, Some(1.2), seed);
        let world = world.run(45);
        let paces = &world.paces[15_000..];
        let (least, most) = paces.iter().fold((f64::MAX, 0.0), |(least, most), pace| (pace.min(least), pace.max(most)));
        let (pace, queue) = (World::mean(&world.paces, 15, 45), World::mean(&world.queues_ms, 15, 45));
        let alive = world.flows.iter().filter(|flow| !flow.has_ended()).count();
        let case = format!(
            "{line} {rtt_ms}, {} dropped, {alive} flows: pace {pace}, {least} to {most}, queue {queue} ms",
            world.drops
        );
        assert!(world.drops > 2000 && (0.93..1.05).contains(&(pace / line)) && most < 1.12 * line, "{case}");
        assert!(queue < 8.0 + 30.0 / line, "{case}");
    }
}

/// A host that is stopped from time to time, and whose acknowledgements wait for the same processor, is not behind
/// another line.
#[test]
fn a_host_without_processor_is_behind_no_other_line() {
    for (stops_ms, are_forwarded) in [4.0, 20.0, 60.0].into_iter().flat_map(|ms| [(ms, false), (ms, true)]) {
        let mut all = 0.0;
        for seed in 1..5 {
            let mut world = World::new(None, 4, 20, |_| 10.0);
            (world.are_forwarded, world.stops, world.random) = (are_forwarded, Some((150.0, stops_ms)), seed);
            let world = world.run(60);
            let most = world.paces[12_000..].iter().copied().fold(0.0, f64::max);
            let mean = World::mean(&world.paces, 12, 60);
            let case = format!("{seed} {stops_ms} {are_forwarded}: mean {mean}, most {most}");
            let least = if stops_ms > 50.0 { 6.5 } else { 9.2 };
            assert!((least..10.6).contains(&mean) && most < 11.5, "{case}");
            all += mean / 4.0;
        }
        assert!(all > if stops_ms > 50.0 { 7.7 } else { 9.7 }, "{stops_ms} {are_forwarded}: {all}");
    }
}

/// Three connections with three packets each waiting here have round trips that are 11 ms longer at 10 Mbit/s.
#[test]
fn what_waits_here_is_no_queue_of_the_line() {
    for rtt_ms in [2, 5, 30] {
        let world = World::new(Some("5mbit"), 3, rtt_ms, |_| 10.0).run(30);
        let least = (2..29).map(|at| World::mean(&world.paces, at, at + 1)).fold(f64::INFINITY, f64::min);
        assert!(least > 4.4 && World::mean(&world.paces, 20, 30) > 9.0, "{rtt_ms}: {least} {:?}", world.paces.last());
    }
}

/// In FIN-WAIT-2 and later a connection is no longer listed, and its end is reported in a later sight.
#[test]
fn what_a_connection_delivered_last_counts_once() {
    for left_each in [2000, 200_000] {
        let mut follower = Follower::new(Bounds::default());
        let with = |acked_segments: u64| {
            let mut connection = World::new(None, 1, 20, |_| 10.0).connections(0)[0];
            connection.info.sent_bytes = 3 * SEGMENT_BYTES;
            connection.info.acked_bytes = acked_segments * SEGMENT_BYTES;
            connection
        };
        let lists: [(&[Connection], &[Connection]); 5] =
            [(&[], &[]), (&[with(0)], &[]), (&[with(1)], &[]), (&[], &[]), (&[], &[with(3)])];
        for (turn, (connections, ended)) in (1..).zip(lists) {
            let sight = Sight { left_bytes: turn * left_each, ..sight(connections, ended) };
            let _ = follower.see(Nanos(turn * SIGHT_EVERY_MS * STEP.0), &sight);
        }
        assert_eq!(follower.tally().delivered_bytes, 3 * (SEGMENT_BYTES + HEAD_BYTES), "{left_each}");
    }
}

#[test]
fn a_line_that_falls_and_rises_is_followed() {
    for mbit in [1.0, 2.0, 3.0, 4.0, 5.0, 6.5, 8.0] {
        let world = World::new(None, 4, 30, move |ms| if (20_000..50_000).contains(&ms) { mbit } else { 10.0 });
        let world = world.run(90);
        let (low, high) = (World::mean(&world.paces, 30, 50) / mbit, World::mean(&world.paces, 80, 90));
        assert!((0.83..1.1).contains(&low) && (8.5..10.6).contains(&high), "{mbit}: {low} {high}");
    }
}

/// After a fall to a third, too little of the pace is used for losses to be judged, and an interval has too few round
/// trips: a trial that waits for either would never end.
#[test]
fn a_line_that_falls_while_a_cut_is_on_trial_is_followed() {
    for (flows, rtt_ms, mbit) in [(1, 5, 3.0), (1, 60, 3.0), (8, 30, 4.0), (12, 5, 3.0), (12, 30, 3.5)] {
        for at in (0..6).map(|turn| 20_000 + 370 * turn) {
            let world = World::new(None, flows, rtt_ms, move |ms| if ms >= at { mbit } else { 10.0 }).run(45);
            let pace = World::mean(&world.paces, 30, 45) / mbit;
            assert!((0.83..1.2).contains(&pace), "{flows} {rtt_ms} {mbit} {at}: {pace}");
        }
    }
}

/// Six of ten Mbit/s are datagrams, which nobody acknowledges.
#[test]
fn bytes_without_a_connection_are_not_missed() {
    let mut world = World::new(None, 3, 20, |_| 10.0);
    world.unseen = 6.0 * 125.0;
    let world = world.run(40);
    assert!(world.follower.tally().sent_bytes * 2 < world.follower.tally().left_bytes);
    let status = world.follower.status(Nanos::from_secs(40));
    assert!(status.rate.is_some_and(|rate| rate.bits_per_s() > 8_500_000), "{status:?}");
}

/// Flows that are not in the table when an attach begins count once, and not again as unseen bytes.
#[test]
fn bytes_that_connections_explain_are_not_unseen() {
    let mut follower = Follower::new(Bounds::default());
    let mut connection = World::new(None, 1, 20, |_| 10.0).connections(0)[0];
    let packets = 20;
    for turn in 1..200u64 {
        let payload = turn.saturating_sub(40) * packets * SEGMENT_BYTES;
        (connection.info.sent_bytes, connection.info.acked_bytes) = (payload, payload);
        let listed = [connection];
        let connections = if turn > 40 { &listed[..] } else { &[] };
        let left_bytes = turn * packets * (SEGMENT_BYTES + HEAD_BYTES);
        let _ = follower.see(Nanos(turn * SIGHT_EVERY_MS * STEP.0), &Sight { left_bytes, ..sight(connections, &[]) });
    }
    let tally = follower.tally();
    assert!(tally.unseen_bytes > 0 && tally.delivered_bytes + tally.unseen_bytes <= tally.left_bytes, "{tally:?}");
}

/// Bytes that a connection had sent before belong to an earlier time.
#[test]
fn what_was_sent_before_the_first_sight_does_not_count() {
    let mut world = World::new(None, 1, 20, |_| 10.0);
    world.flows[0].acked = 1_000_000;
    let world = world.run(1);
    assert!(world.follower.tally().sent_bytes <= world.left_bytes, "{:?}", world.follower.tally());
}

#[test]
fn a_line_that_is_never_full_stays_unknown() {
    let mut world = World::new(None, 2, 20, |_| 10.0);
    for ms in 0..20_000 {
        // There are four packets in each round trip.
        world.flows.iter_mut().for_each(|flow| flow.window = 4);
        world.step(ms);
        if ms % SIGHT_EVERY_MS == 0 {
            world.look(ms);
        }
    }
    assert_eq!((world.follower.pace(), world.follower.status(Nanos::from_secs(20)).rate), (None, None));
}

/// The bytes of a client that has stopped reading, or has gone, do not wait for the line.
#[test]
fn bytes_that_nobody_takes_are_no_backlog() {
    for is_shut in [true, false] {
        let mut world = World::new(None, 2, 20, |_| 10.0);
        for ms in 0..20_000u64 {
            world.flows.iter_mut().for_each(|flow| {
                flow.window = 4;
                flow.lost += u64::from(ms % 1000 == 0);
            });
            world.step(ms);
            if ms % SIGHT_EVERY_MS > 0 {
                continue;
            }
            let mut connections = world.connections(ms);
            let mut stuck = connections[0];
            connections.iter_mut().for_each(|connection| connection.info.notsent_bytes = 0);
            stuck.cookie = 9;
            stuck.info.acked_bytes = 0;
            stuck.info.sent_bytes = 0;
            stuck.info.retransmitted_bytes = 0;
            (stuck.info.rwnd_limited_us, stuck.info.last_ack_ms) =
                if is_shut { (1000 * ms, 10) } else { (0, 1000 + ms as u32) };
            (stuck.outstanding_bytes, stuck.below_bytes) = (0, 0);
            connections.push(stuck);
            let sight = Sight { left_bytes: world.left_bytes, ..sight(&connections, &[]) };
            let _ = world.follower.see(Nanos(ms * STEP.0), &sight);
        }
        assert_eq!(world.follower.pace(), None, "{is_shut}");
    }
}

/// Rests, lists without connections and unchanged counters are not evidence of anything.
#[test]
fn silence_changes_nothing() {
    let mut world = World::new(None, 3, 20, |_| 10.0).run(20);
    let before = world.follower.pace();
    assert!(before.is_some());
    for ms in 20_000..50_000 {
        let now = Nanos(ms * STEP.0);
        let change = match ms % 50 {
            0 => world.follower.rest(now, world.left_bytes),
            25 => {
                let sight = Sight { left_bytes: world.left_bytes, ..sight(&[], &[]) };
                world.follower.see(now, &sight)
            }
            _ => None,
        };
        assert!(change.is_none_or(|change| change.pace >= before), "{change:?}");
    }
}
