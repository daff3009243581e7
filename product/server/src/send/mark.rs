//! What the kernel is told about the packets of a response, so that it can order what we hand down.
//!
//! With shaping `bands` a queueing discipline has a few queues and serves the first that holds anything; the socket's
//! SO_PRIORITY says which queue its packets go to. The kernel stamps a packet with the priority of the moment it is sent, so a
//! response that lies in the socket buffer as a whole keeps the band it began with, however little of it is left (000
//! section 3.2 found the buffer's size to be what decides). Hence bytes are handed down in bursts
//! ([`Marker::burst_bytes`]), and only while less than a burst is unsent.

use std::sync::Arc;

use crate::net::Socket;

/// How the order gets into the kernel.
#[derive(Debug, Clone)]
pub struct Marker {
    pub bands: Bands,
    /// Bytes handed down at once, and the unsent bytes at which a socket is full: what the link sends in a few
    /// milliseconds. Raised: fewer system calls; lowered: a change of band reaches more of a response.
    pub burst_bytes: u64,
}

/// The bands of a queueing discipline.
#[derive(Debug, Clone)]
pub struct Bands {
    /// The priority that leads to a band, for the policy's bands in order.
    pub priorities: Arc<[u32]>,
}

impl Bands {
    /// How many there are; at most 256, since a policy's band is a byte.
    pub fn count(&self) -> usize {
        self.priorities.len()
    }

    /// Puts what is sent next in this band, if it may change now. True if the socket was told.
    ///
    /// A response whose band has become better is moved there when nothing of its connection waits below TCP; until then it is tried
    /// again before each burst. A later packet in a better band would overtake the earlier ones in the worse, the receiver would see them
    /// out of order, and TCP may take those that wait for lost: moved at once, as the papers did, the mean at rho 0.8 is 1.46 times as
    /// long (docs/notebook/surprises.md). The kernel may send a packet between the answer and the change; that one may be overtaken.
    pub fn mark(&self, socket: &mut impl Socket, known: &mut Option<u8>, band: u8) -> bool {
        // Cut points may be moved by learning, never their number: a policy's band is below the bands it was given.
        let band = band.min((self.count() - 1) as u8);
        let is_better = known.is_some_and(|now| band < now);
        if *known == Some(band) || (is_better && socket.queued_below_bytes() != Some(0)) {
            return false;
        }
        socket.set_priority(self.priorities[usize::from(band)]);
        *known = Some(band);
        true
    }
}
