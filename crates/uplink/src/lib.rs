//! The kernel side of the uplink: shaping rate and backlog of a qdisc, TCP_INFO.
