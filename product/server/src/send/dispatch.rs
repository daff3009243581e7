//! Connections in the write path: each is opened once, sent on, and ended once. An HTTP/1.1 connection has one response
//! at a time; an HTTP/2 or HTTP/3 connection offers one of its responses at a time to the scheduler.

use sched::{Arrival, JobId, Path, Precedence};
use units::Nanos;

use super::sending::Sending;
use super::{Transmitter, cut};
use crate::body::Failure;
use crate::clock::ClientTime;
use crate::connection::{Connections, Engine};
use crate::connection::{Outgoing, Room};
use crate::exchange_id::ExchangeId;
use crate::net::Socket;

/// A response to be sent.
pub struct Dispatch {
    /// The exchange that the response answers.
    pub exchange: ExchangeId,
    pub outgoing: Outgoing,
    /// The index of the client's entry in the table of clients; `None` for the connection's client.
    pub client: Option<u32>,
    /// The class of the customer or folder, for policies that use classes.
    pub class: u16,
    /// The client's priority within the connection.
    pub precedence: Precedence,
}

impl Dispatch {
    /// Creates the dispatch of a response on an HTTP/1.1 connection, which has one response at a time.
    pub fn single(exchange: ExchangeId, outgoing: Outgoing, class: u16) -> Dispatch {
        Dispatch { exchange, outgoing, class, client: None, precedence: Precedence::default() }
    }

    /// Sets the client of the response.
    pub fn of(self, client: u32) -> Dispatch {
        Dispatch { client: Some(client), ..self }
    }
}

/// The result of sending a response without a job.
#[derive(Debug)]
pub enum Direct {
    /// The kernel has accepted the whole response. The buffer can be reused.
    Sent(Vec<u8>),
    /// The rest of the response is a job.
    Begun(JobId),
    Failed(Failure),
}

impl Transmitter {
    /// Switches a connection to HTTP/2 or HTTP/3, which carry several responses at the same time in frames. The client
    /// need not send anything before `deadline`.
    pub fn begin_framed(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        at: usize,
        engine: Engine,
        deadline: ClientTime,
    ) {
        let connection = &mut connections[at];
        let id = self.link.scheduler.open(connection.delivery.framing());
        connection.begin_framed(engine, id, deadline);
        self.link.settle_if_it_may(now, connection, true);
        connections.queue_output(at);
    }

    /// Ends the frames of a connection, if it has frames: the remaining responses depart as disconnected, and the last
    /// frames are sent if possible.
    pub fn end_framed(&mut self, connections: &mut Connections<impl Socket>, now: Nanos, at: usize) {
        if connections[at].protocol.group().is_none() {
            return;
        }
        self.end_all(connections, now, at, || Failure::Disconnected);
        connections.make_last(now, at);
        self.hand_down(connections, now, at, u64::MAX);
        connections.forget_datagrams(at);
        let client_now = connections.client_time(now);
        let id = connections[at].end_framed(client_now);
        id.into_iter().for_each(|id| self.link.scheduler.close(id));
    }

    /// Settles the account of a connection that ends, and records its acknowledged bytes. Returns the bytes of a
    /// response in progress that [`Sendings::unreported_bytes`](super::Sendings::unreported_bytes) has not reported.
    pub fn close(&mut self, connections: &mut Connections<impl Socket>, now: Nanos, at: usize) -> u64 {
        self.end_framed(connections, now, at);
        let left = connections[at].protocol.jobs(&self.link.scheduler).next();
        let unreported_bytes = left.map_or(0, |job| {
            self.link.scheduler.on_end(job);
            self.sendings.take(job).report()
        });
        self.link.settle_closed(now, &mut connections[at]);
        self.link.unlist(at, connections);
        unreported_bytes
    }

    /// Takes over a response. Its first byte is sent when the scheduler grants it. Returns `None` if the connection has
    /// its maximum number of responses.
    pub fn dispatch(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        dispatch: Dispatch,
    ) -> Option<JobId> {
        let at = dispatch.exchange.slot();
        let id = self.admit(connections, now, dispatch, 0)?;
        if !connections[at].delivery.is_known() && connections[at].protocol.group().is_none() {
            // This settles the handshake. Retransmissions between two responses are settled after the next one.
            self.link.settle_if_it_may(now, &mut connections[at], true);
        }
        Some(id)
    }

    fn admit(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        dispatch: Dispatch,
        sent_bytes: u64,
    ) -> Option<JobId> {
        let Dispatch { exchange, outgoing, class, client, precedence } = dispatch;
        let client_now = connections.client_time(now);
        let connection = &mut connections[exchange];
        let path =
            if self.link.scheduler.order().needs_path() { connection.socket.status().path } else { Path::default() };
        let size = outgoing.size(sent_bytes);
        let client = client.unwrap_or(connection.client);
        let (framing, bypasses_link) = (connection.delivery.framing(), self.link.bypasses_link(connection));
        let arrival = Arrival { size, framing, class, client, path, bypasses_link };
        let id = match connection.protocol.group() {
            Some(group) => self.link.scheduler.arrive_on(now, group, arrival, precedence)?,
            None if connection.protocol.is_quiet() => {
                connection.reader.watch(client_now, connection.delivery.sent_bytes());
                // The bytes that left since the last response belong to no response.
                connection.delivery.newly_sent_bytes();
                self.link.scheduler.arrive(now, arrival)
            }
            None => return None,
        };
        connection.protocol.begin_job(id);
        self.sendings.put(Sending::new(id, exchange, connection.held.account(), outgoing, sent_bytes));
        Some(id)
    }

    /// Sends at most `bytes_max` of a response immediately, as an unpaced scheduler would grant to a single response.
    /// The rest becomes a job. Returns the number of bytes sent.
    pub fn send_now(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        dispatch: Dispatch,
        bytes_max: u64,
    ) -> (u64, Direct) {
        let at = dispatch.exchange.slot();
        let Dispatch { mut outgoing, .. } = dispatch;
        let connection = &mut connections[at];
        let (sent, _) = connection.write(0, &mut outgoing, self.reads.storage(), Room::unpaced(bytes_max));
        self.limit.spend(dispatch.client.unwrap_or(connection.client), sent.carried_bytes, now);
        let is_left = !outgoing.is_done();
        let direct = match sent.failure {
            None | Some(Failure::Blocked | Failure::Absent | Failure::Pending) if is_left => {
                let rest = Dispatch { outgoing, ..dispatch };
                let id = self.admit(connections, now, rest, sent.bytes).expect("nothing else is being sent on it");
                let progress = sent.charge(now, id, &mut self.link.scheduler);
                debug_assert!(!progress.is_departed(), "something is left of a job");
                Direct::Begun(id)
            }
            failure => {
                let wire_bytes = connections[at].delivery.framing().wire_bytes(sent.carried_bytes);
                self.link.correct_on(now, &connections[at], wire_bytes);
                match failure {
                    Some(failure) => {
                        cut(&mut connections[at], outgoing.body());
                        Direct::Failed(failure)
                    }
                    None => Direct::Sent(outgoing.into_buffer()),
                }
            }
        };
        if !connections[at].delivery.is_known() {
            self.link.settle_if_it_may(now, &mut connections[at], true);
        }
        self.link.note_written(connections, now, at);
        (sent.bytes, direct)
    }

    /// Hands down the answer of the client's TLS between responses, and charges the link for it. Returns the number of
    /// bytes sent.
    pub fn send_sealed(&mut self, connections: &mut Connections<impl Socket>, now: Nanos, at: usize) -> usize {
        let aside = connections[at].send_sealed();
        self.link.correct_on(now, &connections[at], aside.wire_bytes);
        aside.bytes
    }

    /// Hands down these bytes between responses, and charges the link for them. Returns the number of bytes taken.
    pub fn send_aside(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        at: usize,
        bytes: &[u8],
    ) -> usize {
        let aside = connections[at].send_aside(bytes);
        self.link.correct_on(now, &connections[at], aside.wire_bytes);
        aside.bytes
    }

    /// Resumes sending on a connection that may take bytes again. Does nothing if no response waits for room.
    pub fn on_writable(&mut self, connections: &mut Connections<impl Socket>, now: Nanos, at: usize) {
        let connection = &mut connections[at];
        if !connection.protocol.wants_room(&self.link.scheduler) {
            return;
        }
        self.link.settle(now, connection);
        // Frames that were made before go first.
        if !self.hand_down(connections, now, at, u64::MAX) {
            return;
        }
        let connection = &connections[at];
        connection.protocol.wait_over(now, &mut self.link.scheduler);
        if self.link.scheduler.order().needs_path() {
            let jobs: Vec<JobId> = connection.protocol.jobs(&self.link.scheduler).collect();
            let (sendings, scheduler) = (&mut self.sendings, &mut self.link.scheduler);
            let tell = |job| sendings.get_mut(job).into_iter().for_each(|one| one.tell_path(connection, scheduler));
            jobs.into_iter().for_each(tell);
        }
    }

    /// Ends a response that will not be completed and that nobody waits for. Does nothing for a job that has departed.
    pub fn abort(&mut self, connections: &mut Connections<impl Socket>, now: Nanos, id: JobId, failure: Failure) {
        let Some(at) = self.sendings.get(id).map(Sending::connection) else { return };
        self.link.settle(now, &mut connections[at]);
        self.link.scheduler.on_end(id);
        self.depart(connections, now, id, Some(failure));
    }

    /// Ends the responses of a connection whose reader is too slow. Called about once a second. Only time in which
    /// everything available waits for the reader counts; producers have deadlines of their own.
    pub fn end_stalled(&mut self, connections: &mut Connections<impl Socket>, now: Nanos, at: usize) {
        if connections[at].protocol.is_quiet() {
            return;
        }
        let client_now = connections.client_time(now);
        let connection = &mut connections[at];
        let waits_for_reader = connection.protocol.waits_for_reader(&self.link.scheduler);
        if connection.is_stalled(client_now, waits_for_reader, self.marker.is_some(), &self.patience) {
            self.end_all(connections, now, at, || Failure::Stalled);
        }
    }

    /// Ends all responses of a connection whose client has left or is too slow. The scheduler ranks none of them again,
    /// and the kernel is queried once.
    pub fn end_all(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        at: usize,
        failure: impl Fn() -> Failure,
    ) {
        let connection = &mut connections[at];
        let jobs: Vec<JobId> = connection.protocol.jobs(&self.link.scheduler).collect();
        if !jobs.is_empty() {
            self.link.settle(now, connection);
            if connection.protocol.group().is_some() {
                connection.protocol.wait(&mut self.link.scheduler);
            }
        }
        for job in jobs {
            self.link.scheduler.on_end(job);
            self.depart(connections, now, job, Some(failure()));
        }
        self.departures.extend(connections[at].protocol.cut(failure));
    }
}
