//! Who may have what: the users of a file, and verdicts on passwords.
//!
//! A password takes a tenth of a second of a core to verify, on purpose. So a thread of its own does it, for clients in
//! turns; an event loop asks and goes on. Verdicts are kept for a while, and a client that guesses is stopped early.

mod attempts;
mod credentials;
mod hash;
mod password_verdicts;
mod users;
mod verifications;
mod verifier;

pub use credentials::Credentials;
pub use hash::{HashError, PASSWORD_BYTES_MAX, hash_password};
pub use users::{USERS_FILE_BYTES_MAX, Users, UsersFault};
pub use verifications::{Question, Verdict, Verifications};
pub use verifier::{Refused, Verifier};
