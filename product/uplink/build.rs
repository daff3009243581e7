//! Compiles the BPF programs in `bpf/` with clang and embeds them, so that no target machine needs a compiler.
//!
//! Does so only with the feature `bpf`. If no clang is found, the build continues with empty programs: the server is
//! complete without them, and a command that needs one reports why it is missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use sched::policy::Srrt;

#[path = "src/constants.rs"]
mod constants;

/// The compilers to try, newest first. Versions before 15 generate code for reference-counted pointers that the
/// verifier rejects.
const CLANGS: &[&str] =
    &["clang-22", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang"];
const CLANG_MAJOR_MIN: u32 = 15;
/// Object, source, and additional compiler flags.
const PROGRAMS: &[(&str, &str, &[&str])] = &[
    ("classify", "classify", &[]),
    // A kernel that interprets programs (no JIT) lets them neither call its own functions nor be called back.
    ("classify-interpreted", "classify", &["-DINTERPRETED"]),
    ("trial", "trial", &[]),
    ("rank-test", "rank-test", &[]),
    ("client-test", "client-test", &[]),
    ("tracked-test", "tracked-test", &[]),
];

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=WEIR_CLANG");
    if std::env::var_os("CARGO_FEATURE_BPF").is_none() {
        return;
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    std::fs::write(out.join("constants.h"), header()).expect("OUT_DIR can be written");
    let clang = find_clang();
    if clang.is_none() {
        println!("cargo:warning=no clang {CLANG_MAJOR_MIN} or newer: weir is built without its BPF programs");
        // A file that never exists makes cargo look for clang again at each build.
        println!("cargo:rerun-if-changed={}", out.join("clang").display());
    }
    for (name, source, flags) in PROGRAMS {
        let object = out.join(format!("{name}.bpf.o"));
        match &clang {
            Some(clang) => compile(clang, flags, &Path::new("bpf").join(format!("{source}.bpf.c")), &out, &object),
            None => std::fs::write(&object, []).expect("OUT_DIR can be written"),
        }
    }
}

/// Returns the constants that the programs share with this crate and `sched`, as macros.
fn header() -> String {
    use constants::*;
    let numbers = [
        ("LAYOUT", u64::from(LAYOUT)),
        ("BANDS_MAX", BANDS_MAX as u64),
        ("BAND_DATA_FIRST", BAND_DATA_FIRST as u64),
        ("CUTS_MAX", CUTS_MAX as u64),
        ("CUT_PLACES", CUT_PLACES as u64),
        ("CUT_NONE", CUT_NONE),
        ("PORT_WORDS", PORT_WORDS as u64),
        ("CUTS_AT", CUTS_AT as u64),
        ("PRIORITIES_AT", PRIORITIES_AT as u64),
        ("PORTS_AT", PORTS_AT as u64),
        ("SHARE_AT", SHARE_AT as u64),
        ("CLASSES_MAX", CLASSES_MAX as u64),
        ("RULES_MAX", RULES_MAX as u64),
        ("RULE_BYTES", RULE_BYTES as u64),
        ("CLASSES_AT", CLASSES_AT as u64),
        ("RULES_AT", RULES_AT as u64),
        ("CLASSES_TEXT_AT", CLASSES_TEXT_AT as u64),
        ("CLASSES_TEXT_BYTES", CLASSES_TEXT_BYTES as u64),
        ("SETTINGS_BYTES", SETTINGS_BYTES as u64),
        ("COUNTERS_RESPONSES_AT", COUNTERS_RESPONSES_AT as u64),
        ("PATHS_COUNT", PATHS_COUNT as u64),
        ("PATH_BYTES", PATH_BYTES as u64),
        ("SIZE_STEPS", SIZE_STEPS as u64),
        ("SIZE_BUCKETS", SIZE_BUCKETS as u64),
        ("RTT_ASSUMED_US", Srrt::RTT_ASSUMED.0 / 1000),
        ("CWND_ASSUMED_BYTES", Srrt::CWND_ASSUMED_BYTES),
    ];
    numbers.iter().map(|(name, number)| format!("#define {name} {number}\n")).collect()
}

fn find_clang() -> Option<String> {
    let given = std::env::var("WEIR_CLANG").ok();
    let names = given.iter().map(String::as_str).chain(CLANGS.iter().copied());
    names.map(str::to_owned).find(|name| major(name).is_some_and(|major| major >= CLANG_MAJOR_MIN))
}

/// Returns the major version that a clang reports; `None` if there is no clang by this name.
fn major(clang: &str) -> Option<u32> {
    let output = Command::new(clang).arg("-dumpversion").output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().split('.').next()?.parse().ok()
}

fn compile(clang: &str, flags: &[&str], source: &Path, out: &Path, object: &Path) {
    let headers = std::env::var("DEP_BPF_INCLUDE").expect("libbpf-sys tells where its headers are");
    let status = Command::new(clang)
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-fno-ident"])
        .arg(format!("-I{headers}"))
        // Debian keeps asm/ in the folder of the architecture, which clang leaves out for the target bpf.
        .arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH))
        .arg(format!("-I{}", out.display()))
        // The object contains no path of this machine, so builds are reproducible.
        .arg(format!("-ffile-prefix-map={}=uplink", std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")))
        .arg(format!("-ffile-prefix-map={headers}=libbpf"))
        .arg(format!("-ffile-prefix-map={}=out", out.display()))
        .args(["-Ibpf", "-fdebug-compilation-dir=uplink", "-c"])
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(object)
        .status()
        .unwrap_or_else(|error| panic!("cannot run {clang}: {error}"));
    assert!(status.success(), "{clang} does not compile {}", source.display());
}
