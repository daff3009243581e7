//! File lookups by other threads, and other services of a handler for requests on connections.

use std::os::fd::BorrowedFd;

use http::{Request, Response};
use units::Nanos;

use super::{Awaited, FormWaits, Handler, To};
use crate::connection::{Connection, Security};
use crate::exchange_id::ExchangeId;
use crate::files::{CacheLimits, Key, LookupResult, Missing, SLOW_AFTER};
use crate::net::Socket;

impl Handler {
    /// Takes the results of lookups that have completed since the last call.
    pub fn take_found(&mut self, now: Nanos) {
        self.lookups.take(&mut self.cache, now, &mut self.found);
        if let Some(forms) = &mut self.forms {
            forms.take(&mut self.found);
        }
    }

    /// Returns a descriptor that becomes readable when a watched file has changed, if files are watched.
    pub fn watch_fd(&self) -> Option<BorrowedFd<'_>> {
        self.cache.watch_fd()
    }

    /// Resolves the target of the request on this stream.
    pub fn to(&self, conn: &Connection<impl Socket>, stream: u32, request: &Request) -> To {
        let site = self.site(request);
        // The clients of a proxy cannot reach this server's ports.
        let (is_secure, is_direct) = (conn.is_secure(request), !conn.is_trusted());
        let http3_port = conn.peer.http3_port.filter(|_| is_direct);
        let (client, room_bytes) = (conn.client_of(stream), conn.held.responses().room());
        let dictionaries = site.filter(|_| is_secure).and_then(|site| self.sites().compression(site).dictionaries);
        To { site, is_secure, http3_port, client, dictionaries, is_direct, room_bytes }
    }

    /// Returns a predicate that is true for requests whose body is counted on arrival; the reply states the count.
    pub fn takes_body(&self, security: Security) -> impl Fn(&Request) -> bool {
        move |request| {
            let site = self.site(request);
            site.is_some_and(|site| {
                let is_secure = security.of(request);
                let Ok(rewritten) = self.sites().rewrite(site, request) else { return false };
                let path = rewritten.as_ref().map(|rewritten| (&rewritten.path[..], rewritten.query.as_deref()));
                let request = &path.map_or(*request, |(path, query)| request.with_path(path, query));
                let takes = || match self.sites().measured(site, request) {
                    Some(object) => object.takes(request.method),
                    None => self.served.group(site, request).is_some(),
                };
                let is_unclear = || self.sites().unclear(site, request, None::<fn(&[u8])>).is_some();
                let is_answered = self.sites().preflight(site, request).is_some()
                    || self.sites().redirect(site, request, is_secure).is_some();
                !is_answered && takes() && !is_unclear()
            })
        }
    }

    /// Sets the cache limits that apply from the next file on.
    pub fn set_cache_limits(&mut self, limits: CacheLimits) {
        self.cache.set_limits(limits);
    }

    /// Evicts the files that have changed.
    pub fn on_change(&mut self) {
        self.cache.on_change();
    }

    /// Makes an exchange of this client wait for its file.
    pub fn begin_lookup(
        &mut self,
        awaited: impl Into<Awaited>,
        exchange: ExchangeId,
        client: u32,
        now: Nanos,
    ) -> Result<Key, Missing> {
        match awaited.into() {
            Awaited::File(lookup, _) => {
                let key = lookup.key().clone();
                self.lookups.ask(lookup, exchange, client)?;
                Ok(key)
            }
            Awaited::Form(wait) => {
                let key = wait.key.clone();
                let forms = self.forms.as_mut().expect("a form that is awaited is made");
                forms.begin(*wait, exchange, now, &mut self.found);
                Ok(key)
            }
        }
    }

    /// Removes an exchange that no longer waits for its file.
    pub fn leave_lookup(&mut self, key: &Key, exchange: ExchangeId) {
        self.lookups.leave(key, exchange);
        if let Some(forms) = &mut self.forms {
            forms.leave(exchange);
        }
    }

    /// Returns early hints for a request whose response is not ready yet.
    pub fn hints(&self, to: To, request: &Request) -> Option<Response<()>> {
        self.sites().hints(to.site?, request)
    }

    /// Returns the exchanges that wait for a file, and the time since which each has waited.
    pub fn askers(&self) -> impl Iterator<Item = (ExchangeId, Nanos)> {
        self.lookups.askers().chain(self.forms.iter().flat_map(FormWaits::askers))
    }

    /// Returns true if an exchange may wait for a form of its file. It may wait only once.
    pub fn may_wait(&mut self, exchange: ExchangeId) -> bool {
        self.forms.as_mut().is_some_and(|forms| !forms.settle(exchange))
    }

    /// Returns the next exchange whose lookup has ended.
    pub fn next_found(&mut self) -> Option<LookupResult> {
        self.found.pop_front()
    }

    /// Returns the number of exchanges whose lookup has ended.
    pub fn found(&self) -> usize {
        self.found.len()
    }

    /// Returns true if [`Handler::look_after_files`] has something to do.
    pub fn are_files_due(&self) -> bool {
        self.cache.is_due()
    }

    /// Returns the latest time at which the next wait for a form ends.
    pub fn forms_due(&self) -> Option<Nanos> {
        self.forms.as_ref().and_then(FormWaits::due)
    }

    /// Ends the waits for forms that take too long.
    pub fn give_up_forms(&mut self, now: Nanos) {
        if let Some(forms) = &mut self.forms {
            forms.give_up(now, &mut self.found);
        }
    }

    /// Closes files that are no longer requested; called once a second. Returns a log line for each site root that has
    /// become a different folder.
    pub fn look_after_files(&mut self, now: Nanos) -> Vec<String> {
        self.cache.close_idle(now);
        self.cache.take_lines()
    }

    /// Returns a line about a slow disk, once for each slow period.
    pub fn slow_disk(&mut self, now: Nanos) -> Option<String> {
        let path = self.lookups.slow(now)?;
        let seconds = SLOW_AFTER.0 / 1_000_000_000;
        Some(format!("opening {path} has taken {seconds} s: slow or unresponsive disk; requests for its files wait"))
    }
}

#[cfg(test)]
impl Handler {
    pub fn add_found(&mut self, answer: LookupResult) {
        self.found.push_back(answer);
    }
}
