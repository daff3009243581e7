//! The reasons why a server cannot start, with instructions for the operator.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

use crate::service_manager::PrivilegeError;
use crate::sites::SitesError;
use crate::threads::ThreadError;

/// The reason why the server cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    #[error(transparent)]
    Sites(#[from] SitesError),
    #[error("cannot listen on {0}: {why}", why = unheard(.1))]
    Listen(SocketAddr, #[source] io::Error),
    #[error("cannot serve HTTP/3 at {0}: {why}", why = unheard_datagrams(.1))]
    Udp(SocketAddr, #[source] io::Error),
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    /// A thread cannot start, because a resource that it needs is not available.
    #[error("cannot run thread {0}: {1}; allow that system call, or raise that limit")]
    Thread(String, #[source] io::Error),
    #[error(transparent)]
    Unstarted(ThreadError),
    #[error("shaping is {before} and would be {after}: run `weir upgrade` for that")]
    OtherShaping { before: &'static str, after: &'static str },
    #[error("{0}; or it was created after the start and is outside weir's sandbox: run `weir upgrade`")]
    OutOfReach(#[source] Box<StartError>),
    /// Access to this path is certainly refused because of the sandbox.
    #[error("{0} was created after the start and is outside weir's sandbox: run `weir upgrade`")]
    BeyondSandbox(String),
    /// The site is served without this folder or page.
    #[error("{0}")]
    Lacking(String),
    #[error("cannot {0}: {1}")]
    System(&'static str, #[source] io::Error),
}

/// Explains why the server cannot listen on an address, and how to fix that.
fn unheard(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program uses it; stop that program, or choose another address (--listen, listener.address)"
                .to_string()
        }
        io::ErrorKind::PermissionDenied => {
            format!("{error}; ports below 1024 need root (--user then gives it up) or the systemd unit")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("{error}; expected an address of this host in --listen (listener.address)")
        }
        _ => error.to_string(),
    }
}

/// Like `unheard`, for UDP.
fn unheard_datagrams(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program uses this UDP port; stop that program, or turn HTTP/3 off (--no-http3, http3 = false)"
                .into()
        }
        _ => format!("{error}; turn HTTP/3 off with --no-http3 or http3 = false"),
    }
}
