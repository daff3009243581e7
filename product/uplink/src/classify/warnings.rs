//! Checks an interface, before any packet is seen, for conditions that can keep a classifier from ordering anything.

use super::filter::{self, Filters};
use crate::Interface;

/// Returns a line for each problem, with its remedy; no line for conditions that cannot be checked.
pub fn warnings(interface: &Interface) -> Vec<String> {
    let name = &interface.name;
    let mut said = Vec::new();
    let filters = filter::look(interface).unwrap_or_default();
    let Filters { tcx_before, tcx_after, .. } = &filters;
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
    if !tcx_before.is_empty() {
        said.push(format!(
            "TCX programs {tcx_before:?} run before weir's on {name}: what they end with TCX_PASS is not ordered; `weir attach {name}` puts weir's first (`bpftool net show dev {name}`)"
        ));
    }
    if !tcx_after.is_empty() {
        said.push(format!(
            "TCX programs {tcx_after:?} run after weir's on {name}: if one sets a packet's priority, weir's order is lost (`bpftool net show dev {name}`)"
        ));
    }
    said
}
