//! The kernel side of the uplink: what shapes an interface and how much waits there, and what TCP knows of a connection.
//!
//! Everything here works without privilege: it only reads.

mod interface;
mod netlink;
mod shaper;
mod tcp_info;

pub use interface::Interface;
pub use shaper::Shaper;
pub use tcp_info::{TcpInfo, tcp_info};
