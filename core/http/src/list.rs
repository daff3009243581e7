//! The grammar that many fields share: comma-separated lists and decimal numbers.

/// The members of a `#element` list; empty members are allowed and skipped (RFC 9110 section 5.6.1.2).
///
/// Unsuitable for lists whose members may be quoted strings: a quoted comma would split them.
pub(crate) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// Parses a number that consists only of digits. Returns `None` for a sign, a space or an overflow.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &b| {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_members_are_skipped() {
        assert_eq!(members(b" a ,,\tb c, ").collect::<Vec<_>>(), [&b"a"[..], b"b c"]);
        assert_eq!(members(b"").count(), 0);
    }

    #[test]
    fn numbers_are_digits_that_fit() {
        assert_eq!(decimal(b"0042"), Some(42));
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        for wrong in ["", "+1", "-1", " 1", "1 ", "0x10", "1,1", "18446744073709551616", "\u{661}"] {
            assert_eq!(decimal(wrong.as_bytes()), None, "{wrong:?}");
        }
    }
}
