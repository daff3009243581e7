//! Connections that begin with a PROXY protocol header. The connection, its account and its limits then belong to the
//! client, as if there were no proxy. The header is read before TLS, with limits on its time and size.

use std::net::SocketAddr;

use http::proxy_header::parse_proxy_header;
use sched::Scheduler;
use units::Nanos;

use super::service::{Service, introduce};
use super::timers::Timers;
use crate::connection::Connection;
use crate::connection::HANDSHAKE_TIMEOUT;
use crate::journal::Kind;
use crate::limits::Limits;
use crate::net::Socket;

/// The error for a connection that must be closed.
#[derive(Debug)]
pub struct Refused;

impl Service {
    /// Refuses a newcomer that is not a trusted proxy, and gives its place back.
    pub fn refuse_proxy(&mut self, now: Nanos, peer: SocketAddr) {
        self.admission.give_back_place();
        let why = format_args!("{peer}: it is not a trusted proxy (server.trusted_proxies)");
        self.journal.fail(now, Kind::ProxyHeader, why);
    }

    /// Returns the client's own bytes, which follow the header; `None` as long as the header is incomplete.
    pub fn behind_header<'b>(
        &mut self,
        timers: &Timers,
        conn: &mut Connection<impl Socket>,
        fresh: &'b [u8],
        scheduler: &mut Scheduler,
        limits: &Limits,
    ) -> Result<Option<&'b [u8]>, Refused> {
        let Some(header) = conn.peer.origins.as_mut().and_then(|origins| origins.header.as_mut()) else {
            return Ok(Some(fresh));
        };
        header.extend_from_slice(fresh);
        match parse_proxy_header(header) {
            Ok(None) => Ok(None),
            Ok(Some(parsed)) => {
                let rest_bytes = header.len() - parsed.bytes;
                self.adopt(timers, conn, parsed.client, scheduler, limits)?;
                Ok(Some(&fresh[fresh.len() - rest_bytes..]))
            }
            Err(fault) => {
                self.fail(timers.now(), conn, Kind::ProxyHeader, fault.0);
                Err(Refused)
            }
        }
    }

    /// Assigns the connection to this client or, if the header names no client, to the proxy itself. Refuses it if the
    /// client has reached its limit of connections.
    fn adopt(
        &mut self,
        timers: &Timers,
        conn: &mut Connection<impl Socket>,
        client: Option<SocketAddr>,
        scheduler: &mut Scheduler,
        limits: &Limits,
    ) -> Result<(), Refused> {
        let timeout = if conn.channel.is_handshaking { HANDSHAKE_TIMEOUT } else { limits.head_timeout };
        conn.http1().wait_until(timers.client_now() + timeout);
        conn.peer.origins.iter_mut().for_each(|origins| origins.header = None);
        let Some(peer) = client else { return Ok(()) };
        match self.admission.change(timers.now(), conn.client, peer.ip()) {
            Ok(admitted) => {
                conn.adopt(peer, introduce(admitted, scheduler), limits);
                Ok(())
            }
            Err(notice) => {
                notice.inspect(|notice| self.journal.error(notice));
                Err(Refused)
            }
        }
    }
}
