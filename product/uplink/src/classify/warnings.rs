//! What at an interface can keep a classifier from ordering anything, seen before any packet.

use std::fs;

use super::filter;
use crate::Interface;
use crate::device::links;

/// Programs told of; there are seldom more than two.
const PROGRAMS_MAX: usize = 16;

/// A line for each, with its cure; what cannot be found out is no reason for one.
pub fn warnings(interface: &Interface) -> Vec<String> {
    let name = &interface.name;
    let mut said = Vec::new();
    let filters = filter::look(interface).unwrap_or_default();
    if !filters.before.is_empty() {
        said.push(format!(
            "{} before weir's on {name}: what ends there (`ok`, TC_ACT_OK) is not ordered; give it a pref above {} (`tc filter show dev {name} egress`)",
            filters.before.join(", "),
            filter::PRIORITY
        ));
    }
    if !filters.after.is_empty() {
        said.push(format!(
            "{} after weir's on {name}: if it sets a packet's priority, weir's order is lost (`tc filter show dev {name} egress`)",
            filters.after.join(", ")
        ));
    }
    let programs = tcx_programs(interface);
    if !programs.is_empty() {
        said.push(format!(
            "TCX programs {programs:?} run before weir's on {name}: what they end with TCX_PASS is not ordered, with TCX_NEXT it is (`bpftool net show dev {name}`)"
        ));
    }
    if let Some(bridge) = container_bridge(interface) {
        said.push(format!(
            "this host forwards for {bridge}: responses of servers in its containers are not ordered on {name}; attach inside the container for those"
        ));
    }
    said
}

/// The numbers of the programs at the interface's TCX hook for what leaves; none before Linux 6.6.
fn tcx_programs(interface: &Interface) -> Vec<u32> {
    let mut ids = [0u32; PROGRAMS_MAX];
    let mut options = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as libbpf_sys::size_t,
        prog_ids: ids.as_mut_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.count = PROGRAMS_MAX as u32;
    let index = interface.index as i32;
    // SAFETY: the kernel writes at most `count` numbers to `ids`, which lives on, and libbpf nothing beyond `sz` of `options`.
    let status = unsafe { libbpf_sys::bpf_prog_query_opts(index, libbpf_sys::BPF_TCX_EGRESS, &mut options) };
    // SAFETY: both members of the union are the same number.
    let count = if status < 0 { 0 } else { unsafe { options.__bindgen_anon_1.count } };
    ids[..(count as usize).min(PROGRAMS_MAX)].to_vec()
}

/// Another interface, a bridge, where this host forwards.
fn container_bridge(interface: &Interface) -> Option<String> {
    let forwards = fs::read_to_string("/proc/sys/net/ipv4/ip_forward").is_ok_and(|text| text.trim() == "1");
    let links = links().ok().filter(|_| forwards)?;
    let is_bridge = |link: &crate::device::Link| link.kind == "bridge" && link.interface.index != interface.index;
    links.into_iter().find(is_bridge).map(|link| link.interface.name)
}
