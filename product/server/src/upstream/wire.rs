//! The way to an upstream and back: a socket, with TLS above it or without. What is above it sends and receives the same bytes either way.

use std::io;

use rustix::io::Errno;
use tls::ClientSession;

use super::Fault;
use crate::transmit::{Down, Stream};

/// Bytes of records read from a socket at once.
const RECORDS_BYTES: usize = 16 << 10;

/// Whether a socket may have something to read, or room.
#[derive(Debug, Default)]
pub struct Readiness {
    pub is_readable: bool,
    pub is_writable: bool,
    /// The upstream sends no more: behind the last bytes is an end, of which no other event will tell.
    pub has_ended: bool,
}

/// What came of a read.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    Bytes(usize),
    Nothing,
    /// Nothing more comes; over TLS the upstream has said so.
    End,
}

/// A connection, for one step.
pub struct Wire<'c, S> {
    socket: &'c S,
    ready: &'c mut Readiness,
    tls: Option<&'c mut ClientSession>,
}

impl<'c, S: Stream> Wire<'c, S> {
    pub fn new(socket: &'c S, ready: &'c mut Readiness, tls: Option<&'c mut ClientSession>) -> Wire<'c, S> {
        Wire { socket, ready, tls }
    }

    /// Goes on with a handshake, and with records that the socket did not take.
    pub fn go_on(&mut self) -> Result<(), Fault> {
        let Some(mut tls) = self.tls.as_deref_mut() else { return Ok(()) };
        if !tls.is_handshaking() {
            if hand_down(self.socket, self.ready, tls).is_err() {
                self.look();
            }
            return Ok(());
        }
        loop {
            hand_down(self.socket, self.ready, tls).map_err(Fault::Unreachable)?;
            if !tls.is_handshaking() {
                // Room that was there before is of use now.
                self.ready.is_writable = true;
                return Ok(());
            }
            match self.take_records()? {
                Received::Bytes(_) => {}
                Received::Nothing => return Ok(()),
                Received::End => return Err(Fault::Tls("closed in the handshake".into())),
            }
            tls = self.tls.as_deref_mut().expect("it has TLS");
        }
    }

    /// Sends the first of these bytes; how many. It would block as long as there is no room.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.ready.is_writable {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let sent = match &mut self.tls {
            None => self.socket.send(bytes, false),
            Some(tls) if tls.is_handshaking() || tls.has_unsent() => return Err(io::ErrorKind::WouldBlock.into()),
            Some(tls) => {
                let sealed = tls.seal(bytes);
                hand_down(self.socket, self.ready, tls).map(|()| sealed)
            }
        };
        if sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.ready.is_writable = false;
        }
        sent
    }

    /// There may be something to read though nobody has told.
    pub fn look(&mut self) {
        self.ready.is_readable = true;
    }

    /// Without a wait. An end that TLS does not tell is a fault.
    pub fn receive(&mut self, into: &mut [u8]) -> Result<Received, Fault> {
        loop {
            let Some(tls) = &mut self.tls else { return receive(self.socket, self.ready, into) };
            match tls.read(into) {
                0 if tls.has_peer_ended() => return Ok(Received::End),
                0 => {}
                bytes => return Ok(Received::Bytes(bytes)),
            }
            match self.take_records()? {
                Received::Bytes(_) => {}
                Received::Nothing => return Ok(Received::Nothing),
                Received::End => return Err(Fault::Closed),
            }
        }
    }

    /// From the socket into TLS.
    fn take_records(&mut self) -> Result<Received, Fault> {
        let mut records = [0; RECORDS_BYTES];
        let received = receive(self.socket, self.ready, &mut records)?;
        if let (Received::Bytes(bytes), Some(tls)) = (&received, &mut self.tls) {
            let opened = tls.open(&records[..*bytes]);
            // An alert, or an answer of the protocol's own. Where it cannot be sent, that is found out with what is behind it.
            let _ = hand_down(self.socket, self.ready, tls);
            opened.map_err(|broken| Fault::Tls(broken.of_server()))?;
        }
        Ok(received)
    }

    /// Nothing more is said on it.
    pub fn end(&mut self) {
        if let Some(tls) = self.tls.as_mut().filter(|tls| !tls.is_handshaking()) {
            tls.end();
            let _ = hand_down(self.socket, self.ready, tls);
        }
    }
}

/// What is sealed, as far as there is room.
fn hand_down(socket: &impl Stream, ready: &mut Readiness, tls: &mut ClientSession) -> io::Result<()> {
    while ready.is_writable && tls.has_unsent() {
        match tls.hand_down(&mut Down { socket, more: false }).error {
            None => {}
            Some(error) if error.kind() == io::ErrorKind::WouldBlock => ready.is_writable = false,
            Some(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Some(error) => return Err(error),
        }
    }
    Ok(())
}

fn receive(socket: &impl Stream, ready: &mut Readiness, into: &mut [u8]) -> Result<Received, Fault> {
    while ready.is_readable {
        match socket.receive(into) {
            Ok(0) => return Ok(Received::End),
            Ok(bytes) => {
                // A short read has emptied the socket, but for the end; what comes later is a new event.
                ready.is_readable = bytes == into.len() || ready.has_ended;
                return Ok(Received::Bytes(bytes));
            }
            Err(Errno::AGAIN) => ready.is_readable = false,
            Err(Errno::INTR) => {}
            Err(error) => return Err(Fault::Broken(error.into())),
        }
    }
    Ok(Received::Nothing)
}
