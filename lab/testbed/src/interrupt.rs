use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::LabError;

/// SIGINT, SIGTERM and SIGHUP as a flag that every wait checks, so that the guards run and nothing is left behind.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    came: Arc<AtomicBool>,
}

impl Interrupt {
    /// Installs the handlers: from now on these signals set the flag and no longer end the process.
    pub fn listen() -> Result<Interrupt, LabError> {
        let interrupt = Interrupt::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let register = || -> io::Result<_> { signal_hook::flag::register(signal, interrupt.came.clone()) };
            register().map_err(|e| LabError::io("signal handler", e))?;
        }
        Ok(interrupt)
    }

    pub fn check(&self) -> Result<(), LabError> {
        if self.came.load(Ordering::Relaxed) { Err(LabError::Interrupted) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_raises_the_flag() {
        let interrupt = Interrupt::listen().unwrap();
        assert!(interrupt.check().is_ok());
        signal_hook::low_level::raise(SIGHUP).unwrap();
        assert!(matches!(interrupt.check(), Err(LabError::Interrupted)));
    }
}
