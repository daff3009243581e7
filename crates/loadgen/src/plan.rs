use std::fmt;
use std::net::SocketAddr;

use units::Nanos;

/// What to ask for, when, and for how long to wait.
#[derive(Debug, Clone)]
pub struct Plan {
    pub target: SocketAddr,
    /// Value of the `Host` field.
    pub host: String,
    /// In order of their instants.
    pub requests: Vec<Request>,
    /// Consecutive requests on each connection; 1 opens a connection for every request. With more, a request is still
    /// submitted at its own instant: it is pipelined if the one before it has not been answered.
    pub per_connection: u64,
    /// How long after the last request's instant outstanding jobs are declared incomplete.
    pub grace: Nanos,
}

/// One request, submitted at its own instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Counted from the start of the run.
    pub at: Nanos,
    /// Path and query as they go on the wire.
    pub path: String,
    /// Size of body that has to come; `None` accepts any.
    pub size_bytes: Option<u64>,
}

/// A plan that cannot be carried out: what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanError {
    NoRequests,
    NoneOnAConnection,
    /// Request number, from 0, that comes before its predecessor.
    OutOfOrder(usize),
    /// Request number, from 0, and its path.
    Path(usize, String),
    Host(String),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::NoRequests => write!(f, "there is nothing to ask for: the plan has no requests"),
            PlanError::NoneOnAConnection => write!(f, "0 requests on each connection: it takes at least 1"),
            PlanError::OutOfOrder(n) => write!(f, "request {n} comes before its predecessor: sort them by instant"),
            PlanError::Path(n, path) => {
                write!(f, "path `{path}` of request {n} has to start with / and hold printable ASCII without spaces")
            }
            PlanError::Host(host) => write!(f, "host `{host}` has to be printable ASCII without spaces"),
        }
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// Whether it can be carried out.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.requests.is_empty() {
            return Err(PlanError::NoRequests);
        }
        if self.per_connection == 0 {
            return Err(PlanError::NoneOnAConnection);
        }
        if !is_token(&self.host) {
            return Err(PlanError::Host(self.host.clone()));
        }
        if let Some(n) = self.requests.windows(2).position(|pair| pair[1].at < pair[0].at) {
            return Err(PlanError::OutOfOrder(n + 1));
        }
        match self.requests.iter().position(|request| !request.path.starts_with('/') || !is_token(&request.path)) {
            Some(n) => Err(PlanError::Path(n, self.requests[n].path.clone())),
            None => Ok(()),
        }
    }

    /// When the last request is due; the run is over `grace` after it.
    pub(crate) fn last_at(&self) -> Nanos {
        self.requests.last().map_or(Nanos::ZERO, |request| request.at)
    }

    /// Number of the connection that job `job` belongs on.
    pub(crate) fn group_of(&self, job: usize) -> u64 {
        job as u64 / self.per_connection
    }

    /// Whether no later job belongs on the same connection.
    pub(crate) fn is_last_of_group(&self, job: usize) -> bool {
        job + 1 == self.requests.len() || self.group_of(job + 1) != self.group_of(job)
    }

    /// Appends the bytes of request `job`. The last one on a connection asks for it to be closed, so that the server
    /// is the one to close it, as with the HTTP/1.0 clients of the papers.
    pub(crate) fn write_request(&self, job: usize, out: &mut Vec<u8>) {
        let connection = if self.is_last_of_group(job) { "close" } else { "keep-alive" };
        for part in
            ["GET ", &self.requests[job].path, " HTTP/1.1\r\nHost: ", &self.host, "\r\nConnection: ", connection]
        {
            out.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(b"\r\n\r\n");
    }
}

/// Printable ASCII without spaces: nothing in it can end a request line or a field.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One request a millisecond for each of `sizes`.
    pub(crate) fn plan(sizes: &[u64], per_connection: u64) -> Plan {
        let request = |(n, &size): (usize, &u64)| Request {
            at: Nanos::from_millis(n as u64),
            path: format!("/{size}.bin"),
            size_bytes: Some(size),
        };
        Plan {
            target: "127.0.0.1:9".parse().unwrap(),
            host: "h:9".into(),
            requests: sizes.iter().enumerate().map(request).collect(),
            per_connection,
            grace: Nanos::from_secs(1),
        }
    }

    fn wrong(change: impl Fn(&mut Plan)) -> String {
        let mut plan = plan(&[1, 2, 3], 1);
        assert_eq!(plan.check(), Ok(()));
        change(&mut plan);
        plan.check().unwrap_err().to_string()
    }

    #[test]
    fn says_what_is_wrong() {
        assert!(wrong(|plan| plan.requests.clear()).contains("no requests"));
        assert!(wrong(|plan| plan.per_connection = 0).contains("at least 1"));
        assert!(wrong(|plan| plan.requests.swap(1, 2)).contains("request 2 comes before"));
        for path in ["", "a", "/a b", "/a\r\nX: y", "/ä"] {
            assert!(wrong(|plan| plan.requests[1].path = path.into()).contains("of request 1"), "{path}");
        }
        assert!(wrong(|plan| plan.host = "a\r\nb".into()).starts_with("host"));
    }

    #[test]
    fn groups_consecutive_jobs() {
        let plan = plan(&[1; 5], 2);
        assert_eq!((0..5).map(|job| plan.group_of(job)).collect::<Vec<_>>(), [0, 0, 1, 1, 2]);
        let last = (0..5).map(|job| plan.is_last_of_group(job)).collect::<Vec<_>>();
        assert_eq!(last, [false, true, false, true, true]);
    }

    #[test]
    fn the_last_request_of_a_connection_asks_to_close_it() {
        let (plan, mut out) = (plan(&[7, 8], 2), vec![]);
        plan.write_request(0, &mut out);
        plan.write_request(1, &mut out);
        let expected = "GET /7.bin HTTP/1.1\r\nHost: h:9\r\nConnection: keep-alive\r\n\r\n\
                        GET /8.bin HTTP/1.1\r\nHost: h:9\r\nConnection: close\r\n\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
