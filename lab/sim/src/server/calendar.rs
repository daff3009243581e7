use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::Nanos;

/// The next event. `client` is an index; `serial` distinguishes a request from the client's next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A user requests a file.
    Submit { client: u32 },
    /// The request has reached the server.
    Request { client: u32 },
    /// The processor may have finished a request, unless the generation is stale.
    Processor { generation: u64 },
    /// The disk has read a block.
    Disk,
    /// The interface has sent the segments that it was given.
    Network,
    /// The server receives an acknowledgement of all segments before this one.
    Acknowledged { client: u32, serial: u32, segment: u32 },
    /// A retransmission timer, which may have been postponed.
    Timer { client: u32, serial: u32 },
    /// The last byte has reached the client.
    Complete { client: u32 },
}

/// The events to come, earliest first; events of the same instant are in the order in which they were added. It
/// contains at most a few events for each segment in flight, and a window's worth of segments for each user.
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
