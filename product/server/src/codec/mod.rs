//! Content codings of byte strings in memory and of streams, and a check of coded bytes from elsewhere.
//!
//! Every function takes time in proportion to its input, from a few milliseconds for a page to seconds for a large
//! script at the best level, and additional memory. The caller chooses the thread and counts the memory.

mod compressible;
mod dictionary;
mod stream;
mod stream_with_dictionary;

use std::io::{self, BufRead, Read, Write};
use std::ops::RangeInclusive;

use brotli::enc::BrotliEncoderParams;
pub use compressible::is_compressible;
pub use dictionary::{DICTIONARY_BYTES, WITH_DICTIONARY, digest_of, encoded_with, encoder_bytes_with, with_dictionary};
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use http::Coding;
pub use stream::{STREAM_BYTES, STREAMED, Streamed};
pub use stream_with_dictionary::{PAGE_BYTES_MAX, Reach};

/// The lengths of bodies that are coded. In shorter responses the head is the larger part; longer ones would take too
/// much time and memory.
pub const CODED_BYTES: RangeInclusive<u64> = 256..=8 << 20;

/// The base-2 logarithm of the maximum Zstandard window in HTTP (RFC 9659).
const ZSTD_WINDOW_BITS_MAX: u32 = 23;
/// Brotli windows, as base-2 logarithms: the smallest is enough for the tables of all lengths, and the largest is
/// supported by every decoder (RFC 7932 section 9.1).
const BROTLI_WINDOW_BITS: RangeInclusive<u32> = 18..=22;

/// The effort of an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// For a form for which a client waits.
    Fast,
    /// For a form that is made once, while nobody waits.
    Best,
}

impl Level {
    /// Returns the number that the coding's library uses for this level.
    pub fn number(self, coding: Coding) -> u8 {
        match (coding, self) {
            (Coding::Brotli, Level::Fast) => 6,
            (Coding::Brotli, Level::Best) => 11,
            (Coding::Zstd, Level::Fast) => 3,
            (Coding::Zstd, Level::Best) => 19,
            (Coding::Gzip, Level::Fast) => 6,
            (Coding::Gzip, Level::Best) => 9,
        }
    }
}

/// Codes bytes in memory, at most as many as [`CODED_BYTES`] permits.
pub fn encoded(coding: Coding, level: Level, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let number = level.number(coding);
    let mut out = Vec::with_capacity(bytes.len() / 4);
    match coding {
        Coding::Gzip => {
            let mut encoder = GzEncoder::new(&mut out, flate2::Compression::new(number.into()));
            encoder.write_all(bytes)?;
            encoder.finish()?;
        }
        Coding::Zstd => out = zstd::bulk::compress(bytes, number.into())?,
        Coding::Brotli => {
            let params = BrotliEncoderParams {
                quality: number.into(),
                lgwin: brotli_window_bits(bytes.len()) as i32,
                size_hint: bytes.len(),
                ..BrotliEncoderParams::default()
            };
            brotli::BrotliCompress(&mut &bytes[..], &mut out, &params)?;
        }
    }
    Ok(out)
}

/// Returns the memory that an encoder takes for this many bytes, in addition to its input and output. The estimate is
/// on the high side.
pub fn encoder_bytes(coding: Coding, level: Level, bytes: usize) -> usize {
    let window = |bits: u32| 1_usize << bits;
    match (coding, level) {
        (Coding::Gzip, _) => 400 << 10,
        (Coding::Zstd, Level::Fast) => 2 << 20,
        // Two tables with four bytes for each position of the window, which may be twice as long as the input.
        (Coding::Zstd, Level::Best) => (2 << 20) + 16 * window(bits(bytes).min(ZSTD_WINDOW_BITS_MAX)),
        (Coding::Brotli, level) => brotli_bytes(level, brotli_window_bits(bytes), bytes),
    }
}

/// Returns the memory of a Brotli encoder, based on measured allocations.
fn brotli_bytes(level: Level, window_bits: u32, bytes: usize) -> usize {
    /// The block in which the best level searches the shortest path in one step. The next constant is the memory per
    /// byte of the block.
    const BLOCK_BYTES: usize = 256 << 10;
    const PER_BYTE: usize = 80;
    match level {
        // Tables, and the commands of a block.
        Level::Fast => (3 << 20) + (4 << window_bits) + bytes.saturating_mul(6),
        // A tree with two links for each position of the window, and the input.
        Level::Best => (512 << 10) + (12 << window_bits) + PER_BYTE * bytes.min(BLOCK_BYTES),
    }
}

fn brotli_window_bits(bytes: usize) -> u32 {
    bits(bytes).clamp(*BROTLI_WINDOW_BITS.start(), *BROTLI_WINDOW_BITS.end())
}

/// Returns the base-2 logarithm of the smallest power of two above this number.
fn bits(bytes: usize) -> u32 {
    usize::BITS - bytes.leading_zeros()
}

/// Returns the decoded length of coded bytes. Fails if the input is malformed, truncated, in another coding or followed
/// by other bytes, or if it decodes to more than `bytes_max`, because a few bytes may decode to very many.
pub fn decoded_bytes(coding: Coding, mut coded: impl BufRead, bytes_max: u64) -> io::Result<u64> {
    let count = match coding {
        Coding::Gzip => counted(MultiGzDecoder::new(&mut coded), bytes_max)?,
        Coding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(&mut coded)?;
            decoder.window_log_max(ZSTD_WINDOW_BITS_MAX)?;
            counted(decoder, bytes_max)?
        }
        Coding::Brotli => counted(brotli::Decompressor::new(&mut coded, 4 << 10), bytes_max)?,
    };
    if coded.fill_buf()?.is_empty() { Ok(count) } else { Err(io::Error::other("there are bytes behind its end")) }
}

fn counted(mut decoder: impl Read, bytes_max: u64) -> io::Result<u64> {
    let (mut buffer, mut count) = ([0; 16 << 10], 0);
    loop {
        match decoder.read(&mut buffer) {
            // The Brotli decoder reports bytes after the end only when it is read again.
            Ok(0) => return decoder.read(&mut buffer).map(|_| count),
            Ok(bytes) => count += bytes as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if count > bytes_max {
            return Err(io::Error::other(format!("decodes to more than {bytes_max} bytes")));
        }
    }
}

#[cfg(test)]
pub mod testing {
    pub use super::dictionary::testing::decoded_with;
    use super::*;

    /// Returns the decoded bytes.
    pub fn decoded(coding: Coding, coded: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let read = match coding {
            Coding::Gzip => MultiGzDecoder::new(coded).read_to_end(&mut bytes),
            Coding::Zstd => zstd::stream::read::Decoder::with_buffer(coded).unwrap().read_to_end(&mut bytes),
            Coding::Brotli => brotli::Decompressor::new(coded, 4 << 10).read_to_end(&mut bytes),
        };
        read.unwrap_or_else(|error| panic!("{coding:?}: {error}"));
        bytes
    }

    /// Returns text that every coding compresses to a fraction of its length.
    pub fn text(bytes: usize) -> Vec<u8> {
        let words = ["the", "link", "of", "a", "house", "carries", "pages", "and", "then", "files", "<p>", "</p>\n"];
        let word = |at: usize| words[(at * 7919 + at * at / 13) % words.len()];
        let mut text: Vec<u8> = (0..=bytes / 2).flat_map(|at| [word(at), " "].concat().into_bytes()).collect();
        text.truncate(bytes);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{decoded, text};
    use super::*;

    #[test]
    fn each_level_of_each_coding_gives_the_bytes_back() {
        for bytes in [0, 1, 256, 70_000, 1_100_000] {
            let plain = text(bytes);
            for coding in Coding::ALL {
                let [fast, best] = [Level::Fast, Level::Best].map(|level| encoded(coding, level, &plain).unwrap());
                assert!(decoded(coding, &fast) == plain && decoded(coding, &best) == plain, "{coding:?} {bytes}");
                assert!(bytes < 10_000 || fast.len() < bytes / 2 && best.len() <= fast.len(), "{coding:?} {bytes}");
                assert_eq!(decoded_bytes(coding, &fast[..], bytes as u64).unwrap(), bytes as u64);
            }
        }
    }

    #[test]
    fn what_does_not_decode_to_its_file_is_refused() {
        let plain = text(5_000);
        for coding in Coding::ALL {
            let coded = encoded(coding, Level::Fast, &plain).unwrap();
            let of = |bytes: &[u8]| decoded_bytes(coding, bytes, 5_000);
            assert!(of(&coded[..coded.len() - 1]).is_err(), "{coding:?}: cut");
            assert!(of(&coded[..coded.len() / 2]).is_err(), "{coding:?}: cut in the middle");
            assert!(of(&plain).is_err(), "{coding:?}: not coded");
            for more in [1, 100, 10_000] {
                assert!(of(&[&coded[..], &vec![b'x'; more]].concat()).is_err(), "{coding:?}: {more} bytes behind it");
            }
            assert!(decoded_bytes(coding, &coded[..], 4_999).is_err(), "{coding:?}: more than allowed");
            for other in Coding::ALL.into_iter().filter(|other| *other != coding) {
                let other = encoded(other, Level::Fast, &plain).unwrap();
                assert!(of(&other).is_err(), "{coding:?}: another coding");
            }
        }
    }

    /// A hundred megabytes of zeros in a few kilobytes.
    #[test]
    fn a_bomb_is_refused_before_it_is_unpacked() {
        let zeros = vec![0; 8 << 20];
        for coding in Coding::ALL {
            let bomb = encoded(coding, Level::Fast, &zeros).unwrap();
            assert!(bomb.len() < 20_000, "{coding:?}: {}", bomb.len());
            let error = decoded_bytes(coding, &bomb[..], 1_000).unwrap_err();
            assert!(error.to_string().contains("more than 1000 bytes"), "{coding:?}: {error}");
        }
    }

    #[test]
    fn text_is_compressible_and_pictures_are_not() {
        for mime in
            ["text/html; charset=utf-8", "TEXT/CSS", "application/json", "image/svg+xml", "font/ttf", "a/b+json; x"]
        {
            assert!(is_compressible(mime), "{mime}");
        }
        for mime in [
            "image/png",
            "video/mp4",
            "font/woff2",
            "application/zip",
            "application/octet-stream",
            "",
            "text",
            "é",
            "+xm",
        ] {
            assert!(!is_compressible(mime), "{mime}");
        }
    }
}
