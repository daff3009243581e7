//! Queues items and serves clients in turn: a client with many waiting items gets no more turns than others.

use std::collections::VecDeque;

use hashbrown::HashMap;

/// The maximum capacity of a queue whose memory is kept for the next client.
const SPARE_ITEMS_MAX: usize = 8;

/// Waiting items, grouped by client. The caller bounds their number.
pub(crate) struct Turns<T> {
    /// The clients with waiting items, each once, the next first.
    clients: VecDeque<u32>,
    /// The items of each client, the next first; no queue is empty.
    waiting: HashMap<u32, VecDeque<T>>,
    /// A spare queue, reused because most clients have only one item at a time.
    spare: VecDeque<T>,
    len: usize,
}

impl<T> Default for Turns<T> {
    fn default() -> Turns<T> {
        Turns { clients: VecDeque::new(), waiting: HashMap::new(), spare: VecDeque::new(), len: 0 }
    }
}

impl<T> Turns<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    /// The number of waiting items of this client.
    pub fn len_of(&self, client: u32) -> usize {
        self.waiting.get(&client).map_or(0, VecDeque::len)
    }

    pub fn push(&mut self, client: u32, one: T) {
        let waiting = self.waiting.entry(client).or_insert_with(|| std::mem::take(&mut self.spare));
        if waiting.is_empty() {
            self.clients.push_back(client);
        }
        waiting.push_back(one);
        self.len += 1;
    }

    pub fn pop(&mut self) -> Option<T> {
        self.pop_unless(|_| false).map(|(_, one)| one)
    }

    /// Removes the next item of a client for which `has_enough` is false, and returns it with its client.
    pub fn pop_unless(&mut self, has_enough: impl Fn(u32) -> bool) -> Option<(u32, T)> {
        let at = self.clients.iter().position(|client| !has_enough(*client))?;
        // The clients before it count as having had their turn.
        self.clients.rotate_left(at);
        let client = self.clients.pop_front()?;
        let waiting = self.waiting.get_mut(&client)?;
        let one = waiting.pop_front()?;
        if waiting.is_empty() {
            self.spare = self.waiting.remove(&client).filter(is_short).unwrap_or_default();
        } else {
            self.clients.push_back(client);
        }
        self.len -= 1;
        Some((client, one))
    }
}

fn is_short<T>(queue: &VecDeque<T>) -> bool {
    queue.capacity() <= SPARE_ITEMS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_take_turns_however_much_of_theirs_waits() {
        let mut turns = Turns::default();
        (0..1000).for_each(|one| turns.push(7, one));
        turns.push(3, 5000);
        turns.push(3, 5001);
        assert_eq!([turns.len(), turns.len_of(7), turns.len_of(3), turns.len_of(4)], [1002, 1000, 2, 0]);
        assert_eq!(turns.pop_unless(|client| client == 7), Some((3, 5000)));
        assert_eq!(turns.pop_unless(|_| true), None);
        let first: Vec<u64> = std::iter::from_fn(|| turns.pop()).take(4).collect();
        assert_eq!(first, [0, 5001, 1, 2]);
        assert_eq!(std::iter::from_fn(|| turns.pop()).last(), Some(999));
        assert!(turns.len() == 0 && turns.waiting.is_empty() && turns.clients.is_empty());
        assert!(turns.spare.capacity() <= SPARE_ITEMS_MAX, "a long queue is not kept");
    }
}
