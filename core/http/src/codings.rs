//! Content codings: the codings that a client accepts, and the entity tags of responses coded while they are sent.
//!
//! Accept-Encoding has weights, so a search for the word `gzip` would send bytes that the client has refused
//! (`gzip;q=0`). A program gives one tag to a response in whatever coding, so the tag of a coded response must be weak.
//! A program that compares tags byte by byte would then not recognise its own tag. So our weakened tags carry a mark,
//! from which the program's tag is restored in the next request.

use std::borrow::Cow;

use crate::Request;
use crate::conditions::listed_tags;
use crate::list::members;

/// A content coding that this server can apply. Between equal weights, an earlier variant is preferred, because its
/// result is smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Coding {
    Brotli,
    Zstd,
    Gzip,
}

/// A set of codings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Codings(u8);

/// The weights that a request gives to codings, in thousandths (RFC 9110 section 12.5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AcceptedCodings {
    weights: [u16; Coding::ALL.len()],
    /// The weights of the codings with a dictionary.
    with_dictionary: [u16; Coding::ALL.len()],
    /// The weight of sending no coding, if the request gives one.
    identity: Option<u16>,
}

/// The maximum number of members of Accept-Encoding that are read; there are fewer registered codings.
const MEMBERS_MAX: usize = 32;

/// The end of the opaque part of a tag that [`weakened`] has made.
const MARK: &[u8] = b"~weir";

impl Coding {
    pub const ALL: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

    /// The name in Accept-Encoding and Content-Encoding.
    pub fn token(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    /// Returns the name of this coding with a dictionary (RFC 9842 section 6); `None` if it has none.
    pub fn token_with_dictionary(self) -> Option<&'static str> {
        match self {
            Coding::Brotli => Some("dcb"),
            Coding::Zstd => Some("dcz"),
            Coding::Gzip => None,
        }
    }

    /// The extension of files in this coding, without its dot.
    pub fn extension(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zst",
            Coding::Gzip => "gz",
        }
    }

    /// Returns the coding with this name in a field. Recipients treat `x-gzip` as `gzip` (RFC 9110 section 8.4.1.3).
    fn named(name: &[u8]) -> Option<Coding> {
        let is = |token: &str| name.eq_ignore_ascii_case(token.as_bytes());
        match name.len() {
            2 | 4 => Coding::ALL.into_iter().find(|coding| is(coding.token())),
            6 if is("x-gzip") => Some(Coding::Gzip),
            _ => None,
        }
    }

    /// Returns the coding whose variant with a dictionary has this name in a field.
    fn named_with_dictionary(name: &[u8]) -> Option<Coding> {
        let is = |token: &str| name.eq_ignore_ascii_case(token.as_bytes());
        Coding::ALL.into_iter().find(|coding| coding.token_with_dictionary().is_some_and(is))
    }
}

impl Codings {
    pub const NONE: Codings = Codings(0);
    pub const ALL: Codings = Codings((1 << Coding::ALL.len()) - 1);

    pub fn is_empty(self) -> bool {
        self == Codings::NONE
    }

    pub fn has(self, coding: Coding) -> bool {
        self.0 & 1 << coding as u8 != 0
    }

    /// The codings of the set, in the order of preference.
    pub fn iter(self) -> impl Iterator<Item = Coding> {
        Coding::ALL.into_iter().filter(move |coding| self.has(*coding))
    }
}

impl FromIterator<Coding> for Codings {
    fn from_iter<I: IntoIterator<Item = Coding>>(codings: I) -> Codings {
        Codings(codings.into_iter().fold(0, |set, coding| set | 1 << coding as u8))
    }
}

impl AcceptedCodings {
    /// Reads all lines of Accept-Encoding. Without the field, a client accepts no coding: the RFC would allow any, but
    /// programs that leave the field out decode none. If two members have the same name, the first counts.
    pub fn of(request: &Request) -> AcceptedCodings {
        let (mut weights, mut identity, mut any) = ([None; Coding::ALL.len()], None, None);
        let mut with_dictionary = [None; Coding::ALL.len()];
        let line = request.fields.accept_encoding;
        let is_repeated = line.is_some_and(<[u8]>::is_empty);
        let lines = is_repeated.then(|| request.values("accept-encoding")).into_iter().flatten();
        for member in line.into_iter().chain(lines).flat_map(members).take(MEMBERS_MAX) {
            let (name, weight) = weighed(member);
            let said: &mut Option<u16> = match (Coding::named(name), Coding::named_with_dictionary(name)) {
                (Some(coding), _) => &mut weights[coding as usize],
                (None, Some(coding)) => &mut with_dictionary[coding as usize],
                _ if name.eq_ignore_ascii_case(b"identity") => &mut identity,
                _ if name == b"*" => &mut any,
                _ => continue,
            };
            said.get_or_insert(weight);
        }
        let weights = weights.map(|weight: Option<u16>| weight.or(any).unwrap_or(0));
        // A client that sends `*` may not support dictionaries.
        let with_dictionary = with_dictionary.map(Option::unwrap_or_default);
        // `*` with another weight does not apply to identity, which is then acceptable and least wanted.
        AcceptedCodings { weights, with_dictionary, identity: identity.or(any.filter(|weight| *weight == 0)) }
    }

    pub fn takes(&self, coding: Coding) -> bool {
        self.weights[coding as usize] > 0
    }

    /// Returns true if the client accepts no response without a coding.
    pub fn refuses_identity(&self) -> bool {
        self.identity == Some(0)
    }

    /// Returns the offered codings that the client wants at least as much as no coding, the most wanted first.
    pub fn wanted(&self, offered: Codings) -> impl Iterator<Item = Coding> {
        let weight = |coding: &Coding| self.weights[*coding as usize];
        let floor = self.identity.unwrap_or(0).max(1);
        let mut wanted = Coding::ALL.map(Some);
        // The sort is stable: between equal weights, the preference decides.
        wanted.sort_by_key(|coding| std::cmp::Reverse(coding.as_ref().map(weight)));
        let is_wanted = move |coding: &Coding| offered.has(*coding) && weight(coding) >= floor;
        wanted.into_iter().flatten().filter(is_wanted)
    }

    /// Returns the offered codings that the client, given a dictionary, wants at least as much as any other coding and
    /// as none, the most wanted first.
    pub fn wanted_with_dictionary(&self, offered: Codings) -> impl Iterator<Item = Coding> {
        let weight = |coding: &Coding| self.with_dictionary[*coding as usize];
        let floor = self.weights.into_iter().chain(self.identity).max().unwrap_or(0).max(1);
        let mut wanted = Coding::ALL;
        wanted.sort_by_key(|coding| std::cmp::Reverse(weight(coding)));
        wanted.into_iter().filter(move |coding| offered.has(*coding) && weight(coding) >= floor)
    }

    /// Returns the most wanted of the offered codings; `None` if the client wants none of them, or prefers no coding.
    pub fn best(&self, offered: Codings) -> Option<Coding> {
        self.wanted(offered).next()
    }
}

/// Splits a member into its name and its weight in thousandths: 1,000 without a weight, and 0 for a malformed one, so
/// that nothing is sent that the client may not have meant.
pub(crate) fn weighed(member: &[u8]) -> (&[u8], u16) {
    let mut parts = member.split(|b| *b == b';').map(<[u8]>::trim_ascii);
    let name = parts.next().unwrap_or_default();
    let value = parts.find_map(|part| part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q=")));
    (name, value.map_or(1000, |value| thousandths(value).unwrap_or(0)))
}

/// Parses a weight (RFC 9110 section 12.4.2): 0 to 1 with at most three decimals.
fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, decimals) = match value {
        [whole] | [whole, b'.'] => (whole, &b""[..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let digit = |at: usize| decimals.get(at).map_or(Some(0), |b| b.is_ascii_digit().then(|| u16::from(b - b'0')));
    let below = 100 * digit(0)? + 10 * digit(1)? + digit(2)?;
    match whole {
        b'0' => Some(below),
        b'1' if below == 0 => Some(1000),
        _ => None,
    }
}

/// Returns the tag to send after a response with this strong tag was coded. `None` if the tag is weak or malformed:
/// such a tag makes no claim about bytes and stays unchanged.
pub fn weakened(tag: &[u8]) -> Option<Vec<u8>> {
    let opaque = tag.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    Some([b"W/\"", opaque, MARK, b"\""].concat())
}

/// Restores the tags of a program in a value of If-Match or If-None-Match: tags made by [`weakened`] become the
/// original ones.
pub fn restored(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.windows(MARK.len()).any(|part| part == MARK) {
        return value.into();
    }
    let (mut out, mut rest) = (Vec::with_capacity(value.len()), value);
    while let Some((before, tag, after)) = first_quoted(rest) {
        let ours = before.strip_suffix(b"W/").zip(tag.strip_suffix(MARK));
        let (before, tag) = ours.unwrap_or((before, tag));
        [before, b"\"", tag, b"\""].into_iter().for_each(|part| out.extend_from_slice(part));
        rest = after;
    }
    out.extend_from_slice(rest);
    out.into()
}

/// Splits a value around its first quoted string: the text before it, within it and after it. Tags have no escapes.
fn first_quoted(value: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let begin = value.iter().position(|b| *b == b'"')?;
    let (before, quoted) = value.split_at(begin);
    let end = quoted[1..].iter().position(|b| *b == b'"')? + 1;
    Some((before, &quoted[1..end], &quoted[end + 1..]))
}

/// Returns the tag for a 304 to this request, given the strong tag of the program's response: the weakened tag if the
/// client sent that one.
pub fn tag_asked_with(request: &Request, tag: &[u8]) -> Option<Vec<u8>> {
    // Most requests list no tags.
    let mut listed = listed_tags(request).peekable();
    listed.peek()?;
    let ours = weakened(tag)?;
    listed.any(|listed| ours.strip_prefix(b"W/") == Some(listed)).then_some(ours)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Limits;
    use crate::http1::parse_request;
    use Coding::{Brotli, Gzip, Zstd};

    fn with<T>(lines: &[&str], of: impl Fn(&Request) -> T) -> T {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        of(&parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap().request)
    }

    fn accepted(value: &str) -> AcceptedCodings {
        with(&[&format!("Accept-Encoding: {value}")], AcceptedCodings::of)
    }

    fn best(value: &str) -> Option<Coding> {
        accepted(value).best(Codings::ALL)
    }

    #[test]
    fn the_coding_with_the_highest_weight_is_best() {
        for (value, expected) in [
            ("", None),
            ("identity", None),
            ("gzip", Some(Gzip)),
            ("GZIP", Some(Gzip)),
            ("x-gzip", Some(Gzip)),
            ("gzip, deflate, br, zstd", Some(Brotli)),
            ("gzip, zstd", Some(Zstd)),
            ("deflate", None),
            ("*", Some(Brotli)),
            ("*;q=0", None),
            ("br;q=0, *", Some(Zstd)),
            ("gzip;q=1.0, br;q=0.9", Some(Gzip)),
            ("gzip;q=0.5, br;q=0.501", Some(Brotli)),
            ("gzip;q=0", None),
            ("gzip;q=0.000, br;q=0.", None),
            ("gzip;q=0.001", Some(Gzip)),
            ("gzip ; Q=0.5", Some(Gzip)),
            ("gzip;q=1.5", None),
            ("gzip;q=0.1234", None),
            ("gzip;q=-1", None),
            ("gzip;q=", None),
            ("gzip;q", Some(Gzip)),
            ("gzip;level=9;q=0", None),
            ("gzip;q=0, gzip", None),
            ("identity, gzip", Some(Gzip)),
            ("identity;q=0.5, gzip;q=0.3", None),
            ("identity;q=0.5, gzip;q=0.3, br;q=0.5", Some(Brotli)),
            ("*;q=0.1, identity;q=0.5", None),
            (",, gzip ,,", Some(Gzip)),
            ("gzip br", None),
        ] {
            assert_eq!(best(value), expected, "{value}");
        }
        assert_eq!(with(&[], AcceptedCodings::of), AcceptedCodings::default());
        let lines = ["Accept-Encoding: gzip;q=0.4", "Accept-Encoding: br;q=0.3"];
        assert_eq!(with(&lines, AcceptedCodings::of).best(Codings::ALL), Some(Gzip), "all lines count");
    }

    #[test]
    fn only_what_is_offered_is_chosen() {
        let offered = Codings::from_iter([Zstd, Gzip]);
        assert_eq!(accepted("br, gzip;q=0.5").best(offered), Some(Gzip));
        assert_eq!(accepted("br").best(offered), None);
        assert_eq!(accepted("gzip, br, zstd;q=0.5").wanted(offered).collect::<Vec<_>>(), [Gzip, Zstd]);
        assert_eq!(accepted("gzip").best(Codings::NONE), None);
        assert!(Codings::NONE.is_empty() && !offered.has(Brotli) && Codings::ALL.iter().eq(Coding::ALL));
    }

    #[test]
    fn dictionaries_are_taken_in_words_alone() {
        let wanted = |value: &str| accepted(value).wanted_with_dictionary(Codings::ALL).collect::<Vec<_>>();
        for (value, expected) in [
            ("gzip, deflate, br, zstd, dcb, dcz", &[Brotli, Zstd][..]),
            ("DCZ", &[Zstd]),
            ("dcz, dcb;q=0.9", &[Zstd, Brotli]),
            ("br, zstd", &[]),
            ("*", &[]),
            ("*, dcb", &[Brotli]),
            ("dcb;q=0, dcz", &[Zstd]),
            ("dcb;q=0.5, br", &[]),
            ("dcb;q=0.5, identity", &[]),
            ("dcb;q=0.5, br;q=0.5", &[Brotli]),
            ("dcb;q=x", &[]),
            ("dcbx, xdcz, dc b", &[]),
        ] {
            assert_eq!(wanted(value), expected, "{value}");
        }
        assert_eq!(wanted(&format!("{}dcb", "x,".repeat(5_000))), []);
        assert!(accepted("dcb, dcz").best(Codings::ALL).is_none(), "they are no other codings");
        let brotli = Codings::from_iter([Brotli]);
        assert_eq!(accepted("dcb, dcz").wanted_with_dictionary(brotli).collect::<Vec<_>>(), [Brotli]);
    }

    #[test]
    fn identity_is_refused_only_in_words() {
        for (value, expected) in [
            ("gzip", false),
            ("", false),
            ("identity;q=0", true),
            ("*;q=0", true),
            ("*;q=0, identity;q=0.1", false),
            ("*;q=0.5", false),
            ("gzip;q=0", false),
        ] {
            assert_eq!(accepted(value).refuses_identity(), expected, "{value}");
        }
    }

    #[test]
    fn a_long_field_is_read_to_its_bound() {
        let long = format!("{}gzip", "x,".repeat(5_000));
        assert_eq!(best(&long), None);
        assert_eq!(best(&format!("{}gzip", "x,".repeat(MEMBERS_MAX - 1))), Some(Gzip));
        assert_eq!(best(&format!("gzip{}", ",".repeat(10_000))), Some(Gzip));
        assert_eq!(best(&format!("gzip;{}=1", "p".repeat(10_000))), Some(Gzip));
    }

    #[test]
    fn a_program_gets_its_own_tags_back() {
        assert_eq!(weakened(b"\"v\"").unwrap(), b"W/\"v~weir\"");
        assert!([&b"W/\"v\""[..], b"v", b"\"", b""].iter().all(|tag| weakened(tag).is_none()));
        for (value, expected) in [
            ("W/\"v~weir\"", "\"v\""),
            ("\"a\", W/\"v~weir\",W/\"b\"", "\"a\", \"v\",W/\"b\""),
            ("\"v~weir\"", "\"v~weir\""),
            ("W/\"v~weir", "W/\"v~weir"),
            ("*", "*"),
            ("W/\"~weir\", W/\"x~weir\"", "\"\", \"x\""),
        ] {
            assert_eq!(restored(value.as_bytes()), expected.as_bytes(), "{value}");
        }
    }

    #[test]
    fn a_304_has_the_tag_that_it_was_asked_with() {
        let tag =
            |value: &str| with(&[&format!("If-None-Match: {value}")], |request| tag_asked_with(request, b"\"v\""));
        assert_eq!(tag("\"a\", W/\"v~weir\"").unwrap(), b"W/\"v~weir\"");
        assert!(["\"v\"", "W/\"v\"", "*", "W/\"a~weir\""].iter().all(|value| tag(value).is_none()));
    }

    proptest! {
        #[test]
        fn any_field_has_an_answer_among_the_offers(value in "[ -~\t]{0,300}", offered in 0_u8..8) {
            let offered = Codings(offered);
            let accepted = accepted(&value);
            let wanted: Vec<Coding> = accepted.wanted(offered).collect();
            prop_assert!(wanted.iter().all(|coding| offered.has(*coding) && accepted.takes(*coding)));
            prop_assert!(wanted.windows(2).all(|two| accepted.weights[two[0] as usize] >= accepted.weights[two[1] as usize]));
            prop_assert_eq!(accepted.best(offered), wanted.first().copied());
        }

        /// The weights are the written ones, in whatever order the members come.
        #[test]
        fn weights_are_those_that_were_written(weights in prop::array::uniform3(0_u16..=1000), turn in 0_usize..3) {
            let mut written: Vec<String> = Coding::ALL.iter().zip(weights)
                .map(|(coding, weight)| format!("{};q={}.{:03}", coding.token(), weight / 1000, weight % 1000)).collect();
            written.rotate_left(turn);
            prop_assert_eq!(accepted(&written.join(", ")).weights, weights);
        }

        #[test]
        fn tags_are_restored_and_other_bytes_kept(tags in prop::collection::vec(("[!#-}]{0,8}", any::<bool>()), 0..6)) {
            let (sent, own): (Vec<_>, Vec<_>) = tags.iter().map(|(tag, is_ours)| {
                let own = format!("\"{tag}\"");
                let ours = String::from_utf8(weakened(own.as_bytes()).unwrap()).unwrap();
                (if *is_ours { ours } else { own.clone() }, own)
            }).unzip();
            let [sent, own] = [sent, own].map(|tags| tags.join(", "));
            prop_assert_eq!(restored(sent.as_bytes()), own.as_bytes());
        }
    }
}
