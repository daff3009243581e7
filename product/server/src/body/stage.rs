//! Stages that a body passes through on its way to the connection. Compression, for example, changes the bytes, and
//! usually their number, while they are sent. A staged body reads from its source and queues the output of the stage in
//! a [`Pipe`] that the connection empties. A source can be staged itself, so stages form a chain.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use http::{Length, Trailers};
use units::memory::{Account, Charge};

use super::{Body, Failure, Pipe};
#[cfg(test)]
use crate::simulation::planted::{Fault, strikes};
use crate::storage::Storage;

/// The maximum number of bytes passed to a stage in one call. A stage that has produced as many gets no more input,
/// because its output waits in memory for the client.
const PART_BYTES_MAX: usize = 16 << 10;
/// The same maximum if the connection has no memory left, because its responses must still proceed.
const PART_BYTES_MIN: usize = 2 << 10;
/// The maximum number of input bytes in one run, if the stage produces any output. Coding this many bytes takes about a
/// millisecond.
const WORK_BYTES_MAX: u64 = 64 << 10;
/// The number of input bytes without output after which a stage is flushed, so that the event loop does not work for
/// long on a response without sending any of it.
const SILENT_BYTES_MAX: u64 = 256 << 10;

/// A transformation of a body, which may change the number of bytes.
///
/// Each method appends its output to `out`, which waits in memory for the client. One call may append a small multiple
/// of the bytes passed to it and kept from earlier calls. The result must not depend on how the input is divided. A
/// stage runs on the event loop, so a stage that produces nothing, even when flushed, delays all other responses. The
/// stages of a response to HEAD are created but never run, so large state should be allocated in the first call.
pub trait Stage: Debug + Send {
    /// Takes the next bytes, at least one.
    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>);

    /// Appends everything that can be produced without more input. Called when the source waits for its producer, or
    /// when a long input has produced nothing.
    fn flush(&mut self, out: &mut Vec<u8>);

    /// Appends the rest. No other call follows.
    fn finish(&mut self, out: &mut Vec<u8>);

    /// Returns the length of the output for an input of this length. If the returned length is known, the stage must
    /// produce exactly that many bytes.
    fn length(&self, of: Length) -> Length;

    /// Returns the maximum memory of the stage's state in bytes, not counting the size of the stage itself.
    fn memory_bytes(&self) -> usize {
        0
    }
}

/// The input and output byte counts of a stage, which stay readable after the body is dropped.
#[derive(Debug, Default)]
pub struct Tally {
    taken_bytes: AtomicU64,
    given_bytes: AtomicU64,
    has_ended: AtomicBool,
}

impl Tally {
    /// Returns the total input and output bytes; `None` until the end.
    pub fn whole(&self) -> Option<(u64, u64)> {
        self.has_ended.load(Relaxed).then(|| (self.taken_bytes.load(Relaxed), self.given_bytes.load(Relaxed)))
    }

    #[cfg(test)]
    pub fn of(taken_bytes: u64, given_bytes: u64) -> Tally {
        Tally { taken_bytes: taken_bytes.into(), given_bytes: given_bytes.into(), has_ended: true.into() }
    }
}

/// A body that passes through a stage.
#[derive(Debug)]
pub struct Staged {
    pub(super) source: Body,
    stage: Box<dyn Stage>,
    /// The output of the stage, framed for the client.
    pub(super) out: Pipe,
    /// True if the stage has taken bytes since it was last flushed.
    is_unflushed: bool,
    has_ended: bool,
    tally: Arc<Tally>,
    /// The charge for the stage and for this struct.
    charge: Charge,
}

impl Staged {
    /// Puts `stage` after `source`; its output will have the length `length`. No memory is counted before
    /// [`Staged::count_in`].
    pub(super) fn new(mut source: Body, stage: Box<dyn Stage>, length: Length) -> Staged {
        let mut out = Pipe::new(length, &Account::default());
        if let Some(pipe) = source.pipe_mut() {
            out = out.trailing(pipe.pass_trailers());
            source.trailers = pipe.take_trailers().or(source.trailers);
            source.advance(0);
        }
        let (tally, charge) = (Arc::default(), Charge::default());
        Staged { source, stage, out, is_unflushed: false, has_ended: false, tally, charge }
    }

    /// Runs the stage until it has produced output or its source has ended. Does nothing while earlier output is left.
    /// Fails if the source fails or must wait; a failure after some bytes is returned by the next call.
    pub(super) fn fill(&mut self, storage: &mut dyn Storage) -> Result<(), Failure> {
        let mut given = Vec::new();
        while self.out.queued().is_empty() && !self.has_ended {
            let run = self.run(storage, &mut given);
            let is_waiting = matches!(run, Err(Failure::Pending | Failure::Source));
            #[cfg(test)]
            let is_waiting = is_waiting && !strikes(Fault::KeptByStage);
            let is_silent = run.is_ok() && given.is_empty();
            if (is_silent || is_waiting) && std::mem::take(&mut self.is_unflushed) {
                self.stage.flush(&mut given);
            }
            self.give(&mut given)?;
            if self.out.queued().is_empty() {
                run?;
            }
        }
        Ok(())
    }

    /// Passes bytes of the source to the stage until the stage has produced or taken enough, or the source ends or
    /// fails. The end is passed in the same run as the last bytes, so that the size of a short response is known early.
    fn run(&mut self, storage: &mut dyn Storage, given: &mut Vec<u8>) -> Result<(), Failure> {
        let part_bytes = if self.charge.account().room() == 0 { PART_BYTES_MIN } else { PART_BYTES_MAX };
        let (mut bytes, mut left) = (Vec::new(), SILENT_BYTES_MAX);
        let is_enough = |given: usize, left: u64| given > 0 && SILENT_BYTES_MAX - left >= WORK_BYTES_MAX;
        while given.len() < part_bytes && left > 0 && !is_enough(given.len(), left) {
            bytes.clear();
            left -= self.source.read(storage, &mut bytes, left.min(part_bytes as u64))?;
            if !bytes.is_empty() {
                self.tally.taken_bytes.fetch_add(bytes.len() as u64, Relaxed);
                self.stage.push(&bytes, given);
                self.is_unflushed = true;
            }
            if self.source.is_empty() {
                self.stage.finish(given);
                self.has_ended = true;
                self.charge.set(self.memory_bytes());
                return Ok(());
            }
        }
        Ok(())
    }

    /// Passes on the output of the stage, and at the end the trailers of the source.
    fn give(&mut self, given: &mut Vec<u8>) -> Result<(), Failure> {
        self.tally.given_bytes.fetch_add(given.len() as u64, Relaxed);
        self.tally.has_ended.store(self.has_ended, Relaxed);
        let is_right = self.out.give(given) && (!self.has_ended || self.out.finish(self.source.trailers.take()));
        given.clear();
        if is_right { Ok(()) } else { Err(Failure::Length) }
    }

    /// Returns the byte counts of the stage.
    pub(super) fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// Returns, once, the trailers that are sent in frames.
    pub(super) fn take_trailers(&mut self) -> Option<Box<Trailers>> {
        self.out.take_trailers()
    }

    /// Counts its memory, and the memory of stages before it, in this account from now on.
    pub(super) fn count_in(&mut self, account: &Account) {
        self.charge = Charge::new(account, self.memory_bytes());
        self.out.count_in(account);
        self.source.count_in(account);
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Staged>() + size_of::<Tally>() + self.stage.memory_bytes()
    }

    /// Returns the bytes of memory that are counted for this body.
    #[cfg(test)]
    pub(super) fn alive_bytes(&self) -> usize {
        self.charge.bytes() + self.out.alive_bytes() + self.source.alive_bytes()
    }
}
