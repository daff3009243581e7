//! Determines the media types and codings of files from their names. `mime_guess` provides the types; this module
//! corrects those for which browsers or IANA's registry differ.

use std::str::Utf8Error;

use config::MediaTypes;

/// Types by lower-case extension that the library lacks or names differently.
const CORRECTIONS: [(&str, &str); 12] = [
    ("cjs", "text/javascript"),
    ("cmfa", "audio/mp4"),
    ("cmfv", "video/mp4"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4s", "video/iso.segment"),
    ("m4v", "video/mp4"),
    ("mjs", "text/javascript"),
    ("mts", TRANSPORT_STREAM),
    ("rpm", "application/x-rpm"),
    ("ts", TRANSPORT_STREAM),
    ("zst", "application/zstd"),
];

/// MPEG-2 transport streams (RFC 3555 section 4.2.9), which share the extension of TypeScript.
const TRANSPORT_STREAM: &str = "video/mp2t";
const TYPESCRIPT: &str = "text/typescript";
const TEXT: &str = "text/plain; charset=utf-8";
/// The number of bytes at the start of a file by which text is recognised, as in the WHATWG's sniffing rules.
pub(super) const BEGIN_BYTES: usize = 512;
/// The first byte of each packet of a transport stream. The next constant is the packet's length (ISO/IEC 13818-1).
const SYNC_BYTE: u8 = 0x47;
const PACKET_BYTES: usize = 188;

/// Returns the media type of a file: the operator's type for the extension, or else the known type, or else the
/// operator's default, or else a type chosen by the content, which starts with `begin`.
///
/// The content decides only between text and binary. Caddy also recognises HTML, so that a page with scripts could be
/// served under a name that does not show it.
pub fn mime_of(path: &str, begin: &[u8], types: &MediaTypes) -> String {
    if let Some(given) = extension(path).and_then(|extension| types.of_extension(extension)) {
        return types.with_charset(given);
    }
    match (known_type(path), &types.default) {
        // A `.ts` that does not begin with a packet is not a transport stream.
        (Some(TRANSPORT_STREAM), _) if !begins_packet(begin) => types.with_charset(TYPESCRIPT),
        (Some(known), _) => types.with_charset(known),
        (None, Some(default)) => types.with_charset(default),
        // The check has also determined the charset.
        (None, None) if is_text(begin) && types.charset.is_some() => TEXT.into(),
        (None, None) if is_text(begin) => "text/plain".into(),
        (None, None) => "application/octet-stream".into(),
    }
}

/// Returns true if [`mime_of`] depends on the content of a file with this name.
pub(super) fn needs_content(path: &str, types: &MediaTypes) -> bool {
    let is_given = extension(path).is_some_and(|extension| types.of_extension(extension).is_some());
    !is_given && known_type(path).map_or(types.default.is_none(), |known| known == TRANSPORT_STREAM)
}

fn known_type(path: &str) -> Option<&'static str> {
    let corrected = extension(path).and_then(|extension| {
        CORRECTIONS.iter().find(|(known, _)| extension.eq_ignore_ascii_case(known)).map(|(_, mime)| *mime)
    });
    corrected.or_else(|| mime_guess::from_path(path).first_raw())
}

fn begins_packet(content: &[u8]) -> bool {
    let next = content.get(PACKET_BYTES);
    content.first() == Some(&SYNC_BYTE) && next.is_none_or(|&byte| byte == SYNC_BYTE)
}

/// Returns true if this is UTF-8 text, possibly cut within a character. Binary content has control characters.
fn is_text(content: &[u8]) -> bool {
    let begin = &content[..content.len().min(BEGIN_BYTES)];
    let is_cut = |error: Utf8Error| error.error_len().is_none() && begin.len() == BEGIN_BYTES;
    let is_written = |byte: &u8| !byte.is_ascii_control() || b"\t\n\x0c\r\x1b".contains(byte);
    !begin.is_empty() && std::str::from_utf8(begin).map_or_else(is_cut, |_| true) && begin.iter().all(is_written)
}

/// Returns the coding in which a file is stored although its media type names the decoded content: gzip for
/// `.svgz` (SVG 2 section 1.4.1).
pub(super) fn coding_of(path: &str) -> Option<&'static str> {
    extension(path).is_some_and(|extension| extension.eq_ignore_ascii_case("svgz")).then_some("gzip")
}

fn extension(path: &str) -> Option<&str> {
    std::path::Path::new(path).extension()?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types() {
        for (path, mime) in [
            ("a/b.html", "text/html; charset=utf-8"),
            ("x.PNG", "image/png"),
            ("x.js", "text/javascript; charset=utf-8"),
            ("x.mjs", "text/javascript; charset=utf-8"),
            ("x.svgz", "image/svg+xml"),
            ("x.M4S", "video/iso.segment"),
            ("x.m3u8", "application/vnd.apple.mpegurl"),
            ("x.ts", "video/mp2t"),
            ("README", "application/octet-stream"),
            ("a.html/b", "application/octet-stream"),
            ("ts", "application/octet-stream"),
        ] {
            assert_eq!(mime_of(path, b"G\0", &MediaTypes::default()), mime, "{path}");
        }
        let types: Vec<_> = CORRECTIONS
            .iter()
            .filter(|(extension, mime)| mime_guess::from_ext(extension).first_raw() == Some(mime))
            .collect();
        assert!(types.is_empty(), "the library knows these by now: {types:?}");
    }

    #[test]
    fn typescript_is_told_from_transport_streams_by_its_content() {
        let packets = [&[SYNC_BYTE; 1][..], &[0; PACKET_BYTES - 1]].concat().repeat(2);
        let typescript = "text/typescript; charset=utf-8";
        for (content, mime) in [
            (&packets[..], TRANSPORT_STREAM),
            (&packets[..PACKET_BYTES], TRANSPORT_STREAM),
            (b"export const x: number = 1;", typescript),
            (&[b'G'; 1][..], TRANSPORT_STREAM),
            (format!("Great{}", " ".repeat(200)).as_bytes(), typescript),
            (b"", typescript),
        ] {
            assert_eq!(mime_of("a/b.ts", content, &MediaTypes::default()), mime);
            assert_eq!(mime_of("a/b.css", content, &MediaTypes::default()), "text/css; charset=utf-8");
        }
    }

    #[test]
    fn files_without_a_type_are_text_or_bytes() {
        let bytes = "application/octet-stream";
        let cut = format!("{}\u{e4}", "a".repeat(BEGIN_BYTES - 1));
        for (content, mime) in [
            (&b"Permission is hereby granted\r\n"[..], TEXT),
            ("gr\u{fc}n".as_bytes(), TEXT),
            (cut.as_bytes(), TEXT),
            (&cut.as_bytes()[..BEGIN_BYTES], TEXT),
            (b"<!DOCTYPE html><script>", TEXT),
            (b"gr\xfcn", bytes),
            (b"gr\xc3", bytes),
            (b"\x7fELF", bytes),
            (b"a\0", bytes),
            (b"", bytes),
        ] {
            assert_eq!(mime_of("a/LICENSE", content, &MediaTypes::default()), mime, "{content:?}");
            assert_eq!(mime_of("a/x.png", content, &MediaTypes::default()), "image/png");
        }
    }

    #[test]
    fn an_operator_names_types_and_a_charset() {
        let by_extension = [("log", "text/plain"), ("html", "text/html; charset=koi8-r"), ("ts", "text/x-a")];
        let by_extension = by_extension.map(|(extension, mime)| (extension.into(), mime.into())).into();
        let types = MediaTypes { by_extension, default: Some("text/x-b".into()), charset: Some("utf-7".into()) };
        for (path, mime) in [
            ("a.LOG", "text/plain; charset=utf-7"),
            ("a.html", "text/html; charset=koi8-r"),
            ("a.ts", "text/x-a; charset=utf-7"),
            ("a.css", "text/css; charset=utf-7"),
            ("a.png", "image/png"),
            ("LICENSE", "text/x-b; charset=utf-7"),
            ("a.unknown", "text/x-b; charset=utf-7"),
        ] {
            assert_eq!(mime_of(path, b"\x47", &types), mime, "{path}");
            assert!(!needs_content(path, &types), "{path}");
        }
        let off = MediaTypes { charset: None, ..MediaTypes::default() };
        assert_eq!([mime_of("a.css", b"a", &off), mime_of("a", b"a", &off)], ["text/css", "text/plain"]);
        assert_eq!(["a", "a.ts", "a.css"].map(|path| needs_content(path, &off)), [true, true, false]);
    }

    #[test]
    fn compressed_pictures_say_so() {
        assert_eq!(
            [coding_of("a.svgz"), coding_of("A.SVGZ"), coding_of("a.svg"), coding_of("a.gz")],
            [Some("gzip"), Some("gzip"), None, None]
        );
    }
}
