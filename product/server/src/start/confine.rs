//! The files that a server in its sandbox ([`crate::sandbox`]) can access: the files named at the start. Sites are
//! readable, and the folders of logs are writable. So are the folders of files that a reload reads again, because a new
//! file may replace an old one there; those only for reading. The folder above a root is readable too ([`above`]): a
//! Landlock rule applies to a folder, not to its path, and another folder may replace the root.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use config::{UpstreamAddress, UpstreamSocket};
use rustix::fs::Access;

use super::{Config, StartError, config::is_spooling};
use crate::disk::SpoolConfig;
use crate::sandbox::{Granted, Reach, below_root, folders_of, refuse_calls, restrict_files};
use crate::sites::{Certificate, SiteConfig, SitesError};
use crate::upstream::resolver::RESOLVER_FILES;

/// The restrictions in force.
#[derive(Debug, Default)]
pub struct Confined {
    /// The access that the kernel grants, if Landlock refuses all other access.
    pub granted: Option<Granted>,
    /// Remarks for the operator.
    pub remarks: Vec<String>,
}

/// Applies every restriction that the kernel supports to this thread and to the threads that it starts.
pub fn confine(config: &Config) -> Confined {
    if !config.privileges.is_sandboxed {
        return Confined::default();
    }
    let connects = config.acme.is_some() || config.sites.iter().any(|site| site.answers.upstreams().next().is_some());
    let files = restrict_files(&reach(config), connects)
        .and_then(|granted| granted.ok_or_else(|| "this kernel has none, or a container forbids it".into()));
    let files = files.map_err(|why| {
        format!(
            "no Landlock: {why}; only the rights of weir's user limit the files that it can \
            open"
        )
    });
    let calls = refuse_calls();
    let calls = calls.map_err(|why| format!("no filter of system calls (seccomp): {why}; weir runs without it"));
    let (granted, unconfined) = (files.as_ref().ok().copied(), files.err());
    Confined { granted, remarks: unconfined.into_iter().chain(calls.err()).collect() }
}

/// The files and folders that this configuration needs.
fn reach(config: &Config) -> Reach {
    let mut reach = Reach { reads: vec!["/proc/self".into()], writes: Vec::new() };
    for site in &config.sites {
        let files = site.answers.proxies.iter().filter_map(|proxy| proxy.accel_root.as_ref());
        let dirs = site.dir.iter().chain(files).chain(&site.files.links_into).chain(&site.answers.error_root);
        let dirs: Vec<&PathBuf> = dirs.collect();
        reach.reads.extend(dirs.iter().flat_map(|dir| [Some(dir.to_path_buf()), turned(dir), above(dir)]).flatten());
        reach.reads.extend(dirs.iter().flat_map(|dir| awaited(dir)));
        reach.reads.extend(site.answers.users_files().flat_map(|file| folders_of(file)));
        if let Some(Certificate::Files { cert, key }) = &site.https.certificate {
            reach.reads.extend([cert, key].into_iter().flat_map(|file| folders_of(file)));
        }
    }
    let proxies = config.sites.iter().flat_map(|site| &site.answers.proxies).filter(|proxy| proxy.speaks_tls());
    let authorities = proxies.filter_map(|proxy| proxy.tls_ca.as_deref().or(tls::Roots::system_file()));
    reach.reads.extend(authorities.flat_map(folders_of));
    if asks_over_tls(config) {
        reach.reads.extend(tls::Roots::system_file().into_iter().flat_map(folders_of));
    }
    let mut upstreams = config.sites.iter().flat_map(|site| site.answers.upstreams());
    if let Some(acme) = &config.acme {
        reach.reads.extend(acme.authorities().into_iter().flat_map(folders_of));
        reach.writes.push(acme.folder.clone());
    }
    if config.acme.is_some() || upstreams.any(UpstreamAddress::is_named) {
        let is_root = rustix::process::geteuid().is_root();
        reach.reads.extend(RESOLVER_FILES.iter().flat_map(|file| resolver_paths(Path::new(file), is_root)));
    }
    reach.reads.extend(config.privileges.configuration.iter().flat_map(|file| folders_of(file)));
    let logs = config.sites.iter().filter_map(|site| site.log.as_ref()).chain(&config.reporting.access_log);
    let written = logs.filter_map(|log| log.path.as_ref());
    reach.writes.extend(written.flat_map(|file| folders_of(file)));
    reach.writes.extend(config.keeper.iter().map(|keeper| keeper.path().to_path_buf()));
    reach.writes.extend(config.is_spooling().then(|| config.limits.spool.folder.clone()));
    reach
}

/// Returns true if an authentication server is asked over TLS.
fn asks_over_tls(config: &Config) -> bool {
    let access = config.sites.iter().flat_map(|site| &site.answers.access);
    access.filter_map(|access| access.auth.as_ref()).any(|auth| auth.url.to.speaks_tls())
}

/// The paths to allow for a resolver file: the folder in which a new file replaces it, and if it is a symlink out of
/// that, the folder of its target. Root, whom the rights of files do not stop, may read the file alone.
fn resolver_paths(file: &Path, is_root: bool) -> Vec<PathBuf> {
    let made = file.canonicalize().ok().and_then(|made| made.parent().map(PathBuf::from));
    let elsewhere =
        made.filter(|folder| Some(folder.as_path()) != file.parent()).and_then(|folder| below_root(&folder));
    let own = if is_root { Some(file) } else { file.parent() };
    [own.map(PathBuf::from), elsewhere].into_iter().flatten().collect()
}

/// If the path to a folder contains a symlink, returns the folder that contains the symlink's target, and probably its
/// later targets. A deployment switches `current` to the next release, and a reload follows the symlink.
fn turned(dir: &Path) -> Option<PathBuf> {
    let dir = dir.components().as_path();
    let link = dir.ancestors().find(|above| above.is_symlink())?;
    below_root(link.canonicalize().ok()?.parent()?)
}

/// System folders, which contain more than a site.
const NOT_ABOVE: [&str; 9] = ["/", "/etc", "/home", "/root", "/run", "/usr", "/var", "/var/lib", "/var/log"];

/// Returns the folder above a root, in which another folder may replace the root. Returns `None` if that is a system
/// folder or a home, which a file server need not read as a whole; the replacement of such a root takes effect only
/// after `weir upgrade`.
fn above(dir: &Path) -> Option<PathBuf> {
    unless_system(dir.canonicalize().ok()?.parent()?.to_path_buf())
}

/// Returns the folders in which a missing root may appear: the deepest existing folder on the path to it, and the
/// folder above that. A Landlock rule for a folder does not apply to a disk that is mounted over it later; a rule for
/// the folder above does.
fn awaited(dir: &Path) -> Vec<PathBuf> {
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.into());
    let there = dir.ancestors().skip(1).find_map(|above| above.canonicalize().ok()).filter(|_| !dir.exists());
    let folders = there.iter().flat_map(|there| there.ancestors().take(2));
    folders.filter_map(|folder| unless_system(folder.to_path_buf())).collect()
}

fn unless_system(above: PathBuf) -> Option<PathBuf> {
    let is_home = above.parent() == Some(Path::new("/home"))
        || std::env::var_os("HOME").is_some_and(|home| above == Path::new(&home));
    let is_kept = is_home || NOT_ABOVE.iter().any(|kept| above == Path::new(kept));
    (!is_kept).then_some(above)
}

/// Returns an error for the first file or folder that these sites need and that the user's rights allow but Landlock
/// does not. Without this check, only requests would fail: a [`Root`](crate::files) does not open its folder for
/// reading, and upstreams and spool files are used later. The reload itself opens error pages, logs, certificates and
/// users.
pub fn out_of_reach(granted: Granted, sites: &[SiteConfig], spool: Option<&SpoolConfig>) -> Result<(), StartError> {
    for site in sites {
        let of_proxies = site.answers.proxies.iter().filter_map(|proxy| proxy.accel_root.as_ref());
        let links_into = site.dir.iter().flat_map(|_| &site.files.links_into);
        for dir in site.dir.iter().chain(links_into).chain(of_proxies) {
            shut(dir).map_or(Ok(()), |error| Err(SitesError::Folder(dir.clone(), error)))?;
        }
    }
    let beyond = |what: String| Err(StartError::BeyondSandbox(what));
    let upstreams = || sites.iter().flat_map(|site| site.answers.upstreams());
    let is_of_tcp = |to: &&UpstreamAddress| !matches!(to.socket, UpstreamSocket::Unix(_));
    if let Some(to) = upstreams().find(is_of_tcp).filter(|_| !granted.connects) {
        return beyond(format!("a connection to `{to}`"));
    }
    if let Some(to) = upstreams().find(|to| to.is_named())
        && let Some(file) = RESOLVER_FILES.iter().find(|file| shut(Path::new(file)).is_some())
    {
        return beyond(format!("the file `{file}`, by which the name in `{to}` is looked up,"));
    }
    if let Some(spool) = spool.filter(|spool| is_spooling(sites, spool) && is_unspooled(spool)) {
        return beyond(format!("a file in `{}` for upstreams' responses (limits.spool)", spool.folder.display()));
    }
    Ok(())
}

/// Returns the error of opening this file or folder if the user's rights allow it but Landlock does not.
fn shut(path: &Path) -> Option<io::Error> {
    let is_readable = rustix::fs::access(path, Access::READ_OK).is_ok();
    let denied = std::fs::File::open(path).err().filter(|error| is_denied(error));
    denied.filter(|_| is_readable)
}

/// Returns true if the user's rights allow spool files in this folder but Landlock does not.
fn is_unspooled(spool: &SpoolConfig) -> bool {
    let is_writable = rustix::fs::access(&spool.folder, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    is_writable && spool.try_out().is_err_and(|error| is_denied(&error))
}

/// Mentions the sandbox in the error, if it may be the reason.
pub fn explained(error: StartError) -> StartError {
    if is_denied(&error) { StartError::OutOfReach(Box::new(error)) } else { error }
}

fn is_denied(error: &(dyn Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::temporary::Folder;

    #[test]
    fn a_folder_that_takes_a_root_s_place_is_in_reach_but_no_home() {
        let folder = Folder::new();
        folder.put("www/site/a", "");
        let www = folder.path("www").canonicalize().unwrap();
        assert_eq!(above(&folder.path("www/site")), Some(www.clone()));
        assert_eq!(above(&folder.path("none")), None);
        assert!(awaited(&folder.path("www/site")).is_empty());
        let of_missing = [&www, &www.parent().unwrap().to_path_buf()].map(PathBuf::clone);
        assert_eq!(awaited(&folder.path("www/none/of/them")), of_missing);
        assert!(awaited(Path::new("/var/none")).is_empty());
        for dir in ["/", "/etc", "/var/log"] {
            assert_eq!(above(Path::new(dir)), None, "{dir}");
        }
    }

    /// Network managers replace `resolv.conf`, and editors `hosts`.
    #[test]
    fn a_resolver_file_may_be_replaced_in_its_folder() {
        let folder = Folder::new();
        folder.put("run/resolv.conf", "");
        folder.put("etc/hosts", "");
        let (run, etc) = (folder.path("run").canonicalize().unwrap(), folder.path("etc"));
        let link = etc.join("resolv.conf");
        std::os::unix::fs::symlink("../run/resolv.conf", &link).unwrap();
        let hosts = etc.canonicalize().unwrap().join("hosts");
        assert_eq!(resolver_paths(&hosts, false), [hosts.parent().unwrap()]);
        assert_eq!(resolver_paths(&hosts, true), [hosts.as_path()]);
        assert_eq!(resolver_paths(&link, false), [etc.as_path(), &run]);
    }

    #[test]
    fn releases_beside_the_current_one_are_in_reach() {
        let folder = Folder::new();
        folder.put("releases/1/public/a", "");
        std::os::unix::fs::symlink("releases/1", folder.path("current")).unwrap();
        let releases = folder.path("releases").canonicalize().unwrap();
        for dir in ["current", "current/", "current/.", "current/public"] {
            assert_eq!(turned(&folder.path(dir)), Some(releases.clone()), "{dir}");
        }
        assert_eq!(turned(&releases.join("1")), None);
    }
}
