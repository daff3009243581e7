//! Field names, with a filter that rules out most of them before any comparison.

/// A Bloom filter of names with one bit for each, computed from the name's length and first byte. The case of letters
/// makes no difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct NameFilter(u64);

impl NameFilter {
    pub const fn add(self, name: &[u8]) -> NameFilter {
        NameFilter(self.0 | NameFilter::bit(name))
    }

    /// Returns false if `name` is certainly not in the set.
    pub const fn may_have(self, name: &[u8]) -> bool {
        self.0 & NameFilter::bit(name) != 0
    }

    const fn bit(name: &[u8]) -> u64 {
        let first = if name.is_empty() { 0 } else { name[0] | b' ' };
        1 << ((name.len() + SPREAD * first as usize) % u64::BITS as usize)
    }
}

/// The factor that spreads names of one length over the bits.
const SPREAD: usize = 5;

/// A list of known names.
pub(crate) struct Names<const N: usize> {
    names: [&'static str; N],
    filter: NameFilter,
}

impl<const N: usize> Names<N> {
    pub const fn new(names: [&'static str; N]) -> Names<N> {
        let (mut filter, mut at) = (NameFilter(0), 0);
        while at < N {
            filter = filter.add(names[at].as_bytes());
            at += 1;
        }
        Names { names, filter }
    }

    /// Returns true if the list has this name, in any case of letters.
    #[inline]
    pub fn has(&self, name: &[u8]) -> bool {
        self.filter.may_have(name) && self.names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_in_any_case_and_others_of_its_length_are_not() {
        const NAMES: Names<3> = Names::new(["te", "upgrade", "keep-alive"]);
        for (name, has) in [("TE", true), ("Upgrade", true), ("keep-alive", true), ("referer", false), ("", false)] {
            assert_eq!(NAMES.has(name.as_bytes()), has, "{name}");
        }
    }

    #[test]
    fn what_was_added_is_never_ruled_out_and_little_else_passes() {
        let names = ["host", "user-agent", "accept", "Accept-Encoding", "cookie", "", "x", &"x".repeat(1000)];
        let filter = names.iter().fold(NameFilter::default(), |filter, name| filter.add(name.as_bytes()));
        for name in names {
            let cases = [name.to_ascii_lowercase(), name.to_ascii_uppercase()];
            assert!(cases.iter().all(|name| filter.may_have(name.as_bytes())), "{name}");
        }
        assert!(["connection", "upgrade", "authorization", "te"].iter().all(|name| !filter.may_have(name.as_bytes())));
    }
}
