//! The wire behind the shaper: what serialises, so that no bit arrives before its time.
//!
//! A shaper such as HTB sends a packet at once and waits afterwards: the first packet of a burst arrives without the time it
//! takes, and responses come sooner than any order could bring them on a real line (at rho 0.05, 152 of 253). A wire takes a packet's own
//! time first. It stands in a namespace of its own behind the shaper, as a modem does behind a router's queue, has the shaper's
//! rate, and so holds little more than the packet that is leaving: the shaper's queue stays the queue.
//!
//! netem with a rate is one; where the kernel has none, our own wide-area link, a process between two TUN devices, is.

use std::path::Path;

use units::Rate;
use wan::{Group, PathSpec, Ways};

use crate::namespace::{Namespace, Place};
use crate::wide::{Wide, has_netem};
use crate::{Interrupt, LabError, tool};

/// Packets that netem may hold: what shapers let go of at once, with room to spare. A real drop here would be a mistake.
const PACKETS: u32 = 1000;
/// Every address of an experiment: the block for benchmarks (RFC 2544).
const EVERYBODY: &str = "198.18.0.0/15";

/// The hop between the shaper and what is behind it.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) namespace: Namespace,
    rate: Rate,
    is_own: bool,
}

impl Wire {
    pub(crate) fn new(rate: Rate) -> Result<Wire, LabError> {
        let namespace = Namespace::create("wire")?;
        let is_own = !has_netem(&namespace);
        Ok(Wire { namespace, rate, is_own })
    }

    /// Whether the cable behind it is a pair of TUN devices with a process between them.
    pub(crate) fn is_own(&self) -> bool {
        self.is_own
    }

    /// Makes its `device` serialise, where that is not a process's work.
    pub(crate) fn build(&self, device: &str) -> Result<(), LabError> {
        if self.is_own {
            return Ok(());
        }
        tool::run(&format!("tc -n {} qdisc add dev {device} root {}", self.namespace.name(), netem(self.rate)))
            .map(drop)
    }

    /// Starts the process that is the wire, if one is: from `device` here to `far_device` in `far`.
    pub(crate) fn start(
        &self,
        [device, far_device]: [&str; 2],
        far: &Namespace,
        weirlab: &Path,
        log: &Path,
        interrupt: &Interrupt,
    ) -> Result<Option<Wide>, LabError> {
        if !self.is_own {
            return Ok(None);
        }
        let path = PathSpec { rate: Some(self.rate), ways: Ways::In, ..PathSpec::default() };
        let prefix = EVERYBODY.parse().map_err(|reason| LabError::Output { what: EVERYBODY.into(), reason })?;
        let group = Group { name: "wire".into(), prefix, path }.to_string();
        let command = [
            weirlab.display().to_string(),
            "link".into(),
            "--client-namespace".into(),
            far.name().into(),
            "--client-device".into(),
            far_device.into(),
            "--device".into(),
            device.into(),
            "--group".into(),
            group,
        ];
        Wide::start(Place::In(&self.namespace), &command, log, interrupt).map(Some)
    }

    /// What serialises, for the manifest.
    pub(crate) fn describe(&self) -> String {
        format!("{} {}", if self.is_own { "own link, rate" } else { "netem rate" }, self.rate)
    }
}

/// The command that gives a wire another rate, where netem is the wire.
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
