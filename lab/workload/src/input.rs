//! Reads input: undoes gzip, examines the start without consuming it, and reads lines of bounded length.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

/// The number of bytes of a file from which its format is detected.
const START_BYTES: u64 = 16 * 1024;

/// The maximum length of a line; a longer one is bad. Servers limit a request line to 8 KiB, and a log line contains at
/// most three such fields.
pub(crate) const LINE_BYTES_MAX: usize = 64 * 1024;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// An input whose start has been examined, with gzip undone.
pub(crate) struct Input<'a> {
    pub is_gzip: bool,
    pub start: Vec<u8>,
    pub bytes: Box<dyn BufRead + 'a>,
}

/// Examines the start of the file, after decompression if it is gzip (of one or several members).
pub(crate) fn open<'a>(file: impl BufRead + 'a) -> io::Result<Input<'a>> {
    let (start, bytes) = look(file)?;
    if !start.starts_with(&GZIP_MAGIC) {
        return Ok(Input { is_gzip: false, start, bytes: Box::new(bytes) });
    }
    let (start, bytes) = look(BufReader::new(MultiGzDecoder::new(bytes)))?;
    Ok(Input { is_gzip: true, start, bytes: Box::new(bytes) })
}

/// Returns the first bytes, and an input that still contains them. Bytes before an error are examined first, so that a
/// damaged file is still recognised; reading returns the error again when it gets there.
fn look<R: BufRead>(mut file: R) -> io::Result<(Vec<u8>, impl BufRead)> {
    let mut start = Vec::new();
    let outcome = file.by_ref().take(START_BYTES).read_to_end(&mut start);
    if start.is_empty() {
        outcome?;
    }
    Ok((start.clone(), Cursor::new(start).chain(file)))
}

/// The result of [`next_line`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Whole,
    /// Longer than [`LINE_BYTES_MAX`]: its start was kept, the rest skipped.
    TooLong,
    End,
}

/// Reads a line into `line` without its newline; the last line need not have one.
pub(crate) fn next_line(input: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<Line> {
    line.clear();
    let (mut seen, mut too_long) = (false, false);
    loop {
        let buffer = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            outcome => outcome?,
        };
        if buffer.is_empty() {
            break;
        }
        seen = true;
        let newline = buffer.iter().position(|&byte| byte == b'\n');
        let part = &buffer[..newline.unwrap_or(buffer.len())];
        let room = LINE_BYTES_MAX - line.len();
        too_long |= part.len() > room;
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = part.len() + usize::from(newline.is_some());
        input.consume(used);
        if newline.is_some() {
            break;
        }
    }
    Ok(if !seen {
        Line::End
    } else if too_long {
        Line::TooLong
    } else {
        Line::Whole
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], buffer_bytes: usize) -> Vec<(Line, usize)> {
        let mut input = BufReader::with_capacity(buffer_bytes, text);
        let (mut line, mut found) = (Vec::new(), Vec::new());
        loop {
            match next_line(&mut input, &mut line).unwrap() {
                Line::End => return found,
                kind => found.push((kind, line.len())),
            }
        }
    }

    #[test]
    fn lines_across_buffers() {
        for buffer_bytes in [1, 2, 3, 100] {
            let whole = |bytes| (Line::Whole, bytes);
            assert_eq!(lines(b"ab\n\nabcde\nx", buffer_bytes), [whole(2), whole(0), whole(5), whole(1)]);
        }
        assert_eq!(lines(b"", 10), []);
    }

    #[test]
    fn a_line_has_a_bound() {
        let mut text = vec![b'a'; LINE_BYTES_MAX];
        text.push(b'\n');
        text.extend(vec![b'b'; LINE_BYTES_MAX * 3]);
        text.extend(b"\nc\n");
        let whole = |bytes| (Line::Whole, bytes);
        assert_eq!(lines(&text, 1000), [whole(LINE_BYTES_MAX), (Line::TooLong, LINE_BYTES_MAX), whole(1)]);
    }
}
