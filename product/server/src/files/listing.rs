//! A folder as web pages, a thousand names on each, all in order.
//!
//! Anybody who can create a file chooses its name, so a name is escaped as text and percent-encoded as a link, every
//! byte except letters, digits and `-._~`. In a name that is not UTF-8, invalid bytes are shown as U+FFFD, and its link
//! is exact. Its text direction is isolated (`bdi`). Names that no request could contain are counted; hidden names, and
//! symlinks that leave the root, are left out.

use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rustix::fs::{Dir, FileType};

use super::links::inside;
use super::listing_page::{Escaped, ListingPage};
use super::root::Entered;
use super::{Stop, Wait};

/// The maximum number of names on one page. Each costs a look at the file, 3 to 10 µs if it is in memory: 10 ms at
/// most.
pub const NAMES_MAX: usize = 1000;
/// The maximum number of names of a folder that are sorted, and of their bytes; of a larger folder, the names that it
/// returns first are used.
const NAMES_READ_MAX: usize = 200_000;
const NAME_BYTES_MAX: usize = 8 << 20;

/// The maximum number of pages of one folder.
pub const PAGES_MAX: u32 = (NAMES_READ_MAX / NAMES_MAX) as u32;

/// The bytes to encode inside one segment of a path (RFC 3986 section 2.3 lists those that need not be).
pub(super) const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The names of a folder, before anything but the type of each is known.
struct Names {
    /// Sorted: folders first, then by name, ignoring case.
    listed: Vec<Name>,
    /// The folder has more names than are read.
    is_cut: bool,
    /// The number of names that no path of a request can contain.
    unservable: usize,
}

struct Name {
    is_folder: bool,
    name: Vec<u8>,
}

struct Row {
    is_file: bool,
    name: Vec<u8>,
    size_bytes: u64,
    modified: String,
}

/// Renders page `number`, from 1, of the folder at `path` (relative, no slash at either end). Waits for its disk.
/// Returns [`super::Missing::NotFound`] beyond the last page.
pub(super) fn page(root: &Entered<'_>, path: &[u8], number: u32) -> Result<Vec<u8>, Stop> {
    let names = names(root, path)?;
    let count = u32::try_from(names.listed.len().div_ceil(NAMES_MAX)).unwrap_or(u32::MAX).max(1);
    if !(1..=count).contains(&number) {
        return Err(Stop::Missing(super::Missing::NotFound));
    }
    let shown = names.listed.iter().skip(NAMES_MAX * (number as usize - 1)).take(NAMES_MAX);
    let rows: Vec<Row> = shown.filter_map(|name| row(root, path, &name.name)).collect();
    let mut listing = String::with_capacity(512 + 180 * rows.len());
    if !path.is_empty() {
        listing.push_str("<nav><a href=\"../\">../</a></nav>\n");
    }
    listing.push_str("<table><thead><tr><th>Name</th><th>Size</th><th>Modified (UTC)</th></tr></thead>\n<tbody>\n");
    for row in &rows {
        row.write(&mut listing);
    }
    listing.push_str("</tbody></table>\n");
    let total = if count == 1 { rows.len() } else { names.listed.len() };
    foot(&mut listing, &names, total, (number, count));
    let page = root.options().page.as_deref().unwrap_or(ListingPage::built_in());
    Ok(page.write(path, &listing).into_bytes())
}

/// Writes the number of names, links to the other pages, and what is left out.
fn foot(page: &mut String, names: &Names, total: usize, (number, count): (u32, u32)) {
    let _ = write!(page, "<nav>{total} name{}", if total == 1 { "" } else { "s" });
    if count > 1 {
        let _ = write!(page, "; page {number} of {count}");
        let others = [("first", 1), ("previous", number - 1), ("next", number + 1), ("last", count)];
        for (word, other) in others.into_iter().filter(|(_, other)| (1..=count).contains(other) && *other != number) {
            let _ = write!(page, " · <a href=\"?page={other}\">{word}</a>");
        }
    }
    page.push_str("</nav>\n");
    if names.is_cut {
        let _ = writeln!(page, "<p class=\"note\">The folder has more than these {total} names.</p>");
    }
    if names.unservable > 0 {
        let why = "a backslash, a control character or an overlong form of ASCII in the name";
        let _ = writeln!(page, "<p class=\"note\">{} more not served: {why}.</p>", names.unservable);
    }
}

fn names(root: &Entered<'_>, path: &[u8]) -> Result<Names, Stop> {
    let mut names = Names { listed: Vec::new(), is_cut: false, unservable: 0 };
    let mut bytes = 0;
    for item in Dir::new(root.read(path, Wait::Allowed)?)? {
        let item = item?;
        if names.listed.len() == NAMES_READ_MAX || bytes > NAME_BYTES_MAX {
            names.is_cut = true;
            break;
        }
        let name = item.file_name().to_bytes();
        if !root.admits_segment(name) {
            continue;
        }
        if !http::is_servable_name(name) {
            names.unservable += 1;
            continue;
        }
        bytes += name.len();
        names.listed.push(Name { is_folder: item.file_type() == FileType::Directory, name: name.to_owned() });
    }
    let in_lower_case = |name: &[u8]| String::from_utf8_lossy(name).to_lowercase();
    names.listed.sort_by_cached_key(|entry| (!entry.is_folder, in_lower_case(&entry.name), entry.name.clone()));
    Ok(names)
}

/// Returns `None` for a name that is not served: gone meanwhile, a symlink that leaves the root, or neither file nor
/// folder.
fn row(root: &Entered<'_>, path: &[u8], name: &[u8]) -> Option<Row> {
    let metadata = root.look(&inside(path, name), Wait::Allowed).ok()?.metadata;
    if !metadata.is_file() && !metadata.is_dir() {
        return None;
    }
    let modified = http::HttpDate::new(metadata.modified().ok()?).iso()[..16].replace('T', " ");
    Some(Row { is_file: metadata.is_file(), name: name.to_vec(), size_bytes: metadata.len(), modified })
}

impl Row {
    fn write(&self, page: &mut String) {
        let name = String::from_utf8_lossy(&self.name);
        let (link, text) = (percent_encode(&self.name, SEGMENT), Escaped(&name));
        let (bytes, size) = (self.size_bytes, Size(self.size_bytes));
        let _ = match self.is_file {
            true => write!(
                page,
                "<tr><td><bdi><a href=\"{link}\">{text}</a></bdi></td><td data-b=\"{bytes}\" title=\"{bytes} bytes\">{size}</td>"
            ),
            false => write!(page, "<tr><td><bdi><a href=\"{link}/\">{text}/</a></bdi></td><td data-b=\"-1\">–</td>"),
        };
        let _ = writeln!(page, "<td>{}</td></tr>", self.modified);
    }
}

/// A size for people, three digits: `999 B`, `1.2 KB`, `12 MB`, in powers of 1000.
struct Size(u64);

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const UNITS: [&str; 6] = ["KB", "MB", "GB", "TB", "PB", "EB"];
        if self.0 < 1000 {
            return write!(f, "{} B", self.0);
        }
        let mut scale = 1000;
        for unit in UNITS {
            let tenths = (u128::from(self.0) * 10 + scale / 2) / scale;
            let whole = (u128::from(self.0) + scale / 2) / scale;
            if tenths < 100 {
                return write!(f, "{}.{} {unit}", tenths / 10, tenths % 10);
            }
            if whole < 1000 {
                return write!(f, "{whole} {unit}");
            }
            scale *= 1000;
        }
        unreachable!("64 bits hold 18 EB")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_two_or_three_digits() {
        for (bytes, shown) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 KB"),
            (1949, "1.9 KB"),
            (9949, "9.9 KB"),
            (9950, "10 KB"),
            (999_449, "999 KB"),
            (999_500, "1.0 MB"),
            (123_456_789, "123 MB"),
            (5_000_000_000, "5.0 GB"),
            (u64::MAX, "18 EB"),
        ] {
            assert_eq!(Size(bytes).to_string(), shown, "{bytes}");
        }
    }
}
