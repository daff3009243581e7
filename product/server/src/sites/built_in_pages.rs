//! The error page for browsers, at sites without pages of their own: a sentence for the visitor. Other programs get a
//! line of text.

use http::{Request, Status};

/// The style of the page, the same as for listings.
const STYLE: &str = "<style>:root{color-scheme:light dark}\
body{font:1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem}\
h1{font-size:1.25rem}p{overflow-wrap:anywhere}a:focus{outline:2px solid}.note{color:light-dark(#5c5c5c,#a0a0a0)}</style>";

/// Returns true if the client names HTML in Accept, as browsers do, with any weight except 0.
pub fn is_for_browser(request: &Request) -> bool {
    request.accepts("text/html")
}

/// Returns true if the client names JSON in Accept.
pub fn names_json(request: &Request) -> bool {
    request.accepts("application/json")
}

/// Renders the page: a sentence for the visitor, and the reason as in the line of text.
pub fn page(status: Status, reason: &str) -> Vec<u8> {
    let Status(code) = status;
    let title = status.reason();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>{STYLE}</head>\n\
         <body><h1>{title}</h1>\n<p>{}</p>\n<p class=\"note\">Error {code}: {reason} · <a href=\"/\">Front page</a></p></body></html>\n",
        sentence(status)
    )
    .into_bytes()
}

fn sentence(status: Status) -> &'static str {
    match status {
        Status::FORBIDDEN => "You may not read this.",
        Status::NOT_FOUND => "There is nothing here. Check the address for mistakes, or start at the front page.",
        Status::METHOD_NOT_ALLOWED => "This address can only be read.",
        Status::PRECONDITION_FAILED => "This has changed in the meantime. Load it again.",
        Status::RANGE_NOT_SATISFIABLE => "This is shorter than the part that was requested. Load it again.",
        Status::TOO_MANY_REQUESTS => "You have sent too many requests. Wait a few seconds, then try again.",
        Status::BAD_GATEWAY => "The program behind this site does not answer. Try again in a minute.",
        Status::SERVICE_UNAVAILABLE => "This site is too busy. Try again in a few seconds.",
        Status::GATEWAY_TIMEOUT => "The program behind this site takes too long. Try again in a minute.",
        Status(500..) => "This site has a problem. Try again in a minute.",
        _ => "This request cannot be answered.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The relative luminance of a colour (WCAG 2.2).
    fn luminance(hex: &str) -> f64 {
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4)
    }

    #[test]
    fn a_type_is_named_with_a_weight() {
        for (accept, expected) in [
            ("text/html", true),
            ("application/json, Text/HTML;q=0.001", true),
            ("text/html;level=1;q=0.5", true),
            ("text/html;q=0", false),
            ("text/html ; q=0.000, */*", false),
            ("text/html5, application/xhtml+xml", false),
            ("*/*", false),
        ] {
            let text = format!("GET / HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n");
            let head = http::http1::parse_request(text.as_bytes(), &http::Limits::default()).unwrap().unwrap();
            assert_eq!(is_for_browser(&head.request), expected, "{accept}");
        }
    }

    /// Grey text has the contrast of WCAG AA, 4.5, on white and on the darkest grey that browsers have as a background,
    /// and a narrow listing keeps the heading by which it is sorted.
    #[test]
    fn pages_can_be_read() {
        let listing = include_str!("../files/listing.html");
        for page in [listing, STYLE] {
            let (_, greys) = page.split_once("color:light-dark(#").unwrap();
            let contrast = |grey: &str, back: &str| {
                let (grey, back) = (luminance(grey), luminance(back));
                (grey.max(back) + 0.05) / (grey.min(back) + 0.05)
            };
            let contrasts = [contrast(&greys[..6], "ffffff"), contrast(&greys[8..14], "242424")];
            assert!(contrasts.iter().all(|contrast| *contrast >= 4.5), "{contrasts:?}");
            assert!(!page.contains("color:#") && !page.contains("display:none"), "{page}");
        }
    }

    #[test]
    fn a_page_is_small_and_has_a_sentence() {
        for code in 400..=599 {
            let page = String::from_utf8(page(Status(code), "why")).unwrap();
            assert!(page.len() <= 1024 && page.contains(&format!("Error {code}: why")), "{page}");
        }
    }
}
