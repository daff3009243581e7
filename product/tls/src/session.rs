//! One connection's TLS, without its socket: bytes in, bytes out.
//!
//! What is to be sent is sealed a record at a time, when somebody has decided that it leaves now. A record cannot be taken back, so
//! none is made ahead: below the decision waits at most the tail of one that the socket cut short.

use std::io::{self, IoSlice, Read, Write};

use rustls::{ConnectionCommon, ProtocolVersion, ServerConnection};
use units::memory::{Account, Charge};

use crate::Acceptor;
use crate::acceptor::HTTP_2;
use crate::records::Records;

/// Content of a record at most (RFC 8446 section 5.1).
pub const RECORD_BYTES_MAX: usize = 1 << 14;

/// Header, content type and tag of TLS 1.3.
const OVERHEAD_1_3: usize = 5 + 1 + 16;
/// Header, explicit nonce and tag of TLS 1.2 with AES; with ChaCha20 it is 8 less.
const OVERHEAD_1_2: usize = 5 + 8 + 16;

/// Why a connection cannot go on; what tells the client so is sealed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Broken(#[from] pub(crate) rustls::Error);

impl Broken {
    /// Why a client's TLS does not go on, in words for a log.
    pub fn of_client(&self) -> String {
        use rustls::PeerIncompatible as Lacks;
        let rustls::Error::PeerIncompatible(lacks) = &self.0 else { return self.0.to_string() };
        match lacks {
            // TLS 1.2 has this extension first (RFC 5246 section 7.4.1.4.1).
            Lacks::SignatureAlgorithmsExtensionRequired
            | Lacks::Tls12NotOffered
            | Lacks::Tls12NotOfferedOrEnabled
            | Lacks::SupportedVersionsExtensionRequired => "the client is too old: it offers no TLS 1.2".into(),
            Lacks::NoCipherSuitesInCommon => "the client offers no cipher suite that weir has".into(),
            Lacks::NoKxGroupsInCommon | Lacks::NamedGroupsExtensionRequired => {
                "the client offers no key exchange that weir has".into()
            }
            Lacks::NoSignatureSchemesInCommon => "the client takes no signature of the certificate's key".into(),
            _ => self.0.to_string(),
        }
    }
}

/// The server's end of a connection.
pub struct Session {
    tls: ServerConnection,
    /// Something has come.
    has_received: bool,
    records: Records,
    /// Our side has ended: nothing is sealed behind that.
    is_closed: bool,
    /// The client's side made no sense: nothing is sealed behind the alert.
    is_broken: bool,
    /// What is sealed and was not handed down, and what has come of a record that is not whole.
    charge: Charge,
}

/// What was handed down, and what stopped it.
#[derive(Debug)]
pub struct HandedDown {
    pub bytes: usize,
    pub error: Option<io::Error>,
}

/// Hands down what is sealed at either end, as far as it is taken.
pub(crate) fn hand_down<D>(tls: &mut ConnectionCommon<D>, into: &mut dyn Write) -> HandedDown {
    let mut bytes = 0;
    while tls.wants_write() {
        match tls.write_tls(into) {
            Ok(0) => return HandedDown { bytes, error: Some(io::ErrorKind::WriteZero.into()) },
            Ok(taken) => bytes += taken,
            Err(error) => return HandedDown { bytes, error: Some(error) },
        }
    }
    HandedDown { bytes, error: None }
}

impl Session {
    pub fn new(acceptor: &Acceptor) -> Session {
        let mut tls = ServerConnection::new(acceptor.config()).expect("a configuration that was checked");
        // The caller seals no more than it may hand down: a limit of 64 KB would be in the way of its last record.
        tls.set_buffer_limit(None);
        let (records, charge) = (Records::default(), Charge::default());
        Session { tls, has_received: false, records, is_closed: false, is_broken: false, charge }
    }

    /// Counts the memory of records that wait in this account.
    pub fn count_in(&mut self, account: &Account) {
        self.charge.move_to(account);
    }

    /// Bytes of records that wait or are not whole.
    pub fn alive_bytes(&mut self) -> usize {
        self.unsent_bytes() + self.records.part_bytes()
    }

    fn count(&mut self) {
        let bytes = self.alive_bytes();
        self.charge.set(bytes);
    }

    /// Takes what has come, and appends what it says. What answers it (a flight of the handshake, an alert) is sealed. Behind our end nothing
    /// is opened: nobody wants it, and an alert for a mistake in it would stand behind our last word.
    pub fn open(&mut self, wire: &[u8], plain: &mut Vec<u8>) -> Result<(), Broken> {
        self.has_received |= !wire.is_empty();
        self.records.pass(wire);
        let opened = if self.is_closed { Ok(()) } else { self.open_all(wire, plain) };
        self.is_broken |= opened.is_err();
        self.count();
        opened
    }

    fn open_all(&mut self, mut wire: &[u8], plain: &mut Vec<u8>) -> Result<(), Broken> {
        while !wire.is_empty() {
            // Nothing is taken once the client has ended its side.
            if self.take(&mut wire)? == 0 {
                break;
            }
            let bytes = self.tls.process_new_packets()?.plaintext_bytes_to_read();
            if bytes > 0 {
                let begin = plain.len();
                plain.resize(begin + bytes, 0);
                self.tls.reader().read_exact(&mut plain[begin..]).expect("as many as were counted");
            }
        }
        Ok(())
    }

    fn take(&mut self, wire: &mut &[u8]) -> Result<usize, Broken> {
        self.tls.read_tls(wire).map_err(|error| Broken(rustls::Error::General(error.to_string())))
    }

    /// Whether bytes that come now are the client's first, and show what it speaks.
    pub fn is_untouched(&self) -> bool {
        !self.has_received
    }

    /// Of the client's last record only a part has come.
    pub fn has_part(&self) -> bool {
        self.records.has_part()
    }

    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// The client has said that it sends no more.
    pub fn has_peer_ended(&mut self) -> bool {
        self.tls.process_new_packets().is_ok_and(|state| state.peer_has_closed())
    }

    /// The keys come from an earlier connection.
    pub fn is_resumed(&self) -> bool {
        self.tls.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }

    /// HTTP/2 was agreed on.
    pub fn speaks_http2(&self) -> bool {
        self.tls.alpn_protocol() == Some(HTTP_2)
    }

    /// What the client named as its host.
    pub fn host(&self) -> Option<&str> {
        self.tls.server_name()
    }

    /// Bytes that a record has beside its content, at most.
    pub fn overhead(&self) -> usize {
        if self.tls.protocol_version() == Some(ProtocolVersion::TLSv1_2) { OVERHEAD_1_2 } else { OVERHEAD_1_3 }
    }

    /// Whether records can be made: not in the handshake, behind our end, or once the client's side made no sense.
    pub fn can_seal(&self) -> bool {
        !self.is_handshaking() && !self.is_closed && !self.is_broken
    }

    /// Makes one record of these pieces, of [`RECORD_BYTES_MAX`] at most; only where [`Session::can_seal`].
    pub fn seal(&mut self, pieces: &[IoSlice<'_>]) {
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        assert!(bytes <= RECORD_BYTES_MAX && self.can_seal(), "no record of {bytes} bytes");
        let sealed = self.tls.writer().write_vectored(pieces).expect("sealing in memory");
        assert_eq!(sealed, bytes, "without a limit all is sealed");
    }

    /// Ends our side. Twice is once.
    pub fn end(&mut self) {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.tls.send_close_notify();
            self.count();
        }
    }

    pub fn has_ended(&self) -> bool {
        self.is_closed
    }

    /// What the client said made no sense: behind the alert that tells it so nothing follows.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Something sealed was not handed down yet.
    pub fn has_unsent(&self) -> bool {
        self.tls.wants_write()
    }

    /// Bytes that are sealed and were not handed down, of the 64 pieces that leave first: rustls shows no more of them.
    pub fn unsent_bytes(&mut self) -> usize {
        let mut counter = Counter(0);
        if self.has_unsent() {
            let _ = self.tls.write_tls(&mut counter);
        }
        counter.0
    }

    /// Hands down what is sealed, as far as it is taken.
    pub fn hand_down(&mut self, into: &mut dyn Write) -> HandedDown {
        let handed_down = hand_down(&mut self.tls, into);
        self.count();
        handed_down
    }

    /// What is sealed, to be handed down by the caller: at most so many bytes, the rest another time.
    pub fn take_unsent(&mut self, bytes_max: usize) -> Vec<u8> {
        let mut taken = Bounded { bytes: Vec::new(), bytes_max };
        self.hand_down(&mut taken);
        taken.bytes
    }
}

/// Takes so much, and no more.
struct Bounded {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.bytes_max - self.bytes.len());
        if taken == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.bytes.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Counts what it is offered, and takes nothing.
struct Counter(usize);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = bytes.len();
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0 = pieces.iter().map(|piece| piece.len()).sum();
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rustls::PeerIncompatible;

    use super::*;

    #[test]
    fn an_old_client_is_told_of_in_words() {
        for (lacks, said) in [
            (PeerIncompatible::SignatureAlgorithmsExtensionRequired, "the client is too old: it offers no TLS 1.2"),
            (PeerIncompatible::Tls12NotOffered, "the client is too old: it offers no TLS 1.2"),
            (PeerIncompatible::NoCipherSuitesInCommon, "the client offers no cipher suite that weir has"),
            (PeerIncompatible::NullCompressionRequired, "peer is incompatible: NullCompressionRequired"),
        ] {
            assert_eq!(Broken(rustls::Error::PeerIncompatible(lacks)).of_client(), said);
        }
    }
}
