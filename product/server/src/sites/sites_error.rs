use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::{ListingPageError, PageError, SecureError};
use crate::access::UsersFault;
use crate::classes::ClassesChange;
use crate::upstream::GroupError;

/// The reason why sites cannot be served.
#[derive(Debug, Error)]
pub enum SitesError {
    #[error("cannot serve `{dir}`: {1}; expected a readable folder", dir = .0.display())]
    Folder(PathBuf, #[source] io::Error),
    #[error(transparent)]
    Page(#[from] PageError),
    #[error(transparent)]
    ListingPage(#[from] ListingPageError),
    #[error(transparent)]
    Classes(#[from] ClassesChange),
    #[error(transparent)]
    Secure(#[from] SecureError),
    #[error(transparent)]
    Upstreams(#[from] GroupError),
    #[error("cannot read users `{file}`: {1}; expected a readable file of at most 1 MiB", file = .0.display())]
    UsersFile(PathBuf, #[source] io::Error),
    #[error("users `{file}`: {1}", file = .0.display())]
    Users(PathBuf, #[source] UsersFault),
    #[error("cannot open access log {0}: {1}; expected a writable file, or - for standard output")]
    Log(String, #[source] io::Error),
    #[error("cannot make keys of TLS tickets: {0}")]
    Tickets(#[source] io::Error),
}
