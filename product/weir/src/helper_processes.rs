//! The processes that a server starts for what it may not do itself: one reads certificates and keys for a server that
//! has switched to another user, the other runs the operator's program for DNS records.

use std::process::ExitCode;
use std::sync::Arc;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

/// The main function of the process with this name, if the server has started one.
pub fn of_name(name: &std::ffi::OsStr) -> Option<fn() -> std::io::Result<()>> {
    match name.to_str()? {
        server::service_manager::KEYS_NAME => Some(server::service_manager::keep_keys),
        server::service_manager::HOOK_NAME => Some(server::service_manager::serve_hook),
        _ => None,
    }
}

/// Runs until the server ends. Signals are ignored, since a signal to all processes named `weir` is meant for the server.
pub fn run(main: fn() -> std::io::Result<()>) -> ExitCode {
    for signal in [SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2] {
        if signal_hook::flag::register(signal, Arc::default()).is_err() {
            return ExitCode::FAILURE;
        }
    }
    if main().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
