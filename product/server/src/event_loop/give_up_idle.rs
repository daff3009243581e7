//! When all places are taken, the connection that has been idle longest is closed for a new client, as nginx does. A
//! client that sends a request at that moment sees its connection close and retries (RFC 9112 section 9.3.1); a client
//! that cannot connect has no server at all.

use units::Nanos;

use super::responder::Responder;
use crate::net::Net;

/// Closes the longest idle connection among those idle for at least `idle_for`. Returns false if there is none.
pub(super) fn give_up_idle<N: Net>(with: &mut Responder<N>, idle_for: Nanos) -> bool {
    while let Some((token, deadline)) = with.service.admission.next_idle(with.timers.now(), &with.connections) {
        // A request may have arrived since the list was made, or be in the socket without an event yet.
        let (now, limits) = (with.timers.client_now(), &with.limits);
        let is_as_found = |at: &usize| {
            let conn = &with.connections[*at];
            conn.is_idle() && conn.deadline() == deadline && now - conn.idle_since(limits) >= idle_for
        };
        let Some(at) = with.connections.slot(token).filter(is_as_found) else { continue };
        if !with.connections[at].channel.is_in_flight {
            with.connections[at].input.is_readable = true;
            with.read(at);
        }
        if !with.connections.contains(at) {
            return true;
        }
        if with.connections[at].is_idle() && !with.connections[at].has_unacknowledged() {
            // Over HTTP/2 and HTTP/3 with a GOAWAY.
            with.connections.go_away(at);
            with.close(at);
            return true;
        }
    }
    false
}
