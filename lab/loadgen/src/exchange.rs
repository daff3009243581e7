//! Requests and responses of HTTP/1.1 on one connection, one after another, without any I/O: it takes and returns
//! bytes, and records facts in the ledger.
//!
//! A connection never has two requests in flight. Browsers do not pipeline, nor did the clients of the papers, and a
//! small response behind a large one on the same connection would wait for it whatever the server's order. So if a user
//! gives up and the connection is closed, no other request is lost.

use record::Outcome;
use units::Nanos;

use crate::Plan;
use crate::ledger::Ledger;
use crate::reader::{Event, Reader};
use crate::talk::Talk;

#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// The job in flight.
    job: Option<usize>,
    /// The request, and the number of its bytes that the socket has taken.
    request: Vec<u8>,
    sent_bytes: usize,
    reader: Reader,
    /// The number of requests sent so far.
    asked: u64,
    /// No request follows this one: we asked to close the connection, or the server announced it.
    is_last: bool,
    /// Part of the response in flight has arrived.
    is_answering: bool,
    /// The job to be requested again over another connection.
    unheard: Option<usize>,
    /// The last job that has ended.
    ended: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Next {
    /// The job in flight continues, or there is none.
    Continue,
    /// The job has ended, and another may be requested.
    Free,
    /// The connection has nothing more to deliver, and no open job.
    Close,
}

impl Talk for Exchange {
    fn submit(&mut self, plan: &Plan, job: usize, ledger: &mut Ledger<'_>, _: Nanos) {
        assert!(self.job.is_none(), "a connection carries one request at a time");
        let ask = ledger.ask(job);
        self.asked += 1;
        self.is_last = self.asked == plan.per_connection;
        self.is_answering = false;
        self.request.clear();
        self.sent_bytes = 0;
        plan.write_request(ask, self.is_last, &mut self.request);
        self.job = Some(job);
    }

    fn is_idle(&self) -> bool {
        self.job.is_none()
    }

    fn has_room(&self) -> bool {
        self.job.is_none() && !self.is_last
    }

    fn unsent(&self) -> &[u8] {
        &self.request[self.sent_bytes..]
    }

    fn on_sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
    }

    fn on_bytes(&mut self, mut input: &[u8], ledger: &mut Ledger<'_>, now: Nanos) -> Next {
        // Bytes that were not requested: they could not be distinguished from the next response.
        let Some(job) = self.job else { return Next::Close };
        if !input.is_empty() && !self.is_answering {
            self.is_answering = true;
            ledger.on_byte(job, now);
        }
        loop {
            match self.reader.poll(&mut input) {
                Ok(None) => return Next::Continue,
                Ok(Some(Event::Head(head))) => {
                    self.is_last |= !head.keep_alive;
                    ledger.on_head(job, head.status, head.head_bytes as u64);
                }
                Ok(Some(Event::Body(bytes))) => ledger.on_body(job, bytes, now),
                Ok(Some(Event::End)) => {
                    (self.job, self.ended) = (None, Some(job));
                    ledger.on_whole(job, now);
                    return if self.is_last || !input.is_empty() { Next::Close } else { Next::Free };
                }
                Err(_) => {
                    self.fail(Outcome::Wrong, ledger, now);
                    return Next::Close;
                }
            }
        }
    }

    /// Only a response without a length is completed by the end of the stream.
    fn on_end_of_stream(&mut self, ledger: &mut Ledger<'_>, now: Nanos) {
        if self.reader.ends_with_stream()
            && let Some(job) = self.job.take()
        {
            self.ended = Some(job);
            ledger.on_whole(job, now);
        }
        self.on_reset(ledger, now);
    }

    /// If the connection had served other requests and was reset while this request was
    /// on its way, neither side is at fault, and the job must be requested again over another connection, as every
    /// client does (RFC 9112 section 9.3.1). This cannot happen on a new connection, so it happens at most once per
    /// attempt.
    fn on_reset(&mut self, ledger: &mut Ledger<'_>, now: Nanos) {
        if self.asked > 1 && !self.is_answering {
            self.unheard = self.job.take();
        }
        self.fail(Outcome::Reset, ledger, now);
    }

    fn fail(&mut self, outcome: Outcome, ledger: &mut Ledger<'_>, now: Nanos) {
        if let Some(job) = self.job.take() {
            self.ended = Some(job);
            ledger.end(job, outcome, now);
        }
    }

    fn cancel(&mut self, job: usize) -> bool {
        self.job != Some(job)
    }

    fn take_unheard(&mut self) -> Vec<usize> {
        self.unheard.take().into_iter().collect()
    }

    fn take_ended(&mut self) -> Option<usize> {
        self.ended.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;
    use crate::testing::Jobs;
    use Outcome::{Complete, Incomplete, Reset, Wrong};
    use proptest::prelude::*;

    fn response(size: u64, connection: &str) -> Vec<u8> {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nConnection: {connection}\r\n\r\n");
        [head.into_bytes(), vec![b'x'; size as usize]].concat()
    }

    /// Returns the outcome of a job of 10 bytes on a connection for `per_connection` requests that receives `stream`,
    /// and its end if `ends`.
    fn one(per_connection: u64, stream: &[u8], ends: bool) -> (Outcome, Next) {
        let (plan, mut source) = (plan(per_connection), Jobs::of(&[10]));
        let (mut ledger, mut exchange) = (Ledger::new(&plan, &mut source), Exchange::default());
        let job = ledger.submit(Nanos(0)).unwrap();
        exchange.submit(&plan, job, &mut ledger, Nanos(0));
        let next = exchange.on_bytes(stream, &mut ledger, Nanos(1));
        if ends && next == Next::Continue {
            exchange.on_end_of_stream(&mut ledger, Nanos(2));
        }
        (ledger.close(Nanos(9)).records[0].outcome, next)
    }

    #[test]
    fn a_whole_response_frees_the_connection_or_ends_it() {
        assert_eq!(one(3, &response(10, "keep-alive"), false), (Complete, Next::Free));
        assert_eq!(one(1, &response(10, "keep-alive"), false), (Complete, Next::Close));
        assert_eq!(one(3, &response(10, "close"), false), (Complete, Next::Close));
        assert_eq!(one(3, &response(11, "keep-alive"), false), (Wrong, Next::Free));
        assert_eq!(one(3, &response(10, "keep-alive")[..70], false), (Incomplete, Next::Continue));
    }

    #[test]
    fn an_early_end_is_a_reset() {
        assert_eq!(one(3, &response(10, "keep-alive")[..70], true).0, Reset);
        assert_eq!(one(3, b"", true).0, Reset);
    }

    #[test]
    fn a_body_without_length_ends_with_the_stream() {
        assert_eq!(one(3, b"HTTP/1.1 200 OK\r\n\r\n0123456789", true).0, Complete);
        assert_eq!(one(3, b"HTTP/1.1 200 OK\r\n\r\n012345678", true).0, Wrong);
    }

    #[test]
    fn what_is_not_http_is_wrong() {
        assert_eq!(one(3, b"SSH-2.0-OpenSSH_9\r\n", false), (Wrong, Next::Close));
    }

    #[test]
    fn bytes_nobody_asked_for_close_the_connection() {
        assert_eq!(one(3, &[response(10, "keep-alive"), b"H".to_vec()].concat(), false), (Complete, Next::Close));
        let (plan, mut source) = (plan(3), Jobs::of(&[10]));
        let (mut ledger, mut exchange) = (Ledger::new(&plan, &mut source), Exchange::default());
        assert_eq!(exchange.on_bytes(b"H", &mut ledger, Nanos(1)), Next::Close);
    }

    #[test]
    fn the_last_byte_of_the_body_ends_the_job() {
        let (plan, mut source) = (plan(1), Jobs::of(&[10]));
        let (mut ledger, mut exchange) = (Ledger::new(&plan, &mut source), Exchange::default());
        let job = ledger.submit(Nanos(0)).unwrap();
        exchange.submit(&plan, job, &mut ledger, Nanos(0));
        let (stream, size) = (response(10, "close"), response(10, "close").len());
        assert_eq!(exchange.on_bytes(&stream[..5], &mut ledger, Nanos(1)), Next::Continue);
        assert_eq!(exchange.on_bytes(&stream[5..size - 1], &mut ledger, Nanos(2)), Next::Continue);
        assert_eq!(exchange.on_bytes(&stream[size - 1..], &mut ledger, Nanos(3)), Next::Close);
        let record = &ledger.close(Nanos(9)).records[0];
        assert_eq!((record.first_byte_ns, record.end_ns, record.body_bytes), (Some(1), 3, 10));
        assert_eq!(record.head_bytes, size as u64 - 10);
    }

    #[test]
    fn only_an_unheard_request_on_a_used_connection_is_asked_again() {
        let (plan, mut source) = (plan(9), Jobs::of(&[10, 10]));
        let (mut ledger, mut exchange) = (Ledger::new(&plan, &mut source), Exchange::default());
        let jobs = [0, 1].map(|at| ledger.submit(Nanos::from_millis(at)).unwrap());
        exchange.submit(&plan, jobs[0], &mut ledger, Nanos(0));
        exchange.on_reset(&mut ledger, Nanos(1));
        assert_eq!((exchange.take_unheard(), exchange.take_ended()), (vec![], Some(jobs[0])), "on a new connection");
        exchange.submit(&plan, jobs[1], &mut ledger, Nanos(0));
        exchange.on_end_of_stream(&mut ledger, Nanos(2));
        assert_eq!((exchange.take_unheard(), exchange.take_unheard()), (vec![jobs[1]], vec![]));
        exchange.submit(&plan, jobs[1], &mut ledger, Nanos(0));
        assert_eq!(exchange.on_bytes(b"HTTP", &mut ledger, Nanos(3)), Next::Continue);
        exchange.on_end_of_stream(&mut ledger, Nanos(4));
        assert_eq!((exchange.take_unheard(), exchange.take_ended()), (vec![], Some(jobs[1])), "this one was heard");
    }

    proptest! {
        /// Whatever the peer sends, the job ends at most once (the ledger would panic), and exactly once if the
        /// connection is closed.
        #[test]
        fn any_stream_ends_the_job_once(pieces in prop::collection::vec(0..5_usize, 0..6), cut: usize, on_one in 1..3_u64) {
            let part = [response(10, "keep-alive"), response(20, "keep-alive"), response(10, "close"), b"\r\n".to_vec(), b"HTTP/1.1 200 OK\r\n\r\n".to_vec()];
            let stream: Vec<u8> = pieces.iter().flat_map(|&piece| part[piece].clone()).collect();
            let (outcome, next) = one(on_one, &stream[..cut % (stream.len() + 1)], true);
            prop_assert!(outcome != Incomplete, "{:?} {:?}", outcome, next);
        }
    }
}
