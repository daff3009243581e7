//! weir: what an operator installs. It serves a directory, shortest response first.

mod serve;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "weir", version, about = "Serves a directory, shortest response first")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a directory over HTTP/1.1.
    Serve(serve::Args),
}

/// Exit status: 0 ok, 1 failed, 2 usage (clap's own).
fn main() -> std::process::ExitCode {
    let Command::Serve(args) = Cli::parse().command;
    match serve::main(args) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("weir: {reason}");
            std::process::ExitCode::FAILURE
        }
    }
}
