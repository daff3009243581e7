//! The server: files, connections, limits, logs, and the writer that sends what the Drain grants.

pub mod files;
pub mod log;
