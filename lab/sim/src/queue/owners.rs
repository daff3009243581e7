//! The clients of jobs, and how clients share the link.
//!
//! Clients are numbered in order of appearance, after the closed clients, because the order expects small numbers.
//! Random clients are drawn from a separate stream of the seed, so that times, sizes and paths do not depend on them.

use std::collections::HashMap;

use rand::RngCore;
use rand_chacha::ChaCha8Rng;
use sched::Policy;
use sched::policy::{ClientShare, ClientShareSpec, ClientTraits, Network};
use serde::Serialize;
use units::{Nanos, Rate};

use super::line::{Line, Wire};
use super::source::stream;
use super::{Arrivals, Config, Error, Horizon, SPAN_MAX};

/// The maximum number of clients that jobs are assigned to.
pub const CLIENTS_MAX: u32 = 1_000_000;
/// The maximum number of closed clients.
pub const CLOSED_MAX: usize = 1024;
/// The maximum number of concurrent responses of a closed client.
pub const CLOSED_CONNECTIONS_MAX: u32 = 4096;

/// The clients of a run. By default all jobs belong to one client, and nothing is shared.
#[derive(Debug, Clone, Default)]
pub struct ClientSpec {
    /// The clients of the arriving jobs; `None` if all belong to one client.
    pub owners: Option<Owners>,
    /// How clients share the link; `None` if the order does not consider clients.
    pub share: Option<ClientShareSpec>,
    /// Additional clients who request again immediately; they are not counted among the jobs.
    pub closed: Vec<Closed>,
}

/// The source of the clients of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    /// The replayed trace.
    Trace,
    /// Each job is assigned at random to one of this many clients.
    Dealt(u32),
}

/// A client that always has this many responses of one size in flight.
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
    /// The number of complete responses.
    pub responses: u64,
    /// The bits per second that it got from the link, including parts of responses.
    pub bits_per_s: f64,
}

impl ClientSpec {
    pub(super) fn is_any(&self) -> bool {
        self.owners.is_some()
            || self.share.is_some_and(|share| share != ClientShareSpec::Off)
            || !self.closed.is_empty()
    }

    /// Passes the networks of closed clients to the policy.
    pub(super) fn introduce(&self, policy: &mut dyn Policy) {
        for (client, closed) in (0..).zip(&self.closed).filter(|(_, closed)| closed.network != Network::NONE) {
            policy.on_client(client, ClientTraits { network: closed.network, ..ClientTraits::default() });
        }
    }

    /// Returns the share in the scheduler's unit: an idle second of the link forgives a second of link time.
    pub(super) fn share_of(&self, link: Rate, line: &Line) -> Option<ClientShare> {
        let ClientShare { allowance_bytes, .. } = self.share?.of_link(Some(link))?;
        Some(ClientShare { allowance_bytes: line.time_for(allowance_bytes).0, idle_bytes_per_s: 1_000_000_000 })
    }
}

/// Checks the clients of a config.
pub(super) fn check(config: &Config, line: &Line) -> Result<(), Error> {
    let ClientSpec { owners, closed, .. } = &config.clients;
    match (owners, &config.arrivals) {
        (Some(Owners::Dealt(count)), _) if !(1..=CLIENTS_MAX).contains(count) => {
            Err(Error::field("clients", format_args!("{count} clients: write 1 to {CLIENTS_MAX}")))
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
    if !closed.is_empty() && !matches!(config.horizon, Horizon::Until(_)) {
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

/// Numbers the clients of jobs in order of appearance.
pub(super) struct Numbering {
    owners: Option<Owners>,
    random: ChaCha8Rng,
    /// The first number of these clients; closed clients have the numbers below.
    first: u32,
    known: HashMap<u32, u32>,
}

impl Numbering {
    pub fn new(spec: &ClientSpec, seed: u64) -> Numbering {
        let first = spec.closed.len() as u32;
        Numbering { owners: spec.owners, random: stream(seed, 3), first, known: HashMap::new() }
    }

    /// Returns the client of the next job. `given` is the trace's client.
    pub fn next(&mut self, given: Option<u32>) -> u32 {
        let client = match self.owners {
            None => 0,
            Some(Owners::Trace) => given.unwrap_or(0),
            Some(Owners::Dealt(count)) => (self.random.next_u64() % u64::from(count)) as u32,
        };
        let next = self.first + self.known.len() as u32;
        *self.known.entry(client).or_insert(next)
    }

    /// The number of clients that appeared, if jobs have clients.
    pub fn count(&self) -> Option<u64> {
        self.owners.map(|_| self.known.len() as u64)
    }
}

/// The closed clients of a run, and the service that they received.
pub(super) struct ClosedClients {
    clients: Vec<(Closed, Nanos)>,
    responses: Vec<u64>,
    /// The link time that each has received.
    served: Vec<u64>,
}

impl ClosedClients {
    pub fn new(closed: &[Closed], line: &Line, wire: Wire) -> ClosedClients {
        let clients: Vec<(Closed, Nanos)> =
            closed.iter().map(|closed| (*closed, line.time_for(wire.bytes(closed.size_bytes)))).collect();
        ClosedClients { responses: vec![0; clients.len()], served: vec![0; clients.len()], clients }
    }

    /// Returns each client's number, its number of concurrent responses, their size and their link time.
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
