//! Connections whose TLS is the kernel's (kTLS): what it can do, and what is told to it beside the bytes.
//!
//! The kernel ends a record where a system call without `MSG_MORE` ends, or after 16 KB: a grant is whole records. Up to one record may wait
//! above TCP when the socket is full, as the rest of one does where this process seals.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;
use tls::{KernelKeys, Kind, RECORD_BYTES_MAX};

use crate::sys::kernel_tls::{Direction, receive_record, send_record, set_keys, set_tls};

/// Types of records (RFC 8446 section 5.1).
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;

/// Alerts, with their levels (section 6).
const CLOSE_NOTIFY: [u8; 2] = [1, 0];
const UNEXPECTED_MESSAGE: [u8; 2] = [2, 10];
const BAD_RECORD: [u8; 2] = [2, 20];

/// Records under one key, fewer than are safe with AES-GCM (RFC 8446 section 5.5): the kernel changes no keys.
const RECORDS_MAX: u64 = 1 << 24;

/// The kinds of TLS that the kernel speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelTls([Option<Kind>; 6]);

impl KernelTls {
    /// Asks the kernel, on connections to ourselves.
    pub fn ask() -> Result<KernelTls, String> {
        let asked = |error: io::Error| format!("cannot ask the kernel on a loopback connection: {error}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(asked)?;
        let address = listener.local_addr().map_err(asked)?;
        let mut known = KernelTls::default();
        let mut last = None;
        for (slot, kind) in known.0.iter_mut().zip(Kind::all()) {
            let client = TcpStream::connect(address).map_err(asked)?;
            set_tls(&client).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => "the kernel has none, expected its module: modprobe tls".to_string(),
                _ => format!("the kernel refuses it: {error}"),
            })?;
            let info = kind.sample();
            let directions = [Direction::Sends, Direction::Receives];
            match directions.iter().try_for_each(|direction| set_keys(&client, *direction, info.bytes())) {
                Ok(()) => *slot = Some(kind),
                Err(error) => last = Some(error),
            }
        }
        match last {
            Some(error) if known.is_empty() => Err(format!("the kernel knows none of our ciphers: {error}")),
            _ => Ok(known),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    pub fn knows(&self, kind: Kind) -> bool {
        self.0.contains(&Some(kind))
    }
}

/// The kernel, as it seals one connection.
#[derive(Debug)]
pub struct Sealer {
    overhead: u64,
    /// Sent so far, at least.
    records: AtomicU64,
    has_ended: AtomicBool,
}

/// A record that is not data.
#[derive(Debug, PartialEq, Eq)]
pub enum OtherRecord {
    /// The client's side has ended as it should.
    End,
    /// The connection cannot go on: why.
    Broken(String),
}

impl Sealer {
    pub fn new(keys: &KernelKeys) -> Sealer {
        Sealer { overhead: keys.overhead as u64, records: AtomicU64::new(0), has_ended: AtomicBool::new(false) }
    }

    /// Gives the kernel both keys. An error leaves a connection that can only be closed.
    pub fn begin(socket: impl AsFd, keys: &KernelKeys) -> io::Result<()> {
        set_keys(&socket, Direction::Sends, keys.sends.bytes())?;
        set_keys(&socket, Direction::Receives, keys.receives.bytes())
    }

    pub fn overhead(&self) -> u64 {
        self.overhead
    }

    /// So many bytes were taken by one call; an error once there were as many records as the keys may have.
    pub fn count(&self, bytes: usize) -> io::Result<usize> {
        let records = bytes.div_ceil(RECORD_BYTES_MAX) as u64;
        if self.records.fetch_add(records, Ordering::Relaxed) >= RECORDS_MAX {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(bytes)
    }

    /// Tells the client that nothing follows, once. False where the socket has no room for it.
    pub fn say_end(&self, socket: impl AsFd) -> bool {
        self.alert(socket, CLOSE_NOTIFY)
    }

    fn alert(&self, socket: impl AsFd, alert: [u8; 2]) -> bool {
        if self.has_ended.load(Ordering::Relaxed) {
            return true;
        }
        let is_full = send_record(socket, ALERT, &alert).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        self.has_ended.store(!is_full, Ordering::Relaxed);
        !is_full
    }

    /// What stopped a read with this error; a connection that cannot go on has been told so. `None` where there is nothing yet.
    pub fn other_record(&self, socket: impl AsFd, error: &io::Error, content: &mut [u8]) -> Option<OtherRecord> {
        // The kernel gives a record that is not data to those who ask for its type.
        let is_there = error.raw_os_error() == Some(libc::EIO);
        let read = if is_there { receive_record(&socket, content) } else { Err(io::Error::from(error.kind())) };
        let other = match read {
            Ok((bytes, record_type)) => of_type(record_type, &content[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Err(_) => OtherRecord::Broken(broken(error)),
        };
        if other != OtherRecord::End {
            let alert = if is_there { UNEXPECTED_MESSAGE } else { BAD_RECORD };
            self.alert(socket, alert);
        }
        Some(other)
    }
}

/// Whether a read failed with what the kernel says of records, and not of the connection.
pub fn is_of_records(error: Errno) -> bool {
    [Errno::IO, Errno::BADMSG, Errno::MSGSIZE, Errno::INVAL].contains(&error)
}

fn of_type(record_type: Option<u8>, content: &[u8]) -> OtherRecord {
    match (record_type, content) {
        (Some(ALERT), [_, 0]) => OtherRecord::End,
        (Some(ALERT), [_, alert]) => OtherRecord::Broken(format!("the client sent TLS alert {alert}")),
        (Some(HANDSHAKE), _) => OtherRecord::Broken(
            "the client asked for new keys, which a connection with kTLS has not (turn --ktls off if it must)".into(),
        ),
        (other, _) => OtherRecord::Broken(format!("the client sent a TLS record of type {}", other.unwrap_or(0))),
    }
}

fn broken(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EBADMSG) => "the client sent a TLS record that its key does not open".into(),
        Some(libc::EMSGSIZE | libc::EINVAL) => "the client sent what is no TLS record".into(),
        _ => error.to_string(),
    }
}

/// What so many bytes are with their records, which are full but for the last.
pub fn carried_bytes(content_bytes: u64, overhead: u64) -> u64 {
    content_bytes + content_bytes.div_ceil(RECORD_BYTES_MAX as u64) * overhead
}

/// As many bytes as go into so much room with their records; one at least.
pub fn content_bytes(room_bytes: u64, overhead: u64) -> u64 {
    let records = room_bytes.div_ceil(RECORD_BYTES_MAX as u64 + overhead);
    room_bytes.saturating_sub(records * overhead).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_and_its_records_fill_the_room() {
        for overhead in [22, 29] {
            for room in [64, 1448, 16_384, 16_406, 16_407, 16_500, 65_160, 2 << 20] {
                let content = content_bytes(room, overhead);
                let carried = carried_bytes(content, overhead);
                assert!(carried <= room && room - carried <= overhead, "{room}: {content}, {carried}");
            }
            assert_eq!(content_bytes(overhead, overhead), 1);
            assert_eq!(carried_bytes(0, overhead), 0);
        }
        assert_eq!(carried_bytes(20_000, 0), 20_000);
    }

    #[test]
    fn records_that_are_not_data() {
        assert_eq!(of_type(Some(ALERT), &[1, 0]), OtherRecord::End);
        let said = |record_type, content: &[u8]| match of_type(record_type, content) {
            OtherRecord::Broken(why) => why,
            OtherRecord::End => panic!("an end"),
        };
        assert_eq!(said(Some(ALERT), &[2, 40]), "the client sent TLS alert 40");
        assert!(said(Some(HANDSHAKE), &[24, 0, 0, 1, 0]).contains("new keys"));
        assert_eq!(said(Some(24), &[]), "the client sent a TLS record of type 24");
        assert_eq!(said(Some(ALERT), &[0]), "the client sent a TLS record of type 21");
    }

    #[test]
    fn the_keys_are_not_used_for_ever() {
        let keys =
            |records| Sealer { overhead: 22, records: AtomicU64::new(records), has_ended: AtomicBool::new(false) };
        assert_eq!(keys(RECORDS_MAX - 1).count(20_000).unwrap(), 20_000);
        assert!(keys(RECORDS_MAX).count(1).is_err());
    }

    /// On the machine at hand: it has TLS, or the reason names the remedy.
    #[test]
    fn the_kernel_is_asked() {
        match KernelTls::ask() {
            Ok(known) => assert!(!known.is_empty() && Kind::all().any(|kind| known.knows(kind))),
            Err(why) => assert!(why.contains("modprobe tls") || why.contains("refuses"), "{why}"),
        }
    }
}
