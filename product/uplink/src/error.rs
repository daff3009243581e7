use std::fmt;
use std::io;

/// Why the kernel side could not be changed or read: one line that says what is wrong, where, and what to do.
#[derive(Debug)]
pub struct Error {
    message: String,
    is_missing: bool,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error { message: message.into(), is_missing: false }
    }

    /// This kernel does not have what was asked for; another way may be open.
    pub(crate) fn missing(message: impl Into<String>) -> Error {
        Error { message: message.into(), is_missing: true }
    }

    /// What the kernel answered while we were `doing` this ("making the tree on eth0").
    pub(crate) fn kernel(doing: &str, error: &io::Error) -> Error {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                Error::new(format!("{doing}: not allowed, this needs root or CAP_NET_ADMIN"))
            }
            _ => Error::new(format!("{doing}: {error}")),
        }
    }

    /// Is the only thing wrong that this kernel lacks it?
    pub fn is_missing(&self) -> bool {
        self.is_missing
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
