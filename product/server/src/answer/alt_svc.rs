//! The field that leads browsers to HTTP/3 (RFC 7838).

use http::Response;

use super::{Handler, To};
use crate::body::Body;

/// The lifetime of an Alt-Svc entry for HTTP/3, in seconds (RFC 7838 section 3.1).
const ALT_SVC_AGE_S: u32 = 24 * 3600;

impl Handler {
    /// Adds the Alt-Svc field if the site is served over HTTP/3.
    pub(super) fn with_alternative(&self, to: To, response: Response<Body>) -> Response<Body> {
        let Some(port) = to.http3_port else { return response };
        response.with("Alt-Svc", alternative(port.get()).as_bytes())
    }
}

/// The value of Alt-Svc for HTTP/3 at this port (RFC 7838).
pub fn alternative(port: u16) -> String {
    format!("h3=\":{port}\"; ma={ALT_SVC_AGE_S}")
}
