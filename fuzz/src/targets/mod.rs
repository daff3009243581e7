//! The targets. Each has its operations in its file.

mod bodies;
mod connection;
mod http1;
mod mux;

use crate::Target;

pub const TARGETS: &[Target] = &[http1::TARGET, connection::TARGET, mux::TARGET];
