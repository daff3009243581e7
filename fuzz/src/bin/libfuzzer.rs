//! Runs the targets under libFuzzer, one at a time. `cargo xtask fuzz` builds this with coverage counters and passes
//! the target and the folder for the corpus.

#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use fuzz::{Target, corpus, target};
use libfuzzer_sys::fuzz_target;

/// The variable with the name of the target.
const TARGET: &str = "WEIR_FUZZ_TARGET";
/// The variable with the folder for the corpus.
const CORPUS: &str = "WEIR_FUZZ_CORPUS";

static CHOSEN: OnceLock<&Target> = OnceLock::new();

fuzz_target!(init: unpack(), |bytes: &[u8]| {
    (chosen().run)(bytes);
});

fn unpack() {
    if let Some(folder) = std::env::var_os(CORPUS) {
        corpus::write(chosen(), Path::new(&folder)).unwrap_or_else(|error| panic!("{CORPUS}: {error}"));
    }
}

fn chosen() -> &'static Target {
    CHOSEN.get_or_init(|| {
        let name = std::env::var(TARGET).unwrap_or_default();
        target(&name).unwrap_or_else(|| panic!("{TARGET}={name}: expected a target; run: cargo xtask fuzz"))
    })
}
