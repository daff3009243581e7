//! A request of a client to an application. A number in the path determines everything about it, so that both sides
//! know the correct behaviour.

use units::Nanos;

use super::super::files::Site;
use super::super::plan::UpstreamPlan;
use super::super::random::Random;

/// The prefix of paths that are passed on.
pub const PREFIX: &str = "/app/";
/// The end of paths whose response is text.
pub const TEXT: &str = "?text";

/// The size from which a body takes longer than the minimum response timeout on the slowest line with the slowest
/// application.
const LARGE_UPLOAD_BYTES: usize = 300_000;

#[derive(Debug, Clone)]
pub struct Ask {
    /// The number in the path, from which everything else follows.
    pub word: u64,
    pub method: &'static str,
    pub status: u16,
    pub framing: Framing,
    /// The file whose bytes are the body.
    pub file: usize,
    pub fault: Option<Fault>,
    pub upload: Option<Upload>,
    pub takes: Takes,
    /// True if the protocol changes, to one in which each byte is echoed.
    pub is_tunnel: bool,
    /// The number of bytes to echo.
    pub tunnel_bytes: usize,
    /// The number of interim responses before the response.
    pub interim: u64,
    pub thinks: Nanos,
    /// The response is sent in this many pieces, with this pause between two.
    pub pieces: usize,
    pub pause: Nanos,
    /// True if the application closes the connection after the response.
    pub closes: bool,
    /// The position of a fault in the body, in thousandths of the body.
    pub cut_permille: u64,
    /// A length near a power of two, for a fault that needs one.
    pub great: u128,
    /// The response has a type that the server codes.
    pub is_text: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    Length,
    Chunked,
    Close,
}

/// The fault of an application's response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends, or is reset, without a response.
    Closed,
    Reset,
    HalfHead,
    NotHttp,
    TwoLengths,
    /// The announced length is 2^63 or more, which no file has.
    GreatLength,
    Silent,
    /// The announced length is very large, and the connection ends within the body.
    FarLength,
    /// The connection ends, or is reset, within the body.
    CutBody,
    ResetBody,
    /// The body stops after a part of it, and the connection stays open.
    StalledBody,
    BadChunk,
    /// More bytes follow than announced.
    TooMuch,
}

const FAULTS: [Fault; 13] = [
    Fault::Closed,
    Fault::Reset,
    Fault::HalfHead,
    Fault::NotHttp,
    Fault::TwoLengths,
    Fault::GreatLength,
    Fault::Silent,
    Fault::FarLength,
    Fault::CutBody,
    Fault::ResetBody,
    Fault::StalledBody,
    Fault::BadChunk,
    Fault::TooMuch,
];

/// The body of a request: the first bytes of the largest file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upload {
    pub bytes: usize,
    pub is_chunked: bool,
}

/// The way in which an application reads the body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    Whole,
    Slowly,
    /// The application answers first, and reads the body nevertheless.
    Afterwards,
    /// The application answers without reading the body, and closes.
    Never,
}

/// The fate of the connection after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    Keep,
    Close,
    Reset,
    /// The connection stays open, and nothing more is sent.
    Silence,
    /// Received bytes are echoed.
    Echo,
}

/// The outcomes that a client must accept.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    /// True if the response must arrive; otherwise a status must report that there is none.
    pub is_answered: bool,
    pub may_fail: bool,
    /// True if the response may end prematurely.
    pub may_break: bool,
}

impl Fault {
    fn is_before_head(self) -> bool {
        matches!(self, Fault::Closed | Fault::Reset | Fault::HalfHead | Fault::NotHttp | Fault::Silent)
    }

    fn is_in_body(self) -> bool {
        matches!(self, Fault::FarLength | Fault::CutBody | Fault::ResetBody | Fault::StalledBody | Fault::BadChunk)
    }
}

impl Ask {
    /// Returns `None` for any other path.
    pub fn of_path(path: &str, site: &Site) -> Option<Ask> {
        let word = path.strip_prefix(PREFIX)?;
        let is_text = word.ends_with(TEXT);
        let word = word.strip_suffix(TEXT).unwrap_or(word);
        Some(Ask { is_text, ..Ask::of(u64::from_str_radix(word, 16).ok()?, site) })
    }

    /// The next random request that satisfies `is_wanted`.
    pub fn find(site: &Site, random: &mut Random, is_wanted: impl Fn(&Ask) -> bool) -> Ask {
        loop {
            let ask = Ask::of(random.word(), site);
            if is_wanted(&ask) {
                return ask;
            }
        }
    }

    pub fn of(word: u64, site: &Site) -> Ask {
        let mut random = Random::new(word);
        let method = random.one_of(&["GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "GET"]);
        let has_upload = matches!(method, "POST" | "PUT");
        let upload = has_upload.then(|| Upload {
            bytes: random.one_of(&[0, 1, 100, 5_000, 70_000, 300_000]),
            is_chunked: random.once_in(2),
        });
        let status = random.one_of(&[200, 200, 200, 200, 200, 200, 404, 204, 304]);
        let takes = random.one_of(&[Takes::Whole, Takes::Whole, Takes::Slowly, Takes::Afterwards, Takes::Never]);
        let mut ask = Ask {
            word,
            method,
            status,
            framing: random.one_of(&[Framing::Length, Framing::Length, Framing::Chunked, Framing::Close]),
            file: random.below(site.count() as u64) as usize,
            fault: None,
            takes: if upload.is_some() { takes } else { Takes::Whole },
            upload,
            is_tunnel: method == "GET" && random.once_in(10),
            tunnel_bytes: random.one_of(&[1, 3_000, 100_000]),
            interim: if random.once_in(6) { random.between(1, 3) } else { 0 },
            thinks: random.one_of(&[Nanos::ZERO, Nanos::from_millis(20), Nanos::from_secs(2)]),
            pieces: random.one_of(&[1, 1, 2, 40]),
            pause: random.micros(1, 300_000),
            closes: random.once_in(8),
            cut_permille: random.below(1_000),
            great: random.near_power(),
            is_text: false,
        };
        ask.fault = random.once_in(4).then(|| random.one_of(&FAULTS)).filter(|fault| ask.can(*fault, site));
        // The server cannot distinguish excess bytes from the next response, if there is a next.
        ask.closes |= ask.fault == Some(Fault::TooMuch);
        ask
    }

    fn can(&self, fault: Fault, site: &Site) -> bool {
        let has_bytes = !self.body(site).is_empty();
        match fault {
            fault if self.is_tunnel => fault.is_before_head(),
            Fault::CutBody | Fault::StalledBody => has_bytes && self.framing != Framing::Close,
            Fault::BadChunk => has_bytes && self.framing == Framing::Chunked,
            Fault::ResetBody => has_bytes,
            Fault::TooMuch => self.framing != Framing::Close,
            Fault::GreatLength => self.framing == Framing::Length && self.status != 204 && self.great >= 1 << 63,
            Fault::FarLength => self.framing == Framing::Length && has_bytes && self.great < 1 << 63,
            _ => true,
        }
    }

    pub fn path(&self) -> String {
        format!("{PREFIX}{:x}", self.word)
    }

    /// Returns true if trailers follow the body of the response.
    pub fn has_trailers(&self) -> bool {
        self.has_body() && self.framing == Framing::Chunked && self.interim > 0
    }

    /// The body of the response.
    pub fn body<'s>(&self, site: &'s Site) -> &'s [u8] {
        match self.is_tunnel {
            true => &site.file(site.count() - 1)[..self.tunnel_bytes],
            false if self.has_body() => site.file(self.file),
            false => &[],
        }
    }

    /// The body that the client must receive.
    pub fn sent<'s>(&self, site: &'s Site) -> &'s [u8] {
        if self.has_body() && !self.is_tunnel { site.sent(self.file) } else { self.body(site) }
    }

    fn has_body(&self) -> bool {
        self.method != "HEAD" && !matches!(self.status, 204 | 304)
    }

    /// The length that the head of the response gives, if it differs from the body's.
    pub fn said_bytes(&self) -> Option<usize> {
        let is_far = self.fault == Some(Fault::FarLength);
        is_far.then(|| self.great.try_into().expect("below 2^63"))
    }

    /// The body of the request.
    pub fn uploaded<'s>(&self, site: &'s Site) -> &'s [u8] {
        self.upload.map_or(&[], |upload| &site.file(site.count() - 1)[..upload.bytes])
    }

    /// The outcomes that a client must accept for this request.
    pub fn expected(&self, plan: &UpstreamPlan) -> Expected {
        // A request that cannot be repeated is lost if an idle connection has just been closed.
        let may_be_lost = plan.closes_idle && (self.method == "POST" || self.upload.is_some());
        // If the rest of a request arrives at a closed socket, a reset discards the unsent part of the response.
        let may_be_reset = self.takes == Takes::Never;
        // The response timeout runs from the last byte that the socket accepted. If the line is slow, or the
        // application reads slowly, most of a large body is still unread then.
        let takes_first = matches!(self.takes, Takes::Whole | Takes::Slowly);
        let may_be_late = takes_first && self.upload.is_some_and(|upload| upload.bytes >= LARGE_UPLOAD_BYTES);
        let is_faulty = self.fault.is_some_and(|fault| fault != Fault::TooMuch);
        Expected {
            is_answered: self.fault.is_none_or(|fault| fault.is_in_body() || fault == Fault::TooMuch),
            may_fail: is_faulty || may_be_lost || may_be_reset || may_be_late || plan.may_fail(),
            may_break: may_be_reset || self.fault.is_some_and(Fault::is_in_body),
        }
    }

    /// Returns the bytes of the response, and what happens to the connection after them.
    pub fn response(&self, site: &Site) -> (Vec<u8>, After) {
        let hint =
            b"HTTP/1.1 103 Early Hints\r\nConnection: X-Hop\r\nX-Hop: 1\r\nLink: </style.css>; rel=preload\r\n\r\n";
        let mut out = hint.repeat(self.interim as usize);
        let keeps = if self.closes || self.framing == Framing::Close { After::Close } else { After::Keep };
        let keeps = if self.takes == Takes::Never { After::Close } else { keeps };
        match self.fault {
            Some(Fault::Closed) => return (out, After::Close),
            Some(Fault::Reset) => return (out, After::Reset),
            Some(Fault::Silent) => return (out, After::Silence),
            Some(Fault::NotHttp) => return (b"220 mail.example ESMTP\r\n\r\n".to_vec(), After::Close),
            _ => {}
        }
        if self.is_tunnel {
            out.extend(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
            if self.fault == Some(Fault::HalfHead) {
                out.truncate(out.len() - 3);
                return (out, After::Close);
            }
            return (out, After::Echo);
        }
        self.head(site, &mut out);
        let head_bytes = out.len();
        self.framed_body(site, &mut out);
        let body_bytes = out.len() - head_bytes;
        let cut = head_bytes + body_bytes * self.cut_permille as usize / 1_000;
        let (bytes, after) = match self.fault {
            Some(Fault::HalfHead) => (head_bytes / 2, After::Close),
            Some(Fault::CutBody | Fault::FarLength) => (cut, After::Close),
            Some(Fault::ResetBody) => (cut, After::Reset),
            Some(Fault::StalledBody) => (cut, After::Silence),
            _ => (out.len(), keeps),
        };
        out.truncate(bytes);
        if self.fault == Some(Fault::TooMuch) {
            out.extend(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
        }
        (out, after)
    }

    fn head(&self, site: &Site, out: &mut Vec<u8>) {
        out.extend(format!("HTTP/1.1 {} Something\r\nServer: app\r\n", self.status).as_bytes());
        if self.announces_close() {
            out.extend(b"Connection: close\r\n");
        }
        out.extend(if self.is_text { &b"Content-Type: text/html\r\n"[..] } else { b"" });
        if self.status != 204 {
            match self.framing {
                Framing::Length => {
                    let is_great = matches!(self.fault, Some(Fault::GreatLength | Fault::FarLength));
                    let bytes = if is_great { self.great } else { site.file(self.file).len() as u128 };
                    out.extend(format!("content-length: {bytes}\r\n").as_bytes());
                }
                Framing::Chunked => out.extend(b"Transfer-Encoding: chunked\r\n"),
                Framing::Close => {}
            }
        }
        if self.fault == Some(Fault::TwoLengths) {
            out.extend(b"Content-Length: 3\r\nContent-Length: 4\r\n");
        }
        out.extend(b"\r\n");
    }

    /// Returns true if the head of the response announces that the connection closes. Only an application that closes
    /// idle connections may close one unannounced; a request that the server sends on it meanwhile is lost.
    fn announces_close(&self) -> bool {
        // The end of a response without a body is not the end of its connection.
        let is_unframed = self.framing == Framing::Close && !self.has_body();
        self.closes || is_unframed || self.takes == Takes::Never
    }

    fn framed_body(&self, site: &Site, out: &mut Vec<u8>) {
        let body = self.body(site);
        if !self.has_body() {
            return;
        }
        if self.framing != Framing::Chunked {
            return out.extend(body);
        }
        let chunk_bytes = 1 + body.len() * (1 + self.cut_permille as usize) / 3_000;
        let middle = body.len().div_ceil(chunk_bytes) / 2;
        for (number, chunk) in body.chunks(chunk_bytes).enumerate() {
            let is_bad = self.fault == Some(Fault::BadChunk) && number == middle;
            // An invalid size, or one of 2^63 or more.
            let wrong = if self.great < 1 << 63 { "x".into() } else { format!("{:x}", self.great) };
            let size = if is_bad { wrong } else { format!("{:x}", chunk.len()) };
            let extension = if number == 0 { ";name=value" } else { "" };
            out.extend(format!("{size}{extension}\r\n").as_bytes());
            out.extend(chunk);
            out.extend(b"\r\n");
        }
        out.extend(if self.has_trailers() { &b"0\r\nSum: 1\r\n\r\n"[..] } else { b"0\r\n\r\n" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seed 9609: an application closed after a 204 and had not announced it, and the next POST on its connection was
    /// lost.
    #[test]
    fn an_application_closes_unannounced_only_when_its_response_ends_there() {
        let (site, mut random) = (Site::new(), Random::new(9_609));
        let mut announced = 0;
        for _ in 0..2_000 {
            let ask = Ask::find(&site, &mut random, |ask| !ask.is_tunnel && ask.fault.is_none());
            let (bytes, after) = ask.response(&site);
            let is_announced = bytes.windows(17).any(|part| part == b"Connection: close");
            let ends_body = ask.framing == Framing::Close && ask.has_body();
            assert!(after == After::Keep || is_announced || ends_body, "{ask:?}");
            announced += usize::from(is_announced && !ask.closes);
        }
        assert!(announced > 100, "{announced}");
    }
}
