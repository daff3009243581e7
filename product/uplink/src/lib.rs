//! The kernel side of the uplink: the shaper of an interface and the bytes that wait in it, the tree of bands that Weir
//! creates there, the classifier that sorts packets into the bands, and the kernel's TCP information about connections.
//!
//! Reading works without privilege; changing an interface requires CAP_NET_ADMIN.

mod changes;
#[cfg(feature = "bpf")]
pub mod classify;
pub mod congestion;
mod connections;
// Most of these are used only by the classifier.
#[cfg_attr(not(feature = "bpf"), allow(dead_code))]
mod constants;
mod device;
pub mod doctor;
mod error;
pub mod follow;
mod initial_rto;
mod interface;
mod netlink;
mod queues;
mod shaper;
mod socket_memory;
mod tc;
mod tcp_info;
#[cfg(test)]
mod testing;
pub mod tree;

pub use changes::{ChangeWatch, Changed};
pub use connections::{Connection, ConnectionWatch, Connections, EndWatch, SenderWatch, State};
pub use error::Error;
pub use initial_rto::InitialRto;
pub use interface::Interface;
pub use queues::{QueueWatch, Queues};
pub use shaper::{Shaper, Waiting};
pub use socket_memory::{queued_below_bytes, unsent_bytes};
pub use tc::Counted;
pub use tcp_info::{TcpInfo, tcp_info};
