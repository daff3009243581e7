//! A client with its ledger and a server, in memory and on a simulated clock; datagrams are lost where a test says so.

use record::{JobRecord, Outcome};
use units::Nanos;

use super::super::Requests;
use super::super::quic::Quic;
use super::server::{Act, Limits, Request, Server};
use crate::exchange::Next;
use crate::ledger::Ledger;
use crate::plan::tests::plan;
use crate::testing::Jobs;
use crate::{Plan, Protocol, Tls};

/// The delay in each direction.
const DELAY: Nanos = Nanos::from_millis(1);
/// More steps than any exchange of a test takes; beyond them datagrams are being sent in a loop.
const STEPS_MAX: usize = 1_000_000;

pub(super) fn plan_of(streams: u32) -> Plan {
    let protocol = Protocol::Http3 { streams };
    Plan { protocol, tls: Some(Tls::new(true, protocol)), ..plan(u64::MAX) }
}

pub(super) struct Rig<'a> {
    plan: &'a Plan,
    pub(super) ledger: Ledger<'a>,
    pub(super) requests: Requests,
    pub(super) server: Server,
    pub(super) now: Nanos,
    /// Returns whether the datagram with this number is lost.
    pub(super) is_lost: Box<dyn Fn(u64) -> bool>,
    datagrams: u64,
    pub(super) next: Next,
}

impl<'a> Rig<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        source: &'a mut Jobs,
        limits: Limits,
        script: impl FnMut(Request) -> Vec<Act> + Send + 'static,
    ) -> Rig<'a> {
        let Protocol::Http3 { streams } = plan.protocol else { panic!("a plan for HTTP/3") };
        let now = Nanos::from_secs(1);
        let config = plan.tls.as_ref().unwrap().quic().unwrap();
        let quic = Quic::connect(config, plan.target, now).unwrap();
        Rig {
            ledger: Ledger::new(plan, source),
            requests: Requests::new(quic, streams, plan.per_connection, now),
            server: Server::new(limits, script),
            plan,
            now,
            is_lost: Box::new(|_| false),
            datagrams: 0,
            next: Next::Continue,
        }
    }

    /// Requests this many further jobs.
    pub(super) fn ask(&mut self, jobs: usize) {
        for _ in 0..jobs {
            let job = self.ledger.submit(self.now).unwrap();
            self.requests.submit(self.plan, job, &self.ledger);
        }
    }

    /// Runs until neither side has anything to send, or to wait for before `until`. The client's part ends with its
    /// connection.
    pub(super) fn run_until(&mut self, until: Nanos) {
        for _ in 0..STEPS_MAX {
            if !self.exchange() {
                let due = [self.due(), self.server.due()].into_iter().flatten().min();
                match due {
                    Some(due) if due <= until => self.now = self.now.max(due),
                    _ => return,
                }
                if self.next == Next::Continue && self.requests.due().is_some_and(|at| at <= self.now) {
                    self.requests.on_time(self.now);
                    self.settle();
                }
                self.server.on_time(self.now);
            }
        }
        panic!("no end");
    }

    /// Runs until neither side has anything to send, or to wait for within a while.
    pub(super) fn run(&mut self) {
        self.run_until(self.now + Nanos::from_secs(5));
    }

    fn due(&mut self) -> Option<Nanos> {
        (self.next == Next::Continue).then(|| self.requests.due()).flatten()
    }

    fn settle(&mut self) {
        if self.next == Next::Continue {
            self.next = self.requests.settle(&mut self.ledger, self.now);
        }
    }

    /// Passes on what either side has to send. Returns whether there was anything.
    fn exchange(&mut self) -> bool {
        let (mut sent, mut datagram) = (vec![], vec![]);
        while self.requests.transmit(self.now, &mut datagram).is_some() {
            sent.push(datagram.clone());
        }
        let mut answers = vec![];
        while let Some((_, datagram)) = self.server.transmit(self.now) {
            answers.push(datagram);
        }
        let is_quiet = sent.is_empty() && answers.is_empty();
        if is_quiet {
            return false;
        }
        self.now += DELAY;
        for datagram in &sent {
            if !self.loses() {
                self.server.receive(self.now, "127.0.0.2:1234".parse().unwrap(), datagram);
            }
        }
        for datagram in &answers {
            if !self.loses() && self.next == Next::Continue {
                self.requests.receive(self.now, None, datagram);
                self.settle();
            }
        }
        true
    }

    fn loses(&mut self) -> bool {
        self.datagrams += 1;
        (self.is_lost)(self.datagrams)
    }

    pub(super) fn records(self) -> Vec<JobRecord> {
        self.ledger.close(Nanos::from_secs(999)).records
    }

    pub(super) fn outcomes(self) -> Vec<Outcome> {
        self.records().iter().map(|record| record.outcome).collect()
    }
}
