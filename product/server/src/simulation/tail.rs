//! The last segment of what a socket has not sent. The kernel keeps one that is not full where the server has said that more follows, by MSG_MORE
//! or TCP_CORK: until it is full, until that is taken back, and for 200 ms at most (tcp(7)). A server that lets it come to that has a client
//! wait for nothing, which is the law here.

use units::Nanos;

use super::wire::SEGMENT_BYTES;
use super::world::{Event, World};

/// As tcp(7) has it of TCP_CORK.
const HELD_FOR: Nanos = Nanos::from_millis(200);

#[derive(Debug, Default)]
pub struct Tail {
    /// The last write said that more follows.
    has_more: bool,
    is_corked: bool,
    /// It was kept for as long as it may be.
    is_over: bool,
    /// An event is due that looks at it.
    is_watched: bool,
}

impl Tail {
    /// Bytes at the end of so many unsent ones that do not leave yet.
    pub fn held_bytes(&self, unsent_bytes: usize) -> usize {
        let is_held = (self.has_more || self.is_corked) && !self.is_over;
        if is_held { unsent_bytes % SEGMENT_BYTES as usize } else { 0 }
    }

    pub fn on_write(&mut self, more: bool) {
        (self.has_more, self.is_over) = (more, false);
    }

    /// What MSG_MORE kept leaves with the next acknowledgement, which asks for what is unsent without it; TCP_CORK stays in force.
    pub fn on_acked(&mut self) {
        self.has_more = false;
    }
}

impl World {
    /// As TCP_CORK.
    pub fn cork(&mut self, at: usize, is_corked: bool) {
        self.enter();
        let tail = &mut self.wires[at].down.tail;
        tail.is_corked = is_corked;
        tail.has_more &= is_corked;
        self.pump_down(at);
    }

    /// Nothing leaves now: if that is since the tail is kept, it leaves later nevertheless.
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
