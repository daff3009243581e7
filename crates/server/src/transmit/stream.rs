use sched::Account;
use units::wire::Framing;

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
}
