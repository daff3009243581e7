//! How large the packets are that the tree has to order.
//!
//! TCP hands down up to 64 KB as one packet, to be cut up below the queue. Nothing overtakes it while it leaves, 52 ms at
//! 10 Mbit/s: with such packets the median response of nginx under `psjf` took 3.2 ms, with single segments 1.4 ms.
//! So on slow links the stack is told to build smaller ones (`gso_max_segs` of the interface), and [`release`] puts back what it
//! was. Connections that are there already go on as they were.

use std::fs;
use std::io;
use std::path::Path;

use units::{Nanos, Rate};

use super::leftovers::{FOLDER, path};
use crate::netlink::{Body, Socket};
use crate::{Interface, device::Device};

/// What its files are called.
const KIND: &str = "segments";
const RTM_SETLINK: u16 = 19;
/// `struct ifinfomsg`; the interface's number is at 4.
const LINK_BYTES: usize = 16;
const IFLA_GSO_MAX_SEGS: u16 = 40;
/// Link time that one packet may take; but a segment is never cut.
const PACKET_FOR: Nanos = Nanos::from_millis(1);

/// Bounds the packets for a link of this rate. True if they were not bounded before.
pub fn bound(netlink: &mut Socket, interface: &Interface, device: &Device, rate: Rate) -> io::Result<bool> {
    let path = path(KIND, interface)?;
    let kept = kept(&path, interface, device);
    let before = kept.unwrap_or(device.gso_max_segs);
    let wanted = segments(rate, device.mtu_bytes).min(before);
    if wanted != device.gso_max_segs {
        fs::create_dir_all(FOLDER)?;
        fs::write(&path, format!("{} {before} {wanted}\n", interface.name))?;
        set(netlink, interface, wanted)?;
    }
    Ok(kept.is_none())
}

/// Puts back what [`bound`] found; a no-op where it changed nothing.
pub fn release(netlink: &mut Socket, interface: &Interface) -> io::Result<()> {
    let path = path(KIND, interface)?;
    if let Some(device) = Device::of(interface)?
        && let Some(before) = kept(&path, interface, &device)
    {
        set(netlink, interface, before)?;
    }
    // Mostly there is none.
    let _ = fs::remove_file(path);
    Ok(())
}

fn segments(rate: Rate, mtu_bytes: u32) -> u32 {
    let segments = rate.bytes_in(PACKET_FOR) / u64::from(mtu_bytes.max(1));
    u32::try_from(segments).unwrap_or(u32::MAX).max(1)
}

fn set(netlink: &mut Socket, interface: &Interface, segments: u32) -> io::Result<()> {
    let mut link = [0; LINK_BYTES];
    link[4..8].copy_from_slice(&interface.index.to_ne_bytes());
    let body = Body::new(&link).attribute(IFLA_GSO_MAX_SEGS, &segments.to_ne_bytes());
    netlink.change(RTM_SETLINK, 0, body.bytes())
}

/// The segments there were before, also where somebody else removed the tree. `None` where the interface no longer has what
/// we set: it is another with the same numbers, or somebody has changed it since.
fn kept(path: &Path, interface: &Interface, device: &Device) -> Option<u32> {
    let text = fs::read_to_string(path).ok()?;
    let mut words = text.split_whitespace();
    let (name, before, set) = (words.next()?, words.next()?, words.next()?);
    let is_ours = name == interface.name && set.parse() == Ok(device.gso_max_segs);
    is_ours.then(|| before.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_a_millisecond_of_the_link_or_a_segment() {
        let segments = |rate: &str| segments(rate.parse().unwrap(), 1500);
        assert_eq!(["1mbit", "10mbit", "100mbit", "1gbit"].map(segments), [1, 1, 8, 83]);
    }
}
