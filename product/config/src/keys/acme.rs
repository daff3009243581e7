//! The keys of certificates by ACME.

use super::Unset::{Absent, Is};
use super::table::{key, table, text};
use super::{Form, Key};

pub static ACME: &[Key] = &[
    table(
        "acme",
        "no certificate is ordered",
        "Certificates by ACME for the hosts of sites without `cert` ([certificates](certificates.md)). An empty table \
            orders them from Let's Encrypt.",
    ),
    key(
        "acme.directory",
        text(Form::HttpsUrl),
        Is("https://acme-v02.api.letsencrypt.org/directory"),
        "Directory of the authority.",
        r#""https://ca.internal/acme/directory""#,
    ),
    key(
        "acme.ca",
        text(Form::Path),
        Absent("the authorities that the system trusts"),
        "Authorities that verify the directory's own certificate, as PEM.",
        r#""/etc/weir/ca.pem""#,
    ),
    key(
        "acme.email",
        text(Form::Mail),
        Absent("none"),
        "Mail address that the authority may write to.",
        r#""admin@example.org""#,
    ),
    key(
        "acme.challenge",
        text(Form::OneOf(&["http-01", "tls-alpn-01", "dns-01"])),
        Absent("`dns-01` with `dns_hook`; else `http-01` and `tls-alpn-01`, in turn, as far as there are listeners"),
        "Proof that this server has the host: a file over HTTP at port 80, a TLS handshake at port 443, or a DNS \
            record.",
        r#""tls-alpn-01""#,
    ),
    key(
        "acme.dns_hook",
        text(Form::Path),
        Absent("none"),
        "Program that sets DNS records: `PROGRAM present|cleanup NAME VALUE`. It runs as the user of the server, outside the sandbox.",
        r#""/etc/weir/dns-hook""#,
    ),
    key(
        "acme.external_account_id",
        text(Form::Name),
        Absent("none"),
        "Key identifier of the account that the authority asks for (external account binding).",
        r#""kid-1""#,
    ),
    key(
        "acme.external_account_key",
        text(Form::Token),
        Absent("none"),
        "Key of that account in base64url.",
        r#""zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W""#,
    ),
];
