//! The pace at which bytes are handed down: the link's ledger, in which each byte has an owner, and the length of a
//! grant.

pub mod account;
pub mod cross_traffic;
mod handshakes;
pub mod lateness;
pub mod ledger;
pub mod overtaking;
pub mod pace;
pub mod pacer;
pub mod uplink_rate;
