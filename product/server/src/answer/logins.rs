//! Verifies passwords for the requests that wait for it.

use std::collections::VecDeque;
use std::net::IpAddr;

use http::{Request, Response, Status};
use units::Nanos;

use super::error_replies::text;
use super::{Handler, Reply, To};
use crate::access::{Credentials, Question, Refused, Users, Verdict, Verifications};
use crate::body::Body;
use crate::exchange_id::ExchangeId;

/// Pending and completed verifications. Without a verifier, no password is accepted.
#[derive(Default)]
pub(super) struct Logins {
    verifications: Option<Verifications>,
    /// The verdicts, at most one for each exchange.
    decided: VecDeque<(ExchangeId, Verdict)>,
}

impl Logins {
    /// Returns the verdict on a password, if it was verified recently.
    pub fn known(&self, now: Nanos, users: &Users, credentials: &Credentials) -> Option<bool> {
        self.verifications.as_ref()?.known(now, users, credentials)
    }
}

impl Handler {
    /// Sets the verifier of passwords.
    pub fn verifying_by(mut self, verifications: Verifications) -> Handler {
        self.logins.verifications = Some(verifications);
        self
    }

    /// Makes the exchange `id` of this client wait for a verdict.
    pub fn begin_verification(
        &self,
        now: Nanos,
        client: (u32, IpAddr),
        question: Question,
        id: ExchangeId,
    ) -> Result<(), Refused> {
        let verifications = self.logins.verifications.as_ref().ok_or(Refused::Busy)?;
        verifications.ask(now, client, question, id)
    }

    /// Takes the verdicts since the last call.
    pub fn take_decided(&mut self) {
        let mut decided = Vec::new();
        self.logins.verifications.iter().for_each(|verifications| verifications.take(&mut decided));
        self.logins.decided.extend(decided);
    }

    /// Returns the next exchange whose password was verified.
    pub fn next_decided(&mut self) -> Option<(ExchangeId, Verdict)> {
        self.logins.decided.pop_front()
    }

    /// The number of exchanges whose passwords were verified.
    pub fn decided(&self) -> usize {
        self.logins.decided.len()
    }

    /// Returns the reply to a request whose password cannot be verified now.
    pub fn unverified(&self, to: To, request: &Request, refused: Refused) -> Reply {
        let reply = match refused {
            Refused::TooOften { retry_after_s } => {
                let why = format!("too many wrong passwords; please try again in {retry_after_s} s");
                text(Status::TOO_MANY_REQUESTS, &why).with("Retry-After", retry_after_s.to_string().as_bytes())
            }
            Refused::Busy => text(Status::SERVICE_UNAVAILABLE, "too busy, please try again").with("Retry-After", b"1"),
        };
        self.with_headers(to, request, reply.into())
    }
}

/// Returns the response to a request without the correct password (RFC 7617 section 2).
pub(super) fn unauthorized(realm: &str) -> Response<Body> {
    let challenge = format!("Basic realm=\"{realm}\", charset=\"UTF-8\"");
    text(Status::UNAUTHORIZED, "this needs a name and a password").with("WWW-Authenticate", challenge.as_bytes())
}
