//! The rules of a site that apply before its answers.

use std::net::IpAddr;
use std::sync::Arc;

use config::{Access, ByNetwork, Rewritten, Variable};
use http::gateway::FieldChange;
use http::{Request, Response, Status};
use units::Nanos;

use super::error_replies::text;
use super::logins::unauthorized;
use super::named_file::OF_THE_BODY;
use super::{Answer, Handler, Reply, To, redirect, reject, reply_measured};
use crate::access::{Credentials, Question, Verdict};
use crate::files::SiteNumber;
use crate::sites::AskedServer;
use crate::upstream::{Group, PassOn};

impl Handler {
    /// Returns the reply with the site's error page in place of an upstream's error. The upstream's fields are kept,
    /// except those that describe its body.
    pub fn intercepted(&self, to: To, request: &Request, said: &Response<()>) -> Reply {
        let is_of_body = |name: &[u8]| {
            let mut own = OF_THE_BODY.iter().chain(&["content-type", "content-language", "content-disposition"]);
            own.any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
        };
        let kept = said.fields().filter(|(name, _)| !is_of_body(name));
        let error = text(said.status, said.status.reason());
        self.with_headers(to, request, kept.fold(error, |response, (name, value)| response.with(name, value)).into())
    }

    /// Returns the path and query to use for the answer, if the site rewrites the request's or some of their bytes must
    /// be percent-encoded ([`Request::encoded`]). Returns an error reply if the rewrite depends on how a program reads
    /// the path.
    pub fn rewrite(&self, to: To, request: &Request) -> Result<Option<Rewritten>, Box<Reply>> {
        let Some(site) = to.site else { return Ok(None) };
        let encoded = request.encoded();
        let sent = encoded.as_ref().map(|(path, query)| request.with_path(path, query.as_deref()));
        let request = sent.as_ref().unwrap_or(request);
        let rewritten = self.sites().rewrite(site, request).map_err(|told| {
            let reply = told.map_or_else(reject, |target| redirect(Status::PERMANENT_REDIRECT, &target));
            Box::new(self.with_headers(to, request, reply))
        })?;
        Ok(rewritten.or_else(|| encoded.map(|(path, query)| Rewritten { path, query })))
    }

    /// Returns an error reply to a request for an application if the site's rules treat the readings of its path
    /// differently.
    pub(super) fn unclear(&self, site: SiteNumber, request: &Request, client: IpAddr) -> Option<Reply> {
        let place = self.sites().place(site);
        let class = self.served.assigned.as_ref().and_then(|assigned| assigned.by_path(place, request, client));
        let target = self.sites().unclear(site, request, class)?;
        Some(target.map_or_else(reject, |target| redirect(Status::PERMANENT_REDIRECT, &target)))
    }

    /// Returns the step that must precede the answer because the client is not admitted yet: a reply, or a password to
    /// verify.
    pub(super) fn let_in(
        &self,
        to: To,
        site: SiteNumber,
        request: &Request,
        client: IpAddr,
        (now, verdict): (Nanos, Option<&Verdict>),
    ) -> Option<Answer> {
        let (at, access) = self.sites().access(site, request)?;
        let reply = match access.by_network(client) {
            ByNetwork::LetIn => return None,
            ByNetwork::Refused => text(Status::FORBIDDEN, "clients of your network have no access"),
            ByNetwork::NeedsLogin => match self.log_in((site, at), access, request, now, verdict) {
                Login::Right => return None,
                Login::Unknown(question) => return Some(Answer::Verify(Box::new(question))),
                Login::Asked(server) => return Some(Answer::Ask(server)),
                Login::Wrong { realm } => unauthorized(realm),
            },
        };
        Some(self.with_headers(to, request, reply.into()).into())
    }

    fn log_in<'a>(
        &self,
        (site, at): (SiteNumber, usize),
        access: &'a Access,
        request: &Request,
        now: Nanos,
        verdict: Option<&Verdict>,
    ) -> Login<'a> {
        let realm = access.users.as_ref().map_or("", |users| &users.realm);
        let Some(gate) = self.served.gate(site, at) else { return Login::Wrong { realm } };
        if let Some(server) = &gate.asked {
            let is_let_in = matches!(verdict, Some(Verdict::LetIn(_)));
            return if is_let_in { Login::Right } else { Login::Asked(Arc::clone(server)) };
        }
        let Some(users) = &gate.users else { return Login::Wrong { realm } };
        let Some(credentials) = Credentials::of(request) else { return Login::Wrong { realm } };
        let decided = match verdict {
            Some(Verdict::Password { users: of, is_right }) if *of == users.number => Some(*is_right),
            _ => None,
        };
        match decided.or_else(|| self.logins.known(now, users, &credentials)) {
            Some(true) => Login::Right,
            Some(false) => Login::Wrong { realm },
            None => Login::Unknown(Question { users: Arc::clone(users), credentials }),
        }
    }

    /// Returns the answer with a test object for measurements, if the request names one.
    pub(super) fn measured(&self, site: SiteNumber, to: To, request: &Request) -> Option<Answer> {
        let object = self.sites().measured(site, request)?;
        if object.takes(request.method) {
            return Some(Answer::Upload);
        }
        Some(self.with_headers(to, request, reply_measured(object, request, to.is_secure)).into())
    }

    /// Returns a request for upstreams that includes the site's fields.
    pub(super) fn pass_on(
        &self,
        to: To,
        site: SiteNumber,
        request: &Request,
        client: IpAddr,
        (group, verdict): (Arc<Group>, Option<Verdict>),
    ) -> PassOn {
        let mut changes = self.sites().field_changes(site, request, |variable| match variable {
            Variable::Client => client.to_canonical().to_string().into_bytes(),
            Variable::Host => request.fields.host.unwrap_or_default().to_vec(),
            Variable::Scheme => if to.is_secure { "https" } else { "http" }.into(),
            Variable::User => self.user(site, request, client).unwrap_or_default(),
        });
        // Fields that an operator sets take precedence. A client can never set the fields that this server says of it.
        let said = if let Some(Verdict::LetIn(said)) = verdict { said } else { Vec::new() };
        let copied = self.copied(site, request).into_iter().map(|name| FieldChange { name, value: None });
        for change in said.into_iter().chain(copied) {
            if !changes.iter().any(|own| own.name.eq_ignore_ascii_case(&change.name)) {
                changes.push(change);
            }
        }
        PassOn { group, changes, run: None }
    }

    /// Returns the names of the fields with which the authentication server describes the client of this request.
    fn copied(&self, site: SiteNumber, request: &Request) -> Vec<String> {
        let gate = self.sites().access(site, request).and_then(|(at, _)| self.served.gate(site, at));
        gate.and_then(|gate| gate.asked.as_ref()).map(|asked| asked.copied.clone()).unwrap_or_default()
    }

    /// Returns the user name in the credentials of a request, if its site requires a login. The password may be wrong.
    pub fn user(&self, site: SiteNumber, request: &Request, client: IpAddr) -> Option<Vec<u8>> {
        let (_, access) = self.sites().access(site, request)?;
        let has_logged_in = access.users.is_some() && access.by_network(client) == ByNetwork::NeedsLogin;
        has_logged_in.then(|| Credentials::of(request))?.map(|credentials| credentials.user)
    }
}

/// The outcome of a login.
enum Login<'a> {
    Right,
    Wrong {
        realm: &'a str,
    },
    /// The password has to be verified.
    Unknown(Question),
    /// An authentication server must be asked first.
    Asked(Arc<AskedServer>),
}
