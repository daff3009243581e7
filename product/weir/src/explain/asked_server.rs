//! A server inside this process that answers single requests.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use cli::Failure;
use config::{Access, Configuration, Networks};
use server::Server;
use server::service_manager::Account;

use crate::serve::run;

const HEAD_BYTES_MAX: u64 = 64 << 10;
/// The maximum length of a body that is read; the longest dictionary has this length.
const BODY_BYTES_MAX: u64 = 4 << 20;
/// The maximum wait for an answer. It is long because a disk may be slow.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// The address from which requests come.
const ASKER: &str = "127.0.0.1";

/// A server inside this process. Dropping it stops the server.
pub struct AskedServer(Server);

/// The answer to one request.
pub struct Answered {
    /// The status without the version, for example `200 OK`.
    pub status: String,
    /// The lines of the fields.
    pub fields: Vec<String>,
    pub body: Vec<u8>,
}

impl AskedServer {
    pub fn start(configuration: &Configuration, file: &Path) -> Result<AskedServer, Failure> {
        Ok(AskedServer(run::start(alone(configuration), file, (Ipv4Addr::LOCALHOST, 0).into())?))
    }

    /// Requests a URL with these fields. Returns the answer without waiting for its body.
    pub fn head(&self, url: &str, headers: &[String]) -> io::Result<Answered> {
        ask(self.0.address(), &request(url, headers), 0)
    }

    /// Like [`AskedServer::head`], but includes the body. Fails if the body is too long.
    pub fn whole(&self, url: &str, headers: &[String]) -> io::Result<Answered> {
        ask(self.0.address(), &request(url, headers), BODY_BYTES_MAX)
    }
}

impl Answered {
    /// The first value of a field.
    pub fn value(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter().filter_map(|line| line.split_once(": "));
        fields.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn is_ok(&self) -> bool {
        self.status.starts_with("200")
    }
}

/// Returns the configuration of that server: without TLS and logs, and with a user only if this process may switch to
/// that user.
fn alone(configuration: &Configuration) -> Configuration {
    let mut alone = configuration.clone();
    alone.settings.uplink.shaping = config::Shaping::Off;
    let process = &mut alone.settings.process;
    (process.access_log, process.admin, process.sandbox) = (None, None, false);
    let is_root = rustix::process::geteuid().is_root();
    process.user = process.user.take().filter(|user| is_root && Account::find(user, process.group.as_deref()).is_ok());
    process.group = process.group.take().filter(|_| process.user.is_some());
    // This process is trusted like a proxy, so that its requests can give their scheme.
    process.trusted_proxies = ASKER.parse().into_iter().collect();
    (alone.classes, alone.rules) = (Vec::new(), Vec::new());
    for site in &mut alone.sites {
        site.answers.access.iter_mut().for_each(let_in);
        (site.access_log, site.class, site.https.certificate) = (None, None, None);
    }
    alone
}

/// Admits this process, which stands in for the client. Responses that are only for some clients stay private.
fn let_in(access: &mut Access) {
    let loopback = if access.is_private() { "127.0.0.0/8".parse().ok() } else { None };
    (access.users, access.auth) = (None, None);
    access.networks = Networks { allow: loopback.into_iter().collect(), deny: Vec::new() };
}

fn ask(server: SocketAddr, request: &str, body_bytes_max: u64) -> io::Result<Answered> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(WAIT_MAX))?;
    stream.write_all(request.as_bytes())?;
    let (mut head, mut byte) = (Vec::new(), [0]);
    let mut bytes = io::BufReader::new(stream.take(HEAD_BYTES_MAX + body_bytes_max + 1));
    while !head.ends_with(b"\r\n\r\n") && bytes.read(&mut byte)? == 1 {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head);
    let mut lines = head.lines().filter(|line| !line.is_empty());
    let status = lines.next().and_then(|line| line.split_once(' ')).map_or("", |(_, status)| status).into();
    let fields = lines.filter(|line| !line.starts_with("Connection:")).map(str::to_string).collect();
    let mut body = Vec::new();
    if body_bytes_max > 0 {
        bytes.read_to_end(&mut body)?;
    }
    match body.len() as u64 > body_bytes_max {
        true => Err(io::Error::other("a longer body than any dictionary")),
        false => Ok(Answered { status, fields, body }),
    }
}

fn request(url: &str, headers: &[String]) -> String {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let rest = rest.split('#').next().unwrap_or_default();
    let (host, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let slash = if target.starts_with('/') { "" } else { "/" };
    let target: String = target.bytes().map(in_target).collect();
    let fields: String = headers.iter().map(|field| format!("{}\r\n", field.replace(['\r', '\n'], " "))).collect();
    // A server that has just started would otherwise send the uncoded file while it makes the coded form.
    let coded =
        if fields.to_ascii_lowercase().contains("accept-encoding:") { "Accept-Encoding: identity;q=0\r\n" } else { "" };
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    format!(
        "GET {slash}{target} HTTP/1.1\r\nHost: {host}\r\n{fields}{coded}X-Forwarded-Proto: {scheme}\r\nConnection: close\r\n\r\n"
    )
}

/// Formats a byte as clients send it in a request target.
fn in_target(byte: u8) -> String {
    if byte.is_ascii_graphic() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_becomes_a_request() {
        for (url, line) in [
            ("http://a.org", "GET / HTTP/1.1\r\nHost: a.org\r\n"),
            ("http://a.org:8080?q#f", "GET /?q HTTP/1.1\r\nHost: a.org:8080\r\n"),
            ("https://a.org/b c/ü", "GET /b%20c/%C3%BC HTTP/1.1\r\nHost: a.org\r\n"),
        ] {
            let headers = ["X-A: b\r\nX-C: d".to_string()];
            let request = request(url, &headers);
            let scheme = url.split(':').next().unwrap();
            let rest = format!("X-A: b  X-C: d\r\nX-Forwarded-Proto: {scheme}\r\nConnection: close\r\n\r\n");
            assert_eq!(request, format!("{line}{rest}"));
        }
    }
}
