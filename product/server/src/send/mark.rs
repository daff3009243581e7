//! The priority marks on a response's packets. The kernel orders the packets by them.
//!
//! With shaping `bands`, a queueing discipline has a few queues and serves the first one that is not empty. The
//! socket's SO_PRIORITY determines the queue of its packets. The kernel assigns the priority to a packet when the
//! packet is sent. A response that is completely in the socket buffer therefore keeps its initial band, however little
//! of it is left (000 section 3.2 found the buffer's size to be decisive). Hence bytes are handed down in bursts
//! ([`Marker::burst_bytes`]), and only while less than a burst is unsent.

use std::sync::Arc;

use crate::net::Socket;

/// Passes the order to the kernel.
#[derive(Debug, Clone)]
pub struct Marker {
    pub bands: Bands,
    /// The bytes handed down in one step, and the unsent bytes at which a socket counts as full: as much as the link
    /// sends in a few milliseconds. Raising it saves system calls. Lowering it lets a change of band apply to more of a
    /// response.
    pub burst_bytes: u64,
}

/// The bands of a queueing discipline.
#[derive(Debug, Clone)]
pub struct Bands {
    /// The priority that selects each band, in the order of the policy's bands.
    pub priorities: Arc<[u32]>,
    pub raise: Raise,
}

/// The time at which a response whose band has improved moves to the better band.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Raise {
    /// When no packet of its connection waits below TCP any more, so that its packets stay in order.
    #[default]
    WhenEmpty,
    /// Immediately, as in 000, section 3.3.3. Only for the papers' experiments.
    AtOnce,
}

impl Bands {
    /// The number of bands, at most 256, because a policy's band is a byte.
    pub fn count(&self) -> usize {
        self.priorities.len()
    }

    /// Selects this band for the bytes sent next, if there are bands and the band may change now. Returns true if the
    /// socket's priority was set.
    ///
    /// A response whose band has improved moves only when no packet of its connection waits below TCP; until then the
    /// change is retried before each burst. A later packet in a better band would overtake the earlier ones in the
    /// worse band. The receiver would see them out of order, and TCP may consider the waiting ones lost. If responses
    /// move immediately, as in the papers, the mean response time at rho 0.8 is 1.46 times as long
    /// (docs/notebook/surprises.md). The kernel may send a packet between the check and the change; that packet may be
    /// overtaken.
    pub fn mark(&self, socket: &mut impl Socket, known: &mut Option<u8>, band: u8) -> bool {
        // Learning may move the policy's cut points but never changes their number: a policy's band is below the number
        // of bands it was given.
        let Some(worst) = self.count().checked_sub(1) else { return false };
        let band = band.min(worst as u8);
        let is_better = known.is_some_and(|now| band < now);
        let must_wait = is_better && self.raise == Raise::WhenEmpty;
        if *known == Some(band) || (must_wait && socket.queued_below_bytes() != Some(0)) {
            return false;
        }
        socket.set_priority(self.priorities[usize::from(band)]);
        *known = Some(band);
        true
    }
}
