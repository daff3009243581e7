use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::{SendFlags, Shutdown};

/// Where a response goes. Never blocks: what cannot be taken now is `WouldBlock`.
pub trait Socket {
    /// `more` says that more follows at once, so a segment that is not full may wait for it.
    fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize>;
    /// Zero means that the file ends before `offset`.
    fn send_file(&self, file: &File, offset: u64, count: usize) -> io::Result<usize>;
    /// Whether a last segment that is not full may wait for more, for [`Socket::finish`] or for the close.
    fn cork(&self, is_corked: bool);
    /// No more will be sent: the FIN may leave with the last byte.
    fn finish(&self);
    /// Payload bytes sent again so far on this connection.
    fn retransmitted_bytes(&self) -> u64;
}

/// A connected TCP socket, shared by the worker that reads from it and the writer that sends on it.
pub type Connection = Arc<OwnedFd>;

impl Socket for Connection {
    fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize> {
        let flags = if more { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL };
        retry(|| rustix::net::send(self, bytes, flags))
    }

    fn send_file(&self, file: &File, offset: u64, count: usize) -> io::Result<usize> {
        retry(|| rustix::fs::sendfile(self, file, Some(&mut { offset }), count))
    }

    fn cork(&self, is_corked: bool) {
        // If it fails, segments are less full than they could be.
        let _ = rustix::net::sockopt::set_tcp_cork(self, is_corked);
    }

    fn finish(&self) {
        // Fails only when the connection is gone already, which the worker will see.
        let _ = rustix::net::shutdown(self, Shutdown::Write);
    }

    fn retransmitted_bytes(&self) -> u64 {
        uplink::tcp_info(self).map_or(0, |info| info.retransmitted_bytes)
    }
}

fn retry(mut call: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}
