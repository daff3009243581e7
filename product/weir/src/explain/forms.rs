//! Describes the answer as a browser would get it: the coding, the type of a picture, and the size with a dictionary.

use std::fmt::Write as _;
use std::time::Duration;

use super::Asked;
use super::asked_server::{Answered, AskedServer};

/// The codings that browsers accept.
const CODINGS: &str = "br, zstd, gzip";
/// The types of pictures that browsers name.
const PICTURES: &str = "image/avif, image/webp";
/// The maximum number of requests until a form with a dictionary is ready, which other threads store and make. The next
/// constant is the time between requests.
const ATTEMPTS_MAX: u32 = 200;
const BETWEEN: Duration = Duration::from_millis(10);

/// Returns lines about the other forms of the answer. A form is left out if the request's fields already decide it.
pub fn lines(server: &AskedServer, asked: &Asked, answer: &Answered) -> String {
    let mut lines = String::new();
    if !says(asked, "accept-encoding") {
        lines += &coded(server, asked).unwrap_or_default();
    }
    let varies = answer.value("vary").is_some_and(|vary| vary.split(',').any(|name| name.trim() == "Accept"));
    if varies && !says(asked, "accept") {
        lines += &picture(server, asked).unwrap_or_default();
    }
    lines
}

fn says(asked: &Asked, name: &str) -> bool {
    asked.headers.iter().any(|header| header.split(':').next().is_some_and(|own| own.eq_ignore_ascii_case(name)))
}

/// Returns the fields of the request together with these fields.
fn with(asked: &Asked, more: &[&str]) -> Vec<String> {
    asked.headers.iter().cloned().chain(more.iter().map(|field| field.to_string())).collect()
}

/// Returns the coding and length of the answer to a browser, and the requests for which the answer becomes a
/// dictionary.
fn coded(server: &AskedServer, asked: &Asked) -> Option<String> {
    let answer = server.head(asked.url, &with(asked, &[&format!("Accept-Encoding: {CODINGS}")])).ok()?;
    let mut lines = String::new();
    if let Some((coding, bytes)) = answer.value("content-encoding").zip(answer.value("content-length")) {
        let _ = writeln!(lines, "coding: {coding}, {bytes} bytes, for a client that accepts {CODINGS}");
    }
    if let Some(offer) = answer.value("use-as-dictionary") {
        let _ = writeln!(lines, "dictionary: offered with {offer}");
        lines += &sizes_with_dictionaries(server, asked, offer);
    }
    Some(lines)
}

/// Returns the size of the answer to a browser that has the folder's page, and to a browser that has this file.
fn sizes_with_dictionaries(server: &AskedServer, asked: &Asked, offer: &str) -> String {
    let mut lines = String::new();
    let folder = folder_of(asked.url).filter(|_| offer.contains("\"document\""));
    if let Some((url, path)) = folder {
        let known =
            size_with(server, asked, url).map(|size| format!("dictionary: {size}, for a browser that has {path}\n"));
        lines += &known.unwrap_or_default();
    }
    let own = size_with(server, asked, asked.url);
    let own =
        own.map(|size| format!("dictionary: {size}, for a browser that has this file; more for its next version\n"));
    lines + &own.unwrap_or_default()
}

/// Returns the coding and length of the answer to a browser that has the content of this URL. `None` if that content is
/// not a dictionary or does not shorten the answer.
fn size_with(server: &AskedServer, asked: &Asked, url: &str) -> Option<String> {
    let dictionary = server.whole(url, asked.headers).ok().filter(Answered::is_ok)?;
    dictionary.value("use-as-dictionary")?;
    let digest = http::available_dictionary_value(&server::digest_of(&dictionary.body));
    let fields = with(
        asked,
        &["Accept-Encoding: dcb, dcz", "Sec-Fetch-Site: same-origin", &format!("Available-Dictionary: {digest}")],
    );
    for _ in 0..ATTEMPTS_MAX {
        let answer = server.head(asked.url, &fields).ok()?;
        if let Some((coding, bytes)) = answer.value("content-encoding").zip(answer.value("content-length")) {
            return Some(format!("{coding}, {bytes} bytes"));
        }
        std::thread::sleep(BETWEEN);
    }
    None
}

/// Returns the URL and path of the folder of a page; `None` if the page is that of a folder.
fn folder_of(url: &str) -> Option<(&str, &str)> {
    let url = url.split(['?', '#']).next()?;
    let begin = url.find("://")? + 3;
    let begin = begin + url[begin..].find('/')?;
    let end = url.rfind('/')? + 1;
    (end < url.len()).then(|| (&url[..end], &url[begin..end]))
}

/// Returns the type and length of the picture that a browser would get.
fn picture(server: &AskedServer, asked: &Asked) -> Option<String> {
    let answer = server.head(asked.url, &with(asked, &[&format!("Accept: {PICTURES}")])).ok()?;
    let (mime, bytes) = answer.value("content-type").zip(answer.value("content-length"))?;
    Some(format!("picture: {mime}, {bytes} bytes, for a client that names {PICTURES}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_folder() {
        for (url, folder) in [
            ("https://a/docs/b.html?c=/d#e/", Some(("https://a/docs/", "/docs/"))),
            ("https://a/b", Some(("https://a/", "/"))),
            ("https://a/docs/", None),
            ("https://a", None),
        ] {
            assert_eq!(folder_of(url), folder, "{url}");
        }
    }
}
