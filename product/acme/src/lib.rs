//! Certificates from an authority by ACME (RFC 8555), on a thread of their own.
//!
//! The obvious design, asking the authority whenever a timer fires, asks too often or not at all: after a restart,
//! while the authority is unreachable, or when the clock is set. So a state machine without clock and network ([`due`])
//! decides what is due, and the thread ([`Renewer`]) queries it at least twice a minute. An order is a sequence of
//! blocking requests, because the thread has nothing else to do and needs no runtime. The answers to the authority's
//! challenges are in tables that event loops read ([`Tokens`], [`tls::Automatic`]).

mod due;
mod folder;
mod http_client;
mod order;
mod renewer;
mod settings;
mod tokens;

pub use due::{Failed, Outlook, span};
pub use folder::{Folder, FolderError};
pub use renewer::{HostStatus, Renewer, Task};
pub use settings::{ChallengeKind, ExternalAccount, Hook, LETS_ENCRYPT, Settings};
pub use tokens::Tokens;
