//! Collects round trips of sending connections, as evidence of a queue beyond the interface.
//!
//! The bands cannot reveal a rate that is slightly above the line's: bursts wait in them either way. Packets in the
//! line's own queue affect the round trips and not the bands.

use std::collections::HashMap;
use std::time::Instant;

use crate::{Connection, SenderWatch};

/// The maximum number of clients whose minimum round trip is stored, and of tracked connections.
const CLIENTS_MAX: usize = 1 << 16;
const CONNECTIONS_MAX: usize = 1 << 16;
/// The divisor that limits the time spent on listing connections to a fraction of all time.
const COST_PARTS: u32 = 10;
/// Ethernet, IP and TCP with timestamps: the bytes of a segment on the line in addition to its payload.
const HEAD_BYTES: u64 = 66;

/// The minimum number of segments in flight from which they are certainly full-sized and sent back to back, even if no
/// more data is waiting (as after losses).
const LONG_SEGMENTS: u32 = 8;

/// Totals over the connections so far.
#[derive(Debug, Default)]
pub struct Trips {
    /// The minimum round trip to each client, in microseconds.
    least_us: HashMap<[u8; 16], u32>,
    /// For each connection of the last list, its acknowledged bytes.
    acked: HashMap<u64, u64>,
    /// The number of lists in which a connection had much to send. Its round trips are then those of full segments sent
    /// back to back, which no client acknowledges late.
    pub loaded: u64,
    /// The sum by which round trips in those lists exceeded the minimum, in microseconds.
    pub rise_us: u64,
    /// The bytes acknowledged in total, as counted on the line.
    pub delivered_bytes: u64,
    /// True if a list has been taken. Bytes acknowledged before the first list do not count.
    has_begun: bool,
}

impl Trips {
    /// Adds a list. A queue in the line affects most clients, while a single slow client proves nothing, so the lowest
    /// quartile of the clients decides.
    pub fn take(&mut self, connections: &[Connection]) {
        let mut acked = HashMap::with_capacity(connections.len());
        let mut rtt_us: HashMap<[u8; 16], u32> = HashMap::new();
        let mut is_loaded = false;
        for Connection { cookie, client, info, .. } in connections {
            let before = self.acked.get(cookie).copied().unwrap_or(if self.has_begun { 0 } else { info.acked_bytes });
            let segment = u64::from(info.segment_bytes.max(1));
            self.delivered_bytes += info.acked_bytes.saturating_sub(before) * (segment + HEAD_BYTES) / segment;
            acked.insert(*cookie, info.acked_bytes);
            if info.min_rtt_us == 0 {
                continue;
            }
            if self.least_us.len() < CLIENTS_MAX || self.least_us.contains_key(client) {
                let least = self.least_us.entry(*client).or_insert(u32::MAX);
                *least = info.min_rtt_us.min(*least);
            }
            if info.unacked_segments > 0 {
                let rtt = rtt_us.entry(*client).or_insert(u32::MAX);
                *rtt = info.rtt_us.min(*rtt);
            }
            is_loaded |= info.unacked_segments >= if info.notsent_bytes > 0 { 2 } else { LONG_SEGMENTS };
        }
        (self.acked, self.has_begun) = (acked, true);
        let rise = |(client, rtt): (_, &u32)| Some(rtt.saturating_sub(*self.least_us.get(client)?));
        let mut rises: Vec<u32> = rtt_us.iter().filter_map(rise).collect();
        rises.sort_unstable();
        if let Some(rise) = rises.get(rises.len() / 4).filter(|_| is_loaded) {
            self.loaded += 1;
            self.rise_us += u64::from(*rise);
        }
    }
}

/// Lists the connections of certain ports from time to time. On a kernel without tcp_diag there are no lists and no
/// evidence.
pub struct TripWatch {
    senders: Option<SenderWatch>,
    next: Instant,
    pub trips: Trips,
}

impl TripWatch {
    pub fn open(ports: &[u16]) -> TripWatch {
        TripWatch { senders: SenderWatch::open(ports).ok(), next: Instant::now(), trips: Trips::default() }
    }

    pub fn look(&mut self) {
        let began = Instant::now();
        let Some(senders) = self.senders.as_mut().filter(|_| began >= self.next) else { return };
        let mut connections = Vec::new();
        let listed = senders.read(|connection| {
            if connections.len() < CONNECTIONS_MAX {
                connections.push(connection);
            }
        });
        match listed {
            Ok(()) => self.trips.take(&connections),
            Err(_) => self.senders = None,
        }
        self.next = began + began.elapsed() * COST_PARTS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TcpInfo;

    fn bulk() -> TcpInfo {
        TcpInfo {
            segment_bytes: 1448,
            unacked_segments: 10,
            rtt_us: 120_000,
            min_rtt_us: 1000,
            notsent_bytes: 100_000,
            ..TcpInfo::default()
        }
    }

    fn small() -> TcpInfo {
        TcpInfo { unacked_segments: 3, notsent_bytes: 0, rtt_us: 90_000, ..bulk() }
    }

    fn of(cookie: u64, client: u8, info: TcpInfo) -> Connection {
        let (own, client) = ([9; 16], [client; 16]);
        Connection {
            cookie,
            own,
            client,
            is_ipv6: true,
            is_forwarded: false,
            info,
            outstanding_bytes: 0,
            below_bytes: 0,
        }
    }

    fn rise_us(lists: &[&[Connection]]) -> (u64, u64) {
        let mut trips = Trips::default();
        lists.iter().for_each(|list| trips.take(list));
        (trips.loaded, trips.rise_us)
    }

    #[test]
    fn the_rise_is_what_most_clients_have_in_common() {
        assert_eq!(rise_us(&[&[of(1, 1, bulk())]]), (1, 119_000));
        // A slow client does not count if there is a quick one.
        assert_eq!(rise_us(&[&[of(1, 1, bulk()), of(2, 2, TcpInfo { rtt_us: 1500, ..small() })]]), (1, 500));
        // A rise of three in four clients counts, with the quickest connection of each.
        let clients =
            |client| of(u64::from(client), client, TcpInfo { rtt_us: 1000 + 1000 * u32::from(client), ..bulk() });
        assert_eq!(rise_us(&[&[1, 2, 3, 4].map(clients)]), (1, 2000));
        assert_eq!(rise_us(&[&[of(1, 1, bulk()), of(2, 1, small())]]), (1, 89_000));
    }

    #[test]
    fn a_new_connection_is_judged_by_the_least_of_its_client() {
        let idle = TcpInfo { unacked_segments: 0, ..bulk() };
        let new = |info| TcpInfo { min_rtt_us: 90_000, ..info };
        assert_eq!(rise_us(&[&[of(1, 1, idle)], &[of(2, 1, new(small())), of(3, 1, new(bulk()))]]), (1, 89_000));
    }

    /// A connection that writes little may wait for its client's delayed acknowledgement.
    #[test]
    fn light_connections_and_unknown_round_trips_tell_nothing() {
        let unknown = TcpInfo { min_rtt_us: 0, ..bulk() };
        let idle = TcpInfo { unacked_segments: 0, ..bulk() };
        assert_eq!(rise_us(&[&[of(1, 1, small())], &[of(2, 2, unknown)], &[of(3, 3, idle)], &[]]), (0, 0));
        let last = TcpInfo { unacked_segments: LONG_SEGMENTS, ..small() };
        assert_eq!(rise_us(&[&[of(1, 1, last)]]), (1, 89_000));
    }

    #[test]
    fn delivered_is_what_was_acknowledged_since_the_first_list() {
        let mut trips = Trips::default();
        let acked = |acked_bytes| TcpInfo { acked_bytes, ..bulk() };
        let mut delivered = |list: &[Connection]| {
            trips.take(list);
            trips.delivered_bytes
        };
        assert_eq!(delivered(&[of(1, 1, acked(9_000_000))]), 0);
        // Ten segments of the old connection, and ten of a new one, with their headers.
        assert_eq!(delivered(&[of(1, 1, acked(9_014_480)), of(2, 1, acked(14_480))]), 30_280);
        assert_eq!(delivered(&[of(2, 1, acked(14_480))]), 30_280);
    }
}
