use sched::{Account, Correction, TcpSent};
use units::wire::Framing;

use super::Status;

/// What happened on a connection before, which its next response goes on from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stream {
    /// The policy's band in which its packets are now; `None` while they have what the listening socket gave them.
    pub band: Option<u8>,
    /// Bytes handed down on it, of all responses.
    pub sent_bytes: u64,
    /// What the link was charged for it.
    pub account: Account,
}

impl Stream {
    /// Of a connection on which nothing was sent yet.
    pub fn new(framing: Framing) -> Stream {
        Stream { account: Account::new(framing), ..Stream::default() }
    }

    pub fn framing(&self) -> Framing {
        self.account.framing()
    }

    /// Sets the account against what TCP has sent.
    pub fn settle(&mut self, status: &Status) -> Correction {
        self.account.settle(self.sent(status))
    }

    /// The same when the connection ends, with what its end will send.
    pub fn close(&self, status: &Status) -> Correction {
        // A connection that has ended keeps nothing: a reset throws away what was not sent.
        let payload_bytes = if status.closing_segments > 0 { status.unsent_bytes } else { 0 };
        self.account.close(self.sent(status), payload_bytes, status.closing_segments.into())
    }

    /// Where the kernel does not count what it sent, all that was handed down is taken for sent.
    fn sent(&self, status: &Status) -> TcpSent {
        status.sent.unwrap_or_else(|| {
            let payload_bytes = self.sent_bytes - status.unsent_bytes.min(self.sent_bytes);
            let segments = payload_bytes.div_ceil(self.framing().segment_bytes) as u32;
            TcpSent { payload_bytes, segments }
        })
    }
}
