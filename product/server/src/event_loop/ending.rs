//! Ways to end a connection.
//!
//! | method | applies when | responses in progress |
//! |---|---|---|
//! | `end` | the transmitter decides: a stop, a deadline, frames that are over or broken | depends on [`Ending`] |
//! | `abort` | an HTTP/1.1 client has left while an upstream still works for it | end as aborted |
//! | `abandon` | a client is gone or late: nothing is worth sending | end as disconnected |
//! | `end_for_memory` | its memory is needed; a line is logged | as by `abandon` |
//! | `close` | nothing is in progress any more; the other ways end here | none |

use super::responder::Responder;
use super::shortage::waiting;
use crate::body::Failure;
use crate::connection::{Connections, WAITING_BYTES_MIN};
use crate::exchange_id::ExchangeId;
use crate::journal::Kind;
use crate::net::{Net, Transport};
use crate::send::{EndContext, Ending, Transmitter};

impl<N: Net> Responder<N> {
    /// Ends a connection in the way that `how` chooses.
    pub(super) fn end(
        &mut self,
        at: usize,
        how: impl FnOnce(&mut Transmitter, &mut Connections<Transport<N>>, usize, &EndContext) -> Ending,
    ) {
        let now = self.timers.now();
        let class = self.service.handler.default_class();
        let with = EndContext { now, client_now: self.timers.client_now(), limits: &self.limits, class };
        match how(&mut self.transmitter, &mut self.connections, at, &with) {
            Ending::Stays => {}
            Ending::Drains => {
                self.connections.count(at);
                self.connections.queue(at);
            }
            Ending::Refused { reject, shown } => {
                self.refuse(self.connections[at].exchange_id(0), reject, &shown, false);
                self.flush(at);
            }
            Ending::Closes { is_late } => {
                if is_late {
                    self.service.note_late_handshake(now, &self.connections[at]);
                }
                self.close(at);
            }
            Ending::IsAbandoned => self.abandon(at),
        }
    }

    /// Ends a connection whose client has left or is late, so that nothing is worth sending. The connection closes when
    /// its last response has departed.
    pub(super) fn abandon(&mut self, at: usize) {
        let conn = &mut self.connections[at];
        let retransmits = conn.retransmits();
        let Some(streams) = conn.protocol.streams_mut() else {
            if conn.is_sending() {
                return self
                    .transmitter
                    .end_all(&mut self.connections, self.timers.now(), at, || Failure::Disconnected);
            }
            return self.close(at);
        };
        streams.is_leaving = true;
        if !retransmits {
            streams.ends_at = Some(self.timers.client_now());
        }
        // Nothing else that the client sent is used.
        (conn.input.is_readable, conn.input.is_cut) = (false, false);
        let unanswered = conn.protocol.exchanges().filter(|exchange| !exchange.is_sending());
        let unanswered: Vec<ExchangeId> = unanswered.map(|exchange| exchange.id).collect();
        let is_empty = conn.protocol.exchanges().next().is_none();
        self.transmitter.end_all(&mut self.connections, self.timers.now(), at, || Failure::Disconnected);
        unanswered.into_iter().for_each(|id| self.leave_stream(id));
        if is_empty {
            self.close(at);
        }
    }

    /// Ends a connection because its memory is needed, and logs a line.
    pub(super) fn end_for_memory(&mut self, at: usize) {
        let conn = &self.connections[at];
        let what = match () {
            () if conn.part_bytes() > 0 => "its request or handshake is incomplete",
            () if waiting(&self.proxy, conn).bytes >= WAITING_BYTES_MIN => "its requests wait",
            () => "it does not read",
        };
        let why = format!("{} with {} KB: {what}", conn.peer(), conn.held.bytes() >> 10);
        self.service.journal.fail(self.timers.now(), Kind::Memory, why);
        self.abandon(at);
    }

    /// Ends the connection of a client that has left. Its request is removed from the queue of its upstream, or
    /// cancelled at the upstream.
    pub(super) fn abort(&mut self, at: usize) {
        if self.connections[at].is_sending() {
            return self.transmitter.end_all(&mut self.connections, self.timers.now(), at, || Failure::Aborted);
        }
        self.close(at);
    }

    /// Closes the connection.
    pub fn close(&mut self, at: usize) {
        if self.connections[at].protocol.streams().is_some_and(|streams| !streams.is_idle()) {
            return self.abandon(at);
        }
        self.transmitter.end_output(&mut self.connections, self.timers.now(), at, self.service.handler.default_class());
        let id = self.connections[at].exchange_id(0);
        self.leave_upstream(id);
        self.proxy.forget_client(&self.net, id.token());
        self.service.leave(&self.net, &self.timers, &mut self.connections[at], 0, &self.transmitter.link);
        let unreported_bytes = self.transmitter.close(&mut self.connections, self.timers.now(), at);
        let conn = &self.connections[at];
        let (client, of_response) = (conn.client, conn.client_of(0));
        self.service.admission.spend(of_response, unreported_bytes);
        self.service.forget_origin(self.timers.now(), &mut self.connections[at], 0);
        self.service.admission.leave(self.timers.now(), client);
        self.connections.remove(at);
    }
}
