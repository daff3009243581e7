//! `cargo xtask`: the checks and the benchmarks of this workspace, the same on every machine and in CI.
//!
//! `tidy` checks what the compiler does not: the arrows between crates, sizes, where `unsafe` stands.
//! `ci` runs the checks and the tests. `bench` measures Weir beside other servers. `mutants` checks the tests.
//! `attack` floods a server of its own. `fuzz` looks for inputs that panic. `conformance` has others' clients and checkers judge Weir over TLS and QUIC.
//! `simulate` runs a whole server in simulated time. `dist` makes what is installed, `docs` the site.

mod attack;
mod bench;
mod ci;
mod conformance;
mod dist;
mod docs;
mod fuzz;
#[cfg(test)]
mod make_tests;
mod mutants;
mod programs;
mod simulate;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks and benchmarks of the Weir workspace")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check the rules of ARCHITECTURE.md and CONTRIBUTING.md that the compiler does not check.
    Tidy,
    /// Check and test: fmt, clippy, tidy, tests of all but the laboratory.
    Ci(ci::Args),
    /// Measure Weir beside nginx (and H2O and lighttpd) on loopback.
    Bench(bench::Args),
    /// Change the code of sched, http and the transmit path in every small way, and see whether their tests notice.
    ///
    /// Takes an hour or two on one core. cargo-mutants is installed below target/ the first time; what is left of a run,
    /// a log and a diff of each mutant, is in target/mutation/. Survivors that no test can catch are listed, each with its
    /// reason, in xtask/mutants.toml. Fails below 90 % caught, and where an entry of that list no longer holds.
    Mutants(mutants::Args),
    /// Let others' checkers and clients judge `weir serve` over TLS: sslyze, curl, browsers, h2spec, h2load.
    ///
    /// On loopback, with certificates of its own, and with what `scripts/setup.sh conformance` installs. A check whose program is missing is
    /// SKIPPED, with --all an error. What the programs said is left in target/conformance/.
    Conformance(conformance::Args),
    /// Run the fuzz targets under libFuzzer, guided by coverage: everything that a peer can send.
    ///
    /// Builds them with counters of coverage below target/fuzz, on stable Rust, with a C++ compiler. What is found goes on from one run to
    /// the next there; an input that panics is left there too. CI runs the corpus and mutants of it as tests of the crate `fuzz` instead.
    Fuzz(fuzz::Args),
    /// Flood `weir` and nginx on loopback, and print what each flood costs them and an honest client.
    ///
    /// Each server is started here, with an access log and one event loop, and nothing else is ever attacked. Prints a table in Markdown;
    /// docs/notebook/attacks.md explains it.
    Attack(attack::Args),
    /// Run a whole server in simulated time from many seeds: clients, network, disk, clock and faults are the seed's.
    ///
    /// Prints each seed that breaks a law, with the command that runs it again, and how many simulated seconds passed in one of real time.
    Simulate(simulate::Args),
    /// Make what is installed: an archive, packages for Debian's and Red Hat's systems, and an image for containers.
    ///
    /// Into target/packages, of a static program. What a package has besides, manual pages and completions, comes from the program.
    Dist(dist::Args),
    /// Make a site of the pages of docs/, and of what they link to, into target/docs/site.
    ///
    /// By mdBook, which is installed below target/ the first time. Fails where a link leads to no file.
    Docs,
    /// The server that `bench` measures as the floor.
    #[command(hide = true)]
    Floor(bench::floor::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Attack(args) => return told(attack::main(&root(), &args)),
        Command::Tidy => tidy::main(&root()),
        Command::Ci(args) => ci::main(&root(), &args),
        Command::Bench(args) => bench::main(&root(), &args),
        Command::Mutants(args) => mutants::main(&root(), &args),
        Command::Conformance(args) => conformance::main(&root(), &args),
        Command::Fuzz(args) => fuzz::main(&root(), &args),
        Command::Simulate(args) => simulate::main(&root(), &args),
        Command::Dist(args) => dist::main(&root(), &args),
        Command::Docs => docs::main(&root()),
        Command::Floor(args) => bench::floor::main(&args),
    };
    told(outcome.map(|()| ExitCode::SUCCESS))
}

fn told(outcome: Result<ExitCode, String>) -> ExitCode {
    outcome.unwrap_or_else(|reason| {
        eprintln!("xtask: {reason}");
        ExitCode::FAILURE
    })
}

/// The workspace's folder: cargo tells where this package is, one level below.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("xtask"), PathBuf::from);
    package.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
