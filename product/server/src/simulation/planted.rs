//! Deliberate faults, one of each kind that the simulation must find.

use std::cell::Cell;

/// A planted fault strikes once in this many opportunities; a fault with rare opportunities, every time.
const EVERY: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Room in a socket is not noticed.
    LostWakeUp,
    /// A request is answered twice.
    DoubleAnswer,
    /// A connection that has ended stays in the account of its client.
    LeakedAccount,
    /// A stream whose window has opened is not resumed.
    StarvedStream,
    /// A response whose body the upstream has cut off ends as if it were complete.
    CutBodyEnded,
    /// A response over HTTP/3 counts as sent when only a part of it was.
    UnfinishedStream,
    /// The retransmission timer of an HTTP/3 connection is not set.
    ForgottenTimer,
    /// Spooled bytes are read from the wrong offset.
    SpooledBeside,
    /// A request is sent to an upstream that is down.
    DownAsked,
    /// A single client may occupy all places of an upstream.
    GreedyClient,
    /// A client's end of its connection is not noticed while an upstream works for that client.
    GoneUnnoticed,
    /// The end of a client's TLS is not noticed until something follows it.
    EndOfTlsUnnoticed,
    /// The server makes the kernel hold back the end of the received data until more follows.
    HeldTail,
    /// A stage is not flushed while its source waits for the producer.
    KeptByStage,
}

thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
    static TIMES: Cell<u64> = const { Cell::new(0) };
}

/// Plants this fault on this thread; `None` removes it.
pub fn plant(fault: Option<Fault>) {
    PLANTED.set(fault);
    TIMES.set(0);
}

/// Returns true if this fault is planted and strikes this time.
pub fn strikes(fault: Fault) -> bool {
    if PLANTED.get() != Some(fault) {
        return false;
    }
    TIMES.set(TIMES.get() + 1);
    use Fault::{CutBodyEnded, DownAsked, EndOfTlsUnnoticed, GoneUnnoticed, GreedyClient, HeldTail, KeptByStage};
    let is_always = matches!(fault, CutBodyEnded | DownAsked | GreedyClient | HeldTail | KeptByStage);
    is_always || matches!(fault, GoneUnnoticed | EndOfTlsUnnoticed) || TIMES.get().is_multiple_of(EVERY)
}
