//! The media types that are worth compressing.

/// Returns true for media types that coding makes shorter: text, and formats without compression of their own.
pub fn is_compressible(mime: &str) -> bool {
    const OTHERS: [&str; 20] = [
        "application/ecmascript",
        "application/graphql",
        "application/javascript",
        "application/json",
        "application/ld+json",
        "application/manifest+json",
        "application/rtf",
        "application/sql",
        "application/vnd.apple.mpegurl",
        "application/vnd.ms-fontobject",
        "application/wasm",
        "application/x-javascript",
        "application/x-ndjson",
        "application/x-sh",
        "application/x-tar",
        "application/xml",
        "font/otf",
        "font/ttf",
        "image/bmp",
        "image/x-icon",
    ];
    const SUFFIXES: [&str; 4] = ["+json", "+xml", "+text", "+yaml"];
    let essence = mime.split(';').next().unwrap_or_default().trim_ascii();
    let begins = essence.get(..5).is_some_and(|begin| begin.eq_ignore_ascii_case("text/"));
    let ends = |suffix: &&str| {
        essence
            .len()
            .checked_sub(suffix.len())
            .and_then(|at| essence.get(at..))
            .is_some_and(|end| end.eq_ignore_ascii_case(suffix))
    };
    begins || SUFFIXES.iter().any(ends) || OTHERS.iter().any(|other| essence.eq_ignore_ascii_case(other))
}
