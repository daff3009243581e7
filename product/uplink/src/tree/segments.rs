//! The size of the packets that the tree must order.
//!
//! TCP hands down up to 64 KB as one packet, which is segmented below the queue. Nothing overtakes it while it leaves,
//! which takes 52 ms at 10 Mbit/s: with such packets the median response of nginx under `psjf` took 3.2 ms, with single
//! segments 1.4 ms. On slow links the stack is therefore made to build smaller packets (`gso_max_segs` of the
//! interface), and [`release`] restores the previous value. Existing connections are not disturbed.

use std::fs;
use std::io;
use std::path::Path;

use units::{Nanos, Rate};

use super::leftovers::{self, path};
use crate::Interface;
use crate::device::{Device, RelatedInterface, links, uppers};
use crate::netlink::{Body, Socket};

/// The prefix of the file names.
const KIND: &str = "segments";
/// The prefix for the interfaces above.
const UPPER: &str = "upper";
const RTM_SETLINK: u16 = 19;
/// The size of `struct ifinfomsg`; the interface's number is at 4.
const LINK_BYTES: usize = 16;
const IFLA_GSO_MAX_SEGS: u16 = 40;
/// The maximum link time of one packet; a segment is never cut.
const PACKET_FOR: Nanos = Nanos::from_millis(1);

/// Limits the packets for a link of this rate, including packets of the interfaces above, where the stack builds them.
/// Returns true if they were not limited before. A failure leaves them as they were then.
pub fn bound(netlink: &mut Socket, interface: &Interface, device: &Device, rate: Rate) -> io::Result<bool> {
    let was_kept = is_kept(KIND, interface);
    let bound = bound_all(netlink, interface, device, rate);
    if bound.is_err() && !was_kept {
        // The first error is the one to report.
        let _ = release(netlink, interface);
    }
    bound
}

fn bound_all(netlink: &mut Socket, interface: &Interface, device: &Device, rate: Rate) -> io::Result<bool> {
    let is_new = bound_one(netlink, interface, device, rate, KIND)?;
    for upper in uppers(&links()?, interface) {
        // An interface with a tree of its own is limited for that tree.
        if let (false, Some(device)) = (is_kept(KIND, &upper), Device::of(&upper)?) {
            bound_one(netlink, &upper, &device, rate, UPPER)?;
        }
    }
    Ok(is_new)
}

/// Returns false if the interface, or one above it that was made or changed since [`bound`], lets the stack build
/// packets that are too large for this rate. For a followed rate they may be twice as large, because it changes without
/// them.
pub fn is_bound(interface: &Interface, rate: Rate, is_followed: bool) -> io::Result<bool> {
    let one = |interface: &Interface, kind: &str| {
        let Some(device) = Device::of(interface)? else { return Ok(true) };
        let (_, wanted) = wanted(&path(kind, interface)?, interface, &device, rate);
        let most = wanted.saturating_mul(if is_followed { 2 } else { 1 });
        Ok::<_, io::Error>(device.gso_max_segs <= most)
    };
    let mut is_bound = one(interface, KIND)?;
    for upper in uppers(&links()?, interface) {
        is_bound = is_bound && (is_kept(KIND, &upper) || one(&upper, UPPER)?);
    }
    Ok(is_bound)
}

/// Returns the number of segments before a tree, if it is stored, and the number that suits the rate.
fn wanted(path: &Path, interface: &Interface, device: &Device, rate: Rate) -> (Option<u32>, u32) {
    let kept = kept(path, interface, device);
    (kept, segments(rate, device.mtu_bytes).min(kept.unwrap_or(device.gso_max_segs)))
}

fn bound_one(netlink: &mut Socket, interface: &Interface, device: &Device, rate: Rate, kind: &str) -> io::Result<bool> {
    let path = path(kind, interface)?;
    let (kept, wanted) = wanted(&path, interface, device, rate);
    let before = kept.unwrap_or(device.gso_max_segs);
    if wanted != device.gso_max_segs {
        // Both values are ours: after a kill here, the interface still has the first.
        leftovers::write(&path, interface, &format!("{before} {} {wanted}", device.gso_max_segs))?;
        set(netlink, interface, wanted)?;
    }
    Ok(kept.is_none())
}

/// Restores the values found by [`bound`]. Returns false if it changed nothing, or if the value was changed since.
pub fn release(netlink: &mut Socket, interface: &Interface) -> io::Result<bool> {
    let is_bound = release_one(netlink, interface, KIND)?;
    let links = links()?;
    // This includes interfaces that are no longer above this one, but not those above another tree.
    for upper in leftovers::interfaces(UPPER)? {
        let is_below = |link: &&RelatedInterface| {
            link.interface.index != interface.index
                && is_kept(KIND, &link.interface)
                && uppers(&links, &link.interface).contains(&upper)
        };
        if !links.iter().any(|link| is_below(&link)) {
            release_one(netlink, &upper, UPPER)?;
        }
    }
    Ok(is_bound)
}

/// Returns the number of segments before a tree: the stored number, or else the interface's own.
#[cfg(feature = "bpf")]
pub fn before(interface: &Interface, device: &Device) -> io::Result<u32> {
    Ok(kept(&path(KIND, interface)?, interface, device).unwrap_or(device.gso_max_segs))
}

/// Returns true if nothing is stored for [`release`] to restore, and the interface has fewer segments than these.
#[cfg(feature = "bpf")]
pub fn is_lost(interface: &Interface, before: u32) -> io::Result<bool> {
    let device = Device::of(interface)?;
    Ok(!is_kept(KIND, interface) && device.is_some_and(|device| device.gso_max_segs < before))
}

/// Restores this number if its record is lost and the interface has about the number that suits the rate.
#[cfg(feature = "bpf")]
pub fn restore(interface: &Interface, rate: Rate, before: u32) -> io::Result<()> {
    let Some(device) = Device::of(interface)? else { return Ok(()) };
    let ours = segments(rate, device.mtu_bytes);
    // The numbers for a followed rate differ a little.
    if is_lost(interface, before)? && (ours / 2..=ours.saturating_mul(2)).contains(&device.gso_max_segs) {
        set(&mut Socket::open()?, interface, before)?;
    }
    Ok(())
}

fn release_one(netlink: &mut Socket, interface: &Interface, kind: &str) -> io::Result<bool> {
    let path = path(kind, interface)?;
    let device = Device::of(interface)?;
    let before = device.as_ref().and_then(|device| kept(&path, interface, device));
    let is_bound = before.is_some() && before != device.map(|device| device.gso_max_segs);
    if let (true, Some(before)) = (is_bound, before) {
        set(netlink, interface, before)?;
    }
    // Usually there is no such file.
    let _ = fs::remove_file(path);
    Ok(is_bound)
}

fn is_kept(kind: &str, interface: &Interface) -> bool {
    path(kind, interface).is_ok_and(|path| leftovers::read(&path, interface).is_some())
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

/// Returns the previous number of segments, even if the tree was removed by another program. `None` if the interface
/// has none of the values that we set: it is another interface with the same number, or its value was changed since.
fn kept(path: &Path, interface: &Interface, device: &Device) -> Option<u32> {
    let text = leftovers::read(path, interface)?;
    let numbers: Vec<u32> = text.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let (before, set) = numbers.split_first()?;
    set.contains(&device.gso_max_segs).then_some(*before)
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
