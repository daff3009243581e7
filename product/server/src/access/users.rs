//! The users in a file. Each line has a name, a colon and the hash of a password, as `htpasswd -B` writes it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use thiserror::Error;

use super::Credentials;
use super::password_hash::Hash;

/// The maximum size of a user file, enough for ten thousand users.
pub const USERS_FILE_BYTES_MAX: u64 = 1 << 20;
const NAME_BYTES_MAX: usize = 255;

/// The number of the next set of users.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The users of a file as it was when read.
#[derive(Debug)]
pub struct Users {
    /// The number of this set of users. Verdicts on passwords of one set do not apply to another.
    pub number: u64,
    by_name: HashMap<Box<[u8]>, Hash>,
    /// The hash with which passwords of unknown users are compared, so that the check takes equally long.
    first: Hash,
}

/// A mistake in a user file.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("line {line}: {said}")]
pub struct UsersFault {
    pub line: usize,
    said: String,
}

impl Users {
    /// Reads a file. Ignores empty lines, lines that begin with `#`, and everything after a second colon.
    pub fn read(bytes: &[u8]) -> Result<Users, UsersFault> {
        let (mut by_name, mut first) = (HashMap::new(), None);
        for (line, text) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
            let text = text.trim_ascii();
            if text.is_empty() || text.starts_with(b"#") {
                continue;
            }
            let fault = |said: String| UsersFault { line, said };
            let (name, hash) = user(text).map_err(fault)?;
            first.get_or_insert_with(|| hash.clone());
            if by_name.insert(name.into(), hash).is_some() {
                return Err(fault(format!("user `{}` appears a second time: expected once", shown(name))));
            }
        }
        let none = || UsersFault { line: 1, said: "no user: expected lines of a name, a colon and a hash".into() };
        Ok(Users { number: NEXT.fetch_add(1, Relaxed), by_name, first: first.ok_or_else(none)? })
    }

    /// Returns the maximum memory that the verification of a password takes.
    pub fn memory_bytes(&self) -> u64 {
        self.by_name.values().map(Hash::memory_bytes).max().unwrap_or(0)
    }

    /// Returns true if the password is correct. The check takes a core a large part of a second.
    pub fn verify(&self, credentials: &Credentials) -> bool {
        let known = self.by_name.get(&credentials.user[..]);
        known.unwrap_or(&self.first).is_of(&credentials.password) && known.is_some()
    }
}

/// Reads the name and the hash of a line.
fn user(text: &[u8]) -> Result<(&[u8], Hash), String> {
    let expected = "expected a name, a colon and a hash, as `htpasswd -B` writes them";
    let mut parts = text.split(|&byte| byte == b':');
    let (name, hash) = parts.next().zip(parts.next()).ok_or_else(|| format!("no colon: {expected}"))?;
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.iter().any(u8::is_ascii_control);
    if !is_name {
        return Err(format!("a name that is empty, over {NAME_BYTES_MAX} bytes or has control characters: {expected}"));
    }
    let hash = Hash::read(&String::from_utf8_lossy(hash.trim_ascii()));
    Ok((name, hash.map_err(|said| format!("user `{}` has {said}", shown(name)))?))
}

fn shown(name: &[u8]) -> String {
    units::plain(&String::from_utf8_lossy(name)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(password: &str) -> String {
        bcrypt::hash(password, 4).unwrap()
    }

    fn verify(users: &Users, user: &str, password: &str) -> bool {
        users.verify(&Credentials { user: user.into(), password: password.into() })
    }

    #[test]
    fn users_have_their_passwords_and_no_others() {
        let text = format!("# who\n\nada:{}\r\n  bob:{}:comment\nc d:{}", hash("a"), hash("b"), hash("c"));
        let users = Users::read(text.as_bytes()).unwrap();
        for (user, password, is_right) in [
            ("ada", "a", true),
            ("bob", "b", true),
            ("c d", "c", true),
            ("ada", "b", false),
            ("eve", "a", false),
            ("", "", false),
            ("# who", "", false),
        ] {
            assert_eq!(verify(&users, user, password), is_right, "{user}");
        }
        assert_ne!(Users::read(text.as_bytes()).unwrap().number, users.number);
    }

    #[test]
    fn a_mistake_has_its_line_and_nothing_of_a_hash() {
        for (text, said) in [
            ("".to_string(), "line 1: no user: expected lines of a name"),
            ("# none\n".into(), "line 1: no user"),
            (format!("ada:{}\nbob", hash("a")), "line 2: no colon: expected a name, a colon and a hash"),
            (format!("ada:{0}\nada:{0}", hash("a")), "line 2: user `ada` appears a second time: expected once"),
            (":x".into(), "line 1: a name that is empty"),
            ("ada:$apr1$aaaaaaaa$bbbbbbbbbbbbbbbbbbbbbb".into(), "line 1: user `ada` has an MD5 hash (apr1): expected"),
            ("ada:hunter2".into(), "line 1: user `ada` has not a known hash: expected bcrypt or Argon2"),
        ] {
            let fault = Users::read(text.as_bytes()).unwrap_err().to_string();
            assert!(fault.starts_with(said), "{fault}");
            assert!(!fault.contains("hunter2") && !fault.contains("bbbbb"), "{fault}");
        }
    }
}
