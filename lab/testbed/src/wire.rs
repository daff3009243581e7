//! The wire behind the shaper: what serialises, so that no bit arrives before its time.
//!
//! A shaper such as HTB sends a packet at once and waits afterwards: the first packet of a burst arrives without the time it
//! takes, and responses come sooner than any order could bring them on a real line (at rho 0.05, 152 of 253). A wire takes a packet's own
//! time first. It stands in a namespace of its own behind the shaper, as a modem does behind a router's queue, has the shaper's
//! rate, and so holds little more than the packet that is leaving: the shaper's queue stays the queue.
//!
//! netem with a rate is one. A kernel without it has none: `wire = false` leaves it out, `--virtual` has one.

use units::Rate;

use crate::namespace::Namespace;
use crate::{LabError, tool};

/// Packets that netem may hold: what shapers let go of at once, with room to spare. A real drop here would be a mistake.
const PACKETS: u32 = 1000;

/// The hop between the shaper and what is behind it.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) namespace: Namespace,
    rate: Rate,
}

impl Wire {
    pub(crate) fn new(rate: Rate) -> Result<Wire, LabError> {
        Ok(Wire { namespace: Namespace::create("wire")?, rate })
    }

    /// Makes its `device` serialise.
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

/// The command that gives a wire another rate.
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
