use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::Serialize;
use units::Nanos;

use crate::one_way::OneWay;
use crate::packet::Head;
use crate::{Counts, PathSpec, Way};

/// Buffers kept for packets to come.
const SPARE_MAX: usize = 1024;

/// Addresses that share their first bits, as `198.18.16.0/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    address: Ipv4Addr,
    bits: u32,
}

/// Clients that share a path, known by their addresses.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    pub name: String,
    pub prefix: Prefix,
    pub path: PathSpec,
}

/// What became of a group's packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupCounts {
    pub name: String,
    pub to_client: Counts,
    pub to_server: Counts,
}

/// The link: packets in with the instant they came, packets out in the order they leave.
#[derive(Debug)]
pub struct Link {
    lanes: Vec<Lane>,
    in_flight: BinaryHeap<Reverse<InFlight>>,
    /// Of two packets that leave at the same instant the one that came first goes first.
    sequence: u64,
    spare: Vec<Vec<u8>>,
    strangers: u64,
}

#[derive(Debug)]
struct Lane {
    group: Group,
    ways: [OneWay; 2],
}

/// Ordered by when it leaves; `sequence` is unique, so nothing behind it is ever compared.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct InFlight {
    at: Nanos,
    sequence: u64,
    lane: usize,
    way: Way,
    packet: Vec<u8>,
}

/// In front of each packet where its rate counts: what netem sees at a device of Ethernet, which a TUN device is not.
const ETHERNET_BYTES: u64 = 14;

impl Link {
    /// The same groups and seed make the same link.
    pub fn new(groups: Vec<Group>, seed: u64) -> Link {
        let lane = |(number, group): (u64, Group)| {
            let one_way = |way: Way| OneWay::new(group.path.one_way(way), seed, 2 * number + way.index() as u64);
            Lane { ways: [one_way(Way::ToClient), one_way(Way::ToServer)], group }
        };
        let lanes = (0..).zip(groups).map(lane).collect();
        Link { lanes, in_flight: BinaryHeap::new(), sequence: 0, spare: vec![], strangers: 0 }
    }

    /// Takes a packet that came `now`, which never runs backward.
    pub fn arrive(&mut self, way: Way, packet: &[u8], now: Nanos) {
        let Some((lane, flow)) = self.lane_of(packet, way) else {
            self.strangers += 1;
            return;
        };
        let Some(at) = self.lanes[lane].ways[way.index()].send(now, flow, ETHERNET_BYTES + packet.len() as u64) else {
            return;
        };
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(packet);
        self.in_flight.push(Reverse(InFlight { at, sequence: self.sequence, lane, way, packet: kept }));
        self.sequence += 1;
    }

    /// When the next packet leaves.
    pub fn next_at(&self) -> Option<Nanos> {
        self.in_flight.peek().map(|Reverse(next)| next.at)
    }

    /// Hands the next packet to `leave`, with the instant it was to leave, if that has come; whether there was one.
    pub fn release(&mut self, now: Nanos, leave: impl FnOnce(Way, &[u8], Nanos)) -> bool {
        if self.next_at().is_none_or(|at| at > now) {
            return false;
        }
        let Some(Reverse(next)) = self.in_flight.pop() else { return false };
        self.lanes[next.lane].ways[next.way.index()].departed();
        leave(next.way, &next.packet, next.at);
        if self.spare.len() < SPARE_MAX {
            self.spare.push(next.packet);
        }
        true
    }

    pub fn counts(&self) -> Vec<GroupCounts> {
        let counts = |lane: &Lane| {
            let [to_client, to_server] = [lane.ways[0].counts(), lane.ways[1].counts()];
            GroupCounts { name: lane.group.name.clone(), to_client, to_server }
        };
        self.lanes.iter().map(counts).collect()
    }

    /// Packets of no group's address, or not IPv4; they go nowhere.
    pub fn strangers(&self) -> u64 {
        self.strangers
    }

    fn lane_of(&self, packet: &[u8], way: Way) -> Option<(usize, u64)> {
        let head = Head::parse(packet, way)?;
        let lane = self.lanes.iter().position(|lane| lane.group.prefix.contains(head.client))?;
        Some((lane, head.flow))
    }
}

impl Prefix {
    /// `None` with more than 32 bits, or with an address that has bits beyond them.
    pub fn new(address: Ipv4Addr, bits: u32) -> Option<Prefix> {
        let prefix = Prefix { address, bits };
        (bits <= 32 && address.to_bits() & !prefix.mask() == 0).then_some(prefix)
    }

    pub fn contains(self, address: Ipv4Addr) -> bool {
        address.to_bits() & self.mask() == self.address.to_bits()
    }

    fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - self.bits).unwrap_or(0)
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let parse = || {
            let (address, bits) = text.split_once('/')?;
            Prefix::new(address.parse().ok()?, bits.parse().ok()?)
        };
        parse().ok_or_else(|| format!("`{text}` is not a block of addresses: write it as 198.18.16.0/24"))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// As it stands on a command line: `NAME=198.18.16.0/24,rtt=100ms,loss=0.01`; what follows the block is a [`PathSpec`].
impl FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Group, String> {
        let (name, rest) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| format!("`{text}` is not a group: write it as NAME=198.18.16.0/24,rtt=100ms,loss=0.01"))?;
        let (prefix, path) = rest.split_once(',').unwrap_or((rest, ""));
        Ok(Group { name: name.into(), prefix: prefix.parse()?, path: path.parse()? })
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={},{}", self.name, self.prefix, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::tcp_packet;
    use proptest::prelude::*;

    const SERVER: [u8; 4] = [198, 18, 0, 1];

    fn group(text: &str) -> Group {
        text.parse().unwrap()
    }

    fn two_groups() -> Link {
        Link::new(vec![group("near=198.18.16.0/24,rtt=10ms"), group("far=198.18.17.0/24,rtt=100ms,ways=in")], 1)
    }

    /// What leaves by `until`: when, which way, its last byte.
    fn leaving(link: &mut Link, until: Nanos) -> Vec<(Nanos, Way, u8)> {
        let mut left = vec![];
        while link.release(until, |way, packet, at| left.push((at, way, *packet.last().unwrap()))) {}
        left
    }

    fn packet(group: u8, way: Way, mark: u8) -> Vec<u8> {
        let mut packet = tcp_packet(SERVER, [198, 18, group, 1], 5000, way, 100);
        *packet.last_mut().unwrap() = mark;
        packet
    }

    #[test]
    fn each_group_has_its_path_each_way() {
        let mut link = two_groups();
        for (mark, (group, way)) in
            (0..).zip([(16, Way::ToClient), (17, Way::ToClient), (16, Way::ToServer), (17, Way::ToServer)])
        {
            link.arrive(way, &packet(group, way, mark), Nanos::ZERO);
        }
        assert_eq!(link.next_at(), Some(Nanos::ZERO));
        let want = [
            (Nanos::ZERO, Way::ToServer, 3),
            (Nanos::from_millis(5), Way::ToClient, 0),
            (Nanos::from_millis(5), Way::ToServer, 2),
        ];
        assert_eq!(leaving(&mut link, Nanos::from_millis(99)), want);
        assert_eq!(leaving(&mut link, Nanos::from_millis(100)), [(Nanos::from_millis(100), Way::ToClient, 1)]);
        assert_eq!(link.next_at(), None);
        let counts = link.counts();
        assert_eq!((counts[0].name.as_str(), counts[0].to_client.passed, counts[1].to_server.passed), ("near", 1, 1));
    }

    #[test]
    fn strangers_go_nowhere() {
        let mut link = two_groups();
        link.arrive(Way::ToClient, &packet(18, Way::ToClient, 0), Nanos::ZERO);
        link.arrive(Way::ToClient, &[0x60; 60], Nanos::ZERO);
        link.arrive(Way::ToServer, &[], Nanos::ZERO);
        assert_eq!((link.strangers(), link.next_at()), (3, None));
    }

    #[test]
    fn a_group_is_read_as_it_is_written() {
        let written = "wan1=198.18.16.0/24,rtt=100ms,jitter=20ms,shape=normal,loss=0.01,rate=1mbit,ways=in";
        assert_eq!(group(written).to_string(), written);
        for (given, says) in [
            ("wan1", "`wan1` is not a group"),
            ("=198.18.0.0/24", "`=198.18.0.0/24` is not a group"),
            ("a=198.18.16.1/24", "`198.18.16.1/24` is not a block"),
            ("a=198.18.16.0/33", "`198.18.16.0/33` is not a block"),
            ("a=198.18.16.0", "`198.18.16.0` is not a block"),
            ("a=198.18.16.0/24,loss=2", "`2` is not a loss"),
        ] {
            let said = given.parse::<Group>().unwrap_err();
            assert!(said.starts_with(says), "{given}: {said}");
        }
        assert!("a=0.0.0.0/0".parse::<Group>().unwrap().prefix.contains(Ipv4Addr::BROADCAST));
    }

    proptest! {
        /// Whatever comes when: each packet leaves once, unchanged, in order of departure, or is counted as gone.
        #[test]
        fn every_packet_is_accounted_for(
            packets in prop::collection::vec((0u64..3_000, 0u8..2, any::<bool>(), any::<u8>()), 0..300), seed: u64,
        ) {
            let groups = vec![
                group("a=198.18.16.0/24,rtt=20ms,jitter=10ms,loss=0.2"),
                group("b=198.18.17.0/24,rtt=5ms,rate=1mbit,ways=in"),
            ];
            let mut link = Link::new(groups, seed);
            let (mut now, mut left) = (Nanos::ZERO, vec![]);
            for (gap_us, lane, is_in, mark) in &packets {
                now += Nanos::from_micros(*gap_us);
                left.extend(leaving(&mut link, now));
                let way = if *is_in { Way::ToClient } else { Way::ToServer };
                link.arrive(way, &packet(16 + lane, way, *mark), now);
            }
            left.extend(leaving(&mut link, Nanos::MAX));
            let counts: Vec<Counts> = link.counts().iter().flat_map(|c| [c.to_client, c.to_server]).collect();
            prop_assert_eq!(left.len() as u64, counts.iter().map(|c| c.passed).sum::<u64>());
            let gone = counts.iter().map(|c| c.lost + c.queue_drops).sum::<u64>();
            prop_assert_eq!(left.len() as u64 + gone, packets.len() as u64);
            prop_assert!(left.is_sorted_by_key(|(at, _, _)| *at));
        }
    }
}
