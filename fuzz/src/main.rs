//! `cargo run -p fuzz -- TARGET FILE...` runs inputs as the tests do, without libFuzzer, for a debugger.

use std::process::ExitCode;

use fuzz::{TARGETS, Target, target};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [name, files @ ..] if !files.is_empty() => named(name).and_then(|target| run(target, files)),
        _ => Err("usage: fuzz TARGET FILE...".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("fuzz: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn named(name: &str) -> Result<&'static Target, String> {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    target(name).ok_or_else(|| format!("target `{name}`: expected one of {}", names.join(", ")))
}

fn run(target: &Target, files: &[String]) -> Result<(), String> {
    for file in files {
        let bytes = std::fs::read(file).map_err(|error| format!("input {file}: {error}"))?;
        let reached = (target.run)(&bytes);
        println!("{file}: {}", reached.iter().collect::<Vec<_>>().join(", "));
    }
    Ok(())
}
