//! Computes a digest of the sources that determine the results of a simulation. The key of a kept run of a sweep
//! includes it, so no table ever mixes runs of two different models, and no version number has to be raised by hand.
//!
//! It is deliberately simple: any change of these files counts, even in a comment, and the whole of `Cargo.lock`
//! represents the external crates.

use std::fs;
use std::path::{Path, PathBuf};

/// The models, their dependencies, and the code that creates a configuration from a spec, relative to this crate's
/// folder.
const SOURCES: [&str; 8] = [
    "../sim/src",
    "../../core/sched/src",
    "../workload/src",
    "../stats/src",
    "../../core/units/src",
    "src/sim",
    "src/trace.rs",
    "../../Cargo.lock",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let mut files = Vec::new();
    for source in SOURCES {
        println!("cargo:rerun-if-changed={source}");
        collect(Path::new(source), &mut files);
    }
    files.sort();
    let mut digest = FNV_BASIS;
    for file in &files {
        let text = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        digest = add(add(digest, file.as_os_str().as_encoded_bytes()), &text);
    }
    println!("cargo:rustc-env=WEIR_MODEL_DIGEST={digest:016x}");
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if !path.is_dir() {
        return files.push(path.into());
    }
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for entry in entries.flatten() {
        collect(&entry.path(), files);
    }
}

/// FNV-1a, 64 bits (RFC 9923): protects against accidents, not adversaries.
const FNV_BASIS: u64 = 0xcbf29ce484222325;

/// Adds the bytes and a mark of their end.
fn add(digest: u64, bytes: &[u8]) -> u64 {
    let add = |digest: u64, byte: u8| (digest ^ u64::from(byte)).wrapping_mul(0x100000001b3);
    add(bytes.iter().fold(digest, |digest, &byte| add(digest, byte)), 0)
}
