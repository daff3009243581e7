//! Imitates browsers that load the files of a site: they accept codings, keep responses as dictionaries (RFC 9842) as
//! Chromium does, and decode. A response is right if its decoded bytes equal the file's.
//!
//! Every dictionary offered stays fresh during the run, because no run lasts a tenth of the age of its files, for which
//! a browser keeps them.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_fields::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use http_fields::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest, Sha256};
use workload::{Ask, Documents, ObjectKind};

const AVAILABLE_DICTIONARY: HeaderName = HeaderName::from_static("available-dictionary");
const USE_AS_DICTIONARY: HeaderName = HeaderName::from_static("use-as-dictionary");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The `Accept-Encoding` values of Chromium, without and with a dictionary.
const ACCEPTED: &str = "gzip, deflate, br, zstd";
const ACCEPTED_WITH_DICTIONARY: &str = "gzip, deflate, br, zstd, dcb, dcz";

/// The first bytes of the codings with a dictionary; the dictionary's digest follows them (RFC 9842 sections 4 and 5).
const DCB_MAGIC: &[u8] = &[0xff, b'D', b'C', b'B'];
const DCZ_MAGIC: &[u8] = &[0x5e, 0x2a, 0x4d, 0x18, 0x20, 0, 0, 0];
/// The window that a client of Zstandard must support, as a base-2 logarithm (RFC 9842 section 5).
const ZSTD_WINDOW_BITS: u32 = 23;
/// The maximum number of bytes by which a coded body exceeds its file; no coding adds more.
const LONGER_BYTES_MAX: usize = 64 << 10;

/// The browsers of all readers.
pub(crate) struct Browsers {
    documents: Arc<Documents>,
    /// The caches of the readers, each in order of arrival.
    dictionaries: HashMap<u32, Vec<Dictionary>>,
    /// The responses of the jobs in flight.
    responses: HashMap<usize, Response>,
    digests: HashMap<u32, [u8; 32]>,
}

/// A file that a reader has, and the requests for which it may be the dictionary.
struct Dictionary {
    file: u32,
    digest: [u8; 32],
    pattern: String,
    /// The kinds of requests (`Sec-Fetch-Dest`) that may use it; empty for all kinds.
    destinations: Vec<String>,
}

/// A response in flight.
#[derive(Default)]
struct Response {
    coding: Option<String>,
    offer: Option<String>,
    bytes: Vec<u8>,
    /// The dictionary that the request named.
    dictionary: Option<u32>,
}

impl Browsers {
    pub(crate) fn new(documents: Arc<Documents>) -> Browsers {
        let (dictionaries, responses, digests) = (HashMap::new(), HashMap::new(), HashMap::new());
        Browsers { documents, dictionaries, responses, digests }
    }

    /// Adds the fields that a browser sends in a request for this file.
    pub(crate) fn ask(&mut self, job: usize, ask: &Ask, fields: &mut HeaderMap) {
        let Some((reader, file)) = reader_and_file(ask) else { return };
        let document = self.documents.get(file);
        let destination = destination(document.kind);
        let site = if self.dictionaries.contains_key(&reader) { "same-origin" } else { "none" };
        let kept = self.dictionaries.entry(reader).or_default();
        let dictionary = best(kept, &format!("/{}", document.path), destination);
        let accepted = if dictionary.is_some() { ACCEPTED_WITH_DICTIONARY } else { ACCEPTED };
        fields.insert(ACCEPT_ENCODING, HeaderValue::from_static(accepted));
        fields.insert(SEC_FETCH_DEST, HeaderValue::from_static(destination));
        fields.insert(SEC_FETCH_SITE, HeaderValue::from_static(site));
        if let Some(dictionary) = dictionary {
            let digest = format!(":{}:", STANDARD.encode(dictionary.digest));
            fields.insert(AVAILABLE_DICTIONARY, digest.parse().expect("base64 is printable"));
        }
        let dictionary = dictionary.map(|dictionary| dictionary.file);
        self.responses.insert(job, Response { dictionary, ..Response::default() });
    }

    pub(crate) fn on_fields(&mut self, job: usize, fields: &HeaderMap) {
        let Some(response) = self.responses.get_mut(&job) else { return };
        let text = |name: HeaderName| fields.get(name).and_then(|value| value.to_str().ok()).map(String::from);
        (response.coding, response.offer) = (text(CONTENT_ENCODING), text(USE_AS_DICTIONARY));
    }

    pub(crate) fn on_body(&mut self, job: usize, ask: &Ask, bytes: &[u8]) {
        let most = ask.size_bytes as usize + LONGER_BYTES_MAX;
        let response = self.responses.get_mut(&job).filter(|response| response.bytes.len() + bytes.len() <= most);
        if let Some(response) = response {
            response.bytes.extend_from_slice(bytes);
        }
    }

    /// Handles a complete response, and returns true if it is the requested file. The reader keeps it as a dictionary
    /// if the response offers that.
    pub(crate) fn on_whole(&mut self, job: usize, ask: &Ask) -> bool {
        let (Some(response), Some((reader, file))) = (self.responses.remove(&job), reader_and_file(ask)) else {
            return false;
        };
        let bytes = self.documents.get(file).bytes.clone();
        let dictionary = response.dictionary.map(|file| self.documents.get(file).bytes.clone());
        let decoded = decoded(response.coding.as_deref(), &response.bytes, dictionary.as_deref(), bytes.len());
        let is_right = decoded.is_ok_and(|decoded| decoded == *bytes);
        if let Some((pattern, destinations)) = response.offer.as_deref().and_then(offer).filter(|_| is_right) {
            let digest = *self.digests.entry(file).or_insert_with(|| Sha256::digest(&bytes).into());
            let kept = self.dictionaries.entry(reader).or_default();
            kept.push(Dictionary { file, digest, pattern, destinations });
        }
        is_right
    }
}

fn reader_and_file(ask: &Ask) -> Option<(u32, u32)> {
    Some((ask.user?, ask.part?.file?))
}

/// The value of `Sec-Fetch-Dest` in a request for a file of this kind.
fn destination(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Html => "document",
        ObjectKind::Style => "style",
        ObjectKind::Script | ObjectKind::AsyncScript => "script",
        ObjectKind::FirstImage | ObjectKind::Image => "image",
        ObjectKind::Font => "font",
        ObjectKind::Data => "empty",
    }
}

/// Returns the dictionary for a request. A dictionary for its kind comes before one for any kind, then the longest
/// pattern, then the latest (RFC 9842 section 2.2.2).
fn best<'a>(kept: &'a [Dictionary], path: &str, destination: &str) -> Option<&'a Dictionary> {
    let is_for = |dictionary: &&Dictionary| {
        let named = &dictionary.destinations;
        (named.is_empty() || named.iter().any(|named| named == destination)) && matches(&dictionary.pattern, path)
    };
    kept.iter().filter(is_for).max_by_key(|dictionary| (!dictionary.destinations.is_empty(), dictionary.pattern.len()))
}

/// Returns true if a path matches a pattern. Of the syntax of URL Pattern only literals, `*` and groups in braces are
/// supported.
fn matches(pattern: &str, path: &str) -> bool {
    let plain: String = pattern.chars().filter(|c| !matches!(c, '{' | '}')).collect();
    let Some((first, rest)) = plain.split_once('*') else { return plain == path };
    let Some(mut left) = path.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*').filter(|part| !part.is_empty()) {
        let Some((_, after)) = left.split_once(part) else { return false };
        left = after;
    }
    left.ends_with(last)
}

/// Returns the pattern and the kinds of requests in `Use-As-Dictionary`; `None` if this browser does not understand the
/// field.
fn offer(field: &str) -> Option<(String, Vec<String>)> {
    let quoted = |text: &str| text.split('"').skip(1).step_by(2).map(String::from).collect::<Vec<_>>();
    let pattern = quoted(field.split_once("match=")?.1.split_inclusive('"').take(2).collect::<String>().as_str());
    let destinations = field.split_once("match-dest=(").and_then(|(_, rest)| Some(quoted(rest.split_once(')')?.0)));
    Some((pattern.into_iter().next()?, destinations.unwrap_or_default()))
}

/// Decodes a body in this coding, up to one byte more than `wanted`.
fn decoded(coding: Option<&str>, coded: &[u8], dictionary: Option<&[u8]>, wanted: usize) -> io::Result<Vec<u8>> {
    let most = wanted as u64 + 1;
    let mut bytes = Vec::with_capacity(wanted + 1);
    match coding {
        None => bytes.extend_from_slice(coded),
        Some("gzip") => drop(flate2::read::GzDecoder::new(coded).take(most).read_to_end(&mut bytes)?),
        Some("br") => drop(brotli::Decompressor::new(coded, 4 << 10).take(most).read_to_end(&mut bytes)?),
        Some("zstd") => drop(zstd::stream::read::Decoder::new(coded)?.take(most).read_to_end(&mut bytes)?),
        Some("dcb") => {
            let (coded, dictionary) = without_magic(DCB_MAGIC, coded, dictionary)?;
            let mut decoder = brotli::Decompressor::new(coded, 4 << 10);
            if !decoder.attach_dictionary(dictionary.to_vec().into()) {
                return Err(io::Error::other("the dictionary is too long"));
            }
            decoder.take(most).read_to_end(&mut bytes)?;
        }
        Some("dcz") => {
            let (coded, dictionary) = without_magic(DCZ_MAGIC, coded, dictionary)?;
            let mut decoder = zstd::stream::read::Decoder::with_ref_prefix(coded, dictionary)?;
            decoder.window_log_max(ZSTD_WINDOW_BITS)?;
            decoder.take(most).read_to_end(&mut bytes)?;
        }
        Some(other) => return Err(io::Error::other(format!("nobody asked for the coding {other}"))),
    }
    Ok(bytes)
}

fn without_magic<'a>(magic: &[u8], coded: &'a [u8], dictionary: Option<&'a [u8]>) -> io::Result<(&'a [u8], &'a [u8])> {
    let dictionary = dictionary.ok_or_else(|| io::Error::other("no dictionary was named"))?;
    let coded = coded.strip_prefix(magic).and_then(|rest| rest.strip_prefix(Sha256::digest(dictionary).as_slice()));
    coded.map(|coded| (coded, dictionary)).ok_or_else(|| io::Error::other("another dictionary"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use units::Nanos;
    use workload::Part;

    /// A page, a page that repeats most of it, and a script.
    fn documents() -> Arc<Documents> {
        let page = |title: &str| format!("<title>{title}</title>{}", "what both pages have in common ".repeat(40));
        let files =
            [("d/a.html", page("A")), ("d/b.html", page("B")), ("d/x.js", "let x = 1; ".repeat(50))].into_iter();
        Arc::new(Documents::new(files.map(|(path, text)| (path.to_owned(), text.into_bytes()))).unwrap())
    }

    fn ask(documents: &Documents, file: u32) -> Ask {
        let part = Part { page: 0, file: Some(file), object: 0, urgency: 0, is_incremental: true };
        let size_bytes = documents.get(file).bytes.len() as u64;
        Ask { at: Nanos(0), size_bytes, user: Some(3), group: None, client: None, part: Some(part) }
    }

    /// Checks the fields of the request for a file, and the check of its response.
    fn one(browsers: &mut Browsers, file: u32, fields: &[(HeaderName, &str)], body: &[u8]) -> (HeaderMap, bool) {
        let (ask, mut asked) = (ask(&browsers.documents, file), HeaderMap::new());
        browsers.ask(1, &ask, &mut asked);
        let fields = fields.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        browsers.on_fields(1, &fields.collect());
        browsers.on_body(1, &ask, body);
        (asked, browsers.on_whole(1, &ask))
    }

    fn gzipped(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_body_is_right_if_it_decodes_to_the_file() {
        let documents = documents();
        let mut browsers = Browsers::new(documents.clone());
        let bytes = documents.get(0).bytes.clone();
        let (asked, is_right) = one(&mut browsers, 0, &[(CONTENT_ENCODING, "gzip")], &gzipped(&bytes));
        assert_eq!((asked[ACCEPT_ENCODING].to_str().unwrap(), is_right), (ACCEPTED, true));
        assert_eq!(
            (asked[SEC_FETCH_DEST].as_bytes(), asked[SEC_FETCH_SITE].as_bytes()),
            (&b"document"[..], &b"none"[..])
        );
        assert!(one(&mut browsers, 0, &[], &bytes).1);
        assert!(one(&mut browsers, 0, &[(CONTENT_ENCODING, "zstd")], &zstd::encode_all(&*bytes, 3).unwrap()).1);
        let other = documents.get(1).bytes.clone();
        for (coding, body) in [("gzip", gzipped(&other)), ("br", gzipped(&bytes)), ("lzma", bytes.to_vec())] {
            assert!(!one(&mut browsers, 0, &[(CONTENT_ENCODING, coding)], &body).1, "{coding}");
        }
        assert!(!one(&mut browsers, 0, &[], &bytes[1..]).1);
        assert!(!one(&mut browsers, 0, &[], &[&bytes[..], &vec![0; LONGER_BYTES_MAX + 1]].concat()).1);
    }

    #[test]
    fn a_page_that_was_offered_is_the_dictionary_of_the_next() {
        let documents = documents();
        let (mut browsers, first) = (Browsers::new(documents.clone()), documents.get(0).bytes.clone());
        let offered = [(USE_AS_DICTIONARY, r#"match="/d/*", match-dest=("document")"#)];
        assert!(one(&mut browsers, 0, &offered, &first).1);
        let second = documents.get(1).bytes.clone();
        let mut context = zstd::zstd_safe::CCtx::create();
        context.ref_prefix(&first).unwrap();
        let mut coded = vec![0; 1000];
        let length = context.compress2(&mut coded[..], &second).unwrap();
        let coded = [DCZ_MAGIC, &Sha256::digest(&first), &coded[..length]].concat();
        let (asked, is_right) = one(&mut browsers, 1, &[(CONTENT_ENCODING, "dcz")], &coded);
        assert_eq!((asked[ACCEPT_ENCODING].to_str().unwrap(), is_right), (ACCEPTED_WITH_DICTIONARY, true));
        assert_eq!(asked[SEC_FETCH_SITE], "same-origin");
        let named = asked[AVAILABLE_DICTIONARY].to_str().unwrap();
        assert_eq!(named, format!(":{}:", STANDARD.encode(Sha256::digest(&first))));
        let (asked, is_right) = one(&mut browsers, 2, &[(CONTENT_ENCODING, "dcz")], &coded);
        assert!(!is_right && asked.get(AVAILABLE_DICTIONARY).is_none(), "it is for documents");
    }

    #[test]
    fn the_longest_pattern_counts_and_of_equal_ones_the_last() {
        let kept = |file, pattern: &str, destinations: &[&str]| Dictionary {
            file,
            digest: [0; 32],
            pattern: pattern.into(),
            destinations: destinations.iter().map(|d| (*d).to_owned()).collect(),
        };
        let all = [
            kept(0, "/d/{a.html}", &[]),
            kept(1, "/d/*", &["document"]),
            kept(2, "/d/*", &["document"]),
            kept(3, "/d/app.*.js", &["script"]),
        ];
        let of = |path, destination| best(&all, path, destination).map(|dictionary| dictionary.file);
        assert_eq!(of("/d/a.html", "document"), Some(2));
        assert_eq!((of("/d/a.html", "script"), of("/e", "document")), (Some(0), None));
        assert_eq!((of("/d/app.1.js", "script"), of("/d/app.js", "script")), (Some(3), None));
    }

    #[test]
    fn an_offer_is_read() {
        let said = offer(r#"match="/a/{b*}", match-dest=("document" "frame"), id="x""#).unwrap();
        assert_eq!(said, ("/a/{b*}".to_owned(), vec!["document".to_owned(), "frame".to_owned()]));
        assert_eq!(offer(r#"match="/a*""#), Some(("/a*".to_owned(), vec![])));
        assert_eq!((offer(""), offer("match=/a"), offer("id=\"m\"")), (None, None, None));
    }
}
