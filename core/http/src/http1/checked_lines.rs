/// Iterates over the name and value of each field line; stops at the empty line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldLines<'a>(pub &'a [u8]);

impl<'a> Iterator for FieldLines<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let end = memchr::memchr(b'\n', self.0)?;
        let (line, rest) = self.0.split_at(end + 1);
        self.0 = rest;
        // The last line is empty.
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    }
}
