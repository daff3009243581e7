//! Who may have what: the users of a file, and verdicts on passwords.
//!
//! A password takes a tenth of a second of a core to verify, on purpose. So a thread of its own does it, for clients in
//! turns; an event loop asks and goes on. Verdicts are kept for a while, and a client that guesses is stopped early.

mod attempts;
mod awaited_verdicts;
mod credentials;
mod kept_verdicts;
mod password_hash;
mod users;
mod verifier_thread;

pub use awaited_verdicts::{Question, Verdict, Verifications};
pub use credentials::Credentials;
pub use password_hash::{HashError, PASSWORD_BYTES_MAX, hash_password};
pub use users::{USERS_FILE_BYTES_MAX, Users, UsersFault};
pub use verifier_thread::{Refused, Verifier};
