//! HTTPS to the authority. Each request uses a connection of its own and blocks the calling thread until it is
//! complete.
//!
//! instant-acme awaits futures; the futures that this client returns are ready at once, so no runtime is needed.

use std::error::Error as StdError;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::http1::Chunked;
use http_body::Body;
use http_fields::header::RETRY_AFTER;
use http_fields::{Method, Request, Response};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use thiserror::Error;
use tls::{ClientSession, Connector};

/// The maximum size of a response's head; the next constant limits its body.
const HEAD_BYTES_MAX: usize = 64 << 10;
const BODY_BYTES_MAX: usize = 1 << 20;
const FIELDS_MAX: usize = 64;
/// The addresses of the authority that are tried.
const ADDRESSES_MAX: usize = 4;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum time for an exchange once the connection is made.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(60);
const HTTPS_PORT: u16 = 443;
const READ_BYTES: usize = 16 << 10;
const USER_AGENT: &str = concat!("weir/", env!("CARGO_PKG_VERSION"), " instant-acme");

/// The authority could not be reached, or did not answer as an ACME server does.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct Unreached(pub String);

/// The parts of the last request and response that errors need; instant-acme does not report them.
#[derive(Debug, Default, Clone)]
pub struct Last {
    pub url: String,
    /// The wait that the response requested.
    pub retry_after: Option<Duration>,
}

/// The last exchange of a session.
#[derive(Debug, Default, Clone)]
pub struct LastExchange(Arc<Mutex<Last>>);

impl LastExchange {
    pub fn get(&self) -> Last {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set(&self, last: Last) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = last;
    }
}

/// The client of one session with an authority.
pub struct Client {
    connector: Connector,
    last: LastExchange,
}

impl Client {
    pub fn new(connector: Connector, last: LastExchange) -> Client {
        Client { connector, last }
    }

    fn exchange(&self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
        let url = request.uri().to_string();
        self.last.set(Last { url: url.clone(), retry_after: None });
        let exchanged = self.try_exchange(request);
        let response = exchanged.map_err(|why| Error::Other(Box::new(Unreached(format!("{url}: {why}")))))?;
        let (parts, body) = response.into_parts();
        let retry_after =
            parts.headers.get(RETRY_AFTER).and_then(|value| wait(value.to_str().ok()?, SystemTime::now()));
        self.last.set(Last { url: url.clone(), retry_after });
        // Problems come as JSON (RFC 8555 section 6.7); what else an error brings is of something before the authority.
        let is_json = body.trim_ascii_start().starts_with(b"{");
        if parts.status.is_server_error() || (parts.status.is_client_error() && !is_json) {
            let why = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
            return Err(Error::Other(Box::new(Unreached(format!("{url}: {}: {}", parts.status, why.trim())))));
        }
        Ok(BytesResponse { parts, body: Box::new(body) })
    }

    fn try_exchange(&self, request: Request<BodyWrapper<Bytes>>) -> Result<Response<Bytes>, String> {
        let (parts, body) = request.into_parts();
        let body = content(body);
        let host = parts.uri.host().ok_or("expected https:// and a host")?.trim_matches(['[', ']']).to_string();
        if parts.uri.scheme_str() != Some("https") {
            return Err("expected https://".into());
        }
        let port = parts.uri.port_u16().unwrap_or(HTTPS_PORT);
        let mut stream = connect(&host, port)?;
        let mut session = ClientSession::new(&self.connector, &host).ok_or("expected the name of a host")?;
        let deadline = Instant::now() + EXCHANGE_TIMEOUT;
        let head = head(&parts, body.len());
        let bytes = talk(&mut stream, &mut session, &[head.as_bytes(), &body].concat(), deadline)?;
        response(&bytes, parts.method == Method::HEAD)
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        Box::pin(std::future::ready(self.exchange(request)))
    }
}

/// Parses the wait in a Retry-After field: seconds or a date (RFC 9110 section 10.2.3).
fn wait(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let until = || Some(httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default());
    value.parse().ok().map(Duration::from_secs).or_else(until)
}

/// Returns the output of a future that is ready at once; `None` if it is not.
pub fn ready<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

/// Returns the bytes of a request's body, which instant-acme holds in memory.
fn content(mut body: BodyWrapper<Bytes>) -> Bytes {
    let frame = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
    match frame {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        _ => Bytes::new(),
    }
}

/// Returns the head of a request in HTTP/1.1 format.
fn head(parts: &http_fields::request::Parts, body_bytes: usize) -> String {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = parts.uri.authority().map_or("", |authority| authority.as_str());
    let mut head = format!("{} {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n", parts.method);
    head += &format!("User-Agent: {USER_AGENT}\r\nAccept-Language: en\r\n");
    for (name, value) in parts.headers.iter().filter(|(name, _)| *name != http_fields::header::USER_AGENT) {
        head += &format!("{name}: {}\r\n", value.to_str().unwrap_or_default());
    }
    if parts.method == Method::POST {
        head += &format!("Content-Length: {body_bytes}\r\n");
    }
    head + "\r\n"
}

fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    let addresses = (host, port).to_socket_addrs().map_err(|error| format!("cannot resolve {host}: {error}"))?;
    let mut failure = format!("{host} has no address");
    for address in addresses.take(ADDRESSES_MAX) {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = format!("cannot connect to {address}: {error}"),
        }
    }
    Err(failure)
}

/// Sends the request, and receives until the authority closes the connection or the response is complete.
fn talk(
    stream: &mut TcpStream,
    session: &mut ClientSession,
    request: &[u8],
    deadline: Instant,
) -> Result<Vec<u8>, String> {
    let (mut sealed, mut bytes, mut wire) = (0, Vec::new(), vec![0; READ_BYTES]);
    loop {
        while !session.is_handshaking() && sealed < request.len() {
            sealed += session.seal(&request[sealed..]);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("no whole response within {} s", EXCHANGE_TIMEOUT.as_secs()));
        }
        let timeouts = stream.set_read_timeout(Some(left)).and_then(|()| stream.set_write_timeout(Some(left)));
        timeouts.map_err(|error| error.to_string())?;
        if session.has_unsent()
            && let Some(error) = session.hand_down(stream as &mut dyn Write).error
        {
            return Err(error.to_string());
        }
        if !session.is_handshaking() && sealed < request.len() {
            continue;
        }
        let count = stream.read(&mut wire).map_err(|error| error.to_string())?;
        session.open(&wire[..count]).map_err(|broken| broken.of_server())?;
        take_plain(session, &mut bytes);
        if bytes.len() > HEAD_BYTES_MAX + BODY_BYTES_MAX {
            return Err("a response of more than 1 MiB".into());
        }
        if count == 0 || session.has_peer_ended() || is_whole(&bytes) {
            return Ok(bytes);
        }
    }
}

/// Appends all decrypted bytes.
fn take_plain(session: &mut ClientSession, bytes: &mut Vec<u8>) {
    while session.has_plain() {
        let begin = bytes.len();
        bytes.resize(begin + READ_BYTES, 0);
        let read = session.read(&mut bytes[begin..]);
        bytes.truncate(begin + read);
    }
}

/// Returns true if these bytes are a complete response of known length: the authority may leave the connection open.
fn is_whole(bytes: &[u8]) -> bool {
    match http::http1::parse_response(bytes) {
        Ok(Some(head)) if head.is_chunked => unchunked(&bytes[head.head_bytes..]).is_ok(),
        Ok(Some(head)) => head
            .content_length
            .is_some_and(|length| bytes.len() as u64 >= length.saturating_add(head.head_bytes as u64)),
        _ => false,
    }
}

/// Parses a complete response. A response to HEAD has no body.
fn response(bytes: &[u8], is_to_head: bool) -> Result<Response<Bytes>, String> {
    let framing = http::http1::parse_response(bytes).map_err(|malformed| malformed.to_string())?;
    let framing = framing.ok_or("the connection ended before a response")?;
    let mut lines = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut lines);
    parsed.parse(bytes).map_err(|error| error.to_string())?;
    let mut response = Response::builder().status(framing.status);
    for line in parsed.headers.iter() {
        response = response.header(line.name, line.value);
    }
    let rest = &bytes[framing.head_bytes..];
    let body = match framing.content_length {
        _ if is_to_head => Vec::new(),
        _ if framing.is_chunked => unchunked(rest)?,
        None => rest.to_vec(),
        Some(length) => {
            let length = usize::try_from(length).map_err(|_| "a body of more than 1 MiB")?;
            rest.get(..length).ok_or("the connection ended within a response")?.to_vec()
        }
    };
    if body.len() > BODY_BYTES_MAX {
        return Err("a body of more than 1 MiB".into());
    }
    response.body(Bytes::from(body)).map_err(|error| error.to_string())
}

fn unchunked(mut rest: &[u8]) -> Result<Vec<u8>, String> {
    let (mut decoder, mut body) = (Chunked::of_upstream(), Vec::new());
    while !rest.is_empty() && !decoder.is_done() {
        let taken = decoder.take(rest).map_err(|reject| reject.reason.to_string())?;
        body.extend_from_slice(taken.data);
        rest = &rest[taken.consumed..];
    }
    if decoder.is_done() { Ok(body) } else { Err("the connection ended within a response".into()) }
}

/// Returns the connection failure behind an error of instant-acme, if there is one.
pub fn unreached(error: &Error) -> Option<&Unreached> {
    let Error::Other(other) = error else { return None };
    let other: &(dyn StdError + 'static) = &**other;
    other.downcast_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_read_as_it_is_framed() {
        let whole = |text: &str| response(text.as_bytes(), false).map(|response| response.into_body());
        let head = "HTTP/1.1 201 Created\r\nReplay-Nonce: n\r\nLocation: https://a/1\r\n";
        assert_eq!(whole(&format!("{head}Content-Length: 2\r\n\r\n{{}}")).unwrap(), "{}");
        assert_eq!(whole(&format!("{head}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n")).unwrap(), "{}");
        assert_eq!(whole(&format!("{head}\r\n{{}}")).unwrap(), "{}");
        let fields = response(format!("{head}\r\n").as_bytes(), false).unwrap();
        assert_eq!(fields.headers()["replay-nonce"], "n");
        let to_head = response(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", true).unwrap();
        assert!(to_head.body().is_empty());
        for cut in ["", "HTTP/1.1 2", "SMTP", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"] {
            assert!(whole(cut).is_err(), "{cut}");
        }
        assert!(whole("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}").is_err());
    }

    #[test]
    fn a_wait_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (value, seconds) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sunday, 06-Nov-94 09:49:37 GMT", Some(3600)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("soon", None),
            ("-5", None),
        ] {
            assert_eq!(wait(value, now), seconds.map(Duration::from_secs), "{value}");
        }
    }

    #[test]
    fn the_end_of_a_response_is_seen_without_that_of_the_connection() {
        for (text, is) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{", false),
            ("HTTP/1.1 200 OK\r\n\r\n{}", false),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", false),
            ("HTTP/1.1 20", false),
        ] {
            assert_eq!(is_whole(text.as_bytes()), is, "{text}");
        }
    }

    #[test]
    fn a_request_is_http_1_1() {
        let request = Request::builder().method("POST").uri("https://a.test:14000/order?x=1");
        let (parts, ()) = request.header("Content-Type", "application/jose+json").body(()).unwrap().into_parts();
        let head = head(&parts, 7);
        assert!(head.starts_with("POST /order?x=1 HTTP/1.1\r\nHost: a.test:14000\r\nConnection: close\r\n"), "{head}");
        assert!(head.ends_with("content-type: application/jose+json\r\nContent-Length: 7\r\n\r\n"), "{head}");
    }

    #[test]
    fn a_future_that_waits_is_none() {
        assert_eq!(ready(async { 5 }), Some(5));
        assert_eq!(ready(std::future::pending::<()>()), None);
    }
}
