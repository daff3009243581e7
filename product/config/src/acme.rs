//! The table `[acme]`: certificates that are ordered for the hosts of sites.

use std::path::PathBuf;

use crate::class::Token;
use crate::host::Host;
use crate::keys::Form;
use crate::place::{Place, Placed};
use crate::section::{Book, Section};
use crate::settings::Listener;
use crate::site::Site;
use crate::value_forms::{FromText, HttpsUrl, Mail, Name, Wrong};

/// The authority and the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acme {
    pub at: Place,
    pub directory: String,
    pub ca: Option<PathBuf>,
    pub email: Option<String>,
    /// The only challenge to use. `None` for all challenges that the listeners and the hook allow.
    pub challenge: Option<Challenge>,
    pub dns_hook: Option<PathBuf>,
    /// The identifier of the external account, and its key in base64url.
    pub external_account: Option<(String, Token)>,
}

/// A method of proving that a server controls a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Challenge {
    Http01,
    TlsAlpn01,
    Dns01,
}

impl FromText for Challenge {
    const FORM: Form = Form::OneOf(&["http-01", "tls-alpn-01", "dns-01"]);

    fn from_text(text: &str) -> Result<Challenge, Wrong> {
        match text {
            "http-01" => Ok(Challenge::Http01),
            "tls-alpn-01" => Ok(Challenge::TlsAlpn01),
            "dns-01" => Ok(Challenge::Dns01),
            _ => Err(Wrong::Form),
        }
    }
}

/// Reads the table, if it is given.
pub(crate) fn read(file: &Section<'_, '_>, table: &Section<'_, '_>) -> Option<Acme> {
    if !file.is_given("acme") {
        return None;
    }
    let (directory, ca) = (table.text::<HttpsUrl>("directory"), table.text::<PathBuf>("ca"));
    let (email, challenge) = (table.text::<Mail>("email"), table.text::<Challenge>("challenge"));
    let dns_hook = table.text::<PathBuf>("dns_hook");
    let names = ["external_account_id", "external_account_key"];
    let (id, key) = (table.text::<Name>(names[0]), table.text::<Token>(names[1]));
    if table.is_given(names[0]) != table.is_given(names[1]) {
        let at = if table.is_given(names[0]) { 0 } else { 1 };
        let said = format!("acme.{} without acme.{}: expected both", names[at], names[1 - at]);
        table.book.mistake(table.place_of(names[at]), said);
    }
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if let Some(key) = key.as_ref().filter(|key| !key.value.secret().trim_end_matches('=').bytes().all(is_base64)) {
        table.book.mistake(key.at, "acme.external_account_key: expected base64url, as the authority gives it");
    }
    let challenge = challenge.map(|challenge| challenge.value);
    match (challenge, dns_hook.is_some()) {
        (Some(Challenge::Dns01), false) => {
            let said = "acme.challenge `dns-01` without acme.dns_hook: expected a program that sets DNS records";
            table.book.mistake(table.place_of("challenge"), said);
        }
        (Some(Challenge::Http01 | Challenge::TlsAlpn01), true) => {
            table.book.note(table.place_of("dns_hook"), "acme.dns_hook: no effect with a challenge other than dns-01");
        }
        _ => {}
    }
    Some(Acme {
        at: table.at,
        directory: directory?.value.0,
        ca: ca.map(|ca| ca.value),
        email: email.map(|email| email.value.0),
        challenge,
        dns_hook: dns_hook.map(|hook| hook.value),
        external_account: id.zip(key).map(|(id, key)| (id.value.0, key.value)),
    })
}

impl Acme {
    /// Returns true if names are proved by DNS records.
    pub fn is_by_dns(&self) -> bool {
        match self.challenge {
            Some(challenge) => challenge == Challenge::Dns01,
            None => self.dns_hook.is_some(),
        }
    }
}

const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// Reports hosts that can never have a certificate as mistakes, and notes hosts that an authority will probably refuse.
pub(crate) fn check(book: &Book<'_>, acme: Option<&Acme>, sites: &[Site], listeners: &[Placed<Listener>]) {
    let Some(acme) = acme else { return };
    let ordered: Vec<&Placed<Host>> =
        sites.iter().filter(|site| site.is_ordered()).flat_map(|site| &site.hosts).collect();
    if ordered.is_empty() {
        book.mistake(acme.at, "acme without a host: expected a site with hosts and without cert");
    }
    if !listeners.iter().any(|listener| listener.value.is_secure) {
        book.mistake(acme.at, "acme without TLS: expected a listener with tls = true");
    }
    for host in ordered {
        check_host(book, acme, host);
    }
    if acme.is_by_dns() {
        return;
    }
    let hears = |port, is_secure| {
        listeners.iter().any(|listener| listener.value.address.port() == port && listener.value.is_secure == is_secure)
    };
    let (http, tls) = (hears(HTTP_PORT, false), hears(HTTPS_PORT, true));
    let said = match acme.challenge {
        Some(Challenge::Http01) if !http => {
            "acme.challenge `http-01`: no listener without TLS has port 80, where an authority asks unless that port is forwarded to another"
        }
        Some(Challenge::TlsAlpn01) if !tls => {
            "acme.challenge `tls-alpn-01`: no listener with TLS has port 443, where an authority asks unless that port is forwarded to another"
        }
        None if !http && !tls => {
            "acme: no listener has port 80, and none with TLS has 443, where an authority asks unless they are forwarded to others"
        }
        _ => return,
    };
    book.note(acme.at, said);
}

fn is_address(host: &str) -> bool {
    host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok()
}

/// Returns true if a public authority may issue a certificate for this host.
pub fn is_public(host: &str) -> bool {
    let is_private_below = |top: &str| host.strip_suffix(top).is_some_and(|rest| rest.ends_with('.'));
    host.contains('.')
        && !is_address(host)
        && !["local", "internal", "localhost", "test", "lan"].into_iter().any(is_private_below)
}

fn check_host(book: &Book<'_>, acme: &Acme, host: &Placed<Host>) {
    let name = host.value.to_string();
    if name.starts_with("*.") && !acme.is_by_dns() {
        let said =
            format!("site.hosts `{name}`: only dns-01 can prove a wildcard: expected acme.dns_hook, or cert and key");
        return book.mistake(host.at, said);
    }
    if is_address(&name) {
        return book.note(host.at, format!("site.hosts `{name}`: no certificate is ordered for an address"));
    }
    if !is_public(&name) && acme.directory.contains("letsencrypt.org") {
        let said = format!(
            "site.hosts `{name}`: no public authority issues certificates for it; expected another acme.directory, \
                cert and key, or acme = false in the site"
        );
        book.note(host.at, said);
    }
}
