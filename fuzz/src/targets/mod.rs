//! The targets, each with its operations in its file.

mod bodies;
mod config;
mod connection;
mod datagrams;
mod fastcgi;
mod h2;
mod h2_client;
mod h3;
mod http1;
mod qpack;
mod tls;
mod upstream;

use crate::Target;

pub const TARGETS: &[Target] = &[
    http1::TARGET,
    upstream::TARGET,
    fastcgi::TARGET,
    connection::TARGET,
    h2::TARGET,
    h2_client::TARGET,
    h3::TARGET,
    datagrams::TARGET,
    tls::TARGET,
    qpack::TARGET,
    config::TARGET,
];
