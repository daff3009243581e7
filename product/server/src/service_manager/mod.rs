//! The interface to a service manager: sockets that it opened, notifications about the state of the service, and a user
//! other than root. Each part is absent if not requested.

mod hook;
mod keys;
mod notify;
mod passed;
mod privileges;

pub use hook::{HookProgram, NAME as HOOK_NAME, serve as serve_hook};
pub use keys::{Keys, NAME as KEYS_NAME, keep as keep_keys};
pub use notify::{Notifier, Watchdog};
pub use passed::{Listen, NamedSocket, PassedError, PassedSocket, gather, passed_sockets, to_bind};
pub use privileges::{Account, PrivilegeError, Privileges};
