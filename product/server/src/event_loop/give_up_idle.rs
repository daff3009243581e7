//! When all places are taken, the connection that has been idle longest is closed for a new client, as nginx does. A
//! client that sends a request at that moment sees its connection close and retries (RFC 9112 section 9.3.1), but a
//! client that cannot connect gets no service at all.

use units::Nanos;

use super::responder::Responder;
use crate::net::Net;

impl<N: Net> Responder<N> {
    /// Closes the connection that has been idle longest, among those idle for at least `idle_for`. Returns false if
    /// there is none.
    pub(super) fn give_up_idle(&mut self, idle_for: Nanos) -> bool {
        while let Some((token, deadline)) = self.service.admission.next_idle(self.timers.now(), &self.connections) {
            // A request may have arrived since the list was made, or may be in the socket without an event yet.
            let (now, limits) = (self.timers.client_now(), &self.limits);
            let is_as_found = |at: &usize| {
                let conn = &self.connections[*at];
                conn.is_idle() && conn.deadline() == deadline && now - conn.idle_since(limits) >= idle_for
            };
            let Some(at) = self.connections.slot(token).filter(is_as_found) else { continue };
            if !self.connections[at].channel.is_in_flight {
                self.connections[at].input.is_readable = true;
                self.read(at);
            }
            if !self.connections.contains(at) {
                return true;
            }
            if self.connections[at].is_idle() && !self.connections[at].has_unacknowledged() {
                // An HTTP/2 client gets a GOAWAY first. Over HTTP/3 the close overtakes the GOAWAY: the client's place
                // is needed now.
                self.connections.go_away(at);
                self.close(at);
                return true;
            }
        }
        false
    }
}
