//! Several sockets on one port. The kernel passes each datagram to the socket that owns its connection, found by the
//! connection ID, which a client keeps when its address changes (RFC 9000 section 5.1).

use std::time::Duration;

use quinn_proto::{ConnectionId, ConnectionIdGenerator, RandomConnectionIdGenerator};

/// Bytes of our connection IDs.
pub const ID_BYTES: usize = 8;
/// Maximum number of sockets on one port: a byte identifies each.
pub const SOCKETS_MAX: usize = 256;

/// The number of this socket among `count`: the first byte of its connection IDs modulo `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steering {
    number: u8,
    count: u16,
}

impl Steering {
    pub const ALONE: Steering = Steering { number: 0, count: 1 };

    /// Returns `None` if there is no such socket.
    pub fn new(number: usize, count: usize) -> Option<Steering> {
        if number >= count || count > SOCKETS_MAX {
            return None;
        }
        Some(Steering { number: u8::try_from(number).ok()?, count: u16::try_from(count).ok()? })
    }

    /// Returns the nearest byte that belongs to this socket, so that all the socket's bytes are equally likely.
    fn steer(self, byte: u8) -> u8 {
        let (byte, count) = (u16::from(byte), self.count);
        let steered = byte - byte % count + u16::from(self.number);
        let fitting = if steered > u16::from(u8::MAX) { steered - count } else { steered };
        u8::try_from(fitting).expect("one of each group is a byte")
    }
}

impl ConnectionIdGenerator for Steering {
    fn generate_cid(&mut self) -> ConnectionId {
        let random = RandomConnectionIdGenerator::new(ID_BYTES).generate_cid();
        let mut bytes = [0; ID_BYTES];
        bytes.copy_from_slice(&random);
        bytes[0] = self.steer(bytes[0]);
        ConnectionId::new(&bytes)
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_id_of_a_socket_leads_to_it() {
        for count in [1, 2, 3, 7, 100, 255, 256] {
            for number in [0, count / 2, count - 1] {
                let steering = Steering::new(number, count).unwrap();
                for byte in 0..=255 {
                    assert_eq!(usize::from(steering.steer(byte)) % count, number, "{byte} of {count}");
                }
            }
        }
        assert_eq!([Steering::new(1, 1), Steering::new(0, 0), Steering::new(0, 257)], [None; 3]);
    }

    #[test]
    fn connection_ids_are_random_but_for_that() {
        let mut steering = Steering::new(3, 4).unwrap();
        let ids: Vec<ConnectionId> = (0..100).map(|_| steering.generate_cid()).collect();
        assert!(ids.iter().all(|id| id.len() == ID_BYTES && id[0] % 4 == 3));
        let firsts: std::collections::BTreeSet<u8> = ids.iter().map(|id| id[0]).collect();
        let rests: std::collections::BTreeSet<&[u8]> = ids.iter().map(|id| &id[1..]).collect();
        assert!(firsts.len() > 20 && rests.len() == 100);
    }
}
