use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use http::Request;
use units::Nanos;

use crate::log::Entry;

/// What the access log will say of a response that is still being sent.
pub struct Line {
    pub method: String,
    pub target: String,
    pub minor_version: u8,
    pub referer: Option<String>,
    pub user_agent: Option<String>,
    pub status: u16,
    pub body_bytes: u64,
    pub head_bytes: u64,
    pub arrived_at: Nanos,
}

impl Line {
    pub fn new(request: &Request, arrived_at: Nanos) -> Line {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Line {
            method: request.method_token.to_string(),
            target: text(request.target),
            minor_version: request.minor_version,
            referer: request.fields.referer.map(text),
            user_agent: request.fields.user_agent.map(text),
            status: 0,
            body_bytes: 0,
            head_bytes: 0,
            arrived_at,
        }
    }

    /// For what could not be read as a request.
    pub fn refused(arrived_at: Nanos) -> Line {
        Line {
            method: String::new(),
            target: String::new(),
            minor_version: 1,
            referer: None,
            user_agent: None,
            status: 0,
            body_bytes: 0,
            head_bytes: 0,
            arrived_at,
        }
    }

    /// The entry for the log, when `body_bytes` of the body were sent.
    pub fn entry(&self, remote: SocketAddr, body_bytes: u64, now: Nanos) -> Entry<'_> {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Entry {
            remote,
            unix_s: unix.as_secs(),
            method: self.method.as_bytes(),
            target: self.target.as_bytes(),
            minor_version: self.minor_version,
            status: self.status,
            body_bytes,
            referer: self.referer.as_deref().map(str::as_bytes),
            user_agent: self.user_agent.as_deref().map(str::as_bytes),
            response_time: now - self.arrived_at,
            outcome: if body_bytes == self.body_bytes { "complete" } else { "cut" },
        }
    }
}
