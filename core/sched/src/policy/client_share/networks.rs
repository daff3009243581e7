//! The networks of waiting clients: all clients of one network together count as at most ten.
//!
//! The owner of a /24, or of the /48 that a tunnel broker gives away, can appear as 256 clients, each with its own
//! allowance. So while n > 10 clients of one network wait, each byte that they receive is charged n / 10 times, and the
//! clock counts ten of them.

use super::CROWD;

/// The number of networks; networks whose numbers collide count as one.
const NETWORKS: u64 = 4096;

/// The network of a client, as a number below [`NETWORKS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(u16);

impl Network {
    /// No network: the client counts on its own.
    pub const NONE: Network = Network(0);

    pub fn of_hash(hash: u64) -> Network {
        Network(1 + (hash % (NETWORKS - 1)) as u16)
    }
}

/// The number of waiting clients in each network; empty until a client has a network.
#[derive(Debug, Default)]
pub(super) struct Networks {
    waiting: Vec<u32>,
    surplus: u64,
}

impl Networks {
    pub fn join(&mut self, network: Network) {
        if network == Network::NONE {
            return;
        }
        self.waiting.resize(NETWORKS as usize, 0);
        let waiting = &mut self.waiting[usize::from(network.0)];
        *waiting += 1;
        self.surplus += u64::from(u64::from(*waiting) > CROWD);
    }

    pub fn leave(&mut self, network: Network) {
        if network == Network::NONE {
            return;
        }
        let waiting = &mut self.waiting[usize::from(network.0)];
        self.surplus -= u64::from(u64::from(*waiting) > CROWD);
        *waiting -= 1;
    }

    /// Returns the number of waiting clients beyond the tenth in each network.
    pub fn surplus(&self) -> u64 {
        self.surplus
    }

    /// Returns the charge for these fractions of a byte, sent to a client of this network.
    pub fn charge(&self, network: Network, parts: u64) -> u64 {
        let waiting = self.waiting.get(usize::from(network.0)).map_or(0, |&waiting| u64::from(waiting));
        if waiting > CROWD { parts.saturating_mul(waiting) / CROWD } else { parts }
    }
}
