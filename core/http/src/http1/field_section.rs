//! One pass over the field lines: what frames the message, what keeps the connection, what the response depends on.
//!
//! A name is matched by its length first: most of the twenty lines a browser sends are told from ours by one
//! comparison of integers.

use super::target::is_host_port;
use crate::list::{decimal, members};
use crate::{BodyLength, Fields, Reject, Status};

#[derive(Default)]
pub(crate) struct FieldSection<'a> {
    pub fields: Fields<'a>,
    pub expect_continue: bool,
    content_length: Option<&'a [u8]>,
    transfer_encoding: Option<&'a [u8]>,
    close: bool,
    stay: bool,
}

impl<'a> FieldSection<'a> {
    pub(crate) fn read(lines: &[httparse::Header<'a>]) -> Result<FieldSection<'a>, Reject> {
        let mut section = FieldSection::default();
        for line in lines {
            section.note(line.name, line.value)?;
        }
        Ok(section)
    }

    fn note(&mut self, name: &str, value: &'a [u8]) -> Result<(), Reject> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let fields = &mut self.fields;
        match name.len() {
            4 if is("host") => note_host(&mut fields.host, value)?,
            5 if is("range") => once(&mut fields.range, value),
            6 if is("expect") => self.note_expect(value)?,
            7 if is("referer") => first(&mut fields.referer, value),
            8 if is("if-match") => first(&mut fields.if_match, value),
            8 if is("if-range") => once(&mut fields.if_range, value),
            10 if is("connection") => self.note_connection(value),
            10 if is("user-agent") => first(&mut fields.user_agent, value),
            13 if is("if-none-match") => first(&mut fields.if_none_match, value),
            14 if is("content-length") => once(&mut self.content_length, value),
            17 if is("if-modified-since") => once(&mut fields.if_modified_since, value),
            17 if is("transfer-encoding") => once(&mut self.transfer_encoding, value),
            19 if is("if-unmodified-since") => once(&mut fields.if_unmodified_since, value),
            _ => {}
        }
        Ok(())
    }

    fn note_expect(&mut self, value: &[u8]) -> Result<(), Reject> {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(Reject { status: Status::EXPECTATION_FAILED, reason: "expectation other than 100-continue" });
        }
        self.expect_continue = true;
        Ok(())
    }

    /// Any number of lines and members; options we do not know are not ours to act on (RFC 9110 section 7.6.1).
    fn note_connection(&mut self, value: &[u8]) {
        for option in members(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.stay |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// RFC 9112 section 9.3.
    pub(crate) fn keep_alive(&self, minor_version: u8) -> bool {
        !self.close && (minor_version >= 1 || self.stay)
    }

    /// RFC 9112 section 3.2: HTTP/1.1 without exactly one valid Host gets 400, whatever the target says; the
    /// authority of an absolute target then replaces it.
    pub(crate) fn host(&self, minor_version: u8, authority: Option<&'a [u8]>) -> Result<Option<&'a [u8]>, Reject> {
        match self.fields.host {
            None if minor_version >= 1 => Err(Reject::bad("no host field")),
            Some(host) if !is_host_port(host) => Err(Reject::bad("malformed host field")),
            host => Ok(authority.or(host)),
        }
    }

    /// RFC 9112 section 6.3, without its latitude: where it lets a server guess or repair, this refuses.
    pub(crate) fn body(&self, minor_version: u8) -> Result<BodyLength, Reject> {
        match (self.transfer_encoding, self.content_length) {
            (None, None) => Ok(BodyLength::None),
            (None, Some(digits)) => match decimal(digits) {
                Some(0) => Ok(BodyLength::None),
                Some(bytes) => Ok(BodyLength::Known(bytes)),
                None => Err(Reject::bad("content-length is not one decimal number")),
            },
            (Some(_), Some(_)) => Err(Reject::bad("both transfer-encoding and content-length")),
            (Some(_), None) if minor_version == 0 => Err(Reject::bad("transfer-encoding in http/1.0")),
            (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Ok(BodyLength::Unknown),
            (Some(coding), None) if ends_in_chunked(coding) => {
                Err(Reject { status: Status::NOT_IMPLEMENTED, reason: "transfer-encoding other than chunked" })
            }
            (Some(_), None) => Err(Reject::bad("transfer-encoding that does not end in one chunked")),
        }
    }
}

/// Whether a list of several codings frames the body, chunked being its last and nothing before: without that nobody can
/// say where the body ends (RFC 9112 section 6.3).
fn ends_in_chunked(codings: &[u8]) -> bool {
    let is_chunked = |coding: &&[u8]| coding.eq_ignore_ascii_case(b"chunked");
    members(codings).count() > 1
        && members(codings).last().is_some_and(|coding| is_chunked(&coding))
        && members(codings).filter(is_chunked).count() == 1
}

fn note_host<'a>(slot: &mut Option<&'a [u8]>, value: &'a [u8]) -> Result<(), Reject> {
    if slot.replace(value).is_some() {
        return Err(Reject::bad("more than one host field"));
    }
    Ok(())
}

/// For a field that may stand on several lines, or where the first will do.
fn first<'a>(slot: &mut Option<&'a [u8]>, value: &'a [u8]) {
    slot.get_or_insert(value);
}

/// For a field that has one value: a second line, even an equal one, leaves the empty value, which is valid for none
/// of them. The framing fields are then refused, the others ignored (RFC 9110 sections 13.1.3, 13.1.4 and 14.2).
fn once<'a>(slot: &mut Option<&'a [u8]>, value: &'a [u8]) {
    *slot = Some(if slot.is_none() { value } else { b"" });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(lines: &[(&'a str, &'a str)]) -> FieldSection<'a> {
        let lines: Vec<_> =
            lines.iter().map(|&(name, value)| httparse::Header { name, value: value.as_bytes() }).collect();
        FieldSection::read(&lines).unwrap()
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

    /// Every length there is, so every one that a known field has.
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
        assert_eq!(read(&[("content-length", "007")]).body(0), Ok(BodyLength::Known(7)));
        assert_eq!(read(&[("Transfer-Encoding", "Chunked")]).body(1), Ok(BodyLength::Unknown));
    }
}
