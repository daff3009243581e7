//! A request stream of an HTTP/3 client, and the messages that it sends in a tunnel.

use quic::testing::{Client as Peer, DATA, HEADERS, StreamId, decode, frame, section, varint};
use units::Nanos;

use super::super::super::files::Site;
use super::super::super::random::Random;
use super::super::request::{Meaning, Request};

/// The maximum length of a message in a tunnel: less than QUIC sends before the first acknowledgement.
const MESSAGE_BYTES_MAX: u64 = 4_000;

#[derive(Debug)]
pub struct Stream {
    pub request: Request,
    pub has_head: bool,
    /// The number of interim responses.
    hints: u64,
    has_trailers: bool,
    /// The bytes of an incomplete frame.
    rest: Vec<u8>,
    /// The number of bytes of a DATA frame that have not arrived.
    data_left: u64,
    pub came: usize,
    /// The number of bytes after which the client cancels the request.
    pub cancel_at: Option<usize>,
    /// The unsent bytes of the request, or of a tunnel's messages.
    pub written: Option<Vec<u8>>,
    /// The response is the text of an error.
    is_reason: bool,
    /// The state of a tunnel, if it is one (RFC 9220).
    tunnel: Option<Tunnel>,
}

/// A tunnel in which each byte is echoed.
#[derive(Debug)]
struct Tunnel {
    bytes: usize,
    said: usize,
    next_at: Nanos,
}

impl Stream {
    pub fn new(request: Request, cancel_at: Option<usize>, site: &Site) -> Stream {
        let field = request.field();
        let tunnel = request.tunnel_bytes().map(|bytes| Tunnel { bytes, said: 0, next_at: Nanos::ZERO });
        let method = if tunnel.is_some() { "CONNECT" } else { request.method() };
        let mut fields = vec![(":method", method), (":scheme", "https"), (":authority", "a"), (":path", &request.path)];
        fields.extend(tunnel.iter().flat_map(|_| [(":protocol", "websocket"), ("sec-websocket-version", "13")]));
        fields.extend(field.as_ref().map(|(name, value)| (*name, value.as_str())));
        let upload = request.upload(site);
        let length = upload.filter(|(_, is_told)| *is_told).map(|(body, _)| body.len().to_string());
        fields.extend(length.as_ref().map(|length| ("content-length", length.as_str())));
        let mut to_write = frame(HEADERS, &section(&fields));
        to_write
            .extend(upload.filter(|(body, _)| !body.is_empty()).map(|(body, _)| frame(DATA, body)).unwrap_or_default());
        Stream {
            request,
            has_head: false,
            has_trailers: false,
            rest: Vec::new(),
            data_left: 0,
            came: 0,
            cancel_at,
            written: Some(to_write),
            hints: 0,
            is_reason: false,
            tunnel,
        }
    }

    /// Queues the next message of an open tunnel, if it is due. Returns true if there was one.
    pub fn speak(&mut self, now: Nanos, site: &Site, random: &mut Random) -> bool {
        let Some(tunnel) = self.tunnel.as_mut().filter(|tunnel| self.has_head && tunnel.said < tunnel.bytes) else {
            return false;
        };
        if now < tunnel.next_at {
            return false;
        }
        let rest = &site.file(site.count() - 1)[tunnel.said..tunnel.bytes];
        let message = &rest[..rest.len().min(random.between(1, MESSAGE_BYTES_MAX) as usize)];
        self.written.get_or_insert_default().extend(frame(DATA, message));
        tunnel.said += message.len();
        tunnel.next_at = now + random.micros(1, 2_000_000);
        true
    }

    /// The time at which the next message is due.
    pub fn speaks_at(&self) -> Option<Nanos> {
        self.tunnel.as_ref().filter(|tunnel| self.has_head && tunnel.said < tunnel.bytes).map(|tunnel| tunnel.next_at)
    }

    /// Sends as much of the request as the server's windows allow, and its end.
    pub fn write(&mut self, peer: &mut Peer, id: StreamId) {
        let Some(left) = &mut self.written else { return };
        let bytes = peer.offer(id, left);
        left.drain(..bytes);
        if left.is_empty() {
            self.written = None;
            // In a tunnel, that is the end of all its messages.
            if self.tunnel.as_ref().is_none_or(|tunnel| tunnel.said == tunnel.bytes) {
                peer.try_finish(id);
            }
        }
    }

    pub fn hear(&mut self, bytes: &[u8], site: &Site) -> Result<(), String> {
        self.rest.extend_from_slice(bytes);
        loop {
            if self.data_left > 0 {
                let bytes = self.rest.len().min(self.data_left as usize);
                let data: Vec<u8> = self.rest.drain(..bytes).collect();
                self.data_left -= bytes as u64;
                self.take(&data, site)?;
                if self.rest.is_empty() {
                    return Ok(());
                }
                continue;
            }
            let Some((kind, length, head_bytes)) = frame_head(&self.rest) else { return Ok(()) };
            if kind == DATA {
                self.rest.drain(..head_bytes);
                self.data_left = length;
                if !self.has_head {
                    return Err(format!("content before a head for {:?}", self.request));
                }
                continue;
            }
            let Some((_, payload, end)) = whole_frame(&self.rest) else { return Ok(()) };
            if kind == HEADERS && self.has_head {
                if std::mem::replace(&mut self.has_trailers, true) || !is_sum(payload) {
                    return Err(format!("two heads for {:?}", self.request));
                }
                self.rest.drain(..end);
                continue;
            }
            let status = if kind == HEADERS { Some(status(payload)?) } else { None };
            self.rest.drain(..end);
            // An interim response is followed by others.
            self.hints += u64::from(status == Some(103));
            if let Some(status) = status.filter(|status| *status >= 200) {
                self.has_head = true;
                self.is_reason = self.request.judge(Some(status), self.hints)? == Meaning::Reason;
            }
        }
    }

    fn take(&mut self, data: &[u8], site: &Site) -> Result<(), String> {
        let (from, to) = (self.came, self.came + data.len());
        if !self.is_reason && self.request.body(site).is_some_and(|body| body.get(from..to) != Some(data)) {
            return Err(format!("wrong bytes from {from} to {to} of {:?}", self.request));
        }
        if !self.is_reason {
            self.request.take(data);
        }
        self.came = to;
        Ok(())
    }

    pub fn judge_end(&self, site: &Site) -> Result<(), String> {
        if !self.has_head || self.data_left > 0 || !self.rest.is_empty() {
            return Err(format!("the end within a frame of {self:?}"));
        }
        if !self.is_reason {
            self.request.judge_content(site)?;
        }
        match self.request.body(site).filter(|_| !self.is_reason) {
            Some(body) if body.len() != self.came => Err(format!("the end of {self:?}, of {} bytes", body.len())),
            Some(_) if self.has_trailers != self.request.has_trailers() => Err(format!("trailers of {self:?}")),
            _ => Ok(()),
        }
    }
}

/// Returns the type and length of a frame, and the size of both.
fn frame_head(bytes: &[u8]) -> Option<(u64, u64, usize)> {
    let (kind, kind_bytes) = varint::read(bytes)?;
    let (length, length_bytes) = varint::read(&bytes[kind_bytes..])?;
    Some((kind, length, kind_bytes + length_bytes))
}

/// Returns the type and payload of a complete frame, and the position at which it ends.
pub fn whole_frame(bytes: &[u8]) -> Option<(u64, &[u8], usize)> {
    let (kind, length, head_bytes) = frame_head(bytes)?;
    let end = head_bytes + length as usize;
    Some((kind, bytes.get(head_bytes..end)?, end))
}

/// Returns true if the section has exactly the trailers that an application sends.
fn is_sum(section: &[u8]) -> bool {
    let mut fields = Vec::new();
    let decoded = decode(section, &mut Vec::new(), |name, value| {
        fields.push((name.to_vec(), value.to_vec()));
        true
    });
    decoded.is_ok() && fields == [(b"sum".to_vec(), b"1".to_vec())]
}

fn status(section: &[u8]) -> Result<u16, String> {
    let mut status = None;
    decode(section, &mut Vec::new(), |name, value| {
        if name == b":status" {
            status = String::from_utf8_lossy(value).parse().ok();
        }
        true
    })
    .map_err(|_| "a head that cannot be read")?;
    status.ok_or_else(|| "a head without a status".into())
}
