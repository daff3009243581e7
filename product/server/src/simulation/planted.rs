//! Mistakes that are made on purpose, of each kind that the simulation is there to find: it has to find them.

use std::cell::Cell;

/// One is made once in so many times; one whose occasion is rare, each time.
const EVERY: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Room in a socket is not noticed.
    LostWakeUp,
    /// A request is answered twice.
    DoubleAnswer,
    /// A connection that has ended stays in its client's account.
    LeakedAccount,
    /// A stream whose window has opened is not sent on.
    StarvedStream,
    /// The body of a response that its upstream has cut ends as if it were whole.
    CutBodyEnded,
    /// A response over HTTP/3 counts as sent when a part of it is.
    UnfinishedStream,
    /// A connection of HTTP/3 is not told the time at which it would send again.
    ForgottenTimer,
    /// What was written to a file is read from beside its place.
    SpooledBeside,
    /// An upstream that is down is asked.
    DownAsked,
    /// One client may have all places of an upstream.
    GreedyClient,
    /// A client that has shut its connection is not noticed while an upstream works for it.
    GoneUnnoticed,
    /// The kernel is told to keep the end of what has come until more does.
    HeldTail,
}

thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
    static TIMES: Cell<u64> = const { Cell::new(0) };
}

/// From now on, on this thread.
pub fn plant(fault: Option<Fault>) {
    PLANTED.set(fault);
    TIMES.set(0);
}

/// Whether the mistake is made this time.
pub fn strikes(fault: Fault) -> bool {
    if PLANTED.get() != Some(fault) {
        return false;
    }
    TIMES.set(TIMES.get() + 1);
    use Fault::{CutBodyEnded, DownAsked, GoneUnnoticed, GreedyClient, HeldTail};
    let is_always = matches!(fault, CutBodyEnded | DownAsked | GreedyClient | GoneUnnoticed | HeldTail);
    is_always || TIMES.get().is_multiple_of(EVERY)
}
