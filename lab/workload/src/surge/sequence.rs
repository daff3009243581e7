//! Chooses the next file: Zipf's law in the long run, temporal locality in the short.
//!
//! Temporal locality is expressed by stack distances. All files are on a stack, with the last requested one on top, and
//! the distance of a request is the depth of its file. SURGE draws distances from a lognormal distribution of median
//! 4.5 and orders by them a list of requests whose number for each file follows Zipf's law. The two are incompatible in
//! an endless sequence: with those distances alone only the top of the stack would ever be requested. Most requests
//! here therefore go to a drawn distance ([`LOCAL_SHARE`]), and the others to a file that has had fewer than its share,
//! which moves it to the top, so a popular file returns before it has sunk. The sequence has no end, and its beginning
//! does not differ from the rest.

use rand::seq::SliceRandom;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Files;
use super::user::Lognormal;
use crate::sizes::unit;

/// The distribution of stack distances (Barford & Crovella 1998, table 2).
pub const STACK_DISTANCE: Lognormal = Lognormal { mu: 1.5, sigma: 0.80 };

/// The share of requests that go to a drawn distance. With more, unpopular files are too rare to satisfy Zipf's law
/// within 20,000 requests; with less, the median distance departs from the published one.
pub const LOCAL_SHARE: f64 = 0.8;

/// The number of files drawn by popularity, of which the one furthest behind its share is requested.
const CANDIDATES: usize = 4;

/// An endless sequence of requests for the files of a server.
#[derive(Debug, Clone)]
pub struct Sequence {
    files: Files,
    rng: ChaCha8Rng,
    /// The files by number, the last requested one at the end.
    stack: Vec<u32>,
    /// The number of requests for each file.
    asked: Vec<u64>,
    requests: u64,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The number of the file by popularity, from 0.
    pub file: usize,
    pub size_bytes: u64,
    /// The depth of the file on the stack, from 1.
    pub distance: usize,
}

impl Sequence {
    /// The seed chooses the order.
    pub fn new(files: Files, seed: u64) -> Sequence {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut stack: Vec<u32> = (0..files.sizes().len() as u32).collect();
        stack.shuffle(&mut rng);
        Sequence { asked: vec![0; stack.len()], files, rng, stack, requests: 0 }
    }

    /// Returns the next request.
    pub fn refer(&mut self) -> Reference {
        self.requests += 1;
        let distance = self.local_distance().unwrap_or_else(|| self.distance_of_neglected());
        let index = self.stack.len() - distance;
        self.stack[index..].rotate_left(1);
        let file = self.stack[self.stack.len() - 1] as usize;
        self.asked[file] += 1;
        Reference { file, size_bytes: self.files.sizes()[file], distance }
    }

    fn local_distance(&mut self) -> Option<usize> {
        let is_local = unit(&mut self.rng) < LOCAL_SHARE;
        let distance = (STACK_DISTANCE.draw(&mut self.rng).round() as usize).max(1);
        (is_local && distance <= self.stack.len()).then_some(distance)
    }

    fn distance_of_neglected(&mut self) -> usize {
        let drawn: [usize; CANDIDATES] = std::array::from_fn(|_| self.files.draw_file(self.rng.next_u64()));
        let behind = |file: usize| self.files.share(file) * self.requests as f64 - self.asked[file] as f64;
        let most = drawn.into_iter().max_by(|&one, &other| behind(one).total_cmp(&behind(other))).unwrap_or(0);
        1 + self.stack.iter().rev().position(|&file| file as usize == most).unwrap_or(0)
    }
}

impl Iterator for Sequence {
    type Item = u64;

    /// Returns the bytes of the next requested file; never `None`.
    fn next(&mut self) -> Option<u64> {
        Some(self.refer().size_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surge::ServerModel;

    fn sequence(seed: u64) -> Sequence {
        Sequence::new(Files::matched(&ServerModel::HARCHOL_2003), seed)
    }

    #[test]
    fn the_seed_decides() {
        let take = |seed| sequence(seed).take(1000).collect::<Vec<u64>>();
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
    }

    #[test]
    fn popularity_is_zipfs() {
        const REQUESTS: usize = 20_000;
        let mut sequence = sequence(3);
        sequence.by_ref().take(REQUESTS).for_each(drop);
        for file in 0..30 {
            let expected = sequence.files.share(file) * REQUESTS as f64;
            let asked = sequence.asked[file] as f64;
            assert!((asked / expected - 1.0).abs() < 0.25, "file {file}: {asked} for {expected}");
        }
        assert_eq!(sequence.asked.iter().sum::<u64>(), REQUESTS as u64);
    }

    #[test]
    fn distances_are_counted_from_the_top() {
        let mut sequence = sequence(4);
        let mut stack: Vec<u32> = sequence.stack.clone();
        for _ in 0..5000 {
            let reference = sequence.refer();
            let depth = stack.iter().rev().position(|&file| file as usize == reference.file).unwrap() + 1;
            assert_eq!(reference.distance, depth);
            stack.retain(|&file| file as usize != reference.file);
            stack.push(reference.file as u32);
        }
    }

    #[test]
    fn locality_is_near_the_published_one() {
        let mut sequence = sequence(5);
        let mut distances: Vec<usize> = (0..20_000).map(|_| sequence.refer().distance).collect();
        distances.sort_unstable();
        // exp(1.5) = 4.48; without locality it would be a hundred.
        assert!((4..=6).contains(&distances[10_000]), "median {}", distances[10_000]);
    }

    #[test]
    fn a_single_file_is_asked_for_again_and_again() {
        let one = ServerModel { files: 2, ..ServerModel::HARCHOL_2003 };
        let sizes: Vec<u64> = Sequence::new(Files::matched(&one), 1).take(100).collect();
        assert!(sizes.iter().all(|size| [76, 2_000_000].contains(size)));
    }
}
