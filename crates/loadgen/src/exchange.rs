//! Requests and responses on one connection, without the connection: bytes in, bytes out, facts into the ledger.

use std::collections::VecDeque;

use record::Outcome;
use units::Nanos;

use crate::Plan;
use crate::ledger::Ledger;
use crate::reader::{Event, Reader};

/// The jobs of one connection. They are answered in the order they were submitted (RFC 9112 section 9.3.2).
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// Jobs not yet answered in full; at most `Plan::per_connection`.
    waiting: VecDeque<usize>,
    /// Request bytes the socket has not taken; at most `Plan::per_connection` requests.
    unsent: Vec<u8>,
    reader: Reader,
    /// No job comes after those that wait.
    last_submitted: bool,
    /// The response being read is the last one the server sends.
    server_closes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Next {
    Continue,
    /// Nothing more is to come over this connection; none of its jobs is open.
    Close,
}

impl Exchange {
    pub(crate) fn submit(&mut self, plan: &Plan, job: usize) {
        plan.write_request(job, &mut self.unsent);
        self.waiting.push_back(job);
        self.last_submitted = plan.is_last_of_group(job);
    }

    pub(crate) fn unsent(&self) -> &[u8] {
        &self.unsent
    }

    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.unsent.drain(..bytes);
    }

    pub(crate) fn on_bytes(&mut self, mut input: &[u8], ledger: &mut Ledger, now: Nanos) -> Next {
        while let Some(&job) = self.waiting.front() {
            if !input.is_empty() {
                ledger.on_byte(job, now);
            }
            match self.reader.poll(&mut input) {
                Ok(None) => return Next::Continue,
                Ok(Some(Event::Head(head))) => {
                    self.server_closes = !head.keep_alive;
                    ledger.on_head(job, &head);
                }
                Ok(Some(Event::Body(bytes))) => ledger.on_body(job, bytes),
                Ok(Some(Event::End)) => {
                    self.waiting.pop_front();
                    ledger.on_whole(job, now);
                    if self.server_closes {
                        return self.lose(ledger, now);
                    }
                }
                Err(_) => {
                    self.waiting.pop_front();
                    ledger.end(job, Outcome::Wrong, now);
                    return self.lose(ledger, now);
                }
            }
        }
        // Bytes that nobody asked for: the next response could not be told from them.
        if input.is_empty() && !self.last_submitted { Next::Continue } else { Next::Close }
    }

    /// The server will send no more: only a response without a length is whole by that.
    pub(crate) fn on_end_of_stream(&mut self, ledger: &mut Ledger, now: Nanos) {
        if self.reader.ends_with_stream()
            && let Some(job) = self.waiting.pop_front()
        {
            ledger.on_whole(job, now);
        }
        self.fail(Outcome::Reset, ledger, now);
    }

    /// The connection is lost, and with it all jobs that wait on it.
    pub(crate) fn fail(&mut self, outcome: Outcome, ledger: &mut Ledger, now: Nanos) {
        for job in self.waiting.drain(..) {
            ledger.end(job, outcome, now);
        }
    }

    fn lose(&mut self, ledger: &mut Ledger, now: Nanos) -> Next {
        self.fail(Outcome::Reset, ledger, now);
        Next::Close
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;
    use Outcome::{Complete, Incomplete, Reset, Wrong};
    use proptest::prelude::*;

    fn response(size: u64, connection: &str) -> Vec<u8> {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nConnection: {connection}\r\n\r\n");
        [head.into_bytes(), vec![b'x'; size as usize]].concat()
    }

    /// Three jobs of 10, 20 and 30 bytes on one connection, all submitted, then `stream` and perhaps its end.
    fn three(stream: &[u8], ends: bool) -> (Vec<Outcome>, Next) {
        let plan = plan(&[10, 20, 30], 3);
        let (mut ledger, mut exchange) = (Ledger::new(&plan), Exchange::default());
        for _ in 0..3 {
            let job = ledger.submit(Nanos(0));
            exchange.submit(&plan, job);
        }
        let next = exchange.on_bytes(stream, &mut ledger, Nanos(1));
        if ends && next == Next::Continue {
            exchange.on_end_of_stream(&mut ledger, Nanos(2));
        }
        (ledger.close(Nanos(9)).0.iter().map(|record| record.outcome).collect(), next)
    }

    fn keep(sizes: &[u64]) -> Vec<u8> {
        sizes.iter().flat_map(|&size| response(size, "keep-alive")).collect()
    }

    #[test]
    fn answers_in_order() {
        assert_eq!(three(&keep(&[10, 20, 30]), false), (vec![Complete; 3], Next::Close));
        assert_eq!(three(&keep(&[10, 20]), false), (vec![Complete, Complete, Incomplete], Next::Continue));
        assert_eq!(three(&keep(&[10, 21, 30]), false), (vec![Complete, Wrong, Complete], Next::Close));
    }

    #[test]
    fn an_early_end_loses_what_waits() {
        assert_eq!(three(&keep(&[10]), true).0, [Complete, Reset, Reset]);
        assert_eq!(three(&keep(&[10, 20])[..keep(&[10]).len() + 9], true).0, [Complete, Reset, Reset]);
        assert_eq!(three(b"", true).0, [Reset; 3]);
    }

    #[test]
    fn a_server_that_closes_loses_what_waits() {
        assert_eq!(three(&response(10, "close"), false), (vec![Complete, Reset, Reset], Next::Close));
    }

    #[test]
    fn a_body_without_length_ends_with_the_stream() {
        assert_eq!(three(b"HTTP/1.1 200 OK\r\n\r\n0123456789", true).0, [Complete, Reset, Reset]);
        assert_eq!(three(b"HTTP/1.1 200 OK\r\n\r\n012345678", true).0, [Wrong, Reset, Reset]);
    }

    #[test]
    fn what_is_not_http_is_wrong() {
        assert_eq!(three(b"SSH-2.0-OpenSSH_9\r\n", false), (vec![Wrong, Reset, Reset], Next::Close));
    }

    #[test]
    fn bytes_nobody_asked_for_close_the_connection() {
        let plan = plan(&[10, 20], 2);
        let (mut ledger, mut exchange) = (Ledger::new(&plan), Exchange::default());
        let job = ledger.submit(Nanos(0));
        exchange.submit(&plan, job);
        assert_eq!(exchange.on_bytes(&keep(&[10]), &mut ledger, Nanos(1)), Next::Continue);
        assert_eq!(exchange.on_bytes(b"H", &mut ledger, Nanos(1)), Next::Close);
        assert_eq!(ledger.ended(), 1);
    }

    #[test]
    fn the_last_byte_of_the_body_ends_the_job() {
        let plan = plan(&[10], 1);
        let (mut ledger, mut exchange) = (Ledger::new(&plan), Exchange::default());
        let job = ledger.submit(Nanos(0));
        exchange.submit(&plan, job);
        let (stream, size) = (response(10, "close"), response(10, "close").len());
        assert_eq!(exchange.on_bytes(&stream[..5], &mut ledger, Nanos(1)), Next::Continue);
        assert_eq!(exchange.on_bytes(&stream[5..size - 1], &mut ledger, Nanos(2)), Next::Continue);
        assert_eq!(exchange.on_bytes(&stream[size - 1..], &mut ledger, Nanos(3)), Next::Close);
        let record = &ledger.close(Nanos(9)).0[0];
        assert_eq!((record.first_byte_ns, record.end_ns, record.body_bytes), (Some(1), 3, 10));
        assert_eq!(record.head_bytes, size as u64 - 10);
    }

    proptest! {
        /// Whatever the peer sends, no job is ended twice (the ledger would panic), and a closed connection has none open.
        #[test]
        fn any_stream_ends_each_job_at_most_once(pieces in prop::collection::vec(0..6_usize, 0..8), cut: usize) {
            let part = [keep(&[10]), keep(&[20]), keep(&[30]), response(10, "close"), b"\r\n".to_vec(), b"HTTP/1.1 200 OK\r\n\r\n".to_vec()];
            let stream: Vec<u8> = pieces.iter().flat_map(|&piece| part[piece].clone()).collect();
            let (outcomes, next) = three(&stream[..cut % (stream.len() + 1)], true);
            prop_assert_eq!(outcomes.len(), 3);
            prop_assert!(!outcomes.contains(&Incomplete), "{:?} {:?}", outcomes, next);
        }
    }
}
