//! Certificate chains and their keys: reads them from files, checks them, and generates some for development.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::InconsistentKeys;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use thiserror::Error;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate, X509Version};

use crate::acceptor::provider;

/// The maximum size of a file. The longest chains are about 10 KB.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Maximum number of certificates in a chain, including the leaf.
const CHAIN_MAX: usize = 16;

/// A certificate chain with its matching key.
#[derive(Debug)]
pub struct Identity {
    key: Arc<CertifiedKey>,
    /// DNS names and addresses, in lower case.
    names: Vec<String>,
    not_before: SystemTime,
    not_after: SystemTime,
}

/// A faulty certificate or key, with the name of its file.
#[derive(Debug, Error)]
pub enum IdentityError {
    #[error("cannot read `{file}`: {1}; expected a file with {0} as PEM", file = .2.display())]
    Unreadable(&'static str, #[source] io::Error, PathBuf),
    #[error("`{file}` has no {0}; expected PEM that begins with -----BEGIN {1}-----", file = .2.display())]
    Nothing(&'static str, &'static str, PathBuf),
    #[error("the key `{file}` is locked by a passphrase; expected one that is not: openssl pkey -in {file} -out NEW", file = .0.display())]
    Locked(PathBuf),
    #[error("`{file}` ends within its PEM: it is incomplete; copy it again, or wait until it is written", file = .0.display())]
    HalfWritten(PathBuf),
    #[error("`{file}` is not valid PEM: {0}; expected {1}", file = .2.display())]
    Malformed(String, &'static str, PathBuf),
    #[error("certificate {0} of `{file}` cannot be read: {1}; expected X.509", file = .2.display())]
    NoCertificate(usize, String, PathBuf),
    #[error("certificate 1 of `{file}` has version {0} of X.509, which names no host; expected version 3: openssl req -x509 -addext subjectAltName=DNS:NAME, or openssl x509 -req with -extfile", file = .1.display())]
    OldVersion(u32, PathBuf),
    #[error("the key `{key}` does not belong to the first certificate of `{cert}`; expected the server's own certificate first, and its key", key = .0.display(), cert = .1.display())]
    Mismatch(PathBuf, PathBuf),
    #[error("the key `{file}` cannot be used: {0}; expected RSA of 2048 bits or more, ECDSA P-256 or P-384, or Ed25519", file = .1.display())]
    Unusable(String, PathBuf),
}

/// The validity of a certificate at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    Good,
    /// The certificate expired this long ago.
    Expired(Duration),
    /// The certificate becomes valid after this time.
    NotYet(Duration),
}

impl Identity {
    /// Reads a chain and its key. The chain starts with the server's own certificate.
    pub fn read(cert: &Path, key: &Path) -> Result<Identity, IdentityError> {
        Identity::read_by(cert, key, &read_file)
    }

    /// Does the same, but reads files with `read`, which must work like [`read_file`].
    pub fn read_by(cert: &Path, key: &Path, read: &ReadFile<'_>) -> Result<Identity, IdentityError> {
        let bytes =
            |file: &Path, expected| read(file).map_err(|error| IdentityError::Unreadable(expected, error, file.into()));
        let chain = chain(&bytes(cert, "certificates")?, cert)?;
        let der = private_key(&bytes(key, "a private key")?, key)?;
        Identity::new(chain, der, cert, key)
    }

    /// Returns all faults of the two files. Each is read even if the other one is faulty.
    pub fn faults(cert: &Path, key: &Path, read: &ReadFile<'_>) -> Vec<IdentityError> {
        let bytes =
            |file: &Path, expected| read(file).map_err(|error| IdentityError::Unreadable(expected, error, file.into()));
        let chain = bytes(cert, "certificates").and_then(|bytes| chain(&bytes, cert));
        let der = bytes(key, "a private key").and_then(|bytes| private_key(&bytes, key));
        match (chain, der) {
            (Ok(chain), Ok(der)) => Identity::new(chain, der, cert, key).err().into_iter().collect(),
            (chain, der) => [chain.err(), der.err()].into_iter().flatten().collect(),
        }
    }

    /// Generates a self-signed certificate for these names.
    pub fn for_development(names: &[String]) -> Result<Identity, IdentityError> {
        let made = rcgen::generate_simple_self_signed(names);
        let made = made.map_err(|error| IdentityError::Unusable(error.to_string(), "--tls-self-signed".into()))?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let file = Path::new("--tls-self-signed");
        Identity::new(vec![made.cert.der().clone()], key.into(), file, file)
    }

    pub(crate) fn new(
        chain: Vec<CertificateDer<'static>>,
        der: PrivateKeyDer<'static>,
        cert: &Path,
        key: &Path,
    ) -> Result<Identity, IdentityError> {
        let own = parsed(&chain[0], 1, cert)?;
        if own.version() != X509Version::V3 {
            return Err(IdentityError::OldVersion(own.version().0 + 1, cert.into()));
        }
        let names = names(&own);
        let [not_before, not_after] =
            [own.validity().not_before, own.validity().not_after].map(|at| instant(at.timestamp()));
        for (at, further) in chain.iter().enumerate().skip(1) {
            parsed(further, at + 1, cert)?;
        }
        let certified = CertifiedKey::from_der(chain, der, &provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                IdentityError::Mismatch(key.into(), cert.into())
            }
            error => IdentityError::Unusable(error.to_string(), key.into()),
        })?;
        Ok(Identity { key: Arc::new(certified), names, not_before, not_after })
    }

    pub(crate) fn key(&self) -> &Arc<CertifiedKey> {
        &self.key
    }

    /// The names in the certificate. `*.` before a name stands for the names directly below it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The server's own certificate, as DER.
    pub fn leaf(&self) -> &[u8] {
        &self.key.cert[0]
    }

    /// The beginning of the certificate's validity.
    pub fn not_before(&self) -> SystemTime {
        self.not_before
    }

    /// The end of the certificate's validity.
    pub fn not_after(&self) -> SystemTime {
        self.not_after
    }

    /// Returns true if clients accept the certificate for this host. A name matches itself; a name with `*.` matches
    /// the names directly below it.
    pub fn covers(&self, host: &str) -> bool {
        let host = host.trim_matches(['[', ']']);
        let parent = host.split_once('.').map(|(_, parent)| parent);
        self.names.iter().any(|name| name == host || (parent.is_some() && name.strip_prefix("*.") == parent))
    }

    pub fn validity(&self, now: SystemTime) -> Validity {
        match (now.duration_since(self.not_after), self.not_before.duration_since(now)) {
            (Ok(since), _) if !since.is_zero() => Validity::Expired(since),
            (_, Ok(until)) if !until.is_zero() => Validity::NotYet(until),
            _ => Validity::Good,
        }
    }
}

fn chain(text: &[u8], file: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let mut chain = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(text).take(CHAIN_MAX) {
        chain.push(certificate.map_err(|error| malformed(error, "certificates", file))?);
    }
    if chain.is_empty() {
        return Err(IdentityError::Nothing("certificate", "CERTIFICATE", file.into()));
    }
    Ok(chain)
}

fn private_key(text: &[u8], file: &Path) -> Result<PrivateKeyDer<'static>, IdentityError> {
    // PKCS #8 (RFC 7468 section 11), and the older form of OpenSSL (RFC 1421).
    let marks = [&b"BEGIN ENCRYPTED PRIVATE KEY"[..], b"Proc-Type: 4,ENCRYPTED"];
    if marks.iter().any(|mark| text.windows(mark.len()).any(|part| part == *mark)) {
        return Err(IdentityError::Locked(file.into()));
    }
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        pem::Error::NoItemsFound => IdentityError::Nothing("private key", "PRIVATE KEY", file.into()),
        error => malformed(error, "a private key", file),
    })
}

fn malformed(error: pem::Error, expected: &'static str, file: &Path) -> IdentityError {
    match error {
        pem::Error::MissingSectionEnd { .. } => IdentityError::HalfWritten(file.into()),
        error => IdentityError::Malformed(error.to_string(), expected, file.into()),
    }
}

/// A function that returns the contents of a file.
pub type ReadFile<'r> = dyn Fn(&Path) -> io::Result<Vec<u8>> + 'r;

/// Reads a whole file of at most 1 MiB.
pub fn read_file(file: &Path) -> io::Result<Vec<u8>> {
    read_within(file, FILE_BYTES_MAX)
}

/// Reads a whole regular file of at most `bytes_max`. A FIFO would wait for a writer, and a device may have no end.
pub fn read_within(file: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a folder, a FIFO or a device; expected a regular file",
        ));
    }
    let mut bytes = Vec::new();
    let count = File::open(file)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if count as u64 > bytes_max {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {} KiB", bytes_max >> 10)));
    }
    Ok(bytes)
}

fn parsed<'a>(der: &'a CertificateDer<'_>, number: usize, file: &Path) -> Result<X509Certificate<'a>, IdentityError> {
    match X509Certificate::from_der(der) {
        Ok((_, certificate)) => Ok(certificate),
        Err(error) => Err(IdentityError::NoCertificate(number, error.to_string(), file.into())),
    }
}

fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return Vec::new() };
    let named = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        GeneralName::IPAddress(bytes) => match *bytes {
            [a, b, c, d] => Some(std::net::Ipv4Addr::new(*a, *b, *c, *d).to_string()),
            bytes => <[u8; 16]>::try_from(bytes).ok().map(|bytes| std::net::Ipv6Addr::from(bytes).to_string()),
        },
        _ => None,
    };
    extension.value.general_names.iter().filter_map(named).collect()
}

fn instant(unix_s: i64) -> SystemTime {
    let span = Duration::from_secs(unix_s.unsigned_abs());
    if unix_s < 0 { UNIX_EPOCH.checked_sub(span) } else { UNIX_EPOCH.checked_add(span) }.unwrap_or(UNIX_EPOCH)
}
