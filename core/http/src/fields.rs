//! An ordered list of fields in one allocation: for each field, the lengths of its name and value, then both. Iterating
//! parses nothing.

/// Bytes of one length prefix.
const LENGTH_BYTES: usize = 4;

/// The list described in the module. Names keep their case; comparing them must ignore it (RFC 9110 section 5.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldList(Vec<u8>);

/// The position of a value in its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    at: u32,
    bytes: u32,
}

impl FieldList {
    pub fn with_capacity(bytes: usize) -> FieldList {
        FieldList(Vec::with_capacity(bytes))
    }

    /// Bytes of a field in a list.
    pub fn field_bytes(name: &[u8], value: &[u8]) -> usize {
        2 * LENGTH_BYTES + name.len() + value.len()
    }

    /// Bytes of memory allocated.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Appends a field. Names and values are far below 4 GiB, because every caller has a limit.
    pub fn push(&mut self, name: &[u8], value: &[u8]) -> Span {
        let lengths = name.len() as u64 | (value.len() as u64) << (8 * LENGTH_BYTES);
        self.0.extend_from_slice(&lengths.to_le_bytes());
        self.0.extend_from_slice(name);
        self.0.extend_from_slice(value);
        Span { at: (self.0.len() - value.len()) as u32, bytes: value.len() as u32 }
    }

    /// Appends a field that is safe for HTTP/1.1, whose value must not end its line: every control character becomes
    /// `?`.
    pub fn push_clean(&mut self, name: &[u8], value: &[u8]) {
        let span = self.push(name, value);
        // Most values are clean, and the compiler checks 16 bytes at a time.
        if value.iter().fold(false, |is_bad, byte| is_bad | ends_lines(*byte)) {
            self.0[span.at as usize..].iter_mut().filter(|byte| ends_lines(**byte)).for_each(|byte| *byte = b'?');
        }
    }

    /// Removes the fields for whose names `is_kept` returns false. Positions of values are no longer valid.
    pub fn retain(&mut self, is_kept: impl Fn(&[u8]) -> bool) {
        let (mut from, mut to) = (0, 0);
        while let Some((name, value)) = FieldIter(&self.0[from..]).next() {
            let (end, is_kept) = (from + FieldList::field_bytes(name, value), is_kept(name));
            if is_kept && to < from {
                self.0.copy_within(from..end, to);
            }
            to += if is_kept { end - from } else { 0 };
            from = end;
        }
        self.0.truncate(to);
    }

    pub fn value(&self, span: Span) -> &[u8] {
        &self.0[span.at as usize..][..span.bytes as usize]
    }

    pub fn iter(&self) -> FieldIter<'_> {
        FieldIter(&self.0)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }
}

/// Returns true for a control character other than a tab.
fn ends_lines(byte: u8) -> bool {
    byte.is_ascii_control() & (byte != b'\t')
}

impl Span {
    /// Returns a part of this span.
    pub fn part(self, range: std::ops::Range<usize>) -> Span {
        Span { at: self.at + range.start as u32, bytes: (range.end - range.start) as u32 }
    }
}

/// Iterates over the name and value of each field in the bytes of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldIter<'a>(pub &'a [u8]);

impl<'a> Iterator for FieldIter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (name_bytes, rest) = self.0.split_first_chunk::<LENGTH_BYTES>()?;
        let (value_bytes, rest) = rest.split_first_chunk::<LENGTH_BYTES>()?;
        let (name, rest) = rest.split_at(u32::from_le_bytes(*name_bytes) as usize);
        let (value, rest) = rest.split_at(u32::from_le_bytes(*value_bytes) as usize);
        self.0 = rest;
        Some((name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_back_as_they_were_given() {
        let mut list = FieldList::default();
        let first = list.push(b"A", b"1: 2");
        let empty = list.push(b"", b"");
        list.push_clean(b"b\n", b"x\r\n\ty\0");
        let given: [(&[u8], &[u8]); 3] = [(b"A", b"1: 2"), (b"", b""), (b"b\n", b"x??\ty?")];
        assert_eq!(list.iter().collect::<Vec<_>>(), given);
        assert_eq!(
            (list.value(first), list.value(empty), list.value(first.part(3..4))),
            (&b"1: 2"[..], &b""[..], &b"2"[..])
        );
        assert_eq!(list.value(Span::default()), b"");
        list.retain(|name| !name.is_empty());
        assert_eq!(list.iter().collect::<Vec<_>>(), [given[0], given[2]]);
        list.retain(|_| false);
        assert_eq!(list, FieldList::default());
    }
}
