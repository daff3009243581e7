//! The connections of a run: those that stand by their number, and those without a request by whom they serve.

use std::collections::HashMap;

use slab::Slab;

use crate::connection::Connection;

/// Stands for one connection for ever: a later one in the same place has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number {
    place: u32,
    /// Counted up over all connections; comes round after four thousand million.
    turn: u32,
}

/// Who may use a connection again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// Any request of a group of clients, in an open load.
    Group(u32),
    /// Any request of a client of the trace: its connections come from its address.
    Client(u32),
    /// The next request of this user.
    User(u32),
}

/// Idle numbers beyond so many times the connections there are, and some, are looked through for dead ones.
const IDLE_PER_CONNECTION_MAX: usize = 2;
const IDLE_KEPT: usize = 64;

#[derive(Debug)]
pub(crate) struct Pool {
    connections: Slab<(u32, Connection)>,
    started: u32,
    /// The most recently used last. Those that have died since are found when they are taken.
    idle: HashMap<Owner, Vec<Number>>,
    idle_count: usize,
}

impl Number {
    pub(crate) fn to_u64(self) -> u64 {
        u64::from(self.turn) << 32 | u64::from(self.place)
    }

    pub(crate) fn from_u64(number: u64) -> Number {
        Number { place: number as u32, turn: (number >> 32) as u32 }
    }
}

impl Pool {
    pub(crate) fn new() -> Pool {
        Pool { connections: Slab::new(), started: 0, idle: HashMap::new(), idle_count: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    pub(crate) fn insert(&mut self, connection: Connection) -> Number {
        self.started = self.started.wrapping_add(1);
        let place = self.connections.insert((self.started, connection)) as u32;
        Number { place, turn: self.started }
    }

    pub(crate) fn get(&mut self, number: Number) -> Option<&mut Connection> {
        let (turn, connection) = self.connections.get_mut(number.place as usize)?;
        (*turn == number.turn).then_some(connection)
    }

    /// Closes it, if it still stands.
    pub(crate) fn remove(&mut self, number: Number) {
        if self.get(number).is_some() {
            self.connections.remove(number.place as usize);
        }
    }

    /// It has no request under way and may serve its owner's next.
    pub(crate) fn release(&mut self, number: Number, owner: Owner) {
        if self.idle_count > IDLE_KEPT + IDLE_PER_CONNECTION_MAX * self.connections.len() {
            self.forget_dead();
        }
        self.idle.entry(owner).or_default().push(number);
        self.idle_count += 1;
    }

    /// The one its owner used last, so that those not needed are left alone until the server closes them.
    pub(crate) fn take_idle(&mut self, owner: Owner) -> Option<Number> {
        let numbers = self.idle.get_mut(&owner)?;
        let mut taken = None;
        while let Some(number) = numbers.pop() {
            self.idle_count -= 1;
            let stands = self.connections.get(number.place as usize).is_some_and(|(turn, _)| *turn == number.turn);
            if stands {
                taken = Some(number);
                break;
            }
        }
        if numbers.is_empty() {
            self.idle.remove(&owner);
        }
        taken
    }

    fn forget_dead(&mut self) {
        let connections = &self.connections;
        let stands =
            |number: &Number| connections.get(number.place as usize).is_some_and(|(turn, _)| *turn == number.turn);
        self.idle.values_mut().for_each(|numbers| numbers.retain(stands));
        self.idle.retain(|_, numbers| !numbers.is_empty());
        self.idle_count = self.idle.values().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use std::net::TcpListener;

    fn connection(listener: &TcpListener) -> Connection {
        Connection::start(listener.local_addr().unwrap(), None, None, &Clock::start()).unwrap()
    }

    #[test]
    fn a_number_is_of_one_connection_only() {
        let (listener, mut pool) = (TcpListener::bind("127.0.0.1:0").unwrap(), Pool::new());
        let first = pool.insert(connection(&listener));
        pool.remove(first);
        let second = pool.insert(connection(&listener));
        assert_eq!(first.place, second.place);
        assert!(pool.get(first).is_none() && pool.get(second).is_some());
        pool.remove(first);
        assert_eq!((pool.len(), Number::from_u64(second.to_u64())), (1, second));
    }

    #[test]
    fn the_last_used_is_taken_first_and_only_by_its_owner() {
        let (listener, mut pool) = (TcpListener::bind("127.0.0.1:0").unwrap(), Pool::new());
        let numbers: Vec<Number> = (0..3).map(|_| pool.insert(connection(&listener))).collect();
        numbers.iter().for_each(|&number| pool.release(number, Owner::Group(1)));
        assert_eq!((pool.take_idle(Owner::Group(0)), pool.take_idle(Owner::User(1))), (None, None));
        pool.remove(numbers[2]);
        assert_eq!(pool.take_idle(Owner::Group(1)), Some(numbers[1]), "the one that died is passed over");
        assert_eq!((pool.take_idle(Owner::Group(1)), pool.take_idle(Owner::Group(1))), (Some(numbers[0]), None));
        assert!(pool.idle.is_empty() && pool.idle_count == 0);
    }

    #[test]
    fn the_dead_are_forgotten() {
        let (listener, mut pool) = (TcpListener::bind("127.0.0.1:0").unwrap(), Pool::new());
        for user in 0..1_000 {
            let number = pool.insert(connection(&listener));
            pool.release(number, Owner::User(user));
            pool.remove(number);
            assert!(pool.idle_count <= IDLE_KEPT + 3 && pool.idle.len() == pool.idle_count);
        }
    }
}
