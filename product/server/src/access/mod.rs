//! Access control: the users of a file, and verdicts on passwords.
//!
//! By design, verifying a password takes a core a tenth of a second. So a dedicated thread verifies passwords, serving
//! clients in turn, and the event loops do not wait. Verdicts are cached for a while, and a client that guesses
//! passwords is stopped early.

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
