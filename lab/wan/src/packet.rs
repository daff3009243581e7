//! What the link needs to know of a packet: whose it is, and of which connection.

use std::net::Ipv4Addr;

/// Where a packet is going.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    ToClient,
    ToServer,
}

impl Way {
    pub(crate) fn index(self) -> usize {
        match self {
            Way::ToClient => 0,
            Way::ToServer => 1,
        }
    }
}

/// The client of a packet, and a number that is the same for all packets of its connection that go this way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub client: Ipv4Addr,
    pub flow: u64,
}

impl Head {
    /// `None` for what is not an IPv4 packet.
    pub fn parse(packet: &[u8], way: Way) -> Option<Head> {
        // RFC 791 section 3.1: version and header length in words, protocol at 9, the fragment at 6, addresses at 12 and 16.
        let header = packet.get(..20)?;
        if header[0] >> 4 != 4 {
            return None;
        }
        let header_bytes = usize::from(header[0] & 0xf) * 4;
        let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
        // TCP and UDP begin with their ports; without them (ICMP, fragments) the addresses are the connection.
        let ports = match header[9] {
            6 | 17 if !is_fragment => packet.get(header_bytes..header_bytes + 4),
            _ => None,
        };
        let word = |bytes: &[u8]| u64::from(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        let addresses = (word(&header[12..16]) << 32) | word(&header[16..20]);
        let at = match way {
            Way::ToClient => 16,
            Way::ToServer => 12,
        };
        let client = Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
        Some(Head { client, flow: mixed(addresses) ^ mixed(ports.map_or(0, word) + 1) })
    }
}

/// Spreads what differs in few bits over all of them (the last step of MurmurHash3).
fn mixed(mut value: u64) -> u64 {
    value = (value ^ (value >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    value = (value ^ (value >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    value ^ (value >> 33)
}

#[cfg(test)]
pub(crate) fn tcp_packet(server: [u8; 4], client: [u8; 4], client_port: u16, way: Way, size_bytes: usize) -> Vec<u8> {
    let (from, to, ports) = match way {
        Way::ToClient => (server, client, [8080, client_port]),
        Way::ToServer => (client, server, [client_port, 8080]),
    };
    let mut packet = vec![0; size_bytes.max(40)];
    (packet[0], packet[9]) = (0x45, 6);
    packet[12..16].copy_from_slice(&from);
    packet[16..20].copy_from_slice(&to);
    packet[20..22].copy_from_slice(&ports[0].to_be_bytes());
    packet[22..24].copy_from_slice(&ports[1].to_be_bytes());
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SERVER: [u8; 4] = [198, 18, 0, 1];
    const CLIENT: [u8; 4] = [198, 18, 16, 1];

    #[test]
    fn the_client_is_at_the_end_it_is_at() {
        for way in [Way::ToClient, Way::ToServer] {
            let head = Head::parse(&tcp_packet(SERVER, CLIENT, 4000, way, 40), way).unwrap();
            assert_eq!(head.client, Ipv4Addr::from(CLIENT));
            let other = Head::parse(&tcp_packet(SERVER, CLIENT, 4001, way, 40), way).unwrap();
            assert_ne!(head.flow, other.flow);
        }
    }

    #[test]
    fn a_fragment_goes_by_its_addresses() {
        let fragment = |port| {
            let mut packet = tcp_packet(SERVER, CLIENT, port, Way::ToClient, 60);
            packet[6] = 0x20;
            Head::parse(&packet, Way::ToClient)
        };
        assert_eq!(fragment(1), fragment(2));
    }

    proptest! {
        #[test]
        fn no_packet_panics(packet in prop::collection::vec(any::<u8>(), 0..80), is_v4: bool) {
            let mut packet = packet;
            if let (Some(first), true) = (packet.first_mut(), is_v4) {
                *first = 0x40 | (*first & 0xf);
            }
            let head = Head::parse(&packet, Way::ToClient);
            prop_assert_eq!(head.is_some(), packet.len() >= 20 && packet[0] >> 4 == 4);
        }
    }
}
