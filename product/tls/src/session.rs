//! The TLS of one connection without its socket: bytes in, bytes out.
//!
//! Content is sealed one record at a time, once it is decided that the record leaves now. A record cannot be taken
//! back, so none is made in advance: after that decision, only the rest of a record that the socket took in part may
//! have to wait.

use std::io::{self, IoSlice, Read, Write};

use rustls::{ConnectionCommon, ProtocolVersion, ServerConnection};
use units::memory::{Account, Charge};

use crate::Acceptor;
use crate::acceptor::HTTP_2;
use crate::records::Records;

/// Maximum content of a record (RFC 8446 section 5.1).
pub const RECORD_BYTES_MAX: usize = 1 << 14;

/// Bytes of header, content type and tag in TLS 1.3.
const OVERHEAD_1_3: usize = 5 + 1 + 16;
/// Bytes of header, explicit nonce and tag in TLS 1.2 with AES; ChaCha20 needs 8 fewer.
const OVERHEAD_1_2: usize = 5 + 8 + 16;

/// The maximum bytes that a client may send in a handshake. Clients send less than 3 KB and no certificate. rustls
/// buffers an incomplete ClientHello of up to 64 KB.
const HANDSHAKE_BYTES_MAX: usize = 32 << 10;

/// The error message of rustls if the resolver has no certificate.
const NO_CERTIFICATE: &str = "no server certificate chain resolved";

/// The reason why a connection cannot continue. The alert for the client is already sealed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Broken(#[from] pub(crate) rustls::Error);

impl Broken {
    /// Describes, for a log, why a client's TLS cannot continue.
    pub fn of_client(&self) -> String {
        use rustls::PeerIncompatible as Lacks;
        let lacks = match &self.0 {
            rustls::Error::PeerIncompatible(lacks) => lacks,
            rustls::Error::General(said) if said == NO_CERTIFICATE => {
                return "there is no certificate yet for the host that the client names".into();
            }
            rustls::Error::General(said) => return said.clone(),
            other => return other.to_string(),
        };
        match lacks {
            // TLS 1.2 was the first to have this extension (RFC 5246 section 7.4.1.4.1).
            Lacks::SignatureAlgorithmsExtensionRequired
            | Lacks::Tls12NotOffered
            | Lacks::Tls12NotOfferedOrEnabled
            | Lacks::SupportedVersionsExtensionRequired => "the client is too old: it offers no TLS 1.2".into(),
            Lacks::NoCipherSuitesInCommon => "the client offers no cipher suite that weir supports".into(),
            Lacks::NoKxGroupsInCommon | Lacks::NamedGroupsExtensionRequired => {
                "the client offers no key exchange that weir supports".into()
            }
            Lacks::NoSignatureSchemesInCommon => "the client accepts no signature by the certificate's key".into(),
            _ => self.0.to_string(),
        }
    }
}

/// The server side of a connection.
pub struct Session {
    tls: ServerConnection,
    /// Bytes have been received.
    has_received: bool,
    records: Records,
    /// Bytes received of an unfinished handshake.
    handshake_bytes: usize,
    /// True if our side has ended, so that nothing more is sealed.
    is_closed: bool,
    /// True if the client violated the protocol, so that nothing is sealed after the alert.
    is_broken: bool,
    /// The charge for sealed bytes that have not been handed down, and for received bytes of an incomplete record or
    /// handshake.
    charge: Charge,
}

/// The result of handing down sealed bytes.
#[derive(Debug)]
pub struct HandedDown {
    pub bytes: usize,
    pub error: Option<io::Error>,
}

/// Writes sealed bytes of either side to `into`, as many as it takes.
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
        // The caller seals no more than it may hand down; a limit of 64 KB could refuse its last record.
        tls.set_buffer_limit(None);
        let (records, charge) = (Records::default(), Charge::default());
        Session { tls, has_received: false, records, handshake_bytes: 0, is_closed: false, is_broken: false, charge }
    }

    /// Charges the memory of waiting records to this account.
    pub fn count_in(&mut self, account: &Account) {
        self.charge.move_to(account);
    }

    /// Bytes of waiting records, incomplete records and an incomplete handshake.
    pub fn alive_bytes(&mut self) -> usize {
        self.unsent_bytes() + self.records.part_bytes().max(self.handshake_bytes)
    }

    /// Bytes received of an unfinished handshake.
    pub fn handshake_bytes(&self) -> usize {
        self.handshake_bytes
    }

    /// Counts received bytes until the handshake is complete.
    fn note_handshake(&mut self, bytes: usize) -> Result<(), Broken> {
        self.handshake_bytes = if self.is_handshaking() { self.handshake_bytes + bytes } else { 0 };
        if self.handshake_bytes <= HANDSHAKE_BYTES_MAX {
            return Ok(());
        }
        let why = format!("the handshake is longer than {} KB", HANDSHAKE_BYTES_MAX >> 10);
        Err(Broken(rustls::Error::General(why)))
    }

    fn count(&mut self) {
        let bytes = self.alive_bytes();
        self.charge.set(bytes);
    }

    /// Takes received bytes and appends the decrypted ones. Answers (a handshake flight, an alert) are sealed. Once our
    /// side has ended, nothing is decrypted: the bytes are not needed, and an alert about a mistake in them would
    /// follow our close_notify.
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
            // rustls takes nothing once the client has ended its side.
            let taken_bytes = self.take(&mut wire)?;
            if taken_bytes == 0 {
                break;
            }
            let bytes = self.tls.process_new_packets()?.plaintext_bytes_to_read();
            self.note_handshake(taken_bytes)?;
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

    /// Returns true if no bytes have been received: the next ones are the client's first and reveal its protocol.
    pub fn is_untouched(&self) -> bool {
        !self.has_received
    }

    /// Returns true if the client's last record is incomplete.
    pub fn has_part(&self) -> bool {
        self.records.has_part()
    }

    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Returns true if the client has sent close_notify.
    pub fn has_peer_ended(&mut self) -> bool {
        self.tls.process_new_packets().is_ok_and(|state| state.peer_has_closed())
    }

    /// Returns true if the keys come from an earlier connection.
    pub fn is_resumed(&self) -> bool {
        self.tls.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }

    /// Returns true if HTTP/2 was agreed on.
    pub fn speaks_http2(&self) -> bool {
        self.tls.alpn_protocol() == Some(HTTP_2)
    }

    /// The host that the client has named.
    pub fn host(&self) -> Option<&str> {
        self.tls.server_name()
    }

    /// Maximum bytes of a record in addition to its content.
    pub fn overhead(&self) -> usize {
        if self.tls.protocol_version() == Some(ProtocolVersion::TLSv1_2) { OVERHEAD_1_2 } else { OVERHEAD_1_3 }
    }

    /// Returns true if records can be made: after the handshake, before our side ends, and unless the client violated
    /// the protocol.
    pub fn can_seal(&self) -> bool {
        !self.is_handshaking() && !self.is_closed && !self.is_broken
    }

    /// Makes one record of the pieces, at most [`RECORD_BYTES_MAX`] in total. Requires [`Session::can_seal`].
    pub fn seal(&mut self, pieces: &[IoSlice<'_>]) {
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        assert!(bytes <= RECORD_BYTES_MAX && self.can_seal(), "no record of {bytes} bytes");
        let sealed = self.tls.writer().write_vectored(pieces).expect("sealing in memory");
        assert_eq!(sealed, bytes, "without a limit all is sealed");
    }

    /// Ends our side. Calling it again has no effect.
    pub fn end(&mut self) {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.tls.send_close_notify();
            self.count();
        }
    }

    pub fn has_ended(&self) -> bool {
        self.is_closed
    }

    /// Returns true if the client violated the protocol. Nothing is sent after the alert about that.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Returns true if sealed bytes have not been handed down yet.
    pub fn has_unsent(&self) -> bool {
        self.tls.wants_write()
    }

    /// Bytes that are sealed and not handed down, in the first 64 pieces; rustls exposes no more.
    pub fn unsent_bytes(&mut self) -> usize {
        let mut counter = Counter(0);
        if self.has_unsent() {
            let _ = self.tls.write_tls(&mut counter);
        }
        counter.0
    }

    /// Writes sealed bytes to `into`, as many as it takes.
    pub fn hand_down(&mut self, into: &mut dyn Write) -> HandedDown {
        let handed_down = hand_down(&mut self.tls, into);
        self.count();
        handed_down
    }

    /// Takes at most `bytes_max` sealed bytes, which the caller must hand down. The rest stays.
    pub fn take_unsent(&mut self, bytes_max: usize) -> Vec<u8> {
        let mut taken = Bounded { bytes: Vec::new(), bytes_max };
        self.hand_down(&mut taken);
        taken.bytes
    }
}

/// A writer that takes at most `bytes_max`.
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

/// A writer that counts the bytes offered and takes none.
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
            (PeerIncompatible::NoCipherSuitesInCommon, "the client offers no cipher suite that weir supports"),
            (PeerIncompatible::NullCompressionRequired, "peer is incompatible: NullCompressionRequired"),
        ] {
            assert_eq!(Broken(rustls::Error::PeerIncompatible(lacks)).of_client(), said);
        }
    }
}
