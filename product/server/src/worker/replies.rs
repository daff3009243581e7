//! From a request to its reply, at once or when another thread has found its file.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use http::{Request, Response};
use tls::Session;
use units::Nanos;

use crate::connection::{Connection, Security};
use crate::files::{
    CacheAnswer, CacheLimits, Found, Key, Lookup, LookupResult, Lookups, Missing, SLOW_AFTER, SiteNumber,
};
use crate::handler::{Answer, Handler, Reply, To};
use crate::net::Socket;
use crate::sites::{Current, Served};

pub struct Replies {
    handler: Handler,
    lookups: Lookups,
    /// Results for exchanges whose lookup has ended; at most one each.
    found: VecDeque<LookupResult>,
    current: Arc<Current>,
    /// The version of the sites that are served.
    sites_turn: u64,
}

impl Replies {
    pub fn new(handler: Handler, lookups: Lookups, current: Arc<Current>) -> Replies {
        Replies { handler, lookups, found: VecDeque::new(), current, sites_turn: 0 }
    }

    pub(super) fn handler(&self) -> &Handler {
        &self.handler
    }

    /// A descriptor that becomes readable when a watched file has changed, if files are watched.
    pub(super) fn watch_fd(&self) -> Option<BorrowedFd<'_>> {
        self.handler.cache.watch_fd()
    }

    /// Creates the TLS session of a newcomer; `None` if its listener is plain HTTP, or no site has a certificate.
    pub(super) fn session(&self, is_secure: bool) -> Option<Box<Session>> {
        let acceptor = self.handler.acceptor().filter(|_| is_secure)?;
        Some(Box::new(Session::new(acceptor)))
    }

    /// Resolves what a request on this connection is for.
    pub(super) fn to(&self, conn: &Connection<impl Socket>, request: &Request) -> To {
        let site = self.handler.site(request);
        // The clients of a proxy cannot reach this server's ports.
        let http3_port = conn.peer.http3_port.filter(|_| !conn.is_trusted());
        To { site, is_secure: conn.is_secure(request), http3_port }
    }

    /// Returns a predicate: whether the body of a request is counted as it arrives, and the reply is made from the
    /// count.
    pub(super) fn takes_body(&self, security: Security) -> impl Fn(&Request) -> bool {
        move |request| {
            let site = self.handler.site(request);
            site.is_some_and(|site| self.handler.takes_body(site, request, security.of(request)))
        }
    }

    /// The class of a request on this stream for this site.
    pub(super) fn class_of(
        &self,
        conn: &Connection<impl Socket>,
        stream: u32,
        site: Option<SiteNumber>,
        request: &Request,
    ) -> u16 {
        self.handler.class_of(site, request, conn.address_of(stream)).unwrap_or(0)
    }

    /// The class of what is not a valid request.
    pub(super) fn default_class(&self) -> u16 {
        self.handler.default_class().unwrap_or(0)
    }

    /// Sets the cache limits, from the next file on.
    pub(super) fn set_cache_limits(&mut self, limits: CacheLimits) {
        self.handler.cache.set_limits(limits);
    }

    /// Evicts the files that have changed.
    pub(super) fn on_change(&mut self) {
        self.handler.cache.on_change();
    }

    /// Serves the sites in force; returns them if they have changed.
    pub(super) fn renew(&mut self) -> Option<Arc<Served>> {
        let served = self.current.newer(&mut self.sites_turn)?;
        self.handler.serve(Arc::clone(&served));
        Some(served)
    }

    /// Replies to a request. `Err` holds what must happen first, such as a lookup for [`Replies::begin_lookup`].
    pub(super) fn answer(&mut self, now: Nanos, to: To, request: &Request, client: IpAddr) -> Answer {
        self.handler.answer(to, request, client, now)
    }

    /// Returns the reply with the file found or missing.
    pub(super) fn reply_with(&mut self, to: To, request: &Request, found: Result<Found, Missing>) -> Reply {
        self.handler.reply_with(to, request, found)
    }

    /// Returns the file that an upstream has named, or its lookup.
    pub(super) fn look_for_named(&mut self, folder: SiteNumber, path: &[u8], now: Nanos) -> CacheAnswer {
        self.handler.look_for_named(folder, path, now)
    }

    /// Returns the upstream's response with the file found or missing.
    pub(super) fn reply_named(
        &mut self,
        to: To,
        request: &Request,
        found: Result<Found, Missing>,
        said: &Response<()>,
    ) -> Reply {
        self.handler.reply_named(to, request, found, said)
    }

    /// Begins the lookup of a file for the exchange `owner` of this client.
    pub(super) fn begin_lookup(&mut self, lookup: Box<Lookup>, owner: u64, client: u32) -> Result<Key, Missing> {
        let key = lookup.key().clone();
        self.lookups.ask(lookup, owner, client)?;
        Ok(key)
    }

    /// Removes an exchange that does not wait for its lookup any more.
    pub(super) fn leave_lookup(&mut self, key: &Key, owner: u64) {
        self.lookups.leave(key, owner);
    }

    /// Exchanges that wait for a lookup, and since when it is under way.
    pub(super) fn askers(&self) -> impl Iterator<Item = (u64, Nanos)> {
        self.lookups.askers()
    }

    /// Takes the lookups that have ended since the last call.
    pub(super) fn take_found(&mut self, now: Nanos) {
        self.lookups.take(&mut self.handler.cache, now, &mut self.found);
    }

    /// Returns the next exchange whose lookup has ended.
    pub(super) fn next_found(&mut self) -> Option<LookupResult> {
        self.found.pop_front()
    }

    /// The number of exchanges whose lookup has ended.
    pub(super) fn found(&self) -> usize {
        self.found.len()
    }

    /// Returns true if [`Replies::look_after_files`] has something to do.
    pub(super) fn are_files_due(&self) -> bool {
        self.handler.cache.is_due()
    }

    /// Once a second: closes files that are not requested any more. Returns lines about site roots that are other
    /// folders now.
    pub(super) fn look_after_files(&mut self, now: Nanos) -> Vec<String> {
        self.handler.cache.close_idle(now);
        self.handler.cache.take_lines()
    }

    /// Returns a line about a slow disk, once for each slow period.
    pub(super) fn slow_disk(&mut self, now: Nanos) -> Option<String> {
        let path = self.lookups.slow(now)?;
        let seconds = SLOW_AFTER.0 / 1_000_000_000;
        Some(format!("opening {path} has taken {seconds} s: slow or unresponsive disk; requests for its files wait"))
    }
}

#[cfg(test)]
impl Replies {
    pub(super) fn serve(&mut self, served: Arc<Served>) {
        self.handler.serve(served);
    }

    pub(super) fn add_found(&mut self, answer: LookupResult) {
        self.found.push_back(answer);
    }
}
