//! Codings of streams: bytes in and bytes out, with a bounded state for each stream.
//!
//! For each stream, gzip with its usual window of 32 KiB takes 380 KB, and Zstandard with a window of a megabyte far
//! more; a hundred clients that read slowly would hold all the memory of a small server. Here the window of gzip is 16
//! KiB, which makes pages a few percent longer. Zstandard has blocks of 16 KiB, which leave enough memory for a window
//! of 64 KiB: a page of 67 KB then has a sixth fewer bytes than with a window of 16 KiB. Brotli has no encoder that
//! fits, since its smallest tables take twice the bound.

use std::sync::Arc;

use http::{Coding, Digest};
use zlib_rs::{Deflate, DeflateConfig, DeflateFlush, Status};
use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use super::stream_with_dictionary::{Reach, WithDictionary};

/// The maximum memory of the state of a stream.
pub const STREAM_BYTES: usize = 256 << 10;

/// The level of gzip: two thirds of the time of level 6, for 2 % more bytes.
const GZIP_LEVEL: i32 = 5;
const ZSTD_LEVEL: i32 = 3;
/// The base-2 logarithms of the windows.
const GZIP_WINDOW_BITS: u8 = 14;
const ZSTD_WINDOW_BITS: u32 = 16;
/// The maximum length of a Zstandard block. The state holds one block uncoded and one coded.
pub(super) const ZSTD_BLOCK_BYTES: u32 = 16 << 10;
/// The flag, added to the window size, that selects the gzip format instead of zlib's.
const GZIP_FORMAT: i32 = 16;
/// The base-2 logarithm that determines the size of a gzip block: at most 64 times this power of two of literals and
/// matches.
const GZIP_BLOCK: i32 = 6;
/// The base-2 logarithm of the number of entries in each of the two Zstandard tables.
const ZSTD_TABLE_BITS: u32 = 13;
/// The number of bytes by which the output buffer grows at a time.
const ROOM_BYTES: usize = 4 << 10;

/// The encoder of one stream.
pub enum Streamed {
    Gzip(Box<Deflate>),
    Zstd(CCtx<'static>),
    ZstdWith(WithDictionary),
}

/// The codings of streams.
pub const STREAMED: [Coding; 2] = [Coding::Zstd, Coding::Gzip];

/// The action after the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    Flush,
    End,
}

impl Streamed {
    /// Creates the encoder of a coding out of [`STREAMED`].
    pub fn new(coding: Coding) -> Streamed {
        if coding == Coding::Gzip {
            let window_bits = i32::from(GZIP_WINDOW_BITS) + GZIP_FORMAT;
            let config = DeflateConfig { window_bits, mem_level: GZIP_BLOCK, ..DeflateConfig::new(GZIP_LEVEL) };
            return Streamed::Gzip(Box::new(Deflate::new_with_config(config)));
        }
        debug_assert_eq!(coding, Coding::Zstd, "Brotli is no coding of streams");
        let mut context = CCtx::create();
        for parameter in [
            CParameter::CompressionLevel(ZSTD_LEVEL),
            CParameter::WindowLog(ZSTD_WINDOW_BITS),
            CParameter::HashLog(ZSTD_TABLE_BITS),
            CParameter::ChainLog(ZSTD_TABLE_BITS),
            CParameter::MaxBlockSize(ZSTD_BLOCK_BYTES),
        ] {
            context.set_parameter(parameter).expect("the parameter is within its bounds");
        }
        Streamed::Zstd(context)
    }

    /// Creates a Zstandard encoder with a dictionary that has this digest. Appends the header that precedes the stream.
    pub fn with(dictionary: Arc<[u8]>, digest: &Digest, reach: Reach, out: &mut Vec<u8>) -> Streamed {
        WithDictionary::put_head(digest, out);
        Streamed::ZstdWith(WithDictionary::new(dictionary, reach))
    }

    /// Appends the output for these bytes. Bytes that produce no output yet are kept.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.run(bytes, out, Then::GoOn);
    }

    /// Appends the output for all kept bytes, so that a client can decode every byte pushed so far.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        self.run(&[], out, Then::Flush);
    }

    /// Appends the rest and the end. Nothing may follow.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.run(&[], out, Then::End);
    }

    fn run(&mut self, bytes: &[u8], out: &mut Vec<u8>, then: Then) {
        match self {
            Streamed::Gzip(encoder) => deflate(encoder, bytes, out, then),
            Streamed::Zstd(context) => compress(context, bytes, out, then),
            Streamed::ZstdWith(with) => with.run(|context| compress(context, bytes, out, then)),
        }
    }

    /// Returns the memory of the encoder's state, if its library reports it.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> Option<usize> {
        match self {
            Streamed::Gzip(_) => None,
            Streamed::Zstd(context) => Some(context.sizeof()),
            Streamed::ZstdWith(with) => Some(with.memory_bytes()),
        }
    }
}

impl std::fmt::Debug for Streamed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Streamed::Gzip(_) => "gzip",
            Streamed::Zstd(_) => "zstd",
            Streamed::ZstdWith(_) => "dcz",
        })
    }
}

fn deflate(encoder: &mut Deflate, mut bytes: &[u8], out: &mut Vec<u8>, then: Then) {
    let flush = match then {
        Then::GoOn => DeflateFlush::NoFlush,
        Then::Flush => DeflateFlush::SyncFlush,
        Then::End => DeflateFlush::Finish,
    };
    loop {
        let before = out.len();
        out.resize(before + ROOM_BYTES, 0);
        let (taken, given) = (encoder.total_in(), encoder.total_out());
        let status = encoder.compress(bytes, &mut out[before..], flush).expect("the state is that of an open stream");
        let given = (encoder.total_out() - given) as usize;
        bytes = &bytes[(encoder.total_in() - taken) as usize..];
        out.truncate(before + given);
        // If room is left, only bytes that a later call has to give are kept.
        if status == Status::StreamEnd || (given < ROOM_BYTES && bytes.is_empty() && then != Then::End) {
            return;
        }
    }
}

fn compress(context: &mut CCtx<'_>, bytes: &[u8], out: &mut Vec<u8>, then: Then) {
    const OPEN: &str = "the state is that of an open stream";
    let mut input = InBuffer::around(bytes);
    loop {
        let before = out.len();
        out.reserve(ROOM_BYTES);
        let left = {
            let mut output = OutBuffer::around_pos(out, before);
            match then {
                Then::GoOn => context.compress_stream(&mut output, &mut input).expect(OPEN),
                Then::Flush => context.flush_stream(&mut output).expect(OPEN),
                Then::End => context.end_stream(&mut output).expect(OPEN),
            }
        };
        let is_done = if then == Then::GoOn { input.pos() == bytes.len() } else { left == 0 };
        if is_done {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{decoded, text};
    use super::*;

    proptest! {
        /// All bytes come back, in whatever parts they come and are flushed; those before a flush come back without
        /// the rest.
        #[test]
        fn what_was_pushed_comes_back(
            parts in prop::collection::vec((0_usize..40_000, any::<bool>()), 0..12),
            coding in prop::sample::select(STREAMED.to_vec()),
            is_noise in any::<bool>(),
        ) {
            let (mut encoder, mut out, mut pushed) = (Streamed::new(coding), Vec::new(), Vec::new());
            let noise = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0];
            for (bytes, is_flushed) in parts {
                let part: Vec<u8> = match is_noise {
                    true => (pushed.len()..pushed.len() + bytes).map(noise).collect(),
                    false => text(bytes),
                };
                encoder.push(&part, &mut out);
                pushed.extend_from_slice(&part);
                if is_flushed {
                    encoder.flush(&mut out);
                    prop_assert!(begun(coding, &out, pushed.len()) == pushed);
                }
            }
            encoder.finish(&mut out);
            prop_assert!(decoded(coding, &out) == pushed);
            prop_assert!(encoder.memory_bytes().is_none_or(|bytes| bytes <= STREAM_BYTES), "{:?}", encoder.memory_bytes());
        }
    }

    /// The first bytes of a stream that has no end yet.
    fn begun(coding: Coding, coded: &[u8], bytes: usize) -> Vec<u8> {
        let mut came = vec![0; bytes];
        let read = match coding {
            Coding::Gzip => std::io::Read::read_exact(&mut flate2::bufread::GzDecoder::new(coded), &mut came),
            _ => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(coded).unwrap();
                std::io::Read::read_exact(&mut decoder, &mut came)
            }
        };
        read.unwrap();
        came
    }

    #[test]
    fn streams_are_a_fraction_of_their_text() {
        let plain = text(200_000);
        for coding in STREAMED {
            let (mut encoder, mut out) = (Streamed::new(coding), Vec::new());
            plain.chunks(1_000).for_each(|part| encoder.push(part, &mut out));
            encoder.finish(&mut out);
            assert!(out.len() < plain.len() / 3, "{coding:?}: {}", out.len());
        }
    }
}
