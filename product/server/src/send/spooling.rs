//! Responses whose bytes wait in a file. Bytes that a producer has pushed and the client does not take are appended to
//! the file. Until a write has ended, its bytes stay in memory and in their position in the body. They can be sent
//! during the write, and nothing is lost if the disk fails: the producer then waits for the client again.

use std::io;
use std::sync::Arc;

use super::{Producer, Reads, Sendings};
use crate::body::{Body, Piece};
use crate::disk::Room;
use crate::files::Entry;
use crate::net::Socket;
#[cfg(test)]
use crate::simulation::planted::{Fault, strikes};
use crate::storage::{Target, Write, Written};

impl<S: Socket> Producer<'_, S> {
    /// Writes the pipe's bytes to a file, so that the pipe has room. The response is then among
    /// [`super::Reads::refills`], and again when the write has ended. Returns false if that is impossible: nothing is
    /// queued, a write is in progress or has failed, or there is no file space for the client.
    pub fn spool(&mut self, room: &Arc<Room>) -> bool {
        let Some(sending) = self.transmitter.sendings.get_mut(self.job) else { return false };
        let client = self.transmitter.link.client_of(self.job);
        let Some(write) = sending.outgoing.body().start().begin_write(room, client) else { return false };
        let bytes = Arc::clone(&write.bytes);
        let begun = self.transmitter.reads.begin_write(self.job, client, write);
        let body = sending.outgoing.body().start();
        match begun {
            Ok(()) => body.put_before_pipe(Piece::Written { bytes, at: 0 }),
            Err(_) => body.pipe_mut().into_iter().for_each(|pipe| pipe.put_back(&bytes)),
        }
        self.transmitter.reads.on_room(begun.is_ok().then_some(self.job));
        begun.is_ok()
    }

    /// Returns true if part of the response is being written. The producer then waits for the disk and not for the
    /// client.
    pub fn is_being_written(&mut self) -> bool {
        self.pipe().is_some_and(|pipe| pipe.is_being_written())
    }
}

impl Body {
    /// Takes the queued bytes, to append them to the response's file or to a new one.
    fn begin_write(&mut self, room: &Arc<Room>, client: u32) -> Option<Write> {
        let bytes = self.pipe().filter(|pipe| pipe.may_be_written())?.queued().len() as u64;
        let (file, offset) = self.written().map_or((None, 0), |(file, end)| (Some(file), end));
        let to = Target::with_room(file, room, client, bytes)?;
        Some(Write { to, offset, bytes: Arc::new(self.pipe_mut()?.begin_write()) })
    }

    /// The file with the bytes before the pipe, and the offset at which they end.
    fn written(&self) -> Option<(&Arc<Entry>, u64)> {
        let files = self.pieces().filter_map(|piece| match piece {
            Piece::File { entry, range } => Some((entry, range.end)),
            _ => None,
        });
        files.last()
    }

    /// Handles the end of a write: the written bytes that were not sent yet are now read from the file. Returns the
    /// error if the write failed.
    fn on_written(&mut self, written: Written) -> Option<io::Error> {
        let Written { bytes, offset, result } = written;
        self.pipe_mut()?.end_write(result.is_ok());
        let file = match result {
            Ok(file) => file,
            Err(error) => return Some(error),
        };
        #[cfg(test)]
        let offset = offset + u64::from(strikes(Fault::SpooledBeside));
        let end = offset + bytes.len() as u64;
        self.replace(|piece| match piece {
            Piece::Written { bytes: page, at } if Arc::ptr_eq(&page, &bytes) => {
                Piece::File { entry: Arc::clone(&file), range: offset + at as u64..end }
            }
            other => other,
        });
        None
    }
}

impl Reads {
    /// Takes the writes that have ended.
    pub(super) fn take_written(&mut self, sendings: &mut Sendings) {
        for (job, written) in self.ended_writes() {
            let Some(sending) = sendings.get_mut(job) else { continue };
            let failed = sending.outgoing.body().start().on_written(written);
            self.on_write_ended(job, failed);
        }
    }
}
