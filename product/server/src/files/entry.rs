//! A file that is ready to be sent: its content or the open file, and the data for the response head.
//!
//! Small files are held in memory, so that a response takes one system call and no descriptor. Large ones stay open for
//! `sendfile`. Content held in memory must be a single state of the file, not half old and half new. It is kept only if
//! the file's times and size were the same after reading as before.

use std::borrow::Cow;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use config::MediaTypes;
use http::{Coding, Codings, Described, Digest, EntityFields, ImageType};
use units::memory::Charge;

use super::etag::etag_of;
use super::media;
use super::mounts::{self, Kind};
use super::sidecar_kind::SidecarKind;
use super::{Stop, Wait};
use crate::codec::{CODED_BYTES, is_compressible};
use crate::disk::{Lane, Pool, Probed, Reserved, read_now};

/// The maximum length of files held in memory. At 64 KiB, copying to the socket costs about as much as `sendfile`, and
/// a thousand such files fit into the cache.
pub const BODY_BYTES_HELD_MAX: u64 = 64 * 1024;

/// The request field by which a coding is chosen. The next constant adds the field for types of pictures.
const OF_CODINGS: &str = "Accept-Encoding";
const OF_IMAGES: &str = "Accept";

/// A state of a file, shared by all responses that send it.
#[derive(Debug)]
pub struct Entry {
    pub content: Content,
    /// The length of the whole file in bytes.
    pub len: u64,
    /// The strong entity tag with its quotes (RFC 9110 section 8.8.3).
    pub etag: String,
    /// The time of the last change in whole seconds, neither before 1970 nor in the future (RFC 9110 section 8.8.2.1).
    pub last_modified: SystemTime,
    pub mime: String,
    /// The path below the served folder, for messages.
    pub path: Box<str>,
    pub device: u64,
    /// True if the file is on a file system without a disk, so that reading never waits.
    pub is_in_memory: bool,
    pub fields: EntityFields,
    pub(super) state: State,
    pub forms: Forms,
    /// The charge for a body that this server made, until the last response has sent it.
    _charge: Option<Charge>,
}

/// The other forms in which a file may be sent, and whether its name contains a hash.
#[derive(Debug, Default)]
pub struct Forms {
    /// True if the name contains a hash of the content, judging by the other names in its folder.
    pub has_hash: bool,
    /// The codings in which this server may code the file.
    pub codings: Codings,
    /// The sidecars: files with this file's name plus the extension of a kind. Each was checked to be of that kind.
    pub sidecars: Box<[(SidecarKind, Arc<Entry>)]>,
    /// For each kind, the state of the file at the sidecar's path, even if it is not a valid sidecar.
    pub(super) seen: [Option<State>; SidecarKind::COUNT],
}

/// The location of a file's bytes.
#[derive(Debug)]
pub enum Content {
    /// All `len` bytes are in memory.
    Held(Box<[u8]>),
    /// The open file, which is read at explicit offsets. It may have become shorter or longer since.
    Open(OpenFile),
}

/// An open file. If closing it may block, another thread closes it: network and user-space file systems contact their
/// server on close.
#[derive(Debug)]
pub struct OpenFile {
    /// The file; `None` only while the value is dropped.
    file: Option<File>,
    closer: Option<Closer>,
    pub probed: Probed,
    /// The spool space reserved for a file that contains a client's response.
    taken: Option<Box<Reserved>>,
}

/// Closes files on a thread of the pool.
#[derive(Clone)]
pub(super) struct Closer(pub Arc<Pool>);

impl Entry {
    /// Loads an entry. `path` and `types` determine the media type; a form of another file has that file's type and
    /// needs no `types`. `file` must be a regular file on a file system of this kind, open for reading, and `metadata`
    /// its current metadata.
    pub(super) fn load(
        path: &str,
        mut file: File,
        metadata: Metadata,
        kind: Kind,
        wait: Wait,
        types: Option<&MediaTypes>,
    ) -> Result<(Entry, State), Stop> {
        let is_in_memory = kind == Kind::Memory;
        let wait = if is_in_memory { Wait::Allowed } else { wait };
        let (held, metadata) = match hold(&mut file, &metadata, wait)? {
            Some((body, metadata)) => (Some(body), metadata),
            None => (None, metadata),
        };
        let state = State::of(&metadata);
        let begin = match (&held, types) {
            (None, Some(types)) if media::needs_content(path, types) => read(&mut file, media::BEGIN_BYTES, wait)?,
            _ => Vec::new(),
        };
        let begin = held.as_deref().unwrap_or(&begin);
        let mime = types.map_or_else(String::new, |types| media::mime_of(path, begin, types));
        let mut entry = Entry {
            len: state.size_bytes,
            etag: held.as_ref().map_or_else(|| state.etag(), |body| etag_of(body)),
            last_modified: state.last_modified(SystemTime::now()),
            mime,
            content: held.map_or_else(|| Content::Open(OpenFile::new(file)), Content::Held),
            path: path.into(),
            device: state.device,
            is_in_memory,
            state,
            ..Entry::empty()
        };
        entry.describe(media::coding_of(path), true, None);
        Ok((entry, state))
    }

    /// Creates an entry without content.
    fn empty() -> Entry {
        Entry {
            content: Content::Held(Box::default()),
            len: 0,
            etag: String::new(),
            last_modified: UNIX_EPOCH,
            mime: String::new(),
            path: Box::default(),
            device: 0,
            is_in_memory: false,
            fields: EntityFields::default(),
            state: State::default(),
            forms: Forms::default(),
            _charge: None,
        }
    }

    /// Makes the response fields of a file in this coding. `vary` is the request field by which the form was chosen.
    fn describe(&mut self, coding: Option<&str>, has_ranges: bool, vary: Option<&str>) {
        self.fields = EntityFields::of(&Described {
            mime: &self.mime,
            coding,
            etag: &self.etag,
            last_modified: self.last_modified,
            bytes: self.len,
            has_ranges,
            vary,
        });
    }

    /// Adds the other forms of the file.
    pub(super) fn offer(&mut self, forms: Forms) {
        self.forms = forms;
        if let Some(vary) = self.forms.vary() {
            self.describe(None, true, Some(vary));
        }
    }

    /// Returns true if the file's bytes are not compressed yet, and its length and media type make compression
    /// worthwhile.
    pub(super) fn may_be_coded(&self) -> bool {
        self.len >= *CODED_BYTES.start() && is_compressible(&self.mime) && media::coding_of(&self.path).is_none()
    }

    /// Returns true if the file is a picture, which may have sidecars of another type.
    pub(super) fn is_picture(&self) -> bool {
        matches!(&*self.mime, "image/jpeg" | "image/png" | "image/gif")
    }

    /// Returns the entry of a sidecar as a form of this file. `other` is the sidecar's own entry.
    pub(super) fn sidecar(&self, kind: SidecarKind, other: Entry) -> Entry {
        let etag = self::coded_tag(&other.etag, kind.suffix());
        match kind {
            SidecarKind::Coded(coding) => self.form(coding.token(), Entry { etag, ..other }),
            SidecarKind::Image(image) => {
                let mut picture = Entry { etag, mime: image.mime().into(), ..other };
                picture.describe(None, true, Some(OF_IMAGES));
                picture
            }
        }
    }

    /// Creates a form of this file that was made in this way and has these bytes.
    pub fn coded(&self, way: &Way, bytes: Vec<u8>, charge: Charge) -> Entry {
        let etag = self.tag_of(way);
        let (len, content) = (bytes.len() as u64, Content::Held(bytes.into()));
        let (device, state) = (self.device, self.state);
        self.form(way.token(), Entry { content, len, etag, device, state, _charge: Some(charge), ..Entry::empty() })
    }

    /// Returns the entity tag of the form of this file that is made in this way.
    pub fn tag_of(&self, way: &Way) -> String {
        self::coded_tag(&self.etag, &way.suffix())
    }

    /// Returns the suffix of an entity tag, if it is the tag of a form of this file.
    pub fn suffix_of<'t>(&self, tag: &'t [u8]) -> Option<&'t [u8]> {
        let own = self.etag.strip_suffix('"')?;
        tag.strip_prefix(own.as_bytes())?.strip_prefix(b"-")?.strip_suffix(b"\"")
    }

    /// Turns an entry with content, length and tag into a form of this file. Ranges of a form are not served, because
    /// its bytes differ from those of the file (RFC 9110 section 14.2).
    fn form(&self, token: &str, entry: Entry) -> Entry {
        let (mime, path) = (self.mime.clone(), self.path.clone());
        let mut form = Entry { last_modified: self.last_modified, mime, path, ..entry };
        form.describe(Some(token), false, Some(OF_CODINGS));
        form
    }

    /// Returns the state of the file from which this entry was made.
    pub fn identity(&self) -> State {
        self.state
    }

    /// Reads the whole file, in the state of this entry. Fails if the file has changed since.
    pub fn whole(&self) -> io::Result<Cow<'_, [u8]>> {
        let file = match &self.content {
            Content::Held(body) => return Ok(Cow::Borrowed(body)),
            Content::Open(file) => file,
        };
        let mut bytes = vec![0; usize::try_from(self.len).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, 0)?;
        // A change before or during the read would make these bytes those of another state.
        if State::of(&file.metadata()?) != self.state {
            return Err(io::Error::other(format!("{} has changed since it was opened", self.path)));
        }
        Ok(Cow::Owned(bytes))
    }

    /// Creates an entry for a temporary file to which a response is written. The pool closes the file.
    pub fn spooled(file: File, taken: Reserved, pool: Option<&Arc<Pool>>) -> Entry {
        let kind = rustix::fs::fstatfs(&file).map_or(Kind::Remote, |of| Kind::of(of.f_type));
        let device = mounts::device(&file).unwrap_or_default();
        let mut open = OpenFile::new(file);
        (open.closer, open.taken) = (pool.map(|pool| Closer(Arc::clone(pool))), Some(Box::new(taken)));
        // The file grows, so no probe is remembered.
        let (content, path, is_in_memory) = (Content::Open(open), "a spooled response".into(), kind == Kind::Memory);
        Entry { content, path, device, is_in_memory, ..Entry::empty() }
    }

    /// Makes the pool close the file, so that the thread that drops it last does not block.
    pub(super) fn close_by(&mut self, closer: Option<Closer>) {
        if let Content::Open(file) = &mut self.content {
            file.closer = closer;
        }
    }

    /// The bytes that the entry and its sidecars hold in memory.
    pub(super) fn held_bytes(&self) -> usize {
        let own = match &self.content {
            Content::Held(body) => body.len(),
            Content::Open(_) => 0,
        };
        own + self.forms.sidecars.iter().map(|(_, sidecar)| sidecar.held_bytes()).sum::<usize>()
    }

    /// The number of files kept open by the entry and its sidecars.
    pub(super) fn files_open(&self) -> usize {
        let own = usize::from(matches!(self.content, Content::Open(_)));
        own + self.forms.sidecars.iter().map(|(_, sidecar)| sidecar.files_open()).sum::<usize>()
    }
}

/// The way to make a form of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    pub coding: Coding,
    /// The number of the coding's level.
    pub level: u8,
    pub dictionary: Option<Digest>,
}

impl Way {
    fn token(&self) -> &'static str {
        let with_dictionary = self.coding.token_with_dictionary().filter(|_| self.dictionary.is_some());
        with_dictionary.unwrap_or(self.coding.token())
    }

    /// Returns the suffix of the form's entity tag: coding, level, and the start of the dictionary's digest.
    pub fn suffix(&self) -> String {
        let digest = self.dictionary.as_ref().and_then(|digest| digest.first_chunk());
        let digest = digest.map_or(String::new(), |first| format!("-{:016x}", u64::from_be_bytes(*first)));
        format!("{}{}{digest}", self.token(), self.level)
    }
}

impl Forms {
    /// Returns true if the file may be sent in a form other than the stored one.
    pub fn are_any(&self) -> bool {
        !self.codings.is_empty() || !self.sidecars.is_empty()
    }

    /// Returns the request field by which the form is chosen; `None` if there are no other forms.
    fn vary(&self) -> Option<&'static str> {
        let field = if self.images().next().is_some() { OF_IMAGES } else { OF_CODINGS };
        self.are_any().then_some(field)
    }

    /// The sidecars that are compressed.
    pub fn coded(&self) -> impl Iterator<Item = (Coding, &Arc<Entry>)> {
        self.sidecars.iter().filter_map(|(kind, sidecar)| match kind {
            SidecarKind::Coded(coding) => Some((*coding, sidecar)),
            SidecarKind::Image(_) => None,
        })
    }

    /// Returns the sidecars with the same picture in another type.
    pub fn images(&self) -> impl Iterator<Item = (ImageType, &Arc<Entry>)> {
        self.sidecars.iter().filter_map(|(kind, sidecar)| match kind {
            SidecarKind::Coded(_) => None,
            SidecarKind::Image(image) => Some((*image, sidecar)),
        })
    }

    /// The sidecar in a coding.
    pub fn sidecar(&self, coding: Coding) -> Option<&Arc<Entry>> {
        self.coded().find(|(own, _)| *own == coding).map(|(_, sidecar)| sidecar)
    }
}

impl OpenFile {
    fn new(file: File) -> OpenFile {
        OpenFile { file: Some(file), closer: None, probed: Probed::default(), taken: None }
    }

    /// The spool space reserved for this file.
    pub fn taken(&self) -> Option<&Reserved> {
        self.taken.as_deref()
    }
}

impl Deref for OpenFile {
    type Target = File;

    fn deref(&self) -> &File {
        self.file.as_ref().expect("it is open until it is dropped")
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        File::as_fd(self)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let (Some(file), Some(Closer(pool))) = (self.file.take(), self.closer.take()) else { return };
        let (device, taken) = (mounts::device(&file).unwrap_or_default(), self.taken.take());
        // If the pool accepts no more work, the file is closed here.
        let _ = pool.run(device, Lane::Read, move || drop((file, taken)));
    }
}

impl std::fmt::Debug for Closer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Closer")
    }
}

/// The properties that distinguish one state of a file from another. The time of change (ctime) is included because
/// anyone who may write the file can reset the time of modification.
///
/// Before Linux 6.13, two writes of equal length within one tick of the kernel's clock look the same. Since then, the
/// kernel never gives a time that has been read to a later change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct State {
    device: u64,
    inode: u64,
    size_bytes: u64,
    /// The time of modification: seconds since 1970, and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl State {
    pub(super) fn of(metadata: &Metadata) -> State {
        State {
            device: metadata.dev(),
            inode: metadata.ino(),
            size_bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Returns bytes that distinguish this state from others, even after a restart.
    pub fn to_bytes(self) -> Vec<u8> {
        let State { device, inode, size_bytes, modified, changed } = self;
        let times = [modified.0, modified.1, changed.0, changed.1].map(i64::cast_unsigned);
        [device, inode, size_bytes].into_iter().chain(times).flat_map(u64::to_le_bytes).collect()
    }

    /// Returns true if `metadata` belongs to the same file, in this state or another.
    pub(super) fn is_same_file(&self, metadata: &Metadata) -> bool {
        (self.device, self.inode) == (metadata.dev(), metadata.ino())
    }

    /// Returns true if this state's file was last changed at the same time as the other's or later, so that its content
    /// may have been made from the other's.
    pub(super) fn is_not_older(&self, other: &State) -> bool {
        self.modified >= other.modified
    }

    /// Makes a tag from the size and the time of modification. Copies on other hosts have the same tag if they preserve
    /// times. Nix, OSTree and reproducible archives give all versions of a file the time 0 or 1, so its place and the
    /// time of its last change distinguish them.
    fn etag(&self) -> String {
        let (seconds, nanoseconds) = self.modified;
        if [0, 1].contains(&seconds) {
            return etag_of(&self.to_bytes());
        }
        etag_of(&[self.size_bytes, seconds as u64, nanoseconds as u64].map(u64::to_le_bytes).concat())
    }

    fn last_modified(&self, now: SystemTime) -> SystemTime {
        let seconds = u64::try_from(self.modified.0).unwrap_or(0);
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        UNIX_EPOCH + Duration::from_secs(seconds.min(now))
    }
}

/// Makes the tag of a form, which has other bytes for the same content, by adding a suffix.
fn coded_tag(tag: &str, suffix: &str) -> String {
    format!("{}-{suffix}\"", tag.trim_end_matches('"'))
}

/// A file's content, with its metadata in that state.
type Held = (Box<[u8]>, Metadata);

/// Reads the content if the file is small and does not change during one of two attempts.
fn hold(file: &mut File, metadata: &Metadata, wait: Wait) -> Result<Option<Held>, Stop> {
    let mut before = metadata.clone();
    for _ in 0..2 {
        if before.size() > BODY_BYTES_HELD_MAX {
            return Ok(None);
        }
        let body = read(file, before.size() as usize, wait)?;
        let after = file.metadata()?;
        if body.len() as u64 == after.size() && State::of(&before) == State::of(&after) {
            return Ok(Some((body.into_boxed_slice(), after)));
        }
        before = after;
    }
    Ok(None)
}

/// Reads all of a file whose expected length is `bytes`, plus one byte if it is longer.
fn read(file: &mut File, bytes: usize, wait: Wait) -> Result<Vec<u8>, Stop> {
    let mut body = Vec::with_capacity(bytes + 1);
    if wait == Wait::Allowed {
        file.rewind()?;
        file.take(bytes as u64 + 1).read_to_end(&mut body)?;
        return Ok(body);
    }
    body.resize(bytes + 1, 0);
    let mut at = 0;
    while at < body.len() {
        match read_now(file, &mut body[at..], at as u64)? {
            Some(0) => break,
            Some(read) => at += read,
            None => return Err(Stop::WouldWait),
        }
    }
    body.truncate(at);
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Jam, THREADS_PER_DEVICE_MAX};

    fn state(modified_s: i64) -> State {
        State { device: 1, inode: 0xab, size_bytes: 0x10, modified: (modified_s, 5), changed: (0, 0) }
    }

    #[test]
    fn etags_are_of_size_and_time_and_nothing_else() {
        let tag = state(2).etag();
        assert!(tag.len() == 18 && tag.starts_with('"') && tag.ends_with('"'), "{tag}");
        assert_eq!(State { inode: 7, device: 9, changed: (5, 5), ..state(2) }.etag(), tag);
        for other in [State { size_bytes: 17, ..state(2) }, State { modified: (2, 6), ..state(2) }, state(-2)] {
            assert_ne!(other.etag(), tag, "{other:?}");
        }
        // Versions whose times say nothing have their own tags.
        assert!([0, 1].iter().all(|&s| State { changed: (1, 1), ..state(s) }.etag() != state(s).etag()));
    }

    #[test]
    fn last_modified_is_never_in_the_future_nor_before_1970() {
        let now = UNIX_EPOCH + Duration::from_millis(10_500);
        assert_eq!(state(9).last_modified(now), UNIX_EPOCH + Duration::from_secs(9));
        assert_eq!(state(99_999_999_999_999).last_modified(now), UNIX_EPOCH + Duration::from_secs(10));
        assert_eq!(state(-7).last_modified(now), UNIX_EPOCH);
    }

    /// A pipe stands in for a file whose disk hangs: its other end shows when the pipe is closed.
    #[test]
    fn whoever_drops_a_file_does_not_close_it() {
        let pool = Pool::new();
        let (reader, writer) = std::io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(reader));
        let device = mounts::device(&file).unwrap();
        let jam = Jam::new(&pool);
        (0..THREADS_PER_DEVICE_MAX).for_each(|_| assert!(jam.add(device, Lane::Lookup)));
        jam.wait_begun(THREADS_PER_DEVICE_MAX);
        let mut open = OpenFile::new(file);
        open.closer = Some(Closer(pool));
        drop(open);
        std::io::Write::write(&mut &writer, b"it is open").unwrap();
        drop(jam);
        while std::io::Write::write(&mut &writer, b"still").is_ok() {
            std::thread::yield_now();
        }
    }
}
