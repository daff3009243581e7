//! Helper processes, which do things for a server that the server itself may not do. One reads certificates and keys
//! for a server that has switched to another user; another runs the operator's program for DNS records. A third is the
//! nginx of the demo.

use std::process::ExitCode;
use std::sync::Arc;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

/// Returns the main function of a helper process with this name; `None` for any other name.
pub fn of_name(name: &std::ffi::OsStr) -> Option<fn() -> std::io::Result<()>> {
    match name.to_str()? {
        server::service_manager::KEYS_NAME => Some(server::service_manager::keep_keys),
        server::service_manager::HOOK_NAME => Some(server::service_manager::serve_hook),
        crate::demo::nginx::NAME => Some(crate::demo::nginx::become_nginx),
        _ => None,
    }
}

/// Runs until the server ends. Ignores signals, because a signal to all processes named `weir` is meant for the server.
pub fn run(main: fn() -> std::io::Result<()>) -> ExitCode {
    for signal in [SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2] {
        if signal_hook::flag::register(signal, Arc::default()).is_err() {
            return ExitCode::FAILURE;
        }
    }
    if main().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
