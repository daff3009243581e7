//! The clairvoyant order of packets: the response times on one serialising link if every size is known in advance.
//!
//! The fluid bound ([`crate::clairvoyant_srpt`]) interrupts packets to let a smaller response pass, and needs no
//! handshake. No server can do that, so a gap to it may not be the server's fault. Here the link takes whole packets,
//! one after another, and at each end of a packet the next one of the response with the least left to send. Any further
//! time is due to the server.
//!
//! # What is assumed
//!
//! - There is one link of one rate with nothing else on it. A packet in transmission is finished, and the link never
//!   idles while it has a packet to send.
//! - A response consists of its opening, if it opens a connection (the SYN-ACK, under TLS also the handshake's flight),
//!   then its data in full segments (the last one may be short), then the packets of its close. The opening is
//!   available when the request is due, and is sent without a pause in the response's own turn, before its data. The
//!   client's packets take no time, so the data can follow immediately. A response's time ends with its last data.
//! - The rest of each packet depends on the protocol ([`Carrier`]): headers, under TLS a record, over HTTP/2 a frame,
//!   over HTTP/3 the overhead of QUIC. Over HTTP/2 and HTTP/3 responses share packets: the last packet of one is
//!   charged only its share, as if others always filled the rest without waiting. That is less than any server needs,
//!   most of all for small responses.
//! - No client waits for the packets of a close, so they are sent when there is nothing else, and delay others by at
//!   most one such packet. Linux sends them immediately, and the acknowledgement of the request before the data. On the
//!   shipped synthetic trace at 10 Mbit/s those two packets cost 4.9 % of the mean at rho 0.8 and 11 % at 0.95. They
//!   could wait, or be sent with data, and are not in the bound.
//! - Everything is left out that could wait, share packets, or be less: certificates and full handshakes (sessions are
//!   resumed), session tickets, close_notify and the closing frames of QUIC, acknowledgements of QUIC and of HTTP/2's
//!   settings, HTTP/3's control streams and the 3 to 5 bytes of a response's DATA frame, offsets and longer numbers in
//!   QUIC's packets, probes of a path's MTU, a Retry. Heads have their actual lengths (over HTTP/2 and HTTP/3 the
//!   HEADERS frame).
//! - Nothing is retransmitted, no window limits the sender, and no path has a delay. In reality at least one round trip
//!   is needed for the handshake and one for the request: on a path with delay, response times exceed this by two round
//!   trips or more.
//!
//! # Not a proven bound
//!
//! The result is a reference, not a proven bound. Without preemption the minimum mean is NP-hard to find (Lenstra,
//! Rinnooy Kan and Brucker 1977, 1|r_j|ΣC_j), and a schedule that leaves the link idle, because it knows that a small
//! response arrives within the packet, may be slightly lower. The fluid bound is proven, and remains so with the
//! opening in each response's service, because every schedule of packets is a schedule of that fluid. The k-th
//! departure here is at most one full packet later than there, on every path (tested, not proven), so no schedule is
//! lower by more than that.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU64;

use units::wire::{CONNECTION_BYTES, PACKET_OVERHEAD_BYTES, SYN_ACK_BYTES};
use units::{Nanos, Rate};

use crate::Carrier;

/// The packets without data that a connection sends after its SYN-ACK: the acknowledgements of the request and of the
/// client's end.
const CLOSING_PACKETS: u64 = (CONNECTION_BYTES - SYN_ACK_BYTES) / PACKET_OVERHEAD_BYTES;

/// A response as a link of packets sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    pub arrival: Nanos,
    /// The bytes of head and body.
    pub payload_bytes: u64,
    /// True if it opens its connection, whose packets go before the data.
    pub opens: bool,
    /// The packets without data that the end of its connection sends.
    pub closing_packets: u64,
}

/// Returns the response time of each response, in the given order. At every end of a packet the link takes the next
/// packet of the response with the least left until its end. Of equal responses the one that arrived first goes first,
/// then the one given first.
///
/// Every packet's time is rounded up to a nanosecond, less than a bit below 1 Gbit/s. The cost is O(n log n), because
/// between two arrivals the order does not change. Panics if all the work ends later than [`Nanos::MAX`].
pub fn packet_srpt(responses: &[Response], carrier: Carrier, link: Rate) -> Vec<Nanos> {
    let times = Times::new(carrier, link);
    let mut order: Vec<usize> = (0..responses.len()).collect();
    order.sort_by_key(|&job| responses[job].arrival);
    let mut line = Line { now: Nanos::ZERO, waiting: BinaryHeap::new(), times };
    let mut found = vec![Nanos::ZERO; responses.len()];
    for (position, &job) in order.iter().enumerate() {
        let response = &responses[job];
        line.run_until(response.arrival, |done, at| found[order[done]] = at - responses[order[done]].arrival);
        line.wait(position, Left::all_of(response));
    }
    line.run_until(Nanos::MAX, |done, at| found[order[done]] = at - responses[order[done]].arrival);
    assert!(line.waiting.is_empty(), "the work ends after the last instant that can be written");
    found
}

/// The packet bound of requests: [`packet_srpt`] for these instants and bytes of head and body. Records do not show
/// which of them opened a connection. It is assumed that a connection is opened after every `per_connection` requests,
/// which is true if connections are used one after another to their end, and is never more than there were.
pub fn packet_bound(requests: &[(Nanos, u64)], per_connection: NonZeroU64, carrier: Carrier, link: Rate) -> Vec<Nanos> {
    let closing_packets = if carrier == Carrier::HTTP3 { 0 } else { CLOSING_PACKETS };
    let (count, of_connection) = (requests.len() as u64, per_connection.get());
    let is_last = |job: u64| job % of_connection == of_connection - 1 || job + 1 == count;
    let response = |(job, &(arrival, payload_bytes)): (u64, &(Nanos, u64))| Response {
        arrival,
        payload_bytes,
        opens: job.is_multiple_of(of_connection),
        closing_packets: if is_last(job) { closing_packets } else { 0 },
    };
    let responses: Vec<Response> = (0..).zip(requests).map(response).collect();
    packet_srpt(&responses, carrier, link)
}

/// The times of each kind of packet on the link.
#[derive(Debug, Clone, Copy)]
struct Times {
    carrier: Carrier,
    link: Rate,
    full: Nanos,
    empty: Nanos,
    opening: Nanos,
}

impl Times {
    fn new(carrier: Carrier, link: Rate) -> Times {
        let [full, empty, opening] =
            [carrier.packet_bytes(), carrier.empty_bytes, carrier.opening_bytes].map(|bytes| link.time_for(bytes));
        Times { carrier, link, full, empty, opening }
    }

    /// The time until the last data.
    fn of(&self, left: &Left) -> Nanos {
        let segments = left.payload_bytes / self.carrier.segment_bytes;
        let opening = if left.opens { self.opening } else { Nanos::ZERO };
        opening + Nanos(self.full.0 * segments) + self.last(left.payload_bytes)
    }

    /// The time of the short segment at the end; zero if there is none.
    fn last(&self, payload_bytes: u64) -> Nanos {
        self.link.time_for(self.carrier.last_bytes(payload_bytes % self.carrier.segment_bytes))
    }
}

/// The packets that a response still has to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Left {
    opens: bool,
    payload_bytes: u64,
    closing_packets: u64,
}

impl Left {
    fn all_of(response: &Response) -> Left {
        let Response { opens, payload_bytes, closing_packets, .. } = *response;
        Left { opens, payload_bytes, closing_packets }
    }

    /// Returns true if the response has ended and only the close is left.
    fn is_closing(&self) -> bool {
        !self.opens && self.payload_bytes == 0
    }
}

struct Line {
    now: Nanos,
    /// The waiting responses: whether only a close is left, the time left to send, the position in order of arrival,
    /// and the packets. The smallest is served.
    waiting: BinaryHeap<Reverse<(bool, Nanos, usize, Left)>>,
    times: Times,
}

impl Line {
    /// Starts packets until `until` and reports each departure (position in order of arrival, instant); the last packet
    /// may end later.
    fn run_until(&mut self, until: Nanos, mut depart: impl FnMut(usize, Nanos)) {
        while self.now < until
            && let Some(Reverse((_, _, position, mut left))) = self.waiting.pop()
        {
            if left.is_closing() {
                self.close(&mut left, until);
            } else {
                self.send(&mut left, until);
                if left.is_closing() {
                    depart(position, self.now);
                }
            }
            self.wait(position, left);
        }
        self.now = self.now.max(until);
    }

    /// Sends until the response ends, or until the first end of a packet at or after `until`.
    fn send(&mut self, left: &mut Left, until: Nanos) {
        if left.opens {
            left.opens = false;
            self.now += self.times.opening;
            return;
        }
        let segment_bytes = self.times.carrier.segment_bytes;
        let wanted = (until - self.now).0.div_ceil(self.times.full.0);
        let full = wanted.min(left.payload_bytes / segment_bytes);
        left.payload_bytes -= full * segment_bytes;
        self.now += Nanos(self.times.full.0 * full);
        if self.now < until {
            self.now += self.times.last(left.payload_bytes);
            left.payload_bytes = 0;
        }
    }

    fn close(&mut self, left: &mut Left, until: Nanos) {
        while self.now < until && left.closing_packets > 0 {
            self.now += self.times.empty;
            left.closing_packets -= 1;
        }
    }

    fn wait(&mut self, position: usize, left: Left) {
        if !left.is_closing() || left.closing_packets > 0 {
            self.waiting.push(Reverse((left.is_closing(), self.times.of(&left), position, left)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Demand, clairvoyant_srpt, wire_service};
    use proptest::prelude::*;

    /// A byte takes a microsecond.
    fn link() -> Rate {
        "8mbit".parse().unwrap()
    }

    fn response(arrival_us: u64, payload_bytes: u64, opens: bool, closing_packets: u64) -> Response {
        Response { arrival: Nanos::from_micros(arrival_us), payload_bytes, opens, closing_packets }
    }

    fn micros(responses: &[Response]) -> Vec<f64> {
        micros_over(Carrier::HTTP1, responses)
    }

    fn micros_over(carrier: Carrier, responses: &[Response]) -> Vec<f64> {
        packet_srpt(responses, carrier, link()).iter().map(|time| time.0 as f64 / 1e3).collect()
    }

    #[test]
    fn alone_it_takes_its_packets() {
        assert!(micros(&[]).is_empty());
        assert_eq!(micros(&[response(7, 1448, false, 0)]), [1514.0]);
        assert_eq!(micros(&[response(7, 1448, true, 2)]), [1588.0], "the close comes after its end");
        assert_eq!(micros(&[response(7, 2 * 1448 + 1, true, 2)]), [74.0 + 2.0 * 1514.0 + 67.0]);
        assert_eq!(micros(&[response(7, 0, false, 1)]), [0.0]);
        assert_eq!(micros(&[response(7, 0, true, 1)]), [74.0]);
    }

    #[test]
    fn alone_it_takes_the_packets_of_its_protocol() {
        // Two full packets and a byte, on a connection that the response opens.
        let alone = |carrier: Carrier| micros_over(carrier, &[response(7, 2 * carrier.segment_bytes + 1, true, 0)]);
        assert_eq!(alone(Carrier::HTTP1_TLS), [352.0 + 2.0 * 1514.0 + 89.0]);
        assert_eq!(alone(Carrier::HTTP2), [83.0 + 2.0 * 1514.0 + 2.0]);
        assert_eq!(alone(Carrier::HTTP2_TLS), [383.0 + 2.0 * 1514.0 + 2.0]);
        assert_eq!(alone(Carrier::HTTP3), [1242.0 + 2.0 * 1494.0 + 2.0]);
    }

    /// The first needs 1,000 of the 1,417 bytes of a packet, 1069 us; the second arrived in the meantime and needs 500,
    /// 535 us.
    #[test]
    fn packets_are_shared_without_waiting() {
        let two = [response(0, 1000, false, 0), response(10, 500, false, 0)];
        assert_eq!(micros_over(Carrier::HTTP2_TLS, &two), [1069.0, 1594.0]);
        assert_eq!(micros_over(Carrier::HTTP1_TLS, &two), [1088.0, 1666.0]);
    }

    #[test]
    fn a_packet_in_transmission_is_finished() {
        // Two packets begin at 0. The small one of 166 arrives at 10 and begins at 1514, as would one that arrives at
        // 1514.
        assert_eq!(micros(&[response(0, 2 * 1448, false, 0), response(10, 100, false, 0)]), [3194.0, 1670.0]);
        assert_eq!(micros(&[response(0, 2 * 1448, false, 0), response(1514, 100, false, 0)]), [3194.0, 166.0]);
        // A microsecond after the second packet began there is nothing to overtake.
        assert_eq!(micros(&[response(0, 2 * 1448, false, 0), response(1515, 100, false, 0)]), [3028.0, 1679.0]);
    }

    #[test]
    fn the_least_left_is_next_with_its_handshake() {
        // At 1514 the first has one packet of 1514 left; the second needs 74 and 1514 and waits.
        assert_eq!(
            micros(&[response(0, 2 * 1448, false, 0), response(10, 1448, true, 0)]),
            [3028.0, 3028.0 + 1588.0 - 10.0]
        );
        // Without a handshake they are equal, and the first continues; with one byte less it is overtaken.
        assert_eq!(micros(&[response(0, 2 * 1448, false, 0), response(10, 1448, false, 0)])[0], 3028.0);
        assert_eq!(micros(&[response(0, 2 * 1448, false, 0), response(10, 1447, false, 0)]), [4541.0, 3017.0]);
    }

    #[test]
    fn a_handshake_can_be_overtaken_before_its_data() {
        // The SYN-ACK of the first is sent from 0 to 74; at 50 a response of 166 arrives, which then goes first.
        assert_eq!(micros(&[response(0, 1448, true, 0), response(50, 100, false, 0)]), [1754.0, 190.0]);
    }

    #[test]
    fn what_a_close_sends_is_for_an_idle_link() {
        // Data from 0 to 166, then the second's; the close of the first begins at 332.
        assert_eq!(micros(&[response(0, 100, false, 2), response(1, 100, false, 0)]), [166.0, 331.0]);
        // A response that arrives while the first of two closing packets is sent, 166 to 232, goes before the second.
        assert_eq!(micros(&[response(0, 100, false, 2), response(170, 1, false, 0)]), [166.0, 62.0 + 67.0]);
    }

    /// Computes the schedule packet by packet, from a list.
    fn by_hand(responses: &[Response], carrier: Carrier) -> Vec<Nanos> {
        let packets = |response: &Response| {
            let payload = (0..response.payload_bytes.div_ceil(carrier.segment_bytes)).map(|at| {
                let rest = response.payload_bytes - at * carrier.segment_bytes;
                if rest < carrier.segment_bytes { carrier.last_bytes(rest) } else { carrier.packet_bytes() }
            });
            let opening = response.opens.then_some(carrier.opening_bytes);
            let mut packets: Vec<(u64, bool)> =
                opening.into_iter().chain(payload).map(|bytes| (bytes, false)).collect();
            packets.extend((0..response.closing_packets).map(|_| (carrier.empty_bytes, true)));
            packets.reverse();
            packets
        };
        let mut left: Vec<Vec<(u64, bool)>> = responses.iter().map(packets).collect();
        let mut found = vec![Nanos::ZERO; responses.len()];
        let mut now = Nanos::ZERO;
        while left.iter().any(|packets| !packets.is_empty()) {
            let bytes = |job: usize| {
                let kind = left[job].last().unwrap().1;
                left[job].iter().filter(|packet| packet.1 == kind).map(|packet| packet.0).sum::<u64>()
            };
            let here = (0..left.len()).filter(|&job| !left[job].is_empty() && responses[job].arrival <= now);
            let is_closing = |job: usize| left[job].last().unwrap().1;
            let Some(job) = here.min_by_key(|&job| (is_closing(job), bytes(job), responses[job].arrival, job)) else {
                let waiting = (0..left.len()).filter(|&job| !left[job].is_empty());
                now = waiting.map(|job| responses[job].arrival).min().unwrap();
                continue;
            };
            let (bytes, is_closing) = left[job].pop().unwrap();
            now += link().time_for(bytes);
            if !is_closing {
                found[job] = now - responses[job].arrival;
            }
        }
        found
    }

    fn departures(responses: &[Response], times: &[Nanos]) -> Vec<Nanos> {
        let mut instants: Vec<Nanos> = responses.iter().zip(times).map(|(r, &time)| r.arrival + time).collect();
        instants.sort();
        instants
    }

    /// The same responses as a fluid, each including its SYN-ACK.
    fn fluid(responses: &[Response]) -> Vec<Nanos> {
        let demand = |response: &Response| {
            let opening = if response.opens { link().time_for(Carrier::HTTP1.opening_bytes) } else { Nanos::ZERO };
            let service = opening + wire_service(0, response.payload_bytes, link());
            Demand { arrival: response.arrival, service }
        };
        clairvoyant_srpt(&responses.iter().map(demand).collect::<Vec<_>>())
    }

    prop_compose! {
        /// Up to 40 responses at loads from almost none to far above 1, many of them alike.
        fn arrivals(closing_max: u64)(gap_max in 0u64..6000, size_max in 1u64..8000, jobs in 0usize..40)
            (gaps in prop::collection::vec(0..=gap_max, jobs), sizes in prop::collection::vec(1..=size_max, jobs),
             opens in prop::collection::vec(prop::bool::ANY, jobs), closing in prop::collection::vec(0..=closing_max, jobs))
            -> Vec<Response> {
            let mut arrival_us = 0;
            (0..gaps.len()).map(|job| {
                arrival_us += gaps[job];
                response(arrival_us, sizes[job], opens[job], closing[job])
            }).collect()
        }
    }

    fn times(responses: &[Response]) -> Vec<Nanos> {
        packet_srpt(responses, Carrier::HTTP1, link())
    }

    proptest! {
        #[test]
        fn it_is_what_a_list_of_packets_says(jobs in arrivals(2)) {
            for carrier in [Carrier::HTTP1, Carrier::HTTP1_TLS, Carrier::HTTP2_TLS, Carrier::HTTP3] {
                prop_assert_eq!(packet_srpt(&jobs, carrier, link()), by_hand(&jobs, carrier));
            }
        }

        /// This holds on every path, and so in the mean: the fluid bound that includes the handshake is never beaten.
        #[test]
        fn no_departure_is_before_that_of_the_fluid(jobs in arrivals(2)) {
            let (packets, fluid) = (departures(&jobs, &times(&jobs)), departures(&jobs, &fluid(&jobs)));
            prop_assert!(packets.iter().zip(&fluid).all(|(packet, fluid)| packet >= fluid));
        }

        /// The maximum distance from any schedule.
        #[test]
        fn no_departure_is_more_than_a_packet_later_than_that_of_the_fluid(jobs in arrivals(2)) {
            let (packets, fluid) = (departures(&jobs, &times(&jobs)), departures(&jobs, &fluid(&jobs)));
            let room = link().time_for(Carrier::HTTP1.packet_bytes());
            for (packet, fluid) in packets.iter().zip(&fluid) {
                prop_assert!(*packet <= *fluid + room, "{packet:?} after {fluid:?}");
            }
        }

        #[test]
        fn nobody_is_sooner_than_alone(jobs in arrivals(2)) {
            for (job, time) in jobs.iter().zip(times(&jobs)) {
                prop_assert!(time >= times(&[*job])[0]);
            }
        }

        /// The link never idles while there is a packet: without closes, every busy period ends with a departure at the
        /// time that the work implies.
        #[test]
        fn work_is_conserved(jobs in arrivals(0)) {
            let departures = departures(&jobs, &times(&jobs));
            let mut free_at = Nanos::ZERO;
            for (position, job) in jobs.iter().enumerate() {
                if position > 0 && job.arrival > free_at {
                    prop_assert!(departures.binary_search(&free_at).is_ok(), "nobody departs at {free_at:?}");
                }
                free_at = free_at.max(job.arrival) + times(&[*job])[0];
            }
            prop_assert_eq!(departures.last().copied().unwrap_or_default(), free_at);
        }
    }
}
