//! The last segment of a socket's unsent data. If the server has announced more data by MSG_MORE or TCP_CORK, the
//! kernel holds back a partial segment until it is full, until the announcement is withdrawn, and for at most 200 ms
//! (tcp(7)). The invariant checked here: the server never lets a segment wait for that long, which would delay a client
//! for nothing.

use units::Nanos;

use super::wire::SEGMENT_BYTES;
use super::world::{Event, World};

/// The maximum time that the kernel holds back a segment, as tcp(7) describes for TCP_CORK.
const HELD_FOR: Nanos = Nanos::from_millis(200);

#[derive(Debug, Default)]
pub struct Tail {
    /// The last write announced more data.
    has_more: bool,
    is_corked: bool,
    /// True if the tail was held back for the maximum time.
    is_over: bool,
    /// True if an event that checks the tail is scheduled.
    is_watched: bool,
}

impl Tail {
    /// The number of bytes at the end of `unsent_bytes` that do not leave yet.
    pub fn held_bytes(&self, unsent_bytes: usize) -> usize {
        let is_held = (self.has_more || self.is_corked) && !self.is_over;
        if is_held { unsent_bytes % SEGMENT_BYTES as usize } else { 0 }
    }

    pub fn on_write(&mut self, more: bool) {
        (self.has_more, self.is_over) = (more, false);
    }

    /// Handles an acknowledgement: data held back by MSG_MORE leaves with it, because the kernel then sends unsent data
    /// without the flag; TCP_CORK remains set.
    pub fn on_acked(&mut self) {
        self.has_more = false;
    }
}

impl World {
    /// Sets or clears TCP_CORK.
    pub fn cork(&mut self, at: usize, is_corked: bool) {
        self.enter();
        let tail = &mut self.wires[at].down.tail;
        tail.is_corked = is_corked;
        tail.has_more &= is_corked;
        self.pump_down(at);
    }

    /// Schedules the departure of the tail, if it is held back and therefore nothing can be sent now.
    pub fn watch_tail(&mut self, at: usize) {
        let wire = &mut self.wires[at];
        let is_held = wire.held_bytes() > 0 && wire.held_bytes() == wire.down.unsent.len();
        if is_held && !std::mem::replace(&mut wire.down.tail.is_watched, true) {
            let written_bytes = wire.down.written_bytes;
            self.schedule(self.now + HELD_FOR, Event::TailOver { wire: at, written_bytes });
        }
    }

    pub fn on_tail_over(&mut self, at: usize, written_bytes: u64) {
        let wire = &mut self.wires[at];
        wire.down.tail.is_watched = false;
        let is_idle = wire.down.sent_bytes == wire.down.acked_bytes && !wire.server.has_reset;
        if wire.held_bytes() > 0 && is_idle && wire.down.written_bytes == written_bytes {
            wire.down.tail.is_over = true;
            let (far, held_bytes) = (wire.far, wire.down.unsent.len());
            self.outcome
                .held_tails
                .push(format!("{far:?}: the kernel kept {held_bytes} bytes for {HELD_FOR:?}, and nothing followed"));
        }
        self.pump_down(at);
    }
}
