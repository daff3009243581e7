//! temporary
use super::Chunked;
use crate::{Method, Response, Status, Length};
pub struct ResponseLimits { pub head_bytes_max: usize, pub fields_max: usize, pub interim_max: u32 }
impl Default for ResponseLimits { fn default() -> Self { ResponseLimits { head_bytes_max: 64<<10, fields_max: 128, interim_max: 16 } } }
#[derive(Debug, Clone, Copy, PartialEq, Eq)] pub struct UpstreamFault(pub &'static str);
impl std::fmt::Display for UpstreamFault { fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(self.0) } }
#[derive(Debug, Clone, Copy, PartialEq, Eq)] pub enum Framing { None, Length(u64), Chunked, Close, Upgraded }
#[derive(Debug)] pub struct UpstreamHead { pub status: Status, fields: Vec<(Vec<u8>, Vec<u8>)>, pub framing: Framing, pub is_kept_alive: bool }
pub fn parse_response(bytes: &[u8], method: Method, limits: &ResponseLimits) -> Result<Option<(UpstreamHead, usize)>, UpstreamFault> {
    let mut f = [httparse::EMPTY_HEADER; 128];
    let mut r = httparse::Response::new(&mut f);
    match r.parse(bytes) {
        Err(_) => Err(UpstreamFault("a malformed response head")),
        Ok(httparse::Status::Partial) if bytes.len() >= limits.head_bytes_max => Err(UpstreamFault("a response head over 64 KB")),
        Ok(httparse::Status::Partial) => Ok(None),
        Ok(httparse::Status::Complete(n)) => {
            let get = |name: &str| r.headers.iter().find(|h| h.name.eq_ignore_ascii_case(name)).map(|h| h.value);
            let status = Status(r.code.unwrap_or(0));
            let framing = if status.0 == 101 { Framing::Upgraded } else if method == Method::Head || status.0 < 200 || status.0 == 204 || status.0 == 304 { Framing::None }
              else if get("transfer-encoding").is_some() { Framing::Chunked } else if let Some(v) = get("content-length") { Framing::Length(std::str::from_utf8(v).ok().and_then(|v| v.parse().ok()).ok_or(UpstreamFault("a malformed length"))?) } else { Framing::Close };
            let close = get("connection").is_some_and(|v| v.eq_ignore_ascii_case(b"close")) || framing == Framing::Close || r.version != Some(1);
            let fields = r.headers.iter().map(|h| (h.name.as_bytes().to_vec(), h.value.to_vec())).collect();
            Ok(Some((UpstreamHead { status, fields, framing, is_kept_alive: !close }, n)))
        }
    }
}
impl UpstreamHead {
    pub fn is_interim(&self) -> bool { self.status.0 < 200 && self.status.0 != 101 }
    pub fn into_response<B>(self, body: B) -> Response<B> {
        let mut r = Response::new(self.status, body);
        for (n, v) in &self.fields { if !["connection","transfer-encoding","keep-alive","date","server","content-length"].iter().any(|h| n.eq_ignore_ascii_case(h.as_bytes())) { r = r.with(n, v); } }
        match self.framing { Framing::Length(n) => r.of_length(Length::Known(n)), Framing::None => r, _ => r.of_length(Length::Unknown) }
    }
}
#[derive(Debug)] pub struct UpstreamBody { framing: Framing, left: u64, chunked: Chunked, done: bool }
pub struct Taken<'b> { pub consumed: usize, pub data: &'b [u8], pub is_done: bool }
impl UpstreamBody {
    pub fn new(framing: Framing) -> Self { let left = if let Framing::Length(n) = framing { n } else { 0 }; UpstreamBody { framing, left, chunked: Chunked::new(), done: framing == Framing::None || framing == Framing::Length(0) } }
    pub fn take<'b>(&mut self, bytes: &'b [u8]) -> Result<Taken<'b>, UpstreamFault> {
        if self.done { return Ok(Taken { consumed: 0, data: b"", is_done: true }) }
        Ok(match self.framing {
            Framing::Length(_) => { let n = (bytes.len() as u64).min(self.left) as usize; self.left -= n as u64; self.done = self.left == 0; Taken { consumed: n, data: &bytes[..n], is_done: self.done } }
            Framing::Chunked => { let t = self.chunked.take(bytes).map_err(|_| UpstreamFault("a malformed chunk"))?; self.done = t.is_done; Taken { consumed: t.consumed, data: t.data, is_done: t.is_done } }
            _ => Taken { consumed: bytes.len(), data: bytes, is_done: false },
        })
    }
    pub fn end(&mut self) -> Result<(), UpstreamFault> { if self.done || matches!(self.framing, Framing::Close | Framing::Upgraded) { Ok(()) } else { Err(UpstreamFault("cut")) } }
}
