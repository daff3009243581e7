use std::io::{self, ErrorKind};

use sched::Overrun;

use crate::files::Entry;

/// The reason why sending stopped.
#[derive(Debug)]
pub enum Failure {
    /// The socket takes no more for now.
    Blocked,
    /// The next byte is not in memory: [`Outgoing::absent`].
    Absent,
    /// The next byte has not arrived from its producer.
    Pending,
    /// The producer failed, and has reported why.
    Source,
    /// The producer, or a stage, gave more or fewer bytes than it announced.
    Length,
    /// The file became shorter than the length already sent in the head.
    Truncated { path: Box<str> },
    /// The file could not be read.
    Unreadable { path: Box<str>, error: io::Error },
    /// The client's window is shut.
    Shut,
    /// The connection is gone.
    Disconnected,
    /// The client left while the response was being made.
    Aborted,
    /// The reader took too little for too long.
    Stalled,
    /// The body was longer than its size, which is a bug: what its client has received cannot be trusted.
    Overrun(Overrun),
}

impl Failure {
    pub fn unreadable(entry: &Entry, error: io::Error) -> Failure {
        Failure::Unreadable { path: entry.path.clone(), error }
    }

    pub fn truncated(entry: &Entry) -> Failure {
        Failure::Truncated { path: entry.path.clone() }
    }

    pub fn of_socket(error: io::Error) -> Failure {
        if error.kind() == ErrorKind::WouldBlock { Failure::Blocked } else { Failure::Disconnected }
    }

    /// Classifies an error of `sendfile`, which also reports disk errors: every error that a connection cannot have.
    pub fn of_send_file(entry: &Entry, error: io::Error) -> Failure {
        match error.kind() {
            ErrorKind::WouldBlock => Failure::Blocked,
            ErrorKind::BrokenPipe
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::NotConnected
            | ErrorKind::TimedOut
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown => Failure::Disconnected,
            _ => Failure::unreadable(entry, error),
        }
    }
}
