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

/// Exit status: 0 ok, 1 failed, 2 usage.
fn main() -> std::process::ExitCode {
    let Command::Serve(args) = Cli::try_parse().unwrap_or_else(|error| usage(error)).command;
    match serve::main(args) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("weir: {reason}");
            std::process::ExitCode::FAILURE
        }
    }
}

/// Help and version as clap has them; a mistake in one line, as all our errors.
fn usage(error: clap::Error) -> ! {
    if !error.use_stderr() {
        error.exit();
    }
    let text = error.to_string();
    let said: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:")).collect();
    let said = said.join(" ");
    let said = said.trim_start_matches("error:").split("For more information").next().unwrap_or_default().trim();
    eprintln!("weir: {said}; see weir --help");
    std::process::exit(2)
}
