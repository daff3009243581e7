//! A request as any version of HTTP means it (RFC 9110). Its bytes are the business of a codec: [`crate::http1`].

/// A request, well formed and unambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    pub method: Method,
    /// Still percent-encoded, without the query; starts with `/`, or is `*` (with OPTIONS only).
    pub path: &'a [u8],
    /// The part behind the first `?`.
    pub query: Option<&'a [u8]>,
    /// The whole target as sent, for the log: ASCII without spaces or control characters.
    pub target: &'a [u8],
    pub fields: Fields<'a>,
    pub body: BodyLength,
}

/// The fields that decide a response or go into the log, found in one pass.
///
/// If-Match and If-None-Match may be spread over several lines; these are the first. Range, If-Range and the
/// dates may not: when repeated they are `Some(b"")`, which is not a valid value and is ignored as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fields<'a> {
    /// The authority that was asked: `name[:port]`, checked.
    pub host: Option<&'a [u8]>,
    pub if_match: Option<&'a [u8]>,
    pub if_none_match: Option<&'a [u8]>,
    pub if_modified_since: Option<&'a [u8]>,
    pub if_unmodified_since: Option<&'a [u8]>,
    pub if_range: Option<&'a [u8]>,
    pub range: Option<&'a [u8]>,
    pub referer: Option<&'a [u8]>,
    pub user_agent: Option<&'a [u8]>,
    /// All of them, a line each, in the form of HTTP/1.1.
    pub(crate) lines: &'a [u8],
}

macro_rules! methods {
    ($($name:ident $token:literal)*) => {
        /// A method that some server of files might know (RFC 9110 section 9.1): one that is known but not allowed gets 405, one that
        /// is not recognised gets 501. Names are case-sensitive.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Method {
            $($name,)*
        }

        impl Method {
            pub fn from_token(token: &str) -> Option<Method> {
                match token {
                    $($token => Some(Method::$name),)*
                    _ => None,
                }
            }

            pub fn token(self) -> &'static str {
                match self {
                    $(Method::$name => $token,)*
                }
            }
        }
    };
}

methods! {
    Get "GET"
    Head "HEAD"
    Options "OPTIONS"
    Post "POST"
    Put "PUT"
    Delete "DELETE"
    Patch "PATCH"
    Trace "TRACE"
}

/// The body that follows the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// No body, or an empty one.
    None,
    /// More than zero bytes.
    Known(u64),
    /// Until its framing ends it.
    Unknown,
}

impl<'a> Fields<'a> {
    /// The values of every field line of this name, in order, without surrounding space. Scans the head: for fields
    /// that are no member, or may be repeated.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.lines.split(|&b| b == b'\n').filter_map(move |line| {
            let colon = line.iter().position(|&b| b == b':')?;
            line[..colon].eq_ignore_ascii_case(name.as_bytes()).then(|| line[colon + 1..].trim_ascii())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_its_token() {
        for token in ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "TRACE"] {
            assert_eq!(Method::from_token(token).map(Method::token), Some(token));
        }
        assert_eq!([Method::from_token("get"), Method::from_token("PROPFIND")], [None, None]);
    }
}
