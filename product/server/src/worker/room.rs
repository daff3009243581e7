//! When all places are taken: the longest idle connections are given up for new clients, as nginx does. One that sends a
//! request at that moment sees its connection close and asks again (RFC 9112 section 9.3.1); one that cannot get in
//! has no server at all.

use units::Nanos;

use super::responder::Responder;
use crate::net::{Net, Transport};
use crate::transmit::{Engine, Stream};

/// Closes the longest idle connection of those that have been idle for so long. False: there is none.
pub(super) fn give_up_idle<N: Net>(with: &mut Responder<N>, idle_for: Nanos) -> bool {
    while let Some((owner, deadline)) = with.service.admission.next_idle(with.timers.now(), &with.conns) {
        // A request may have come since the list was made, or be in the socket untold.
        let (now, limits) = (with.timers.now(), &with.setup.limits);
        let is_as_found = |at: &usize| {
            let conn = &with.conns[*at];
            conn.is_idle() && conn.deadline() == deadline && now - conn.idle_since(limits) >= idle_for
        };
        let Some(at) = with.conns.slot(owner).filter(is_as_found) else { continue };
        if !with.conns[at].channel.is_in_flight {
            with.conns[at].input.is_readable = true;
            with.read(at);
        }
        if !with.conns.contains(at) {
            return true;
        }
        if with.conns[at].is_idle() && !has_unacknowledged(with, at) {
            // Over HTTP/2 and 3 with a GOAWAY.
            if with.conns[at].is_multiplexed() {
                with.sender.transmitter.connections.with_engine(at, Engine::go_away);
            }
            with.close(at);
            return true;
        }
    }
    false
}

/// Some of what its client was sent has not arrived: in our socket, where whatever the client sends once that is closed would reset the
/// connection, or over HTTP/3 on its way, where nothing is sent again once it is closed. Either would cost it the rest of a response.
fn has_unacknowledged<N: Net>(with: &mut Responder<N>, at: usize) -> bool {
    let (channel, connections) = (&with.conns[at].channel, &mut with.sender.transmitter.connections);
    match &connections[at].socket {
        Transport::Tcp(socket) => socket.status().is_unacknowledged,
        Transport::Quic(_) => !channel.is_handshaking && !connections[at].engine().is_acknowledged(),
    }
}
