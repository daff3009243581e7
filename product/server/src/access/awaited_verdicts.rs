//! Passwords whose verification an event loop has requested, and the exchanges that wait for the verdicts.

use std::net::IpAddr;
use std::sync::Arc;

use http::gateway::FieldChange;
use units::Nanos;

use super::{Credentials, Refused, Users, Verifier};
use crate::disk::Done;
use crate::exchange_id::ExchangeId;

/// A password to be verified.
#[derive(Debug)]
pub struct Question {
    pub users: Arc<Users>,
    pub credentials: Credentials,
}

/// A decision about a client, made while its request waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The verdict on a password. `users` is the number of the set of users.
    Password { users: u64, is_right: bool },
    /// The authentication server admits the client, and sets these fields.
    LetIn(Vec<FieldChange>),
}

/// The handle of one event loop to the verifier.
pub struct Verifications {
    verifier: Arc<Verifier>,
    done: Arc<Done<(ExchangeId, Verdict)>>,
}

impl Verifications {
    /// Creates the handle. Another thread calls `wake` when [`Verifications::take`] has results.
    pub fn new(verifier: Arc<Verifier>, wake: impl Fn() + Send + Sync + 'static) -> Verifications {
        Verifications { verifier, done: Arc::new(Done::new(wake)) }
    }

    /// Returns the verdict on a password, if it was verified recently.
    pub fn known(&self, now: Nanos, users: &Users, credentials: &Credentials) -> Option<bool> {
        self.verifier.known(now, users, credentials)
    }

    /// Makes the exchange `id` of this client wait for a verdict.
    pub fn ask(&self, now: Nanos, client: (u32, IpAddr), question: Question, id: ExchangeId) -> Result<(), Refused> {
        let (done, users) = (Arc::clone(&self.done), question.users.number);
        let tell = Box::new(move |is_right| done.post((id, Verdict::Password { users, is_right })));
        self.verifier.ask(now, client, question.users, question.credentials, tell)
    }

    /// Appends the exchanges whose wait has ended, with their verdicts. Some of these exchanges may have ended in the
    /// meantime.
    pub fn take(&self, into: &mut Vec<(ExchangeId, Verdict)>) {
        self.done.take(into);
    }
}
