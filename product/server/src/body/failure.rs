use std::io::{self, ErrorKind};

use sched::Overrun;

use crate::files::Entry;

/// The reason why sending stopped.
#[derive(Debug)]
pub enum Failure {
    /// The socket accepts no more for now.
    Blocked,
    /// The next byte is not in memory and must be read from disk: [`Outgoing::absent`].
    Absent,
    /// The next byte has not arrived from its producer.
    Pending,
    /// The producer failed and has reported the reason.
    Source,
    /// The producer, or a stage, gave more or fewer bytes than it announced.
    Length,
    /// The file became shorter than the length that the head has announced.
    Truncated { path: Box<str> },
    /// The file could not be read.
    Unreadable { path: Box<str>, error: io::Error },
    /// The client's flow-control window is used up.
    Shut,
    /// The connection is closed.
    Disconnected,
    /// The client disconnected while the response was being made.
    Aborted,
    /// The reader took too few bytes for too long.
    Stalled,
    /// The body was longer than its announced size, which is a bug. The bytes that the client has received cannot be
    /// trusted.
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

    /// Classifies an error of `sendfile`. The call also reports disk errors: any error that a connection cannot cause
    /// counts as a disk error.
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
