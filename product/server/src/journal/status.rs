//! The responses in progress, for an operator's status request: those being sent, and those that still wait for a file
//! or an upstream. The cost is proportional to their number; idle connections cost nothing.

use std::collections::{BTreeMap, BinaryHeap};

use sched::Size;
use units::Nanos;

use super::Journal;
use crate::answer::Handler;
use crate::connection::{Connections, Exchange, LogEntry, Task};
use crate::exchange_id::ExchangeId;
use crate::net::Socket;
use crate::objectives::{self, RESPONSES_MAX, ResponseStatus, ResponsesStatus, SortKey, sort_key};
use crate::send::{self, Link, Transmitter, UnderWay, WaitsFor};

/// The maximum number of responses of each kind that are examined per turn, which takes about 3 ms. Others are not
/// reported.
const LOOKS_MAX: usize = 1 << 14;

/// A response that may be reported: its rank and its data.
#[derive(Debug, PartialEq, Eq)]
struct Candidate {
    key: SortKey,
    exchange: ExchangeId,
    job: Option<UnderWay>,
    waits_for: WaitsFor,
    silent_for: Nanos,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> std::cmp::Ordering {
        (self.key, self.exchange).cmp(&(other.key, other.exchange))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The first few candidates.
#[derive(Default)]
struct First(BinaryHeap<Candidate>);

impl First {
    fn offer(&mut self, exchange: ExchangeId, waits_for: WaitsFor, silent_for: Nanos, job: Option<UnderWay>) {
        self.0.push(Candidate { key: sort_key(waits_for, silent_for), exchange, job, waits_for, silent_for });
        if self.0.len() > RESPONSES_MAX {
            self.0.pop();
        }
    }
}

/// The parts of an event loop with data about responses.
pub struct Sources<'l, S> {
    pub transmitter: &'l Transmitter,
    pub connections: &'l Connections<S>,
    pub handler: &'l Handler,
    pub journal: &'l Journal,
}

impl<S: Socket> Sources<'_, S> {
    /// Returns the responses in progress in this event loop. `unanswered` has the exchanges that wait for upstreams,
    /// each with the time since which it has waited.
    pub fn responses(&self, now: Nanos, unanswered: impl Iterator<Item = (ExchangeId, Nanos)>) -> ResponsesStatus {
        let (mut status, mut first) = (ResponsesStatus::default(), First::default());
        for job in send::under_way(self.transmitter, now, LOOKS_MAX) {
            status.count(job.waits_for, job.client);
            first.offer(job.exchange, job.waits_for, job.silent_for, Some(job));
        }
        let of_files = self.handler.askers().take(LOOKS_MAX).map(|asker| (asker, WaitsFor::File));
        let of_upstreams = unanswered.take(LOOKS_MAX).map(|asker| (asker, WaitsFor::Upstream));
        for ((id, since), waits_for) in of_files.chain(of_upstreams) {
            if self.connections.is_open(id) {
                status.count(waits_for, self.connections[id].client_of(id.stream));
                first.offer(id, waits_for, now - since, None);
            }
        }
        status.first = first.0.into_sorted_vec().into_iter().filter_map(|one| self.told(&one)).collect();
        status
    }

    /// Returns the status of a candidate; `None` if its connection is closed.
    fn told(&self, candidate: &Candidate) -> Option<ResponseStatus> {
        let (conn, exchange) = self.connections.resolve(candidate.exchange)?;
        let line = exchange.line.as_deref();
        let size = candidate.job.and_then(|job| match job.size {
            Size::Known(bytes) => Some(bytes),
            Size::AtLeast(_) => None,
        });
        Some(ResponseStatus {
            site: line.map_or("", |line| self.journal.site_name(line)).into(),
            class: self.handler.class_name(exchange.class).unwrap_or_default().into(),
            protocol: line.map_or(conn.version(1), LogEntry::protocol),
            client: conn.address_of(exchange.id.stream),
            requested: requested(exchange),
            size,
            sent_bytes: candidate.job.map_or(0, |job| job.sent_bytes),
            silent_for: candidate.silent_for,
            waits_for: candidate.waits_for,
        })
    }
}

/// Returns method and target, if a log will contain them.
fn requested(exchange: &Exchange) -> Option<[Vec<u8>; 2]> {
    let line = exchange.line.as_ref().filter(|line| line.log.is_some())?;
    let requested = line.requested();
    Some([requested.method, requested.target].map(<[u8]>::to_vec))
}

/// Counts, by class, the responses being sent, for the objectives. Includes responses that wait for a disk.
pub fn sending(now: Nanos, connections: &Connections<impl Socket>, link: &Link) -> BTreeMap<u16, objectives::UnderWay> {
    let mut classes: BTreeMap<u16, objectives::UnderWay> = BTreeMap::new();
    for exchange in connections.iter().flat_map(|(_, conn)| conn.protocol.exchanges()) {
        let Task::Sending(job) = exchange.task else { continue };
        if let Some(job) = link.scheduler().jobs().get(job) {
            classes.entry(exchange.class).or_default().add(job.is_asleep(), now - job.arrived_at);
        }
    }
    classes
}
