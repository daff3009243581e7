//! Recognises names with a hash of the content, as created by build tools: `app.3f9a8b7c.js`, `index-BxK3f9aZ.css`.
//!
//! A file that does change under such a name would stay old in browsers for a year. Therefore only text that no person
//! would write counts as a hash, and only for the file types that such tools generate. A third of the hashes of Vite
//! and Rollup could also be words. They count only if all names in their folder look alike and a third of those names
//! contains a certain hash.

use std::ops::Range;

/// File types that build tools name by content. Pictures are excluded, because applications store uploaded pictures
/// under names that may look the same.
const EXTENSIONS: [&str; 9] = ["css", "js", "map", "mjs", "otf", "ttf", "wasm", "woff", "woff2"];
/// The minimum number of digits in a hexadecimal hash. The next constant is the length of a base 64 hash.
const HEX_MIN: usize = 8;
const BASE64: usize = 8;
/// The minimum number of words, as counted by [`words`], in a base 64 hash. Names that people choose, such as
/// `getURLId`, have three or four.
const WORDS_MIN: usize = 5;

/// The minimum number of words in a hash that the other names in its folder must confirm. Most names that people choose
/// have fewer.
const UNCERTAIN_WORDS_MIN: usize = 4;
/// The minimum number of names with certain hashes in a folder that confirms others.
const CERTAIN_MIN: usize = 3;

/// The position of the hash in the last name of a path; `None` if it has no hash.
pub fn hash_in(path: &[u8]) -> Option<Range<usize>> {
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let stem = built_stem(&path[start..])?;
    let hash = base64_in(stem).or_else(|| hex_in(stem))?;
    Some(start + hash.start..start + hash.end)
}

/// Returns true if the last name of a path may contain a hash that only the other names in its folder can confirm.
pub(super) fn may_have_hash(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let end = built_stem(name).and_then(end_of);
    end.is_some_and(|end| words(end) >= UNCERTAIN_WORDS_MIN) && hash_in(name).is_none()
}

/// Returns true if the names of a folder confirm that its uncertain hashes are hashes. All scripts, styles and fonts
/// must end in eight characters after a hyphen or a dot, and a third of these endings must be certain hashes. Of real
/// hashes, 61 % are certain.
pub(super) fn confirm_hashes<N: AsRef<[u8]>>(names: impl IntoIterator<Item = N>) -> bool {
    let (mut count, mut certain) = (0, 0);
    for name in names {
        let name = name.as_ref();
        // A source map has the name of its script and one more extension.
        let Some(stem) = built_stem(name).filter(|_| !name.ends_with(b".map")) else { continue };
        if end_of(stem).is_none() {
            return false;
        }
        count += 1;
        certain += usize::from(base64_in(stem).is_some());
    }
    certain >= CERTAIN_MIN && 3 * certain >= count
}

/// Returns the name without its extension, if it is of one of these types.
fn built_stem(name: &[u8]) -> Option<&[u8]> {
    let (stem, extension) = name.split_at(name.iter().rposition(|byte| *byte == b'.')?);
    let mut built = EXTENSIONS.iter().filter(|known| extension[1..].eq_ignore_ascii_case(known.as_bytes()));
    built.next().map(|_| stem)
}

/// Returns the last eight characters, if they are base 64 and follow a hyphen or a dot.
fn end_of(stem: &[u8]) -> Option<&[u8]> {
    let at = stem.len().checked_sub(BASE64).filter(|at| *at > 0)?;
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (matches!(stem[at - 1], b'-' | b'.') && stem[at..].iter().all(is_base64)).then_some(&stem[at..])
}

/// Returns the position of the last eight characters, if they follow a hyphen or a dot and look random.
fn base64_in(stem: &[u8]) -> Option<Range<usize>> {
    end_of(stem).filter(|end| is_random(end)).map(|end| stem.len() - end.len()..stem.len())
}

/// Returns the position of the last hexadecimal part, between hyphens, underscores and dots, that looks random.
fn hex_in(stem: &[u8]) -> Option<Range<usize>> {
    let mut end = stem.len();
    for part in stem.rsplit(|byte| b"-_.".contains(byte)) {
        let start = end - part.len();
        let is_hex = part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if is_hex && part.len() >= HEX_MIN && has_digit_before_letter(part) {
            return Some(start..end);
        }
        end = start.saturating_sub(1);
    }
    None
}

/// Returns true for base 64 characters in a pattern that words do not have. They must contain two capitals and a small
/// letter, and also either five camel-case words, or both a digit before a letter and a small letter directly before a
/// capital.
fn is_random(text: &[u8]) -> bool {
    let count = |is: fn(&u8) -> bool| text.iter().filter(|byte| is(byte)).count();
    let (capitals, small) = (count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let signs = count(|byte| !byte.is_ascii_alphanumeric());
    if capitals < 2 || small == 0 {
        return false;
    }
    let has_step = text.windows(2).any(|two| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase());
    (signs <= 1 && words(text) >= WORDS_MIN) || (has_step && has_digit_before_letter(text))
}

/// The number of camel-case words, numbers and signs in a text: `getURLId2` has four.
fn words(text: &[u8]) -> usize {
    let kind = |byte: u8| match byte {
        b'A'..=b'Z' => 0,
        b'a'..=b'z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    };
    let begins = |at: usize| {
        let (before, here) = (kind(text[at - 1]), kind(text[at]));
        let is_next_small = text.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        match (before, here) {
            // The last of several capitals begins the next word.
            (0, 0) => is_next_small,
            (0, 1) => false,
            (3, 3) => true,
            _ => before != here,
        }
    };
    (1..text.len()).filter(|at| begins(*at)).count() + usize::from(!text.is_empty())
}

/// Returns true if a digit precedes a letter. In words and dates, digits come last.
fn has_digit_before_letter(text: &[u8]) -> bool {
    text.windows(2).any(|two| two[0].is_ascii_digit() && two[1].is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_tools_are_found() {
        for (path, hash) in [
            ("/assets/app.3f9a8b7c.js", "3f9a8b7c"),
            ("/static/main.9d5b2e8f0a1b2c3d4e5f.css", "9d5b2e8f0a1b2c3d4e5f"),
            ("/main.8f86e46c.chunk.js", "8f86e46c"),
            ("/_next/static/chunks/4bd1b696-f785427dddbba9fb.js", "f785427dddbba9fb"),
            ("/assets/index-B3xK9faZ.js", "B3xK9faZ"),
            ("/assets/index-aQ_3-9Zq.mjs", "aQ_3-9Zq"),
            ("/assets/index-CAoPt-vL.js", "CAoPt-vL"),
            ("/dist-BHJd_fmG.mjs", "BHJd_fmG"),
            ("/f785427dddbba9fb.JS", "f785427dddbba9fb"),
            ("/font-3f9a8b7c.woff2", "3f9a8b7c"),
            ("/app.3f9a8b7c.js.map", "3f9a8b7c"),
        ] {
            let found = hash_in(path.as_bytes()).map(|range| &path[range]);
            assert_eq!(found, Some(hash), "{path}");
        }
    }

    #[test]
    fn words_are_those_of_camel_case() {
        for (text, count) in [("", 0), ("useState", 2), ("getURLId2", 4), ("CAoPt-vL", 6), ("a--b", 4), ("ES6Utils", 3)]
        {
            assert_eq!(words(text.as_bytes()), count, "{text}");
        }
    }

    #[test]
    fn a_folder_confirms_hashes_that_may_be_words() {
        for name in ["index-k4mZq7xd.js", "a/b.C4kqm9xz.css", "x-OAuth2Ui.js", "x-a1b2c3dX.woff2"] {
            assert!(may_have_hash(name.as_bytes()), "{name}");
        }
        for name in [
            "index-B3xK9faZ.js",
            "a-useState.js",
            "a-getURLId.js",
            "a-Settings.css",
            "a-20240101.js",
            "k4mZq7xd.js",
            "",
        ] {
            assert!(!may_have_hash(name.as_bytes()), "{name}");
        }
        let certain =
            ["index-B3xK9faZ.js", "vendor-aQ_3-9Zq.mjs", "dist-BHJd_fmG.css", "dist-BHJd_fmG.css.map", "photo.png"];
        let with = |more: &[&str]| confirm_hashes(certain.iter().chain(more));
        assert!(with(&[]) && with(&["index-k4mZq7xd.js", "a-useState.js"]));
        assert!(!with(&["app.js"]) && !with(&["index-3f9a8b7.js"]), "people name files there");
        let words: Vec<String> = (0..7).map(|at| format!("{at}-useState.js")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert!(with(&words[..6]) && !with(&words), "too many that may be words");
        assert!(!confirm_hashes(&certain[1..]) && !confirm_hashes::<&str>([]));
    }

    #[test]
    fn names_of_people_have_none() {
        for path in [
            "/app.js",
            "/jquery-3.7.1.min.js",
            "/theme-facade20.css",
            "/lib-20240101.js",
            "/x-deadbeef.js",
            "/lib-es6Utils.js",
            "/lib-Chapter1.js",
            "/lib-ES6Utils.js",
            "/a-useState2.js",
            "/a-getURLId.js",
            "/a-OAuth2Ui.js",
            "/a-AToZList.js",
            "/a-V4-5-RC1.js",
            "/a-20-01-24.js",
            "/avatar-507f1f77bcf86cd799439011.png",
            "/index-B3xK9faZ.html",
            "/3f9a8b7c/app.js",
            "/3f9a8b7c",
            "/.js",
            "",
            "/",
            "/é.js",
        ] {
            assert_eq!(hash_in(path.as_bytes()), None, "{path}");
        }
    }
}
