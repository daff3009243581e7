//! The lines of Apache's `mod_log_forensic`: `+PID:TIME:COUNT|GET /a HTTP/1.1|Host:b` before a request is handled, and
//! `-PID:TIME:COUNT` after its last byte.

/// The bytes of a line that are kept; longer requests occur only if the server does not limit them.
const LINE_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// A request for this target begins.
    Begin {
        process: u32,
        target: String,
    },
    End {
        process: u32,
    },
}

/// Splits the bytes read into lines, and parses these as events.
#[derive(Debug, Default)]
pub(super) struct Reader {
    part: Vec<u8>,
    /// The number of lines that are not the module's. A line longer than a pipe accepts in one piece (4 KiB) is
    /// interleaved with others.
    pub garbled: u64,
}

impl Reader {
    pub fn read(&mut self, bytes: &[u8], events: &mut Vec<Event>) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let room = LINE_BYTES_MAX - self.part.len();
            self.part.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                match event(&String::from_utf8_lossy(&self.part)) {
                    Some(event) => events.push(event),
                    None => self.garbled += 1,
                }
                self.part.clear();
            }
        }
    }
}

fn event(line: &str) -> Option<Event> {
    let line = line.strip_suffix('\n').unwrap_or(line);
    if let Some(id) = line.strip_prefix('-') {
        return Some(Event::End { process: process_of(id)? });
    }
    let mut fields = line.strip_prefix('+')?.split('|');
    let process = process_of(fields.next()?)?;
    let mut words = fields.next()?.split(' ');
    let target = words.nth(1).unwrap_or("").to_string();
    Some(Event::Begin { process, target })
}

/// Parses an identifier of three numbers, the first decimal, as from an Apache without `mod_unique_id`, which has other
/// identifiers.
fn process_of(id: &str) -> Option<u32> {
    let parts: Vec<&str> = id.split(':').collect();
    let [process, time, count] = parts[..] else { return None };
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hex(time) && is_hex(count)).then(|| process.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> (Vec<Event>, u64) {
        let (mut reader, mut events) = (Reader::default(), Vec::new());
        pieces.iter().for_each(|piece| reader.read(piece, &mut events));
        (events, reader.garbled)
    }

    #[test]
    fn lines_in_any_pieces() {
        let text = b"+4711:69a1b2c3:0|GET /a/x?b=%7c HTTP/1.1|Host:a\n-4711:69a1b2c3:0\n+9:1:a|BREW|\n";
        let events = [
            Event::Begin { process: 4711, target: "/a/x?b=%7c".into() },
            Event::End { process: 4711 },
            Event::Begin { process: 9, target: String::new() },
        ];
        assert_eq!(read(&[text]), (events.to_vec(), 0));
        for cut in 0..text.len() {
            assert_eq!(read(&[&text[..cut], &text[cut..]]), (events.to_vec(), 0), "cut at {cut}");
        }
    }

    #[test]
    fn what_is_no_line_of_the_module_is_counted() {
        let long = [&[b'x'; 2 * LINE_BYTES_MAX][..], b"\n-1:2:3\n"].concat();
        for wrong in
            [&b"\n-1:2:3\n"[..], b"4:5:6\n-1:2:3\n", b"+YWJj|GET / HTTP/1.1\n-1:2:3\n", b"-1:2\n-1:2:3\n", &long]
        {
            assert_eq!(read(&[wrong]), (vec![Event::End { process: 1 }], 1));
        }
        for wrong in ["+1:2:3\n", "+-1:2:3|GET /\n", "-1:x:3\n", "-99999999999:2:3\n", "-1::3\n"] {
            assert_eq!(read(&[wrong.as_bytes()]), (vec![], 1), "{wrong}");
        }
    }
}
