//! The current sites, as seen by the answers of one event loop, with certificates and classes. A reload replaces them.

use std::sync::Arc;

use http::Request;
use tls::Session;

use super::Handler;
use crate::connection::Connection;
use crate::files::SiteNumber;
use crate::logging::Log;
use crate::net::Socket;
use crate::sites::{Served, Sites};

impl Handler {
    /// Switches to the current sites. Returns them if they are new.
    pub fn renew(&mut self) -> Option<Arc<Served>> {
        let served = self.current.newer(&mut self.sites_turn)?;
        self.serve(Arc::clone(&served));
        Some(served)
    }

    /// Replaces the sites that are served.
    pub fn serve(&mut self, served: Arc<Served>) {
        self.cache.replace_roots(served.roots.clone());
        self.served = served;
    }

    pub(super) fn sites(&self) -> &Sites {
        &self.served.sites
    }

    /// Returns the site that a request is for. Its number is valid until the next [`Handler::serve`].
    pub fn site(&self, request: &Request) -> Option<SiteNumber> {
        self.sites().of(request.fields.host)
    }

    /// Returns the index of a site among all current sites.
    pub fn place(&self, site: SiteNumber) -> usize {
        self.sites().place(site)
    }

    /// Returns the names of the current sites, in the order of their indexes.
    pub fn site_names(&self) -> impl Iterator<Item = &str> {
        self.sites().names()
    }

    /// Returns the access log of a site, or the log of requests for no site.
    pub fn log(&self, site: Option<SiteNumber>) -> Option<&Arc<Log>> {
        self.served.log(site)
    }

    /// Returns the acceptor for TLS connections. `None` if no site has a certificate.
    pub fn acceptor(&self) -> Option<&tls::Acceptor> {
        self.served.acceptor.as_ref()
    }

    /// Creates the TLS session of a new connection. `None` if its listener is plain HTTP, or if no site has a
    /// certificate.
    pub fn session(&self, is_secure: bool) -> Option<Box<Session>> {
        let acceptor = self.acceptor().filter(|_| is_secure)?;
        Some(Box::new(Session::new(acceptor)))
    }

    /// Returns true if some site passes requests to upstreams.
    pub fn has_proxies(&self) -> bool {
        self.served.has_proxies()
    }

    /// Returns the class of a request on this stream for this site, or 0 if there are no classes.
    pub fn class_of(
        &self,
        connection: &Connection<impl Socket>,
        stream: u32,
        site: Option<SiteNumber>,
        request: &Request,
    ) -> u16 {
        let client = connection.address_of(stream);
        let assigned = self.served.assigned.as_ref();
        assigned.map_or(0, |assigned| assigned.of(site.map(|site| self.place(site)), request, client))
    }

    /// Returns the class of bytes that belong to no request, or 0 if there are no classes.
    pub fn default_class(&self) -> u16 {
        self.served.assigned.as_ref().map_or(0, |assigned| assigned.default())
    }

    /// Returns the priority of a class. Lower values go first.
    pub fn priority(&self, class: u16) -> u8 {
        self.served.assigned.as_ref().map_or(0, |assigned| assigned.priority(class))
    }

    /// Returns the name of the class with this number, if there are classes.
    pub fn class_name(&self, class: u16) -> Option<&str> {
        Some(self.served.assigned.as_ref()?.name(class))
    }
}
