//! The protocol of a connection over TCP: one request after another, or many concurrently.

use record::Outcome;
use units::Nanos;

use crate::exchange::{Exchange, Next};
use crate::http2::Streams;
use crate::ledger::Ledger;
use crate::{Plan, Protocol};

#[derive(Debug)]
pub(crate) enum Talk {
    Http1(Exchange),
    Http2(Box<Streams>),
}

impl Talk {
    pub(crate) fn new(protocol: Protocol) -> Talk {
        match protocol {
            Protocol::Http1 => Talk::Http1(Exchange::default()),
            Protocol::Http2 { streams } => Talk::Http2(Box::new(Streams::new(streams))),
            Protocol::Http3 { .. } => unreachable!("its connections are of QUIC"),
        }
    }

    /// Requests a job; there must be room.
    pub(crate) fn submit(&mut self, plan: &Plan, job: usize, ledger: &mut Ledger<'_>, now: Nanos) {
        match self {
            Talk::Http1(exchange) => exchange.submit(plan, job, ledger),
            Talk::Http2(streams) => streams.submit(plan, job, ledger, now),
        }
    }

    /// Returns true if another job may be requested now.
    pub(crate) fn has_room(&self) -> bool {
        match self {
            Talk::Http1(exchange) => exchange.has_room(),
            Talk::Http2(streams) => streams.has_room(),
        }
    }

    /// Returns true if no job is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Talk::Http1(exchange) => exchange.job().is_none(),
            Talk::Http2(streams) => streams.is_idle(),
        }
    }

    pub(crate) fn unsent(&self) -> &[u8] {
        match self {
            Talk::Http1(exchange) => exchange.unsent(),
            Talk::Http2(streams) => streams.unsent(),
        }
    }

    pub(crate) fn on_sent(&mut self, bytes: usize) {
        match self {
            Talk::Http1(exchange) => exchange.on_sent(bytes),
            Talk::Http2(streams) => streams.on_sent(bytes),
        }
    }

    pub(crate) fn on_bytes(&mut self, input: &[u8], ledger: &mut Ledger<'_>, now: Nanos) -> Next {
        match self {
            Talk::Http1(exchange) => exchange.on_bytes(input, ledger, now),
            Talk::Http2(streams) => streams.on_bytes(input, ledger, now),
        }
    }

    /// Handles the end of the connection by the server.
    pub(crate) fn on_end_of_stream(&mut self, ledger: &mut Ledger<'_>, now: Nanos) {
        match self {
            Talk::Http1(exchange) => exchange.on_end_of_stream(ledger, now),
            Talk::Http2(streams) => streams.on_end_of_stream(ledger, now),
        }
    }

    /// Handles a reset by the server.
    pub(crate) fn on_reset(&mut self, ledger: &mut Ledger<'_>, now: Nanos) {
        match self {
            Talk::Http1(exchange) => exchange.on_reset(ledger, now),
            Talk::Http2(streams) => streams.on_end_of_stream(ledger, now),
        }
    }

    /// Ends the jobs in flight, because the connection is lost.
    pub(crate) fn fail(&mut self, outcome: Outcome, ledger: &mut Ledger<'_>, now: Nanos) {
        match self {
            Talk::Http1(exchange) => exchange.fail(outcome, ledger, now),
            Talk::Http2(streams) => streams.fail(outcome, ledger, now),
        }
    }

    /// Cancels a job that its user gives up. Returns whether the connection may stay.
    pub(crate) fn cancel(&mut self, job: usize) -> bool {
        match self {
            Talk::Http1(exchange) => exchange.job() != Some(job),
            Talk::Http2(streams) => {
                streams.cancel(job);
                true
            }
        }
    }

    /// Takes the jobs that must be requested again over another connection.
    pub(crate) fn take_unheard(&mut self) -> Vec<usize> {
        match self {
            Talk::Http1(exchange) => exchange.take_unheard().into_iter().collect(),
            Talk::Http2(streams) => streams.take_unheard(),
        }
    }

    /// Returns the last job that has ended, once.
    pub(crate) fn take_ended(&mut self) -> Option<usize> {
        match self {
            Talk::Http1(exchange) => exchange.take_ended(),
            Talk::Http2(streams) => streams.take_ended(),
        }
    }
}
