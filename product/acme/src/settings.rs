//! The settings that an operator chooses.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use tls::Roots;

/// The directory of the default authority.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Sets and removes DNS records for DNS-01, by running the operator's program.
pub trait Hook: Send + Sync {
    /// Runs the program for a record (`_acme-challenge.example.org.`) and its value, with the action `present` or
    /// `cleanup`. Returns when the program has ended; an error gives the reason for a failure.
    fn run(&self, action: &str, record: &str, value: &str) -> Result<(), String>;
}

/// A way to prove to the authority that this server controls a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChallengeKind {
    /// A file over HTTP at port 80.
    Http01,
    /// A handshake at port 443.
    TlsAlpn01,
    /// A DNS record.
    Dns01,
}

impl ChallengeKind {
    pub const ALL: [ChallengeKind; 3] = [ChallengeKind::Http01, ChallengeKind::TlsAlpn01, ChallengeKind::Dns01];

    /// The name in RFC 8555 and RFC 8737.
    pub fn name(self) -> &'static str {
        match self {
            ChallengeKind::Http01 => "http-01",
            ChallengeKind::TlsAlpn01 => "tls-alpn-01",
            ChallengeKind::Dns01 => "dns-01",
        }
    }
}

/// The account with the authority's operator that the ACME account belongs to (RFC 8555 section 7.3.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    pub id: String,
    /// The key, decoded.
    pub key: Vec<u8>,
}

impl ExternalAccount {
    /// Decodes the key, which authorities give in base64url.
    pub fn of_base64(id: &str, key: &str) -> Option<ExternalAccount> {
        let key = BASE64_URL_SAFE_NO_PAD.decode(key.trim_end_matches('=')).ok()?;
        Some(ExternalAccount { id: id.into(), key })
    }
}

/// Everything that orders need.
#[derive(Clone)]
pub struct Settings {
    /// The address of the authority's directory.
    pub directory: String,
    /// The root certificates against which the directory server's certificate is verified.
    pub roots: Roots,
    pub email: Option<String>,
    /// The challenges that this server can answer, in the order in which successive attempts use them.
    pub challenges: Vec<ChallengeKind>,
    pub external_account: Option<ExternalAccount>,
}
