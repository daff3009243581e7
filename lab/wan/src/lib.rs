//! A wide-area link of our own: delay, jitter, loss and rate for each group of clients, where the kernel has no netem.
//!
//! The core ([`Link`]) is a calculation: packets go in with the instant they came, and come out with the instant they leave.
//! It reads no clock and knows no socket, so its distributions, its order and its rate are tested without a kernel.
//! [`carry`] is the thin rest: two TUN devices, a timer, and a loop.
//!
//! What a path does is what netem does with the same figures, so that a result does not depend on which of the two
//! made it, but for one thing: netem lets a packet with a short delay overtake, or, told to keep the order (by a `rate`), holds
//! back every later packet of the device. Here a packet waits only for its own connection's, as it would on a path of many
//! routers that each keep the order of a flow.
//!
//! TUN and not AF_PACKET: carrying 300 MB of TCP costs the same with both (2.1 µs of processor for a packet through two TUN
//! devices, 2.3 with `recvmmsg` and `sendmmsg` of up to 32 packets; 2.7 Gbit/s either way), and with TUN routes decide what
//! passes through the link, checksums are complete, and no frame has to be told from those the kernel sees too.

mod carry;
mod conditions;
mod jitter;
mod link;
mod one_way;
mod packet;
mod path_spec;

pub use carry::{Carried, carry};
pub use conditions::Conditions;
pub use jitter::Shape;
pub use link::{Group, GroupCounts, Link, Prefix};
pub use one_way::{Counts, PACKETS_MAX, RATE_QUEUE_PACKETS};
pub use packet::Way;
pub use path_spec::{PathSpec, Ways};
