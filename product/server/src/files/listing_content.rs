//! Renders a folder as web pages or as JSON, with a thousand names per page, sorted across all pages. The column heads
//! are links, so that the pages need no script.
//!
//! Anybody who can create a file chooses its name. Therefore a name is escaped as text, and in a link every byte is
//! percent-encoded except letters, digits and `-._~`. In a name that is not UTF-8, invalid bytes are shown as U+FFFD,
//! but its link is exact. The text direction of a name is isolated (`bdi`). Names that no request could contain are
//! only counted; hidden names, and symlinks that leave the root, are left out.

use std::fmt::Write as _;
use std::time::UNIX_EPOCH;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rustix::fs::{Dir, FileType};

use super::links::inside;
use super::listing_template::{Escaped, ListingPage};
use super::natural::Natural;
use super::root::Entered;
use super::view::{Column, ListingView, PAGES_MAX};
use super::{Stop, Wait};

/// The maximum number of names on one page. Each requires a look at the file, which takes 3 to 10 µs if it is in
/// memory: 10 ms at most.
pub const NAMES_MAX: usize = 1000;
/// The maximum number of a folder's names that are sorted. The next constant limits their total bytes. For a larger
/// folder, only the first names that the file system returns are used.
const NAMES_READ_MAX: usize = NAMES_MAX * PAGES_MAX as usize;
const NAME_BYTES_MAX: usize = 8 << 20;
/// The maximum number of names that are sorted by size or time, which requires a look at each file: 100 ms at most.
const SORTED_MAX: usize = 10_000;

/// The bytes to encode inside one segment of a path. RFC 3986 section 2.3 lists the bytes that need no encoding.
pub(super) const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The names in a folder, with only the type of each.
struct Names {
    /// The sorted names: folders first, then in the order of the view.
    listed: Vec<Name>,
    /// The folder has more names than are read.
    is_cut: bool,
    /// True if the folder has too many names to be sorted by size or time, so that they are sorted by name.
    is_by_name: bool,
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
    modified: http::HttpDate,
}

/// Renders a page of the folder at `path` (relative, no slash at either end). Blocks on the disk. Returns
/// [`super::Missing::NotFound`] for a page after the last one.
pub(super) fn page(root: &Entered<'_>, path: &[u8], view: ListingView) -> Result<Vec<u8>, Stop> {
    let mut names = names(root, path)?;
    names.sort(root, path, view);
    let count = u32::try_from(names.listed.len().div_ceil(NAMES_MAX)).unwrap_or(u32::MAX).max(1);
    if !(1..=count).contains(&view.page) {
        return Err(Stop::Missing(super::Missing::NotFound));
    }
    let shown = names.listed.iter().skip(NAMES_MAX * (view.page as usize - 1)).take(NAMES_MAX);
    let rows: Vec<Row> = shown.filter_map(|name| row(root, path, &name.name)).collect();
    if view.is_json {
        return Ok(json(&rows));
    }
    let mut listing = String::with_capacity(512 + 180 * rows.len());
    if !path.is_empty() {
        listing.push_str("<nav><a href=\"../\">../</a></nav>\n");
    }
    head(&mut listing, view);
    for row in &rows {
        row.write(&mut listing);
    }
    listing.push_str("</tbody></table>\n");
    let total = if count == 1 { rows.len() } else { names.listed.len() };
    foot(&mut listing, &names, total, (view, count));
    let page = root.options().page.as_deref().unwrap_or(ListingPage::built_in());
    Ok(page.write(path, &listing).into_bytes())
}

/// Renders the rows as JSON, with nginx's keys (autoindex_format json) and a link for each row.
fn json(rows: &[Row]) -> Vec<u8> {
    let mut out = String::with_capacity(16 + 128 * rows.len());
    out.push('[');
    for (at, row) in rows.iter().enumerate() {
        let (name, slash) = (String::from_utf8_lossy(&row.name), if row.is_file { "" } else { "/" });
        let kind = if row.is_file { "file" } else { "directory" };
        let modified = String::from_utf8_lossy(row.modified.as_bytes());
        out.push_str(if at == 0 { "\n{\"name\":\"" } else { ",\n{\"name\":\"" });
        escape_json(&mut out, &name);
        let url = percent_encode(&row.name, SEGMENT);
        let _ = write!(out, "\",\"type\":\"{kind}\",\"mtime\":\"{modified}\",\"url\":\"{url}{slash}\"");
        if row.is_file {
            let _ = write!(out, ",\"size\":{}", row.size_bytes);
        }
        out.push('}');
    }
    out.push_str("\n]\n");
    out.into_bytes()
}

/// Appends text to a JSON string, with escapes (RFC 8259 section 7).
fn escape_json(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
}

/// Writes the start of the table: its columns, each with a link that sorts by it.
fn head(page: &mut String, view: ListingView) {
    page.push_str("<table><thead><tr>");
    for (column, word) in Column::ALL.into_iter().zip(["Name", "Size", "Modified (UTC)"]) {
        let sorted = match (view.column == column, view.is_descending) {
            (false, _) => "",
            (true, false) => " aria-sort=\"ascending\"",
            (true, true) => " aria-sort=\"descending\"",
        };
        let _ = write!(page, "<th{sorted}><a href=\"{}\">{word}</a></th>", view.turned(column).query(1));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
}

/// Writes the number of names, links to the other pages, and the number of names left out.
fn foot(page: &mut String, names: &Names, total: usize, (view, count): (ListingView, u32)) {
    let number = view.page;
    let _ = write!(page, "<nav>{total} name{}", if total == 1 { "" } else { "s" });
    if count > 1 {
        let _ = write!(page, "; page {number} of {count}");
        let others = [("first", 1), ("previous", number - 1), ("next", number + 1), ("last", count)];
        for (word, other) in others.into_iter().filter(|(_, other)| (1..=count).contains(other) && *other != number) {
            let _ = write!(page, " · <a href=\"{}\">{word}</a>", view.query(other));
        }
    }
    page.push_str("</nav>\n");
    if names.is_cut {
        let _ = writeln!(page, "<p class=\"note\">The folder has more than these {total} names.</p>");
    }
    if names.is_by_name {
        let _ = writeln!(page, "<p class=\"note\">In the order of the names: more than {SORTED_MAX} are there.</p>");
    }
    if names.unservable > 0 {
        let why = "a backslash, a control character or an overlong form of ASCII in the name";
        let _ = writeln!(page, "<p class=\"note\">{} more not served: {why}.</p>", names.unservable);
    }
}

fn names(root: &Entered<'_>, path: &[u8]) -> Result<Names, Stop> {
    let mut names = Names { listed: Vec::new(), is_cut: false, is_by_name: false, unservable: 0 };
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
    Ok(names)
}

impl Names {
    /// Sorts the names in natural order, and then, unless there are too many, by the column of the view.
    fn sort(&mut self, root: &Entered<'_>, path: &[u8], view: ListingView) {
        self.listed.sort_by_cached_key(|entry| (!entry.is_folder, Natural::new(&entry.name), entry.name.clone()));
        let has_columns = self.listed.len() <= SORTED_MAX;
        self.is_by_name = view.column != Column::Name && !has_columns;
        let metadata = |name: &Name| Some(root.look(&inside(path, &name.name), Wait::Allowed).ok()?.metadata);
        let size_of = |name: &Name| metadata(name).map_or(0, |metadata| metadata.len());
        let time_of = |name: &Name| {
            let modified = metadata(name).and_then(|metadata| metadata.modified().ok());
            modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map_or(0, |time| time.as_secs())
        };
        let directed = |number: u64| if view.is_descending { u64::MAX - number } else { number };
        let folders = self.listed.partition_point(|name| name.is_folder);
        let (folders, files) = self.listed.split_at_mut(folders);
        match view.column {
            Column::Name if view.is_descending => [folders, files].into_iter().for_each(<[Name]>::reverse),
            Column::Size if has_columns => files.sort_by_cached_key(|name| directed(size_of(name))),
            Column::Time if has_columns => {
                [folders, files].into_iter().for_each(|part| part.sort_by_cached_key(|name| directed(time_of(name))));
            }
            Column::Name | Column::Size | Column::Time => {}
        }
    }
}

/// Returns the row of a name; `None` if the name is not served because it was removed, is a symlink that leaves the
/// root, or is neither file nor folder.
fn row(root: &Entered<'_>, path: &[u8], name: &[u8]) -> Option<Row> {
    let metadata = root.look(&inside(path, name), Wait::Allowed).ok()?.metadata;
    if !metadata.is_file() && !metadata.is_dir() {
        return None;
    }
    let modified = http::HttpDate::new(metadata.modified().ok()?);
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
        let _ = writeln!(page, "<td>{}</td></tr>", self.modified.iso()[..16].replace('T', " "));
    }
}

/// Formats a size for people, with up to three digits: `999 B`, `1.2 KB`, `12 MB`, in powers of 1000.
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
