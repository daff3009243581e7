use std::fmt;

use thiserror::Error;

/// A status code (RFC 9110 section 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub u16);

/// Passes a row for each status (constant, code, reason phrase) to another macro, so that all tables are made from one
/// list.
macro_rules! with_statuses {
    ($table:ident) => {
        $table! {
            CONTINUE 100 "Continue"
            SWITCHING_PROTOCOLS 101 "Switching Protocols"
            EARLY_HINTS 103 "Early Hints"
            OK 200 "OK"
            CREATED 201 "Created"
            ACCEPTED 202 "Accepted"
            NO_CONTENT 204 "No Content"
            PARTIAL_CONTENT 206 "Partial Content"
            MOVED_PERMANENTLY 301 "Moved Permanently"
            FOUND 302 "Found"
            SEE_OTHER 303 "See Other"
            NOT_MODIFIED 304 "Not Modified"
            TEMPORARY_REDIRECT 307 "Temporary Redirect"
            PERMANENT_REDIRECT 308 "Permanent Redirect"
            BAD_REQUEST 400 "Bad Request"
            UNAUTHORIZED 401 "Unauthorized"
            FORBIDDEN 403 "Forbidden"
            NOT_FOUND 404 "Not Found"
            METHOD_NOT_ALLOWED 405 "Method Not Allowed"
            REQUEST_TIMEOUT 408 "Request Timeout"
            CONFLICT 409 "Conflict"
            GONE 410 "Gone"
            LENGTH_REQUIRED 411 "Length Required"
            PRECONDITION_FAILED 412 "Precondition Failed"
            CONTENT_TOO_LARGE 413 "Content Too Large"
            URI_TOO_LONG 414 "URI Too Long"
            RANGE_NOT_SATISFIABLE 416 "Range Not Satisfiable"
            EXPECTATION_FAILED 417 "Expectation Failed"
            MISDIRECTED 421 "Misdirected Request"
            UNPROCESSABLE_CONTENT 422 "Unprocessable Content"
            UPGRADE_REQUIRED 426 "Upgrade Required"
            TOO_MANY_REQUESTS 429 "Too Many Requests"
            HEAD_TOO_LARGE 431 "Request Header Fields Too Large"
            INTERNAL_SERVER_ERROR 500 "Internal Server Error"
            NOT_IMPLEMENTED 501 "Not Implemented"
            BAD_GATEWAY 502 "Bad Gateway"
            SERVICE_UNAVAILABLE 503 "Service Unavailable"
            GATEWAY_TIMEOUT 504 "Gateway Timeout"
            VERSION_NOT_SUPPORTED 505 "HTTP Version Not Supported"
            LOOP_DETECTED 508 "Loop Detected"
        }
    };
}
pub(crate) use with_statuses;

macro_rules! statuses {
    ($($name:ident $code:literal $reason:literal)*) => {
        impl Status {
            $(pub const $name: Status = Status($code);)*

            /// Returns the registered reason phrase, or `""`, which RFC 9112 section 4 allows.
            pub fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "",
                }
            }
        }
    };
}

with_statuses!(statuses);

impl Status {
    /// Returns the three digits of the code; the last three if it has more.
    pub fn digits(self) -> [u8; 3] {
        [self.0 / 100, self.0 / 10, self.0].map(|number| b'0' + (number % 10) as u8)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.reason())
    }
}

/// A refused request. It gets a response with `status`, and then the connection is closed: after bytes that cannot be
/// understood, the start of the next request is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{status}: {reason}")]
pub struct Reject {
    pub status: Status,
    /// The reason, for the log and the response body.
    pub reason: &'static str,
}

impl Reject {
    /// Makes a 400 Bad Request, for everything malformed.
    pub(crate) const fn bad(reason: &'static str) -> Reject {
        Reject { status: Status::BAD_REQUEST, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_the_registered_one_or_none() {
        assert_eq!((Status::NOT_FOUND.reason(), Status(299).reason()), ("Not Found", ""));
        assert_eq!(Reject::bad("bare line feed").to_string(), "400 Bad Request: bare line feed");
    }
}
