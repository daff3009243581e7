//! Sidecars: files that an operator has made from another file, with its name and the extension of a coding
//! (`page.html.br`) or of another type of picture (`photo.jpg.avif`). They are sent in place of the file, so an invalid
//! one would break a page for everybody. A sidecar is ignored if it is older than the file, not shorter, truncated, or
//! not of the type that its name indicates.
//!
//! If only the sidecar changes, that is noticed when the file is compared again, within a second.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use http::{Coding, Codings, ImageType};
use rustix::fs::Dir;

use super::entry::{Closer, Content, Entry, Forms, State};
use super::hashed::{confirm_hashes, may_have_hash};
use super::mounts::Kind;
use super::picture;
use super::root::{Entered, Looked};
use super::sidecar_kind::SidecarKind;
use super::{Stop, Wait};
use crate::codec::{CODED_BYTES, decoded_bytes};

/// The maximum length of a file whose sidecars are decoded to check them; that takes a tenth of a second. For longer
/// files, only the first bytes of sidecars are checked.
const CHECKED_BYTES_MAX: u64 = 32 << 20;
/// The maximum number of names in a folder that are read to find the pattern of its names.
const NAMES_MAX: usize = 4096;

/// A search for sidecars in a root.
pub(super) struct Sidecars<'a> {
    pub root: &'a Entered<'a>,
    pub wait: Wait,
    pub closer: Option<&'a Closer>,
}

impl Sidecars<'_> {
    /// Returns true if the sidecars of a known file are the same as when the file was loaded.
    pub fn are_same(&self, path: &[u8], entry: &Entry) -> Result<bool, Stop> {
        for kind in self.kinds_of(entry) {
            let looked = self.look(&path_of(path, kind))?;
            if looked.map(|looked| State::of(&looked.metadata)) != entry.forms.seen[kind.index()] {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The kinds of sidecars that this file may have.
    fn kinds_of(&self, entry: &Entry) -> impl Iterator<Item = SidecarKind> + use<> {
        let options = self.root.options();
        let codings = if entry.may_be_coded() { options.codings } else { Codings::NONE };
        let has_images = options.image_sidecars && entry.is_picture();
        let images = ImageType::ALL.into_iter().filter(move |_| has_images).map(SidecarKind::Image);
        codings.iter().map(SidecarKind::Coded).chain(images)
    }

    /// Returns the other forms of a file that was just loaded, with log lines about invalid sidecars; `None` if it
    /// cannot have other forms. Checking a sidecar takes time, so only threads that may wait do it.
    pub fn forms(&self, path: &[u8], entry: &Entry) -> Result<Option<(Forms, Vec<String>)>, Stop> {
        let has_hash = self.has_hash_like_others(path)?;
        if self.kinds_of(entry).next().is_none() && !has_hash {
            return Ok(None);
        }
        let may_be_made = entry.may_be_coded() && CODED_BYTES.contains(&entry.len);
        let codings = if may_be_made { self.root.options().codings } else { Codings::NONE };
        let mut forms = Forms { codings, has_hash, ..Forms::default() };
        let (mut sidecars, mut lines) = (Vec::new(), Vec::new());
        for kind in self.kinds_of(entry) {
            let path = path_of(path, kind);
            let Some(looked) = self.look(&path)? else { continue };
            let state = State::of(&looked.metadata);
            forms.seen[kind.index()] = Some(state);
            if !looked.metadata.is_file() {
                continue;
            }
            match self.checked(&path, &looked, kind, entry)? {
                Ok(Some(sidecar)) => sidecars.push((kind, Arc::new(entry.sidecar(kind, sidecar)))),
                Ok(None) => {}
                Err(wrong) => lines.extend(self.root.tell_wrong(&path, state, wrong)),
            }
        }
        forms.sidecars = sidecars.into();
        Ok(Some((forms, lines)))
    }

    /// Returns true if the other names in the folder show that a file's name contains a hash. Reading them blocks on
    /// the disk.
    fn has_hash_like_others(&self, path: &[u8]) -> Result<bool, Stop> {
        if !may_have_hash(path) {
            return Ok(false);
        }
        if self.wait == Wait::Never {
            return Err(Stop::WouldWait);
        }
        let folder = &path[..path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)];
        let Ok(items) = self.root.read(folder, self.wait).and_then(|folder| Ok(Dir::new(folder)?)) else {
            return Ok(false);
        };
        let names: Vec<_> = items.flatten().take(NAMES_MAX + 1).map(|item| item.file_name().to_owned()).collect();
        Ok(names.len() <= NAMES_MAX && confirm_hashes(names.iter().map(|name| name.to_bytes())))
    }

    /// Loads a sidecar; `None` if it cannot be read or was replaced during the check. An error is the reason why it is
    /// invalid.
    fn checked(
        &self,
        path: &[u8],
        looked: &Looked,
        kind: SidecarKind,
        entry: &Entry,
    ) -> Result<Result<Option<Entry>, &'static str>, Stop> {
        let state = State::of(&looked.metadata);
        if !state.is_not_older(&entry.identity()) {
            return Ok(Err("it is older than its file"));
        }
        if self.wait == Wait::Never {
            return Err(Stop::WouldWait);
        }
        let Some(sidecar) = self.load(path, looked)?.filter(|sidecar| sidecar.identity() == state) else {
            return Ok(Ok(None));
        };
        Ok(fault(kind, &sidecar, entry.len).map_or(Ok(Some(sidecar)), Err))
    }

    /// Looks at the file at this path. A file that cannot be looked at counts as missing.
    fn look(&self, path: &[u8]) -> Result<Option<Looked>, Stop> {
        match self.root.look(path, self.wait) {
            Ok(looked) => Ok(Some(looked)),
            Err(Stop::WouldWait) => Err(Stop::WouldWait),
            Err(Stop::Missing(_)) => Ok(None),
        }
    }

    /// Loads a sidecar; `None` if it cannot be read.
    fn load(&self, path: &[u8], looked: &Looked) -> Result<Option<Entry>, Stop> {
        let Ok(file) = self.root.read(path, self.wait) else { return Ok(None) };
        let Some(metadata) = file.metadata().ok().filter(|metadata| metadata.is_file()) else { return Ok(None) };
        let loaded = Entry::load(&String::from_utf8_lossy(path), file, metadata, looked.kind, self.wait, None);
        let Ok((mut sidecar, _)) = loaded else { return Ok(None) };
        if looked.kind == Kind::Remote {
            sidecar.close_by(self.closer.cloned());
        }
        Ok(Some(sidecar))
    }
}

/// The path of a file's sidecar.
fn path_of(path: &[u8], kind: SidecarKind) -> Vec<u8> {
    [path, b".", kind.extension().as_bytes()].concat()
}

/// Returns the reason why a sidecar of a file of this length is invalid; `None` if it has fewer bytes than the file and
/// is of the type that its name indicates.
fn fault(kind: SidecarKind, sidecar: &Entry, bytes: u64) -> Option<&'static str> {
    if sidecar.len >= bytes {
        return Some("it is not shorter than its file");
    }
    match kind {
        SidecarKind::Coded(coding) => (!decodes(coding, sidecar, bytes)).then_some("it does not decode to its file"),
        SidecarKind::Image(image) => (!is_picture(image, sidecar)).then_some("it is not a whole picture of this type"),
    }
}

fn decodes(coding: Coding, sidecar: &Entry, bytes: u64) -> bool {
    match &sidecar.content {
        Content::Held(body) => is_coded(coding, &body[..], bytes),
        Content::Open(file) => {
            let mut file: &File = file;
            file.rewind().is_ok() && is_coded(coding, BufReader::new(file), bytes)
        }
    }
}

fn is_picture(image: ImageType, sidecar: &Entry) -> bool {
    picture::is_whole(image, sidecar.len, |at, into| match &sidecar.content {
        Content::Held(body) => {
            let rest = usize::try_from(at).ok().and_then(|at| body.get(at..));
            rest.and_then(|rest| rest.get(..into.len())).map(|part| into.copy_from_slice(part)).is_some()
        }
        Content::Open(file) => file.read_exact_at(into, at).is_ok(),
    })
}

fn is_coded(coding: Coding, mut coded: impl BufRead, bytes: u64) -> bool {
    if bytes <= CHECKED_BYTES_MAX {
        return decoded_bytes(coding, coded, bytes).is_ok_and(|count| count == bytes);
    }
    let first = coded.fill_buf().unwrap_or_default();
    let begins = |coding: Coding| match coding {
        Coding::Gzip => first.starts_with(&[0x1f, 0x8b, 8]),
        Coding::Zstd => first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]),
        Coding::Brotli => false,
    };
    // Brotli data has no characteristic first bytes.
    if coding == Coding::Brotli { !begins(Coding::Gzip) && !begins(Coding::Zstd) } else { begins(coding) }
}
