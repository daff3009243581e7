//! The state of the event loop that the proxy uses.

use super::service::Service;
use super::timers::Timers;
use crate::connection::Connections;
use crate::limits::Limits;
use crate::net::{Net, Transport};
use crate::send::Transmitter;

/// The parts of the event loop that upstreams use.
pub(super) struct ProxyContext<'w, N: Net> {
    pub net: &'w N,
    pub timers: &'w Timers,
    pub limits: &'w Limits,
    pub connections: &'w mut Connections<Transport<N>>,
    pub service: &'w mut Service,
    pub transmitter: &'w mut Transmitter,
}
