use std::net::{IpAddr, SocketAddr};

use sched::JobId;

use super::line::Line;
use crate::conn::Http1;
use crate::files::Key;
use crate::transmit::{Connection, End, PipeState, Secure};

/// One client connection: its protocol, its socket, and what the loop knows of both. An idle one holds no buffers.
pub struct Conn {
    pub http1: Http1,
    pub socket: Connection,
    pub address: IpAddr,
    pub port: u16,
    /// The index of its client's account.
    pub client: u32,
    /// Its name in events and among jobs.
    pub owner: u64,
    pub task: Task,
    /// Of the response being sent.
    pub class: u16,
    /// A response was sent on it before.
    pub has_answered: bool,
    /// Something arrived that was not read yet.
    pub is_readable: bool,
    /// It is on the worker's list of those with something to be read.
    pub is_queued: bool,
    /// Its turn ended before all that was kept was looked at.
    pub is_cut: bool,
    /// The client sends no more: behind the last bytes is an end, of which no other event will tell.
    pub has_ended: bool,
    /// The kernel tells us about it.
    pub is_registered: bool,
    /// Segments are held back until they are full.
    pub is_corked: bool,
    pub pipe: PipeState,
    /// Where the client speaks TLS.
    pub secure: Option<Secure>,
    /// No keys are agreed on yet.
    pub is_handshaking: bool,
    /// For the access log and the records, while a response is found and sent.
    pub line: Option<Box<Line>>,
}

/// What a response waits for.
pub enum Task {
    None,
    /// What was asked for is being found by somebody who may wait for its disk.
    Finding(Box<Finding>),
    /// It is being sent.
    Sending(JobId),
}

/// A request that waits for a find. Its head is kept as it came and parsed again when that has ended.
pub struct Finding {
    pub head: Vec<u8>,
    pub key: Key,
}

impl Conn {
    pub fn peer(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }

    /// What follows the response now being built.
    pub fn end(&self) -> End {
        if self.http1.closes() { End::Finish } else { End::Open }
    }

    pub fn is_sending(&self) -> bool {
        matches!(self.task, Task::Sending(_))
    }

    /// Nothing is asked of us, and nothing is on its way to the client that we know of.
    pub fn is_idle(&self) -> bool {
        !self.is_readable && self.http1.is_idle()
    }
}
