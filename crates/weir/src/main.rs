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

fn main() -> std::process::ExitCode {
    let Command::Serve(args) = cli::parse::<Cli>("weir").command;
    cli::exit_code("weir", serve::main(args))
}
