//! What a service manager gives and wants: sockets that it opened, word of how the service is, and a user other than root.
//! Each is absent where nobody asks for it.

mod keys;
mod notify;
mod passed;
mod privileges;

pub use keys::{Keys, NAME as KEYS_NAME, keep as keep_keys};
pub use notify::{Notifier, Watchdog};
pub use passed::{NamedSocket, PassedError, PassedSocket, gather, passed_sockets, unpassed};
pub use privileges::{Account, PrivilegeError, Privileges};
