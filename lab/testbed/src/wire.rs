//! The wire behind the shaper, which serialises packets, so that no bit arrives before its time.
//!
//! A shaper such as HTB sends a packet immediately and waits afterwards. The first packet of a burst arrives without
//! its transmission time, and responses are complete earlier than any order could make them on a real line (at rho
//! 0.05, 152 of 253). A wire takes a packet's own time first. It is in its own namespace behind the shaper, like a
//! modem behind a router's queue, and has the shaper's rate. It therefore holds little more than the packet being sent,
//! and the queue stays in the shaper.
//!
//! netem with a rate is such a wire. A kernel without netem has none: `wire = false` leaves it out, and `--virtual` has
//! one.

use units::Rate;

use crate::namespace::Namespace;
use crate::{LabError, tool};

/// The maximum number of packets in netem: ample for the bursts of shapers, because a real drop here would be wrong.
const PACKETS: u32 = 1000;

/// The hop between the shaper and the parts behind it.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) namespace: Namespace,
    rate: Rate,
}

impl Wire {
    pub(crate) fn new(rate: Rate) -> Result<Wire, LabError> {
        Ok(Wire { namespace: Namespace::create("wire")?, rate })
    }

    /// Makes its `device` serialise packets.
    pub(crate) fn build(&self, device: &str) -> Result<(), LabError> {
        tool::run(&format!("tc -n {} qdisc add dev {device} root {}", self.namespace.name(), netem(self.rate)))
            .map(drop)
            .map_err(|cause| LabError::Qdisc { name: "netem", cause: Box::new(cause) })
    }

    /// The serialising device, for the manifest.
    pub(crate) fn describe(&self) -> String {
        format!("netem rate {}", self.rate)
    }
}

/// The command that changes the rate of a wire.
pub(crate) fn change_command(side: &str, device: &str, rate: Rate) -> String {
    format!("tc -n {side} qdisc change dev {device} root {}", netem(rate))
}

fn netem(rate: Rate) -> String {
    format!("netem limit {PACKETS} rate {}bit", rate.bits_per_s())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netem_is_told_bits() {
        let want = "tc -n W qdisc change dev far root netem limit 1000 rate 10000000bit";
        assert_eq!(change_command("W", "far", "10mbit".parse().unwrap()), want);
    }
}
