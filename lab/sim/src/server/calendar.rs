use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::Nanos;

/// The next event. `client` is an index; `serial` separates a request from the client's next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A user asks for a file.
    Submit { client: u32 },
    /// The request has reached the server.
    Request { client: u32 },
    /// The processor may have finished something; of a stale generation, it has not.
    Processor { generation: u64 },
    /// The disk has read a block.
    Disk,
    /// The interface has sent what it was given.
    Network,
    /// The server is told that all segments before this one arrived.
    Acknowledged { client: u32, serial: u32, segment: u32 },
    /// A retransmission timer, which may have been put off meanwhile.
    Timer { client: u32, serial: u32 },
    /// The last byte has reached the client.
    Complete { client: u32 },
}

/// The events to come, earliest first; of the same instant, in the order they were entered. Holds at most a few events
/// for each segment under way, and a window's worth of those for each user.
#[derive(Default)]
pub(super) struct Calendar {
    heap: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    entered: u64,
}

impl Calendar {
    pub fn enter(&mut self, at: Nanos, event: Event) {
        self.heap.push(Reverse((at, self.entered, event)));
        self.entered += 1;
    }

    pub fn next(&mut self) -> Option<(Nanos, Event)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
