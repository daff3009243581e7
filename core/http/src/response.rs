//! A response independent of the HTTP version: status, fields, body. A codec ([`crate::http1::encode`]) or an engine
//! that takes a [`ResponseHead`] turns it into bytes.

use std::ops::Range;

use crate::fields::FieldList;
use crate::list::members;
use crate::{HttpDate, Shared, Status, lines};

/// The name of this server, sent in the Server field.
pub(crate) const SERVER: &str = "weir";

/// The number of bytes of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Known(u64),
    /// The length is unknown until the body ends; the codec marks the end.
    Unknown,
}

/// A response with a body of the caller's type. Server, Date and the framing fields are added when it is sent; a
/// forwarded response gets only the ones that it lacks.
#[derive(Debug)]
pub struct Response<B> {
    pub status: Status,
    /// True if there is a body of unknown length.
    pub(crate) is_length_unknown: bool,
    /// True if another server made the response. Its Server field is kept, or none is sent, and our Date is added only
    /// if it has none.
    pub(crate) is_forwarded: bool,
    /// True if the content at this address never changes.
    pub(crate) is_immutable: bool,
    /// Fields shared between responses.
    pub(crate) shared: Shared,
    /// The fields of only this response; they follow the shared ones.
    pub(crate) own: FieldList,
    pub body: B,
}

/// Status and fields of a response sent in frames, over HTTP/2 or HTTP/3.
#[derive(Debug)]
pub struct ResponseHead {
    response: Response<()>,
    date: HttpDate,
}

impl<B> Response<B> {
    pub fn new(status: Status, body: B) -> Response<B> {
        let (shared, own) = (Shared::default(), FieldList::default());
        Response { status, is_length_unknown: false, is_forwarded: false, is_immutable: false, shared, own, body }
    }

    /// Records that another server made the response.
    pub fn forwarded(self) -> Response<B> {
        Response { is_forwarded: true, ..self }
    }

    pub fn is_forwarded(&self) -> bool {
        self.is_forwarded
    }

    /// Records whether the content at this address never changes.
    pub fn immutable_if(self, is_immutable: bool) -> Response<B> {
        Response { is_immutable, ..self }
    }

    pub fn is_immutable(&self) -> bool {
        self.is_immutable
    }

    /// Sets the shared fields, replacing those set before.
    pub fn of(self, shared: Shared) -> Response<B> {
        Response { shared, ..self }
    }

    /// Appends a field. Control characters in the value become `?`.
    pub fn with(mut self, name: impl AsRef<[u8]>, value: &[u8]) -> Response<B> {
        self.own.push_clean(name.as_ref(), value);
        self
    }

    /// Adds names of request fields to Vary (RFC 9110 section 12.5.5), which stays on a single line, because nginx
    /// before 1.23 obeys only one line when it caches.
    pub fn varying_by(self, names: &str) -> Response<B> {
        if !self.has("vary") {
            return self.with("Vary", names.as_bytes());
        }
        let of_name = |(name, _): &(&[u8], &[u8])| name.eq_ignore_ascii_case(b"vary");
        let mut value: Vec<u8> =
            self.fields().filter(of_name).map(|(_, value)| value).collect::<Vec<_>>().join(&b", "[..]);
        if value.is_empty() {
            return self.with("Vary", names.as_bytes());
        }
        for name in members(names.as_bytes()) {
            if !members(&value).any(|own| own == b"*" || own.eq_ignore_ascii_case(name)) {
                value.extend_from_slice(b", ");
                value.extend_from_slice(name);
            }
        }
        let is_shared = self.shared.iter().any(|field| of_name(&field));
        let response = if is_shared { self.unshared() } else { self };
        response.without("Vary").with("Vary", &value)
    }

    pub fn has(&self, name: &str) -> bool {
        self.fields().any(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()))
    }

    /// Removes the fields of this name, except shared ones.
    pub fn without(mut self, name: &str) -> Response<B> {
        if self.own.iter().any(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes())) {
            let mut kept = FieldList::default();
            for (own, value) in self.own.iter().filter(|(own, _)| !own.eq_ignore_ascii_case(name.as_bytes())) {
                kept.push(own, value);
            }
            self.own = kept;
        }
        self
    }

    /// Copies the shared fields to the response's own, so that [`Response::without`] removes them too.
    pub fn unshared(mut self) -> Response<B> {
        let mut own = FieldList::default();
        for (name, value) in self.fields() {
            own.push(name, value);
        }
        (self.shared, self.own) = (Shared::default(), own);
        self
    }

    pub fn with_length(self, bytes: u64) -> Response<B> {
        self.with("Content-Length", itoa::Buffer::new().format(bytes).as_bytes())
    }

    /// Returns true if there is a body whose length is unknown.
    pub fn has_unknown_length(&self) -> bool {
        self.is_length_unknown
    }

    /// Sets the length of the body, known or unknown.
    pub fn of_length(self, length: Length) -> Response<B> {
        match length {
            Length::Known(bytes) => Response { is_length_unknown: false, ..self }.with_length(bytes),
            Length::Unknown => Response { is_length_unknown: true, ..self },
        }
    }

    /// Appends a Content-Range for a body that is this range of `entity_bytes` bytes.
    pub fn with_range(self, range: &Range<u64>, entity_bytes: u64) -> Response<B> {
        let mut value = Vec::new();
        lines::range(&mut value, range, entity_bytes);
        self.with("Content-Range", &value)
    }

    /// Appends a Content-Range that gives only the length of the entity, for a range outside it (RFC 9110 section
    /// 15.5.17).
    pub fn without_range(self, entity_bytes: u64) -> Response<B> {
        self.with("Content-Range", format!("bytes */{entity_bytes}").as_bytes())
    }

    /// Returns the name and value of every field, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.shared.iter().chain(self.own.iter())
    }

    /// Returns true if the response has a Date of its own; ours does not count.
    pub(crate) fn has_date(&self) -> bool {
        self.fields().any(|(name, _)| name.eq_ignore_ascii_case(b"date"))
    }

    /// Splits the response into its head, with this date, and its body.
    pub fn into_head(self, date: &HttpDate) -> (ResponseHead, B) {
        let Response { status, is_length_unknown, is_forwarded, is_immutable, shared, own, body } = self;
        let response = Response { status, is_length_unknown, is_forwarded, is_immutable, shared, own, body: () };
        (ResponseHead { response, date: *date }, body)
    }
}

impl ResponseHead {
    pub fn status(&self) -> Status {
        self.response.status
    }

    /// Returns the name and value of every field, Server and Date first unless another server made the response. An
    /// engine converts the names to lower case (RFC 9113 section 8.2).
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.first_fields().chain(self.response.fields())
    }

    /// Returns the Server and Date that are not among the response's own fields.
    fn first_fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let first: [(&[u8], &[u8]); 2] = [(b"server", SERVER.as_bytes()), (b"date", self.date.as_bytes())];
        let skipped = match self.response.is_forwarded {
            false => 0,
            true => 1 + usize::from(self.response.has_date()),
        };
        first.into_iter().skip(skipped)
    }

    /// Returns the bytes of the names and values of all fields and of the three status digits. The size of the frames
    /// is proportional to this number, but is known only once they are made.
    pub fn bytes(&self) -> u64 {
        let sum = |fields: &mut dyn Iterator<Item = (&[u8], &[u8])>| -> usize {
            fields.map(|(name, value)| name.len() + value.len()).sum()
        };
        let fields =
            sum(&mut self.first_fields()) + self.response.shared.field_bytes() + sum(&mut self.response.own.iter());
        (self.status().digits().len() + fields) as u64
    }

    /// Releases memory that the head does not need while it waits.
    pub fn shrink(&mut self) {
        self.response.own.shrink();
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn vary_is_one_line() {
        let of = |response: Response<()>| text(response.fields());
        let response =
            Response::new(Status::OK, ()).varying_by("Accept-Encoding").varying_by("origin, accept-encoding");
        assert_eq!(of(response), ["Vary: Accept-Encoding, origin"]);
        let forwarded = Response::new(Status::OK, ()).with("vary", b"Cookie").with("A", b"b").with("Vary", b"TE");
        assert_eq!(of(forwarded.varying_by("Accept")), ["A: b", "Vary: Cookie, TE, Accept"]);
        let any = Response::new(Status::OK, ()).with("Vary", b"*").varying_by("Accept");
        assert_eq!(of(any), ["Vary: *"]);
    }

    fn text(fields: impl Iterator<Item = (impl AsRef<[u8]>, impl AsRef<[u8]>)>) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        fields.map(|(name, value)| format!("{}: {}", text(name.as_ref()), text(value.as_ref()))).collect()
    }

    #[test]
    fn fields_are_read_back_as_they_were_given() {
        let entity = crate::EntityFields::new("a/b", "\"v\"", UNIX_EPOCH + Duration::from_secs(2), 1);
        let response = Response::new(Status::PARTIAL_CONTENT, ())
            .with("Location", b"/a: b\r\nX: y")
            .with_range(&(0..10), 100)
            .without_range(7)
            .with_length(10)
            .of(entity.part());
        let shared = [
            "Content-Type: a/b",
            "ETag: \"v\"",
            "Last-Modified: Thu, 01 Jan 1970 00:00:02 GMT",
            "Accept-Ranges: bytes",
        ];
        let own =
            ["Location: /a: b??X: y", "Content-Range: bytes 0-9/100", "Content-Range: bytes */7", "Content-Length: 10"];
        assert_eq!(text(response.fields()), [shared, own].concat());
        let response = response.unshared().without("accept-ranges").without("location");
        assert_eq!(text(response.fields()), [&shared[..3], &own[1..]].concat());
    }

    /// The frames of HTTP/2 and HTTP/3 signal the end of such a body; no field does.
    #[test]
    fn a_length_that_is_not_known_is_no_field() {
        let fields = |length| text(Response::new(Status::OK, ()).of_length(length).fields());
        assert_eq!(fields(Length::Unknown), [""; 0]);
        assert_eq!(fields(Length::Known(7)), ["Content-Length: 7"]);
    }

    #[test]
    fn a_head_has_server_and_date_and_counts_names_and_values() {
        let response = Response::new(Status::NOT_FOUND, "body").with("A", b"bc");
        let (head, body) = response.into_head(&HttpDate::new(UNIX_EPOCH));
        assert_eq!((head.status(), body), (Status::NOT_FOUND, "body"));
        assert_eq!(text(head.fields()), ["server: weir", "date: Thu, 01 Jan 1970 00:00:00 GMT", "A: bc"]);
        assert_eq!(head.bytes(), (3 + "serverweir".len() + "date".len() + 29 + "Abc".len()) as u64);
    }
}
