//! The natural order of names: numbers in names are compared by value, so that `file2` comes before `file10`.

use std::cmp::Ordering;

/// A name that compares by the natural order, ignoring case.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Natural(String);

impl Natural {
    pub fn new(name: &[u8]) -> Natural {
        Natural(String::from_utf8_lossy(name).to_lowercase())
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Natural) -> Ordering {
        let (mut a, mut b) = (self.0.as_str(), other.0.as_str());
        loop {
            let (digits_a, digits_b) = (digits(a), digits(b));
            if !digits_a.is_empty() && !digits_b.is_empty() {
                let (value_a, value_b) = (digits_a.trim_start_matches('0'), digits_b.trim_start_matches('0'));
                let by_value = value_a.len().cmp(&value_b.len()).then(value_a.cmp(value_b));
                if by_value.is_ne() {
                    return by_value;
                }
                (a, b) = (&a[digits_a.len()..], &b[digits_b.len()..]);
                continue;
            }
            let (mut rest_a, mut rest_b) = (a.chars(), b.chars());
            match (rest_a.next(), rest_b.next()) {
                // The numbers are the same: the name with fewer leading zeros is first.
                (None, None) => return self.0.len().cmp(&other.0.len()).then(self.0.cmp(&other.0)),
                (c, d) if c != d => return c.cmp(&d),
                _ => (a, b) = (rest_a.as_str(), rest_b.as_str()),
            }
        }
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Natural) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The digits at the beginning of a text.
fn digits(text: &str) -> &str {
    &text[..text.bytes().take_while(u8::is_ascii_digit).count()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_count_by_their_value() {
        let sorted = [
            "",
            "1",
            "01",
            "2",
            "2a",
            "2b1",
            "10",
            "010",
            "99999999999999999999998",
            "99999999999999999999999",
            "a",
            "A1",
            "a2b3",
            "a2b10",
            "a02b11",
            "a10",
            "b",
            "\u{e9}1",
        ];
        for (at, one) in sorted.iter().enumerate() {
            for other in &sorted[at + 1..] {
                let order = Natural::new(one.as_bytes()).cmp(&Natural::new(other.as_bytes()));
                assert_eq!(order, Ordering::Less, "{one} {other}");
            }
        }
    }

    proptest! {
        /// Sorting panics if the comparison is not a total order.
        #[test]
        fn it_is_an_order(a in "[a0-2é]{0,6}", b in "[a0-2é]{0,6}", c in "[a0-2é]{0,6}") {
            let [a, b, c] = [a, b, c].map(|name| Natural::new(name.as_bytes()));
            prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
            prop_assert_eq!(a.cmp(&b).is_eq(), a == b);
            if a <= b && b <= c {
                prop_assert!(a <= c);
            }
        }
    }
}
