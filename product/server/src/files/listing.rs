//! A folder as a web page.
//!
//! A name is whatever somebody managed to create, so it is escaped as text and percent-encoded as a link, every byte but
//! letters, digits and `-._~`. Names that no request could ask for (not UTF-8, hidden, symlinks that leave) are left out.

use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustix::fs::Dir;

use super::{Root, Stop, Wait};

/// Names on one page. Each costs a look at the file, 3 to 10 µs where it is in memory: 10 ms at most.
pub const NAMES_MAX: usize = 1000;
/// Names looked at for one page, including those left out.
const NAMES_READ_MAX: usize = 2 * NAMES_MAX;

/// What must be encoded inside one segment of a path (RFC 3986 section 2.3 lists what need not be).
pub(super) const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

struct Row {
    is_file: bool,
    name: String,
    size_bytes: u64,
    modified: String,
}

/// The page for the folder at `path` (relative, no slash at the ends). Waits for its disk.
pub(super) fn page(root: &Root, path: &str) -> Result<Vec<u8>, Stop> {
    let (mut rows, cut) = rows(root, path)?;
    rows.sort_by(|a, b| (a.is_file, &a.name).cmp(&(b.is_file, &b.name)));
    let mut page = String::with_capacity(512 + 160 * rows.len());
    let title = Escaped(path);
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>/{title}</title></head>\n\
         <body><h1>/{title}</h1>\n<table>\n<tr><th>Name</th><th>Bytes</th><th>Modified</th></tr>\n"
    );
    if !path.is_empty() {
        page.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
    for row in &rows {
        row.write(&mut page);
    }
    page.push_str("</table>\n");
    if cut {
        let _ = writeln!(page, "<p>Only {} names of this folder are shown; it has more.</p>", rows.len());
    }
    page.push_str("</body></html>\n");
    Ok(page.into_bytes())
}

/// In the folder's own order, and whether there are more.
fn rows(root: &Root, path: &str) -> Result<(Vec<Row>, bool), Stop> {
    let mut rows = Vec::new();
    for (read, item) in Dir::new(root.read(path, Wait::Allowed)?)?.enumerate() {
        if rows.len() == NAMES_MAX || read == NAMES_READ_MAX {
            return Ok((rows, true));
        }
        if let Ok(name) = item?.file_name().to_str()
            && root.admits_segment(name)
            && can_be_asked_for(name)
        {
            rows.extend(row(root, path, name));
        }
    }
    Ok((rows, false))
}

/// `http::decode_path` refuses these in every encoding.
fn can_be_asked_for(name: &str) -> bool {
    !name.chars().any(|c| c == '\\' || c.is_ascii_control())
}

/// None for what is not served: gone meanwhile, a symlink that leaves, neither file nor folder.
fn row(root: &Root, path: &str, name: &str) -> Option<Row> {
    let inside = if path.is_empty() { name.to_string() } else { format!("{path}/{name}") };
    let metadata = root.look(&inside, Wait::Allowed).ok()?.metadata;
    if !metadata.is_file() && !metadata.is_dir() {
        return None;
    }
    let modified = http::HttpDate::new(metadata.modified().ok()?);
    let modified = String::from_utf8_lossy(modified.as_bytes()).into_owned();
    Some(Row { is_file: metadata.is_file(), name: name.to_string(), size_bytes: metadata.len(), modified })
}

impl Row {
    fn write(&self, page: &mut String) {
        let (link, text) = (utf8_percent_encode(&self.name, SEGMENT), Escaped(&self.name));
        let _ = match self.is_file {
            true => write!(page, "<tr><td><a href=\"{link}\">{text}</a></td><td>{}</td>", self.size_bytes),
            false => write!(page, "<tr><td><a href=\"{link}/\">{text}/</a></td><td></td>"),
        };
        let _ = writeln!(page, "<td>{}</td></tr>", self.modified);
    }
}

/// Text for HTML, in an element or in a quoted attribute.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}
