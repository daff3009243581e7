//! `cargo xtask`: the checks and the benchmarks of this workspace, the same on every machine and in CI.
//!
//! `tidy` checks what the compiler does not: the arrows between crates, sizes, where `unsafe` stands.
//! `ci` runs the checks and the tests. `mutants` checks the tests. `fuzz` looks for inputs that panic. `simulate` runs a
//! whole server in simulated time. `dist` makes what is installed, `docs` the site. `bench`, `attack` and `conformance`
//! are started here and live in `lab/measure`, because this program is built before everything else.

mod ci;
mod dist;
mod docs;
mod fuzz;
#[cfg(test)]
mod make_tests;
mod mutants;
mod programs;
mod simulate;
mod tidy;
mod tools;

use std::ffi::OsString;
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
    Bench(Words),
    /// Change the code of sched, http and the transmit path in every small way, and see whether their tests notice.
    ///
    /// Takes an hour or two on one core. cargo-mutants is installed below target/ the first time; what is left of a run,
    /// a log and a diff of each mutant, is in target/mutation/. Survivors that no test can catch are listed, each with its
    /// reason, in xtask/mutants.toml. Fails below 90 % caught, and where an entry of that list no longer holds.
    Mutants(mutants::Args),
    /// Let others' checkers and clients judge `weir serve` over TLS: sslyze, curl, browsers, h2spec, h2load.
    Conformance(Words),
    /// Run the fuzz targets under libFuzzer, guided by coverage: everything that a peer can send.
    ///
    /// Builds them with counters of coverage below target/fuzz, on stable Rust, with a C++ compiler. What is found goes on from one run to
    /// the next there; an input that panics is left there too. CI runs the corpus and mutants of it as tests of the crate `fuzz` instead.
    Fuzz(fuzz::Args),
    /// Flood `weir` and nginx on loopback, and print what each flood costs them and an honest client.
    Attack(Words),
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
}

/// The words of a measurement, `--help` among them, which its own program reads.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    words: Vec<OsString>,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Attack(args) => return told(measure("attack", &args)),
        Command::Bench(args) => return told(measure("bench", &args)),
        Command::Conformance(args) => return told(measure("conformance", &args)),
        Command::Tidy => tidy::main(&root()),
        Command::Ci(args) => ci::main(&root(), &args),
        Command::Mutants(args) => mutants::main(&root(), &args),
        Command::Fuzz(args) => fuzz::main(&root(), &args),
        Command::Simulate(args) => simulate::main(&root(), &args),
        Command::Dist(args) => dist::main(&root(), &args),
        Command::Docs => docs::main(&root()),
    };
    told(outcome.map(|()| ExitCode::SUCCESS))
}

/// Builds the laboratory's program and runs it; gives its exit status.
fn measure(what: &str, args: &Words) -> Result<ExitCode, String> {
    let mut command = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // The working directory stays: arguments may be paths.
    command.arg("run").arg("--manifest-path").arg(root().join("Cargo.toml"));
    command.args(["--quiet", "--locked", "--package", "measure", "--", what]).args(&args.words);
    let status = command.status().map_err(|e| format!("cannot run cargo: {e}"))?;
    // A program that a signal ended has no status.
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_measurement_are_passed_on_as_they_are() {
        for given in [&["--quick", "--only", "idle"][..], &["--help"], &["-h"], &["h2-stall", "--judge"], &[]] {
            let all = ["xtask", "attack"].iter().chain(given);
            let Ok(Cli { command: Command::Attack(Words { words }) }) = Cli::try_parse_from(all) else {
                panic!("{given:?} are not taken")
            };
            assert_eq!(words, given);
        }
    }
}
