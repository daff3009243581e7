//! Parses a response head from the bytes received so far. `httparse` splits it into tokens. A head that it does not
//! accept at the first attempt is then examined by whole lines, so that the result never depends on how the bytes
//! arrived.

use std::mem::MaybeUninit;

use super::response::OWN_BYTES;
use super::{Framing, ResponseFields, UpstreamFault, UpstreamHead};
use crate::fields::FieldList;
use crate::gateway::hop::{is_any, is_listed};
use crate::list::members;
use crate::request::is_token_byte;
use crate::request::section::CONNECTION_OPTIONS_MAX;
use crate::{FIELDS_MAX, Limits, Method, PeerLength, Status};

/// The common prefix of both versions.
const START: &[u8] = b"HTTP/1.";

/// Parses the head of a response to a request of this method from the start of `bytes`. Returns the head and its
/// length; `None` if more bytes are needed. The caller must check that a 101 was requested.
///
/// Each call starts from the beginning. After `None`, call it again only once a line feed has arrived, or bytes up to
/// the limit.
pub fn parse_response(
    bytes: &[u8],
    method: Method,
    limits: &Limits,
) -> Result<Option<(UpstreamHead, usize)>, UpstreamFault> {
    let window = &bytes[..bytes.len().min(limits.head_bytes_max)];
    let start = window.len().min(START.len());
    if window[..start] != START[..start] {
        return Err(OTHER_VERSION);
    }
    // Most heads arrive complete, and their lines need no further examination.
    if let Ok((head, end)) = parse_whole(window, method, limits, false)
        && has_plain_lines(&window[..end])
    {
        return Ok(Some((head, end)));
    }
    let Some(End { at: end, has_folds }) = head_end(window)? else {
        return if bytes.len() < limits.head_bytes_max { Ok(None) } else { Err(TOO_LARGE) };
    };
    let head = &window[..end];
    let parsed = parse_whole(head, method, limits, has_folds).or_else(|fault| match mended(head, fault) {
        Some(mended) => parse_whole(&mended?, method, limits, has_folds),
        None => Err(fault),
    });
    parsed.map(|(head, _)| Some((head, end)))
}

/// Returns true if every line ends in carriage return and line feed and none is folded. The loop has no early exit, so
/// that the compiler compares 16 bytes at a time.
fn has_plain_lines(head: &[u8]) -> bool {
    let pairs = head.iter().zip(&head[1..]);
    let others = pairs.fold(false, |others, (&before, &b)| {
        others | ((b == b'\n') & (before != b'\r')) | ((before == b'\n') & ((b == b' ') | (b == b'\t')))
    });
    !others
}

/// Parses a head at the start of `head`, and returns its length too.
fn parse_whole(
    head: &[u8],
    method: Method,
    limits: &Limits,
    has_folds: bool,
) -> Result<(UpstreamHead, usize), UpstreamFault> {
    let mut lines = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let lines = &mut lines[..limits.fields_max.min(FIELDS_MAX)];
    let mut parsed = httparse::Response::new(&mut []);
    let mut config = httparse::ParserConfig::default();
    config.allow_spaces_after_header_name_in_responses(true).allow_obsolete_multiline_headers_in_responses(true);
    match config.parse_response_with_uninit_headers(&mut parsed, head, lines) {
        Ok(httparse::Status::Complete(bytes)) => Ok((interpret(&parsed, method, has_folds)?, bytes)),
        Ok(httparse::Status::Partial) => Err(UpstreamFault("a malformed response head")),
        Err(error) => Err(fault(error)),
    }
}

const OTHER_VERSION: UpstreamFault = UpstreamFault("not a response of HTTP/1.0 or 1.1");
const TOO_LARGE: UpstreamFault = UpstreamFault("a response head over the limit");
const FOLDED: UpstreamFault = UpstreamFault("a folded line of a field that frames the message");
const WRONG_NAME: UpstreamFault = UpstreamFault("a malformed field name");
const WRONG_VALUE: UpstreamFault = UpstreamFault("a control character in a field value");
const WRONG_STATUS_LINE: UpstreamFault = UpstreamFault("a malformed status line");
const OTHER_CODING: UpstreamFault = UpstreamFault("a transfer-encoding other than chunked");
const WRONG_LENGTH: UpstreamFault = UpstreamFault("a content-length that is not a decimal number below 2^63");

/// The end of a head.
struct End {
    /// The position after the first empty line.
    at: usize,
    /// True if a line begins with a space or a tab.
    has_folds: bool,
}

fn head_end(bytes: &[u8]) -> Result<Option<End>, UpstreamFault> {
    let (mut line, mut has_folds, mut field) = (0, false, &bytes[..0]);
    while let Some(at) = memchr::memchr(b'\n', &bytes[line..]) {
        match &bytes[line..line + at] {
            [b'\r'] => return Ok(Some(End { at: line + at + 1, has_folds })),
            [b' ' | b'\t', .., b'\r'] if frames(field) => return Err(FOLDED),
            [b' ' | b'\t', .., b'\r'] => has_folds = true,
            [.., b'\r'] => field = &bytes[line..line + at],
            _ => return Err(UpstreamFault("a bare line feed in a response head")),
        }
        line += at + 1;
    }
    Ok(None)
}

/// Returns true if this line holds a field that frames the message.
fn frames(line: &[u8]) -> bool {
    let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
    is_any(name.trim_ascii_end(), &["content-length", "transfer-encoding"])
}

fn fault(error: httparse::Error) -> UpstreamFault {
    match error {
        httparse::Error::TooManyHeaders => UpstreamFault("more response fields than the limit"),
        httparse::Error::HeaderName => WRONG_NAME,
        httparse::Error::HeaderValue => WRONG_VALUE,
        httparse::Error::NewLine => UpstreamFault("a response line that does not end in carriage return, line feed"),
        httparse::Error::Token | httparse::Error::Status => WRONG_STATUS_LINE,
        httparse::Error::Version => OTHER_VERSION,
    }
}

fn interpret(parsed: &httparse::Response, method: Method, has_folds: bool) -> Result<UpstreamHead, UpstreamFault> {
    // A status above 599 is treated as a 5xx (RFC 9110 section 15); the message is not faulty.
    let (Some(status @ 100..=999), Some(minor_version)) = (parsed.code, parsed.version) else {
        return Err(UpstreamFault("a status outside 100 to 999"));
    };
    let section = Section::of(parsed.headers, has_folds)?;
    let Section { fields, content_length, times_chunked, closes, stays, lists_fields, .. } = section;
    match times_chunked {
        Some(_) if minor_version == 0 => return Err(UpstreamFault("transfer-encoding in HTTP/1.0")),
        Some(0) => return Err(OTHER_CODING),
        _ => {}
    }
    let is_chunked = times_chunked.is_some();
    let framing = framing(status, method, is_chunked, content_length);
    let announces_body = is_chunked || content_length.is_some_and(|length| length > PeerLength::ZERO);
    let has_end = !matches!(framing, Framing::Close | Framing::Upgraded);
    // Another reader might find another end of the body.
    let has_two_ends = times_chunked > Some(1) || is_chunked && content_length.is_some();
    Ok(UpstreamHead {
        status: Status(status),
        framing,
        is_kept_alive: (stays || minor_version >= 1) && !closes && has_end && !has_two_ends,
        is_end_doubtful: announces_body && may_send_body(status, method, is_chunked),
        content_length: content_length.filter(|_| !is_chunked),
        minor_version,
        fields,
        lists_fields,
    })
}

/// The fields of a head, and their statements about the message.
#[derive(Default)]
struct Section {
    fields: ResponseFields,
    content_length: Option<PeerLength>,
    /// The number of times that the response declares itself chunked; `None` without Transfer-Encoding.
    times_chunked: Option<usize>,
    /// The number of options of Connection.
    options: usize,
    closes: bool,
    stays: bool,
    /// True if Connection lists fields that are not forwarded.
    lists_fields: bool,
}

impl Section {
    /// Reads these lines. Some of them may be folded.
    fn of(lines: &[httparse::Header], has_folds: bool) -> Result<Section, UpstreamFault> {
        let bytes: usize = lines.iter().map(|line| FieldList::field_bytes(line.name.as_bytes(), line.value)).sum();
        let mut section = Section { fields: ResponseFields::with_capacity(bytes + OWN_BYTES), ..Section::default() };
        for line in lines {
            let name = line.name.as_bytes();
            let is_folded = has_folds && line.value.contains(&b'\n');
            match is_folded {
                true => section.note(name, unfolded(line.value).trim_ascii())?,
                false => section.note(name, line.value.trim_ascii())?,
            }
        }
        Ok(section)
    }

    fn note(&mut self, name: &[u8], value: &[u8]) -> Result<(), UpstreamFault> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match name.len() {
            10 if is("connection") => self.note_connection(value)?,
            14 if is("content-length") => note_length(&mut self.content_length, value)?,
            17 if is("transfer-encoding") => self.note_coding(value)?,
            _ => {}
        }
        self.fields.push(name, value);
        Ok(())
    }

    /// Records a Connection field (RFC 9112 section 9.3).
    fn note_connection(&mut self, value: &[u8]) -> Result<(), UpstreamFault> {
        for option in members(value) {
            self.options += 1;
            self.closes |= option.eq_ignore_ascii_case(b"close");
            self.stays |= option.eq_ignore_ascii_case(b"keep-alive");
            self.lists_fields |= is_listed(option);
        }
        match self.options {
            0..=CONNECTION_OPTIONS_MAX => Ok(()),
            _ => Err(UpstreamFault("more connection options than the limit")),
        }
    }

    /// Records a Transfer-Encoding field. A response is chunked once (RFC 9112 section 6.1), however often it declares
    /// so: a program may copy the field of another server, and its own server adds another.
    fn note_coding(&mut self, value: &[u8]) -> Result<(), UpstreamFault> {
        let times = self.times_chunked.get_or_insert(0);
        for coding in members(value) {
            if !coding.eq_ignore_ascii_case(b"chunked") {
                return Err(OTHER_CODING);
            }
            *times += 1;
        }
        Ok(())
    }
}

/// Returns the delimiter of a body (RFC 9112 section 6.3).
fn framing(status: u16, method: Method, is_chunked: bool, content_length: Option<PeerLength>) -> Framing {
    match (status, is_chunked, content_length) {
        (101, ..) => Framing::Upgraded,
        (100..=199 | 204 | 304, ..) => Framing::None,
        _ if method == Method::Head => Framing::None,
        // The length is then ignored.
        (_, true, _) => Framing::Chunked,
        (_, false, Some(length)) => Framing::Length(length),
        (_, false, None) => Framing::Close,
    }
}

/// Repairs the head of an old program by removing parts that parsers reject and that are not forwarded anyway: the
/// reason phrase, and malformed lines that cannot frame the message. A later minor version becomes 1.1 (RFC 9110
/// section 2.5). Returns `None` if the fault has another cause, or if other readers may divide the head into other lines.
fn mended(head: &[u8], fault: UpstreamFault) -> Option<Result<Vec<u8>, UpstreamFault>> {
    let ends_elsewhere = |pair: &[u8]| pair[0] == 0 || pair[0] == b'\r' && pair[1] != b'\n';
    let is_later = fault == OTHER_VERSION && matches!(head.get(START.len()..), Some([b'2'..=b'9', b' ', ..]));
    let is_cause = is_later || [WRONG_NAME, WRONG_VALUE, WRONG_STATUS_LINE].contains(&fault);
    if !is_cause || head.windows(2).any(ends_elsewhere) {
        return None;
    }
    let mut lines = head.split_inclusive(|&byte| byte == b'\n').peekable();
    let mut out = Vec::with_capacity(head.len());
    let start = lines.next()?;
    match start.get(STATUS_BYTES) {
        Some(b' ') => out.extend([&start[..STATUS_BYTES], b"\r\n"].concat()),
        _ => out.extend_from_slice(start),
    }
    if is_later {
        out[START.len()] = b'1';
    }
    while let Some(line) = lines.next() {
        let begin = out.len();
        out.extend_from_slice(line);
        while let Some(fold) = lines.next_if(|next| matches!(next, [b' ' | b'\t', ..])) {
            out.extend_from_slice(fold);
        }
        let field = &out[begin..];
        if field != b"\r\n" && is_malformed(field) {
            if may_frame(field) {
                return Some(Err(fault));
            }
            out.truncate(begin);
        }
    }
    Some(Ok(out))
}

/// The bytes of a status line before its reason phrase: `HTTP/1.1 200`.
const STATUS_BYTES: usize = 12;

/// Returns true if a line, together with its folded continuation lines, is not a field.
fn is_malformed(field: &[u8]) -> bool {
    let Some(colon) = field.iter().position(|&byte| byte == b':') else { return true };
    let name = field[..colon].trim_ascii_end();
    let is_control = |&byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\r' | b'\n');
    name.is_empty() || !name.iter().all(|&byte| is_token_byte(byte)) || field[colon..].iter().any(is_control)
}

/// Returns true if some reader could take a malformed line for a field that frames the message.
fn may_frame(line: &[u8]) -> bool {
    let letters = line.iter().filter(|byte| byte.is_ascii_alphabetic()).map(u8::to_ascii_lowercase);
    let letters: Vec<u8> = letters.take(b"transferencoding".len()).collect();
    letters.starts_with(b"contentlength") || letters == b"transferencoding"
}

/// Returns true if an upstream may send the body that it announces although there must be none. The length in a 304 is
/// that of the 200.
fn may_send_body(status: u16, method: Method, is_chunked: bool) -> bool {
    match status {
        304 => is_chunked,
        204 => true,
        _ => method == Method::Head,
    }
}

/// Replaces line ends in the value with spaces (RFC 9112 section 5.2).
fn unfolded(value: &[u8]) -> Vec<u8> {
    value.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }).collect()
}

/// Reads a Content-Length. Several equal values count as one (RFC 9112 section 6.3).
pub(crate) fn note_length(length: &mut Option<PeerLength>, value: &[u8]) -> Result<(), UpstreamFault> {
    for member in value.split(|&b| b == b',') {
        let said = PeerLength::from_decimal(member.trim_ascii()).ok_or(WRONG_LENGTH)?;
        if length.replace(said).is_some_and(|other| other != said) {
            return Err(UpstreamFault("two different content-lengths"));
        }
    }
    Ok(())
}
