//! The fields of a request: which are allowed where (RFC 9114 section 4). What they mean, and how many may come, is not HTTP/3's.

use http::{OwnedRequest, Refused, RequestBuilder};
use mux::Priority;

use super::priority;

/// Names of a connection, not of a message (section 4.2).
const OF_CONNECTION: [&[u8]; 5] = [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];

/// Collects the fields of one request.
#[derive(Debug)]
pub struct Fields<'a> {
    request: &'a mut RequestBuilder,
    method: Option<Method>,
    has_scheme: bool,
    has_authority: bool,
    has_path: bool,
    has_protocol: bool,
    /// It may have one.
    has_tunnels: bool,
    has_host: bool,
    is_past_pseudo: bool,
    is_malformed: bool,
    content_bytes: Option<u64>,
    priority: Priority,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Connect,
    Other,
}

/// A request that was collected.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    pub fields: Result<Box<OwnedRequest>, Box<Refused>>,
    /// What it says of the bytes of its content.
    pub content_bytes: Option<u64>,
    pub priority: Priority,
}

impl<'a> Fields<'a> {
    pub fn new(request: &'a mut RequestBuilder, has_tunnels: bool) -> Fields<'a> {
        request.begin();
        Fields {
            request,
            method: None,
            has_scheme: false,
            has_authority: false,
            has_path: false,
            has_protocol: false,
            has_tunnels,
            has_host: false,
            is_past_pseudo: false,
            is_malformed: false,
            content_bytes: None,
            priority: priority::DEFAULT,
        }
    }

    /// False: the request is malformed, and the rest of no use.
    pub fn push(&mut self, name: &[u8], value: &[u8]) -> bool {
        let is_allowed = match name {
            [b':', ..] => self.pseudo(name, value),
            _ => self.regular(name, value),
        };
        self.is_malformed |= !is_allowed || value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n'));
        if !self.is_malformed {
            self.request.push(name, value);
        }
        !self.is_malformed
    }

    /// Each once, before all others, and no unknown one (section 4.3).
    fn pseudo(&mut self, name: &[u8], value: &[u8]) -> bool {
        let was_there = match name {
            b":method" => {
                let method = if value == b"CONNECT" { Method::Connect } else { Method::Other };
                self.method.replace(method).is_some() || value.is_empty()
            }
            b":scheme" => std::mem::replace(&mut self.has_scheme, true) || value.is_empty(),
            b":authority" => std::mem::replace(&mut self.has_authority, true) || value.is_empty(),
            b":path" => std::mem::replace(&mut self.has_path, true) || value.is_empty(),
            b":protocol" if self.has_tunnels => std::mem::replace(&mut self.has_protocol, true) || value.is_empty(),
            _ => true,
        };
        !was_there && !self.is_past_pseudo
    }

    fn regular(&mut self, name: &[u8], value: &[u8]) -> bool {
        self.is_past_pseudo = true;
        if name.is_empty() || !name.iter().all(|&byte| is_name_byte(byte)) || OF_CONNECTION.contains(&name) {
            return false;
        }
        match name {
            b"te" => value.eq_ignore_ascii_case(b"trailers"),
            b"host" => {
                self.has_host |= !value.is_empty();
                true
            }
            b"content-length" => match (decimal(value), self.content_bytes) {
                (Some(bytes), None) => {
                    self.content_bytes = Some(bytes);
                    true
                }
                (Some(bytes), Some(before)) => bytes == before,
                (None, _) => false,
            },
            b"priority" => {
                self.priority = priority::parse(value);
                true
            }
            _ => true,
        }
    }

    /// The request; `None`: it is malformed (H3_MESSAGE_ERROR).
    pub fn finish(self) -> Option<Request> {
        let is_whole = match self.method? {
            // RFC 9220 section 3, as RFC 8441 section 4 has it.
            Method::Connect if self.has_protocol => self.has_authority && self.has_scheme && self.has_path,
            Method::Connect => self.has_authority && !self.has_scheme && !self.has_path,
            Method::Other => {
                self.has_scheme && self.has_path && (self.has_authority || self.has_host) && !self.has_protocol
            }
        };
        let Fields { content_bytes, priority, .. } = self;
        (is_whole && !self.is_malformed).then(|| Request { fields: self.request.finish(), content_bytes, priority })
    }
}

/// A token (RFC 9110 section 5.6.2) in lower case.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn decimal(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(value).ok()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use http::Limits;

    use super::*;

    const GET: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];

    fn request(fields: &[(&str, &str)]) -> Option<Request> {
        let mut builder = RequestBuilder::new(Limits::default());
        let mut collected = Fields::new(&mut builder, true);
        let _ = fields.iter().all(|(name, value)| collected.push(name.as_bytes(), value.as_bytes()));
        collected.finish()
    }

    fn with(more: &[(&str, &str)]) -> Option<Request> {
        request(&[&GET[..], more].concat())
    }

    #[test]
    fn a_request_has_its_fields() {
        let request = with(&[("priority", "u=1, i"), ("content-length", "3"), ("te", "trailers")]).unwrap();
        let Ok(fields) = request.fields else { panic!("it is whole") };
        assert_eq!((fields.view().path, fields.view().fields.host), (&b"/"[..], Some(&b"a"[..])));
        assert_eq!(request.content_bytes, Some(3));
        assert_eq!(request.priority, Priority { urgency: 1, is_incremental: true });
    }

    /// As over HTTP/1.1.
    #[test]
    fn a_length_that_is_said_twice_is_refused_with_a_response() {
        let request = with(&[("content-length", "3"), ("content-length", "3")]).unwrap();
        assert_eq!(request.content_bytes, Some(3));
        assert_eq!(request.fields.unwrap_err().reject.reason, "content-length is not one decimal number");
    }

    #[test]
    fn what_is_malformed_is_refused() {
        assert!(with(&[]).is_some());
        for more in [
            ("Accept", "a"),
            ("", "a"),
            ("a b", "a"),
            ("connection", "close"),
            ("keep-alive", "1"),
            ("proxy-connection", "close"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "gzip"),
            (":path", "/"),
            (":status", "200"),
            (":protocol", "websocket"),
            (":other", "a"),
            ("content-length", "-1"),
            ("content-length", ""),
            ("content-length", "99999999999999999999"),
            ("a", "b\r\nc: d"),
            ("a", "\0"),
        ] {
            assert_eq!(with(&[more]), None, "{more:?}");
        }
        assert_eq!(with(&[("content-length", "1"), ("content-length", "2")]), None);
        assert_eq!(request(&[("a", "b"), GET[0], GET[1], GET[2], GET[3]]), None, "pseudo-fields behind others");
        for missing in [0, 1, 3] {
            let mut fields = GET.to_vec();
            fields.remove(missing);
            assert_eq!(request(&fields), None, "without {:?}", GET[missing]);
        }
        for empty in 0..4 {
            let mut fields = GET;
            fields[empty].1 = "";
            assert_eq!(request(&fields), None, "empty {:?}", GET[empty]);
        }
    }

    #[test]
    fn the_host_is_an_authority_and_connect_has_nothing_else() {
        let [method, scheme, authority, path] = GET;
        assert!(request(&[method, scheme, path, ("host", "a")]).is_some());
        assert_eq!(request(&[method, scheme, path]), None);
        let connect = (":method", "CONNECT");
        assert!(request(&[connect, authority]).is_some());
        assert_eq!(request(&[connect]), None);
        assert_eq!(request(&[connect, authority, path]), None);
        assert_eq!(request(&[connect, authority, scheme]), None);
        // Nothing but a protocol.
        let protocol = (":protocol", "websocket");
        let tunnel = request(&[connect, authority, scheme, path, protocol]).unwrap();
        assert_eq!(tunnel.fields.map(|fields| fields.view().method), Ok(http::Method::Connect));
        assert_eq!(request(&[connect, authority, protocol]), None);
        assert_eq!(request(&[connect, authority, scheme, path, protocol, protocol]), None);
        let mut builder = RequestBuilder::new(Limits::default());
        assert!(!Fields::new(&mut builder, false).push(b":protocol", b"websocket"), "not where it was not announced");
    }
}
