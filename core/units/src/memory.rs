//! Memory of buffers, counted by the buffers themselves: each holds a [`Charge`], which counts from the moment its
//! memory is allocated to the moment it is freed. A sum computed by walking over all buffers would miss the kind of
//! buffer that was added last.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Divides the unused memory of the whole: a part may hold at most the unused memory divided by this number (Choudhury
/// and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", 1998). If a hundred parts each hold
/// their maximum and release nothing, a fifth of the whole is left for later parts.
const LEFT_TO_PART: u64 = 64;
/// The minimum growth in bytes. Smaller room counts as none, because growing a buffer a few bytes at a time would cost
/// more than it gains.
const ROOM_BYTES_MIN: u64 = 4 << 10;

/// The count of the bytes that the buffers of one connection hold, or the buffers of all connections of an event loop.
#[derive(Debug, Clone)]
pub struct Account(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    bytes: AtomicU64,
    /// The bytes released since the account was opened, modulo 2^64.
    released_bytes: AtomicU64,
    bytes_max: AtomicU64,
    /// The bytes, included in `bytes`, that no buffer holds: they are released only when the owner of the account ends.
    fixed_bytes: AtomicU64,
    /// The account that counts the same bytes together with the bytes of other accounts.
    whole: Option<Account>,
}

impl Default for Account {
    fn default() -> Account {
        Account::of_at_most(u64::MAX)
    }
}

impl Account {
    /// Opens the account of a whole that may hold at most `bytes_max`.
    pub fn of_at_most(bytes_max: u64) -> Account {
        Account::new(bytes_max, None)
    }

    /// Opens the account of a part of this whole, which may be a part itself.
    pub fn part(&self) -> Account {
        Account::new(u64::MAX, Some(self.clone()))
    }

    fn new(bytes_max: u64, whole: Option<Account>) -> Account {
        let [bytes, released_bytes, fixed_bytes] = [(); 3].map(|()| AtomicU64::new(0));
        Account(Arc::new(Counts { bytes, released_bytes, bytes_max: AtomicU64::new(bytes_max), fixed_bytes, whole }))
    }

    /// Returns the bytes that are held now.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Relaxed)
    }

    /// Returns the maximum number of bytes that may be held.
    pub fn bytes_max(&self) -> u64 {
        self.0.bytes_max.load(Relaxed)
    }

    /// Changes the maximum. Bytes that are already held stay.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        self.0.bytes_max.store(bytes_max, Relaxed);
    }

    /// Records how many of the held bytes belong to no buffer.
    pub fn set_fixed_bytes(&self, bytes: usize) {
        self.0.fixed_bytes.store(bytes as u64, Relaxed);
    }

    /// Returns a number that changes whenever bytes are released. While it is the same, no buffer that could not grow
    /// can grow now.
    pub fn released_bytes(&self) -> u64 {
        self.0.released_bytes.load(Relaxed)
    }

    /// Returns the bytes by which a buffer of this account may grow, 0 or at least 4 KiB. A part whose buffers are
    /// empty may grow as long as the whole has memory left, so that it can proceed however many other parts there are.
    pub fn room(&self) -> usize {
        let counts = &self.whole().0;
        let left_bytes = counts.bytes_max.load(Relaxed).saturating_sub(counts.bytes.load(Relaxed));
        let room_bytes = match self.0.whole {
            Some(_) => {
                let buffered_bytes = self.bytes().saturating_sub(self.0.fixed_bytes.load(Relaxed));
                (left_bytes / LEFT_TO_PART).max(ROOM_BYTES_MIN.min(left_bytes)).saturating_sub(buffered_bytes)
            }
            None => left_bytes,
        };
        if room_bytes < ROOM_BYTES_MIN { 0 } else { usize::try_from(room_bytes).unwrap_or(usize::MAX) }
    }

    /// Returns the account of the whole, which counts everything.
    pub fn whole(&self) -> &Account {
        let mut account = self;
        while let Some(whole) = &account.0.whole {
            account = whole;
        }
        account
    }

    fn change(&self, before: usize, after: usize) {
        let mut account = Some(self);
        while let Some(Account(counts)) = account {
            if after >= before {
                counts.bytes.fetch_add((after - before) as u64, Relaxed);
            } else {
                counts.bytes.fetch_sub((before - after) as u64, Relaxed);
                counts.released_bytes.fetch_add((before - after) as u64, Relaxed);
            }
            account = counts.whole.as_ref();
        }
    }
}

/// Bytes that a buffer or another owner holds. Its account counts them until it is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Account,
    bytes: usize,
}

impl Charge {
    pub fn new(account: &Account, bytes: usize) -> Charge {
        account.change(0, bytes);
        Charge { account: account.clone(), bytes }
    }

    /// Counts this many bytes from now on.
    pub fn set(&mut self, bytes: usize) {
        if bytes != self.bytes {
            self.account.change(std::mem::replace(&mut self.bytes, bytes), bytes);
        }
    }

    /// Returns the bytes that are counted now.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Counts the same bytes in another account.
    pub fn move_to(&mut self, account: &Account) {
        *self = Charge::new(account, self.bytes);
    }
}

impl Default for Charge {
    /// Makes a charge of zero bytes, in an account of its own.
    fn default() -> Charge {
        Charge::new(&Account::default(), 0)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.change(self.bytes, 0);
    }
}

/// Bytes whose memory is charged to an account.
#[derive(Debug)]
pub struct Counted {
    bytes: Vec<u8>,
    charge: Charge,
}

impl Counted {
    /// Makes an empty buffer.
    pub fn new(account: &Account) -> Counted {
        Counted::of(account, Vec::new())
    }

    pub fn of(account: &Account, bytes: Vec<u8>) -> Counted {
        Counted { charge: Charge::new(account, bytes.capacity()), bytes }
    }

    /// Lends the bytes for a change; the new capacity is counted when the loan ends.
    pub fn edit(&mut self) -> Edit<'_> {
        Edit(self)
    }

    /// Gives the bytes away and stops counting them.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut *self.edit())
    }

    /// Gives the bytes away, still counted, and leaves an empty buffer.
    pub fn split(&mut self) -> Counted {
        let rest = Counted::new(self.account());
        std::mem::replace(self, rest)
    }

    /// Frees the memory if no byte is left.
    pub fn shrink(&mut self) {
        if self.bytes.is_empty() && self.bytes.capacity() > 0 {
            self.take();
        }
    }

    pub fn account(&self) -> &Account {
        self.charge.account()
    }

    /// Counts the same bytes in another account.
    pub fn move_to(&mut self, account: &Account) {
        self.charge.move_to(account);
    }

    /// Returns the bytes of allocated memory.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

impl Deref for Counted {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A loan of counted bytes.
pub struct Edit<'c>(&'c mut Counted);

impl Deref for Edit<'_> {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0.bytes
    }
}

impl DerefMut for Edit<'_> {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0.bytes
    }
}

impl Drop for Edit<'_> {
    fn drop(&mut self) {
        self.0.charge.set(self.0.bytes.capacity());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_whole_is_the_sum_of_what_is_alive(
            steps in prop::collection::vec((0usize..4, 0usize..3, 0usize..100_000), 0..100),
        ) {
            let whole = Account::of_at_most(1 << 20);
            let parts = [(); 3].map(|()| whole.part());
            let mut alive: [Option<Counted>; 4] = [None, None, None, None];
            for (at, part, bytes) in steps {
                match &mut alive[at] {
                    one @ None => *one = Some(Counted::of(&parts[part], Vec::with_capacity(bytes))),
                    Some(one) if part == 0 => one.edit().resize(bytes, 7),
                    Some(one) if part == 1 => one.move_to(&parts[bytes % 3]),
                    one => drop(one.take()),
                }
                let of = |account: &Account| {
                    let all = alive.iter().flatten();
                    all.filter(|one| Arc::ptr_eq(&one.account().0, &account.0)).map(Counted::capacity).sum::<usize>() as u64
                };
                parts.iter().for_each(|part| assert_eq!(part.bytes(), of(part)));
                prop_assert_eq!(whole.bytes(), parts.iter().map(of).sum::<u64>());
            }
            alive.iter_mut().for_each(|one| drop(one.take()));
            prop_assert_eq!(whole.bytes(), 0);
        }

        /// If each part takes as much as it may, in whatever order, a part that comes afterwards can still grow.
        #[test]
        fn parts_that_take_all_their_room_leave_some(parts in 1usize..300, rounds in 1usize..4) {
            let whole = Account::of_at_most(40 << 20);
            let mut charges: Vec<Charge> = (0..parts).map(|_| Charge::new(&whole.part(), 0)).collect();
            for _ in 0..rounds {
                for charge in &mut charges {
                    charge.set(charge.bytes() + charge.account().room());
                }
            }
            prop_assert!(whole.bytes() < 40 << 20);
            prop_assert!(parts > 100 || whole.bytes() < 33 << 20, "{} bytes", whole.bytes());
            prop_assert!(whole.part().room() >= 4 << 10, "{} bytes of room", whole.part().room());
        }
    }

    #[test]
    fn room_is_a_share_of_what_is_left_and_nothing_beyond_the_maximum() {
        let whole = Account::of_at_most(1 << 20);
        let part = whole.part();
        assert_eq!((whole.room(), part.room()), (1 << 20, 16 << 10));
        let held = Charge::new(&part, 15 << 10);
        assert_eq!(part.room(), 0, "less than 4 KiB");
        let before = whole.released_bytes();
        drop(held);
        let fixed = Charge::new(&part, 20 << 10);
        part.set_fixed_bytes(20 << 10);
        assert_eq!(part.room(), ((1 << 20) - (20 << 10)) / 64);
        whole.set_bytes_max(40 << 10);
        assert_eq!(part.room(), 4 << 10, "its buffers are empty");
        whole.set_bytes_max(1 << 20);
        drop(fixed);
        part.set_fixed_bytes(0);
        assert!(part.room() == 16 << 10 && whole.released_bytes() != before);
        whole.set_bytes_max(10);
        let _held = Charge::new(&whole.part(), 20);
        assert_eq!((whole.room(), whole.part().room(), whole.bytes_max()), (0, 0, 10));
        assert!(Account::default().room() > 1 << 40);
        let whole = Account::of_at_most(1 << 20);
        let (part, other) = (whole.part(), Charge::new(&whole.part(), 100));
        let [first, second] = [(); 2].map(|()| part.part());
        let _held = Charge::new(&first, 30 << 10);
        assert_eq!([&whole, &part, &first].map(Account::bytes), [(30 << 10) + 100, 30 << 10, 30 << 10]);
        assert!(first.room() == 0 && second.room() > 15 << 10, "what the one holds is not the other's");
        drop(other);
    }
}
