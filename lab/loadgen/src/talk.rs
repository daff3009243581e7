//! The protocol of a connection over TCP: one request after another, or many concurrently.

use std::fmt::Debug;

use record::Outcome;
use units::Nanos;

use crate::exchange::{Exchange, Next};
use crate::http2::Streams;
use crate::ledger::Ledger;
use crate::{Plan, Protocol};

pub(crate) trait Talk: Debug {
    /// Requests a job; there must be room.
    fn submit(&mut self, plan: &Plan, job: usize, ledger: &mut Ledger<'_>, now: Nanos);

    /// Returns true if another job may be requested now.
    fn has_room(&self) -> bool;

    /// Returns true if no job is in flight.
    fn is_idle(&self) -> bool;

    fn unsent(&self) -> &[u8];

    fn on_sent(&mut self, bytes: usize);

    fn on_bytes(&mut self, input: &[u8], ledger: &mut Ledger<'_>, now: Nanos) -> Next;

    /// Handles the end of the connection: the server has closed it, or it was lost.
    fn on_end_of_stream(&mut self, ledger: &mut Ledger<'_>, now: Nanos);

    /// Handles a reset by the server.
    fn on_reset(&mut self, ledger: &mut Ledger<'_>, now: Nanos) {
        self.on_end_of_stream(ledger, now);
    }

    /// Ends the jobs in flight, because the connection is lost.
    fn fail(&mut self, outcome: Outcome, ledger: &mut Ledger<'_>, now: Nanos);

    /// Cancels a job that its user gives up. Returns whether the connection may stay.
    fn cancel(&mut self, job: usize) -> bool;

    /// Takes the jobs that must be requested again over another connection, each once.
    fn take_unheard(&mut self) -> Vec<usize>;

    /// Returns the last job that has ended, once.
    fn take_ended(&mut self) -> Option<usize>;
}

pub(crate) fn new(protocol: Protocol) -> Box<dyn Talk> {
    match protocol {
        Protocol::Http1 => Box::new(Exchange::default()),
        Protocol::Http2 { streams } => Box::new(Streams::new(streams)),
        Protocol::Http3 { .. } => unreachable!("its connections are of QUIC"),
    }
}
