//! The requests that an upstream receives for bytes with two readings (request smuggling, RFC 9112 section 11.2): none,
//! or one with a single reading. If nginx is installed it receives the same bytes, and the requests that both pass on
//! are the same.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Server, Site, Upstream, answer_last, wait_until, weir_under};

/// A request as an upstream reads it, strictly.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    line: String,
    /// The body, which identifies the case.
    body: Vec<u8>,
    is_whole: bool,
}

/// Records the bytes of each connection.
struct Recorder {
    address: SocketAddr,
    came: Arc<Mutex<Vec<Came>>>,
}

#[derive(Default)]
struct Came {
    bytes: Vec<u8>,
    /// The number of bytes that were examined.
    taken: usize,
}

impl Recorder {
    /// Starts a recorder, which answers the requests that it can read.
    fn start() -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, came) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<Came>>>::default());
        let all = Arc::clone(&came);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let (mut socket, all) = (socket.unwrap(), Arc::clone(&all));
                let at = {
                    let mut all = all.lock().unwrap();
                    all.push(Came::default());
                    all.len() - 1
                };
                std::thread::spawn(move || {
                    let (mut bytes, mut answered) = ([0; 4096], 0);
                    while let Ok(count @ 1..) = socket.read(&mut bytes) {
                        let whole = {
                            let mut all = all.lock().unwrap();
                            all[at].bytes.extend_from_slice(&bytes[..count]);
                            let read = read_strictly(&all[at].bytes).unwrap_or_default();
                            read.iter().filter(|seen| seen.is_whole).count()
                        };
                        for _ in answered..whole {
                            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                        }
                        answered = whole;
                    }
                });
            }
        });
        Recorder { address, came }
    }

    /// The bytes that have arrived since the last call.
    fn take(&self) -> Vec<Vec<u8>> {
        let mut all = self.came.lock().unwrap();
        let take = |came: &mut Came| came.bytes[std::mem::replace(&mut came.taken, came.bytes.len())..].to_vec();
        all.iter_mut().map(take).filter(|bytes| !bytes.is_empty()).collect()
    }
}

/// Returns the requests in these bytes, all of which must be complete, or the reason why another reading is possible.
fn read_strictly(mut bytes: &[u8]) -> Result<Vec<Seen>, String> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Err(format!("half a head: {}", bytes.escape_ascii()));
        };
        let head = std::str::from_utf8(&bytes[..end]).map_err(|error| error.to_string())?;
        let (line, framing) = head_strictly(head)?;
        let (body, taken, is_whole) = match framing {
            Framing::Length(length) => {
                let body = &bytes[end + 4..];
                (body[..length.min(body.len())].to_vec(), length.min(body.len()), body.len() >= length)
            }
            Framing::Chunked => chunks_strictly(&bytes[end + 4..])?,
        };
        all.push(Seen { line, body, is_whole });
        bytes = &bytes[end + 4 + taken..];
    }
    Ok(all)
}

enum Framing {
    Length(usize),
    Chunked,
}

fn head_strictly(head: &str) -> Result<(String, Framing), String> {
    let wrong = |why: &str| Err(format!("{why}: {head:?}"));
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap_or_default().to_string();
    let words: Vec<&str> = line.split(' ').collect();
    if words.len() != 3 || words[2] != "HTTP/1.1" || head.replace("\r\n", "").contains(['\r', '\n', '\0']) {
        return wrong("a line that others end elsewhere");
    }
    let (mut lengths, mut codings) = (Vec::new(), Vec::new());
    for field in lines {
        let Some((name, value)) = field.split_once(": ") else { return wrong("no field") };
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_name || value.trim() != value {
            return wrong("a field that others take for another");
        }
        match name.to_ascii_lowercase().as_str() {
            "content-length" => lengths.push(value),
            "transfer-encoding" => codings.push(value),
            "expect" => return wrong("Expect is not of this hop"),
            _ => {}
        }
    }
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match (&lengths[..], &codings[..]) {
        ([], []) => Ok((line, Framing::Length(0))),
        ([length], []) if digits(length) => Ok((line, Framing::Length(length.parse().expect("digits")))),
        ([], ["chunked"]) => Ok((line, Framing::Chunked)),
        _ => wrong("two framings"),
    }
}

/// Returns the content, the bytes that it took, and whether it is complete.
fn chunks_strictly(bytes: &[u8]) -> Result<(Vec<u8>, usize, bool), String> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let rest = &bytes[at..];
        let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else { return Ok((body, bytes.len(), false)) };
        let size = std::str::from_utf8(&rest[..end]).map_err(|error| error.to_string())?;
        let is_size = !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_hexdigit());
        let size = usize::from_str_radix(size, 16).ok().filter(|_| is_size).ok_or(format!("chunk of {size:?}"))?;
        let Some(chunk) = rest.get(end + 2..end + 2 + size + 2) else { return Ok((body, bytes.len(), false)) };
        if &chunk[size..] != b"\r\n" {
            return Err("a chunk that ends elsewhere".into());
        }
        body.extend_from_slice(&chunk[..size]);
        at += end + 2 + size + 2;
        if size == 0 {
            return Ok((body, at, true));
        }
    }
}

/// nginx as a proxy, killed when dropped.
struct Nginx {
    child: Child,
    socket: PathBuf,
    _folder: Site,
}

impl Nginx {
    /// `None` if it is not installed.
    fn before(upstream: SocketAddr) -> Option<Nginx> {
        let found = Command::new("nginx").arg("-v").output().is_ok();
        if !found {
            println!("SKIPPED: the same with nginx: it is not installed (scripts/setup.sh test)");
            return None;
        }
        let folder = Site::new();
        let (socket, temporary) = (folder.path("nginx.sock"), folder.path("temporary").display().to_string());
        std::fs::create_dir_all(&temporary).unwrap();
        let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|of| format!("{of}_temp_path {temporary}/{of};\n"))
            .concat();
        let text = format!(
            "daemon off;\nmaster_process off;\npid {temporary}/pid;\nerror_log stderr crit;\nevents {{}}\n\
             http {{\naccess_log off;\n{paths}server {{\nlisten unix:{};\nlocation / {{\nproxy_pass http://{upstream};\n\
             proxy_http_version 1.1;\nproxy_set_header Connection \"\";\nproxy_set_header Host $http_host;\n}}\n}}\n}}\n",
            socket.display()
        );
        folder.write("nginx.conf", text.as_bytes());
        let mut command = Command::new("nginx");
        command.arg("-p").arg(folder.served()).arg("-c").arg(folder.path("nginx.conf"));
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        let nginx = Nginx { child, socket, _folder: folder };
        wait_until("nginx", || UnixStream::connect(&nginx.socket).is_ok());
        Some(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The time without bytes after which a proxy counts as waiting for more. A slow proxy looks the same, which weakens
/// some of the test.
const SILENT_FOR: Duration = Duration::from_secs(1);

/// Sends this, and returns everything received.
fn converse(mut socket: impl Read + Write, bytes: &[u8]) -> String {
    let _ = socket.write_all(bytes);
    let (mut said, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match socket.read(&mut part) {
            Ok(0) => break,
            Ok(count) => said.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&said).into_owned()
}

const LAST: &str = "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

fn post(fields: &str, body: &str) -> String {
    format!("POST /first HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}{LAST}")
}

/// Requests that are never passed on.
fn refused() -> Vec<String> {
    let chunked = "5\r\nhello\r\n0\r\n\r\n";
    vec![
        post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        post("Transfer-Encoding: chunked\r\nContent-Length: 15\r\n", chunked),
        post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"),
        post("Content-Length: 5, 6\r\n", "hello"),
        post("Content-Length: +5\r\n", "hello"),
        post("Content-Length: 0x5\r\n", "hello"),
        post("Content-Length: 5 5\r\n", "hello"),
        post("Content-Length: 99999999999999999999\r\n", "hello"),
        post("Content-Length : 5\r\n", "hello"),
        post("Content-Length\r\n", "hello"),
        post("Transfer-Encoding: xchunked\r\n", chunked),
        post("Transfer-Encoding: chunked, identity\r\n", chunked),
        post("Transfer-Encoding: gzip\r\n", chunked),
        post("Transfer-Encoding:\r\n chunked\r\n", chunked),
        post("Transfer-Encoding: \x0bchunked\r\n", chunked),
        post("X: y\r\n folded\r\n", ""),
        post("X: y\nContent-Length: 5\r\n", "hello"),
        post("X: y\rContent-Length: 5\r\n", "hello"),
        post("X: a\0b\r\n", ""),
        format!("GET /first HTTP/1.1\nHost: a\n\n{LAST}"),
        format!("GET /first HTTP/1.1\r\n Host: a\r\n\r\n{LAST}"),
        format!("GET /first HTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n{LAST}"),
        format!("GET /first\tHTTP/1.1\r\nHost: a\r\n\r\n{LAST}"),
        format!("GET /first HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n{LAST}"),
        format!("GET /first HTTP/1.1\r\n\r\n{LAST}"),
    ]
}

/// Requests for which the upstream gets one reading, which may be cut off.
fn rewritten() -> Vec<String> {
    vec![
        post("Content-Length: 5\r\n", "hello"),
        post("Content-Length: 5\r\nExpect: 100-continue\r\n", "hello"),
        post("Transfer-Encoding: Chunked\r\n", "5;a=\"b\r\"\r\nhello\r\n0\r\n\r\n"),
        post("Transfer-Encoding: chunked\r\n", "005\r\nhello\r\n0\r\nTrailer: x\r\n\r\n"),
        post("Transfer-Encoding: chunked\r\n", "5\nhello\n0\n\n"),
        post("Transfer-Encoding: chunked\r\n", "5\r\nhelloX\r\n0\r\n\r\n"),
        post("Transfer-Encoding: chunked\r\n", "-5\r\nhello\r\n0\r\n\r\n"),
        post("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\nhello"),
        post("Connection: Content-Length\r\nContent-Length: 5\r\n", "hello"),
        post("Connection: Host, X-A\r\nX-A: 1\r\nContent-Length: 0\r\n", ""),
        post("Content_Length: 5\r\nContent-Length: 0\r\n", ""),
        format!("GET /first HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: nothing\r\n\r\n{LAST}"),
        format!(
            "GET /first HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AA\r\n\r\n{LAST}"
        ),
        format!("GET /first HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello{LAST}"),
        format!("\r\nGET /first HTTP/1.1\r\nHost: a\r\n\r\n{LAST}"),
        format!("GET http://b/first HTTP/1.1\r\nHost: a\r\n\r\n{LAST}"),
    ]
}

#[test]
fn an_upstream_has_one_reading_of_what_a_client_says() {
    let (of_weir, of_nginx) = (Recorder::start(), Recorder::start());
    let mut command = weir_under(&[]);
    command.args(["proxy", &of_weir.address.to_string(), "--listen", "127.0.0.1:0", "--uplink", "off"]);
    let server = Server::spawn(command);
    let nginx = Nginx::before(of_nginx.address);
    // The number of requests that reached an upstream complete, and of requests that nginx passed on in the same form.
    let (mut whole, mut alike) = (0, 0);
    let both = [(true, refused()), (false, rewritten())];
    for (is_refused, said) in both.into_iter().flat_map(|(is, all)| all.into_iter().map(move |said| (is, said))) {
        let socket = TcpStream::connect(server.address).unwrap();
        socket.set_read_timeout(Some(SILENT_FOR)).unwrap();
        let heard = converse(socket, said.as_bytes());
        let strictly = |bytes: Vec<u8>| read_strictly(&bytes).unwrap_or_else(|why| panic!("{said:?}: {why}"));
        let mut seen: Vec<Seen> = of_weir.take().into_iter().flat_map(strictly).collect();
        assert!(!is_refused || seen.is_empty(), "{said:?} reaches the upstream: {seen:?}");
        assert!(
            !is_refused || heard.starts_with("HTTP/1.1 4") || heard.starts_with("HTTP/1.1 501"),
            "{said:?}: {heard}"
        );
        whole += seen.iter().filter(|seen| seen.is_whole).count();
        let Some(nginx) = &nginx else { continue };
        let socket = UnixStream::connect(&nginx.socket).unwrap();
        socket.set_read_timeout(Some(SILENT_FOR)).unwrap();
        converse(socket, said.as_bytes());
        let mut theirs: Vec<Seen> =
            of_nginx.take().iter().flat_map(|bytes| read_strictly(bytes).unwrap_or_default()).collect();
        // Requests on several connections arrived in any order.
        seen.sort();
        theirs.sort();
        for (own, other) in seen.iter().zip(&theirs).filter(|(own, _)| own.is_whole) {
            assert_eq!(own, other, "{said:?}");
            alike += 1;
        }
    }
    assert!(whole >= rewritten().len(), "{whole} requests come through");
    assert!(nginx.is_none() || 2 * alike >= whole, "{alike} of {whole} are nginx's too");
    server.assert_alive();
}

/// Responses of old programs, and the status that clients get, with the body `hello` unless it is 502. The notebook has
/// the reasons.
const ODD_RESPONSES: [(&str, u16); 20] = [
    ("200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5     \r\nhello\r\n0     \r\n\r\n", 200),
    ("200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\t\r\nhello\r\n0\r\n\r\n", 200),
    ("200 OK\r\nX : a   b\r\nContent-Length: 5\r\n\r\nhello", 200),
    ("200 OK\r\nX: a   b\r\nContent-Length : 5\r\n\r\nhello", 200),
    ("200 OK\r\nX: a\r\n b\r\nContent-Length: 5\r\n\r\nhello", 200),
    ("600 Odd\r\nContent-Length: 5\r\n\r\nhello", 600),
    ("999 Odd\r\nContent-Length: 5\r\n\r\nhello", 999),
    ("200 OK\r\nContent-Length: 5\r\n 0\r\n\r\nhello", 502),
    ("200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 502),
    ("200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 200),
    ("200 OK\r\nSecured by Z: y\r\nContent-Length: 5\r\n\r\nhello", 200),
    ("200 OK\r\nSet-Cookie: a=b\x01c\r\nContent-Length: 5\r\n\r\nhello", 200),
    ("200 O\x01K\r\nContent-Length: 5\r\n\r\nhello", 200),
    ("200 OK\r\nContent-Length: 5\x01\r\n\r\nhello", 502),
    ("200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello", 502),
    ("200 OK\nX: a   b\nContent-Length: 5\n\nhello", 502),
    ("200 OK\r\nTransfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n", 502),
    ("200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n", 502),
    ("200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5 5\r\nhello\r\n0\r\n\r\n", 502),
    ("99 OK\r\nContent-Length: 5\r\n\r\nhello", 502),
];

/// Responses that nginx passes on too reach its clients in the same form.
#[test]
fn what_old_programs_answer_is_passed_on_where_it_has_one_end() {
    let upstream = Upstream::start(|asked, socket| {
        let nth: usize = asked.path()[1..].parse().unwrap();
        answer_last(socket, &[format!("HTTP/1.1 {}", ODD_RESPONSES[nth].0).as_bytes()])
    });
    let mut command = weir_under(&[]);
    command.args(["proxy", &upstream.address.to_string(), "--listen", "127.0.0.1:0", "--uplink", "off"]);
    let server = Server::spawn(command);
    let nginx = Nginx::before(upstream.address);
    let mut alike = 0;
    for (nth, (said, status)) in ODD_RESPONSES.into_iter().enumerate() {
        let ask = format!("GET /{nth} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let heard = converse(TcpStream::connect(server.address).unwrap(), ask.as_bytes());
        let is_passed = |heard: &str| heard.starts_with(&format!("HTTP/1.1 {status} ")) && heard.contains("hello");
        if status == 502 {
            assert!(heard.starts_with("HTTP/1.1 502 ") && !heard.contains("hello"), "{said:?}: {heard}");
            continue;
        }
        assert!(is_passed(&heard), "{said:?}: {heard}");
        assert_eq!(heard.contains("X: a   b\r\n"), said.contains("X"), "{said:?}: {heard}");
        let Some(nginx) = &nginx else { continue };
        let theirs = converse(UnixStream::connect(&nginx.socket).unwrap(), ask.as_bytes());
        if !theirs.starts_with("HTTP/1.1 502 ") {
            assert!(is_passed(&theirs), "{said:?}: {theirs}");
            alike += 1;
        }
    }
    assert!(nginx.is_none() || alike >= 4, "{alike} are nginx's too");
    server.assert_alive();
}
