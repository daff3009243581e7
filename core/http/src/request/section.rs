//! Reads the fields of a request one by one: those that frame the message, keep the connection open, or decide the
//! response. The rules are the same for every protocol.
//!
//! A name is matched by its length first: one integer comparison rules out most of the twenty fields that a browser
//! sends.

use super::target::is_host_port;
use super::{BodyLength, Fields, MORE_THAN_ONE_HOST};
use crate::list::members;
use crate::name_filter::NameFilter;
use crate::{PeerLength, Reject, Status};

/// The fields found so far. `V` is the stored form of a value: its bytes, or their position.
#[derive(Debug, Default)]
pub(crate) struct FieldSection<V> {
    pub fields: Fields<V>,
    pub expect_continue: bool,
    is_host_valid: bool,
    /// `Some(None)` if invalid or repeated.
    content_length: Option<Option<PeerLength>>,
    transfer_encoding: Option<Coding>,
    close: bool,
    stay: bool,
    connection_options: usize,
    /// The names of all fields.
    pub names: NameFilter,
}

/// The maximum number of options in all Connection lines together. Clients send up to three. When a message is
/// forwarded, each option costs a search through all fields.
pub(crate) const CONNECTION_OPTIONS_MAX: usize = 64;

/// A list of transfer codings (RFC 9112 section 6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Chunked,
    /// Chunked last, after other codings.
    LastChunked,
    /// Not chunked last, so that the end of the body is unknown.
    Endless,
}

impl<V: Copy + Default> FieldSection<V> {
    pub fn note(&mut self, name: &[u8], value: &[u8], kept: V) -> Result<(), Reject> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        self.names = self.names.add(name);
        match name.len() {
            4 if is("host") => self.note_host(value, kept)?,
            6 if is("expect") => self.note_expect(value)?,
            10 if is("connection") => self.note_connection(value)?,
            14 if is("content-length") => {
                let length = PeerLength::from_decimal(value);
                self.content_length = Some(length.filter(|_| self.content_length.is_none()));
            }
            17 if is("transfer-encoding") => {
                let coding = Coding::of(value);
                self.transfer_encoding = Some(self.transfer_encoding.map_or(coding, |_| Coding::Endless));
            }
            _ => self.fields.note(name, kept),
        }
        Ok(())
    }

    fn note_host(&mut self, value: &[u8], kept: V) -> Result<(), Reject> {
        if self.fields.host.replace(kept).is_some() {
            return Err(MORE_THAN_ONE_HOST);
        }
        self.is_host_valid = is_host_port(value);
        Ok(())
    }

    fn note_expect(&mut self, value: &[u8]) -> Result<(), Reject> {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(Reject { status: Status::EXPECTATION_FAILED, reason: "expectation other than 100-continue" });
        }
        self.expect_continue = true;
        Ok(())
    }

    /// Reads the options of a Connection line; there may be several lines. Unknown options are ignored (RFC 9110
    /// section 7.6.1).
    fn note_connection(&mut self, value: &[u8]) -> Result<(), Reject> {
        for option in members(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.stay |= option.eq_ignore_ascii_case(b"keep-alive");
            self.connection_options += 1;
        }
        match self.connection_options {
            0..=CONNECTION_OPTIONS_MAX => Ok(()),
            _ => Err(Reject { status: Status::HEAD_TOO_LARGE, reason: "more connection options than the limit" }),
        }
    }

    /// Returns true if the connection persists (RFC 9112 section 9.3).
    pub fn keep_alive(&self, minor_version: u8) -> bool {
        !self.close && (minor_version >= 1 || self.stay)
    }

    /// Returns the host of the request. HTTP/1.1 without exactly one valid Host gets 400 (RFC 9112 section 3.2),
    /// regardless of the target; the authority of an absolute target then replaces it.
    pub fn host(&self, minor_version: u8, authority: Option<V>) -> Result<Option<V>, Reject> {
        match self.fields.host {
            None if minor_version >= 1 => Err(Reject::bad("no host field")),
            Some(_) if !self.is_host_valid => Err(Reject::bad("malformed host field")),
            host => Ok(authority.or(host)),
        }
    }

    /// Returns the length of the body (RFC 9112 section 6.3). If the RFC allows a server to guess or repair, this
    /// refuses the request.
    pub fn body(&self, minor_version: u8) -> Result<BodyLength, Reject> {
        match (self.transfer_encoding, self.content_length) {
            (None, None) | (None, Some(Some(PeerLength::ZERO))) => Ok(BodyLength::None),
            (None, Some(Some(bytes))) => Ok(BodyLength::Known(bytes)),
            (None, Some(None)) => Err(Reject::bad("content-length is not one decimal number below 2^63")),
            (Some(_), Some(_)) => Err(Reject::bad("both transfer-encoding and content-length")),
            (Some(_), None) if minor_version == 0 => Err(Reject::bad("transfer-encoding in http/1.0")),
            (Some(Coding::Chunked), None) => Ok(BodyLength::Unknown),
            (Some(Coding::LastChunked), None) => {
                Err(Reject { status: Status::NOT_IMPLEMENTED, reason: "transfer-encoding other than chunked" })
            }
            (Some(Coding::Endless), None) => Err(Reject::bad("transfer-encoding that does not end in one chunked")),
        }
    }
}

impl<V: Default> Fields<V> {
    /// Stores a field, if it is one of [`Fields`] and not the host.
    pub(super) fn note(&mut self, name: &[u8], kept: V) {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match name.len() {
            5 if is("range") => once(&mut self.range, kept),
            7 if is("referer") => first(&mut self.referer, kept),
            8 if is("if-match") => first(&mut self.if_match, kept),
            8 if is("if-range") => once(&mut self.if_range, kept),
            10 if is("user-agent") => first(&mut self.user_agent, kept),
            13 if is("if-none-match") => first(&mut self.if_none_match, kept),
            15 if is("accept-encoding") => once(&mut self.accept_encoding, kept),
            17 if is("if-modified-since") => once(&mut self.if_modified_since, kept),
            19 if is("if-unmodified-since") => once(&mut self.if_unmodified_since, kept),
            _ => {}
        }
    }
}

impl Coding {
    /// Parses a list of codings. A list frames the body if chunked occurs once, at its end (RFC 9112 section 6.3).
    fn of(codings: &[u8]) -> Coding {
        let is_chunked = |coding: &&[u8]| coding.eq_ignore_ascii_case(b"chunked");
        let ends_in_chunked = members(codings).last().is_some_and(|coding| is_chunked(&coding));
        match members(codings).count() {
            _ if codings.eq_ignore_ascii_case(b"chunked") => Coding::Chunked,
            2.. if ends_in_chunked && members(codings).filter(is_chunked).count() == 1 => Coding::LastChunked,
            _ => Coding::Endless,
        }
    }
}

/// Stores a field that may occur on several lines, or whose first line is enough.
fn first<V>(slot: &mut Option<V>, value: V) {
    slot.get_or_insert(value);
}

/// Stores a field that has a single value. A second line, even an equal one, stores the empty value, which is invalid
/// for all these fields and ignored (RFC 9110 sections 13.1.3, 13.1.4 and 14.2); Accept-Encoding is then read again.
fn once<V: Default>(slot: &mut Option<V>, value: V) {
    *slot = Some(if slot.is_none() { value } else { V::default() });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(lines: &[(&'a str, &'a str)]) -> FieldSection<&'a [u8]> {
        let mut section = FieldSection::default();
        for (name, value) in lines {
            section.note(name.as_bytes(), value.as_bytes(), value.as_bytes()).unwrap();
        }
        section
    }

    #[test]
    fn connection_options() {
        for (value, minor_version, expected) in [
            ("x", 1, true),
            ("x", 0, false),
            ("close", 1, false),
            ("CLOSE", 1, false),
            ("keep-alive", 0, true),
            ("Keep-Alive, Upgrade", 0, true),
            ("upgrade ,\tclose", 1, false),
            ("keep-alive, close", 0, false),
            ("closed", 1, true),
            ("", 1, true),
        ] {
            let kept = read(&[("Connection", value)]).keep_alive(minor_version);
            assert_eq!(kept, expected, "{value:?} in 1.{minor_version}");
        }
        assert!(!read(&[("connection", "keep-alive"), ("CONNECTION", "close")]).keep_alive(1));
    }

    /// The lengths tested include the lengths of all known fields.
    #[test]
    fn other_names_of_the_same_length_mean_nothing() {
        for length in 1..=30 {
            let name = "x".repeat(length);
            let section = read(&[(&name, "close")]);
            assert_eq!(section.fields, Fields::default(), "{name}");
            assert!(section.keep_alive(1) && !section.expect_continue, "{name}");
            assert_eq!(section.body(1), Ok(BodyLength::None), "{name}");
        }
    }

    #[test]
    fn repeated_fields() {
        let section = read(&[("Range", "bytes=0-1"), ("range", "bytes=0-1"), ("If-Match", "a"), ("If-Match", "b")]);
        assert_eq!(section.fields.range, Some(&b""[..]));
        assert_eq!(section.fields.if_match, Some(&b"a"[..]));
    }

    #[test]
    fn bodies() {
        assert_eq!(read(&[]).body(1), Ok(BodyLength::None));
        assert_eq!(read(&[("Content-Length", "0")]).body(1), Ok(BodyLength::None));
        assert_eq!(read(&[("content-length", "007")]).body(0), Ok(BodyLength::Known(7.into())));
        assert_eq!(read(&[("Transfer-Encoding", "Chunked")]).body(1), Ok(BodyLength::Unknown));
    }
}
