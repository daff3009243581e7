//! The response write path: what is sent is what the drain grants.
//!
//! A [`Transmitter`] holds the responses that are being sent and asks its [`sched::Drain`] for grants. With the drain
//! `off` every worker has one without a rate, which then only orders what is ready in the same turn; with `paced` there is one
//! worker and so one order; with `bands` packets are marked ([`Marker`]), and the kernel orders them.
//! It is generic over the socket and takes the time as an argument: tests run it under simulated time.

mod below;
mod body;
mod engine;
#[cfg(feature = "http3")]
mod flow;
mod framed;
mod gauge;
#[cfg(feature = "http3")]
mod http3;
mod limit;
mod line_feedback;
mod looked;
mod mark;
mod multiplexed;
mod notice;
mod outgoing;
mod pipe;
mod reads;
mod secure;
mod sending;
mod sendings;
mod shrink;
mod socket;
#[cfg(test)]
mod tests;
mod unacknowledged;

pub use body::{Available, Body, Piece};
#[cfg(feature = "http3")]
pub use flow::Flow;
pub use framed::Opening;
pub use gauge::{Gauge, Queue, Queued};
pub use limit::ClientRate;
use limit::Limit;
pub use line_feedback::{Aside, Line, is_fast};
pub use looked::Looked;
pub use mark::{Bands, Marker};
pub use multiplexed::PipeId;
pub use notice::{Notice, in_words, mbit};
pub use outgoing::{End, Failure, Outgoing, Sent};
pub use pipe::PipeState;
pub use secure::{Allowance, Down, Secure, lock};
pub use sending::{Dispatch, Stream};
pub use socket::{Connection, Marked, Sink, Socket, Status, TcpView};

use std::collections::VecDeque;

use below::Below;
use line_feedback::Observer;
use pipe::Pipe;
use sched::classes::ClassSpec;
use sched::line::{Bounds, Look};
use sched::{Arrival, Correction, Drain, Grant, Job, JobId, Path, Progress, Size};
use sending::Sending;
use sendings::Sendings;
use slab::Slab;
use unacknowledged::Unacknowledged;
use units::wire::Framing;
use units::{Nanos, Rate};

use crate::storage::{InMemory, ReadDone, Storage};

/// How long a turn may take before events are looked at again; one system call more where a disk is slow.
pub const TURN_FOR: Nanos = Nanos::from_millis(5);
/// Grants made in one turn before events are looked at again: 64 segments take 77 ms at 10 Mbit/s and 0.8 ms at 1 Gbit/s,
/// so pacing ends a turn long before this does; without a rate it bounds the turn to 128 MiB.
pub const GRANTS_PER_TURN_MAX: usize = 64;

/// How slow a reader may be, so that nobody holds a connection and a response for ever.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// A reader that we wait for has to take this many bytes per second on average over a window.
    pub rate_bytes_per_s_min: u64,
    /// The window; long enough to ride out a few retransmission timeouts.
    pub window: Nanos,
}

/// The end of a response.
#[derive(Debug)]
pub struct Departure {
    /// Who dispatched it.
    pub owner: u64,
    pub job: JobId,
    /// The number of its stream, where its connection has several.
    pub stream: u32,
    pub sent_bytes: u64,
    /// Of those, what [`Transmitter::untold_bytes`] has not told.
    pub untold_bytes: u64,
    /// `None` when every byte was handed to the kernel.
    pub failure: Option<Failure>,
    /// When the kernel took the first byte that was sent from here, and when the response ended: the instants of the grants.
    pub first_byte_at: Option<Nanos>,
    pub ended_at: Nanos,
    /// For the connection's next response; `None` where it carries several, and keeps it.
    pub pipe: Option<PipeState>,
}

pub struct Transmitter<S: Socket> {
    drain: Drain,
    gauge: Option<Gauge>,
    /// The sockets whose packets the gauge may see; empty without one.
    below: Below<S>,
    marker: Option<Marker>,
    /// What the connections tell of the line, where the queue below cannot be read; `None` where we do not pace.
    observer: Option<Observer>,
    unacknowledged: Unacknowledged<S>,
    patience: Patience,
    limit: Limit,
    storage: Box<dyn Storage + Send>,
    /// Ended ones, in memory that is kept.
    reads_done: Vec<ReadDone>,
    /// Reads aside that have not ended.
    reads: usize,
    /// The policy looks at paths.
    needs_path: bool,
    sendings: Sendings,
    /// The connections they are sent on.
    pipes: Slab<Pipe<S>>,
    /// Connections that have something to say for themselves.
    unsaid: VecDeque<PipeId>,
    /// Memory for frames.
    spare: Vec<u8>,
    #[cfg(feature = "http3")]
    shared: http3::Shared,
    departures: Vec<Departure>,
    notices: Vec<Notice>,
    foreign_noticed_at: Option<Nanos>,
}

/// Where nothing else is said of it.
fn told(rate: Rate) -> Bounds {
    Bounds { least: None, first: Some(rate), most: Some(rate) }
}

impl<S: Socket + Clone> Transmitter<S> {
    pub fn new(drain: Drain, gauge: Option<Gauge>, patience: Patience) -> Transmitter<S> {
        let needs_path = drain.policy().needs_path();
        Transmitter {
            observer: drain.pace().rate.map(|rate| Observer::new(told(rate))),
            unacknowledged: Unacknowledged::new(),
            drain,
            gauge,
            below: Below::new(),
            marker: None,
            patience,
            limit: Limit::default(),
            storage: Box::new(InMemory),
            reads_done: Vec::new(),
            reads: 0,
            needs_path,
            sendings: Sendings::default(),
            pipes: Slab::new(),
            unsaid: VecDeque::new(),
            spare: Vec::new(),
            #[cfg(feature = "http3")]
            shared: http3::Shared::default(),
            departures: Vec::new(),
            notices: Vec::new(),
            foreign_noticed_at: None,
        }
    }

    /// The same, its packets marked for the kernel to order.
    pub fn with_marker(self, marker: Option<Marker>) -> Transmitter<S> {
        Transmitter { marker, ..self }
    }

    /// The same, with files from there.
    pub fn with_storage(self, storage: impl Storage + Send + 'static) -> Transmitter<S> {
        Transmitter { storage: Box::new(storage), ..self }
    }

    pub fn storage(&mut self) -> &mut dyn Storage {
        &mut *self.storage
    }

    pub fn drain(&self) -> &Drain {
        &self.drain
    }

    pub fn is_empty(&self) -> bool {
        self.drain.is_empty()
    }

    /// Nothing is being sent or read, nothing that ended is left to be told, and nothing is to be looked at yet.
    pub fn is_idle(&self, now: Nanos) -> bool {
        let is_timed = self.timer().is_some() || self.unacknowledged.look_at().is_some_and(|at| at <= now);
        self.is_empty() && self.departures.is_empty() && self.reads == 0 && self.unsaid.is_empty() && !is_timed
    }

    /// From now on this index is another client's, of this weight.
    pub fn replace_classes(&mut self, now: Nanos, specs: &[ClassSpec]) {
        self.drain.replace_classes(now, specs);
    }

    pub fn on_client(&mut self, client: u32, weight: u8) {
        self.drain.on_client(client, weight);
    }

    /// Takes over a response; its first byte leaves when the drain says so.
    pub fn dispatch(&mut self, now: Nanos, dispatch: Dispatch<S>) -> JobId {
        let Dispatch { owner, socket, client, outgoing, sent_bytes, class, mut pipe, secure } = dispatch;
        let size = Size::Known(sent_bytes + outgoing.remaining_bytes());
        let path = if self.needs_path { socket.status().path } else { Path::default() };
        let id = self.drain.arrive(now, Arrival { size, framing: pipe.framing(), class, client, path });
        let (is_known, mut is_unacknowledged) =
            (pipe.is_known(), self.unacknowledged.take_back(owner, &mut pipe).is_some());
        self.limit.spend(client, sent_bytes, now);
        if sent_bytes > 0 && self.is_paced() {
            pipe.on_sent(sent_bytes);
            is_unacknowledged = true;
        }
        let pipe = self.pipes.insert(Pipe::new(owner, socket, client, pipe, now).with_secure(secure));
        self.sendings.put(Sending::new(id, pipe, outgoing, sent_bytes));
        if is_unacknowledged {
            self.note_unacknowledged(now, pipe);
        }
        if sent_bytes > 0 {
            let progress = self.drain.on_sent(now, id, sent_bytes);
            debug_assert!(!progress.is_departed(), "something is left of a job");
        }
        if !is_known && self.may_look(pipe) {
            // The handshake. What is sent again between two responses is settled behind the next one.
            self.settle(now, id);
        }
        id
    }

    /// The socket takes bytes again. A no-op for a job that has departed.
    pub fn on_writable(&mut self, now: Nanos, id: JobId) {
        self.drain.on_writable(now, id);
        self.settle(now, id);
        self.ask_path(id);
    }

    /// The response will not be finished, and nobody waits for it. A no-op for a job that has departed.
    pub fn abort(&mut self, now: Nanos, id: JobId, failure: Failure) {
        if self.drain.job(id).is_some() {
            self.settle(now, id);
            self.drain.on_abort(id);
            self.depart(now, id, Some(failure));
        }
    }

    /// The same for one that is under way, on a connection that sends one at a time, and told at once.
    pub fn withdraw(&mut self, now: Nanos, id: JobId) -> Departure {
        self.abort(now, id, Failure::Disconnected);
        self.departures.pop().filter(|departure| departure.job == id).expect("it is under way")
    }

    /// Sends what is granted, until nothing is or the turn is over. Gives when to be called again: an instant that
    /// may have passed, or `None` when only an event can change anything.
    pub fn run(&mut self, clock: &impl Fn() -> Nanos) -> Option<Nanos> {
        let began_at = clock();
        self.take_reads(began_at);
        #[cfg(feature = "http3")]
        self.tell_time(began_at, clock);
        self.limit.release(&mut self.drain, began_at);
        for _ in 0..GRANTS_PER_TURN_MAX {
            let now = clock();
            if now - began_at >= TURN_FOR {
                break;
            }
            self.measure(now, clock);
            self.follow(now);
            let Some(grant) = self.drain.poll_grant(now) else { break };
            self.send(now, grant);
        }
        self.note_idle();
        // Their time is their own: grants may have used up theirs.
        let until = clock() + TURN_FOR;
        self.say_unsaid(clock, until);
        self.poll_timeout()
    }

    /// When [`Transmitter::run`] wants to be called; `None` when only an event can change anything.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.send_timeout().into_iter().chain(self.unacknowledged.look_at()).min()
    }

    /// The same without looks at what is acknowledged.
    fn send_timeout(&self) -> Option<Nanos> {
        let unsaid_at = (!self.unsaid.is_empty()).then_some(Nanos::ZERO);
        let times = [self.drain.poll_timeout(), self.limit.timeout(), self.timer(), unsaid_at];
        times.into_iter().flatten().min()
    }

    /// Ends a response whose reader is too slow; to be called about once a second, for one on a connection that sends one at a time.
    pub fn end_stalled(&mut self, now: Nanos, id: JobId) {
        let Some(at) = self.sending(id).map(|sending| sending.pipe()) else { return };
        let waits_for_reader = self.drain.job(id).is_some_and(Job::waits_for_reader);
        let is_ordered_below = self.marker.is_some();
        if self.pipes[at].is_stalled(now, waits_for_reader, is_ordered_below, &self.patience) {
            self.abort(now, id, Failure::Stalled);
        }
    }

    /// What was sent of a response since this was last asked, or since it was dispatched.
    pub fn untold_bytes(&mut self, id: JobId) -> u64 {
        self.sending(id).map_or(0, Sending::tell)
    }

    /// Looks after the queue below; to be called about once a second while anything is sent.
    pub fn check_queue(&mut self, now: Nanos) {
        if let Some((rate, notice)) = self.gauge.as_mut().and_then(|gauge| gauge.check(now)) {
            self.pace_from(now, rate);
            self.notices.push(notice);
        }
        self.below.bytes();
        self.notice_foreign(now);
    }

    /// How the guard kept its promise; `None` where nothing was promised, or sent.
    pub fn longest_wait(&self) -> Option<Notice> {
        let (wait, responses) = (self.drain.longest_wait(), self.drain.most_jobs());
        let promised = self.drain.wait_bound(Framing::ETHERNET)?.with(responses);
        (responses > 0).then_some(Notice::LongestWait { wait, responses, promised })
    }

    /// What an operator should know, since this was last called.
    pub fn notices(&mut self) -> std::vec::Drain<'_, Notice> {
        self.notices.drain(..)
    }

    /// Nothing was sent for so long, through no fault of the readers.
    pub fn on_pause(&mut self, paused: Nanos) {
        for (_, pipe) in &mut self.pipes {
            pipe.excuse(paused);
        }
    }

    /// The responses that ended since this was last called.
    pub fn departures(&mut self) -> std::vec::Drain<'_, Departure> {
        self.departures.drain(..)
    }

    fn send(&mut self, now: Nanos, grant: Grant) {
        let id = grant.job;
        if !self.may_send(now, id) {
            return;
        }
        let sending = &self.sendings[id];
        if self.pipes[sending.pipe()].framed.is_some() {
            return self.send_framed(now, grant);
        }
        let allowance = self.allowance(grant);
        let sending = &mut self.sendings[id];
        let pipe = &mut self.pipes[sending.pipe()];
        let sent = sending.send(now, pipe, &mut *self.storage, allowance);
        let (is_path_old, at) = (self.needs_path && sending.is_path_old(), sending.pipe());
        self.limit.spend(pipe.client, sent.carried_bytes, now);
        let carried = sched::Sent { content_bytes: sent.bytes, carried_bytes: sent.carried_bytes };
        let progress = self.drain.on_sent_as(now, id, carried);
        if sent.carried_bytes > 0 {
            self.note_below(now, at);
        }
        if !progress.is_departed() {
            self.settle(now, id);
            self.note_unacknowledged(now, at);
        }
        match sent.failure {
            Some(Failure::Blocked) => self.on_full(id),
            Some(Failure::Absent) => self.read_aside(now, id),
            Some(failure) => self.abort(now, id, failure),
            None if progress == Progress::Departed => {
                self.settle_last(now, id);
                self.depart(now, id, None);
            }
            None if is_path_old => self.ask_path(id),
            None => {}
        }
    }

    /// Whether a granted response can be sent now; if so, its packets are marked.
    fn may_send(&mut self, now: Nanos, id: JobId) -> bool {
        let is_ordered_below = self.is_ordered_below();
        let sending = &mut self.sendings[id];
        let pipe = &mut self.pipes[sending.pipe()];
        if is_ordered_below && !pipe.socket.has_room() {
            self.on_full(id);
            return false;
        }
        if self.limit.holds(&mut self.drain, id, pipe.client, now) {
            return false;
        }
        if let Some(marker) = &self.marker {
            sending.mark(pipe, &marker.bands, self.drain.band(id));
        }
        true
    }

    /// The socket takes no more, of this response or of any other on its connection.
    fn on_full(&mut self, id: JobId) {
        let pipe = &mut self.pipes[self.sendings[id].pipe()];
        pipe.was_full = true;
        match pipe.carrier {
            Some(carrier) => self.drain.on_carrier_blocked(carrier),
            None => self.drain.on_blocked(id),
        }
    }

    fn sending(&mut self, id: JobId) -> Option<&mut Sending> {
        self.sendings.get_mut(id)
    }

    /// The kernel decides the order, so it gets no more of a response than may keep the mark of the moment.
    fn is_ordered_below(&self) -> bool {
        self.marker.is_some() && !self.is_paced()
    }

    /// Charges the link for what TCP sent, not for what waits in the socket for a window: over a long path a response holds
    /// two segments back in every round trip, and the link would idle for as long as each would have taken.
    fn settle(&mut self, now: Nanos, id: JobId) {
        if !self.is_paced() {
            return;
        }
        if let Some(at) = self.sending(id).map(|sending| sending.pipe()) {
            let pipe = &mut self.pipes[at];
            let (client, (correction, look)) = (pipe.client, pipe.settle(now));
            self.on_settled(now, client, correction, look);
        }
    }

    fn on_settled(&mut self, now: Nanos, client: u32, correction: Correction, look: Look) {
        self.drain.on_correction(now, correction, self.gauge.as_ref().is_some_and(Gauge::is_fresh));
        if let Some(rtt) = look.rtt.filter(|_| look.is_handshake) {
            self.drain.on_handshake(rtt);
        }
        self.observe(now, client, look);
    }

    fn settle_last(&mut self, now: Nanos, id: JobId) {
        let at = self.sendings[id].pipe();
        if self.is_paced() && (!self.is_searching() || self.pipes[at].was_full) {
            let sending = &self.sendings[id];
            let is_read = self.gauge.as_ref().is_some_and(Gauge::is_fresh);
            let ends_connection = sending.ends_connection();
            let pipe = &mut self.pipes[sending.pipe()];
            let (client, (correction, foreseen_bytes, look)) = (pipe.client, pipe.settle_last(now, ends_connection));
            self.drain.on_correction(now, correction, is_read);
            self.drain.on_foreseen(now, foreseen_bytes, is_read);
            self.observe(now, client, look);
        }
    }

    /// Tells a policy that looks at paths how this one is now.
    fn ask_path(&mut self, id: JobId) {
        if !self.needs_path {
            return;
        }
        if let Some(sending) = self.sendings.get_mut(id) {
            self.drain.on_path(id, sending.ask_path(&self.pipes[sending.pipe()]));
        }
    }

    fn depart(&mut self, now: Nanos, id: JobId, failure: Option<Failure>) {
        let sending = self.sendings.take(id);
        let pipe = &self.pipes[sending.pipe()];
        let owner = pipe.owner;
        let (at, is_framed) = (sending.pipe(), pipe.framed.is_some());
        let state = pipe.carrier.is_none().then(|| self.leave_pipe(now, at, failure.is_none()));
        let departure = sending.into_departure(owner, state, now, failure);
        if is_framed {
            return self.depart_framed(at, departure);
        }
        self.departures.push(departure);
    }
}
