//! The name of an exchange, used in the table of connections, among the scheduler's jobs, in lookups and at upstreams.
//! A name may outlive its exchange; it then resolves to nothing (`Connections::resolve`).
//!
//! Events of sockets carry only the name of a connection, as a 64-bit token, because the kernel stores no more.

/// The largest generation of a connection. The tokens of the worker itself and of connections to upstreams are above
/// all tokens of connections.
const GENERATION_MAX: u32 = u32::MAX - 1;

/// The generation of exchanges that no client began: health checks of upstreams.
const CHECKS: u32 = u32::MAX;

/// The name of an exchange. Names of older connections sort first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExchangeId {
    /// The generation of the connection, which distinguishes it from earlier connections in the same slot.
    generation: u32,
    /// The slot of the connection in its worker's table.
    connection: u32,
    /// The number of the stream; 0 over HTTP/1.1. A connection never reuses a number.
    pub stream: u32,
}

impl ExchangeId {
    /// Names the exchange on this stream of the connection with this token.
    pub fn new(token: u64, stream: u32) -> ExchangeId {
        ExchangeId { generation: (token >> 32) as u32, connection: token as u32, stream }
    }

    /// Names a health check of an upstream. No client's exchange has this name.
    pub fn of_check(number: u32) -> ExchangeId {
        ExchangeId { generation: CHECKS, connection: number, stream: 0 }
    }

    /// Returns true if it is the name of a health check.
    pub fn is_check(self) -> bool {
        self.generation == CHECKS
    }

    /// Returns the slot of the exchange's connection.
    pub fn slot(self) -> usize {
        self.connection as usize
    }

    /// Returns the token of the exchange's connection.
    pub fn token(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.connection)
    }
}

/// The slot of the connection with this token.
pub fn slot_of(token: u64) -> usize {
    token as u32 as usize
}

/// Assigns tokens to a worker's connections.
#[derive(Default)]
pub struct Tokens {
    generation: u32,
}

impl Tokens {
    /// Returns the token of the next connection in this slot. Tokens repeat after 2^32 connections in a slot; no event
    /// refers to a connection for that long.
    pub fn next(&mut self, slot: usize) -> u64 {
        self.generation = if self.generation == GENERATION_MAX { 1 } else { self.generation + 1 };
        u64::from(self.generation) << 32 | (slot as u64 & u64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_in_a_slot_differ_and_none_has_a_token_of_the_worker() {
        let mut tokens = Tokens { generation: GENERATION_MAX - 2 };
        let all: Vec<u64> = (0..4).map(|_| tokens.next(0xffff_ffff)).collect();
        assert!(all.iter().all(|&token| slot_of(token) == 0xffff_ffff && token < u64::MAX - 3), "{all:x?}");
        assert!((1..4).all(|at| !all[..at].contains(&all[at])), "{all:x?}");
    }

    #[test]
    fn an_exchange_has_the_token_of_its_connection_and_is_no_check() {
        let mut tokens = Tokens { generation: GENERATION_MAX - 1 };
        for slot in [0, 7, 0xffff_ffff] {
            let token = tokens.next(slot);
            let id = ExchangeId::new(token, 3);
            assert_eq!((id.token(), id.slot(), id.stream, id.is_check()), (token, slot, 3, false));
            assert!(ExchangeId::of_check(slot as u32).is_check());
        }
        let [older, newer] = [7, 0].map(|slot| ExchangeId::new(tokens.next(slot), 0));
        assert!(older < newer);
    }
}
