//! Symlinks that lead out of a root: decides which are followed, and makes log lines about the others.
//!
//! They are refused unless an operator names the folders into which they may lead. Apache (FollowSymLinks) and nginx
//! (disable_symlinks off) follow all of them by default. Then anybody who may make a symlink in the root can publish
//! every file of the machine that the server may read.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum number of symlinks of one root that are logged. Further ones are not logged until the next reload.
const TOLD_MAX: usize = 16;
/// Folders that contain no content. Symlinks must not lead into them, even if they may lead anywhere else.
const KEPT: [&str; 3] = ["/dev", "/proc", "/sys"];
/// The maximum number of path segments that are searched for the symlink.
const STEPS_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct Links {
    /// The folders into which symlinks may lead, as paths without symlinks.
    into: Vec<PathBuf>,
    /// The symlinks that were logged, as paths below the root.
    told: Mutex<Vec<Vec<u8>>>,
}

impl Links {
    /// Allows symlinks into these folders, which must exist.
    pub fn into(folders: &[PathBuf]) -> io::Result<Links> {
        let into = folders.iter().map(|folder| folder.canonicalize()).collect::<io::Result<_>>()?;
        Ok(Links { into, told: Mutex::default() })
    }

    /// Returns true if no symlinks may lead out of the root.
    pub fn are_refused(&self) -> bool {
        self.into.is_empty()
    }

    /// Returns true if a symlink may lead to `place`, an absolute path without symlinks.
    pub fn may_lead_to(&self, place: &Path) -> bool {
        let is_kept = || KEPT.iter().any(|kept| place.starts_with(kept));
        self.into.iter().any(|folder| place.starts_with(folder) && (folder.parent().is_some() || !is_kept()))
    }

    /// Returns true if the symlink by which this path leaves the root has not been logged yet.
    pub fn is_unexplained(&self, path: &[u8]) -> bool {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.len() < TOLD_MAX && !told.iter().any(|link| is_of(path, link))
    }

    /// Returns a line about the symlink by which a path leaves the root, with the setting that would allow it; `None`
    /// if it was logged before. `is_leaving` returns true for a path below the root that leads out of it.
    pub fn explain(&self, root: &Path, path: &[u8], is_leaving: impl Fn(&[u8]) -> bool) -> Option<Arc<str>> {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).chain([path.len()]);
        let link = ends.take(STEPS_MAX).map(|end| &path[..end]).find(|step| is_leaving(step))?;
        let place = root.join(Path::new(OsStr::from_bytes(link)));
        let target = place.canonicalize().ok()?;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= TOLD_MAX || told.iter().any(|known| known == link) {
            return None;
        }
        told.push(link.to_vec());
        let folder = if target.is_dir() { target.as_path() } else { target.parent()? };
        let last = if told.len() == TOLD_MAX { "; no more are reported until the next reload" } else { "" };
        Some(
            format!(
                "`{}`: it is a symlink to `{}`, outside the root `{}`, and is not followed; name `{}` in \
                 site.follow_symlinks_into (--follow-symlinks-into) to serve it{last}",
                place.display(),
                target.display(),
                root.display(),
                folder.display()
            )
            .into(),
        )
    }
}

/// Returns true if `path` is the symlink or passes through it.
fn is_of(path: &[u8], link: &[u8]) -> bool {
    path.strip_prefix(link).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// The path of a name in a folder.
pub(super) fn inside(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symlink_is_told_of_once_with_its_cure() {
        let folder = super::super::temporary::Folder::new();
        folder.put("out/films/a", "");
        folder.put("root/x", "");
        std::os::unix::fs::symlink("../out/films", folder.path("root/films")).unwrap();
        let links = Links::into(&[]).unwrap();
        let explain = |path: &[u8]| links.explain(&folder.path("root"), path, |step| step.starts_with(b"films"));
        assert!(links.is_unexplained(b"films/a"));
        let said = explain(b"films/a").unwrap();
        let target = folder.path("out/films").canonicalize().unwrap();
        let cure = format!("name `{}` in site.follow_symlinks_into", target.display());
        assert!(said.contains("root/films`: it is a symlink to ") && said.contains(&cure), "{said}");
        assert!(explain(b"films/b").is_none() && !links.is_unexplained(b"films/b") && links.is_unexplained(b"films2"));
        assert!(explain(b"x").is_none(), "it does not lead out");
        for number in 1..TOLD_MAX + 4 {
            let name = format!("films{number}");
            std::os::unix::fs::symlink("../out/films/a", folder.path(format!("root/{name}"))).unwrap();
            assert_eq!(explain(name.as_bytes()).is_some(), number < TOLD_MAX, "{number}");
        }
        assert!(!links.is_unexplained(b"another"));
    }

    #[test]
    fn a_place_is_in_a_folder_by_whole_names() {
        let links = Links { into: vec!["/media/films".into()], told: Mutex::default() };
        for (place, may) in
            [("/media/films", true), ("/media/films/a/b", true), ("/media/films2", false), ("/media", false)]
        {
            assert_eq!(links.may_lead_to(Path::new(place)), may, "{place}");
        }
        assert!(!links.are_refused() && Links::into(&[]).unwrap().are_refused());
        let anywhere = Links { into: vec!["/".into()], told: Mutex::default() };
        for (place, may) in
            [("/media/films", true), ("/processes", true), ("/proc/self/environ", false), ("/dev", false)]
        {
            assert_eq!(anywhere.may_lead_to(Path::new(place)), may, "{place}");
        }
        assert!(Links::into(&["/none/of/that/name".into()]).is_err());
    }
}
