use std::net::{IpAddr, SocketAddr};

use http_fields::{HeaderName, Request, Uri};
use units::Nanos;
use workload::{Ask, Part, Routes, STREAMS_MAX, Visitors};

use crate::tls::Tls;

/// The target, the clients and the waiting times of a load. The [`workload::Source`] determines the requests and their
/// instants.
#[derive(Debug, Clone)]
pub struct Plan {
    pub target: SocketAddr,
    /// The value of the `Host` field.
    pub host: String,
    /// The prefix of paths: a job of SIZE bytes requests this prefix, SIZE and `.bin`.
    pub prefix: String,
    /// The sites that the groups use instead, by the number of the group, like customers of one server. If empty, all
    /// groups use the host and prefix above.
    pub sites: Vec<Site>,
    /// The folders of routes. If present, the folder of the request's route is inserted between the prefix and SIZE.
    pub routes: Option<Routes>,
    /// The number of requests on each connection, one after another; 1 opens a connection for every request. A request
    /// that finds all connections in use opens another, as the generator of 003 did (section 2.4), so it never waits.
    pub per_connection: u64,
    /// The wait after the last request's instant. Jobs outstanding after it are incomplete.
    pub grace: Nanos,
    /// The patience of users; `None` if they wait to the end.
    pub patience: Option<Patience>,
    /// The groups that requests come from. If empty, the kernel chooses the address.
    pub clients: Vec<ClientGroup>,
    /// The seed of the assignment of jobs to groups.
    pub seed: u64,
    /// The maximum number of concurrent connections of a client. A request that finds all of them full waits, as in a
    /// browser. A client is a client of the trace or a user, or a group if requests have neither. `None` for no limit.
    pub client_connections: Option<u64>,
    pub protocol: Protocol,
    /// The TLS settings, if the protocol runs over TLS.
    pub tls: Option<Tls>,
}

/// The protocol, with the number of concurrent requests on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// One request at a time.
    #[default]
    Http1,
    /// Up to `streams` requests, and no more than the server allows. A request opens another connection only if all are
    /// full.
    Http2 { streams: u32 },
    /// The same numbers, over QUIC.
    Http3 { streams: u32 },
}

/// The patience of users (003, section 5.1 H): they wait this long, then close the connection and try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    pub abort_after: Nanos,
    /// The maximum number of retries.
    pub retries: u32,
}

/// The host and prefix of a customer's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Value of the `Host` field.
    pub host: String,
    pub prefix: String,
}

/// Clients behind one network path.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientGroup {
    pub name: String,
    /// Addresses of this machine, in the target's address family.
    pub addresses: Vec<IpAddr>,
    /// The share of the jobs that the group gets; all shares add up to 1. `None` for a group that only gets its own
    /// requests.
    pub share: Option<f64>,
    /// How users are assigned to the addresses; `None` for a random choice with equal probability.
    pub visitors: Option<Visitors>,
}

/// The reason why a plan cannot be carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    #[error("0 requests on each connection: it takes at least 1")]
    NoneOnAConnection,
    #[error("0 connections of a client: it takes at least 1, and a browser 6")]
    NoConnections,
    #[error("{0} streams on a connection: write 1 to {STREAMS_MAX}, for example 100")]
    Streams(u32),
    #[error("HTTP/3 is spoken over TLS alone: give the plan the TLS of HTTP/3")]
    NoTls,
    #[error("prefix `{0}` has to start and end with / and hold printable ASCII without spaces")]
    Prefix(String),
    #[error("host `{0}` has to be printable ASCII without spaces")]
    Host(String),
    #[error(
        "`{0}` cannot be asked for over HTTP/2 and HTTP/3: write a host, perhaps a port, and a path, such as localhost:8080/files/"
    )]
    Uri(String),
    #[error("users who abort after 0 s never see an answer: write 7s, say")]
    NoPatience,
    #[error("{0} retries: write up to {RETRIES_MAX}")]
    Retries(u32),
    /// The sum of the shares.
    #[error("the shares of the client groups add up to {0}: write shares above 0 that add up to 1")]
    Shares(f64),
    #[error("client group `{0}` has no address")]
    NoAddress(String),
    /// The group, and an address that cannot reach the target.
    #[error("client group `{0}`: {1} is not of the kind of address the server has")]
    Family(String, IpAddr),
    /// The group, an address from which this machine cannot send, and the reason.
    #[error("client group `{0}`: cannot send from {1}: {2}: give it to an interface of this machine")]
    NotOurs(String, IpAddr, #[source] rustix::io::Errno),
}

/// The maximum number of retries. Every attempt is recorded, and a higher number is a typing error.
const RETRIES_MAX: u32 = 1000;

/// The tolerance for the sum of shares, which are written with few digits.
const SHARES_WITHIN: f64 = 1e-6;

impl Plan {
    /// Creates the plan of one request on each connection, over HTTP/1.1 and without TLS, for files at `/`. All
    /// requests are made, and their responses have a second after the last of them.
    pub fn new(target: SocketAddr, host: &str) -> Plan {
        Plan {
            target,
            host: host.into(),
            prefix: "/".into(),
            sites: vec![],
            routes: None,
            per_connection: 1,
            grace: Nanos::from_secs(1),
            patience: None,
            clients: vec![],
            seed: 1,
            client_connections: None,
            protocol: Protocol::Http1,
            tls: None,
        }
    }

    /// Checks that the plan can be carried out, as far as this can be determined without a socket.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.per_connection == 0 {
            return Err(PlanError::NoneOnAConnection);
        }
        if self.client_connections == Some(0) {
            return Err(PlanError::NoConnections);
        }
        self.check_protocol()?;
        let own = (&self.host, &self.prefix);
        for (host, prefix) in std::iter::once(own).chain(self.sites.iter().map(|site| (&site.host, &site.prefix))) {
            if !is_token(host) {
                return Err(PlanError::Host(host.clone()));
            }
            if !(prefix.starts_with('/') && prefix.ends_with('/') && is_token(prefix)) {
                return Err(PlanError::Prefix(prefix.clone()));
            }
            if self.protocol != Protocol::Http1 {
                self.uri(host, format!("{prefix}0.bin")).map_err(|_| PlanError::Uri(format!("{host}{prefix}")))?;
            }
        }
        if self.patience.is_some_and(|patience| patience.abort_after == Nanos::ZERO) {
            return Err(PlanError::NoPatience);
        }
        if let Some(retries) = self.patience.map(|patience| patience.retries).filter(|&retries| retries > RETRIES_MAX) {
            return Err(PlanError::Retries(retries));
        }
        self.check_clients()
    }

    fn check_protocol(&self) -> Result<(), PlanError> {
        match self.protocol {
            Protocol::Http2 { streams } | Protocol::Http3 { streams } if !(1..=STREAMS_MAX).contains(&streams) => {
                Err(PlanError::Streams(streams))
            }
            Protocol::Http3 { .. } if self.tls.as_ref().and_then(Tls::quic).is_none() => Err(PlanError::NoTls),
            _ => Ok(()),
        }
    }

    fn check_clients(&self) -> Result<(), PlanError> {
        let shares = || self.clients.iter().filter_map(|group| group.share);
        let sum: f64 = shares().sum();
        let is_whole = (sum - 1.0).abs() < SHARES_WITHIN && shares().all(|share| share > 0.0);
        if !self.clients.is_empty() && !is_whole {
            return Err(PlanError::Shares(sum));
        }
        for group in &self.clients {
            if group.addresses.is_empty() {
                return Err(PlanError::NoAddress(group.name.clone()));
            }
            if let Some(&other) = group.addresses.iter().find(|address| address.is_ipv4() != self.target.is_ipv4()) {
                return Err(PlanError::Family(group.name.clone(), other));
            }
        }
        Ok(())
    }

    /// Appends the bytes of the request. The last one on a connection asks for the connection to be closed, so that the
    /// server closes it, as with the HTTP/1.0 clients of the papers.
    pub(crate) fn write_request(&self, ask: Ask, is_last: bool, out: &mut Vec<u8>) {
        use std::io::Write;
        let (host, path) = self.target_of(ask);
        let connection = if is_last { "close" } else { "keep-alive" };
        write!(out, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: {connection}\r\n\r\n")
            .expect("memory takes all");
    }

    /// The host and the path of a request.
    pub(crate) fn target_of(&self, ask: Ask) -> (&str, String) {
        let (host, prefix) = self.site(ask.group);
        let route = self.routes.map(|routes| routes.of(&ask));
        let folder = route.as_ref().map_or("", |route| std::str::from_utf8(route).expect("letters"));
        let slash = if route.is_some() { "/" } else { "" };
        (host, format!("{prefix}{folder}{slash}{}.bin", ask.size_bytes))
    }

    /// The request in the form of HTTP/2.
    pub(crate) fn request(&self, ask: Ask) -> Request<()> {
        let (host, path) = self.target_of(ask);
        let mut request = Request::new(());
        *request.uri_mut() = self.uri(host, path).expect("host and prefix were checked");
        let priority = ask.part.and_then(priority).map(|text| text.parse().expect("printable"));
        request.headers_mut().extend(priority.map(|value| (HeaderName::from_static("priority"), value)));
        request
    }

    fn uri(&self, host: &str, path: String) -> Result<Uri, http_fields::Error> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Uri::builder().scheme(scheme).authority(host).path_and_query(path).build()
    }

    /// The host and prefix for the requests of a group.
    fn site(&self, group: Option<u32>) -> (&str, &str) {
        let site = group.and_then(|group| self.sites.get(group as usize));
        site.map_or((&self.host, &self.prefix), |site| (&site.host, &site.prefix))
    }
}

/// The `priority` field of a request for a part of a page, as Chromium sends it over HTTP/2 and HTTP/3. Default values
/// are left out (RFC 9218 section 4); `None` if all values are the defaults.
pub(crate) fn priority(Part { urgency, is_incremental, .. }: Part) -> Option<String> {
    let urgency = (urgency != URGENCY_USUAL).then(|| format!("u={urgency}"));
    let words: Vec<String> = urgency.into_iter().chain(is_incremental.then(|| "i".into())).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// The urgency of a request without a priority.
pub(crate) const URGENCY_USUAL: u8 = 3;

/// Returns true for printable ASCII without spaces, which cannot end a request line or a field.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn plan(per_connection: u64) -> Plan {
        Plan { per_connection, ..Plan::new("127.0.0.1:9".parse().unwrap(), "h:9") }
    }

    pub(crate) fn group(name: &str, addresses: &[&str], share: f64) -> ClientGroup {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        ClientGroup { name: name.into(), addresses, share: Some(share), visitors: None }
    }

    fn wrong(change: impl Fn(&mut Plan)) -> String {
        let mut plan = plan(1);
        assert_eq!(plan.check(), Ok(()));
        change(&mut plan);
        plan.check().unwrap_err().to_string()
    }

    #[test]
    fn says_what_is_wrong() {
        assert!(wrong(|plan| plan.per_connection = 0).contains("at least 1"));
        assert!(wrong(|plan| plan.client_connections = Some(0)).contains("0 connections of a client"));
        for streams in [0, 1001] {
            let said = wrong(|plan| plan.protocol = Protocol::Http2 { streams });
            assert!(said.starts_with(&format!("{streams} streams on a connection: write 1 to 1000")), "{said}");
        }
        let said = wrong(|plan| (plan.protocol, plan.host) = (Protocol::Http2 { streams: 1 }, "a:b:c".into()));
        assert!(said.starts_with("`a:b:c/` cannot be asked for over HTTP/2 and HTTP/3"), "{said}");
        for prefix in ["", "a/", "/a", "/a b/", "/a\r\nX: y/", "/ä/"] {
            assert!(wrong(|plan| plan.prefix = prefix.into()).starts_with("prefix"), "{prefix}");
        }
        assert!(wrong(|plan| plan.host = "a\r\nb".into()).starts_with("host"));
        let now = Patience { abort_after: Nanos::ZERO, retries: 3 };
        assert!(wrong(|plan| plan.patience = Some(now)).contains("after 0 s"));
        let endless = Patience { abort_after: Nanos(1), retries: u32::MAX };
        assert!(wrong(|plan| plan.patience = Some(endless)).contains("retries: write up to 1000"));
    }

    #[test]
    fn says_what_is_wrong_with_clients() {
        let said = |groups: &[ClientGroup]| wrong(|plan| plan.clients = groups.to_vec());
        let one = group("one", &["127.0.0.2"], 0.5);
        assert!(said(std::slice::from_ref(&one)).contains("add up to 0.5"));
        assert!(said(&[group("a", &["127.0.0.2"], 1.5), group("b", &["127.0.0.3"], -0.5)]).contains("above 0"));
        assert!(said(&[group("a", &["127.0.0.2"], f64::NAN)]).contains("add up to NaN"));
        assert!(said(&[one.clone(), group("two", &[], 0.5)]).contains("`two` has no address"));
        assert!(said(&[one, group("two", &["::1"], 0.5)]).contains("`two`: ::1 is not of the kind"));
    }

    fn ask(size_bytes: u64, group: Option<u32>) -> Ask {
        Ask { at: Nanos(0), size_bytes, user: None, group, client: None, part: None }
    }

    #[test]
    fn a_route_is_a_folder() {
        let mut plan = plan(1);
        plan.routes = Some("1".parse().unwrap());
        assert_eq!(plan.target_of(ask(7, None)), ("h:9", "/aa/7.bin".to_owned()));
        assert_eq!(plan.request(ask(7, None)).uri().path(), "/aa/7.bin");
    }

    #[test]
    fn the_last_request_of_a_connection_asks_to_close_it() {
        let (mut plan, mut out) = (plan(2), vec![]);
        plan.prefix = "/files/".into();
        plan.write_request(ask(7, None), false, &mut out);
        plan.write_request(ask(8, Some(0)), true, &mut out);
        let expected = "GET /files/7.bin HTTP/1.1\r\nHost: h:9\r\nConnection: keep-alive\r\n\r\n\
                        GET /files/8.bin HTTP/1.1\r\nHost: h:9\r\nConnection: close\r\n\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn parts_of_pages_have_the_priorities_of_browsers() {
        let said = |urgency, is_incremental| priority(Part { page: 0, object: 0, urgency, is_incremental });
        assert_eq!(said(0, true).as_deref(), Some("u=0, i"));
        assert_eq!(said(1, false).as_deref(), Some("u=1"));
        assert_eq!(said(3, true).as_deref(), Some("i"));
        assert_eq!(said(3, false), None);
        let part = Some(Part { page: 0, object: 3, urgency: 2, is_incremental: true });
        let ask = Ask { at: Nanos(0), size_bytes: 7, user: Some(0), group: None, client: None, part };
        assert_eq!(plan(1).request(ask).headers()["priority"], "u=2, i");
        assert!(plan(1).request(Ask { part: None, ..ask }).headers().is_empty());
    }

    #[test]
    fn a_group_asks_at_its_site() {
        let mut plan = plan(1);
        plan.sites = vec![
            Site { host: "h".into(), prefix: "/a/".into() },
            Site { host: "b.example".into(), prefix: "/".into() },
        ];
        let mut out = vec![];
        (0..3).for_each(|group| plan.write_request(ask(5, Some(group)), true, &mut out));
        let text = String::from_utf8(out).unwrap();
        let asked: Vec<&str> = text.lines().filter(|line| !line.is_empty() && !line.starts_with("Conn")).collect();
        let expected = [
            "GET /a/5.bin HTTP/1.1",
            "Host: h",
            "GET /5.bin HTTP/1.1",
            "Host: b.example",
            "GET /5.bin HTTP/1.1",
            "Host: h:9",
        ];
        assert_eq!(asked, expected);
        plan.sites[1].prefix = "b".into();
        assert!(plan.check().unwrap_err().to_string().starts_with("prefix `b`"));
    }
}
