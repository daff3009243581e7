//! Concurrent requests and responses on one connection of HTTP/3, without its socket: it takes and returns datagrams,
//! and records facts in the ledger. The crate quinn-proto implements QUIC and is polled by hand whenever a datagram has
//! arrived or something is due. HTTP/3 adds little for a client that needs only the status and the size of a response.
//! Its codec is the server's (`quic::codec`), whose conformance other programs check (`cargo xtask conformance`).

mod control;
mod fault;
mod quic;
mod response;
mod socket;
mod stream;

use std::collections::VecDeque;

use ::quic::codec;
use quinn_proto::{ConnectionError, Dir, EcnCodepoint, Event, StreamEvent, StreamId, TransportErrorCode};
use record::Outcome;
use units::Nanos;
use workload::Ask;

use crate::Plan;
use crate::exchange::Next;
use crate::ledger::Ledger;
use crate::plan::priority;
use control::ServerStream;
use fault::{Fault, NO_ERROR, REQUEST_CANCELLED, REQUEST_REJECTED};
use quic::{Piece, Quic};
use stream::Stream;

pub(crate) use quic::QuicConfig;
pub(crate) use socket::QuicConnection;

/// The maximum number of concurrent requests before the server has announced its own. No server should allow fewer (RFC
/// 9114 section 6.1).
const STREAMS_UNTOLD: u32 = 100;

/// The interval of PINGs while jobs are in flight and nothing arrives, as in Chromium. A response may wait a long time
/// behind others, and neither side must conclude that the other is gone.
const PING_EVERY: Nanos = Nanos::from_secs(15);

/// The client's control stream: its type, and an empty SETTINGS frame, so that there is no dynamic table.
const CONTROL_STREAM: &[u8] = &[0, codec::SETTINGS as u8, 0];

/// A request that has no stream yet.
#[derive(Debug)]
struct Queued {
    job: usize,
    /// The position among the requests of its connection, from 1.
    number: u64,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Requests {
    quic: Quic,
    /// The streams in flight.
    streams: Vec<Stream>,
    /// Requests whose stream cannot be opened yet.
    queued: VecDeque<Queued>,
    /// Bytes to be sent for which no window has room yet. The end of a request follows its bytes.
    unwritten: VecDeque<(StreamId, Vec<u8>)>,
    server_streams: Vec<(StreamId, ServerStream)>,
    control: Option<StreamId>,
    is_connected: bool,
    /// The server allows no more streams for now.
    is_blocked: bool,
    /// The number of requests sent and answered so far, and of bytes received on streams.
    asked: u64,
    answered: u64,
    received_bytes: u64,
    streams_max: u32,
    requests_max: u64,
    /// The server has announced the end.
    is_ending: bool,
    /// The last instant at which a datagram arrived or a PING was sent.
    heard_at: Nanos,
    /// Jobs to be requested again over another connection.
    unheard: Vec<usize>,
    /// The last job that has ended.
    ended: Option<usize>,
}

impl Requests {
    /// Creates the state for at most `streams_max` concurrent requests and `requests_max` in total.
    fn new(quic: Quic, streams_max: u32, requests_max: u64, now: Nanos) -> Requests {
        Requests {
            quic,
            streams: vec![],
            queued: VecDeque::new(),
            unwritten: VecDeque::new(),
            server_streams: vec![],
            control: None,
            is_connected: false,
            is_blocked: false,
            asked: 0,
            answered: 0,
            received_bytes: 0,
            streams_max,
            requests_max,
            is_ending: false,
            heard_at: now,
            unheard: vec![],
            ended: None,
        }
    }

    /// Requests a job, as soon as the connection is established. If the connection turns out to accept no more, the job
    /// becomes unheard.
    fn submit(&mut self, plan: &Plan, job: usize, ledger: &Ledger<'_>) {
        self.asked += 1;
        self.queued.push_back(Queued { job, number: self.asked, bytes: request(plan, ledger.ask(job)) });
        self.open_streams();
    }

    /// Returns true if another request may be asked.
    fn has_room(&self) -> bool {
        let most = if self.is_connected { self.streams_max } else { self.streams_max.min(STREAMS_UNTOLD) };
        !self.is_last() && !self.is_blocked && self.streams.len() + self.queued.len() < most as usize
    }

    fn is_idle(&self) -> bool {
        self.streams.is_empty() && self.queued.is_empty()
    }

    fn has_connected(&self) -> bool {
        self.is_connected
    }

    /// The instant of the next call of [`Requests::on_time`].
    fn due(&mut self) -> Option<Nanos> {
        [self.quic.due(), self.ping_at()].into_iter().flatten().min()
    }

    fn on_time(&mut self, now: Nanos) {
        if self.ping_at().is_some_and(|at| at <= now) {
            self.heard_at = now;
            self.quic.connection().ping();
        }
        self.quic.on_time(now);
    }

    /// Processes the events of the connection after datagrams were passed to it or its timer expired.
    fn settle(&mut self, ledger: &mut Ledger<'_>, now: Nanos) -> Next {
        while let Some(event) = self.quic.poll() {
            if let Err(fault) = self.on_event(event, ledger, now) {
                self.quic.close(now, fault.code());
                self.fail(Outcome::Wrong, ledger, now);
                return Next::Close;
            }
        }
        if self.quic.connection().is_closed() {
            return Next::Close;
        }
        self.open_streams();
        self.write();
        if self.is_last() && self.is_idle() { Next::Close } else { Next::Continue }
    }

    /// Processes a datagram from the server, with the congestion mark of its IP header.
    fn receive(&mut self, now: Nanos, ecn: Option<EcnCodepoint>, datagram: &[u8]) {
        self.heard_at = now;
        self.quic.receive(now, ecn, datagram);
    }

    /// Writes the next datagram to be sent to `out`; see [`Quic::transmit`].
    fn transmit(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<Option<EcnCodepoint>> {
        self.quic.transmit(now, out)
    }

    /// Resets the stream of a job that its user gives up. The other jobs continue.
    fn cancel(&mut self, job: usize) {
        self.queued.retain(|queued| queued.job != job);
        if let Some(place) = self.streams.iter().position(|stream| stream.job == job) {
            let Stream { id, .. } = self.streams.swap_remove(place);
            self.unwritten.retain(|&(of, _)| of != id);
            self.quic.cancel(id, REQUEST_CANCELLED);
        }
    }

    /// Handles the end of the connection: the server has closed it, or it was lost.
    fn on_end(&mut self, ledger: &mut Ledger<'_>, now: Nanos) {
        for stream in std::mem::take(&mut self.streams) {
            match stream.is_unheard_at(self.received_bytes) {
                true => self.unheard.push(stream.job),
                false => self.end(stream.job, Outcome::Reset, ledger, now),
            }
        }
        self.give_back(ledger, now);
    }

    /// Ends the jobs in flight, because the connection is lost.
    fn fail(&mut self, outcome: Outcome, ledger: &mut Ledger<'_>, now: Nanos) {
        let queued = std::mem::take(&mut self.queued).into_iter().map(|queued| queued.job);
        let under_way = std::mem::take(&mut self.streams).into_iter().map(|stream| stream.job);
        for job in under_way.chain(queued) {
            self.end(job, outcome, ledger, now);
        }
    }

    /// Closes the connection, unless the server has ended it itself.
    fn close(&mut self, now: Nanos) {
        self.quic.close(now, NO_ERROR);
    }

    /// Takes the jobs that must be requested again over another connection, as with HTTP/2. The server announced the
    /// end before it saw them, or refused them before it could announce its limit, or closed a connection that had
    /// served other requests while these were on their way. The first request of a connection is never given back, so
    /// each connection ends at least one job.
    fn take_unheard(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.unheard)
    }

    fn take_ended(&mut self) -> Option<usize> {
        self.ended.take()
    }

    /// Returns true if no request follows: we sent the last one, or the server announced the end.
    fn is_last(&self) -> bool {
        self.is_ending || self.asked >= self.requests_max
    }

    fn ping_at(&self) -> Option<Nanos> {
        (self.is_connected && !self.streams.is_empty()).then_some(self.heard_at + PING_EVERY)
    }

    fn on_event(&mut self, event: Event, ledger: &mut Ledger<'_>, now: Nanos) -> Result<(), Fault> {
        match event {
            Event::Connected => self.is_connected = true,
            Event::ConnectionLost { reason } => self.on_lost(&reason, ledger, now),
            Event::Stream(StreamEvent::Available { dir: Dir::Bi }) => self.is_blocked = false,
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                while let Some(id) = self.quic.connection().streams().accept(Dir::Uni) {
                    self.server_streams.push((id, ServerStream::new()));
                    self.read_server_stream(id, ledger, now)?;
                }
            }
            Event::Stream(StreamEvent::Readable { id }) if id.dir() == Dir::Uni => {
                self.read_server_stream(id, ledger, now)?;
            }
            Event::Stream(StreamEvent::Readable { id }) => self.read_response(id, ledger, now)?,
            // Writing finds windows that have opened. A server may stop a request that it has received.
            _ => {}
        }
        Ok(())
    }

    fn on_lost(&mut self, reason: &ConnectionError, ledger: &mut Ledger<'_>, now: Nanos) {
        use ConnectionError::{
            ApplicationClosed, CidsExhausted, ConnectionClosed, LocallyClosed, Reset, TimedOut, TransportError,
            VersionMismatch,
        };
        match reason {
            TimedOut => self.fail(Outcome::TimedOut, ledger, now),
            ConnectionClosed(close) if close.error_code == TransportErrorCode::CONNECTION_REFUSED => {
                self.fail(Outcome::Refused, ledger, now);
            }
            // There is no common version or protocol, or no TLS.
            ConnectionClosed(_) if !self.is_connected => self.fail(Outcome::Wrong, ledger, now),
            VersionMismatch | TransportError(_) => self.fail(Outcome::Wrong, ledger, now),
            ApplicationClosed(_) | ConnectionClosed(_) | Reset | LocallyClosed | CidsExhausted => {
                self.on_end(ledger, now)
            }
        }
    }

    fn read_server_stream(&mut self, id: StreamId, ledger: &mut Ledger<'_>, now: Nanos) -> Result<(), Fault> {
        let Some(place) = self.server_streams.iter().position(|(of, _)| *of == id) else { return Ok(()) };
        let stream = &mut self.server_streams[place].1;
        let (mut said, mut goaway, mut is_ended) = (Ok(()), None, false);
        self.quic.read(id, |piece| match piece {
            _ if said.is_err() => {}
            Piece::Bytes(bytes) => match stream.on_bytes(bytes) {
                Ok(last) => goaway = last.or(goaway),
                Err(fault) => said = Err(fault),
            },
            Piece::End | Piece::Reset(_) => is_ended = true,
        });
        said?;
        if is_ended {
            self.server_streams.swap_remove(place);
        }
        if let Some(first_unheard) = goaway {
            self.on_goaway(first_unheard, ledger, now);
        }
        Ok(())
    }

    /// Handles GOAWAY: the server accepts no more requests, and answers none from this stream on.
    fn on_goaway(&mut self, first_unheard: u64, ledger: &mut Ledger<'_>, now: Nanos) {
        self.is_ending = true;
        for stream in std::mem::take(&mut self.streams) {
            if u64::from(stream.id) < first_unheard {
                self.streams.push(stream);
                continue;
            }
            self.unwritten.retain(|&(of, _)| of != stream.id);
            self.quic.cancel(stream.id, REQUEST_CANCELLED);
            self.refused(stream.job, stream.number, ledger, now);
        }
        self.give_back(ledger, now);
    }

    fn read_response(&mut self, id: StreamId, ledger: &mut Ledger<'_>, now: Nanos) -> Result<(), Fault> {
        // There is nothing to read of a request that was given up.
        let Some(place) = self.streams.iter().position(|stream| stream.id == id) else { return Ok(()) };
        let stream = &mut self.streams[place];
        let (mut end, mut received_bytes) = (None, 0);
        self.quic.read(id, |piece| match piece {
            _ if end.is_some() => {}
            Piece::Bytes(bytes) => {
                received_bytes += bytes.len() as u64;
                end = stream.on_bytes(bytes, ledger, now).err().map(stream::End::Broken);
            }
            Piece::End => end = Some(stream.on_end()),
            Piece::Reset(code) => end = Some(stream::End::Reset(code)),
        });
        self.received_bytes += received_bytes;
        let Some(end) = end else { return Ok(()) };
        if let stream::End::Broken(Fault::Connection) = end {
            return Err(Fault::Connection);
        }
        let Stream { job, number, .. } = self.streams.swap_remove(place);
        match end {
            stream::End::Whole => {
                self.answered += 1;
                self.ended = Some(job);
                ledger.on_whole(job, now);
            }
            stream::End::Broken(fault) => {
                self.quic.cancel(id, fault.code());
                self.end(job, Outcome::Wrong, ledger, now);
            }
            // The request was on its way when the end was announced.
            stream::End::Reset(REQUEST_REJECTED) if self.is_ending => self.refused(job, number, ledger, now),
            stream::End::Reset(_) => self.end(job, Outcome::Reset, ledger, now),
        }
        Ok(())
    }

    /// Opens streams for the requests that wait for one, as many as the server allows.
    fn open_streams(&mut self) {
        if !self.is_connected {
            return;
        }
        if self.control.is_none() {
            self.control = self.quic.connection().streams().open(Dir::Uni);
            self.unwritten.extend(self.control.map(|id| (id, CONTROL_STREAM.to_vec())));
        }
        while let Some(Queued { job, number, bytes }) = self.queued.pop_front() {
            let Some(id) = self.quic.connection().streams().open(Dir::Bi) else {
                self.is_blocked = true;
                self.queued.push_front(Queued { job, number, bytes });
                break;
            };
            self.unwritten.push_back((id, bytes));
            self.streams.push(Stream::new(job, id, number, self.received_bytes, self.answered > 0));
        }
        // The others can use another connection, or wait with those that found no room.
        let is_first = |queued: &Queued| queued.number == 1;
        let others = self.queued.iter().filter(|queued| !is_first(queued)).map(|queued| queued.job);
        self.unheard.extend(others);
        let queued = self.queued.len();
        self.queued.retain(is_first);
        self.asked -= (queued - self.queued.len()) as u64;
        self.write();
    }

    /// Writes the bytes to be sent, as far as the server's windows allow, and the ends of requests after them.
    fn write(&mut self) {
        for (id, mut bytes) in std::mem::take(&mut self.unwritten) {
            let mut stream = self.quic.connection().send_stream(id);
            let written = match stream.write(&bytes) {
                Ok(written) => written,
                Err(quinn_proto::WriteError::Blocked) => 0,
                // The server needs no more of the request.
                Err(_) => continue,
            };
            if written == bytes.len() {
                if id.dir() == Dir::Bi {
                    // A stopped stream has already ended.
                    let _ = stream.finish();
                }
                continue;
            }
            bytes.drain(..written);
            self.unwritten.push_back((id, bytes));
        }
    }

    /// Gives back the jobs that have no stream yet, for another connection.
    fn give_back(&mut self, ledger: &mut Ledger<'_>, now: Nanos) {
        for Queued { job, number, .. } in std::mem::take(&mut self.queued) {
            self.refused(job, number, ledger, now);
        }
    }

    /// Handles a request that the server did not process.
    fn refused(&mut self, job: usize, number: u64, ledger: &mut Ledger<'_>, now: Nanos) {
        match number {
            1 => self.end(job, Outcome::Reset, ledger, now),
            _ => self.unheard.push(job),
        }
    }

    fn end(&mut self, job: usize, outcome: Outcome, ledger: &mut Ledger<'_>, now: Nanos) {
        self.ended = Some(job);
        ledger.end(job, outcome, now);
    }
}

/// Encodes a complete request, which is one frame.
fn request(plan: &Plan, ask: Ask) -> Vec<u8> {
    let (host, path) = plan.target_of(ask);
    headers(host, &path, ask.part.and_then(priority).as_deref())
}

/// Encodes the HEADERS frame of a GET over https.
fn headers(authority: &str, path: &str, priority: Option<&str>) -> Vec<u8> {
    let fields = [(":method", "GET"), (":scheme", "https"), (":authority", authority), (":path", path)];
    let fields = fields.into_iter().chain(priority.map(|value| ("priority", value)));
    let mut section = vec![];
    codec::encode(fields.map(|(name, value)| (name.as_bytes(), value.as_bytes())), &mut section);
    let mut frame = vec![];
    codec::head(codec::HEADERS, section.len() as u64, &mut frame);
    frame.extend(section);
    frame
}

#[cfg(test)]
mod tests;
