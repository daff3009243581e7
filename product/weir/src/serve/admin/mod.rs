//! The admin listener: a page about the server's activity, its metrics and its health, accessible only from this
//! machine.
//!
//! The main thread serves all clients together and waits for none ([`askers`]). Answers contain no paths and no clients
//! of requests, and requests change nothing.

mod askers;
mod history;
mod openmetrics;
mod process;

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime};

use cli::Failure;
use rustix::event::{PollFd, PollFlags};
use server::Server;

use self::askers::Askers;
use self::history::{History, SAMPLE_EVERY};
use self::openmetrics::Known;
use self::process::Process;
use super::status::{self, Asker};

/// The maximum number of clients accepted at the same time.
const ACCEPTS_MAX: usize = 64;
/// The pause after a client could not be accepted, because the next attempt would fail too.
const PAUSE: Duration = Duration::from_millis(250);

const NOT_ALLOWED: &str = "405 Method Not Allowed";

const PAGE: &str = include_str!("page.html");
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// Lets the page run its own script and connect to this listener, and forbids framing it.
const PAGE_POLICY: &str = "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n";

pub struct Admin {
    listener: TcpListener,
    askers: Askers,
    history: History,
    process: Process,
    /// The time of the next sample.
    sample_at: Instant,
}

struct Answer {
    status: &'static str,
    media_type: &'static str,
    body: String,
}

/// Reads the value of `--admin`, which must be a loopback address.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let address = config::listen_address(text).filter(|address| address.ip().is_loopback());
    address.ok_or_else(|| "expected a loopback address and a port, for example 127.0.0.1:9180".to_string())
}

impl Admin {
    /// Opens the listener at this address, reusing the given socket if it has this address.
    pub fn open(address: SocketAddr, taken: Option<OwnedFd>) -> Result<Admin, Failure> {
        let taken = taken.map(TcpListener::from).filter(|taken| taken.local_addr().is_ok_and(|own| own == address));
        let opened = taken.map_or_else(|| TcpListener::bind(address), Ok).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let (askers, history, sample_at) = (Askers::default(), History::default(), Instant::now());
            Ok(Admin { listener, askers, history, process: Process::open(), sample_at })
        });
        opened.map_err(|error| Failure::Failed(format!("cannot listen on {address} (--admin, server.admin): {error}")))
    }

    pub fn listener(&self) -> &TcpListener {
        &self.listener
    }

    /// The descriptors of the listener and of the clients, with the events that each waits for.
    pub fn descriptors(&self) -> impl Iterator<Item = PollFd<'_>> {
        [PollFd::new(&self.listener, PollFlags::IN)].into_iter().chain(self.askers.descriptors())
    }

    /// The time until the next sample is due or a client's time is up.
    pub fn time_left(&self) -> Duration {
        let due = self.askers.due().into_iter().chain([self.sample_at]).min();
        due.map_or(Duration::ZERO, |due| due.saturating_duration_since(Instant::now()))
    }

    /// Takes a sample if one is due, and drops clients whose time is up.
    pub fn on_time(&mut self, server: &Server) {
        let now = Instant::now();
        self.askers.forget_late(now);
        if now < self.sample_at {
            return;
        }
        self.sample_at = now + SAMPLE_EVERY;
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // A watchdog handles an event loop that does not answer.
        if let Some(status) = server.status() {
            self.history.add(now, since_1970.as_secs(), &status);
        }
    }

    /// Accepts waiting clients, and advances all clients.
    pub fn answer(&mut self, server: &Server) {
        let now = Instant::now();
        if self.accept(now).is_err() {
            std::thread::sleep(PAUSE);
        }
        let mut askers = std::mem::take(&mut self.askers);
        askers.go_on(now, |request| self.reply(request, server));
        self.askers = askers;
    }

    /// Accepts a limited number of waiting clients.
    fn accept(&mut self, now: Instant) -> std::io::Result<()> {
        for _ in 0..ACCEPTS_MAX {
            match self.listener.accept() {
                Ok((stream, _)) => self.askers.add(stream, now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn reply(&self, request: &[u8], server: &Server) -> Vec<u8> {
        let Answer { status, media_type, body } = self.answer_to(request, server);
        let allow = if status == NOT_ALLOWED { "Allow: GET, HEAD\r\n" } else { "" };
        let (length, date) = (body.len(), http::HttpDate::new(SystemTime::now()));
        let date = String::from_utf8_lossy(date.as_bytes()).into_owned();
        let policy = if media_type == HTML { PAGE_POLICY } else { "" };
        let head = format!(
            "HTTP/1.1 {status}\r\nServer: weir\r\nDate: {date}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\n{allow}{policy}Connection: close\r\n\r\n"
        );
        let body = if request.starts_with(b"HEAD ") { "" } else { &body };
        (head + body).into_bytes()
    }

    fn answer_to(&self, request: &[u8], server: &Server) -> Answer {
        let text = |status, body: &str| Answer { status, media_type: TEXT, body: format!("{body}\n") };
        let unready = || text("503 Service Unavailable", "an event loop does not answer");
        let json = |body| Answer { status: "200 OK", media_type: JSON, body };
        let Ok(Some(head)) = http::http1::parse_request(request, &http::Limits::default()) else {
            return text("400 Bad Request", "this is no request");
        };
        let request = head.request;
        // A page of another site could reach this listener by a name of its own (DNS rebinding).
        if !request.fields.host.is_some_and(is_this_machine) {
            return text("421 Misdirected Request", "use localhost or an address of this machine");
        }
        if !matches!(request.method, http::Method::Get | http::Method::Head) {
            return text(NOT_ALLOWED, "only GET and HEAD");
        }
        match request.path {
            b"/" => Answer { status: "200 OK", media_type: HTML, body: PAGE.into() },
            b"/healthz" => text("200 OK", "ok"),
            b"/status" => json(status::answer(server, Asker::Anyone)),
            b"/history" => json(self.history.json().to_string()),
            b"/readyz" => server.status().map_or_else(unready, |_| text("200 OK", "ready")),
            b"/metrics" => Known::of(server, self.process.figures()).map_or_else(unready, |known| Answer {
                status: "200 OK",
                media_type: openmetrics::MEDIA_TYPE,
                body: openmetrics::text_of(known),
            }),
            _ => text("404 Not Found", "see /, /metrics, /status, /history, /healthz and /readyz"),
        }
    }
}

fn is_this_machine(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let without_port = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    without_port.eq_ignore_ascii_case("localhost") || without_port.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_may_be_named() {
        for (host, is_ours) in [
            ("localhost", true),
            ("localhost:9180", true),
            ("127.0.0.1:9180", true),
            ("[::1]:9180", true),
            ("evil.example:9180", false),
            ("192.0.2.1", false),
            ("", false),
        ] {
            assert_eq!(is_this_machine(host.as_bytes()), is_ours, "{host}");
        }
        assert!(address("127.0.0.1:9180").is_ok() && address("localhost:1").is_ok());
        assert!(address(":9180").is_err() && address("192.0.2.1:80").is_err() && address("x").is_err());
    }
}
