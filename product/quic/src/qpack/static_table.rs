//! The static table (RFC 9204 appendix A).

/// Name and value of each index.
pub const FIELDS: [(&str, &str); 99] = [
    (":authority", ""),
    (":path", "/"),
    ("age", "0"),
    ("content-disposition", ""),
    ("content-length", "0"),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("referer", ""),
    ("set-cookie", ""),
    (":method", "CONNECT"),
    (":method", "DELETE"),
    (":method", "GET"),
    (":method", "HEAD"),
    (":method", "OPTIONS"),
    (":method", "POST"),
    (":method", "PUT"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "103"),
    (":status", "200"),
    (":status", "304"),
    (":status", "404"),
    (":status", "503"),
    ("accept", "*/*"),
    ("accept", "application/dns-message"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"),
    ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"),
    ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"),
    ("cache-control", "no-cache"),
    ("cache-control", "no-store"),
    ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"),
    ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"),
    ("content-type", "application/javascript"),
    ("content-type", "application/json"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"),
    ("content-type", "image/jpeg"),
    ("content-type", "image/png"),
    ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"),
    ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"),
    ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ("vary", "accept-encoding"),
    ("vary", "origin"),
    ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"),
    (":status", "100"),
    (":status", "204"),
    (":status", "206"),
    (":status", "302"),
    (":status", "400"),
    (":status", "403"),
    (":status", "421"),
    (":status", "425"),
    (":status", "500"),
    ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"),
    ("access-control-request-method", "get"),
    ("access-control-request-method", "post"),
    ("alt-svc", "clear"),
    ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ("early-data", "1"),
    ("expect-ct", ""),
    ("forwarded", ""),
    ("if-range", ""),
    ("origin", ""),
    ("purpose", "prefetch"),
    ("server", ""),
    ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"),
    ("user-agent", ""),
    ("x-forwarded-for", ""),
    ("x-frame-options", "deny"),
    ("x-frame-options", "sameorigin"),
];

/// The result of a look-up in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Field(usize),
    /// The name is in the table, with another value.
    Name(usize),
    Nothing,
}

/// The indices grouped by the length of the name, so that a name is compared with few others. `BEGINS` contains the
/// position in [`BY_LENGTH`] at which each length starts.
const NAME_BYTES_MAX: usize = 32;
const BEGINS: [u8; NAME_BYTES_MAX + 2] = begins();
const BY_LENGTH: [u8; FIELDS.len()] = by_length();

const fn begins() -> [u8; NAME_BYTES_MAX + 2] {
    let mut begins = [0; NAME_BYTES_MAX + 2];
    let mut length = 0;
    while length <= NAME_BYTES_MAX {
        let (mut count, mut index) = (0, 0);
        while index < FIELDS.len() {
            if FIELDS[index].0.len() == length {
                count += 1;
            }
            index += 1;
        }
        begins[length + 1] = begins[length] + count;
        length += 1;
    }
    begins
}

const fn by_length() -> [u8; FIELDS.len()] {
    let mut by_length = [0; FIELDS.len()];
    let mut next = BEGINS;
    let mut index = 0;
    while index < FIELDS.len() {
        let length = FIELDS[index].0.len();
        by_length[next[length] as usize] = index as u8;
        next[length] += 1;
        index += 1;
    }
    by_length
}

/// Looks up a name (ignoring case) and value.
pub fn find(name: &[u8], value: &[u8]) -> Found {
    if name.len() > NAME_BYTES_MAX {
        return Found::Nothing;
    }
    let (begin, end) = (BEGINS[name.len()].into(), BEGINS[name.len() + 1].into());
    let mut found = Found::Nothing;
    for &index in &BY_LENGTH[begin..end] {
        let (of_table, with) = FIELDS[usize::from(index)];
        if of_table.as_bytes().eq_ignore_ascii_case(name) {
            if with.as_bytes() == value {
                return Found::Field(index.into());
            }
            if found == Found::Nothing {
                found = Found::Name(index.into());
            }
        }
    }
    found
}
