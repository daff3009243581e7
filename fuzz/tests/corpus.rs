//! Runs all kept inputs, and mutants of them from a fixed seed, without libFuzzer, as part of the ordinary tests.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use fuzz::{INPUT_BYTES_MAX, Mutator, Reached, TARGETS, Target, corpus, target};

const SEED: u64 = 1;
/// The maximum bytes of all kept inputs.
const CORPUS_BYTES_MAX: u64 = 300_000;

/// Runs one input; if it panics, it is written to a file that the panic message names.
fn run(target: &Target, name: &str, bytes: &[u8]) -> Reached {
    catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))).unwrap_or_else(|_| {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{}", target.name));
        std::fs::write(&file, bytes).unwrap();
        panic!("{name}: run `cargo run -p fuzz -- {} {}`", target.name, file.display())
    })
}

/// Checks that the corpus reaches the target's marks, and that no mutant panics.
fn check(name: &str) {
    let target = target(name).expect("a target");
    let inputs = corpus::read(target).unwrap();
    let mut reached = Reached::default();
    for (nth, input) in inputs.iter().enumerate() {
        reached.merge(run(target, &format!("input {nth}"), input));
    }
    assert_eq!(reached.iter().collect::<Vec<_>>(), target.reaches, "the corpus of `{name}` reaches what it is for");
    let mut mutator = Mutator::new(&inputs, SEED);
    for nth in 0..target.mutants {
        run(target, &format!("mutant {nth} of seed {SEED}"), &mutator.next_mutant());
    }
}

/// Defines a test for each target, and checks that none is missing.
macro_rules! targets {
    ($($test:ident $name:literal)*) => {
        $(#[test]
        fn $test() {
            check($name);
        })*

        #[test]
        fn every_target_has_its_test() {
            assert_eq!(TARGETS.iter().map(|target| target.name).collect::<Vec<_>>(), [$($name),*]);
        }
    };
}

targets! {
    http1 "http1"
    upstream "upstream"
    fastcgi "fastcgi"
    connection "connection"
    h2 "h2"
    h2_client "h2-client"
    h3 "h3"
    datagrams "datagrams"
    tls "tls"
    qpack "qpack"
    config "config"
}

#[test]
fn the_corpus_is_small_and_of_targets_alone() {
    let mut total = 0;
    for target in TARGETS {
        let file = corpus::file(target.name);
        let kept = std::fs::metadata(&file).map_or(0, |data| data.len());
        assert!(kept > 0, "{}: no corpus; run `cargo xtask fuzz {} --keep`", file.display(), target.name);
        total += kept;
        let inputs = corpus::read(target).unwrap();
        assert!(inputs.iter().all(|input| input.len() <= INPUT_BYTES_MAX), "{}", target.name);
    }
    assert!(total <= CORPUS_BYTES_MAX, "{total} bytes");
    for entry in std::fs::read_dir(corpus::folder()).unwrap() {
        let path = entry.unwrap().path();
        assert!(TARGETS.iter().any(|target| corpus::file(target.name) == path), "{} is of no target", path.display());
    }
}
