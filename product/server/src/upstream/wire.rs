//! The byte stream to and from an upstream: a socket, with or without TLS. The layers above send and receive the same
//! bytes either way.

use std::io;
use std::sync::Arc;

use rustix::io::Errno;
use tls::ClientSession;

use super::Fault;
use super::fastcgi::Inflow;
use crate::net::{Down, Stream};

/// The number of bytes of records read from a socket at once.
const RECORDS_BYTES: usize = 16 << 10;

/// The readiness of a socket: whether it may have bytes to read, or room for bytes.
#[derive(Debug, Default)]
pub struct Readiness {
    pub is_readable: bool,
    pub is_writable: bool,
    /// True if the upstream sends no more. The end of the stream follows the last bytes, and no other event reports it.
    pub has_ended: bool,
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    Bytes(usize),
    Nothing,
    /// The end of the stream; over TLS, the upstream has announced it.
    End,
}

/// A connection, for one step.
pub struct Wire<'c, S> {
    socket: &'c S,
    ready: &'c mut Readiness,
    tls: Option<&'c mut ClientSession>,
    /// The bytes to send before everything else, even before TLS.
    preface: Option<&'c mut Vec<u8>>,
    /// The bytes that have arrived, if the upstream speaks FastCGI.
    inflow: Option<&'c mut Inflow>,
}

impl<'c, S: Stream> Wire<'c, S> {
    pub fn new(socket: &'c S, ready: &'c mut Readiness, tls: Option<&'c mut ClientSession>) -> Wire<'c, S> {
        Wire { socket, ready, tls, preface: None, inflow: None }
    }

    /// Sets the preface, as far as it has not been sent yet.
    pub fn behind(self, preface: &'c mut Vec<u8>) -> Wire<'c, S> {
        Wire { preface: Some(preface), ..self }
    }

    /// Sets that received bytes are decoded as FastCGI, if there is a state for that.
    pub fn decoding(self, inflow: Option<&'c mut Inflow>) -> Wire<'c, S> {
        Wire { inflow, ..self }
    }

    /// Sends the preface. Returns true if all of it was sent.
    fn begin(&mut self) -> Result<bool, Fault> {
        let Some(preface) = self.preface.as_deref_mut() else { return Ok(true) };
        while !preface.is_empty() && self.ready.is_writable {
            match self.socket.send(preface, true) {
                Ok(sent) => drop(preface.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.ready.is_writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Fault::Unreachable(error.into())),
            }
        }
        Ok(preface.is_empty())
    }

    /// Continues a handshake, and sends the records for which the socket had no room before.
    pub fn go_on(&mut self) -> Result<(), Fault> {
        if !self.begin()? {
            return Ok(());
        }
        let Some(mut tls) = self.tls.as_deref_mut() else { return Ok(()) };
        if !tls.is_handshaking() {
            if hand_down(self.socket, self.ready, tls).is_err() {
                self.look();
            }
            return Ok(());
        }
        loop {
            hand_down(self.socket, self.ready, tls).map_err(|error| Fault::Unreachable(error.into()))?;
            if !tls.is_handshaking() {
                // Room in the socket that existed before the handshake ended can be used now.
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

    /// Returns false if the TLS handshake has ended without an agreement on HTTP/2.
    pub fn speaks_http2(&self) -> bool {
        self.tls.as_deref().is_none_or(|tls| tls.is_handshaking() || tls.speaks_http2())
    }

    /// Returns true if bytes of a request can be sent.
    pub fn has_room(&self) -> bool {
        let is_behind = self.preface.as_ref().is_some_and(|preface| !preface.is_empty());
        let is_handshaking = self.tls.as_ref().is_some_and(|tls| tls.is_handshaking());
        self.ready.is_writable && !is_behind && !is_handshaking
    }

    /// Sends the beginning of `bytes`, and returns the number of bytes sent. Fails with `WouldBlock` if there is no
    /// room.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_behind = self.preface.as_ref().is_some_and(|preface| !preface.is_empty());
        if !self.ready.is_writable || is_behind {
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

    /// Acknowledges received data immediately instead of after 40 ms, unless more data waits to be read.
    pub fn acknowledge(&mut self) {
        if !self.ready.is_readable {
            self.socket.acknowledge();
        }
    }

    /// Assumes that there is something to read, although no event has reported that.
    pub fn look(&mut self) {
        self.ready.is_readable = true;
    }

    /// Receives without waiting. An end that was not announced by TLS is a fault.
    pub fn receive(&mut self, into: &mut [u8]) -> Result<Received, Fault> {
        if let Some(inflow) = self.inflow.as_deref_mut() {
            return receive_decoded(self.socket, self.ready, inflow, into);
        }
        let mut has_taken = false;
        loop {
            let Some(tls) = &mut self.tls else { return receive(self.socket, self.ready, into) };
            match tls.read(into) {
                0 if tls.has_peer_ended() => return Ok(Received::End),
                0 => {}
                bytes => return Ok(Received::Bytes(bytes)),
            }
            match self.take_records()? {
                Received::Bytes(_) => has_taken = true,
                Received::Nothing => {
                    // These are tickets, or part of a record whose rest may be held back until the beginning is
                    // acknowledged.
                    if has_taken {
                        self.acknowledge();
                    }
                    return Ok(Received::Nothing);
                }
                Received::End => return Err(Fault::Closed),
            }
        }
    }

    /// Reads records from the socket into TLS.
    fn take_records(&mut self) -> Result<Received, Fault> {
        let mut records = [0; RECORDS_BYTES];
        let received = receive(self.socket, self.ready, &mut records)?;
        if let (Received::Bytes(bytes), Some(tls)) = (&received, &mut self.tls) {
            let opened = tls.open(&records[..*bytes]);
            // This sends an alert, or a protocol answer. An error occurs again with the bytes sent next.
            let _ = hand_down(self.socket, self.ready, tls);
            opened.map_err(|broken| Fault::Tls(broken.of_server()))?;
        }
        Ok(received)
    }

    /// Ends the sending side; the upstream may continue to send.
    pub fn finish(&mut self) {
        self.end();
        if self.tls.is_none() {
            self.socket.finish();
        }
    }

    /// Ends TLS, after which nothing more is sent.
    pub fn end(&mut self) {
        if let Some(tls) = self.tls.as_mut().filter(|tls| !tls.is_handshaking()) {
            tls.end();
            let _ = hand_down(self.socket, self.ready, tls);
        }
    }
}

/// Writes sealed records, as far as there is room.
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

/// Receives FastCGI records until some of them contain bytes of the response, which replace the records in `into`.
fn receive_decoded(
    socket: &impl Stream,
    ready: &mut Readiness,
    inflow: &mut Inflow,
    into: &mut [u8],
) -> Result<Received, Fault> {
    let bytes_max = into.len().min(RECORDS_BYTES);
    loop {
        match inflow.take(into)? {
            0 => {}
            bytes => return Ok(Received::Bytes(bytes)),
        }
        match receive(socket, ready, &mut into[..bytes_max])? {
            Received::Bytes(bytes) => inflow.push(&into[..bytes]),
            ended => return Ok(ended),
        }
    }
}

fn receive(socket: &impl Stream, ready: &mut Readiness, into: &mut [u8]) -> Result<Received, Fault> {
    while ready.is_readable {
        match socket.receive(into) {
            Ok(0) => return Ok(Received::End),
            Ok(bytes) => {
                // A short read has emptied the socket, except for the end of the stream; later bytes cause a new event.
                ready.is_readable = bytes == into.len() || ready.has_ended;
                return Ok(Received::Bytes(bytes));
            }
            Err(Errno::AGAIN) => ready.is_readable = false,
            Err(Errno::INTR) => {}
            Err(error) => return Err(Fault::Broken(Arc::new(error.into()))),
        }
    }
    Ok(Received::Nothing)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;
    use std::io::IoSlice;
    use std::sync::Arc;

    use proptest::prelude::*;
    use tls::{Acceptor, Identity, Session, Tickets};

    use super::*;
    use crate::net::FarEnd;

    /// An upstream that speaks TLS, behind a socket that takes and returns `piece_bytes` at a time and blocks every
    /// second time.
    struct Secure {
        session: RefCell<Session>,
        heard: RefCell<Vec<u8>>,
        sealed: RefCell<VecDeque<u8>>,
        piece_bytes: usize,
        calls: Cell<usize>,
        has_ended: Cell<bool>,
    }

    impl std::fmt::Debug for Secure {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a server of TLS")
        }
    }

    impl Secure {
        fn new(piece_bytes: usize) -> Secure {
            let identity = Identity::for_development(&["a".to_string()]).expect("a certificate");
            let acceptor = Acceptor::new(&[Arc::new(identity)], &Tickets::new().expect("random numbers"), |_| 0);
            Secure {
                session: RefCell::new(Session::new(&acceptor)),
                heard: RefCell::default(),
                sealed: RefCell::default(),
                piece_bytes,
                calls: Cell::new(0),
                has_ended: Cell::new(false),
            }
        }

        fn blocks(&self) -> bool {
            self.calls.set(self.calls.get() + 1);
            self.calls.get().is_multiple_of(2)
        }
    }

    impl FarEnd for Secure {
        fn take(&self, bytes: &[u8]) -> io::Result<usize> {
            if self.blocks() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let taken = bytes.len().min(self.piece_bytes);
            self.session.borrow_mut().open(&bytes[..taken], &mut self.heard.borrow_mut()).map_err(io::Error::other)?;
            Ok(taken)
        }

        fn give(&self, into: &mut [u8]) -> rustix::io::Result<usize> {
            let mut sealed = self.sealed.borrow_mut();
            sealed.extend(self.session.borrow_mut().take_unsent(usize::MAX));
            let bytes = self.piece_bytes.min(into.len()).min(sealed.len());
            if bytes == 0 && self.has_ended.get() {
                return Ok(0);
            }
            if bytes == 0 || self.blocks() {
                return Err(Errno::AGAIN);
            }
            into.iter_mut().zip(sealed.drain(..bytes)).for_each(|(into, byte)| *into = byte);
            Ok(bytes)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Each side receives the bytes that the other sent, in any pieces and at any time. The end counts only if TLS
        /// announces it.
        #[test]
        fn every_byte_comes_through_however_it_is_cut(
            piece_bytes in 1usize..3000,
            request in proptest::collection::vec(any::<u8>(), 1..40_000),
            response in proptest::collection::vec(any::<u8>(), 0..40_000),
            says_end in any::<bool>(),
            has_fin in any::<bool>(),
        ) {
            let server = Secure::new(piece_bytes);
            let mut tls = ClientSession::new(&tls::testing::connector(), "a").expect("a name");
            let (mut sent, mut received, mut into) = (0, Vec::new(), [0; 1000]);
            let mut has_answered = false;
            let end = loop {
                // The kernel reports each change once.
                let has_ended = server.has_ended.get();
                let mut ready = Readiness { is_readable: true, is_writable: true, has_ended };
                let mut wire = Wire::new(&server, &mut ready, Some(&mut tls));
                wire.go_on().expect("a handshake");
                while sent < request.len() && let Ok(bytes) = wire.send(&request[sent..]) {
                    sent += bytes;
                }
                match wire.receive(&mut into) {
                    Ok(Received::Bytes(bytes)) => received.extend_from_slice(&into[..bytes]),
                    Ok(Received::Nothing) => {}
                    end => break end,
                }
                if *server.heard.borrow() == request && !has_answered {
                    let mut session = server.session.borrow_mut();
                    response.chunks(tls::RECORD_BYTES_MAX).for_each(|part| session.seal(&[IoSlice::new(part)]));
                    if says_end {
                        session.end();
                    }
                    // The end of TCP need not follow the end of TLS.
                    server.has_ended.set(has_fin || !says_end);
                    has_answered = true;
                }
            };
            prop_assert!(received == response && *server.heard.borrow() == request);
            let is_right = if says_end { matches!(end, Ok(Received::End)) } else { matches!(end, Err(Fault::Closed)) };
            prop_assert!(is_right, "an end that was told ({}) is {:?}", says_end, end);
        }
    }
}
