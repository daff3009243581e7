//! The folder that keeps the account's key and the certificates across restarts.
//!
//! A certificate and its key are one file, so that a single rename replaces both: a reader never gets a new certificate
//! with an old key. Files are first written under another name, with mode 0600, and only the process that holds the
//! lock writes. All files are in one folder, because weir's sandbox lets it create files but no folders.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use thiserror::Error;
use tls::{Identity, IdentityError};

/// The start of the line before a certificate that records the directory URL of its authority.
const DIRECTORY: &str = "# The authority: ";
const HEAD: &str = "# Weir made this file; it is replaced when the certificate is renewed.\n";
/// The number of bytes written before an order to detect a full disk before the authority is asked. It is more than a
/// chain of four certificates with a key takes.
const TRIAL_BYTES: usize = 16 << 10;

/// The reason why the folder cannot be used.
#[derive(Debug, Error)]
#[error("cannot {doing} `{path}`: {error}; {cure}", path = .path.display())]
pub struct FolderError {
    doing: &'static str,
    path: PathBuf,
    #[source]
    error: io::Error,
    cure: &'static str,
}

/// The folder, by its path.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
}

/// The right to write to the folder, as long as it exists.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// A certificate from the folder.
#[derive(Debug)]
pub struct Kept {
    pub identity: Identity,
    /// The directory URL of the authority that issued the certificate; empty if unknown.
    pub directory: String,
}

impl Folder {
    /// Creates the folder if it does not exist, accessible only to this process's user. Returns true if it is new.
    pub fn create(path: &Path) -> io::Result<bool> {
        let is_new = !path.exists();
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Ok(is_new)
    }

    pub fn new(path: PathBuf) -> Folder {
        Folder { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the lock. Returns `None` if another process has it.
    pub fn lock(&self) -> Result<Option<Lock>, FolderError> {
        let path = self.path.join("lock");
        let options = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).to_owned();
        let file = options.open(&path).map_err(|error| self.failed("open", &path, error))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(self.failed("lock", &path, error.into())),
        }
    }

    /// Checks that a certificate could be stored: writes as many bytes, then removes them.
    pub fn try_out(&self) -> Result<(), FolderError> {
        let path = self.path.join("trial.new");
        let tried = write_whole(&path, &[b'\n'; TRIAL_BYTES]);
        let removed = std::fs::remove_file(&path);
        tried.and(removed).map_err(|error| self.failed("write", &path, error))
    }

    /// Reads the certificate for a name; `None` if there is none.
    pub fn certificate(&self, name: &str) -> Result<Option<Kept>, IdentityError> {
        let path = self.file_of(name);
        let text = match tls::read_file(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(IdentityError::Unreadable("a certificate and its key", error, path)),
        };
        let identity = Identity::read_by(&path, &path, &|_| Ok(text.clone()))?;
        let head = String::from_utf8_lossy(&text);
        let directory = head.lines().take(4).find_map(|line| line.strip_prefix(DIRECTORY)).unwrap_or_default();
        Ok(Some(Kept { identity, directory: directory.trim().to_string() }))
    }

    /// Stores a certificate chain and its key, both as PEM, with the directory URL of their authority.
    pub fn keep(&self, name: &str, directory: &str, key: &str, chain: &str) -> Result<(), FolderError> {
        let text = format!("{HEAD}{DIRECTORY}{directory}\n{}\n{}\n", key.trim_end(), chain.trim_end());
        self.replace(&self.file_of(name), text.as_bytes())
    }

    /// The account's credentials at the authority with this directory URL.
    pub fn account(&self, directory: &str) -> Result<Option<Vec<u8>>, FolderError> {
        let path = self.account_file(directory);
        match tls::read_file(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("read", &path, error)),
        }
    }

    pub fn keep_account(&self, directory: &str, text: &[u8]) -> Result<(), FolderError> {
        self.replace(&self.account_file(directory), text)
    }

    /// Removes the credentials of an account that the authority does not recognise.
    pub fn forget_account(&self, directory: &str) {
        let _ = std::fs::remove_file(self.account_file(directory));
    }

    fn replace(&self, path: &Path, text: &[u8]) -> Result<(), FolderError> {
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        let replaced = write_whole(&new, text).and_then(|()| std::fs::rename(&new, path));
        if replaced.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        // After a power failure the old file may be back; its certificate is then renewed again.
        let _ = File::open(&self.path).and_then(|folder| folder.sync_all());
        replaced.map_err(|error| self.failed("write", path, error))
    }

    fn file_of(&self, name: &str) -> PathBuf {
        let name = name.strip_prefix("*.").map_or(name.to_string(), |below| format!("wildcard_.{below}"));
        self.path.join(format!("{}.pem", file_name(&name)))
    }

    fn account_file(&self, directory: &str) -> PathBuf {
        let name = directory.trim_start_matches("https://");
        self.path.join(format!("account-{}.json", file_name(name)))
    }

    fn failed(&self, doing: &'static str, path: &Path, error: io::Error) -> FolderError {
        let cure = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room on its disk",
            io::ErrorKind::ReadOnlyFilesystem => "mount it for writing, or choose another folder with --state",
            io::ErrorKind::NotFound => "make the folder, as weir does at its start",
            _ => "expected a folder of weir's own user with mode 0700: chown it, or choose another with --state",
        };
        FolderError { doing, path: path.into(), error, cure }
    }
}

/// Returns the text as a file name: all characters but letters, digits, dots, hyphens and underscores are replaced.
fn file_name(text: &str) -> String {
    let kept = |byte: char| byte.is_ascii_alphanumeric() || matches!(byte, '.' | '-' | '_');
    let name: String = text.chars().map(|byte| if kept(byte) { byte } else { '-' }).collect();
    if name.starts_with('.') { format!("-{name}") } else { name }
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // What a process that was killed has left may have other rights.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A new folder, and a certificate with its key.
    fn folder() -> (Folder, [String; 2]) {
        let number = u64::from_le_bytes(tls::nonce()[..8].try_into().unwrap());
        let path = std::env::temp_dir().join(format!("weir-acme-{number:x}/state"));
        assert!(Folder::create(&path).unwrap() && !Folder::create(&path).unwrap());
        let made = rcgen::generate_simple_self_signed(["a.test".to_string(), "*.b.test".to_string()]).unwrap();
        (Folder::new(path), [made.signing_key.serialize_pem(), made.cert.pem()])
    }

    fn remove(folder: &Folder) {
        std::fs::remove_dir_all(folder.path().parent().unwrap()).unwrap();
    }

    #[test]
    fn what_is_kept_is_there_and_only_for_its_user() {
        let (folder, [key, chain]) = folder();
        assert!(folder.certificate("a.test").unwrap().is_none());
        for name in ["a.test", "*.b.test"] {
            folder.keep(name, "https://ca.test/dir", &key, &chain).unwrap();
            let kept = folder.certificate(name).unwrap().unwrap();
            assert!(kept.identity.covers("a.test") && kept.directory == "https://ca.test/dir");
        }
        folder.keep_account("https://ca.test/dir", b"{}").unwrap();
        assert_eq!(folder.account("https://ca.test/dir").unwrap().as_deref(), Some(&b"{}"[..]));
        assert_eq!(folder.account("https://ca.test/other").unwrap(), None);
        folder.try_out().unwrap();
        let mut names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
        names.sort_by_key(|entry| entry.file_name());
        for entry in &names {
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{entry:?}");
        }
        let names: Vec<_> = names.iter().map(|entry| entry.file_name().into_string().unwrap()).collect();
        assert_eq!(names, ["a.test.pem", "account-ca.test-dir.json", "wildcard_.b.test.pem"]);
        folder.forget_account("https://ca.test/dir");
        assert_eq!(folder.account("https://ca.test/dir").unwrap(), None);
        remove(&folder);
    }

    #[test]
    fn one_process_writes() {
        let (folder, _) = folder();
        let lock = folder.lock().unwrap();
        assert!(lock.is_some() && folder.lock().unwrap().is_none());
        drop(lock);
        assert!(folder.lock().unwrap().is_some());
        remove(&folder);
        let said = folder.lock().unwrap_err().to_string();
        assert!(said.contains("No such file") && said.contains("make the folder"), "{said}");
    }

    #[test]
    fn a_half_written_file_is_named() {
        let (folder, [key, chain]) = folder();
        folder.keep("a.test", "", &key, &chain).unwrap();
        let path = folder.path().join("a.test.pem");
        let text = std::fs::read(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 40]).unwrap();
        let said = folder.certificate("a.test").unwrap_err().to_string();
        assert!(said.contains("a.test.pem` ends within its PEM"), "{said}");
        // What a killed process has left is replaced.
        std::fs::write(folder.path().join("a.test.pem.new"), "half").unwrap();
        folder.keep("a.test", "", &key, &chain).unwrap();
        assert!(folder.certificate("a.test").unwrap().is_some());
        remove(&folder);
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for (text, name) in [("a.test", "a.test"), ("../x", "-..-x"), ("a/b", "a-b"), (".", "-."), ("ä", "-")] {
            assert_eq!(file_name(text), name);
        }
    }
}
