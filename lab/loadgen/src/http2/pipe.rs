//! An in-memory wire from which h2 reads and to which it writes. The connection owns the socket, as under TLS.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes received but not yet read, and the bytes written but not yet sent. One read of a socket fills the first,
/// and h2 takes all of it immediately. The second holds requests and the answers to a few frames.
#[derive(Debug, Default)]
pub(super) struct Wires {
    incoming: Vec<u8>,
    read_bytes: usize,
    pub(super) outgoing: Vec<u8>,
}

/// The end of the wire that h2 uses.
#[derive(Debug, Clone, Default)]
pub(super) struct Pipe(pub(super) Rc<RefCell<Wires>>);

impl Wires {
    pub(super) fn put(&mut self, received: &[u8]) {
        if self.read_bytes == self.incoming.len() {
            self.incoming.clear();
            self.read_bytes = 0;
        }
        self.incoming.extend_from_slice(received);
    }
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut wires = self.0.borrow_mut();
        let unread = &wires.incoming[wires.read_bytes..];
        if unread.is_empty() {
            return Poll::Pending;
        }
        let count = unread.len().min(into.remaining());
        into.put_slice(&unread[..count]);
        wires.read_bytes += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().outgoing.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
