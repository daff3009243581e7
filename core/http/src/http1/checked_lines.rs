/// Iterates over the name and value of each field line; stops at the empty line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldLines<'a>(pub &'a [u8]);

impl<'a> Iterator for FieldLines<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        // The last line is empty. Names are too short for a search that needs preparation.
        let colon = self.0.iter().position(|byte| *byte == b':')?;
        let (name, rest) = self.0.split_at(colon);
        let end = memchr::memchr(b'\n', rest)?;
        self.0 = &rest[end + 1..];
        Some((name, rest[1..end].trim_ascii()))
    }
}
