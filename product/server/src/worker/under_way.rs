//! The responses under way, for an operator's status request: those being sent, and those that still wait for a file or
//! an upstream. The cost is proportional to their number; idle connections cost nothing.

use std::collections::BinaryHeap;

use sched::Size;
use units::Nanos;

use super::responder::Responder;
use crate::connection::Exchange;
use crate::connection::Line;
use crate::net::Net;
use crate::objectives::{Place, RESPONSES_MAX, ResponseStatus, ResponsesStatus, place};
use crate::send::{UnderWay, WaitsFor, under_way};
use crate::upstream::unanswered;

/// The maximum number of responses of each kind examined in one turn: some 3 ms. Others are not reported.
const LOOKS_MAX: usize = 1 << 14;

/// A response that may be reported: its rank, and what is known of it.
#[derive(Debug, PartialEq, Eq)]
struct Candidate {
    place: Place,
    /// The name of the exchange, or of the connection if it is a job.
    owner: u64,
    job: Option<UnderWay>,
    waits_for: WaitsFor,
    silent_for: Nanos,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> std::cmp::Ordering {
        (self.place, self.owner).cmp(&(other.place, other.owner))
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
    fn offer(&mut self, owner: u64, waits_for: WaitsFor, silent_for: Nanos, job: Option<UnderWay>) {
        self.0.push(Candidate { place: place(waits_for, silent_for), owner, job, waits_for, silent_for });
        if self.0.len() > RESPONSES_MAX {
            self.0.pop();
        }
    }
}

/// The responses under way of this event loop.
pub(super) fn responses(with: &Responder<impl Net>) -> ResponsesStatus {
    let now = with.timers.now();
    let (mut status, mut first) = (ResponsesStatus::default(), First::default());
    for job in under_way(&with.transmitter, &with.connections, now, LOOKS_MAX) {
        status.count(job.waits_for, job.client);
        first.offer(job.owner, job.waits_for, job.silent_for, Some(job));
    }
    let of_files = with.service.handler.askers().take(LOOKS_MAX).map(|asker| (asker, WaitsFor::File));
    let of_upstreams = unanswered(with.proxy.upstreams()).take(LOOKS_MAX).map(|asker| (asker, WaitsFor::Upstream));
    for ((owner, since), waits_for) in of_files.chain(of_upstreams) {
        if let Some(id) = with.connections.exchange_id(owner) {
            status.count(waits_for, with.connections[id.at].client_of(id.stream));
            first.offer(owner, waits_for, now - since, None);
        }
    }
    status.first = first.0.into_sorted_vec().into_iter().filter_map(|one| told(with, &one)).collect();
    status
}

/// Returns the status of a candidate; `None` if its connection is gone.
fn told(with: &Responder<impl Net>, candidate: &Candidate) -> Option<ResponseStatus> {
    let (at, stream) = match &candidate.job {
        Some(job) => (with.connections.slot(job.owner)?, job.stream),
        None => with.connections.exchange_id(candidate.owner).map(|id| (id.at, id.stream))?,
    };
    let conn = &with.connections[at];
    let exchange = conn.protocol.exchanges().find(|exchange| exchange.number == stream)?;
    let (line, service) = (exchange.line.as_deref(), &with.service);
    let size = candidate.job.and_then(|job| match job.size {
        Size::Known(bytes) => Some(bytes),
        Size::AtLeast(_) => None,
    });
    Some(ResponseStatus {
        site: line.map_or("", |line| service.journal.site_name(line)).into(),
        class: service.handler.class_name(exchange.class).unwrap_or_default().into(),
        protocol: line.map_or(conn.version(1), Line::protocol),
        client: conn.address_of(stream),
        requested: requested(exchange),
        size,
        sent_bytes: candidate.job.map_or(0, |job| job.sent_bytes),
        silent_for: candidate.silent_for,
        waits_for: candidate.waits_for,
    })
}

/// Returns method and target, if a log will have them.
fn requested(exchange: &Exchange) -> Option<[Vec<u8>; 2]> {
    let line = exchange.line.as_ref().filter(|line| line.log.is_some())?;
    let requested = line.requested();
    Some([requested.method, requested.target].map(<[u8]>::to_vec))
}
