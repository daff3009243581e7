//! Connections with unacknowledged bytes. What is acknowledged of them, and when, tells the line's rate, also behind the last byte of a
//! response: a small one is acknowledged when it has long departed.
//!
//! A connection under way is known by its pipe. Of one whose response has departed a tail is remembered, which does not keep its socket
//! open.

use slab::Slab;
use units::Nanos;
use units::wire::Framing;

use sched::line::Look;

use super::{PipeState, TcpView};

/// Departed connections remembered at most. What is acknowledged of others is told by their next response, or their end.
const TAILS_MAX: usize = u8::MAX as usize + 1;
/// What is not acknowledged by then is lost, and its client perhaps gone.
const UNACKNOWLEDGED_FOR: Nanos = Nanos::from_secs(5);
/// How often they are looked at, at least, while there are any.
const LOOK_EVERY: Nanos = Nanos::from_millis(50);
/// Connections under way that are looked at in one interval; the others have their turn in the next.
const PIPE_LOOKS_MAX: usize = 1024;
/// While the rate is searched, looks an interval at connections whose socket took all at once: each costs a system call, and tells little.
const SEARCH_LOOKS_MAX: usize = 64;
/// Of these, what is left for newcomers and for those that end.
const SEARCH_LOOKS_KEPT: usize = SEARCH_LOOKS_MAX / 2;

pub(super) struct Unacknowledged<S: TcpView> {
    tails: Slab<Tail<S::Weak>>,
    next_tail: usize,
    /// Places of pipes, each once: a pipe knows where it stands here.
    pipes: Vec<usize>,
    next_pipe: usize,
    /// See [`SEARCH_LOOKS_MAX`].
    looks_left: usize,
    look_at: Option<Nanos>,
}

struct Tail<W> {
    owner: u64,
    client: u32,
    socket: W,
    framing: Framing,
    until: Nanos,
    /// Its socket was full: it says what the line carries.
    was_full: bool,
}

/// A pipe's place in the list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listed {
    at: usize,
    until: Nanos,
}

impl<S: TcpView> Unacknowledged<S> {
    pub fn new() -> Unacknowledged<S> {
        let (tails, pipes) = (Slab::new(), Vec::new());
        Unacknowledged { tails, next_tail: 0, pipes, next_pipe: 0, looks_left: SEARCH_LOOKS_MAX, look_at: None }
    }

    /// When they are to be looked at; `None` while there are none.
    pub fn look_at(&self) -> Option<Nanos> {
        self.look_at
    }

    /// Looks were taken, and the next are due in a while.
    pub fn rearm(&mut self, now: Nanos) {
        let is_none = self.tails.is_empty() && self.pipes.is_empty();
        self.look_at = (!is_none).then_some(now + LOOK_EVERY);
    }

    fn arm(&mut self, now: Nanos) {
        if self.look_at.is_none() {
            self.look_at = Some(now + LOOK_EVERY);
            self.looks_left = SEARCH_LOOKS_MAX;
        }
    }

    /// A look that the search can do without; whether it may be taken.
    pub fn spend_look(&mut self) -> bool {
        let may = self.looks_left > 0;
        self.looks_left -= usize::from(may);
        may
    }

    /// A connection has nothing under way, and perhaps unacknowledged bytes.
    pub fn remember(&mut self, now: Nanos, owner: u64, socket: &S, client: u32, state: &mut PipeState, was_full: bool) {
        let until = now + UNACKNOWLEDGED_FOR;
        self.arm(now);
        let known = state.tail.and_then(|at| self.tails.get_mut(at.into()));
        if let Some(tail) = known.filter(|tail| tail.owner == owner) {
            tail.until = until;
            tail.was_full |= was_full;
            return;
        }
        let at = u8::try_from(self.tails.vacant_key()).ok().filter(|_| self.tails.len() < TAILS_MAX);
        if at.is_some() {
            let (framing, socket) = (state.framing(), socket.downgrade());
            self.tails.insert(Tail { owner, client, socket, framing, until, was_full });
        }
        state.tail = at;
    }

    /// It has something under way again, or ends. Where it was remembered: whether its socket was full.
    pub fn take_back(&mut self, owner: u64, state: &mut PipeState) -> Option<bool> {
        let at = state.tail.take().map(usize::from)?;
        self.tails.get(at).filter(|tail| tail.owner == owner)?;
        Some(self.tails.remove(at).was_full)
    }

    /// Looks at the departed ones; each in its turn where the search can do without. Forgets those that are acknowledged or gone.
    pub fn look_at_tails(&mut self, now: Nanos, is_searching: bool, mut tell: impl FnMut(u32, Look)) {
        self.looks_left = SEARCH_LOOKS_MAX;
        let keys: Vec<usize> = self.tails.iter().map(|(at, _)| at).collect();
        let begin = keys.partition_point(|at| *at < self.next_tail);
        for &at in keys[begin..].iter().chain(&keys[..begin]) {
            let tail = &self.tails[at];
            let socket = S::upgrade(&tail.socket);
            let may_look = !is_searching || tail.was_full || self.looks_left > SEARCH_LOOKS_KEPT;
            let Some(socket) = socket.filter(|_| tail.until > now) else {
                self.tails.remove(at);
                continue;
            };
            if !may_look {
                continue;
            }
            let status = socket.status();
            tell(tail.client, socket.looked().look(now, &status, tail.framing));
            if is_searching && !tail.was_full {
                self.looks_left -= 1;
                self.next_tail = at + 1;
            }
            if !status.is_unacknowledged {
                self.tails.remove(at);
            }
        }
        if self.tails.is_empty() {
            self.next_tail = 0;
        }
    }

    /// Something was handed down on a pipe.
    pub fn list(&mut self, now: Nanos, at: usize, listed: &mut Option<Listed>) {
        let until = now + UNACKNOWLEDGED_FOR;
        self.arm(now);
        match listed {
            Some(listed) => listed.until = until,
            None => {
                *listed = Some(Listed { at: self.pipes.len(), until });
                self.pipes.push(at);
            }
        }
    }

    /// A pipe is acknowledged, or goes. Gives the pipe that has its place now, and the place.
    pub fn unlist(&mut self, listed: Option<Listed>) -> Option<(usize, usize)> {
        let at = listed?.at;
        self.pipes.swap_remove(at);
        self.pipes.get(at).map(|pipe| (*pipe, at))
    }

    /// The pipes whose turn it is.
    pub fn pipes_to_look_at(&mut self) -> Vec<usize> {
        let count = self.pipes.len().min(PIPE_LOOKS_MAX);
        let begin = if self.next_pipe < self.pipes.len() { self.next_pipe } else { 0 };
        self.next_pipe = begin + count;
        self.pipes.iter().cycle().skip(begin).take(count).copied().collect()
    }

    /// Tails and pipes.
    #[cfg(test)]
    pub fn counts(&self) -> (usize, usize) {
        (self.tails.len(), self.pipes.len())
    }
}

impl Listed {
    /// It stands somewhere else now.
    pub fn move_to(&mut self, at: usize) {
        self.at = at;
    }

    pub fn is_over(&self, now: Nanos) -> bool {
        self.until <= now
    }
}
