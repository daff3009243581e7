//! Outgoing datagrams, stored contiguously in one buffer.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use quinn_proto::Transmit;

use crate::mapped_address;

/// The maximum number of bytes of sent datagrams that stay at the front of the buffer. They also stay while they are no
/// more than the unsent bytes.
const LEFT_BYTES_MAX: usize = 64 << 10;

/// Maximum bytes of one system call, with room for headers.
const BATCH_BYTES_MAX: usize = 65_000;

/// Datagrams to send, in order.
#[derive(Debug, Default)]
pub struct Datagrams {
    bytes: Vec<u8>,
    heads: VecDeque<Head>,
    /// The empty buffer that quinn needs for its next datagram.
    scratch: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Head {
    to: SocketAddr,
    from: Option<IpAddr>,
    ecn: Option<u8>,
    begin: usize,
    end: usize,
}

/// A datagram to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    pub to: SocketAddr,
    /// The local address that the client uses. `None` if unknown.
    pub from: Option<IpAddr>,
    /// The two ECN bits of the IP header (RFC 3168 section 5), if they are not 0.
    pub ecn: Option<u8>,
    /// UDP payload.
    pub bytes: &'a [u8],
}

/// Datagrams that are sent with one system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch<'a> {
    /// All datagrams of the batch in one buffer.
    pub all: Datagram<'a>,
    /// The size of each datagram except the last.
    pub segment_bytes: usize,
    pub count: usize,
}

impl Head {
    fn goes_with(&self, other: &Head) -> bool {
        (self.to, self.from, self.ecn) == (other.to, other.from, other.ecn)
    }
}

impl Datagrams {
    pub fn new() -> Datagrams {
        Datagrams::default()
    }

    /// Appends a datagram.
    pub fn push(&mut self, datagram: Datagram<'_>) {
        let Datagram { to, from, ecn, bytes } = datagram;
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.heads.push_back(Head { to, from, ecn, begin, end: self.bytes.len() });
    }

    /// Makes a datagram in the scratch buffer, for an IPv6 socket or not, and appends it. Returns its size.
    pub(crate) fn make(&mut self, is_ipv6: bool, make: impl FnOnce(&mut Vec<u8>) -> Option<Transmit>) -> Option<usize> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let made = make(&mut scratch).map(|transmit| {
            let bytes = &scratch[..transmit.size.min(scratch.len())];
            let ecn = transmit.ecn.map(|ecn| ecn as u8);
            let to = mapped_address::at_socket(transmit.destination, is_ipv6);
            self.push(Datagram { to, from: transmit.src_ip, ecn, bytes });
            bytes.len()
        });
        self.scratch = scratch;
        made
    }

    /// The first datagram.
    pub fn first(&self) -> Option<Datagram<'_>> {
        self.heads.front().map(|head| self.datagram(head))
    }

    pub fn iter(&self) -> impl Iterator<Item = Datagram<'_>> {
        self.heads.iter().map(|head| self.datagram(head))
    }

    fn datagram(&self, head: &Head) -> Datagram<'_> {
        Datagram { to: head.to, from: head.from, ecn: head.ecn, bytes: &self.bytes[head.begin..head.end] }
    }

    /// Returns the first datagrams that the kernel can cut out of one buffer (UDP_SEGMENT): the same path, and the same
    /// size as the first, except for the last, which may be shorter.
    pub fn batch(&self, count_max: usize) -> Option<Batch<'_>> {
        let first = self.heads.front()?;
        let segment_bytes = first.end - first.begin;
        let (mut count, mut end) = (1, first.end);
        for head in self.heads.iter().skip(1).take(count_max.saturating_sub(1)) {
            let bytes = head.end - head.begin;
            if !head.goes_with(first) || bytes > segment_bytes || head.end - first.begin > BATCH_BYTES_MAX {
                break;
            }
            (count, end) = (count + 1, head.end);
            if bytes < segment_bytes {
                break;
            }
        }
        let all = Datagram { bytes: &self.bytes[first.begin..end], ..self.datagram(first) };
        Some(Batch { all, segment_bytes, count })
    }

    /// Removes the first datagram, which was sent.
    pub fn advance(&mut self) {
        self.heads.pop_front();
        let left = self.heads.front().map_or(self.bytes.len(), |head| head.begin);
        if self.heads.is_empty() || (left > LEFT_BYTES_MAX && 2 * left > self.bytes.len()) {
            self.bytes.drain(..left);
            self.heads.iter_mut().for_each(|head| (head.begin, head.end) = (head.begin - left, head.end - left));
        }
    }

    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// UDP payload of all datagrams.
    pub fn bytes(&self) -> usize {
        self.heads.iter().map(|head| head.end - head.begin).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    pub fn clear(&mut self) {
        self.heads.clear();
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_ones_are_a_batch_whose_last_may_be_shorter() {
        let (one, other) = ("198.18.0.1:443".parse().unwrap(), "198.18.0.2:443".parse().unwrap());
        let mut datagrams = Datagrams::new();
        let lengths = [1200, 1200, 700, 1200, 1300, 1300];
        for (at, bytes) in lengths.into_iter().enumerate() {
            let to = if at < 5 { one } else { other };
            datagrams.push(Datagram { to, from: None, ecn: None, bytes: &vec![at as u8; bytes] });
        }
        let mut batches = Vec::new();
        while let Some(batch) = datagrams.batch(64) {
            let Batch { all, segment_bytes, count } = batch;
            batches.push((all.bytes.len(), segment_bytes, count));
            (0..count).for_each(|_| datagrams.advance());
        }
        assert_eq!(batches, [(3100, 1200, 3), (1200, 1200, 1), (1300, 1300, 1), (1300, 1300, 1)]);
        (0..100).for_each(|_| datagrams.push(Datagram { to: one, from: None, ecn: None, bytes: &[0; 1200] }));
        assert_eq!(datagrams.batch(10).unwrap().count, 10);
        assert_eq!(datagrams.batch(100).unwrap().count, BATCH_BYTES_MAX / 1200);
        assert_eq!(datagrams.batch(0).unwrap().count, 1);
    }

    #[test]
    fn datagrams_leave_in_their_order_and_their_memory_with_them() {
        let to = "198.18.0.1:443".parse().unwrap();
        let mut datagrams = Datagrams::new();
        let mut next = 0u32;
        let mut push = |datagrams: &mut Datagrams| {
            let bytes = next.to_be_bytes().repeat(300);
            datagrams.push(Datagram { to, from: None, ecn: Some(2), bytes: &bytes });
            next += 1;
        };
        (0..40).for_each(|_| push(&mut datagrams));
        for number in 0..1000u32 {
            push(&mut datagrams);
            let first = datagrams.first().unwrap();
            assert_eq!((first.to, first.ecn, first.bytes), (to, Some(2), &number.to_be_bytes().repeat(300)[..]));
            datagrams.advance();
            assert!(datagrams.bytes.len() <= LEFT_BYTES_MAX + 2 * 41 * 1200);
        }
        assert_eq!((datagrams.len(), datagrams.bytes()), (40, 40 * 1200));
        (0..40).for_each(|_| datagrams.advance());
        assert!(datagrams.is_empty() && datagrams.bytes.is_empty());
    }
}
