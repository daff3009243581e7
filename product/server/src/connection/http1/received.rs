use std::borrow::Cow;

use http::http1::{OwnedHead, Search};

/// Bytes that were received and have not been used yet.
#[derive(Debug)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    /// The number of bytes used. Many requests may arrive in one packet, and moving the remaining bytes after each
    /// would cost more than answering it.
    used: usize,
    search: Search,
}

impl Kept {
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    pub fn memory_bytes(&self) -> usize {
        size_of::<Kept>() + self.bytes.capacity()
    }
}

/// The bytes that a connection parses: stored bytes, followed by those just received.
#[derive(Debug)]
pub struct Received<'a> {
    pub(super) bytes: Cow<'a, [u8]>,
    pub(super) used: usize,
    /// The search for the end of the head at the beginning of the bytes.
    pub(super) search: Search,
    /// The head of a request before these bytes.
    pub(super) head: Option<Box<OwnedHead>>,
}

impl<'a> Received<'a> {
    pub(super) fn new(kept: Option<Box<Kept>>, fresh: &'a [u8]) -> Received<'a> {
        let Some(kept) = kept else { return Received::of(Cow::Borrowed(fresh), 0, Search::default()) };
        let Kept { mut bytes, mut used, search } = *kept;
        if !fresh.is_empty() {
            bytes.drain(..std::mem::take(&mut used));
            bytes.extend_from_slice(fresh);
        }
        Received::of(Cow::Owned(bytes), used, search)
    }

    fn of(bytes: Cow<'a, [u8]>, used: usize, search: Search) -> Received<'a> {
        Received { bytes, used, search, head: None }
    }

    pub fn is_empty(&self) -> bool {
        self.used == self.bytes.len()
    }

    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    /// Returns the unused bytes; `None` if all are used.
    pub(super) fn into_kept(self) -> Option<Box<Kept>> {
        let search = self.search;
        let kept = match self.bytes {
            _ if self.used == self.bytes.len() => return None,
            Cow::Borrowed(bytes) => Kept { bytes: bytes[self.used..].to_vec(), used: 0, search },
            Cow::Owned(bytes) => Kept { bytes, used: self.used, search },
        };
        Some(Box::new(kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_used_in_order_and_then_hold_nothing() {
        let mut received = Received::new(None, b"abcdef");
        received.used = 2;
        let kept = received.into_kept();
        assert_eq!(kept.as_ref().unwrap().rest(), b"cdef");
        let mut received = Received::new(kept, b"gh");
        received.used += 1;
        assert_eq!(received.rest(), b"defgh");
        // Without fresh bytes nothing is moved.
        let mut received = Received::new(received.into_kept(), b"");
        assert_eq!(received.rest(), b"defgh");
        received.used += 5;
        assert!(received.into_kept().is_none());
    }
}
