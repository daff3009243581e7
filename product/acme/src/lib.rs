//! Certificates from an authority by ACME (RFC 8555), on a thread of their own.
//!
//! The obvious design asks whenever a timer fires, and then asks too often or not at all: after a restart, while the
//! authority is away, when the clock is set. So what is due when is a state machine without clock and network
//! ([`due`]), which the thread ([`Renewer`]) asks again at least twice a minute. An order is a sequence of blocking
//! requests, since the thread has nothing else to do and no runtime is needed for them; what an authority's challenges
//! ask for is in a table that event loops read ([`Tokens`], [`tls::Automatic`]).

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
