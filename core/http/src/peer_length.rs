//! A type for every length that a peer declares: a Content-Length, a chunk size, the bytes of a body that are still to
//! come.
//!
//! A peer may send any number of digits. A length near 2^64 wraps as soon as the bytes of a head are added to it, and a
//! wrapped length makes a small response appear to have sent more than its size. The parsers therefore refuse lengths
//! above 2^63 − 1. That is the maximum file size (`off_t`). nginx and nghttp2 refuse larger lengths too, and its sum
//! with any number of bytes in a machine's memory fits into a `u64`.

use crate::list::decimal;

/// A length in bytes, from 0 to [`PeerLength::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PeerLength(u64);

impl PeerLength {
    /// 2^63 − 1 bytes.
    pub const MAX: PeerLength = PeerLength(i64::MAX as u64);
    pub const ZERO: PeerLength = PeerLength(0);

    /// Makes a length; returns `None` above [`PeerLength::MAX`].
    pub const fn new(bytes: u64) -> Option<PeerLength> {
        if bytes <= PeerLength::MAX.0 { Some(PeerLength(bytes)) } else { None }
    }

    /// Parses a Content-Length (RFC 9110 section 8.6). Returns `None` if it has anything but digits, or is above
    /// [`PeerLength::MAX`].
    pub fn from_decimal(digits: &[u8]) -> Option<PeerLength> {
        decimal(digits).and_then(PeerLength::new)
    }

    /// Appends a digit of this base. Returns `None` above [`PeerLength::MAX`].
    pub fn with_digit(self, base: u32, digit: u32) -> Option<PeerLength> {
        self.0.checked_mul(base.into())?.checked_add(digit.into()).and_then(PeerLength::new)
    }

    /// Returns the length as a plain number.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Subtracts `bytes`. Returns `None` if `bytes` is more than the length.
    pub fn less(self, bytes: u64) -> Option<PeerLength> {
        self.0.checked_sub(bytes).map(PeerLength)
    }
}

impl From<u32> for PeerLength {
    fn from(bytes: u32) -> PeerLength {
        PeerLength(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_end_at_the_greatest_signed_number() {
        let read = |text: &str| PeerLength::from_decimal(text.as_bytes()).map(PeerLength::bytes);
        assert_eq!(read("0"), Some(0));
        assert_eq!(read("007"), Some(7));
        assert_eq!(read("9223372036854775807"), Some((1 << 63) - 1));
        for wrong in
            ["", "-1", "+1", " 1", "1 ", "0x1", "9223372036854775808", "18446744073709551615", "18446744073709551616"]
        {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
        assert_eq!(PeerLength::new(1 << 63), None);
        assert_eq!(PeerLength::MAX.with_digit(16, 0), None);
        assert_eq!(PeerLength::from(7).less(8), None);
        assert_eq!(PeerLength::from(7).less(7), Some(PeerLength::ZERO));
    }

    proptest! {
        /// Reading digit by digit gives the number that the digits express, or fails if it is too large.
        #[test]
        fn digits_make_the_number(number: u128, base in prop::sample::select(&[10u32, 16][..])) {
            let text = if base == 16 { format!("{number:x}") } else { number.to_string() };
            let digits = text.chars().map(|digit| digit.to_digit(base).unwrap());
            let read = digits.clone().try_fold(PeerLength::ZERO, |length, digit| length.with_digit(base, digit));
            prop_assert_eq!(read.map(|length| u128::from(length.bytes())), Some(number).filter(|_| number < 1 << 63));
            let short = digits.take(12).try_fold(PeerLength::ZERO, |length, digit| length.with_digit(base, digit));
            prop_assert!(short.is_some());
        }

        /// A length plus any head, frames and records that fit into memory does not wrap.
        #[test]
        fn a_sum_with_what_is_in_memory_fits(bytes in 0u64..1 << 63, held in 0u64..1 << 62) {
            prop_assert!(PeerLength::new(bytes).unwrap().bytes().checked_add(held).is_some());
        }
    }
}
