//! Places in a file, and the mistakes found there.

use std::fmt;

/// A position: the file, the line and the column. Lines and columns start at 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The number of the file; 0 is the file that includes the others.
    pub file: u16,
    pub line: u32,
    pub column: u32,
}

impl Place {
    pub const START: Place = Place { file: 0, line: 1, column: 1 };

    pub(crate) fn of_file(self, file: usize) -> Place {
        Place { file: u16::try_from(file).unwrap_or(u16::MAX), ..self }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The names of the files of a configuration, as messages use them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileNames(Vec<String>);

impl FileNames {
    pub(crate) fn new(names: Vec<String>) -> FileNames {
        FileNames(names)
    }
}

/// Returns the name of each file: a single name for all, or [`FileNames`].
pub trait Named {
    fn name_of(&self, at: Place) -> &str;
}

impl Named for str {
    fn name_of(&self, _: Place) -> &str {
        self
    }
}

impl Named for FileNames {
    fn name_of(&self, at: Place) -> &str {
        self.0.get(usize::from(at.file)).map_or("", String::as_str)
    }
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed<T> {
    pub value: T,
    pub at: Place,
}

/// A mistake or a note at a place of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    pub at: Place,
    /// The noun, the value and the form expected.
    pub said: String,
}

impl Remark {
    /// Formats the remark as `FILE:LINE:COLUMN: text`.
    pub fn line(&self, files: &(impl Named + ?Sized)) -> String {
        format!("{}:{}: {}", files.name_of(self.at), self.at, self.said)
    }

    pub(crate) fn of_file(self, file: usize) -> Remark {
        Remark { at: self.at.of_file(file), ..self }
    }
}

/// Maximum number of characters of a value that a message quotes.
const QUOTED_MAX: usize = 60;

/// Quotes the value for a message: in one line, shortened.
pub(crate) fn quoted(value: &str) -> String {
    let escaped: String = value.chars().take(QUOTED_MAX).flat_map(escaped).collect();
    let more = if value.chars().nth(QUOTED_MAX).is_some() { "…" } else { "" };
    format!("`{escaped}{more}`")
}

fn escaped(c: char) -> Vec<char> {
    if c.is_control() { c.escape_default().collect() } else { vec![c] }
}

/// The number of bytes between two stored character counts. Finding a place examines at most this many bytes, however
/// long the line is.
const STRIDE: usize = 1024;

/// Converts offsets in a text to places.
pub(crate) struct Lines<'t> {
    text: &'t str,
    /// The offset at which each line starts.
    starts: Vec<usize>,
    /// Characters before every multiple of [`STRIDE`].
    counts: Vec<usize>,
    /// The offset at which each file starts.
    files: Vec<usize>,
}

impl<'t> Lines<'t> {
    /// Indexes the lines of one file.
    pub(crate) fn new(text: &'t str) -> Lines<'t> {
        Lines::of_files(text, vec![0])
    }

    /// Indexes the lines of several files. Each file must start a line at its offset.
    pub(crate) fn of_files(text: &'t str, files: Vec<usize>) -> Lines<'t> {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let mut counts = vec![0];
        for chunk in text.as_bytes().chunks(STRIDE) {
            counts.push(counts.last().copied().unwrap_or(0) + characters(chunk));
        }
        Lines { text, starts: std::iter::once(0).chain(ends).collect(), counts, files }
    }

    pub(crate) fn place(&self, offset: usize) -> Place {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset);
        let column = self.before(offset) - self.before(self.starts[line - 1]) + 1;
        let file = self.files.partition_point(|start| *start <= offset) - 1;
        let lines_before = self.starts.partition_point(|start| *start < self.files[file]);
        // The size of all files is at most [`crate::FILE_BYTES_MAX`].
        Place { file: 0, line: (line - lines_before) as u32, column: column as u32 }.of_file(file)
    }

    pub(crate) fn text(&self) -> &'t str {
        self.text
    }

    fn before(&self, offset: usize) -> usize {
        let stride = offset / STRIDE;
        self.counts[stride] + characters(&self.text.as_bytes()[stride * STRIDE..offset])
    }
}

/// Returns the number of characters that start in these UTF-8 bytes.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let text = format!("a\r\nüö = 1\n{}x", "é".repeat(3000));
        let lines = Lines::new(&text);
        let places = ["a", "=", "x"].map(|sought| lines.place(text.find(sought).unwrap()).to_string());
        assert_eq!(places, ["1:1", "2:4", "3:3001"]);
        assert_eq!(lines.place(usize::MAX).to_string(), "3:3002");
        assert_eq!(Lines::new("").place(0), Place::START);
    }

    #[test]
    fn places_know_their_file() {
        let lines = Lines::of_files("a\nb\n\nc\nd\n\n", vec![0, 5]);
        let places = [0, 2, 4, 5, 7, 8, 99].map(|offset| lines.place(offset));
        assert_eq!(places.map(|at| (at.file, at.line)), [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 2), (1, 4)]);
    }

    #[test]
    fn quoted_values_are_one_short_line() {
        assert_eq!(quoted("a\nb\u{7}"), "`a\\nb\\u{7}`");
        assert_eq!(quoted(&"x".repeat(61)), format!("`{}…`", "x".repeat(60)));
    }
}
