use std::io;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// An error while changing or reading the kernel side. It is one line with the problem, its place, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Refused(String),
    /// The kernel lacks the requested feature; another way may work.
    #[error("{lacks}{}", cause.as_ref().map_or(String::new(), |cause| format!(": {cause:#}")))]
    Missing {
        lacks: String,
        #[source]
        cause: Option<Cause>,
    },
    #[error("{doing}: not allowed, this needs {needs}")]
    NotAllowed {
        doing: String,
        needs: &'static str,
        #[source]
        cause: Cause,
    },
    #[error("{doing}: {cause:#}")]
    Kernel {
        doing: String,
        #[source]
        cause: Cause,
    },
    /// Restoring the previous state failed too.
    #[error("{cause}; {before} could not be restored: {undo}")]
    Undo {
        #[source]
        cause: Box<Error>,
        before: String,
        undo: Box<Error>,
    },
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error::Refused(message.into())
    }

    pub(crate) fn missing(lacks: impl Into<String>) -> Error {
        Error::Missing { lacks: lacks.into(), cause: None }
    }

    /// Wraps the kernel's error; `doing` describes the step ("making the tree on eth0").
    pub(crate) fn kernel(doing: &str, error: io::Error) -> Error {
        let doing = doing.to_string();
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                Error::NotAllowed { doing, needs: "root or CAP_NET_ADMIN", cause: error.into() }
            }
            _ => Error::other(doing, error),
        }
    }

    /// Wraps any other error.
    pub(crate) fn other(doing: impl Into<String>, error: impl Into<Cause>) -> Error {
        Error::Kernel { doing: doing.into(), cause: error.into() }
    }

    pub(crate) fn undo(cause: Error, before: impl Into<String>, undo: Error) -> Error {
        Error::Undo { cause: Box::new(cause), before: before.into(), undo: Box::new(undo) }
    }

    /// Returns true if the only problem is that this kernel lacks the feature.
    pub fn is_missing(&self) -> bool {
        matches!(self, Error::Missing { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn the_cause_is_said_once_and_kept() {
        let kernel = |errno| Error::kernel("making the tree on eth0", io::Error::from_raw_os_error(errno));
        let refused = kernel(libc::EPERM);
        assert_eq!(refused.to_string(), "making the tree on eth0: not allowed, this needs root or CAP_NET_ADMIN");
        let gone = kernel(libc::ENODEV);
        assert_eq!(gone.to_string(), "making the tree on eth0: No such device (os error 19)");
        for (error, errno) in [(&refused, libc::EPERM), (&gone, libc::ENODEV)] {
            let source = error.source().unwrap().downcast_ref::<io::Error>();
            assert_eq!(source.unwrap().raw_os_error(), Some(errno));
        }
        let undo = Error::undo(gone, "the rate before", Error::new("why"));
        let said = "making the tree on eth0: No such device (os error 19); the rate before could not be restored: why";
        assert_eq!(undo.to_string(), said);
        assert!(undo.source().is_some() && !undo.is_missing() && Error::missing("no prio").is_missing());
    }
}
