//! Reading: from bytes to requests.

use http::{BodyLength, Reject, Request, parse_request};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::Worker;
use super::conn::{Body, Phase, TOO_LARGE};
use super::line::Line;

impl Worker {
    /// Reads what has arrived, as long as the connection is in a phase that wants it.
    pub(super) fn read(&mut self, at: usize) {
        let mut scratch = std::mem::take(&mut self.scratch);
        while let Some(conn) = self.conns.get_mut(at) {
            if !conn.is_readable || conn.phase.is_sending() {
                break;
            }
            match rustix::net::recv(&*conn.socket, &mut scratch[..], RecvFlags::empty()) {
                Ok((_, 0)) => {
                    self.close(at);
                    break;
                }
                Ok((_, bytes)) => {
                    // A short read has emptied the socket, but for the end; what comes later is a new event.
                    conn.is_readable = bytes == scratch.len() || conn.has_ended;
                    self.take_input(at, &scratch[..bytes]);
                }
                Err(Errno::AGAIN) => conn.is_readable = false,
                Err(Errno::INTR) => {}
                Err(_) => {
                    self.close(at);
                    break;
                }
            }
        }
        self.scratch = scratch;
    }

    /// Answers the requests in what was kept and what has come; keeps the rest.
    pub(super) fn take_input(&mut self, at: usize, bytes: &[u8]) {
        let kept = std::mem::take(&mut self.conns[at].input);
        if kept.is_empty() {
            let used = self.process(at, bytes);
            self.keep(at, &bytes[used..]);
        } else {
            let mut all = kept;
            all.extend_from_slice(bytes);
            let used = self.process(at, &all);
            self.keep(at, &all[used..]);
        }
        self.flush(at);
    }

    fn keep(&mut self, at: usize, rest: &[u8]) {
        if let Some(conn) = self.conns.get_mut(at)
            && !rest.is_empty()
        {
            conn.input = rest.to_vec();
        }
    }

    /// Gives how many bytes were used.
    fn process(&mut self, at: usize, bytes: &[u8]) -> usize {
        let mut used = 0;
        while used < bytes.len() {
            let Some(conn) = self.conns.get_mut(at) else { return bytes.len() };
            let rest = &bytes[used..];
            let step = match &mut conn.phase {
                Phase::Sending { .. } => return used,
                Phase::Lingering => return bytes.len(),
                Phase::Body(body) => match body.take(rest) {
                    Ok((consumed, is_done)) => {
                        used += consumed;
                        conn.deadline = self.now + self.parts.limits.body_timeout;
                        if is_done {
                            self.answer_after_body(at);
                        }
                        Ok(true)
                    }
                    Err(reject) => Err(reject),
                },
                Phase::Head if conn.closes => return bytes.len(),
                Phase::Head => self.process_head(at, rest, &mut used),
            };
            match step {
                Ok(true) => {}
                Ok(false) => return used,
                Err(reject) => {
                    self.refuse(at, reject, rest);
                    return bytes.len();
                }
            }
        }
        used
    }

    /// False: the head is not complete.
    fn process_head(&mut self, at: usize, bytes: &[u8], used: &mut usize) -> Result<bool, Reject> {
        let Some(request) = parse_request(bytes, &self.parts.limits.request)? else {
            // The time for a head runs from its first byte, however slowly the others come.
            let conn = &mut self.conns[at];
            conn.deadline = conn.deadline.min(self.now + self.parts.limits.head_timeout);
            return Ok(false);
        };
        // No answer depends on a body, so a client that waits before it sends one has its final status at once (RFC 9110
        // section 10.1.1). Whether it sends the body all the same is unknown: nothing behind this head is read.
        if request.body == BodyLength::None || request.expect_continue {
            self.conns[at].has_unread |= request.expect_continue;
            self.answer(at, &request);
        } else if !self.begin_body(at, &request, &bytes[..request.head_bytes])? {
            return Ok(false);
        }
        *used += request.head_bytes;
        Ok(true)
    }

    /// False: earlier responses are still being sent, and the request has to wait.
    fn begin_body(&mut self, at: usize, request: &Request, head: &[u8]) -> Result<bool, Reject> {
        let bytes_max = self.parts.limits.body_bytes_max;
        if matches!(request.body, BodyLength::Length(bytes) if bytes > bytes_max) {
            return Err(TOO_LARGE);
        }
        self.flush(at);
        let Some(conn) = self.conns.get_mut(at) else { return Ok(false) };
        if conn.phase.is_sending() {
            return Ok(false);
        }
        conn.phase = Phase::Body(Box::new(Body::new(head, request.body, bytes_max)));
        conn.deadline = self.now + self.parts.limits.body_timeout;
        Ok(true)
    }

    fn answer_after_body(&mut self, at: usize) {
        let Phase::Body(body) = std::mem::replace(&mut self.conns[at].phase, Phase::Head) else { return };
        match parse_request(&body.head, &self.parts.limits.request) {
            Ok(Some(request)) => self.answer(at, &request),
            Ok(None) => self.refuse(at, TOO_LARGE, &body.head),
            Err(reject) => self.refuse(at, reject, &body.head),
        }
    }

    fn answer(&mut self, at: usize, request: &Request) {
        let line = self.parts.logs_access.then(|| Box::new(Line::new(request, self.now)));
        let began = self.out.len();
        let is_last = self.stop_at.is_some() || request.expect_continue;
        let reply = self.parts.replier.reply(request, is_last, self.now, &mut self.out);
        self.conns[at].line = line;
        self.conns[at].class = self.parts.classes.of(request.path);
        self.send(at, reply, began);
    }

    /// Answers what is no request, and reads no more. `received`, or the head of the request whose body was being read,
    /// is what the log shows.
    pub(super) fn refuse(&mut self, at: usize, reject: Reject, received: &[u8]) {
        let conn = &mut self.conns[at];
        let phase = std::mem::replace(&mut conn.phase, Phase::Head);
        if self.parts.logs_access {
            let head = if let Phase::Body(body) = &phase { &body.head } else { received };
            conn.line = Some(Box::new(Line::refused(head, reject.reason, self.now)));
        }
        conn.has_unread = true;
        conn.class = self.parts.classes.last();
        let began = self.out.len();
        let reply = self.parts.replier.reject(reject, &mut self.out);
        self.send(at, reply, began);
    }
}
