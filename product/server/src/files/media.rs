//! Media types and codings of files, by their names. `mime_guess` provides the types; this module corrects those for
//! which browsers or IANA's registry differ.

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
const TYPESCRIPT: &str = "text/typescript; charset=utf-8";
/// The first byte of each packet of a transport stream, and the packet's length (ISO/IEC 13818-1).
const SYNC_BYTE: u8 = 0x47;
const PACKET_BYTES: usize = 188;

/// The media type of a file by its name's extension; text is labelled UTF-8, which nearly all of it is.
pub fn mime_of(path: &str) -> String {
    let corrected = extension(path).and_then(|extension| {
        CORRECTIONS.iter().find(|(known, _)| extension.eq_ignore_ascii_case(known)).map(|(_, mime)| *mime)
    });
    let Some(mime) = corrected.or_else(|| mime_guess::from_path(path).first_raw()) else {
        return "application/octet-stream".into();
    };
    if mime.starts_with("text/") { format!("{mime}; charset=utf-8") } else { mime.into() }
}

/// Like [`mime_of`], with a check of the content if that is known: a `.ts` that does not begin with a packet is not a
/// transport stream.
pub(super) fn mime_of_content(path: &str, content: Option<&[u8]>) -> String {
    let mime = mime_of(path);
    let begins_packet = |content: &[u8]| {
        let next = content.get(PACKET_BYTES);
        content.first() == Some(&SYNC_BYTE) && next.is_none_or(|&byte| byte == SYNC_BYTE)
    };
    match content {
        Some(content) if mime == TRANSPORT_STREAM && !begins_packet(content) => TYPESCRIPT.into(),
        _ => mime,
    }
}

/// The coding in which a file is stored that is served with the type of its content: SVG 2 section 1.4.1.
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
            assert_eq!(mime_of(path), mime, "{path}");
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
        for (content, mime) in [
            (Some(&packets[..]), TRANSPORT_STREAM),
            (Some(&packets[..PACKET_BYTES]), TRANSPORT_STREAM),
            (None, TRANSPORT_STREAM),
            (Some(b"export const x: number = 1;"), TYPESCRIPT),
            (Some(&[b'G'; 1][..]), TRANSPORT_STREAM),
            (Some(format!("Great{}", " ".repeat(200)).as_bytes()), TYPESCRIPT),
            (Some(b""), TYPESCRIPT),
        ] {
            assert_eq!(mime_of_content("a/b.ts", content), mime);
            assert_eq!(mime_of_content("a/b.css", content), "text/css; charset=utf-8");
        }
    }

    #[test]
    fn compressed_pictures_say_so() {
        assert_eq!(
            [coding_of("a.svgz"), coding_of("A.SVGZ"), coding_of("a.svg"), coding_of("a.gz")],
            [Some("gzip"), Some("gzip"), None, None]
        );
    }
}
