//! The formats of request logs, and their detection from the contents of a file.

mod common_log;
mod csv;
mod world_cup;

pub(crate) use world_cup::{RECORD_BYTES, parse_record};

use crate::Request;

/// The format of a request log. Any of them may be gzipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// 20-byte big-endian records of the World Cup 98 archive.
    WorldCup,
    /// `ClientID,Date,Time,URL,Status,Size`: records of the archive as text, times in UTC.
    WorldCupCsv,
    /// Common and combined log format, as Apache and nginx write it.
    CommonLog,
    /// Our own: `epoch_s,size_bytes,status,client`.
    Csv,
}

const NAMES: [(Format, &str); 4] = [
    (Format::WorldCup, "worldcup"),
    (Format::WorldCupCsv, "worldcup-csv"),
    (Format::CommonLog, "log"),
    (Format::Csv, "csv"),
];

/// The number of lines that are examined before a text counts as unknown.
const DETECT_LINES_MAX: usize = 50;

impl Format {
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(format, _)| *format == self).map_or("", |(_, name)| name)
    }

    /// The word for one entry of the file in messages.
    pub fn entry(self) -> &'static str {
        if self == Format::WorldCup { "record" } else { "line" }
    }

    /// Detects the format of a file that begins with `start`: the format of the first line or record that any format
    /// accepts.
    pub(crate) fn detect(start: &[u8]) -> Option<Format> {
        let of_text = Format::detect_text(start);
        // A log that was truncated under its writer (logrotate's copytruncate) begins with zeros, too.
        if of_text.is_some() || !start.contains(&0) || start.iter().all(|&byte| byte == 0) {
            return of_text;
        }
        let first: &[u8; RECORD_BYTES] = start.first_chunk()?;
        parse_record(first).ok().map(|_| Format::WorldCup)
    }

    fn detect_text(start: &[u8]) -> Option<Format> {
        let lines = start.split(|&byte| byte == b'\n').map(trim).take(DETECT_LINES_MAX);
        let mut found = lines.flat_map(|line| {
            let text = [Format::Csv, Format::WorldCupCsv, Format::CommonLog];
            text.into_iter().find(|format| format.is_header(line) || format.parse_line(line).is_ok())
        });
        found.next()
    }

    /// Returns true for a line that names the columns.
    pub(crate) fn is_header(self, line: &[u8]) -> bool {
        self == Format::Csv && csv::is_header(line)
    }

    /// Returns true for a header whose columns have a different order from the one in which they are read.
    pub(crate) fn is_other_order(self, line: &[u8]) -> bool {
        self == Format::Csv && csv::is_other_order(line)
    }

    /// The name of a valid line's client, if it is not a number.
    pub(crate) fn host(self, line: &[u8]) -> Option<&[u8]> {
        if self == Format::CommonLog { common_log::host(line) } else { None }
    }

    /// Parses a line of a text format, without its line end.
    pub(crate) fn parse_line(self, line: &[u8]) -> Result<Parsed, Reason> {
        match self {
            Format::WorldCup => Err("the World Cup format has records, not lines"),
            Format::WorldCupCsv => world_cup::parse_line(line).map(Parsed::at_a_whole_second),
            Format::CommonLog => common_log::parse_line(line).map(Parsed::at_a_whole_second),
            Format::Csv => csv::parse_line(line),
        }
    }
}

impl std::str::FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Format, UnknownFormat> {
        let found = NAMES.iter().find(|(_, name)| *name == text);
        found.map(|(format, _)| *format).ok_or_else(|| UnknownFormat { given: text.into() })
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is not the name of a format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a trace format: write one of {}", NAMES.map(|(_, name)| name).join(", "))]
pub struct UnknownFormat {
    given: String,
}

/// The reason why a line is bad, and what would be right. A file can have millions of bad lines, so nothing is
/// allocated.
pub(crate) type Reason = &'static str;

/// The contents of a valid line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub request: Request,
    /// The instant was written with a fraction, even if it is zero.
    pub has_fraction: bool,
}

impl Parsed {
    fn at_a_whole_second(request: Request) -> Parsed {
        Parsed { request, has_fraction: false }
    }
}

/// Removes white space (including carriage returns) and zeros at both ends.
pub(crate) fn trim(line: &[u8]) -> &[u8] {
    let from = line.iter().position(|&byte| byte != 0).unwrap_or(line.len());
    let to = line.iter().rposition(|&byte| byte != 0).map_or(from, |last| last + 1);
    line[from..to].trim_ascii()
}

const SIZE_WRONG: Reason = "the size is not a number of bytes up to 1 PiB, nor `-`";
const STATUS_WRONG: Reason = "the status is not a number up to 999";

/// Parses a size in bytes; `-` in logs means that nothing was sent.
fn size(field: &[u8]) -> Result<u64, Reason> {
    if field == b"-" {
        return Ok(0);
    }
    crate::calendar::number(field).filter(|&bytes| bytes <= crate::SIZE_BYTES_MAX).ok_or(SIZE_WRONG)
}

fn status(field: &[u8]) -> Result<u16, Reason> {
    let number = crate::calendar::number(field).filter(|&number| number <= 999).ok_or(STATUS_WRONG)?;
    u16::try_from(number).map_err(|_| STATUS_WRONG)
}

/// Parses the number of a client.
fn client(field: &[u8]) -> Result<u32, Reason> {
    let number = crate::calendar::number(field).and_then(|number| u32::try_from(number).ok());
    number.ok_or("the client is not a number up to 4294967295")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_by_content() {
        let record = [&894_038_400u32.to_be_bytes()[..], &[0; 8], &1000u32.to_be_bytes(), &[0, 0x42, 1, 0x60]].concat();
        for (start, format) in [
            (&b"epoch_s,size_bytes,status\n"[..], Format::Csv),
            (b"0.25,100\n", Format::Csv),
            (b"44,30/Apr/1998,22:46:12,/a.gif,200,508\n", Format::WorldCupCsv),
            (b"h - - [09/Jul/1995:00:00:00 -0400] \"GET / HTTP/1.0\" 200 1\n", Format::CommonLog),
            (b"# a comment\r\n\r\n5,6\r\n", Format::Csv),
            (b"size_bytes,epoch_s\n6,5\n", Format::Csv),
            (
                b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0h - - [09/Jul/1995:00:00:00 -0400] \"GET /\" 200 1\n",
                Format::CommonLog,
            ),
            (&record, Format::WorldCup),
        ] {
            assert_eq!(Format::detect(start), Some(format), "{:?}", String::from_utf8_lossy(start));
        }
        for start in [&b""[..], b"hello\n", b"\0\0", b"a,b,c\n", &[0xff; 40], &[0; 40]] {
            assert_eq!(Format::detect(start), None);
        }
    }

    #[test]
    fn names_read_back() {
        for (format, name) in NAMES {
            assert_eq!((name.parse(), format.to_string().as_str()), (Ok(format), name));
        }
        let said = "apache".parse::<Format>().unwrap_err().to_string();
        assert_eq!(said, "`apache` is not a trace format: write one of worldcup, worldcup-csv, log, csv");
    }
}
