//! The shaping `bands`: finds the priorities that the tree on the interface offers, and assigns them to a policy's
//! bands.

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::net::{AddressFamily, SocketType};
use sched::policy::{BandSpec, Order, PolicySpec};
use socket2::SockRef;
use uplink::Interface;
use uplink::tree::{self, CONTROL_BAND, Tree};

use super::shaping_error::Misfit;
use super::{BURST_FOR, ShapingChoice, ShapingError, ShapingOptions, UNSENT_BYTES};
use crate::send::{Bands, Marker, Raise};

pub fn find(options: &ShapingOptions, listen: SocketAddr, raise: Raise) -> Result<ShapingChoice, ShapingError> {
    let (interface, tree) = tree_at(listen.ip())?;
    let is_sorted = is_sorted(&interface, listen.port());
    let name = interface.name;
    let Some(tree) = tree else { return Err(ShapingError::NoTree { interface: name }) };
    if is_sorted {
        return Err(ShapingError::Sorted { interface: name, port: listen.port() });
    }
    let (policy, bands) = fit(&options.policy, &name, tree.data_bands())?;
    try_mark(tree.priority(CONTROL_BAND))?;
    let (own, rate) = (tree.data_bands(), tree.plan.rate);
    let rule = if raise == Raise::AtOnce { ", moved at once" } else { "" };
    let why = format!("shaping bands{rule}, policy {policy}: {name} has {own} bands for responses at {rate}");
    let (marker, control) = (marker(&tree, bands, raise), tree.priority(CONTROL_BAND));
    let choice = ShapingChoice { why, ..ShapingChoice::off(options, "") };
    Ok(ShapingChoice { policy, link: Some(rate), marker: Some(marker), control_priority: Some(control), ..choice })
}

/// Returns true if a classifier sorts this server's packets into bands whatever their marks.
#[cfg(feature = "bpf")]
fn is_sorted(interface: &Interface, port: u16) -> bool {
    let settings = uplink::classify::find(interface).ok().flatten().and_then(|attached| attached.settings);
    settings.is_some_and(|settings| settings.ports.contains(&port))
}

#[cfg(not(feature = "bpf"))]
fn is_sorted(_: &Interface, _: u16) -> bool {
    false
}

/// The interface that serves this address, and the tree on it.
fn tree_at(ip: IpAddr) -> Result<(Interface, Option<Tree>), ShapingError> {
    let interface = Interface::serving(ip).map_err(ShapingError::Interface)?.ok_or(ShapingError::NoInterface(ip))?;
    let tree = tree::find(&interface).map_err(ShapingError::Kernel)?;
    Ok((interface, tree))
}

/// The number of bytes that the tree's link sends in [`BURST_FOR`], at least two segments.
fn burst_bytes(tree: &Tree) -> u64 {
    tree.plan.rate.bytes_in(BURST_FOR).max(UNSENT_BYTES)
}

/// The marker for a shaping that keeps the order itself above a tree of bands: all responses go to the first data band,
/// and the listening socket to the control band, by its priority. Returns `None` if the process may not mark packets;
/// they then go to the band of unmarked packets.
pub fn single(tree: &Tree) -> Option<(Marker, u32)> {
    let control = tree.priority(CONTROL_BAND);
    try_mark(control).is_ok().then(|| (marker(tree, 1, Raise::WhenEmpty), control))
}

fn marker(tree: &Tree, bands: u8, raise: Raise) -> Marker {
    let priorities = (0..bands).map(|nth| tree.data_priority(nth)).collect();
    let burst_bytes = burst_bytes(tree);
    Marker { bands: Bands { priorities, raise }, burst_bytes }
}

/// Fits the policy to the number of bands: `srpt` and `srrt` get as many as there are. Returns the policy and its
/// number of bands.
fn fit(asked: &PolicySpec, interface: &str, bands_max: u8) -> Result<(PolicySpec, u8), ShapingError> {
    let all = || BandSpec::learned(bands_max.into());
    let policy = match asked.order() {
        Order::Srpt => Order::SrptBands(all()).into(),
        Order::Srrt => Order::SrrtBands(all()).into(),
        _ => asked.clone(),
    };
    // At most [`sched::policy::BANDS_MAX`].
    let bands = policy.bands() as u8;
    if !policy.has_bands() {
        return Err(ShapingError::Policy(Misfit::NoBands { policy }));
    }
    if bands > bands_max {
        let interface = interface.to_string();
        return Err(ShapingError::Policy(Misfit::TooManyBands { policy, bands, interface, bands_max }));
    }
    Ok((policy, bands))
}

/// Checks on a throwaway socket that this process may mark packets: priorities above 6 need a privilege.
fn try_mark(priority: u32) -> Result<(), ShapingError> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
    let socket = socket.map_err(|error| ShapingError::Mark(error.into()))?;
    SockRef::from(&socket).set_priority(priority).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => ShapingError::NotAllowed,
        _ => ShapingError::Mark(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_get_bands_that_fit() {
        for (spec, bands_max, fitted, bands) in [
            ("srpt", 14, "srpt-bands:14", 14),
            ("srpt", 6, "srpt-bands:6", 6),
            ("srpt-bands", 6, "srpt-bands:5", 5),
            ("srpt-bands:1000,2KB", 3, "srpt-bands:1000,2KB", 3),
            ("srrt", 6, "srrt:6", 6),
            ("quick-fix", 6, "quick-fix:1000", 2),
            ("fair", 6, "fair", 1),
            ("srpt-bands:1", 6, "srpt-bands:1", 1),
        ] {
            let (policy, count) = fit(&spec.parse().unwrap(), "eth0", bands_max).unwrap();
            assert_eq!((policy.to_string(), count), (fitted.to_string(), bands), "{spec}");
        }
    }

    #[test]
    fn those_that_do_not_fit_are_told_what_would() {
        let said = |spec: &str| fit(&spec.parse().unwrap(), "eth0", 6).unwrap_err().to_string();
        for spec in ["fcfs", "fsp", "fcf:2"] {
            assert!(said(spec).starts_with(&format!("policy `{spec}` has no bands; expected one of srpt")));
        }
        let many = said("srpt-bands:7");
        assert!(many.contains("has 7 bands; eth0 has 6 for responses"), "{many}");
    }
}
