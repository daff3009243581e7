//! Files that a response names instead of sending a body, with X-Accel-Redirect as in nginx, or X-Sendfile as in Apache
//! and lighttpd. The application decides who may have a file, but does not have to send it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use http::http1::upstream::UpstreamHead;
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};

use super::Upstreams;
use crate::files::SiteNumber;
use crate::net::Net;

/// The characters that must be percent-encoded in the path of a request.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'?').add(b'#');

/// A folder whose files upstreams may name.
#[derive(Debug)]
pub struct NamedFiles {
    /// The number of the folder, from the same sequence as the numbers of the sites' folders.
    pub number: SiteNumber,
    /// The paths of the folder: as configured, absolute, and without symbolic links. Programs may use any of them.
    folders: Vec<PathBuf>,
}

impl NamedFiles {
    pub fn new(number: SiteNumber, folder: &Path) -> NamedFiles {
        let paths = [std::path::absolute(folder), folder.canonicalize()].into_iter().flatten();
        NamedFiles { number, folders: std::iter::once(folder.into()).chain(paths).collect() }
    }

    /// Returns the path of the file that a response names, relative to the folder and percent-encoded as in a request;
    /// empty if the file is outside the folder. X-Accel-Redirect contains this path; X-Sendfile contains it after the
    /// folder's own path.
    pub fn path(&self, head: &UpstreamHead) -> Option<Vec<u8>> {
        if let Some(path) = head.values("x-accel-redirect").next() {
            let end = path.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(path.len());
            return Some(path[..end].to_vec());
        }
        let path = Path::new(OsStr::from_bytes(head.values("x-sendfile").next()?));
        let below = self.folders.iter().find_map(|folder| path.strip_prefix(folder).ok());
        Some(below.map_or_else(Vec::new, |below| {
            let encoded = percent_encode(below.as_os_str().as_bytes(), ENCODED).to_string();
            format!("/{encoded}").into_bytes()
        }))
    }
}

impl<N: Net> Upstreams<N> {
    /// Returns the folder and path of the file that the response to a transfer names, if files may be named.
    pub fn named_file(&self, at: usize, head: &UpstreamHead) -> Option<(SiteNumber, Vec<u8>)> {
        let transfer = self.transfers.get(at).filter(|transfer| transfer.inbound.tunnel.accept.is_none())?;
        let files = transfer.group.files.as_ref()?;
        Some((files.number, files.path(head)?))
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use http::http1::upstream::parse_response;

    use super::*;

    fn path(lines: &str) -> Option<String> {
        let text = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
        let (head, _) = parse_response(text.as_bytes(), Method::Get, &http::Limits::default()).unwrap().unwrap();
        let path = NamedFiles::new(0, Path::new("/srv/private/")).path(&head)?;
        Some(String::from_utf8(path).unwrap())
    }

    #[test]
    fn a_file_is_named_by_its_path_below_the_folder() {
        for (lines, named) in [
            ("X-Accel-Redirect: /a%20b.pdf?x#y\r\n", "/a%20b.pdf"),
            ("X-Accel-Redirect: a\r\nX-Sendfile: /srv/private/b\r\n", "a"),
            ("X-Sendfile: /srv/private/a b%?.pdf\r\n", "/a%20b%25%3F.pdf"),
            ("X-Sendfile: /srv/private2/a\r\n", ""),
            ("X-Sendfile: /etc/passwd\r\n", ""),
            ("X-Sendfile: a\r\n", ""),
        ] {
            assert_eq!(path(lines).as_deref(), Some(named), "{lines}");
        }
        assert_eq!(path("X-Accel-Expires: 5\r\n"), None);
    }

    /// Set with `accel_root = "private"` next to the configuration file, and a program that uses the absolute path.
    #[test]
    fn a_relative_folder_is_known_by_its_absolute_path_too() {
        let here = std::env::current_dir().unwrap();
        let link = std::env::temp_dir().join(format!("weir-named-{}", std::process::id()));
        let named = |folder: &Path, path: &Path| {
            let text = format!("HTTP/1.1 200 OK\r\nX-Sendfile: {}\r\n\r\n", path.display());
            let (head, _) = parse_response(text.as_bytes(), Method::Get, &http::Limits::default()).unwrap().unwrap();
            String::from_utf8(NamedFiles::new(0, folder).path(&head).unwrap()).unwrap()
        };
        assert_eq!(named(Path::new("src"), &here.join("src/a b")), "/a%20b");
        assert_eq!(named(Path::new("./src/"), Path::new("./src//b")), "/b");
        assert_eq!(named(Path::new("src"), Path::new("src/b")), "/b");
        assert_eq!(named(Path::new("src"), &here.join("srcs/b")), "");
        std::os::unix::fs::symlink(here.join("src"), &link).unwrap();
        assert_eq!([named(&link, &here.join("src/b")), named(&link, &link.join("b"))], ["/b", "/b"]);
        std::fs::remove_file(link).unwrap();
    }
}
