//! The forms of the answer that a browser would get.

use std::path::Path;

use config::Configuration;

use super::Asked;
use super::asked_server::head;

/// The codings that browsers accept.
const CODINGS: &str = "br, zstd, gzip";

/// The coding and the length of the answer to a browser, and what it is a dictionary for; `None` if the question says what
/// its client accepts.
pub fn coded(configuration: &Configuration, file: &Path, asked: &Asked) -> Option<String> {
    let says = |header: &String| header.to_ascii_lowercase().starts_with("accept-encoding:");
    if asked.headers.iter().any(says) {
        return None;
    }
    let headers = [asked.headers, &[format!("Accept-Encoding: {CODINGS}")]].concat();
    let head = head(configuration, file, &Asked { headers: &headers, ..*asked }).ok()?;
    let value = |name: &str| {
        let fields = head.lines().filter_map(|line| line.split_once(": "));
        fields.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    };
    let coding = value("content-encoding").zip(value("content-length"));
    let coding =
        coding.map(|(coding, bytes)| format!("coding: {coding}, {bytes} bytes, for a client that accepts {CODINGS}\n"));
    let dictionary = value("use-as-dictionary").map(|offer| format!("dictionary: offered with {offer}\n"));
    Some(coding.unwrap_or_default() + &dictionary.unwrap_or_default())
}
