//! The numbers that the BPF programs and the Rust beside them have to agree on. build.rs reads this file too and writes them, and what
//! `sched` assumes of paths, into a header: one definition, and a layout that differs does not compile.

/// A program of another version of weir, with another layout, is not read.
pub const LAYOUT: u32 = 7;
/// Bands of a tree (`prio` has 16): control packets, unclassified traffic, then data.
pub const BANDS_MAX: usize = 16;
pub const BAND_DATA_FIRST: usize = 2;
/// So many bands for responses have one cut less.
pub const CUTS_MAX: usize = BANDS_MAX - BAND_DATA_FIRST - 1;
pub const PORT_WORDS: usize = 65536 / 64;

/// Where the fields of `struct settings` lie, in bytes.
pub const CUTS_AT: usize = 16;
pub const PRIORITIES_AT: usize = CUTS_AT + CUTS_MAX * 8;
pub const PORTS_AT: usize = PRIORITIES_AT + BANDS_MAX * 4;
pub const SHARE_AT: usize = PORTS_AT + PORT_WORDS * 8;
pub const SETTINGS_BYTES: usize = SHARE_AT + 32;

/// Of `struct counters`, in words of 64 bits: two for each band, and behind them nine.
pub const COUNTERS_RESPONSES_AT: usize = BANDS_MAX * 2;

/// Sizes of responses: so many buckets per octave from 1 byte on.
pub const SIZE_STEPS: usize = 4;
pub const SIZE_BUCKETS: usize = 64 * SIZE_STEPS;
