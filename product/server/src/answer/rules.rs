//! The rules of a site that come before its answers.

use std::net::IpAddr;

use config::{Rewritten, Variable};
use http::gateway::FieldChange;
use http::{Request, Status};

use super::{Handler, Reply, To, redirect, reject, text};
use crate::files::SiteNumber;

impl Handler {
    /// Returns the path and query by which a request is answered, if its site rewrites them. `Err` holds the reply to a
    /// request whose rewrite depends on how a program reads its path.
    pub fn rewrite(&self, to: To, request: &Request) -> Result<Option<Rewritten>, Box<Reply>> {
        let Some(site) = to.site else { return Ok(None) };
        self.sites().rewrite(site, request).map_err(|told| {
            let reply = told.map_or_else(reject, |target| redirect(Status::PERMANENT_REDIRECT, &target));
            Box::new(self.with_headers(to, request, reply))
        })
    }

    /// Returns the reply to a client that may not have what it requests.
    pub(super) fn refused(&self, site: SiteNumber, request: &Request, client: IpAddr) -> Option<Reply> {
        let access = self.sites().access(site, request)?;
        let (is_let_in, _) = access.networks.admits(client);
        (!is_let_in).then(|| text(Status::FORBIDDEN, "clients of your network are not let in").into())
    }

    /// The fields that a request to upstreams of this site has in place of its own, or without. `of` returns the values
    /// of variables.
    pub fn field_changes(
        &self,
        site: SiteNumber,
        request: &Request,
        of: impl Fn(Variable) -> Vec<u8>,
    ) -> Vec<FieldChange> {
        self.sites().field_changes(site, request, of)
    }
}
