//! The open connections of a run by their number, and those with room for another request by their owner.

use std::collections::HashMap;

use slab::Slab;

use crate::connection::Connection;

/// Identifies one connection for the whole run. A later connection in the same slot has another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number {
    place: u32,
    /// Counts up over all connections; wraps around after four thousand million.
    turn: u32,
}

/// The owner of a connection, who may reuse it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// Any request of a group of clients, in an open load.
    Group(u32),
    /// Any request of a client of the trace, because its connections come from its address.
    Client(u32),
    /// The next request of this user.
    User(u32),
}

/// The number of listed connections per open connection above which (plus a constant) the lists are searched for dead
/// ones.
const LISTED_PER_CONNECTION_MAX: usize = 2;
const LISTED_KEPT: usize = 64;

#[derive(Debug)]
pub(crate) struct Pool {
    connections: Slab<Member>,
    started: u32,
    /// The connections with room, by their owner, the most recently used last. Connections that have ended or filled up
    /// since are found when they are taken.
    with_room: HashMap<Owner, Vec<Number>>,
    listed: usize,
    /// The number of open connections of each owner.
    standing: HashMap<Owner, usize>,
}

#[derive(Debug)]
struct Member {
    turn: u32,
    connection: Box<dyn Connection>,
    owner: Owner,
    is_listed: bool,
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
        Pool { connections: Slab::new(), started: 0, with_room: HashMap::new(), listed: 0, standing: HashMap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    pub(crate) fn insert(&mut self, connection: Box<dyn Connection>, owner: Owner) -> Number {
        self.started = self.started.wrapping_add(1);
        *self.standing.entry(owner).or_default() += 1;
        let turn = self.started;
        let place = self.connections.insert(Member { turn, connection, owner, is_listed: false }) as u32;
        Number { place, turn }
    }

    pub(crate) fn get(&mut self, number: Number) -> Option<&mut Box<dyn Connection>> {
        self.member(number).map(|member| &mut member.connection)
    }

    /// Returns the owner of a connection, if it is open.
    pub(crate) fn owner(&mut self, number: Number) -> Option<Owner> {
        self.member(number).map(|member| member.owner)
    }

    /// The number of connections of this owner.
    pub(crate) fn standing(&self, owner: Owner) -> usize {
        self.standing.get(&owner).copied().unwrap_or(0)
    }

    /// Returns true if a connection of this owner may have room. Only taking it makes this certain.
    pub(crate) fn may_have_room(&self, owner: Owner) -> bool {
        self.with_room.contains_key(&owner)
    }

    /// Closes a connection, if it is open.
    pub(crate) fn remove(&mut self, number: Number) {
        let Some(owner) = self.owner(number) else { return };
        self.connections.remove(number.place as usize);
        if let Some(standing) = self.standing.get_mut(&owner) {
            *standing -= 1;
            if *standing == 0 {
                self.standing.remove(&owner);
            }
        }
    }

    /// Makes a connection available for its owner's next request, if it is open and has room.
    pub(crate) fn release(&mut self, number: Number) {
        let Some(member) = self.member(number).filter(|member| !member.is_listed && member.connection.has_room())
        else {
            return;
        };
        member.is_listed = true;
        let owner = member.owner;
        if self.listed > LISTED_KEPT + LISTED_PER_CONNECTION_MAX * self.connections.len() {
            self.forget_dead();
        }
        self.with_room.entry(owner).or_default().push(number);
        self.listed += 1;
    }

    /// Takes the connection that its owner used last, so that superfluous ones stay idle until the server closes them.
    pub(crate) fn take(&mut self, owner: Owner) -> Option<Number> {
        let numbers = self.with_room.get_mut(&owner)?;
        let mut taken = None;
        while let Some(number) = numbers.pop() {
            self.listed -= 1;
            let member = self.connections.get_mut(number.place as usize).filter(|member| member.turn == number.turn);
            let Some(member) = member else { continue };
            member.is_listed = false;
            if member.connection.has_room() {
                taken = Some(number);
                break;
            }
        }
        if numbers.is_empty() {
            self.with_room.remove(&owner);
        }
        taken
    }

    fn member(&mut self, number: Number) -> Option<&mut Member> {
        self.connections.get_mut(number.place as usize).filter(|member| member.turn == number.turn)
    }

    fn forget_dead(&mut self) {
        let connections = &self.connections;
        let stands =
            |number: &Number| connections.get(number.place as usize).is_some_and(|member| member.turn == number.turn);
        self.with_room.values_mut().for_each(|numbers| numbers.retain(stands));
        self.with_room.retain(|_, numbers| !numbers.is_empty());
        self.listed = self.with_room.values().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;
    use crate::clock::Clock;
    use crate::plan::tests::plan;
    use std::net::TcpListener;

    fn connection(listener: &TcpListener) -> Box<dyn Connection> {
        let plan = Plan { target: listener.local_addr().unwrap(), ..plan(1) };
        crate::connection::start(&plan, None, &Clock::start()).unwrap()
    }

    #[test]
    fn a_number_is_of_one_connection_only() {
        let (listener, mut pool) = (TcpListener::bind("127.0.0.1:0").unwrap(), Pool::new());
        let first = pool.insert(connection(&listener), Owner::Group(0));
        pool.remove(first);
        let second = pool.insert(connection(&listener), Owner::Group(0));
        assert_eq!(first.place, second.place);
        assert!(pool.get(first).is_none() && pool.get(second).is_some());
        pool.remove(first);
        assert_eq!((pool.len(), Number::from_u64(second.to_u64())), (1, second));
    }

    #[test]
    fn the_last_used_is_taken_first_and_only_by_its_owner() {
        let (listener, mut pool) = (TcpListener::bind("127.0.0.1:0").unwrap(), Pool::new());
        let numbers: Vec<Number> = (0..3).map(|_| pool.insert(connection(&listener), Owner::Group(1))).collect();
        numbers.iter().chain(&numbers).for_each(|&number| pool.release(number));
        assert_eq!((pool.take(Owner::Group(0)), pool.take(Owner::User(1))), (None, None));
        pool.remove(numbers[2]);
        assert_eq!((pool.standing(Owner::Group(1)), pool.standing(Owner::Group(0))), (2, 0));
        assert_eq!(pool.take(Owner::Group(1)), Some(numbers[1]), "the one that died is passed over");
        assert_eq!((pool.take(Owner::Group(1)), pool.take(Owner::Group(1))), (Some(numbers[0]), None));
        assert!(pool.with_room.is_empty() && pool.listed == 0);
    }

    #[test]
    fn the_dead_are_forgotten() {
        let (listener, mut pool) = (TcpListener::bind("127.0.0.1:0").unwrap(), Pool::new());
        for user in 0..1_000 {
            let number = pool.insert(connection(&listener), Owner::User(user));
            pool.release(number);
            pool.remove(number);
            assert!(pool.listed <= LISTED_KEPT + 3 && pool.with_room.len() == pool.listed);
        }
    }
}
