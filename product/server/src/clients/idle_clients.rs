/// The indexes of clients without connections, as a bitmap with a rotating hand. The next client to evict is found by
/// examining 64 indexes at a time.
#[derive(Debug, Default)]
pub(super) struct Idle {
    words: Vec<u64>,
    count: usize,
    /// The index after the one taken last.
    hand: u32,
}

impl Idle {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn insert(&mut self, index: u32) {
        let (word, bit) = place(index);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.count += usize::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    pub fn remove(&mut self, index: u32) {
        let (word, bit) = place(index);
        if self.words.get(word).is_some_and(|bits| bits & bit != 0) {
            self.words[word] &= !bit;
            self.count -= 1;
        }
    }

    /// Takes the next idle index, starting at the hand.
    pub fn take(&mut self) -> Option<u32> {
        let (word, bit) = place(self.hand);
        let ahead_bits = self.words.get(word)? & bit.wrapping_neg();
        let later = (word + 1..self.words.len()).chain(0..=word).map(|at| (at, self.words[at]));
        let (word, bits) = std::iter::once((word, ahead_bits)).chain(later).find(|&(_, bits)| bits != 0)?;
        let index = word as u32 * u64::BITS + bits.trailing_zeros();
        self.remove(index);
        self.hand = (index + 1) % (self.words.len() as u32 * u64::BITS);
        Some(index)
    }
}

fn place(index: u32) -> (usize, u64) {
    ((index / u64::BITS) as usize, 1 << (index % u64::BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hand_goes_round() {
        let mut idle = Idle::default();
        assert_eq!(idle.take(), None);
        [3, 64, 64, 700, 90].into_iter().for_each(|index| idle.insert(index));
        idle.remove(90);
        idle.remove(5000);
        assert_eq!(idle.len(), 3);
        assert_eq!([idle.take(), idle.take()], [Some(3), Some(64)]);
        [2, 64, 65].into_iter().for_each(|index| idle.insert(index));
        let taken = [(); 5].map(|()| idle.take());
        assert_eq!(
            taken,
            [Some(65), Some(700), Some(2), Some(64), None],
            "one that comes back waits for the next round"
        );
        assert_eq!(idle.len(), 0);
    }
}
