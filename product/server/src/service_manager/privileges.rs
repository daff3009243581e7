//! The permanent change from root to an unprivileged user: after the ports below 1024 are bound, and before anything
//! else is opened except certificates and keys ([`Keys`]).
//!
//! Logs and folders are opened as the unprivileged user, so that a file that a later rotation or reload could not open
//! already fails the start with a message. In the kernel, each thread has its own credentials. The C library changes
//! the user of all threads but not their capabilities, so this runs while there is only one thread; later threads
//! inherit everything.

use std::ffi::CString;
use std::io;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::unistd::{self, Gid, Group, Uid, User};
use rustix::process::DumpableBehavior;
use rustix::thread::{CapabilitySet, CapabilitySets};
use thiserror::Error;

use super::Keys;

/// The privileges that the server gives up once it listens, and the privileges that it keeps.
#[derive(Debug, Default)]
pub struct Privileges {
    /// The user to change to, if the server is root.
    pub account: Option<Account>,
    /// Reads the certificates and keys as the user who started the server.
    pub keys: Keys,
    /// True if the sandbox is on: the server can open and call only what it needs.
    pub is_sandboxed: bool,
    /// The configuration file, which a reload reads again, and the folders of the files that it includes.
    pub configuration: Vec<PathBuf>,
}

/// A user and a group of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    name: String,
    uid: u32,
    gid: u32,
    /// True if the user database lists the user, who may then be a member of other groups.
    is_listed: bool,
}

/// The reason why the server cannot change to the user.
#[derive(Debug, Error)]
pub enum PrivilegeError {
    #[error("user `{0}` is not known; expected the name or number of a user: `getent passwd` lists them")]
    User(String),
    #[error("group `{0}` is not known; expected the name or number of a group: `getent group` lists them")]
    Group(String),
    #[error(
        "user {0} is not in the user database, so its group is not known; expected a group (--group, server.group)"
    )]
    NoGroup(u32),
    #[error("user `{0}` is root; expected a user without privileges, or none")]
    Root(String),
    #[error(
        "cannot become user {name}: weir runs as user {own}, not as root; run it with sudo, or as {name} without --user \
         (server.user)"
    )]
    NotRoot { name: String, own: u32 },
    #[error("cannot become user {name}: {doing}: {error}{hint}", hint = hint(error))]
    System { name: String, doing: &'static str, error: io::Error },
    #[error("cannot become user {0}: root's privileges could be regained; this is a bug in weir or in the kernel")]
    Regained(String),
}

/// A hint for containers in which root lacks capabilities.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; this needs CAP_SETUID and CAP_SETGID: allow them, or set the user of the container and leave --user (server.user) out"
        }
        _ => "",
    }
}

impl Account {
    /// Finds a user and group by names or numbers. Without a group, the user's primary group is used.
    pub fn find(user: &str, group: Option<&str>) -> Result<Account, PrivilegeError> {
        let unread = |doing| {
            let name = user.to_string();
            move |error: nix::Error| PrivilegeError::System { name, doing, error: error.into() }
        };
        let number: Option<u32> = user.parse().ok();
        let listed = match number {
            Some(number) => User::from_uid(Uid::from_raw(number)),
            None => User::from_name(user),
        };
        let listed = found(listed).map_err(unread("looking it up"))?;
        let uid = listed.as_ref().map(|listed| listed.uid.as_raw()).or(number);
        let uid = uid.filter(|&uid| uid != u32::MAX).ok_or_else(|| PrivilegeError::User(user.into()))?;
        let gid = match group {
            Some(group) => gid_of(group).map_err(unread("looking up its group"))?,
            None => Some(listed.as_ref().map(|listed| listed.gid.as_raw()).ok_or(PrivilegeError::NoGroup(uid))?),
        };
        let gid = gid.ok_or_else(|| PrivilegeError::Group(group.unwrap_or_default().into()))?;
        if uid == 0 {
            return Err(PrivilegeError::Root(user.into()));
        }
        let is_listed = listed.is_some();
        Ok(Account { name: listed.map_or(user.into(), |listed| listed.name), uid, gid, is_listed })
    }

    pub fn uid(&self) -> u32 {
        self.uid
    }

    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// Makes this process run as the user, irrevocably, with no more privileges than `kept`. Must be called while there
    /// is only one thread.
    pub(crate) fn assume(&self, kept: CapabilitySet) -> Result<(), PrivilegeError> {
        let own = unistd::geteuid();
        if !own.is_root() {
            let is_own = own.as_raw() == self.uid && unistd::getegid().as_raw() == self.gid;
            return if is_own { Ok(()) } else { Err(self.unprivileged(own)) };
        }
        let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
        assert_eq!(threads, 1, "threads that run already would keep root's privileges");
        let failed = |doing| move |error: io::Error| self.failed(doing, error);
        rustix::thread::set_keep_capabilities(true).map_err(|e| failed("keeping capabilities")(e.into()))?;
        self.set_groups().map_err(|e| failed("setting its groups")(e.into()))?;
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        unistd::setresgid(gid, gid, gid).map_err(|e| failed("setting its group")(e.into()))?;
        unistd::setresuid(uid, uid, uid).map_err(|e| failed("setting it")(e.into()))?;
        confine(kept).map_err(failed("dropping capabilities"))?;
        // The kernel hides a process that changed its user, but threads/storage.rs reads our own threads in /proc.
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)
            .map_err(|e| failed("showing its threads")(e.into()))?;
        if self.can_return(kept) { Err(PrivilegeError::Regained(self.name.clone())) } else { Ok(()) }
    }

    fn set_groups(&self) -> nix::Result<()> {
        match CString::new(self.name.as_str()) {
            Ok(name) if self.is_listed => unistd::initgroups(&name, Gid::from_raw(self.gid)),
            _ => unistd::setgroups(&[Gid::from_raw(self.gid)]),
        }
    }

    /// Returns true if root's privileges can be regained. Tries it, rather than trusting the calls above.
    fn can_return(&self, kept: CapabilitySet) -> bool {
        let is_root = unistd::setresuid(Uid::from_raw(0), Uid::from_raw(0), Uid::from_raw(0)).is_ok();
        let is_own =
            unistd::getresuid().is_ok_and(|ids| [ids.real, ids.effective, ids.saved] == [Uid::from_raw(self.uid); 3]);
        let has_kept = rustix::thread::capabilities(None).is_ok_and(|sets| sets.permitted == kept);
        is_root || !is_own || !has_kept
    }

    fn unprivileged(&self, own: Uid) -> PrivilegeError {
        PrivilegeError::NotRoot { name: self.name.clone(), own: own.as_raw() }
    }

    fn failed(&self, doing: &'static str, error: io::Error) -> PrivilegeError {
        PrivilegeError::System { name: self.name.clone(), doing, error }
    }
}

impl std::fmt::Display for Account {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.name)
    }
}

fn gid_of(group: &str) -> nix::Result<Option<u32>> {
    match group.parse() {
        Ok(number) if number != u32::MAX => Ok(Some(number)),
        _ => Ok(found(Group::from_name(group))?.map(|group| group.gid.as_raw())),
    }
}

/// Returns `None` for the errors of a machine without a user database, such as a container. getpwnam(3) lists four of
/// them.
fn found<T>(listed: nix::Result<Option<T>>) -> nix::Result<Option<T>> {
    match listed {
        Err(Errno::ENOENT | Errno::ESRCH | Errno::EBADF | Errno::EPERM) => Ok(None),
        other => other,
    }
}

/// Limits the thread to these capabilities, and keeps it from gaining others by starting a program.
pub(super) fn confine(kept: CapabilitySet) -> io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)?;
    rustix::thread::set_keep_capabilities(false)?;
    Ok(rustix::thread::set_no_new_privs(true)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_found_by_name_and_by_number() {
        let found =
            |user: &str, group: Option<&str>| Account::find(user, group).map(|account| (account.uid, account.gid));
        assert_eq!(found("12345", Some("54321")).unwrap(), (12345, 54321));
        let nobody = found("nobody", None).unwrap();
        let number = nobody.0.to_string();
        assert_eq!(found(&number, None).unwrap(), nobody);
        assert_eq!(found("nobody", Some("0")).unwrap(), (nobody.0, 0));
    }

    #[test]
    fn those_that_are_not_there_are_named() {
        let said = |user, group| Account::find(user, group).unwrap_err().to_string();
        assert!(said("no-such-user", None).starts_with("user `no-such-user` is not known"));
        assert!(said("nobody", Some("no-such-group")).starts_with("group `no-such-group` is not known"));
        assert!(said("4123456789", None).starts_with("user 4123456789 is not in the user database"));
        assert!(said("4294967295", Some("5")).starts_with("user `4294967295` is not known"));
        assert!(
            said("root", None).starts_with("user `root` is root") && said("0", None).starts_with("user `0` is root")
        );
    }

    #[test]
    fn one_who_is_not_root_becomes_nobody_else() {
        let own = unistd::geteuid();
        if own.is_root() {
            println!("SKIPPED: runs as root");
            return;
        }
        let own = Account::find(&own.to_string(), Some(&unistd::getegid().to_string())).unwrap();
        own.assume(CapabilitySet::empty()).unwrap();
        let other = Account { uid: own.uid + 1, ..own };
        assert!(other.assume(CapabilitySet::empty()).unwrap_err().to_string().contains("not as root"));
    }
}
