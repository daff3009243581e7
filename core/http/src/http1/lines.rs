/// Iterates over the name and value of each field line; stops at the empty line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldLines<'a>(pub &'a [u8]);

impl<'a> Iterator for FieldLines<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let end = self.0.iter().position(|&b| b == b'\n')?;
        let (line, rest) = self.0.split_at(end + 1);
        self.0 = rest;
        // The last line is empty.
        let colon = line.iter().position(|&b| b == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    }
}
