//! The Range field (RFC 9110 section 14).
//!
//! A client may request the same bytes many times over, so that one request line costs the server a gigabyte (section
//! 17.15). A server may always ignore Range and send the whole file once. This module does so if the field is malformed
//! or if its ranges cost more than the whole file.

use std::ops::Range;

use crate::Verdict;
use crate::list::{decimal, members};

/// The maximum number of ranges of one request, including ranges beyond the end. PDF readers request the most and stay
/// below this; each range adds some 100 bytes of part head to the response.
pub const RANGES_MAX: usize = 32;

/// Returns [`Verdict::Ranges`], [`Verdict::RangeNotSatisfiable`], or [`Verdict::Whole`] if the field is ignored.
pub(crate) fn evaluate(value: &[u8], len: u64) -> Verdict {
    // An empty file has no ranges. Some clients send `bytes=0-` with every request, and a 200 serves them better than a
    // 416.
    if len == 0 {
        return Verdict::Whole;
    }
    match satisfiable(value, len) {
        None => Verdict::Whole,
        Some(ranges) if ranges.is_empty() => Verdict::RangeNotSatisfiable,
        Some(ranges) if is_abuse(&ranges, len) => Verdict::Whole,
        Some(ranges) => Verdict::Ranges(ranges),
    }
}

/// Returns the ranges that touch the entity, cut at its end. `None` if the field is malformed, has another unit, or has
/// more than `RANGES_MAX` ranges.
fn satisfiable(value: &[u8], len: u64) -> Option<Vec<Range<u64>>> {
    let (unit, set) = value.split_at_checked(b"bytes=".len())?;
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return None;
    }
    let mut ranges = Vec::new();
    let mut specs = 0;
    for spec in members(set) {
        specs += 1;
        if specs > RANGES_MAX {
            return None;
        }
        ranges.extend(resolve(spec, len)?);
    }
    (specs > 0).then_some(ranges)
}

/// Parses `first-last`, `first-` or `-suffix` (section 14.1.1). Returns `None` if malformed, `Some(None)` if the range
/// does not touch the entity.
fn resolve(spec: &[u8], len: u64) -> Option<Option<Range<u64>>> {
    let dash = spec.iter().position(|&b| b == b'-')?;
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    if first.is_empty() {
        let suffix = position(last)?;
        return Some((suffix > 0).then(|| len.saturating_sub(suffix)..len));
    }
    let first = position(first)?;
    let last = if last.is_empty() { u64::MAX } else { position(last)? };
    if last < first {
        return None;
    }
    Some((first < len).then(|| first..last.saturating_add(1).min(len)))
}

/// Parses a position. A number too large for a `u64` is beyond the end of any file, not malformed.
fn position(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| decimal(digits).unwrap_or(u64::MAX))
}

/// Returns true if the ranges add up to more than the whole file, or if more than one pair overlaps (section 14.2
/// mentions both).
fn is_abuse(ranges: &[Range<u64>], len: u64) -> bool {
    let bytes = ranges.iter().fold(0u64, |sum, range| sum.saturating_add(range.end - range.start));
    let overlaps = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
    let pairs = ranges.iter().enumerate().flat_map(|(at, a)| ranges[at + 1..].iter().map(move |b| (a, b)));
    bytes > len || pairs.filter(|(a, b)| overlaps(a, b)).count() > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{RangeNotSatisfiable, Ranges, Whole};
    use proptest::prelude::*;

    fn of_100(value: &str) -> Verdict {
        evaluate(value.as_bytes(), 100)
    }

    #[test]
    fn ranges_that_are_cut() {
        let cases: &[(&str, &[(u64, u64)])] = &[
            ("bytes=0-0", &[(0, 1)]),
            ("bytes=0-99", &[(0, 100)]),
            ("bytes=10-", &[(10, 100)]),
            ("bytes=99-", &[(99, 100)]),
            ("bytes=50-1000", &[(50, 100)]),
            ("bytes=50-18446744073709551615", &[(50, 100)]),
            ("bytes=50-99999999999999999999999", &[(50, 100)]),
            ("bytes=-1", &[(99, 100)]),
            ("bytes=-100", &[(0, 100)]),
            ("bytes=-99999999999999999999999", &[(0, 100)]),
            ("Bytes=0-0", &[(0, 1)]),
            ("bytes=0-0,-1", &[(0, 1), (99, 100)]),
            ("bytes=,0-0 ,\t5-6,,", &[(0, 1), (5, 7)]),
            ("bytes=90-, 0-9", &[(90, 100), (0, 10)]),
            ("bytes=0-9,5-14", &[(0, 10), (5, 15)]),
            ("bytes=0-9,10-19,20-29", &[(0, 10), (10, 20), (20, 30)]), // adjacent, none overlap
            ("bytes=20-29,10-19,0-9", &[(20, 30), (10, 20), (0, 10)]),
            ("bytes=0-0,100-,200-300,-0", &[(0, 1)]),
        ];
        for (value, expected) in cases {
            let expected = expected.iter().map(|&(start, end)| start..end).collect();
            assert_eq!(of_100(value), Ranges(expected), "{value}");
        }
    }

    #[test]
    fn ranges_beyond_the_end() {
        for value in ["bytes=100-", "bytes=100-200", "bytes=-0", "bytes=99999999999999999999999-", "bytes=200-,100-"] {
            assert_eq!(of_100(value), RangeNotSatisfiable, "{value}");
        }
    }

    #[test]
    fn malformed_fields_are_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=5",
            "bytes=5-1",
            "bytes=0-1,5-1",
            "bytes=0-1,x",
            "bytes=+0-1",
            "bytes=0--1",
            "bytes=0 - 1",
            "bytes 0-1",
            "bytes =0-1",
            "items=0-1",
            "0-1",
            "bytes=0-1;2-3",
            "bytes=\u{661}-",
            "bytes=200-100",
        ] {
            assert_eq!(of_100(value), Whole, "{value:?}");
        }
    }

    #[test]
    fn an_empty_entity_is_sent_whole() {
        for value in ["bytes=0-", "bytes=0-0", "bytes=-1", "bytes=-0", "bytes=5-"] {
            assert_eq!(evaluate(value.as_bytes(), 0), Whole, "{value}");
        }
    }

    #[test]
    fn abuse_is_answered_with_the_whole() {
        let many = |count: usize| {
            let specs: Vec<String> = (0..count).map(|at| format!("{0}-{0}", 2 * at)).collect();
            of_100(&format!("bytes={}", specs.join(",")))
        };
        assert!(matches!(many(RANGES_MAX), Ranges(ranges) if ranges.len() == RANGES_MAX));
        assert_eq!(many(RANGES_MAX + 1), Whole);
        assert_eq!(of_100("bytes=0-,0-"), Whole);
        assert_eq!(of_100("bytes=0-59,40-99"), Whole); // 120 bytes
        assert_eq!(of_100("bytes=0-9,5-14,9-20"), Whole); // three overlap
        assert_eq!(of_100("bytes=0-0,0-0,0-0"), Whole);
        let far: Vec<String> = (0..=RANGES_MAX).map(|at| format!("{}-", 100 + at)).collect();
        assert_eq!(of_100(&format!("bytes={}", far.join(","))), Whole);
    }

    proptest! {
        #[test]
        fn ranges_lie_inside_the_entity(value in "bytes=([0-9]{0,3}-[0-9]{0,3},?){0,8}", len in 0..1000u64) {
            check_inside(value.as_bytes(), len)?;
        }

        #[test]
        fn random_bytes_never_panic(value: Vec<u8>, len: u64) {
            check_inside(&[b"bytes=", &value[..]].concat(), len)?;
            check_inside(&value, len)?;
        }
    }

    fn check_inside(value: &[u8], len: u64) -> Result<(), TestCaseError> {
        if let Ranges(ranges) = evaluate(value, len) {
            prop_assert!(!ranges.is_empty() && ranges.len() <= RANGES_MAX);
            prop_assert!(ranges.iter().all(|range| range.start < range.end && range.end <= len));
            prop_assert!(ranges.iter().map(|range| range.end - range.start).sum::<u64>() <= len);
        }
        Ok(())
    }
}
