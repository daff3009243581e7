//! The inputs that a peer can send, each as a function of bytes that must not panic ([`TARGETS`]), and the inputs kept
//! for it.
//!
//! A target is more than a call of a parser: it plays the caller's part as the bytes direct, and checks the results
//! against the guaranteed bounds. The same function is run in three ways: by tests over its corpus and over mutants of
//! it, from a fixed seed; by libFuzzer, guided by coverage (`cargo xtask fuzz`); by hand on one file (`cargo run -p
//! fuzz -- TARGET FILE`).
//!
//! An input is a program: an operation, its operands, the next operation ([`Input`]). A mutation therefore changes one
//! action of a peer, and frames and datagrams stay complete unless the program says otherwise. Any bytes are a valid
//! program.

pub mod corpus;
mod input;
mod mutate;
mod reached;
mod script;
mod targets;

pub use input::Input;
pub use mutate::Mutator;
pub use reached::Reached;
pub use script::Script;

/// The maximum bytes of an input. Longer inputs would only add repetition, for which the programs have operations.
pub const INPUT_BYTES_MAX: usize = 4096;

pub struct Target {
    pub name: &'static str,
    /// Runs one input; a panic is a bug.
    pub run: fn(&[u8]) -> Reached,
    /// The marks that the corpus must reach together, which are all that exist.
    pub reaches: &'static [&'static str],
    /// Meaningful inputs, from which a corpus grows.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// The number of mutants in a test, which take a second or two.
    pub mutants: u32,
}

pub use targets::TARGETS;

/// Lengths near powers of two, for seeds; the last ones are not allowed from any peer.
pub const LENGTHS: [&str; 9] = [
    "2147483648",
    "4294967295",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551504",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
];

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
