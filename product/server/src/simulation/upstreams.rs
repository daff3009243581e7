//! Connections of the server to applications.

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;
use units::Nanos;

use super::application::{Application, Seen};
use super::client::Client;
use super::datagrams::Datagrams;
use super::outages::OutageKind;
use super::wire::{Far, Wire, WireSettings};
use super::world::{Event, World};
use crate::upstream::{Endpoint, EndpointAddress};

/// The port of the first application; the other applications have the ports that follow.
pub const PORT: u16 = 9_000;
/// The maximum delay of a refusal that is not immediate.
const REFUSED_WITHIN: Nanos = Nanos::from_millis(100);

/// All peers of the server.
#[derive(Default)]
pub struct Peers {
    pub clients: Vec<Option<Client>>,
    pub datagrams: Datagrams,
    /// Indexed by connection.
    applications: Vec<Option<Application>>,
    /// The requests that applications have received.
    seen: Seen,
}

impl World {
    /// Opens a connection to an application, which may complete later.
    pub fn open_upstream(&mut self, to: &Endpoint) -> io::Result<usize> {
        self.enter();
        let plan = self.plan.upstreams.ok_or(Errno::NETUNREACH)?;
        let EndpointAddress::Tcp(address) = &to.address else { return Err(Errno::NOENT.into()) };
        let endpoint = usize::from(address.port() - PORT);
        let outage = plan.health.and_then(|health| health.outage(endpoint, self.now));
        let is_refused = self.random.below(1_000) < plan.refused_permille || outage == Some(OutageKind::Refusal);
        if is_refused && self.random.once_in(3) {
            return Err(Errno::CONNREFUSED.into());
        }
        let number = self.peers.applications.len();
        let link = self.plan.link.unwrap_or_else(|| WireSettings::to_upstream(&mut self.random));
        let at = self.wires.len();
        self.wires.push(Wire::new(link, *address, Far::Application(number)));
        self.wires[at].server.is_connecting = true;
        self.peers.applications.push(Some(Application::new(at, endpoint, &plan, &mut self.random)));
        match is_refused {
            false => self.schedule(self.now + Nanos(2 * link.delay.0), Event::Connected { wire: at }),
            true if self.random.once_in(2) => {
                let refused_at = self.now + Nanos(self.random.below(REFUSED_WITHIN.0));
                self.schedule(refused_at, Event::UpReset { wire: at });
            }
            // The connection is never established.
            true => {}
        }
        Ok(at)
    }

    pub fn on_connected(&mut self, at: usize) {
        self.wires[at].server.is_connecting = false;
        self.mark(at);
    }

    /// The times at which applications sent data, and the number of bytes.
    pub fn said_upstream(&self) -> Vec<(Nanos, u64)> {
        let mut said: Vec<_> = self.peers.applications.iter().flatten().flat_map(|one| one.said.clone()).collect();
        said.sort();
        said
    }

    /// Makes an application act as far as possible now.
    pub fn act_application(&mut self, number: usize) {
        let Some(mut application) = self.peers.applications[number].take() else { return };
        let at = application.wire;
        let held = self.wires[at].up.inbox.len();
        match application.act(self.now, &mut self.wires[at], &self.site, &mut self.peers.seen) {
            Ok(Some(again_at)) => {
                self.wake(again_at, Event::Application { number });
            }
            Ok(None) => {}
            Err(why) => {
                let (who, wire) = (application.describe(), &self.wires[at]);
                let text = format!("application {number} ({who}): {why}\n  {:?}, {}", wire.link, wire.describe());
                self.fail(text);
            }
        }
        self.note(self.wires[at].up.written_bytes);
        if self.wires[at].up.inbox.len() < held {
            let delay = self.wires[at].link.delay;
            self.schedule(self.now + delay, Event::Acked { wire: at, bytes: 0 });
        }
        self.show(at, || application.describe());
        let endpoint = application.endpoint;
        self.peers.applications[number] = Some(application);
        self.pump_up(at);
        self.judge_load(endpoint);
    }

    /// Checks that no application has more concurrent requests than allowed, nor more than half of them from one
    /// client, nor any from a client that has gone.
    fn judge_load(&mut self, endpoint: usize) {
        let Some(plan) = self.plan.upstreams else { return };
        let is_busy = |application: &&Application| {
            application.endpoint == endpoint && application.is_busy() && !self.wires[application.wire].server.is_closed
        };
        let busy: Vec<_> = self.peers.applications.iter().flatten().filter(is_busy).collect();
        if busy.len() > plan.requests_max as usize {
            let each: Vec<String> = busy.into_iter().map(Application::describe).collect();
            self.fail(format!("an application has {} requests at once: {}", each.len(), each.join("; ")));
            return;
        }
        let most = plan.requests_max.div_ceil(2) as usize;
        let clients: Vec<IpAddr> = busy.iter().filter_map(|application| application.client()).collect();
        let has_more = |client: &&IpAddr| clients.iter().filter(|other| other == client).count() > most;
        let greedy = clients.iter().find(has_more).copied();
        let is_gone = |client: &&IpAddr| self.wires.iter().any(|wire| wire.is_gone(**client, self.now));
        let gone = clients.iter().find(is_gone).copied();
        if let Some(client) = greedy {
            self.fail(format!("client {client} has more than {most} of {} places", plan.requests_max));
        } else if let Some(client) = gone {
            self.fail(format!("an application works for client {client}, which has gone"));
        }
    }

    /// The address of an application.
    pub fn address(endpoint: u64) -> SocketAddr {
        SocketAddr::from(([198, 18, 255, 1], PORT + endpoint as u16))
    }
}
