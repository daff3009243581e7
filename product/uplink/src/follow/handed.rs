//! The bytes that connections have handed to the bands, and their fate: they wait, they have left, or the bands have
//! dropped them.
//!
//! TCP of another host does not see a drop, and counts the dropped bytes as sent and in flight. If they were counted as
//! sent, the line would seem to lose them; if as in flight, the line would seem to have a queue of them. So bytes that
//! the bands drop are subtracted, and count as owed until they are sent again.

use crate::Connection;

/// The bytes that connections have handed to the bands, as counted on the wire.
#[derive(Debug, Default)]
pub struct Handed {
    /// The bytes handed to the bands, without the owed bytes. Retransmitted bytes count once.
    bytes: u64,
    /// The upper bound of how many of these bytes have left.
    left_bytes: u64,
    /// The bytes of forwarded flows that the bands have dropped and that have not been sent again.
    owed_bytes: u64,
}

impl Handed {
    /// Adds bytes that were sent for the first time.
    pub fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Adds bytes that a forwarded flow has retransmitted. Returns how many of them had left before.
    pub fn add_again(&mut self, bytes: u64) -> u64 {
        let repaid = bytes.min(self.owed_bytes);
        self.owed_bytes -= repaid;
        self.bytes += repaid;
        bytes - repaid
    }

    /// Subtracts dropped bytes, of which `forwarded_bytes` belong to forwarded flows. TCP of this host counts a refused
    /// packet as sent, and when it sends the packet again, counts it as sent for the first time once more.
    pub fn drop(&mut self, bytes: u64, forwarded_bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.owed_bytes += forwarded_bytes;
    }

    /// Limits the owed bytes to the unacknowledged bytes of the remaining flows, because flows that have ended owe
    /// nothing.
    pub fn limit_owed(&mut self, unacked_bytes: u64) {
        self.owed_bytes = self.owed_bytes.min(unacked_bytes);
    }

    pub fn owed_bytes(&self) -> u64 {
        self.owed_bytes
    }

    /// Returns the bytes that have left since the last call, given the number that still wait.
    pub fn leave(&mut self, waiting_bytes: u64) -> u64 {
        let left = self.bytes.saturating_sub(waiting_bytes).saturating_sub(self.left_bytes);
        self.left_bytes += left;
        left
    }
}

/// The memory that connections have below TCP: in total, and of forwarded flows. Bytes that wait or were dropped in the
/// bands are divided between the connections in this proportion.
pub struct Below {
    pub bytes: u64,
    pub forwarded_bytes: u64,
}

impl Below {
    pub fn of(connections: &[Connection]) -> Below {
        let sum = |connections: &mut dyn Iterator<Item = &Connection>| {
            connections.map(|connection| u64::from(connection.below_bytes)).sum()
        };
        let bytes = sum(&mut connections.iter());
        Below { bytes, forwarded_bytes: sum(&mut connections.iter().filter(|connection| connection.is_forwarded)) }
    }

    /// Returns the connection's part of the bytes that wait in the bands.
    pub fn waiting_bytes(&self, connection: &Connection, waiting_bytes: u64) -> u64 {
        part(waiting_bytes, connection.below_bytes.into(), self.bytes)
    }
}

/// Returns `whole` times `part` / `all`, without overflow; zero if `all` is zero.
pub fn part(whole: u64, part: u64, all: u64) -> u64 {
    let bytes = (u128::from(whole) * u128::from(part)).checked_div(all.into()).unwrap_or(0);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_dropped_counts_as_sent_once_it_leaves() {
        let mut handed = Handed::default();
        handed.add(10_000);
        assert_eq!(handed.leave(4000), 6000);
        handed.drop(3000, 3000);
        assert_eq!((handed.leave(1000), handed.owed_bytes()), (0, 3000));
        assert_eq!((handed.add_again(2000), handed.owed_bytes()), (0, 1000));
        assert_eq!(handed.leave(0), 3000);
        // The rest had left before.
        assert_eq!((handed.add_again(1500), handed.owed_bytes(), handed.leave(0)), (500, 0, 1000));
    }

    #[test]
    fn tcp_of_this_host_and_flows_that_have_ended_owe_nothing() {
        let mut handed = Handed::default();
        handed.add(10_000);
        handed.drop(3000, 1000);
        assert_eq!((handed.leave(0), handed.owed_bytes()), (7000, 1000));
        handed.limit_owed(200);
        assert_eq!(handed.add_again(1000), 800);
    }
}
