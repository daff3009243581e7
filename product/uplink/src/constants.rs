//! The numbers shared by the BPF programs and the Rust code. build.rs reads this file too, and writes the numbers into
//! a header together with the assumptions of `sched` about paths. So each number has one definition, and a layout that
//! differs does not compile.

/// The layout version. Settings of a program from another version of weir, with another layout, are not read.
pub const LAYOUT: u32 = 15;
/// The number of bands of a tree (`prio` has 16): control packets, other traffic, then data.
pub const BANDS_MAX: usize = 16;
pub const BAND_DATA_FIRST: usize = 2;
/// Maximum number of cut points: one fewer than bands for responses.
pub const CUTS_MAX: usize = BANDS_MAX - BAND_DATA_FIRST - 1;
/// The number of places for cut points: a power of two minus one. Unused places hold the largest value.
pub const CUT_PLACES: usize = 15;
pub const CUT_NONE: u64 = i64::MAX as u64;
pub const PORT_WORDS: usize = 65536 / 64;
/// The maximum number of classes of responses, including the default; the next constant limits their rules. Each packet
/// is compared with all rules.
pub const CLASSES_MAX: usize = 16;
pub const RULES_MAX: usize = 64;
/// The size of `struct rule`.
pub const RULE_BYTES: usize = 40;
/// The maximum size of the classes as text, which only this crate reads.
pub const CLASSES_TEXT_BYTES: usize = 8192;

/// Offsets of the fields of `struct settings`, in bytes.
pub const SHARE_AT: usize = 16;
pub const CUTS_AT: usize = SHARE_AT + 32;
pub const PRIORITIES_AT: usize = CUTS_AT + CUT_PLACES * 8;
pub const CLASSES_AT: usize = PRIORITIES_AT + BANDS_MAX * 4;
pub const RULES_AT: usize = CLASSES_AT + 16 + CLASSES_MAX * 4;
pub const PORTS_AT: usize = RULES_AT + RULES_MAX * RULE_BYTES;
pub const CLASSES_TEXT_AT: usize = PORTS_AT + PORT_WORDS * 8;
pub const SETTINGS_BYTES: usize = CLASSES_TEXT_AT + CLASSES_TEXT_BYTES;

/// The offset in `struct counters`, in 64-bit words. Four words per band precede it, and seven words follow.
pub const COUNTERS_RESPONSES_AT: usize = BANDS_MAX * 4;

/// The number of buckets of response sizes per octave, from 1 byte on.
pub const SIZE_STEPS: usize = 4;
pub const SIZE_BUCKETS: usize = 64 * SIZE_STEPS;

/// The maximum number of flows whose round trips are tracked at the same time, and the size of `struct path`.
pub const PATHS_COUNT: usize = 1 << 14;
pub const PATH_BYTES: usize = 128;
