//! Reading: from bytes to requests. One connection takes only so much of a turn; if there is more, it queues for the next.

use http::{BodyLength, Reject, Request, parse_request};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::Worker;
use super::conn::{Body, Input, Phase, TOO_LARGE};
use super::line::Line;

/// Requests of one connection that are answered in a turn: a fraction of a millisecond's work.
const REQUESTS_PER_TURN_MAX: u32 = 64;
/// Bytes that are sent to one connection in a turn, give or take one response: what a socket buffer takes anyway.
pub(super) const BYTES_PER_TURN_MAX: u64 = 2 << 20;
/// A connection whose buffer is full when it is read has more to say than others, who come first.
const RECEIVES_PER_TURN_MAX: u32 = 4;

/// What is left to a connection of this turn.
#[derive(Default)]
pub(super) struct Budget {
    pub requests: u32,
    pub bytes: u64,
    pub receives: u32,
}

impl Budget {
    const WHOLE: Budget =
        Budget { requests: REQUESTS_PER_TURN_MAX, bytes: BYTES_PER_TURN_MAX, receives: RECEIVES_PER_TURN_MAX };

    fn is_spent(&self) -> bool {
        self.requests == 0 || self.bytes == 0
    }
}

impl Worker {
    /// Reads what has arrived, as long as the connection is in a phase that wants it, for its share of the turn.
    pub(super) fn read(&mut self, at: usize) {
        self.budget = Budget::WHOLE;
        if self.conns[at].is_cut {
            self.take_kept(at);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        while let Some(conn) = self.conns.get(at) {
            if conn.phase.is_answering() || (!conn.is_readable && !conn.is_cut) {
                break;
            }
            if conn.is_cut || self.budget.is_spent() || self.budget.receives == 0 {
                self.queue(at);
                break;
            }
            self.receive(at, &mut scratch);
        }
        self.scratch = scratch;
    }

    fn receive(&mut self, at: usize, scratch: &mut [u8]) {
        let conn = &mut self.conns[at];
        self.budget.receives -= 1;
        match rustix::net::recv(&*conn.socket, &mut *scratch, RecvFlags::empty()) {
            Ok((_, 0)) => self.close(at),
            Ok((_, bytes)) => {
                // A short read has emptied the socket, but for the end; what comes later is a new event.
                conn.is_readable = bytes == scratch.len() || conn.has_ended;
                self.take_input(at, &scratch[..bytes]);
                self.acknowledge_part(at);
            }
            Err(Errno::AGAIN) => conn.is_readable = false,
            Err(Errno::INTR) => {}
            Err(_) => self.close(at),
        }
    }

    /// A client may hold the rest of its request back until it knows that the beginning came (Nagle's algorithm, RFC 9293 section
    /// 3.7.4), and no response takes the acknowledgement along.
    fn acknowledge_part(&self, at: usize) {
        let Some(conn) = self.conns.get(at) else { return };
        let is_part = match conn.phase {
            Phase::Body(_) => true,
            Phase::Head => !conn.input.is_empty() && !conn.is_cut,
            _ => false,
        };
        if is_part {
            // Not vital: without it the kernel sends one after 40 ms.
            let _ = rustix::net::sockopt::set_tcp_quickack(&*conn.socket, true);
        }
    }

    /// Answers the requests in what was kept and what has come; keeps the rest.
    fn take_input(&mut self, at: usize, bytes: &[u8]) {
        let conn = &mut self.conns[at];
        if !conn.input.is_empty() {
            conn.input.append(bytes);
            return self.take_kept(at);
        }
        let used = self.process(at, bytes);
        if let Some(conn) = self.conns.get_mut(at)
            && used < bytes.len()
        {
            conn.input = Input::of(&bytes[used..]);
        }
        self.flush(at);
    }

    /// Answers the requests in what was kept.
    pub(super) fn take_kept(&mut self, at: usize) {
        let mut kept = std::mem::take(&mut self.conns[at].input);
        let used = self.process(at, kept.rest());
        if let Some(conn) = self.conns.get_mut(at) {
            kept.consume(used);
            conn.input = kept;
        }
        self.flush(at);
    }

    /// Gives how many bytes were used.
    fn process(&mut self, at: usize, bytes: &[u8]) -> usize {
        let mut used = 0;
        self.conns[at].is_cut = false;
        while used < bytes.len() {
            let Some(conn) = self.conns.get_mut(at) else { return bytes.len() };
            if !conn.phase.is_answering() && self.budget.is_spent() {
                conn.is_cut = true;
                return used;
            }
            match self.step(at, &bytes[used..]) {
                Ok(Step::Used(bytes)) => used += bytes,
                Ok(Step::Wait) => return used,
                Ok(Step::Ignore) => return bytes.len(),
                Err(reject) => {
                    self.refuse(at, reject, &bytes[used..]);
                    return bytes.len();
                }
            }
        }
        used
    }

    /// The next request or piece of a body.
    fn step(&mut self, at: usize, rest: &[u8]) -> Result<Step, Reject> {
        let conn = &mut self.conns[at];
        match &mut conn.phase {
            Phase::Sending(_) | Phase::Finding(_) => Ok(Step::Wait),
            Phase::Lingering => Ok(Step::Ignore),
            Phase::Head if conn.closes => Ok(Step::Ignore),
            Phase::Head => self.process_head(at, rest),
            Phase::Body(body) => {
                let (bytes, is_done) = body.take(rest)?;
                conn.deadline = body.deadline(self.now, &self.parts.limits);
                if is_done {
                    self.answer_after_body(at);
                }
                Ok(Step::Used(bytes))
            }
        }
    }

    fn process_head(&mut self, at: usize, bytes: &[u8]) -> Result<Step, Reject> {
        let Some(request) = parse_request(bytes, &self.parts.limits.request)? else {
            // The time for a head runs from its first byte, however slowly the others come.
            let conn = &mut self.conns[at];
            conn.deadline = conn.deadline.min(self.now + self.parts.limits.head_timeout);
            return Ok(Step::Wait);
        };
        self.budget.requests -= 1;
        // No answer depends on a body, so a client that waits before it sends one has its final status at once (RFC 9110
        // section 10.1.1). Whether it sends the body all the same is unknown: nothing behind this head is read.
        if request.body == BodyLength::None || request.expect_continue {
            self.conns[at].is_readable |= request.expect_continue;
            if !self.answer(at, &request, &bytes[..request.head_bytes]) {
                return Ok(Step::Wait);
            }
        } else if !self.begin_body(at, &request, &bytes[..request.head_bytes])? {
            return Ok(Step::Wait);
        }
        Ok(Step::Used(request.head_bytes))
    }

    /// False: earlier responses are still being sent, and the request has to wait.
    fn begin_body(&mut self, at: usize, request: &Request, head: &[u8]) -> Result<bool, Reject> {
        let bytes_max = self.parts.limits.body_bytes_max;
        if matches!(request.body, BodyLength::Length(bytes) if bytes > bytes_max) {
            return Err(TOO_LARGE);
        }
        if !self.finish_earlier(at) {
            return Ok(false);
        }
        let conn = &mut self.conns[at];
        let body = Body::new(head, request.body, bytes_max, self.now);
        conn.deadline = body.deadline(self.now, &self.parts.limits);
        conn.phase = Phase::Body(Box::new(body));
        Ok(true)
    }

    fn answer_after_body(&mut self, at: usize) {
        let Phase::Body(body) = std::mem::replace(&mut self.conns[at].phase, Phase::Head) else { return };
        match parse_request(&body.head, &self.parts.limits.request) {
            Ok(Some(request)) => {
                let is_answered = self.answer(at, &request, &body.head);
                debug_assert!(is_answered, "nothing was gathered while the body came");
            }
            Ok(None) => self.refuse(at, TOO_LARGE, &body.head),
            Err(reject) => self.refuse(at, reject, &body.head),
        }
    }

    /// Begins to send what was gathered for this connection. False: it takes longer, or the connection is gone.
    fn finish_earlier(&mut self, at: usize) -> bool {
        self.flush(at);
        self.conns.get(at).is_some_and(|conn| !conn.phase.is_answering())
    }

    /// False: earlier responses are still being sent, and the request has to wait.
    fn answer(&mut self, at: usize, request: &Request, head: &[u8]) -> bool {
        let line = self.keeps_lines().then(|| Box::new(Line::new(request, self.now)));
        let (mut began, is_last) = (self.out.len(), self.is_last(request));
        let reply = match self.parts.replier.reply(request, is_last, self.now, &mut self.out) {
            Ok(reply) => reply,
            Err(find) => {
                if !self.finish_earlier(at) {
                    return false;
                }
                let Err(missing) = self.begin_find(at, find, head) else {
                    self.conns[at].line = line;
                    return true;
                };
                began = self.out.len();
                self.parts.replier.reply_with(request, Err(missing), is_last, &mut self.out)
            }
        };
        self.conns[at].line = line;
        self.conns[at].class = self.parts.classes.of(request.path);
        self.send(at, reply, began);
        true
    }

    /// Whether nothing is read behind a request.
    pub(super) fn is_last(&self, request: &Request) -> bool {
        self.stop_at.is_some() || request.expect_continue
    }

    /// Answers what is no request, and reads no more. `received`, or the head of the request whose body was being read,
    /// is what the log shows.
    pub(super) fn refuse(&mut self, at: usize, reject: Reject, received: &[u8]) {
        let keeps_lines = self.keeps_lines();
        let conn = &mut self.conns[at];
        let phase = std::mem::replace(&mut conn.phase, Phase::Head);
        if keeps_lines {
            let head = if let Phase::Body(body) = &phase { &body.head } else { received };
            conn.line = Some(Box::new(Line::refused(head, reject.reason, self.now)));
        }
        // What it sends besides is read, and thrown away.
        conn.is_readable = true;
        conn.class = self.parts.classes.last();
        let began = self.out.len();
        let reply = self.parts.replier.reject(reject, &mut self.out);
        self.send(at, reply, began);
    }
}

/// What became of the bytes at hand.
enum Step {
    Used(usize),
    /// More has to come, or an earlier response to go, first.
    Wait,
    /// Nobody wants any of them.
    Ignore,
}
