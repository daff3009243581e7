//! A response over TLS: exactly the granted bytes are sealed into records.
//!
//! A record that the socket took in part cannot be undone. The rest of the record is therefore sent before anything of
//! the next grant, and its content counts as sent when the whole record has been handed down. `sendfile` cannot make
//! records, so the bytes of files are read, a record at a time.

use std::io::IoSlice;
use std::os::unix::fs::FileExt;

use tls::{RECORD_BYTES_MAX, Session};

use super::{End, Next, Outgoing, Sent};
use crate::body::Failure;
use crate::connection::Room;
use crate::files::{Content, Entry};
use crate::net::{Down, Sink};
use crate::storage::Storage;

/// The maximum bytes of a staged body that are handed down in one step. Producing them takes time, during which the
/// event loop does nothing else.
const STAGED_BYTES_MAX: u64 = 64 << 10;

impl Outgoing {
    /// Hands down as many bytes as the room allows, sealed if there is a session. If the next bytes must first be read
    /// from a disk, a segment that was held back for them is sent now.
    pub fn send_on(
        &mut self,
        socket: &impl Sink,
        session: Option<&mut Session>,
        storage: &mut dyn Storage,
        room: Room,
    ) -> Sent {
        let bytes_max = if self.body.is_staged() { room.bytes_max.min(STAGED_BYTES_MAX) } else { room.bytes_max };
        let room = Room { bytes_max, ..room };
        let sent = match session.filter(|_| !self.is_sealed) {
            None => self.send(socket, storage, room.bytes_max),
            Some(session) => self.send_sealed(session, socket, storage, room),
        };
        if let Some(Failure::Absent) = sent.failure {
            socket.cork(false);
        }
        sent
    }

    fn send_sealed(
        &mut self,
        session: &mut Session,
        socket: &impl Sink,
        storage: &mut dyn Storage,
        room: Room,
    ) -> Sent {
        let mut sent = Sent::default();
        loop {
            let (records, why) = self.seal_some(session, storage, room, &sent);
            if self.is_read() && self.end == End::Finish {
                session.end();
            }
            let has_room = why.is_none() && self.has_room(session, room, &sent);
            let down = session.hand_down(&mut Down { socket, more: self.may_wait(0, has_room) });
            sent.carried_bytes += down.bytes as u64;
            if let Some(error) = down.error {
                sent.failure = Some(Failure::of_socket(error));
                return sent;
            }
            sent.bytes += u64::from(std::mem::take(&mut self.sealed));
            sent.is_whole = self.is_done();
            if sent.is_whole && self.end == End::Finish {
                socket.finish();
            }
            if records == 0 || why.is_some() || sent.is_whole {
                sent.failure = why;
                return sent;
            }
        }
    }

    /// Returns true if everything sealed was handed down, bytes are left, and there is room for more of them.
    fn has_room(&self, session: &mut Session, room: Room, sent: &Sent) -> bool {
        let carried_bytes = sent.carried_bytes + session.unsent_bytes() as u64;
        !self.is_read()
            && sent.bytes + u64::from(self.sealed) < room.bytes_max
            && carried_bytes + (session.overhead() as u64) < room.carried_bytes_max
    }

    /// Seals a few records. Returns their number, and the reason why there are no more. Seals none while the rest of
    /// another record waits.
    fn seal_some(
        &mut self,
        session: &mut Session,
        storage: &mut dyn Storage,
        room: Room,
        sent: &Sent,
    ) -> (usize, Option<Failure>) {
        if self.sealed > 0 {
            return (1, None);
        }
        for records in 0..room.records_at_once {
            if !self.has_room(session, room, sent) {
                return (records, None);
            }
            let carried_bytes = sent.carried_bytes + session.unsent_bytes() as u64;
            let content_bytes = (room.carried_bytes_max - carried_bytes - session.overhead() as u64)
                .min(room.bytes_max - sent.bytes - u64::from(self.sealed))
                .min(RECORD_BYTES_MAX as u64);
            match self.seal(session, storage, content_bytes) {
                Ok(bytes) => {
                    self.advance(bytes);
                    self.sealed += bytes as u32;
                }
                Err(failure) => return (records, Some(failure)),
            }
        }
        (room.records_at_once, None)
    }

    /// Seals one record of at most `bytes_max` of the next bytes. Seals none if a staged body has ended.
    fn seal(&mut self, session: &mut Session, storage: &mut dyn Storage, bytes_max: u64) -> Result<u64, Failure> {
        self.fill(storage)?;
        if self.is_read() {
            return Ok(0);
        }
        match self.next(storage, bytes_max)? {
            Next::Memory(gathered) => {
                session.seal(gathered.slices());
                Ok(gathered.bytes)
            }
            Next::File { entry, offset, count } => {
                let mut buffer = [0; RECORD_BYTES_MAX];
                let bytes = read(entry, offset, &mut buffer[..count as usize])?;
                session.seal(&[IoSlice::new(bytes)]);
                Ok(bytes.len() as u64)
            }
        }
    }
}

/// Reads a part of a file that `look` has found in the page cache.
fn read<'a>(entry: &Entry, offset: u64, into: &'a mut [u8]) -> Result<&'a [u8], Failure> {
    let Content::Open(file) = &entry.content else { unreachable!("a held body is sent from memory") };
    match file.read_at(into, offset) {
        Ok(0) => Err(Failure::truncated(entry)),
        Ok(bytes) => Ok(&into[..bytes]),
        Err(error) => Err(Failure::unreadable(entry, error)),
    }
}
