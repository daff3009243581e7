//! A session with an authority: its account, orders, and requests for renewal windows.

use std::cell::Cell;
use std::future::Future;
use std::time::{Duration, Instant, SystemTime};

use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, CertificateIdentifier, ChallengeHandle, ChallengeType, Error,
    ExternalAccountKey, Identifier, NewAccount, NewOrder, Order, OrderStatus, Problem,
};
use tls::{Automatic, Connector, Identity};

use crate::due::{Failure, Scope};
use crate::folder::Folder;
use crate::http_client::{Client, Last, LastExchange, ready, unreached};
use crate::settings::{ChallengeKind, Hook, Settings};
use crate::tokens::Tokens;

/// The maximum time for an authority to verify a name. The next constant is the maximum time to sign a certificate.
const POLL_TIMEOUT: Duration = Duration::from_secs(120);
const POLL_FIRST: Duration = Duration::from_millis(250);
const POLL_MAX: Duration = Duration::from_secs(5);

/// The answers to an authority's challenges.
#[derive(Clone, Copy)]
pub struct Answers<'a> {
    pub tokens: &'a Tokens,
    pub automatic: &'a Automatic,
    pub hook: Option<&'a dyn Hook>,
}

/// An issued certificate: its key and its chain, both as PEM.
pub struct Issued {
    pub key: String,
    pub chain: String,
}

/// The renewal window that an authority suggests, and the time until the next request for it.
pub type Window = (Option<(SystemTime, SystemTime)>, Option<Duration>);

/// A session with the authority of the settings.
pub struct Session {
    account: Account,
    settings: Settings,
    folder: Folder,
    last: LastExchange,
    /// True if the account may be replaced when the authority refuses it without stating that it does not recognise it.
    may_forget: Cell<bool>,
}

/// Waits. Returns false if the thread should end.
pub type Pause<'p> = dyn Fn(Duration) -> bool + 'p;

/// An answer to a challenge; dropping it withdraws the answer.
struct Answered<'a> {
    answers: Answers<'a>,
    kind: ChallengeKind,
    /// The name, or the token of HTTP-01.
    of: String,
    /// The value of the DNS record.
    value: String,
}

impl Session {
    /// Connects to the authority with the account in the folder, or creates an account if there is none. A refused
    /// account is removed from the folder; if the reason is unclear, only if `may_forget`.
    pub fn open(settings: &Settings, folder: &Folder, may_forget: bool) -> Result<Session, Failure> {
        let last = LastExchange::default();
        let client = || Box::new(Client::new(Connector::new(settings.roots.clone()), last.clone()));
        let failed = |error| failure(&error, &last, Scope::All);
        let kept = folder.account(&settings.directory).map_err(Failure::of_all)?;
        let builder = Account::builder_with_http(client());
        let account = match kept.as_deref().map(serde_json::from_slice) {
            Some(Ok(credentials)) => done(builder.from_credentials(credentials)).map_err(failed)?,
            // A file that cannot be read is replaced: the account is worth nothing but its limits.
            Some(Err(_)) | None => {
                let contact = settings.email.as_ref().map(|email| format!("mailto:{email}"));
                let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
                let new = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
                let external = settings.external_account.as_ref();
                let external = external.map(|of| ExternalAccountKey::new(of.id.clone(), &of.key));
                let made = done(builder.create(&new, settings.directory.clone(), external.as_ref()));
                let (account, credentials) = made.map_err(failed)?;
                let text = serde_json::to_vec(&credentials).map_err(Failure::of_all)?;
                folder.keep_account(&settings.directory, &text).map_err(Failure::of_all)?;
                account
            }
        };
        let may_forget = Cell::new(may_forget);
        Ok(Session { account, settings: settings.clone(), folder: folder.clone(), last, may_forget })
    }

    /// Returns false if an account was removed from the folder for an unclear reason.
    pub fn may_forget(&self) -> bool {
        self.may_forget.get()
    }

    /// The window in which the authority wants this certificate renewed; empty if the authority suggests none.
    pub fn window(&self, identity: &Identity) -> Result<Window, Failure> {
        let Some(id) = certificate_id(identity) else { return Ok((None, None)) };
        match done(self.account.renewal_info(&id)) {
            Ok((info, again)) => {
                let window = info.suggested_window;
                Ok((Some((window.start.into(), window.end.into())), Some(again)))
            }
            Err(error) if unreached(&error).is_some() => Err(self.failure(&error)),
            // It has none for this certificate, or none at all.
            Err(_) => Ok((None, None)),
        }
    }

    /// Orders a certificate for a name. `attempt` chooses among the challenges.
    pub fn order(
        &self,
        name: &str,
        replaced: Option<&Identity>,
        attempt: usize,
        answers: Answers<'_>,
        pause: &Pause<'_>,
    ) -> Result<Issued, Failure> {
        let mut order = self.begin(name, replaced)?;
        let answered = self.answer_all(&mut order, attempt, answers)?;
        let status = self.poll(&mut order, pause, |status| status == OrderStatus::Pending)?;
        let reason = (status == OrderStatus::Invalid).then(|| self.refusal(&mut order, &answered));
        drop(answered);
        if let Some(reason) = reason {
            return Err(reason);
        }
        let names = [name.to_string()];
        let request = tls::Request::new(&names).map_err(Failure::of_name)?;
        if status == OrderStatus::Ready {
            self.done(order.finalize_csr(&request.der))?;
        }
        self.poll(&mut order, pause, |status| matches!(status, OrderStatus::Processing | OrderStatus::Ready))?;
        let chain = self.done(order.certificate())?;
        let chain = chain.ok_or_else(|| Failure::of_name("the authority has not signed it yet"))?;
        Ok(Issued { key: request.key, chain })
    }

    /// Opens an order. If possible, it is marked as the successor of a certificate, which some authorities count less
    /// towards their limits.
    fn begin(&self, name: &str, replaced: Option<&Identity>) -> Result<Order, Failure> {
        let identifiers = [Identifier::Dns(name.to_string())];
        if let Some(id) = replaced.and_then(certificate_id) {
            let order = NewOrder::new(&identifiers).replaces(id);
            match done(self.account.new_order(&order)) {
                Ok(order) => return Ok(order),
                Err(error) if unreached(&error).is_some() => return Err(self.failure(&error)),
                // It was replaced already, or the authority knows no successors.
                Err(_) => {}
            }
        }
        done(self.account.new_order(&NewOrder::new(&identifiers))).map_err(|error| {
            let failure = self.failure(&error);
            if !matches!(&error, Error::Api(problem) if refuses_account(problem, &self.may_forget)) {
                return failure;
            }
            self.folder.forget_account(&self.settings.directory);
            // The next attempt has a new account.
            Failure { scope: Scope::All, ..failure }
        })
    }

    /// Answers the challenges of the order's names that are not verified yet.
    fn answer_all<'a>(
        &self,
        order: &mut Order,
        attempt: usize,
        answers: Answers<'a>,
    ) -> Result<Vec<Answered<'a>>, Failure> {
        let mut answered = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(authorization) = ready(authorizations.next()).flatten() {
            let mut authorization = authorization.map_err(|error| self.failure(&error))?;
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            let kind = self.choose(&authorization, attempt)?;
            let Some(mut challenge) = authorization.challenge(of_kind(kind)) else { continue };
            answered.push(Answered::begin(&challenge, kind, answers)?);
            self.done(challenge.set_ready())?;
        }
        Ok(answered)
    }

    /// Chooses the challenge for this attempt: attempts go in turn through the challenges that the authority offers and
    /// this server can answer.
    fn choose(&self, authorization: &AuthorizationHandle<'_>, attempt: usize) -> Result<ChallengeKind, Failure> {
        let is_offered = |kind: &&ChallengeKind| {
            authorization.challenges.iter().any(|challenge| challenge.r#type == of_kind(**kind))
        };
        let usable: Vec<_> = self.settings.challenges.iter().filter(is_offered).collect();
        if let Some(kind) = usable.get(attempt % usable.len().max(1)) {
            return Ok(**kind);
        }
        let own: Vec<&str> = self.settings.challenges.iter().map(|kind| kind.name()).collect();
        let hint = if authorization.wildcard { "; a wildcard needs dns-01 and a hook (acme.dns_hook)" } else { "" };
        Err(Failure::of_name(format!("the authority offers none of the challenges {}{hint}", own.join(", "))))
    }

    /// Waits until `is_pending` is false for the order's state.
    fn poll(
        &self,
        order: &mut Order,
        pause: &Pause<'_>,
        is_pending: impl Fn(OrderStatus) -> bool,
    ) -> Result<OrderStatus, Failure> {
        let (deadline, mut wait) = (Instant::now() + POLL_TIMEOUT, POLL_FIRST);
        loop {
            let status = self.done(order.refresh())?.status;
            if !is_pending(status) {
                return Ok(status);
            }
            if Instant::now() > deadline {
                return Err(Failure::of_name(format!(
                    "the authority has not decided within {} s",
                    POLL_TIMEOUT.as_secs()
                )));
            }
            if !pause(wait) {
                return Err(Failure::of_all("weir stops"));
            }
            wait = (wait * 2).min(POLL_MAX);
        }
    }

    /// Returns the authority's reason for refusing an order whose challenges were answered. The authority may refuse an
    /// order slightly before the challenges show the reason.
    fn refusal(&self, order: &mut Order, answered: &[Answered<'_>]) -> Failure {
        let mut authorizations = order.authorizations();
        while let Some(Ok(authorization)) = ready(authorizations.next()).flatten() {
            let refused =
                authorization.challenges.iter().find_map(|challenge| Some((challenge, challenge.error.as_ref()?)));
            if let Some((challenge, problem)) = refused {
                let kind = ChallengeKind::ALL.into_iter().find(|kind| of_kind(*kind) == challenge.r#type);
                let kind = kind.map_or("a challenge", ChallengeKind::name);
                return Failure::of_name(format!("{kind} failed: {}", told(problem)));
            }
        }
        let kind = answered.first().map_or("a challenge", |answered| answered.kind.name());
        let problem = order.state().error.as_ref().map(|problem| format!("{kind} failed: {}", told(problem)));
        Failure::of_name(problem.unwrap_or_else(|| "the authority refused the order and gave no reason".into()))
    }

    fn done<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
        done(future).map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &Error) -> Failure {
        failure(error, &self.last, Scope::Name)
    }
}

impl<'a> Answered<'a> {
    fn begin(
        challenge: &ChallengeHandle<'_>,
        kind: ChallengeKind,
        answers: Answers<'a>,
    ) -> Result<Answered<'a>, Failure> {
        let authorization = challenge.key_authorization();
        let name = challenge.identifier().to_string();
        let name = name.strip_prefix("*.").unwrap_or(&name).to_string();
        let of = match kind {
            ChallengeKind::Http01 => challenge.token.clone(),
            ChallengeKind::TlsAlpn01 => name,
            ChallengeKind::Dns01 => format!("_acme-challenge.{name}."),
        };
        let answered = Answered { answers, kind, of, value: authorization.dns_value() };
        match kind {
            ChallengeKind::Http01 if answers.tokens.begin(&answered.of, authorization.as_str()) => {}
            ChallengeKind::Http01 => return Err(Failure::of_name("too many challenges at a time")),
            ChallengeKind::TlsAlpn01 => {
                let begun = answers.automatic.begin_challenge(&answered.of, authorization.digest().as_ref());
                begun.map_err(Failure::of_name)?;
            }
            ChallengeKind::Dns01 => {
                let hook = answers.hook.ok_or_else(|| Failure::of_name("dns-01 without a hook"))?;
                hook.run("present", &answered.of, &answered.value)
                    .map_err(|why| Failure::of_name(format!("the DNS hook failed: {why}")))?;
            }
        }
        Ok(answered)
    }
}

impl Drop for Answered<'_> {
    fn drop(&mut self) {
        match self.kind {
            ChallengeKind::Http01 => self.answers.tokens.end(&self.of),
            ChallengeKind::TlsAlpn01 => self.answers.automatic.end_challenge(&self.of),
            ChallengeKind::Dns01 => {
                // A record that stays does no harm; the next order sets another.
                let _ = self.answers.hook.map(|hook| hook.run("cleanup", &self.of, &self.value));
            }
        }
    }
}

fn of_kind(kind: ChallengeKind) -> ChallengeType {
    match kind {
        ChallengeKind::Http01 => ChallengeType::Http01,
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
        ChallengeKind::Dns01 => ChallengeType::Dns01,
    }
}

/// The identifier that the authority uses for a certificate (RFC 9773 section 4.1).
fn certificate_id(identity: &Identity) -> Option<CertificateIdentifier<'static>> {
    let leaf = rustls_pki_types::CertificateDer::from(identity.leaf());
    Some(CertificateIdentifier::try_from(&leaf).ok()?.into_owned())
}

fn done<T>(future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    ready(future).unwrap_or(Err(Error::Str("instant-acme waits for something that is not there")))
}

/// Returns the failure with its scope. A failure that is not the authority's own answer affects all names.
fn failure(error: &Error, last: &LastExchange, scope: Scope) -> Failure {
    let Last { url, retry_after: after } = last.get();
    match error {
        Error::Api(problem) => match name_of(problem) {
            Some("rateLimited") => Failure { scope, text: told(problem), after },
            // Neither is about the name: the next attempt has a new nonce, and a new account where it must.
            Some("badNonce" | NO_ACCOUNT | "serverInternal") => Failure::of_all(told(problem)),
            _ => Failure { scope, text: told(problem), after: None },
        },
        error => match unreached(error) {
            Some(unreached) => Failure { scope: Scope::All, text: unreached.to_string(), after },
            // Its answer is none of ACME.
            None => Failure { scope, text: format!("{url}: {error}"), after: None },
        },
    }
}

/// The error for an account that the authority does not recognise (RFC 8555 section 6.7).
const NO_ACCOUNT: &str = "accountDoesNotExist";
/// The error for an order from an account that is no longer valid (RFC 8555 sections 7.1.2 and 7.3.6). It has other
/// causes too.
const UNAUTHORIZED: &str = "unauthorized";

/// Returns true if an authority does not recognise the account of a new order, or may have deactivated it. The latter
/// error has other causes too, so it counts only while the account `may` be forgotten; the call then clears `may`.
fn refuses_account(problem: &Problem, may: &Cell<bool>) -> bool {
    match name_of(problem) {
        Some(NO_ACCOUNT) => true,
        Some(UNAUTHORIZED) => may.replace(false),
        _ => false,
    }
}

/// The name of a problem's type (RFC 8555 section 6.7).
fn name_of(problem: &Problem) -> Option<&str> {
    problem.r#type.as_deref().and_then(|name| name.rsplit(':').next())
}

/// Returns a problem in the authority's own words.
fn told(problem: &Problem) -> String {
    match (problem.detail.as_deref(), name_of(problem)) {
        (Some(detail), Some(name)) => format!("{detail} ({name})"),
        (Some(text), None) | (None, Some(text)) => text.to_string(),
        (None, None) => "the authority gave no reason".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A deactivated account was kept for ever.
    #[test]
    fn an_account_that_is_refused_is_told_from_a_name_that_is() {
        let problem = |name: &str| -> Problem {
            let text = format!(r#"{{"type":"urn:ietf:params:acme:error:{name}","detail":"d","status":403}}"#);
            serde_json::from_str(&text).unwrap()
        };
        let may_forget = Cell::new(true);
        for (name, refuses) in [
            ("rejectedIdentifier", false),
            ("rateLimited", false),
            ("accountDoesNotExist", true),
            ("unauthorized", true),
            ("unauthorized", false),
            ("accountDoesNotExist", true),
        ] {
            assert_eq!(refuses_account(&problem(name), &may_forget), refuses, "{name}");
        }
    }

    /// The address of the authority was left out.
    #[test]
    fn an_answer_that_is_none_is_told_with_its_address() {
        let garbage: Error = serde_json::from_str::<Problem>("<html>").unwrap_err().into();
        let last = LastExchange::default();
        last.set(Last { url: "https://a.test/dir".into(), retry_after: None });
        let failure = failure(&garbage, &last, Scope::Name);
        assert!(
            failure.text.starts_with("https://a.test/dir: ") && failure.text.contains("expected value"),
            "{failure:?}"
        );
    }
}
