//! Everything that a peer can send, each as a function of bytes that must not panic ([`TARGETS`]), and the inputs kept for it.
//!
//! A target is more than a parser called: it plays the caller's part as the bytes ask, and holds the answers to the bounds that are
//! promised. The same function is run three ways: by tests over its corpus and over mutants of it, from a fixed seed; by libFuzzer,
//! guided by coverage (`cargo xtask fuzz`); by hand on one file (`cargo run -p fuzz -- TARGET FILE`).
//!
//! An input is a program: an operation, its operands, the next operation ([`Input`]). So a mutation changes one thing that a peer does, and
//! frames and datagrams stay whole unless the program says otherwise. Any bytes are a program.

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

/// Bytes of an input: what is longer is longer by repetition, for which the programs have operations.
pub const INPUT_BYTES_MAX: usize = 4096;

pub struct Target {
    pub name: &'static str,
    /// Runs one input; a panic is a mistake of ours.
    pub run: fn(&[u8]) -> Reached,
    /// What the corpus has to reach together, and all that can be.
    pub reaches: &'static [&'static str],
    /// Inputs with a meaning, which a corpus grows from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// How many mutants a test runs: what takes a second or two.
    pub mutants: u32,
}

pub use targets::TARGETS;

/// Lengths near powers of two, for seeds: the last ones are those that no peer may give.
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
