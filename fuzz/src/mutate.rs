//! Mutants of a corpus, the same for the same seed. Tests run them without observing coverage.

use rand::Rng;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::INPUT_BYTES_MAX;

/// The maximum number of changes of one input.
const CHANGES_MAX: u32 = 4;
/// The maximum number of bytes that one change copies, inserts or removes.
const PIECE_BYTES_MAX: usize = 64;
/// Powers of two at which numbers overflow, change their sign or lose precision.
const POWERS: [u32; 5] = [31, 32, 53, 63, 64];
/// Bytes at the limits of lengths, signs and types.
const EDGES: [u8; 10] = [0, 1, 2, 0x3f, 0x40, 0x7f, 0x80, 0xc0, 0xfe, 0xff];

pub struct Mutator<'a> {
    corpus: &'a [Vec<u8>],
    rng: ChaCha8Rng,
}

impl<'a> Mutator<'a> {
    pub fn new(corpus: &'a [Vec<u8>], seed: u64) -> Mutator<'a> {
        Mutator { corpus, rng: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// Returns the next mutant, of a random input.
    pub fn next_mutant(&mut self) -> Vec<u8> {
        let mut bytes = self.any_input().to_vec();
        for _ in 0..self.rng.random_range(1..=CHANGES_MAX) {
            self.change(&mut bytes);
        }
        bytes.truncate(INPUT_BYTES_MAX);
        bytes
    }

    fn any_input(&mut self) -> &'a [u8] {
        let corpus = self.corpus;
        if corpus.is_empty() { &[] } else { &corpus[self.rng.random_range(0..corpus.len())] }
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.rng.random_range(0..=bytes.len());
        match self.rng.random_range(0..9) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.rng.random_range(0..8),
            1 if at < bytes.len() => bytes[at] = self.rng.random(),
            2 if at < bytes.len() => bytes[at] = EDGES[self.rng.random_range(0..EDGES.len())],
            3 => {
                let end = bytes.len().min(at + self.rng.random_range(1..=PIECE_BYTES_MAX));
                bytes.drain(at..end);
            }
            4 => {
                let piece = self.piece_of(&bytes.clone());
                bytes.splice(at..at, piece);
            }
            5 => {
                let other = self.any_input();
                let piece = self.piece_of(other);
                bytes.splice(at..at, piece);
            }
            6 => {
                let other = self.any_input();
                let begin = self.rng.random_range(0..=other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[begin..]);
            }
            7 => self.change_number(bytes, at),
            _ => {
                let piece: Vec<u8> = (0..self.rng.random_range(1..=8)).map(|_| self.rng.random()).collect();
                bytes.splice(at..at, piece);
            }
        }
    }

    /// Writes a number near a power of two in place of the next number, or inserts one.
    fn change_number(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let power = 1i128 << POWERS[self.rng.random_range(0..POWERS.len())];
        let number = power + self.rng.random_range(-300..300);
        let text = if self.rng.random() { number.to_string() } else { format!("{number:x}") };
        let begin = bytes[at..].iter().position(u8::is_ascii_digit).map_or(at, |behind| at + behind);
        let digits = bytes[begin..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        bytes.splice(begin..begin + digits, text.into_bytes());
    }

    fn piece_of(&mut self, bytes: &[u8]) -> Vec<u8> {
        let begin = self.rng.random_range(0..=bytes.len());
        let end = bytes.len().min(begin + self.rng.random_range(1..=PIECE_BYTES_MAX));
        bytes[begin..end].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_become_those_near_powers_of_two() {
        let corpus = [b"Content-Length: 5\r\n".to_vec()];
        let mut mutator = Mutator::new(&corpus, 1);
        let lengths: Vec<String> = (0..200)
            .map(|_| {
                let mut bytes = corpus[0].clone();
                mutator.change_number(&mut bytes, 3);
                String::from_utf8(bytes).unwrap()
            })
            .collect();
        assert!(lengths.iter().all(|text| text.starts_with("Content-Length: ") && text.ends_with("\r\n")));
        for near in ["214748", "429496", "900719925", "92233720368547", "184467440737095", "1000000000000"] {
            assert!(lengths.iter().any(|text| text["Content-Length: ".len()..].starts_with(near)), "{near}");
        }
    }

    #[test]
    fn a_seed_has_its_mutants() {
        let counted = (0..INPUT_BYTES_MAX).map(|at| (at % 251) as u8).collect();
        let corpus = [b"GET / HTTP/1.1\r\n\r\n".to_vec(), b"PRI".to_vec(), counted];
        let of = |seed| {
            let mut mutator = Mutator::new(&corpus, seed);
            (0..1000).map(|_| mutator.next_mutant()).collect::<Vec<_>>()
        };
        let mutants = of(1);
        assert_eq!(mutants, of(1));
        assert_ne!(mutants, of(2));
        assert!(mutants.iter().all(|mutant| mutant.len() <= INPUT_BYTES_MAX));
        assert!(mutants.iter().collect::<BTreeSet<_>>().len() > 900, "nearly all differ");
    }
}
