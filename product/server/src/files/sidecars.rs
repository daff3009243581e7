//! Sidecars: files that an operator has made from another, with its name and the extension of a coding
//! (`page.html.br`). They are sent in its place, so a wrong one would break a page for everybody: one that is older than
//! the file, is not in its coding, is cut or decodes to another length counts as none.
//!
//! A change of a sidecar alone is noticed when the file is compared again, within a second.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::sync::Arc;

use http::{Coding, Codings};

use super::entry::{Closer, Content, Entry, Forms, State};
use super::mounts::Kind;
use super::root::{Entered, Looked};
use super::{Stop, Wait};
use crate::codec::{CODED_BYTES, decoded_bytes};

/// The maximum length of a file whose sidecars are decoded to check them: it takes a tenth of a second. Only
/// the first bytes of others are looked at.
const CHECKED_BYTES_MAX: u64 = 32 << 20;

/// A search for sidecars in a root.
pub(super) struct Sidecars<'a> {
    pub root: &'a Entered<'a>,
    pub wait: Wait,
    pub closer: Option<&'a Closer>,
}

impl Sidecars<'_> {
    /// Returns true if the sidecars of a known file are the same as when that was loaded.
    pub fn are_same(&self, path: &[u8], entry: &Entry) -> Result<bool, Stop> {
        if !entry.may_be_coded() {
            return Ok(true);
        }
        for coding in self.root.options().codings.iter() {
            let looked = self.look(&path_of(path, coding))?;
            if looked.map(|looked| State::of(&looked.metadata)) != entry.forms.seen[coding as usize] {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The other forms of a file that was just loaded, with lines for the log about those that are wrong; `None` if no
    /// coding may change it. Checking a sidecar takes time, so that only a thread that may wait does.
    pub fn forms(&self, path: &[u8], entry: &Entry) -> Result<Option<(Forms, Vec<String>)>, Stop> {
        let codings = self.root.options().codings;
        if codings.is_empty() || !entry.may_be_coded() {
            return Ok(None);
        }
        let may_be_made = CODED_BYTES.contains(&entry.len);
        let mut forms = Forms { codings: if may_be_made { codings } else { Codings::NONE }, ..Forms::default() };
        let (mut sidecars, mut lines) = (Vec::new(), Vec::new());
        for coding in codings.iter() {
            let path = path_of(path, coding);
            let Some(looked) = self.look(&path)? else { continue };
            let state = State::of(&looked.metadata);
            forms.seen[coding as usize] = Some(state);
            if !looked.metadata.is_file() {
                continue;
            }
            match self.checked(&path, &looked, coding, entry)? {
                Ok(Some(sidecar)) => sidecars.push((coding, Arc::new(entry.sidecar(coding, sidecar)))),
                Ok(None) => {}
                Err(wrong) => lines.extend(self.root.tell_wrong(&path, state, wrong)),
            }
        }
        forms.sidecars = sidecars.into();
        Ok(Some((forms, lines)))
    }

    /// Loads a sidecar; `None` if it cannot be read or was replaced meanwhile. The error says what is wrong with it.
    fn checked(
        &self,
        path: &[u8],
        looked: &Looked,
        coding: Coding,
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
        Ok(fault(coding, &sidecar, entry.len).map_or(Ok(Some(sidecar)), Err))
    }

    /// Looks at what lies at this path; what cannot be looked at counts as absent.
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
        let loaded = Entry::load(&String::from_utf8_lossy(path), file, metadata, looked.kind, self.wait);
        let Ok((mut sidecar, _)) = loaded else { return Ok(None) };
        if looked.kind == Kind::Remote {
            sidecar.close_by(self.closer.cloned());
        }
        Ok(Some(sidecar))
    }
}

/// The path of a file's sidecar.
fn path_of(path: &[u8], coding: Coding) -> Vec<u8> {
    [path, b".", coding.extension().as_bytes()].concat()
}

/// Returns what is wrong with a sidecar; `None` if it has fewer bytes, which decode to a file of this length.
fn fault(coding: Coding, sidecar: &Entry, bytes: u64) -> Option<&'static str> {
    if sidecar.len >= bytes {
        return Some("it is not shorter than its file");
    }
    let is_sound = match &sidecar.content {
        Content::Held(body) => is_coded(coding, &body[..], bytes),
        Content::Open(file) => {
            let mut file: &File = file;
            file.rewind().is_ok() && is_coded(coding, BufReader::new(file), bytes)
        }
    };
    (!is_sound).then_some("it does not decode to its file")
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
    // Brotli has no first bytes of its own.
    if coding == Coding::Brotli { !begins(Coding::Gzip) && !begins(Coding::Zstd) } else { begins(coding) }
}
