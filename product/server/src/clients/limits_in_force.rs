//! The limits per client, which all workers read and an operator may change at any time.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use units::Rate;

use super::{ClientLimits, ClientPrefix};

/// The current limits. Each value is read separately, so if two are changed together, one may take effect slightly
/// earlier.
pub(super) struct InForce {
    /// The prefix length. It never changes, because prefixes identify clients.
    prefix: ClientPrefix,
    connections_max: AtomicU32,
    requests_per_s_max: AtomicU32,
    /// The maximum rate, in bits per second; 0 for no limit.
    rate_bits_per_s_max: AtomicU64,
}

impl InForce {
    pub fn new(limits: ClientLimits) -> InForce {
        let in_force = InForce {
            prefix: limits.prefix,
            connections_max: AtomicU32::default(),
            requests_per_s_max: AtomicU32::default(),
            rate_bits_per_s_max: AtomicU64::default(),
        };
        in_force.set(limits);
        in_force
    }

    /// Sets all limits except the prefix.
    pub fn set(&self, limits: ClientLimits) {
        self.connections_max.store(limits.connections_max, Relaxed);
        self.requests_per_s_max.store(limits.requests_per_s_max, Relaxed);
        self.rate_bits_per_s_max.store(limits.rate_max.map_or(0, Rate::bits_per_s), Relaxed);
    }

    pub fn get(&self) -> ClientLimits {
        ClientLimits {
            prefix: self.prefix,
            connections_max: self.connections_max.load(Relaxed),
            requests_per_s_max: self.requests_per_s_max.load(Relaxed),
            rate_max: Rate::from_bits_per_s(self.rate_bits_per_s_max.load(Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_set_is_read() {
        let rate = Rate::from_bits_per_s(7_000);
        let limits = |connections_max, requests_per_s_max, rate_max| ClientLimits {
            prefix: ClientPrefix::default(),
            connections_max,
            requests_per_s_max,
            rate_max,
        };
        let in_force = InForce::new(limits(1, 2, rate));
        let read = || {
            let ClientLimits { connections_max, requests_per_s_max, rate_max, .. } = in_force.get();
            (connections_max, requests_per_s_max, rate_max)
        };
        assert_eq!(read(), (1, 2, rate));
        in_force.set(limits(0, 9, None));
        assert_eq!(read(), (0, 9, None));
    }
}
