//! The client of a request that a trusted proxy passed on: on a connection of such a proxy each request may be another client's. The proxy's
//! word is read once for each request; logs, classes, upstreams, limits and the share of the link go by it.

use std::net::IpAddr;

use http::Request;
use http::gateway::claimed;
use sched::Scheduler;
use units::Nanos;

use super::conn::Conn;
use super::failures::Kind;
use super::service::{Service, introduce};

/// Of a value that is no address so much is logged.
const SHOWN_BYTES_MAX: usize = 64;

/// The client behind a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    pub address: IpAddr,
    /// The index of its account, which it has until the request is over.
    pub client: u32,
}

/// What a trusted proxy brings on a connection.
#[derive(Debug, Default)]
pub struct Origins {
    /// Of the requests under way, by stream; 0 where it has none. A request without one is the proxy's own.
    requests: Vec<(u32, Origin)>,
    /// The PROXY header as far as it has come; nothing else is read before it is whole.
    pub header: Option<Vec<u8>>,
}

impl Origins {
    pub fn of(&self, stream: u32) -> Option<Origin> {
        self.requests.iter().find(|(number, _)| *number == stream).map(|(_, origin)| *origin)
    }

    fn take(&mut self, stream: u32) -> Option<Origin> {
        let at = self.requests.iter().position(|(number, _)| *number == stream)?;
        Some(self.requests.swap_remove(at).1)
    }
}

impl Service {
    /// Finds out whose a request is.
    pub fn identify(&mut self, now: Nanos, conn: &mut Conn, stream: u32, request: &Request, scheduler: &mut Scheduler) {
        if !conn.is_trusted() {
            return;
        }
        let claimed = claimed(request, |address| self.admission.trusted_proxies.contain(address));
        if let Some(wrong) = claimed.wrong {
            let shown = String::from_utf8_lossy(&wrong[..wrong.len().min(SHOWN_BYTES_MAX)]);
            self.fail(now, conn, Kind::Forwarded, format_args!("no address: `{shown}`"));
        }
        if conn.origins.as_ref().and_then(|origins| origins.of(stream)).map(|known| known.address) == claimed.client {
            return;
        }
        self.forget_origin(now, conn, stream);
        if let (Some(address), Some(origins)) = (claimed.client, &mut conn.origins) {
            let client = introduce(self.admission.enter_account(now, address), scheduler);
            origins.requests.push((stream, Origin { address, client }));
        }
    }

    /// The request is over.
    pub fn forget_origin(&mut self, now: Nanos, conn: &mut Conn, stream: u32) {
        if let Some(origin) = conn.origins.as_mut().and_then(|origins| origins.take(stream)) {
            self.admission.leave_account(now, origin.client);
        }
    }
}
