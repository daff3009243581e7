//! Stops a server, either with its sockets or after they were handed over to the next process.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use units::Nanos;

use super::Worker;
use super::responder::Responder;
use crate::connection::Connection;
use crate::net::Net;
use crate::send::Transmitter;

/// The time for which a server continues to send after another process has taken its sockets. The largest downloads
/// take hours.
const HANDED_OVER_FOR: Nanos = Nanos::from_secs(24 * 3600);
/// The time allowed for the first request of a connected client, which normally arrives within a round trip or two.
const FIRST_REQUEST_FOR: Nanos = Nanos::from_secs(2);
const GOES_ON: u8 = 0;
const ENDS: u8 = 1;
const HANDED_OVER: u8 = 2;

/// A stop request to all event loops, and their reports about the stop.
#[derive(Debug, Default)]
pub struct Stop {
    state: AtomicU8,
    begun: Mutex<Tally>,
    cut: Mutex<Tally>,
}

/// Responses in progress and arriving requests, summed over the event loops.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    pub responses: usize,
    /// A lower bound of the remaining bytes.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Tally {
    workers: usize,
    left: Left,
}

impl Tally {
    /// Adds the responses of one event loop. Returns the sum once all `of_workers` loops have reported.
    fn add(&mut self, left: Left, of_workers: usize) -> Option<Left> {
        self.workers += 1;
        self.left.responses += left.responses;
        self.left.bytes += left.bytes;
        (self.workers == of_workers).then_some(self.left)
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Left { responses, bytes } = *self;
        let plural = if responses == 1 { "" } else { "s" };
        let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "KB")];
        match units.into_iter().find(|(scale, _)| bytes >= *scale) {
            Some((scale, unit)) => write!(f, "{responses} response{plural}, {} {unit} left", bytes / scale),
            None => write!(f, "{responses} response{plural}, {bytes} bytes left"),
        }
    }
}

impl Stop {
    /// Requests a stop: event loops finish the responses in progress within the stop timeout.
    pub fn ask(&self) {
        let _ = self.state.compare_exchange(GOES_ON, ENDS, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Requests a stop after another process has taken the sockets: event loops finish the responses in progress within
    /// a day.
    pub fn ask_handed_over(&self) {
        self.state.store(HANDED_OVER, Ordering::Release);
    }

    /// Reports the work that an event loop has left to finish. The last of `of_workers` loops gets a line about all of
    /// them, if anything is left.
    pub fn tell_begun(&self, left: Left, of_workers: usize, at_most: Nanos) -> Option<String> {
        let all = self.begun.lock().unwrap_or_else(PoisonError::into_inner).add(left, of_workers)?;
        let seconds = at_most.as_secs_f64().ceil();
        (all.responses > 0).then(|| format!("waiting for {all}, at most {seconds:.0} s (timeouts.shutdown)"))
    }

    /// Reports the work that an event loop did not finish. The last of `of_workers` loops gets a line about all of
    /// them, if anything was cut off.
    pub fn tell_cut(&self, left: Left, of_workers: usize) -> Option<String> {
        let all = self.cut.lock().unwrap_or_else(PoisonError::into_inner).add(left, of_workers)?;
        (all.responses > 0).then(|| format!("cut {all}: timeouts.shutdown has passed"))
    }

    pub fn is_asked(&self) -> bool {
        self.state.load(Ordering::Acquire) != GOES_ON
    }

    pub fn is_handed_over(&self) -> bool {
        self.state.load(Ordering::Acquire) == HANDED_OVER
    }
}

impl<N: Net> Worker<N> {
    /// Does one turn's part of the stop. Returns true when the stop is complete.
    pub(super) fn stop(&mut self) -> bool {
        let with = &mut self.responder;
        let is_handed_over = with.setup.stop.is_handed_over();
        let timeout = if is_handed_over { HANDED_OVER_FOR } else { with.limits.stop_timeout.into() };
        if with.timers.stop(timeout) {
            self.begin_stop(is_handed_over, timeout);
        }
        let is_time_up = self.responder.timers.is_time_up();
        let cut = if is_time_up { self.cut_rest() } else { Left::default() };
        let is_over = is_time_up || self.responder.connections.is_empty();
        if is_over {
            self.tell_end(cut);
        }
        is_over
    }

    /// Begins the stop: accepts the connections in the kernel's queue and no others, and ends connections without a
    /// request.
    fn begin_stop(&mut self, is_handed_over: bool, timeout: Nanos) {
        let with = &mut self.responder;
        if is_handed_over {
            self.acceptor.leave(&with.net);
            self.udp.share();
        }
        self.acceptor.accept_last(with);
        self.acceptor.pause(&with.net);
        with.service.admission.wait_no_more();
        self.acceptor.refuse(&with.net);
        // Responses from now on announce that the connection closes after them.
        with.connections.stop();
        for at in with.connections.slots(|conn| !conn.ends_behind_response()) {
            with.read_what_came(at);
            with.end_without_request(at);
        }
        let left = self.left();
        let with = &self.responder;
        let line = with.setup.stop.tell_begun(left, with.service.admission.workers(), timeout);
        line.filter(|_| !is_handed_over).inspect(|line| with.service.journal.error(line));
    }

    /// Cuts off the responses that are still being sent, so that their log lines show how far they got. Returns the
    /// unfinished work.
    fn cut_rest(&mut self) -> Left {
        let (left, with) = (self.left(), &mut self.responder);
        for at in with.connections.slots(|conn| conn.protocol.exchanges().any(|exchange| exchange.is_logged())) {
            with.abandon(at);
        }
        with.transmit();
        left
    }

    /// Logs the final lines, about how long responses waited and about the work that was cut off.
    fn tell_end(&mut self, cut: Left) {
        let with = &mut self.responder;
        with.transmitter.link.longest_wait().inspect(|notice| with.service.journal.error(notice));
        let line = with.setup.stop.tell_cut(cut, with.service.admission.workers());
        line.inspect(|line| with.service.journal.error(line));
    }

    /// Counts the responses in progress with their remaining bytes, and the arriving requests.
    fn left(&self) -> Left {
        let with = &self.responder;
        let owed =
            |connection: &Connection<_>| connection.protocol.answering() + usize::from(connection.has_request_part());
        let responses = with.connections.iter().map(|(_, connection)| owed(connection));
        Left { responses: responses.sum(), bytes: with.transmitter.link.scheduler().jobs().left_bytes() }
    }
}

impl<N: Net> Responder<N> {
    /// Reads a request that may be in the socket without having caused an event yet.
    fn read_what_came(&mut self, at: usize) {
        let Some(conn) = self.connections.get_mut(at) else { return };
        if !conn.channel.is_in_flight && !conn.is_lingering() {
            conn.input.is_readable = true;
            self.read(at);
        }
    }

    /// Ends a connection of a stopping server, unless its client is sending a request, is in its handshake, may be
    /// about to send its first request, or is receiving its last response. A connection with open streams ends after
    /// the last one.
    pub(super) fn end_without_request(&mut self, at: usize) {
        let Some(conn) = self.connections.get(at).filter(|conn| !conn.channel.is_handshaking) else { return };
        let waited_for = || self.timers.client_now() - conn.idle_since(&self.limits);
        let is_idle = conn.is_idle() && (conn.has_answered || waited_for() >= FIRST_REQUEST_FOR);
        let ends = match conn.protocol.streams() {
            None => is_idle && !conn.is_lingering(),
            Some(streams) => !streams.is_leaving && (is_idle || !streams.is_idle()),
        };
        if ends {
            self.end(at, Transmitter::leave);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_handed_over_stays_so() {
        let stop = Stop::default();
        assert!(!stop.is_asked());
        stop.ask_handed_over();
        stop.ask();
        assert!(stop.is_asked() && stop.is_handed_over());
        let stop = Stop::default();
        stop.ask();
        assert!(stop.is_asked() && !stop.is_handed_over());
    }

    #[test]
    fn the_last_event_loop_tells_of_all() {
        let stop = Stop::default();
        let left = |responses, bytes| Left { responses, bytes };
        assert_eq!(stop.tell_begun(left(1, 800_000_000), 2, Nanos::from_secs(30)), None);
        let said = stop.tell_begun(left(2, 12_000_000), 2, Nanos::from_millis(29_500));
        assert_eq!(said.unwrap(), "waiting for 3 responses, 812 MB left, at most 30 s (timeouts.shutdown)");
        assert_eq!(stop.tell_cut(left(0, 0), 2), None);
        assert_eq!(
            stop.tell_cut(left(1, 500), 2).unwrap(),
            "cut 1 response, 500 bytes left: timeouts.shutdown has passed"
        );
        assert_eq!(Stop::default().tell_begun(left(0, 0), 1, Nanos::ZERO), None);
    }
}
