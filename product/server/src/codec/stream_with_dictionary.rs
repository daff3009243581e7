//! Zstandard of streams with a dictionary (RFC 9842).
//!
//! A stream refers to its dictionary until it is as long as its window (RFC 8878 section 5), so the window has to be as
//! long as the page. The library keeps the window and one more block, a block of output, and its matches. With blocks
//! of 16 KiB the state for a page of 64 KiB is within the bound of all streams, and the state for 256 KiB within twice
//! that bound. With blocks of 6.5 KiB the state for a page of 128 KiB is within the bound too, for 4 to 6 % more bytes.
//! Brotli would take megabytes.

use std::sync::Arc;

use http::{Digest, Length};
use self_cell::self_cell;
use zstd::zstd_safe::{CCtx, CParameter};

use super::dictionary::ZSTD_MAGIC;
use super::stream::{STREAM_BYTES, ZSTD_BLOCK_BYTES};

/// The maximum length of a program's page that becomes a dictionary, and of a dictionary for a stream. The event loop
/// reads the whole dictionary when the stream begins.
pub const PAGE_BYTES_MAX: u64 = 256 << 10;

/// The level: the fast strategy, whose single table finds just as many matches in a page that has changed little.
const LEVEL: i32 = 1;
/// The maximum length of a block for a window of 128 KiB. It is the largest multiple of 512 bytes that keeps the state
/// within [`STREAM_BYTES`].
const MIDDLE_BLOCK_BYTES: u32 = 13 << 9;
/// The base-2 logarithm of the number of entries in a table that the strategy does not use.
const UNUSED_TABLE_BITS: u32 = 13;

/// The number of bytes of a stream that may refer to its dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// 64 KiB.
    Short,
    /// 128 KiB, with no more memory than for 64 KiB and slightly longer output.
    Middle,
    /// 256 KiB.
    Long,
}

impl Reach {
    /// Returns the reach for a page of this length, if there is memory for one. A page of unknown length is assumed to
    /// have at most 128 KiB, as most pages have.
    pub fn of(length: Length, room_bytes: usize) -> Option<Reach> {
        let wanted = match length {
            Length::Known(bytes) if bytes <= Reach::Short.bytes() => Reach::Short,
            Length::Known(bytes) if bytes > Reach::Middle.bytes() => Reach::Long,
            Length::Known(_) | Length::Unknown => Reach::Middle,
        };
        [wanted, Reach::Middle].into_iter().find(|reach| reach.memory_bytes() <= room_bytes)
    }

    /// The maximum memory of the state of a stream, without its dictionary.
    pub fn memory_bytes(self) -> usize {
        match self {
            Reach::Short | Reach::Middle => STREAM_BYTES,
            Reach::Long => 2 * STREAM_BYTES,
        }
    }

    fn bytes(self) -> u64 {
        1 << self.window_bits()
    }

    fn window_bits(self) -> u32 {
        match self {
            Reach::Short => 16,
            Reach::Middle => 17,
            Reach::Long => 18,
        }
    }

    /// Returns the base-2 logarithm of the number of table entries.
    fn table_bits(self) -> u32 {
        match self {
            Reach::Short | Reach::Middle => 14,
            Reach::Long => 15,
        }
    }

    fn block_bytes(self) -> u32 {
        match self {
            Reach::Short | Reach::Long => ZSTD_BLOCK_BYTES,
            Reach::Middle => MIDDLE_BLOCK_BYTES,
        }
    }
}

type Context<'d> = CCtx<'d>;

self_cell!(
    /// The state of an encoder that refers to its dictionary.
    struct Referring {
        owner: Arc<[u8]>,
        #[covariant]
        dependent: Context,
    }
);

/// The encoder of one stream with a dictionary.
pub struct WithDictionary(Referring);

impl WithDictionary {
    pub(super) fn new(dictionary: Arc<[u8]>, reach: Reach) -> WithDictionary {
        const WITHIN: &str = "the parameter is within its bounds";
        WithDictionary(Referring::new(dictionary, |dictionary| {
            let mut context = CCtx::create();
            for parameter in [
                CParameter::CompressionLevel(LEVEL),
                CParameter::WindowLog(reach.window_bits()),
                CParameter::HashLog(reach.table_bits()),
                CParameter::ChainLog(UNUSED_TABLE_BITS),
                CParameter::MaxBlockSize(reach.block_bytes()),
            ] {
                context.set_parameter(parameter).expect(WITHIN);
            }
            context.ref_prefix(dictionary).expect("no stream has begun");
            context
        }))
    }

    /// Appends the header that precedes the stream.
    pub(super) fn put_head(digest: &Digest, out: &mut Vec<u8>) {
        out.extend_from_slice(&ZSTD_MAGIC);
        out.extend_from_slice(digest);
    }

    /// Runs the encoder.
    pub(super) fn run(&mut self, of: impl FnOnce(&mut CCtx<'_>)) {
        self.0.with_dependent_mut(|_, context| of(context));
    }

    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.borrow_dependent().sizeof()
    }
}

#[cfg(test)]
mod tests {
    use http::Coding;
    use proptest::prelude::*;

    use super::super::testing::{decoded_with, text};
    use super::super::{Streamed, digest_of};
    use super::*;

    fn coded(page: &[u8], parts: &[usize], dictionary: &[u8], reach: Reach) -> (Vec<u8>, usize) {
        let mut out = Vec::new();
        let mut encoder = Streamed::with(dictionary.into(), &digest_of(dictionary), reach, &mut out);
        let (mut rest, mut memory_bytes) = (page, 0);
        for part in parts {
            let (part, after) = rest.split_at(rest.len().min(*part));
            encoder.push(part, &mut out);
            encoder.flush(&mut out);
            rest = after;
        }
        encoder.push(rest, &mut out);
        memory_bytes = encoder.memory_bytes().unwrap().max(memory_bytes);
        encoder.finish(&mut out);
        memory_bytes = encoder.memory_bytes().unwrap().max(memory_bytes);
        (out, memory_bytes)
    }

    /// A page whose dictionary is its last version: a few bytes, however long it is within the reach.
    #[test]
    fn the_next_version_of_a_page_is_a_fraction() {
        for (reach, bytes) in [(Reach::Short, 60_000), (Reach::Middle, 125_000), (Reach::Long, 250_000)] {
            let (before, mut after) = (noise(bytes), noise(bytes));
            after[bytes / 2..bytes / 2 + 10].copy_from_slice(b"Friday, 27");
            let (out, memory_bytes) = coded(&after, &[10_000], &before, reach);
            assert!(out.len() < 1_000, "{reach:?}: {}", out.len());
            assert!(decoded_with(Coding::Zstd, &out, &before).unwrap() == after);
            assert!(memory_bytes <= reach.memory_bytes(), "{reach:?}: {memory_bytes}");
            assert!(decoded_with(Coding::Zstd, &out, &before[1..]).is_err(), "another dictionary");
        }
    }

    #[test]
    fn the_reach_goes_by_length_and_memory() {
        let of = |length, room_bytes| Reach::of(length, room_bytes);
        let (short, middle, long) = (64 << 10, 128 << 10, (128 << 10) + 1);
        let known = |bytes| of(Length::Known(bytes), usize::MAX);
        assert_eq!([known(short), known(short + 1)], [Some(Reach::Short), Some(Reach::Middle)]);
        assert_eq!([known(middle), known(long)], [Some(Reach::Middle), Some(Reach::Long)]);
        assert_eq!(of(Length::Unknown, usize::MAX), Some(Reach::Middle));
        assert_eq!(of(Length::Known(long), 2 * STREAM_BYTES - 1), Some(Reach::Middle));
        assert_eq!([of(Length::Known(short), STREAM_BYTES - 1), of(Length::Unknown, 0)], [None; 2]);
    }

    /// Bytes that have nothing in common with each other.
    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        std::iter::repeat_with(next).take(bytes).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Pages of any length, beyond the reach too, in any parts.
        #[test]
        fn bytes_come_back(
            page_bytes in 0_usize..400_000,
            dictionary_bytes in 256_usize..200_000,
            parts in prop::collection::vec(0_usize..90_000, 0..5),
            reach in prop::sample::select(vec![Reach::Short, Reach::Middle, Reach::Long]),
        ) {
            let (dictionary, mut page) = (text(dictionary_bytes), text(page_bytes));
            page.extend_from_slice(&noise(page_bytes / 5));
            page.extend_from_slice(&dictionary[dictionary_bytes / 3..]);
            let (out, memory_bytes) = coded(&page, &parts, &dictionary, reach);
            prop_assert!(decoded_with(Coding::Zstd, &out, &dictionary).unwrap() == page);
            prop_assert!(memory_bytes <= reach.memory_bytes(), "{memory_bytes}");
        }
    }
}
