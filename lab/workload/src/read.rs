//! Reads a request log. Bad lines are counted, kept with their numbers up to a bound, and skipped.

use std::collections::HashMap;
use std::io::{self, BufRead};

use crate::format::{Format, Parsed, RECORD_BYTES, Reason, parse_record, trim};
use crate::input::{self, Input, LINE_BYTES_MAX, Line};
use crate::{Log, REQUESTS_MAX, Request};

/// The maximum number of bad lines that are kept; further ones are only counted.
pub const BAD_LINES_KEPT: usize = 20;

/// The maximum bytes of a bad line that are kept.
const EXCERPT_BYTES_MAX: usize = 80;

#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOptions {
    /// The format; `None` to detect it from the contents.
    pub format: Option<Format>,
    /// True if the first bad line is an error.
    pub strict: bool,
}

/// Lines (or records) that could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BadLines {
    pub count: u64,
    /// The first [`BAD_LINES_KEPT`] of them.
    pub first: Vec<BadLine>,
}

/// A line that could not be read: its number, the reason, and its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// The line number from 1, or in a binary file the number of the record.
    pub line: u64,
    pub reason: &'static str,
    /// The start of the line in printable form, or in a binary file in hexadecimal.
    pub text: String,
}

/// Reads a log to its end, in any of the formats, gzipped or not.
pub fn read(file: impl BufRead, options: &ReadOptions) -> Result<Log, ReadError> {
    let input = input::open(file).map_err(|error| ReadError::from_io(0, "line", true, error))?;
    if input.start.is_empty() {
        return Err(ReadError::Empty);
    }
    let format = options.format.or_else(|| Format::detect(&input.start)).ok_or(ReadError::Unrecognised)?;
    let mut reader = Reader::new(format, options.strict);
    match format {
        Format::WorldCup => reader.records(input)?,
        _ => reader.lines(input)?,
    }
    reader.requests.sort_by_key(|request| request.at);
    Ok(Log { format, requests: reader.requests, whole_seconds: !reader.has_fraction, bad: reader.bad })
}

struct Reader {
    format: Format,
    strict: bool,
    /// The number of lines or records so far.
    line: u64,
    requests: Vec<Request>,
    has_fraction: bool,
    bad: BadLines,
    /// The numbers of hosts by name, in the order of the file.
    hosts: HashMap<Box<[u8]>, u32>,
}

impl Reader {
    fn new(format: Format, strict: bool) -> Reader {
        let (requests, bad, hosts) = (Vec::new(), BadLines::default(), HashMap::new());
        Reader { format, strict, line: 0, requests, has_fraction: false, bad, hosts }
    }

    fn lines(&mut self, mut input: Input<'_>) -> Result<(), ReadError> {
        let mut buffer = Vec::new();
        loop {
            let outcome = input::next_line(&mut *input.bytes, &mut buffer);
            let kind = outcome.map_err(|error| ReadError::from_io(self.line, "line", input.is_gzip, error))?;
            self.line += 1;
            let line = trim(&buffer);
            match kind {
                Line::End => return Ok(()),
                Line::TooLong => self.refuse(LINE_TOO_LONG, || printable(line))?,
                Line::Whole if self.format.is_other_order(line) => {
                    return Err(ReadError::Columns { line: self.line, text: printable(line) });
                }
                Line::Whole if line.is_empty() || self.format.is_header(line) => {}
                Line::Whole => match self.format.parse_line(line) {
                    Ok(parsed) => {
                        self.accept(parsed)?;
                        self.name_client(line);
                    }
                    Err(reason) => self.refuse(reason, || printable(line))?,
                },
            }
        }
    }

    fn records(&mut self, mut input: Input<'_>) -> Result<(), ReadError> {
        let mut record = [0; RECORD_BYTES];
        loop {
            let outcome = read_up_to(&mut *input.bytes, &mut record);
            let bytes = outcome.map_err(|error| ReadError::from_io(self.line, "record", input.is_gzip, error))?;
            self.line += 1;
            match bytes {
                0 => return Ok(()),
                RECORD_BYTES => match parse_record(&record) {
                    Ok(request) => self.accept(Parsed { request, has_fraction: false })?,
                    Err(reason) => self.refuse(reason, || hexadecimal(&record))?,
                },
                _ => self.refuse("the file ends inside a record of 20 bytes", || hexadecimal(&record[..bytes]))?,
            }
        }
    }

    fn accept(&mut self, parsed: Parsed) -> Result<(), ReadError> {
        if self.requests.len() == REQUESTS_MAX {
            return Err(ReadError::TooMany { line: self.line });
        }
        self.has_fraction |= parsed.has_fraction;
        self.requests.push(parsed.request);
        Ok(())
    }

    /// Sets the last request's client, if its line names it.
    fn name_client(&mut self, line: &[u8]) {
        if let (Some(host), Some(request)) = (self.format.host(line), self.requests.last_mut()) {
            let next = self.hosts.len() as u32;
            request.client = match self.hosts.get(host) {
                Some(&number) => Some(number),
                None => Some(*self.hosts.entry(host.into()).or_insert(next)),
            };
        }
    }

    fn refuse(&mut self, reason: Reason, text: impl Fn() -> String) -> Result<(), ReadError> {
        if self.strict {
            return Err(ReadError::Bad(BadLine { line: self.line, reason, text: text() }));
        }
        self.bad.count += 1;
        if self.bad.first.len() < BAD_LINES_KEPT {
            self.bad.first.push(BadLine { line: self.line, reason, text: text() });
        }
        Ok(())
    }
}

const LINE_TOO_LONG: Reason = "the line is longer than 64 KiB";
const _: () = assert!(LINE_BYTES_MAX == 64 * 1024, "the sentence above names the bound");

/// Fills `record` as far as the input reaches.
fn read_up_to(input: &mut dyn BufRead, record: &mut [u8]) -> io::Result<usize> {
    let mut bytes = 0;
    while bytes < record.len() {
        match input.read(&mut record[bytes..]) {
            Ok(0) => break,
            Ok(more) => bytes += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// Formats a line for a terminal: one line, ASCII, no control bytes.
fn printable(line: &[u8]) -> String {
    let start = line.iter().take(EXCERPT_BYTES_MAX).map(|&byte| match byte {
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    });
    start.chain((line.len() > EXCERPT_BYTES_MAX).then(|| "...".into())).collect()
}

fn hexadecimal(record: &[u8]) -> String {
    record.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The reason why a log could not be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("the file is empty")]
    Empty,
    #[error(
        "not a request log that can be told by its content: give World Cup records or CSV, common or combined log format, \
         or columns epoch_s,size_bytes,status"
    )]
    Unrecognised,
    /// Under `strict`, the first bad line.
    #[error("{}: `{}`", .0.reason, .0.text)]
    Bad(BadLine),
    /// A header whose order differs from the one in which the columns are read.
    #[error("the columns are `{text}`: write them in the order epoch_s,size_bytes,status,client")]
    Columns { line: u64, text: String },
    #[error("more than {REQUESTS_MAX} requests: split the file and read it in parts")]
    TooMany { line: u64 },
    /// The compressed data ends early, so the part before it may not be complete.
    #[error("the gzip data ends early, after {entry} {after}: the file is truncated")]
    GzipTruncated { after: u64, entry: &'static str },
    #[error("the gzip data is damaged after {entry} {after}: {reason}")]
    GzipDamaged {
        after: u64,
        entry: &'static str,
        #[source]
        reason: io::Error,
    },
    #[error("cannot read on after {entry} {after}: {reason}")]
    Io {
        after: u64,
        entry: &'static str,
        #[source]
        reason: io::Error,
    },
}

impl ReadError {
    /// The line that the error is about, for messages of the form `file:line: reason`.
    pub fn line(&self) -> Option<u64> {
        match self {
            ReadError::Bad(bad) => Some(bad.line),
            ReadError::TooMany { line } | ReadError::Columns { line, .. } => Some(*line),
            _ => None,
        }
    }

    fn from_io(after: u64, entry: &'static str, is_gzip: bool, reason: io::Error) -> ReadError {
        match reason.kind() {
            io::ErrorKind::UnexpectedEof if is_gzip => ReadError::GzipTruncated { after, entry },
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData if is_gzip => {
                ReadError::GzipDamaged { after, entry, reason }
            }
            _ => ReadError::Io { after, entry, reason },
        }
    }
}

#[cfg(test)]
mod tests;
