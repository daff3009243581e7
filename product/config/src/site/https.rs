//! The TLS settings of a site, and the check that they fit the listeners.

use std::path::PathBuf;

use super::Site;
use crate::place::{Place, Placed};
use crate::section::{Book, Section};
use crate::settings::{Listener, Settings};
use crate::value_forms::FieldValue;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Https {
    /// The files of the certificate and its key.
    pub certificate: Option<Placed<(PathBuf, PathBuf)>>,
    /// True if certificates may be ordered.
    pub acme: bool,
    /// The place of the key that redirects requests without TLS to https://; `None` without a redirect.
    pub redirects: Option<Place>,
    /// The value of Strict-Transport-Security.
    pub hsts: Option<Placed<String>>,
}

pub(super) fn read(table: &Section<'_, '_>) -> Https {
    let (cert, key) = (table.text::<PathBuf>("cert"), table.text::<PathBuf>("key"));
    if table.is_given("cert") != table.is_given("key") {
        let (given, missing) = if table.is_given("cert") { ("cert", "key") } else { ("key", "cert") };
        let said = format!("site.{given} without site.{missing}: expected both");
        table.book.mistake(table.place_of(given), said);
    }
    let certificate = cert.zip(key).map(|(cert, key)| Placed { value: (cert.value, key.value), at: cert.at });
    let hsts = table.text::<FieldValue>("hsts").map(|hsts| Placed { value: hsts.value.0, at: hsts.at });
    if let Some(hsts) = hsts.as_ref().filter(|hsts| !begins_with_age(&hsts.value)) {
        let said = format!("site.hsts `{}`: expected max-age=SECONDS first, for example max-age=31536000", hsts.value);
        table.book.mistake(hsts.at, said);
    }
    let acme = table.flag("acme");
    let redirects = table.flag("https_redirect").then(|| table.place_of("https_redirect"));
    Https { certificate, acme, redirects, hsts }
}

fn begins_with_age(hsts: &str) -> bool {
    let age = hsts.split(';').next().and_then(|first| first.trim().strip_prefix("max-age="));
    age.is_some_and(|age| !age.is_empty() && age.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Notes each rule that asks for a password on a site without a redirect to HTTPS if other machines can reach a
/// listener without TLS: anybody on the network can read the password.
pub(crate) fn check_logins(book: &Book<'_>, sites: &[Site], listeners: &[Placed<Listener>]) {
    let is_open = |listener: &Listener| !listener.is_secure && !listener.address.ip().is_loopback();
    let Some(open) = listeners.iter().find(|listener| is_open(&listener.value)) else { return };
    for site in sites.iter().filter(|site| site.https.redirects.is_none()) {
        for access in site.answers.access.iter().filter(|access| access.users.is_some()) {
            let said = format!(
                "site.access.users at a listener without TLS ({}): others on the network can read the passwords; tls \
                    = true there and https_redirect = true in the site keep them secret",
                open.value.address
            );
            book.note(access.at, said);
        }
    }
}

/// Checks that sites that redirect to https:// have a listener with TLS or a trusted proxy, and that a listener with
/// TLS has a certificate.
pub(crate) fn check(book: &Book<'_>, sites: &[Site], settings: &Settings) {
    let (listeners, has_acme) = (&settings.listeners, settings.acme.is_some());
    let secure = listeners.iter().find(|listener| listener.value.is_secure);
    if let Some(listener) = secure {
        if sites.iter().all(|site| site.https.certificate.is_none()) && !has_acme {
            book.mistake(listener.at, "listener.tls without a certificate: expected cert and key in a site, or [acme]");
        }
        return;
    }
    for site in sites {
        let https = &site.https;
        if let Some(at) = https.redirects.filter(|_| settings.process.trusted_proxies.is_empty()) {
            let said = "site.https_redirect without TLS: expected a listener with tls = true, or server.trusted_proxies that have TLS";
            book.mistake(at, said);
        }
        if let Some(certificate) = &https.certificate {
            book.note(certificate.at, "site.cert: no effect without a listener with tls = true");
        }
    }
}

/// Checks that no redirect leads back to itself through a URL of the site, and notes proxies whose upstream is a
/// listener of this file.
pub(crate) fn check_loops(book: &Book<'_>, sites: &[Site], settings: &Settings) {
    for site in sites {
        for redirect in &site.answers.redirects {
            let Some(target) = redirect.own_url() else { continue };
            let is_of_site = match &redirect.host {
                Some(from) => *from == target.host,
                None => site.hosts.iter().any(|own| own.value.fits(&target.host).is_some()),
            };
            let is_listener = |listener: &Placed<Listener>| {
                listener.value.is_secure == target.is_secure && listener.value.address.port() == target.port
            };
            let is_before = target.is_secure && !settings.process.trusted_proxies.is_empty();
            if is_of_site && (is_before || settings.listeners.iter().any(is_listener)) {
                let said = format!(
                    "site.redirect.to `{}`: expected another host or from_host, or it would lead to itself; https_redirect = true in the site leads to https://",
                    redirect.to
                );
                book.mistake(redirect.at, said);
            }
        }
        for proxy in &site.answers.proxies {
            let is_own = |listener: &&Placed<Listener>| proxy.to.iter().any(|to| to.is_at(listener.value.address));
            if let Some(own) = settings.listeners.iter().find(is_own) {
                let line = book.line(own.at, proxy.at);
                book.note(
                    proxy.at,
                    format!(
                        "site.proxy.to: {} is the listener of {line}: a request may go round for ever",
                        own.value.address
                    ),
                );
            }
        }
    }
}
