//! Codings with a dictionary (RFC 9842): bytes that the client has and to which the coded bytes refer.
//!
//! A stream begins with the digest of its dictionary, so that a client with another dictionary gets an error instead of
//! a wrong page.

use std::io;

use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderStateStruct};
use brotli::enc::{BrotliEncoderParams, StandardAlloc};
use http::{Coding, Codings, Digest};
use sha2::{Digest as _, Sha256};
use zstd::zstd_safe::{CCtx, CParameter, get_error_name};

use super::{Level, bits, brotli_bytes, encoder_bytes};

/// The permitted lengths of dictionaries. Shorter ones are useless; longer ones would make clients store too much for
/// one file. The windows of both codings reach the whole dictionary from the end of the longest file.
pub const DICTIONARY_BYTES: std::ops::RangeInclusive<u64> = 256..=4 << 20;

/// The codings that may have a dictionary.
pub const WITH_DICTIONARY: [Coding; 2] = [Coding::Brotli, Coding::Zstd];

/// The first bytes of Brotli and Zstandard streams with a dictionary (RFC 9842 sections 4 and 5). In Zstandard they are
/// a skippable frame.
const BROTLI_MAGIC: [u8; 4] = [0xff, b'D', b'C', b'B'];
pub(super) const ZSTD_MAGIC: [u8; 8] = [0x5e, 0x2a, 0x4d, 0x18, 0x20, 0, 0, 0];
/// The sizes of a Brotli window, as powers of two. One window spans dictionary and file.
const BROTLI_WINDOW_BITS: std::ops::RangeInclusive<u32> = 18..=24;
/// The number of bytes by which a Brotli window is shorter than a power of two (RFC 7932 section 9.1).
const WINDOW_GAP_BYTES: usize = 16;
/// The number of bytes by which the output buffer grows at a time.
const ROOM_BYTES: usize = 16 << 10;

/// Returns the SHA-256 digest of bytes.
pub fn digest_of(bytes: &[u8]) -> Digest {
    Sha256::digest(bytes).into()
}

/// Returns the codings of a set that may have a dictionary.
pub fn with_dictionary(codings: Codings) -> Codings {
    WITH_DICTIONARY.into_iter().filter(|coding| codings.has(*coding)).collect()
}

/// Encodes bytes with a dictionary and its digest, in one of the codings of [`WITH_DICTIONARY`].
pub fn encoded_with(
    coding: Coding,
    level: Level,
    bytes: &[u8],
    dictionary: &[u8],
    digest: &Digest,
) -> io::Result<Vec<u8>> {
    let number = level.number(coding);
    match coding {
        Coding::Brotli => brotli_with(number, bytes, dictionary, [&BROTLI_MAGIC[..], digest].concat()),
        Coding::Zstd => zstd_with(number, bytes, dictionary, [&ZSTD_MAGIC[..], digest].concat()),
        Coding::Gzip => Err(io::Error::other("gzip has no dictionaries")),
    }
}

/// Returns the memory that an encoder takes for a dictionary of this length, in addition to its input and output.
pub fn encoder_bytes_with(coding: Coding, level: Level, bytes: usize, dictionary_bytes: usize) -> usize {
    let both = bytes.saturating_add(dictionary_bytes);
    let needed = match (coding, level) {
        (Coding::Brotli, level) => brotli_bytes(level, window_bits(both), bytes),
        _ => encoder_bytes(coding, level, both),
    };
    needed.saturating_add(dictionary_bytes)
}

/// Returns the Brotli window, in bits, in which the last byte of a file can refer to the first byte of its dictionary.
/// `both` is the length of the two together.
fn window_bits(both: usize) -> u32 {
    bits(both.saturating_add(WINDOW_GAP_BYTES)).clamp(*BROTLI_WINDOW_BITS.start(), *BROTLI_WINDOW_BITS.end())
}

fn brotli_with(number: u8, bytes: &[u8], dictionary: &[u8], mut out: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut encoder = BrotliEncoderStateStruct::new(StandardAlloc::default());
    encoder.params = BrotliEncoderParams {
        quality: number.into(),
        lgwin: window_bits(dictionary.len() + bytes.len()) as i32,
        size_hint: bytes.len(),
        ..BrotliEncoderParams::default()
    };
    encoder.set_custom_dictionary(dictionary.len(), dictionary);
    // The crate turns Brotli's built-in words off when there is a dictionary. The format places the distances of those
    // words after the distances of the dictionary, which works while the window reaches all of both. Without the words,
    // pages are a twelfth longer.
    encoder.params.use_dictionary = true;
    let (mut left, mut at) = (bytes.len(), 0);
    while !encoder.is_finished() {
        let before = out.len();
        out.resize(before + ROOM_BYTES, 0);
        let (mut room, mut given) = (ROOM_BYTES, before);
        let is_well = encoder.compress_stream(
            BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
            &mut left,
            bytes,
            &mut at,
            &mut room,
            &mut out,
            &mut given,
            &mut None,
            &mut |_, _, _, _| (),
        );
        out.truncate(given);
        if !is_well {
            return Err(io::Error::other("Brotli fails with this dictionary"));
        }
    }
    Ok(out)
}

fn zstd_with(number: u8, bytes: &[u8], dictionary: &[u8], mut out: Vec<u8>) -> io::Result<Vec<u8>> {
    let failed = |code| io::Error::other(get_error_name(code));
    let mut context = CCtx::create();
    // The window is as long as the file is: while a part of that is decoded, the dictionary is in reach (RFC 8878
    // section 5).
    context.set_parameter(CParameter::CompressionLevel(number.into())).map_err(failed)?;
    context.ref_prefix(dictionary).map_err(failed)?;
    let before = out.len();
    out.resize(before + zstd::zstd_safe::compress_bound(bytes.len()), 0);
    let coded = context.compress2(&mut out[before..], bytes).map_err(failed)?;
    out.truncate(before + coded);
    Ok(out)
}

#[cfg(test)]
pub mod testing {
    use std::io::Read;

    use super::*;

    /// Returns the decoded bytes, as a client that has this dictionary decodes them.
    pub fn decoded_with(coding: Coding, coded: &[u8], dictionary: &[u8]) -> io::Result<Vec<u8>> {
        let magic = if coding == Coding::Brotli { &BROTLI_MAGIC[..] } else { &ZSTD_MAGIC };
        let head = [magic, &digest_of(dictionary)].concat();
        let Some(coded) = coded.strip_prefix(&head[..]) else { return Err(io::Error::other("another dictionary")) };
        let mut bytes = Vec::new();
        match coding {
            Coding::Brotli => {
                let mut decoder = brotli::Decompressor::new(coded, 4 << 10);
                assert!(decoder.attach_dictionary(dictionary.to_vec().into()));
                decoder.read_to_end(&mut bytes)?;
            }
            _ => {
                let mut decoder = zstd::stream::read::Decoder::with_ref_prefix(coded, dictionary)?;
                // The window of all clients: 8 MB, or 1.25 times the dictionary (RFC 9842 section 5).
                decoder.window_log_max(23)?;
                decoder.read_to_end(&mut bytes)?;
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::text;
    use super::testing::decoded_with;
    use super::*;

    #[test]
    fn a_new_version_is_coded_in_a_few_bytes() {
        let (before, mut after) = (text(60_000), text(60_000));
        after.splice(30_000..30_010, *b"Friday, 27");
        for coding in WITH_DICTIONARY {
            for level in [Level::Fast, Level::Best] {
                let coded = encoded_with(coding, level, &after, &before, &digest_of(&before)).unwrap();
                assert!(coded.len() < 200, "{coding:?} {level:?}: {}", coded.len());
                assert!(decoded_with(coding, &coded, &before).unwrap() == after, "{coding:?} {level:?}");
            }
        }
    }

    #[test]
    fn another_dictionary_decodes_nothing() {
        let (dictionary, bytes) = (text(5_000), text(9_000));
        for coding in WITH_DICTIONARY {
            let coded = encoded_with(coding, Level::Fast, &bytes, &dictionary, &digest_of(&dictionary)).unwrap();
            assert!(decoded_with(coding, &coded, &dictionary[1..]).is_err(), "{coding:?}");
        }
        assert!(encoded_with(Coding::Gzip, Level::Fast, &bytes, &dictionary, &[0; 32]).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Whatever file and dictionary have in common, the bytes come back. What they share may be at the very end of
        /// the dictionary, and go on in the file.
        #[test]
        fn bytes_come_back(
            parts in prop::collection::vec((0_usize..3_000, 0_usize..900, any::<u8>()), 1..9),
            dictionary_bytes in 256_usize..20_000,
            is_best in any::<bool>(),
        ) {
            let dictionary = text(dictionary_bytes);
            let mut bytes = dictionary[dictionary.len() - 100..].to_vec();
            for (from, len, noise) in parts {
                let from = from.min(dictionary.len());
                bytes.extend_from_slice(&dictionary[from..(from + len).min(dictionary.len())]);
                bytes.extend((0..len / 9).map(|at| (at as u8).wrapping_mul(noise)));
                bytes.extend_from_slice(&bytes.clone()[..bytes.len() / 3]);
            }
            let level = if is_best { Level::Best } else { Level::Fast };
            for coding in WITH_DICTIONARY {
                let coded = encoded_with(coding, level, &bytes, &dictionary, &digest_of(&dictionary)).unwrap();
                prop_assert!(decoded_with(coding, &coded, &dictionary).unwrap() == bytes, "{:?}", coding);
            }
        }
    }
}
