//! Disk space for spooled responses, and the clients that use it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A limit on disk space, possibly within another limit, and the space in use. A client gets at most half of it, so
/// that a client that reads nothing leaves room for other clients' responses.
#[derive(Debug)]
pub struct Room {
    bytes_max: AtomicU64,
    taken: Mutex<Taken>,
    within: Option<Arc<Room>>,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: u64,
    /// The bytes in use by each client; no entry is 0.
    of_client: HashMap<u32, u64>,
}

/// Disk space reserved for a client's file. Dropping it releases the space.
#[derive(Debug)]
pub struct Reserved {
    room: Arc<Room>,
    client: u32,
    bytes: AtomicU64,
}

impl Room {
    pub fn new(bytes_max: u64) -> Arc<Room> {
        Room::within(bytes_max, None)
    }

    fn within(bytes_max: u64, within: Option<Arc<Room>>) -> Arc<Room> {
        Arc::new(Room { bytes_max: AtomicU64::new(bytes_max), taken: Mutex::default(), within })
    }

    /// Sets the limit. Space in use stays reserved, even if it exceeds the limit.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Relaxed);
    }

    /// Creates a part of this room.
    pub fn part(self: &Arc<Room>, bytes_max: u64) -> Arc<Room> {
        Room::within(bytes_max, Some(Arc::clone(self)))
    }

    /// Returns the locked state. Code under this lock cannot panic and leave an inconsistent state.
    fn state(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, client: u32, bytes: u64) -> bool {
        if !self.state().take(client, bytes, self.bytes_max.load(Relaxed)) {
            return false;
        }
        let may = self.within.as_ref().is_none_or(|whole| whole.take(client, bytes));
        if !may {
            self.state().give(client, bytes);
        }
        may
    }

    fn give(&self, client: u32, bytes: u64) {
        self.state().give(client, bytes);
        self.within.iter().for_each(|whole| whole.give(client, bytes));
    }

    #[cfg(test)]
    pub fn taken(&self) -> u64 {
        self.state().bytes
    }
}

impl Taken {
    fn take(&mut self, client: u32, bytes: u64, bytes_max: u64) -> bool {
        let own = self.of_client.get(&client).copied().unwrap_or(0);
        let within = |taken: u64, most: u64| taken.checked_add(bytes).filter(|taken| *taken <= most);
        let (Some(all), Some(own)) = (within(self.bytes, bytes_max), within(own, bytes_max.div_ceil(2))) else {
            return false;
        };
        self.bytes = all;
        if own > 0 {
            self.of_client.insert(client, own);
        }
        true
    }

    fn give(&mut self, client: u32, bytes: u64) {
        self.bytes -= bytes;
        if let Some(own) = self.of_client.get_mut(&client) {
            *own -= bytes;
            if *own == 0 {
                self.of_client.remove(&client);
            }
        }
    }
}

impl Reserved {
    /// Reserves `bytes` for a client. `None` if there is not enough space.
    pub fn of(room: &Arc<Room>, client: u32, bytes: u64) -> Option<Reserved> {
        let taken = room.take(client, bytes);
        taken.then(|| Reserved { room: Arc::clone(room), client, bytes: AtomicU64::new(bytes) })
    }

    /// Reserves `bytes` more. If there is not enough space, returns false and reserves nothing.
    pub fn grow(&self, bytes: u64) -> bool {
        let has_room = self.room.take(self.client, bytes);
        self.bytes.fetch_add(if has_room { bytes } else { 0 }, Relaxed);
        has_room
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.room.give(self.client, *self.bytes.get_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_room_is_bounded_by_both_and_a_client_by_half_of_each() {
        let whole = Room::new(100);
        let (first, second) = (whole.part(70), whole.part(70));
        let of = |room, client, bytes| Reserved::of(room, client, bytes);
        let taken = of(&first, 1, 30).expect("there is room");
        assert!(!taken.grow(6) && taken.grow(5) && !taken.grow(1), "half of its part");
        let other = of(&second, 1, 15).expect("there is room");
        assert!(of(&second, 1, 1).is_none(), "half of the whole");
        let rest = of(&first, 2, 35).expect("the other half");
        assert!(of(&first, 3, 1).is_none(), "its own bound");
        let last = of(&second, 2, 15).expect("there is room");
        assert!(of(&second, 3, 1).is_none(), "that of the whole");
        assert_eq!([whole.taken(), first.taken(), second.taken()], [100, 70, 30]);
        drop(taken);
        assert!(!rest.grow(1) && other.grow(20));
        drop((rest, other, last));
        assert_eq!([whole.taken(), first.taken(), second.taken()], [0; 3]);
        assert!(whole.state().of_client.is_empty() && of(&first, 1, u64::MAX).is_none());
    }
}
