//! The targets. Each has its operations in its file.

mod connection;
mod http1;

use crate::Target;

pub const TARGETS: &[Target] = &[http1::TARGET, connection::TARGET];
