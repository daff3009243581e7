//! The process that reads certificates and keys for a server that has switched to another user. Only the server starts it.

use std::process::ExitCode;
use std::sync::Arc;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

/// Runs until the server ends. Signals are ignored, since a signal to all processes named `weir` is meant for the server.
pub fn main() -> ExitCode {
    for signal in [SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2] {
        if signal_hook::flag::register(signal, Arc::default()).is_err() {
            return ExitCode::FAILURE;
        }
    }
    if server::service::keep_keys().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
