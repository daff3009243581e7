//! The process that reads certificates and keys for a server that has become another user. The server starts it; no command does.

use std::process::ExitCode;
use std::sync::Arc;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

/// It ends with the server, and no sooner: signals to all processes of the name `weir` are the server's.
pub fn main() -> ExitCode {
    for signal in [SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2] {
        if signal_hook::flag::register(signal, Arc::default()).is_err() {
            return ExitCode::FAILURE;
        }
    }
    if server::service::keep_keys().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
