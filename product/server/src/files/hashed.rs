//! Names with a hash of the content, as tools give them that build sites: `app.3f9a8b7c.js`, `index-BxK3f9aZ.css`. Such a
//! file does not change, and its next version has another name.
//!
//! A file that does change under such a name would stay old in browsers for a year, so only text that no person writes
//! counts as a hash, and only in names of files that such tools make.

use std::ops::Range;

/// The types of files that these tools name by their content. Pictures are not among them: they are uploaded, too, under
/// names of an application's own, which may look the same.
const EXTENSIONS: [&str; 9] = ["css", "js", "map", "mjs", "otf", "ttf", "wasm", "woff", "woff2"];
/// The minimum digits of a hexadecimal hash, and the characters of one in base 64.
const HEX_MIN: usize = 8;
const BASE64: usize = 8;

/// The place of the hash in the last name of a path; `None` if it has none.
pub fn hash_in(path: &[u8]) -> Option<Range<usize>> {
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let name = &path[start..];
    let (stem, extension) = name.split_at(name.iter().rposition(|byte| *byte == b'.')?);
    let mut built = EXTENSIONS.iter().filter(|known| extension[1..].eq_ignore_ascii_case(known.as_bytes()));
    built.next()?;
    let hash = base64_in(stem).or_else(|| hex_in(stem))?;
    Some(start + hash.start..start + hash.end)
}

/// The last eight characters, behind a hyphen or a dot, if they look random.
fn base64_in(stem: &[u8]) -> Option<Range<usize>> {
    let at = stem.len().checked_sub(BASE64)?;
    let is_apart = at > 0 && matches!(stem[at - 1], b'-' | b'.');
    (is_apart && is_random(&stem[at..])).then_some(at..stem.len())
}

/// The last part between hyphens, underscores and dots that is hexadecimal and looks random.
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

/// Returns true for characters of base 64 as no word has them: a digit before a letter, a small letter right before a
/// capital, and two capitals in all.
fn is_random(text: &[u8]) -> bool {
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let has_step = text.windows(2).any(|two| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase());
    let capitals = text.iter().filter(|byte| byte.is_ascii_uppercase()).count();
    text.iter().all(is_base64) && has_step && capitals >= 2 && has_digit_before_letter(text)
}

/// Words and dates that end in digits have none.
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
            ("/f785427dddbba9fb.JS", "f785427dddbba9fb"),
            ("/font-3f9a8b7c.woff2", "3f9a8b7c"),
            ("/app.3f9a8b7c.js.map", "3f9a8b7c"),
        ] {
            let found = hash_in(path.as_bytes()).map(|range| &path[range]);
            assert_eq!(found, Some(hash), "{path}");
        }
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
