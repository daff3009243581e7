//! `cargo xtask fuzz`: the targets of the crate `fuzz` under libFuzzer.
//!
//! libFuzzer comes as source with the crate libfuzzer-sys, and its counters of coverage are a pass of LLVM that stable rustc has: so
//! neither cargo-fuzz nor a nightly toolchain is needed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Counters at every edge, a table of their places, and the operands of comparisons.
const RUSTFLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                         -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                         -Cllvm-args=-sanitizer-coverage-trace-compares";
const BUILD: &[&str] = &["--profile", "fuzz", "--package", "fuzz", "--features", "libfuzzer", "--bin", "libfuzzer"];

/// What is kept for each target, in the tree: a file each, with its name.
const CORPUS: &str = "fuzz/corpus";
const WORK: &str = "target/fuzz";

/// As `fuzz::INPUT_BYTES_MAX`.
const INPUT_BYTES_MAX: u32 = 4096;
/// One input that takes longer is a finding, and so is one that takes more memory.
const INPUT_S_MAX: u32 = 10;
const MEMORY_MB_MAX: u32 = 1024;
const DEFAULT_S: u64 = 60;

#[derive(clap::Args)]
pub struct Args {
    /// Only these targets.
    target: Vec<String>,
    /// Inputs for each target.
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    runs: Option<u64>,
    /// Seconds for each target; 60 where neither is given.
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Of the mutations.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u32,
    /// Put the smallest set of inputs that reaches as much into fuzz/corpus, in place of what is there.
    #[arg(long)]
    keep: bool,
}

pub fn main(root: &Path, args: &Args) -> Result<(), String> {
    let names = if args.target.is_empty() { names(root)? } else { args.target.clone() };
    let program = build(root)?;
    let mut problems = Vec::new();
    for name in names {
        let target = Target::new(root, &program, name);
        target.prepare().map_err(|e| format!("cannot make the folders of `{}`: {e}", target.name))?;
        match target.fuzz(args) {
            Ok(()) if args.keep => target.keep()?,
            Ok(()) => {}
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n       ")) }
}

fn names(root: &Path) -> Result<Vec<String>, String> {
    let entries = files(&root.join(CORPUS)).map_err(|e| format!("{CORPUS}: {e}"))?;
    Ok(entries.iter().filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect())
}

fn build(root: &Path) -> Result<PathBuf, String> {
    let host = host()?;
    let mut words = BUILD.to_vec();
    // With a target the flags are not those of build scripts and macros, which run without libFuzzer.
    words.extend(["--target", &host, "--target-dir", WORK]);
    println!("+ RUSTFLAGS='{RUSTFLAGS}' cargo build {}", words.join(" "));
    crate::programs::build(root, &words, &[("RUSTFLAGS", RUSTFLAGS)])
}

fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output().map_err(|e| format!("cannot run rustc: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV does not say for which host it is".into())
}

/// A target and its folders.
struct Target<'a> {
    program: &'a Path,
    name: String,
    /// The file of the tree.
    corpus: PathBuf,
    /// What it holds, unpacked, with the seeds.
    kept: PathBuf,
    found: PathBuf,
    crashes: PathBuf,
}

impl Target<'_> {
    fn new<'a>(root: &Path, program: &'a Path, name: String) -> Target<'a> {
        let below = |folder: &str| root.join(WORK).join(folder).join(&name);
        let (kept, found, crashes) = (below("kept"), below("found"), below("crashes"));
        let corpus = root.join(CORPUS).join(&name).with_extension("bin");
        Target { program, corpus, kept, found, crashes, name }
    }

    fn prepare(&self) -> io::Result<()> {
        // Written anew by the program.
        if self.kept.exists() {
            fs::remove_dir_all(&self.kept)?;
        }
        [&self.kept, &self.found, &self.crashes].into_iter().try_for_each(fs::create_dir_all)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.env("WEIR_FUZZ_TARGET", &self.name).env("WEIR_FUZZ_CORPUS", &self.kept);
        command.arg(format!("-max_len={INPUT_BYTES_MAX}"));
        command.args([format!("-timeout={INPUT_S_MAX}"), format!("-rss_limit_mb={MEMORY_MB_MAX}")]);
        command.arg(format!("-artifact_prefix={}/", self.crashes.display()));
        command
    }

    fn fuzz(&self, args: &Args) -> Result<(), String> {
        let before = files(&self.crashes).unwrap_or_default();
        let mut command = self.command();
        command.args([format!("-seed={}", args.seed), "-print_final_stats=1".into()]);
        match args.runs {
            Some(runs) => command.arg(format!("-runs={runs}")),
            None => command.arg(format!("-max_total_time={}", args.seconds.unwrap_or(DEFAULT_S))),
        };
        command.args([&self.found, &self.kept]);
        if run(&self.name, command)? {
            return Ok(());
        }
        let after = files(&self.crashes).unwrap_or_default();
        let fresh: Vec<String> =
            after.iter().filter(|file| !before.contains(file)).map(|file| file.display().to_string()).collect();
        let name = &self.name;
        Err(match fresh.is_empty() {
            true => format!("target `{name}` failed; its message is above"),
            false => format!("target `{name}` panics; run: cargo run -p fuzz -- {name} {}", fresh.join(" ")),
        })
    }

    /// Packs the smallest set of inputs that reaches the same edges, of all that are known.
    fn keep(&self) -> Result<(), String> {
        let least = self.found.with_extension("least");
        let failed = |e: io::Error| format!("cannot use {}: {e}", least.display());
        if least.exists() {
            fs::remove_dir_all(&least).map_err(failed)?;
        }
        fs::create_dir_all(&least).map_err(failed)?;
        let mut command = self.command();
        command.args(["-set_cover_merge=1", "-use_counters=0"]).args([&least, &self.kept, &self.found]);
        if !run(&self.name, command)? {
            return Err(format!("inputs of `{}` cannot be merged; the message is above", self.name));
        }
        let inputs = files(&least).and_then(|paths| paths.iter().map(fs::read).collect::<io::Result<Vec<_>>>());
        let packed = pack(inputs.map_err(failed)?);
        fs::write(&self.corpus, packed).map_err(|e| format!("cannot write {}: {e}", self.corpus.display()))
    }
}

/// As `fuzz::corpus` reads them.
fn pack(mut inputs: Vec<Vec<u8>>) -> Vec<u8> {
    inputs.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    inputs.iter().flat_map(|input| [&(input.len() as u16).to_be_bytes()[..], input].concat()).collect()
}

/// False: it has failed.
fn run(name: &str, mut command: Command) -> Result<bool, String> {
    println!("+ WEIR_FUZZ_TARGET={name} {command:?}");
    let status = command.status().map_err(|e| format!("cannot run the target `{name}`: {e}"))?;
    Ok(status.success())
}

/// What is in a folder, in order.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_packed_the_shortest_first() {
        assert_eq!(pack(vec![b"bb".to_vec(), b"c".to_vec(), b"a".to_vec()]), b"\0\x01a\0\x01c\0\x02bb");
    }
}
