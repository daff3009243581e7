//! Connections that go on with the kernel's TLS behind their handshake.

use std::io;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::Worker;
use super::conn::Conn;
use crate::sys;
use crate::transmit::{OtherRecord, lock};

impl Conn {
    /// Says that nothing follows, where the kernel seals.
    pub fn end_in_kernel(&self) {
        if let Some(sealer) = self.socket.sealer() {
            sealer.say_end(&self.socket);
        }
    }
}

impl Worker {
    /// Reads one record of a handshake, and no byte behind it: what follows the last is for the kernel to open.
    pub(super) fn receive_handshake(&mut self, at: usize, scratch: &mut [u8]) {
        let conn = &mut self.conns[at];
        let Some(secure) = conn.secure.clone() else { return };
        let bytes = match rustix::net::recv(&conn.socket, &mut *scratch, RecvFlags::PEEK) {
            Ok((_, 0)) => return self.close(at),
            Ok((_, bytes)) => bytes,
            Err(Errno::AGAIN) => return conn.is_readable = false,
            Err(Errno::INTR) => return,
            Err(_) => return self.close(at),
        };
        let mut session = lock(&secure);
        let is_plain = session.is_untouched() && tls::is_plain_http(&scratch[..bytes]);
        let part = if is_plain { bytes } else { session.bytes_of_record(&scratch[..bytes]) };
        drop(session);
        // The session gives its keys to its only holder.
        drop(secure);
        // They are there.
        if rustix::net::recv(&conn.socket, &mut scratch[..part], RecvFlags::empty()) != Ok((part, part)) {
            return self.close(at);
        }
        self.receive_sealed(at, &scratch[..part]);
        if self.conns.get(at).is_some_and(|conn| conn.secure.is_some() && !conn.is_handshaking) {
            self.hand_over(at);
        }
    }

    /// The handshake is over: the kernel goes on, or this process does.
    fn hand_over(&mut self, at: usize) {
        let conn = &mut self.conns[at];
        let Some(secure) = &conn.secure else { return };
        let session = lock(secure);
        let (kind, speaks_http2) = (session.kind(), session.speaks_http2());
        drop(session);
        let goes_on = kind.is_some_and(|kind| self.parts.kernel_tls.knows(kind));
        if goes_on
            && sys::kernel_tls::set_tls(&conn.socket).is_ok()
            && let Err(error) = give_keys(conn)
        {
            // One direction may be the kernel's already.
            self.fail(at, &format!("the kernel refused the keys (kTLS): {error}"));
            return self.close(at);
        }
        self.conns[at].is_readable = true;
        if speaks_http2 {
            self.begin_http2(at);
        }
    }

    /// A read has found no data, for this reason.
    pub(super) fn receive_other_record(&mut self, at: usize, error: Errno, scratch: &mut [u8]) {
        let conn = &mut self.conns[at];
        let Some(sealer) = conn.socket.sealer() else { return };
        match sealer.other_record(&conn.socket, &error.into(), scratch) {
            None => conn.is_readable = false,
            Some(OtherRecord::End) => self.close(at),
            Some(OtherRecord::Broken(why)) => {
                self.fail(at, &why);
                self.close(at);
            }
        }
    }
}

fn give_keys(conn: &mut Conn) -> io::Result<()> {
    let secure = conn.secure.take().and_then(Arc::into_inner).and_then(|secure| secure.into_inner().ok());
    let keys = secure.map(tls::Session::into_kernel_keys).and_then(Result::ok);
    conn.socket.seal_in_kernel(&keys.ok_or(io::ErrorKind::ResourceBusy)?)
}
