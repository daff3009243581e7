//! Connections with something to be read take turns, and so do their clients: one that has many is one among others.

use std::collections::{HashMap, VecDeque};

/// Owners of connections, at most as many as there are places.
#[derive(Default)]
pub(super) struct Turns {
    /// Clients that have any, each once, the next first.
    clients: VecDeque<u32>,
    /// Theirs, the next first.
    owners: HashMap<u32, VecDeque<u64>>,
    len: usize,
}

impl Turns {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn push(&mut self, client: u32, owner: u64) {
        let owners = self.owners.entry(client).or_default();
        if owners.is_empty() {
            self.clients.push_back(client);
        }
        owners.push_back(owner);
        self.len += 1;
    }

    pub fn pop(&mut self) -> Option<u64> {
        let client = self.clients.pop_front()?;
        let owners = self.owners.get_mut(&client)?;
        let owner = owners.pop_front();
        if owners.is_empty() {
            self.owners.remove(&client);
        } else {
            self.clients.push_back(client);
        }
        self.len -= usize::from(owner.is_some());
        owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_take_turns_however_many_connections_they_have() {
        let mut turns = Turns::default();
        (0..1000).for_each(|owner| turns.push(7, owner));
        turns.push(3, 5000);
        turns.push(3, 5001);
        assert_eq!(turns.len(), 1002);
        let first: Vec<u64> = std::iter::from_fn(|| turns.pop()).take(5).collect();
        assert_eq!(first, [0, 5000, 1, 5001, 2]);
        assert_eq!(std::iter::from_fn(|| turns.pop()).last(), Some(999));
        assert!(turns.is_empty() && turns.owners.is_empty() && turns.clients.is_empty());
    }
}
