//! The client of a request that a trusted proxy passed on. On a proxy's connection, each request may belong to a
//! different client. The proxy's fields are read once per request. Logs, classes, upstreams, limits and the share of
//! the link depend on them.

use http::Request;
use http::gateway::claimed;
use sched::Scheduler;
use units::Nanos;

use super::service::{Service, introduce};
use crate::connection::{Connection, Origin};
use crate::journal::Kind;
use crate::net::Socket;

/// The maximum number of bytes that are logged of a value that is not an address.
const SHOWN_BYTES_MAX: usize = 64;

impl Service {
    /// Identifies the client of a request.
    pub fn identify(
        &mut self,
        now: Nanos,
        conn: &mut Connection<impl Socket>,
        stream: u32,
        request: &Request,
        scheduler: &mut Scheduler,
    ) {
        if !conn.is_trusted() {
            return;
        }
        let claimed = claimed(request, |address| self.admission.trusted_proxies.contain(address));
        if let Some(wrong) = claimed.wrong {
            let shown = String::from_utf8_lossy(&wrong[..wrong.len().min(SHOWN_BYTES_MAX)]);
            self.fail(now, conn, Kind::Forwarded, format_args!("no address: `{shown}`"));
        }
        if conn.peer.origins.as_ref().and_then(|origins| origins.of(stream)).map(|known| known.address)
            == claimed.client
        {
            return;
        }
        self.forget_origin(now, conn, stream);
        if let (Some(address), Some(origins)) = (claimed.client, &mut conn.peer.origins) {
            let client = introduce(self.admission.enter_account(now, address), scheduler);
            origins.requests.push((stream, Origin { address, client }));
        }
    }

    /// Releases the account of a request that is over.
    pub fn forget_origin(&mut self, now: Nanos, conn: &mut Connection<impl Socket>, stream: u32) {
        if let Some(origin) = conn.peer.origins.as_mut().and_then(|origins| origins.take(stream)) {
            self.admission.leave_account(now, origin.client);
        }
    }
}
