//! Trailers (RFC 9110 section 6.5) as an intermediary forwards them: as trailers or not at all. They never join the
//! fields of a head, where they could mean something else.

use crate::fields::FieldList;
use crate::gateway::hop::{Hop, connection, is_any};
use crate::http1::upstream::{UpstreamFault, is_for_us};
use crate::{lines, request::is_token_byte};

/// Maximum bytes of names and values.
pub const TRAILERS_BYTES_MAX: usize = 8 << 10;

/// A list of at least one trailer field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trailers(FieldList);

/// Fields never forwarded as trailers: they would frame the message, or change its recipient or the meaning of its body
/// (RFC 9110 section 6.5.1).
const NEVER: [&str; 9] = [
    "authorization",
    "cache-control",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "host",
    "location",
    "set-cookie",
];

impl Trailers {
    /// Returns the fields that may be forwarded; `None` if there are none.
    pub fn of<'f>(
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    ) -> Result<Option<Box<Trailers>>, UpstreamFault> {
        let (mut list, mut bytes) = (FieldList::default(), 0);
        let hop = Hop::of(|| connection(fields.clone()));
        let is_passed = |name: &[u8]| {
            let is_name = !name.is_empty() && name.iter().all(|&byte| is_token_byte(byte));
            is_name && hop.is_passed(name) && !is_for_us(name) && !is_any(name, &NEVER)
        };
        for (name, value) in fields.clone().filter(|(name, _)| is_passed(name)) {
            bytes += name.len() + value.len();
            if bytes > TRAILERS_BYTES_MAX {
                return Err(UpstreamFault("trailers over the limit"));
            }
            list.push_clean(name, value);
        }
        Ok((bytes > 0).then(|| Box::new(Trailers(list))))
    }

    /// Parses a trailer section of HTTP/1.1 (RFC 9112 section 7.1.2) whose lines are complete. Skips lines that are not
    /// fields.
    pub(crate) fn of_lines(section: &[u8]) -> Result<Option<Box<Trailers>>, UpstreamFault> {
        let lines = section.split(|&byte| byte == b'\n');
        Trailers::of(lines.filter_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        }))
    }

    /// Returns the name and value of every field, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter()
    }

    /// Appends the end of a chunked body, with these trailers.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"0\r\n");
        self.fields().for_each(|(name, value)| lines::line(out, name, value));
        out.extend_from_slice(b"\r\n");
    }
}
