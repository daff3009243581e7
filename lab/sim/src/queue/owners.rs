//! Whose jobs they are, and how clients share the link.
//!
//! Clients are numbered as they come, closed ones first, since to the order a client is a small number. Those who are drawn have a
//! stream of the seed to themselves, so that times, sizes and paths are what they are without clients.

use std::collections::HashMap;

use rand::RngCore;
use rand_chacha::ChaCha8Rng;
use sched::Policy;
use sched::policy::{ClientShare, ClientShareSpec, ClientTraits, Network};
use serde::Serialize;
use units::{Nanos, Rate};
use workload::Visitors;

use super::line::{Line, Wire};
use super::source::stream;
use super::{Arrivals, Config, Error, Horizon, SPAN_MAX};

/// The most clients that jobs are dealt to.
pub const CLIENTS_MAX: u32 = 1_000_000;
/// The most closed clients.
pub const CLOSED_MAX: usize = 1024;
/// The most responses of a closed client under way.
pub const CLOSED_CONNECTIONS_MAX: u32 = 4096;

/// The clients of a run. By default all jobs are one client's, and there is nothing to share.
#[derive(Debug, Clone, Default)]
pub struct ClientSpec {
    /// The owners of the jobs that arrive; `None`: all are one client's.
    pub owners: Option<Owners>,
    /// `None`: the order does not look at clients.
    pub share: Option<ClientShareSpec>,
    /// Clients beside them who ask again at once; not counted among the jobs.
    pub closed: Vec<Closed>,
}

/// The source of the clients of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    /// The replayed trace.
    Trace,
    /// Each job is dealt to one of so many, at random.
    Dealt(u32),
    /// Each page has the address of its visit.
    Visits(Visitors),
}

/// A client with always so many responses of one size under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    pub connections: u32,
    pub size_bytes: u64,
    pub network: Network,
}

/// The service of a closed client.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClosedOutcome {
    pub connections: u32,
    pub size_bytes: u64,
    /// Responses that were complete.
    pub responses: u64,
    /// The bits of the link a second, parts of responses included.
    pub bits_per_s: f64,
}

impl ClientSpec {
    pub(super) fn is_any(&self) -> bool {
        self.owners.is_some()
            || self.share.is_some_and(|share| share != ClientShareSpec::Off)
            || !self.closed.is_empty()
    }

    /// Names the networks of closed clients to the order.
    pub(super) fn introduce(&self, policy: &mut dyn Policy) {
        for (client, closed) in (0..).zip(&self.closed).filter(|(_, closed)| closed.network != Network::NONE) {
            policy.on_client(client, ClientTraits { network: closed.network, ..ClientTraits::default() });
        }
    }

    /// In the scheduler's unit: an idle second of the link forgives a second of it.
    pub(super) fn share_of(&self, link: Rate, line: &Line) -> Option<ClientShare> {
        let ClientShare { allowance_bytes, .. } = self.share?.of_link(Some(link))?;
        Some(ClientShare { allowance_bytes: line.time_for(allowance_bytes).0, idle_bytes_per_s: 1_000_000_000 })
    }
}

/// Checks the clients of a config.
pub(super) fn check(config: &Config, line: &Line) -> Result<(), Error> {
    let ClientSpec { owners, closed, .. } = &config.clients;
    if config.clients.is_any() && config.connections.is_some() {
        return Err(Error::field("connections", "not beside clients: a connection is of one client"));
    }
    match (owners, &config.arrivals) {
        (Some(Owners::Dealt(count)), _) if !(1..=CLIENTS_MAX).contains(count) => {
            Err(Error::field("clients", format_args!("{count} clients: write 1 to {CLIENTS_MAX}")))
        }
        (Some(Owners::Visits(visitors)), arrivals) if !matches!(arrivals, Arrivals::Pages(_)) => {
            let said = format_args!("{}: only pages are visits: write --pages 200 too", visitors.name());
            Err(Error::field("clients", said))
        }
        (Some(Owners::Trace), Arrivals::Poisson { .. }) => {
            Err(Error::field("clients", "Poisson arrivals have no clients: write a number, such as 1000"))
        }
        (Some(Owners::Trace), Arrivals::Replay(jobs)) => match jobs.iter().filter(|job| job.client.is_none()).count() {
            0 => check_closed(config, closed, line),
            none => Err(Error::field(
                "clients",
                format_args!(
                    "{none} of {} requests of the trace have no client: write a number, such as 1000",
                    jobs.len()
                ),
            )),
        },
        _ => check_closed(config, closed, line),
    }
}

fn check_closed(config: &Config, closed: &[Closed], line: &Line) -> Result<(), Error> {
    if closed.len() > CLOSED_MAX {
        return Err(Error::field("closed", format_args!("{} closed clients: write up to {CLOSED_MAX}", closed.len())));
    }
    let is_paged = matches!(config.arrivals, Arrivals::Pages(_));
    if !closed.is_empty() && !is_paged && !matches!(config.horizon, Horizon::Until(_)) {
        return Err(Error::field("closed", "closed clients ask without end: write seconds too"));
    }
    for Closed { connections, size_bytes, .. } in closed {
        if !(1..=CLOSED_CONNECTIONS_MAX).contains(connections) {
            let most = CLOSED_CONNECTIONS_MAX;
            return Err(Error::field("closed", format_args!("{connections} connections: write 1 to {most}")));
        }
        if *size_bytes == 0 || line.time_for(config.wire.bytes(*size_bytes)) > SPAN_MAX {
            return Err(Error::field("closed", format_args!("{size_bytes} bytes: write a size such as 100KB")));
        }
    }
    Ok(())
}

/// Numbers the clients of the jobs as they come.
pub(super) struct Numbering {
    owners: Option<Owners>,
    seed: u64,
    random: ChaCha8Rng,
    /// Closed clients have the numbers below.
    first: u32,
    known: HashMap<u32, u32>,
}

impl Numbering {
    pub fn new(spec: &ClientSpec, seed: u64) -> Numbering {
        let first = spec.closed.len() as u32;
        Numbering { owners: spec.owners, seed, random: stream(seed, 3), first, known: HashMap::new() }
    }

    /// Returns the client of the next job; `given` is the trace's, or the number of the visit.
    pub fn next(&mut self, given: Option<u32>) -> u32 {
        let client = match self.owners {
            None => 0,
            Some(Owners::Trace) => given.unwrap_or(0),
            Some(Owners::Visits(visitors)) => visitors.address(given.unwrap_or(0), self.seed),
            Some(Owners::Dealt(count)) => (self.random.next_u64() % u64::from(count)) as u32,
        };
        let next = self.first + self.known.len() as u32;
        *self.known.entry(client).or_insert(next)
    }

    /// The number of clients that came, where jobs have clients.
    pub fn count(&self) -> Option<u64> {
        self.owners.map(|_| self.known.len() as u64)
    }
}

/// The closed clients of a run and what they had.
pub(super) struct ClosedClients {
    clients: Vec<(Closed, Nanos)>,
    responses: Vec<u64>,
    /// Time of the link.
    served: Vec<u64>,
}

impl ClosedClients {
    pub fn new(closed: &[Closed], line: &Line, wire: Wire) -> ClosedClients {
        let clients: Vec<(Closed, Nanos)> =
            closed.iter().map(|closed| (*closed, line.time_for(wire.bytes(closed.size_bytes)))).collect();
        ClosedClients { responses: vec![0; clients.len()], served: vec![0; clients.len()], clients }
    }

    /// Each client's number, how many responses it has under way, their size and time of the link.
    pub fn asks(&self) -> impl Iterator<Item = (u32, u32, u64, Nanos)> {
        let ask = |(client, (closed, service)): (usize, &(Closed, Nanos))| {
            (client as u32, closed.connections, closed.size_bytes, *service)
        };
        self.clients.iter().enumerate().map(ask).collect::<Vec<_>>().into_iter()
    }

    pub fn on_complete(&mut self, client: u32, service: Nanos) {
        self.responses[client as usize] += 1;
        self.on_part(client, service);
    }

    pub fn on_part(&mut self, client: u32, served: Nanos) {
        self.served[client as usize] += served.0;
    }

    pub fn outcomes(&self, link: Rate, span: Nanos) -> Vec<ClosedOutcome> {
        let each = self.clients.iter().zip(&self.responses).zip(&self.served);
        each.map(|(((closed, _), &responses), &served)| ClosedOutcome {
            connections: closed.connections,
            size_bytes: closed.size_bytes,
            responses,
            bits_per_s: link.bits_per_s() as f64 * served as f64 / span.0.max(1) as f64,
        })
        .collect()
    }
}
