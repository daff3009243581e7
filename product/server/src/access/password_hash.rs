//! Hashes of passwords, in the formats of user files.

use std::fmt;

use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Argon2, Params};
use thiserror::Error;

/// The maximum length of a password that is hashed.
pub const PASSWORD_BYTES_MAX: usize = 1024;
/// The maximum cost of a bcrypt hash. Each step doubles the time, and 14 takes about a second.
const BCRYPT_COST_MAX: u32 = 14;
/// The maximum memory of an Argon2 hash, in KiB. The verifying thread allocates it.
const ARGON2_KIB_MAX: u32 = 64 << 10;
/// The maximum number of passes over that memory.
const ARGON2_PASSES_MAX: u32 = 16;
const ARGON2_LANES_MAX: u32 = 16;

/// A hash with its parameters and salt.
#[derive(Clone)]
pub(super) enum Hash {
    Bcrypt(String),
    /// Argon2 in the PHC string format, with its memory in bytes.
    Argon2(String, u64),
}

/// Omits the hash, which must not be logged.
impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Hash::Bcrypt(_)) { "bcrypt" } else { "Argon2" })
    }
}

/// The hash formats that are refused: prefix and name.
const REFUSED: [(&str, &str); 11] = [
    ("$apr1$", "an MD5 hash (apr1)"),
    ("$1$", "an MD5 hash"),
    ("{SHA}", "a SHA1 hash"),
    ("{SSHA}", "a SHA1 hash"),
    ("$5$", "a hash of SHA-crypt"),
    ("$6$", "a hash of SHA-crypt"),
    ("$7$", "a hash of scrypt"),
    ("$y$", "a hash of yescrypt"),
    ("$2x$", "a hash of a broken bcrypt (2x)"),
    ("{PLAIN}", "a password that anybody can read"),
    ("$2", "not a bcrypt hash"),
];

/// The remedy for a refused hash.
const CURE: &str = "expected bcrypt or Argon2, of `weir hash-password` or `htpasswd -B`";

impl Hash {
    /// Parses a hash. The error names the format and the expected ones, and does not contain any part of the hash.
    pub fn read(text: &str) -> Result<Hash, String> {
        if ["$2a$", "$2b$", "$2y$"].iter().any(|begins| text.starts_with(begins)) {
            return bcrypt(text);
        }
        if text.starts_with("$argon2") {
            return argon2(text);
        }
        let known = REFUSED.iter().find(|(begins, _)| text.starts_with(begins)).map(|(_, what)| *what);
        Err(format!("{}: {CURE}", known.unwrap_or("not a known hash")))
    }

    /// Returns the memory that a verification takes while it runs.
    pub fn memory_bytes(&self) -> u64 {
        if let Hash::Argon2(_, memory_bytes) = self { *memory_bytes } else { 0 }
    }

    /// Returns true if the hash belongs to this password. Slow by design.
    pub fn is_of(&self, password: &[u8]) -> bool {
        match self {
            Hash::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
            Hash::Argon2(hash, _) => {
                PasswordHash::new(hash).is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok())
            }
        }
    }
}

fn bcrypt(text: &str) -> Result<Hash, String> {
    let parts: bcrypt::HashParts = text.parse().map_err(|_| format!("not a bcrypt hash: {CURE}"))?;
    match parts.get_cost() {
        4..=BCRYPT_COST_MAX => Ok(Hash::Bcrypt(text.into())),
        cost => Err(format!("a bcrypt hash of cost {cost}: expected a cost from 4 to {BCRYPT_COST_MAX}")),
    }
}

fn argon2(text: &str) -> Result<Hash, String> {
    let wrong = || format!("not an Argon2 hash in the PHC format: {CURE}");
    let hash = PasswordHash::new(text).map_err(|_| wrong())?;
    let is_whole = hash.hash.is_some() && hash.salt.is_some();
    argon2::Algorithm::try_from(hash.algorithm).map_err(|_| wrong())?;
    let params = Params::try_from(&hash).ok().filter(|_| is_whole).ok_or_else(wrong)?;
    let is_bounded = params.m_cost() <= ARGON2_KIB_MAX
        && params.t_cost() <= ARGON2_PASSES_MAX
        && params.p_cost() <= ARGON2_LANES_MAX;
    match is_bounded {
        true => Ok(Hash::Argon2(text.into(), u64::from(params.m_cost()) << 10)),
        false => Err(format!(
            "an Argon2 hash of m={},t={},p={}: expected m={ARGON2_KIB_MAX},t={ARGON2_PASSES_MAX},p={ARGON2_LANES_MAX} at most",
            params.m_cost(),
            params.t_cost(),
            params.p_cost()
        )),
    }
}

/// The reason why a password cannot be hashed.
#[derive(Debug, Error)]
pub enum HashError {
    #[error("an empty password: expected one or more characters")]
    Empty,
    #[error("a password over {PASSWORD_BYTES_MAX} bytes: expected a shorter one")]
    TooLong,
    #[error("a control character in the password: expected none, because browsers do not send them")]
    Control,
    #[error("Argon2: {0}")]
    Argon2(String),
}

/// Returns the Argon2id hash of a password, with a new salt, in the PHC string format.
pub fn hash_password(password: &[u8]) -> Result<String, HashError> {
    match password.len() {
        0 => return Err(HashError::Empty),
        1..=PASSWORD_BYTES_MAX if password.iter().any(u8::is_ascii_control) => return Err(HashError::Control),
        1..=PASSWORD_BYTES_MAX => {}
        _ => return Err(HashError::TooLong),
    }
    let failed = |error: argon2::password_hash::Error| HashError::Argon2(error.to_string());
    let salt = SaltString::encode_b64(&tls::nonce()).map_err(failed)?;
    Ok(Argon2::default().hash_password(password, &salt).map_err(failed)?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_that_are_guessed_fast_are_refused_with_a_cure() {
        for (text, said) in [
            ("$apr1$salt$abcdefgh", "an MD5 hash (apr1): expected bcrypt or Argon2, of `weir hash-password`"),
            ("$1$salt$abcdefgh", "an MD5 hash: "),
            ("{SHA}2jmj7l5rSw0yVb/vlWAYkK/YBwk=", "a SHA1 hash: "),
            ("{SSHA}abc", "a SHA1 hash: "),
            ("$6$salt$abc", "a hash of SHA-crypt: "),
            ("$2x$10$abc", "a hash of a broken bcrypt (2x): "),
            ("$2y$10$abc", "not a bcrypt hash: "),
            ("rl.3StKT.4T8M", "not a known hash: "),
            ("secret", "not a known hash: "),
            ("", "not a known hash: "),
            ("$argon2id$v=19$m=65536", "not an Argon2 hash in the PHC format: "),
            ("$argon2x$v=19$m=8,t=1,p=1$c29tZXNhbHQ$c29tZWhhc2hzb21laGFzaA", "not an Argon2 hash"),
            (
                "$argon2id$v=19$m=4194304,t=1,p=1$c29tZXNhbHQ$c29tZWhhc2hzb21laGFzaA",
                "an Argon2 hash of m=4194304,t=1,p=1: expected m=65536,t=16,p=16 at most",
            ),
        ] {
            let refused = Hash::read(text).unwrap_err();
            assert!(refused.starts_with(said), "{text}: {refused}");
            assert!(text.len() < 7 || !refused.contains(text), "{refused}");
        }
        let costly = bcrypt::hash_with_result("a", 4).unwrap().to_string().replace("$04$", "$15$");
        let refused = Hash::read(&costly).unwrap_err();
        assert_eq!(refused, "a bcrypt hash of cost 15: expected a cost from 4 to 14");
    }

    #[test]
    fn passwords_are_those_that_were_hashed() {
        let made = hash_password(b"secret").unwrap();
        assert!(made.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{made}");
        assert_ne!(made, hash_password(b"secret").unwrap(), "each has its salt");
        let bcrypt = ["2a", "2b", "2y"].map(|version| {
            let hash = bcrypt::hash_with_result("secret", 4).unwrap();
            hash.to_string().replacen("2b", version, 1)
        });
        for text in bcrypt.iter().chain([&made]) {
            let hash = Hash::read(text).unwrap();
            assert!(hash.is_of(b"secret"), "{text}");
            assert_eq!(hash.memory_bytes(), if text == &made { 19 << 20 } else { 0 }, "{text}");
            for wrong in [&b""[..], b"secre", b"secrets", b"Secret", b"secret\0"] {
                assert!(!hash.is_of(wrong), "{text} {wrong:?}");
            }
        }
        let long = hash_password(&[b'x'; PASSWORD_BYTES_MAX]).unwrap();
        assert!(Hash::read(&long).unwrap().is_of(&[b'x'; PASSWORD_BYTES_MAX]));
        for wrong in [&b""[..], b"a\nb", &[b'x'; PASSWORD_BYTES_MAX + 1]] {
            assert!(hash_password(wrong).is_err());
        }
    }
}
