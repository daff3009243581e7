//! Names of connections in events and among jobs. Each connection in a slot has its own name, so that an event meant
//! for an earlier one reaches no connection.

/// Assigns names to a worker's connections.
#[derive(Default)]
pub struct Owners {
    generation: u32,
}

/// The largest generation. Tokens of the worker itself lie above every owner.
const GENERATION_MAX: u32 = u32::MAX - 1;

impl Owners {
    /// Returns the name of the next connection in this slot. Names repeat after 2^32 connections: no event refers to a
    /// connection for that long.
    pub fn next(&mut self, slot: usize) -> u64 {
        self.generation = if self.generation == GENERATION_MAX { 1 } else { self.generation + 1 };
        u64::from(self.generation) << 32 | (slot as u64 & u64::from(u32::MAX))
    }
}

/// The slot of a connection among those of its worker.
pub fn slot_of(owner: u64) -> usize {
    (owner & u64::from(u32::MAX)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_of_a_slot_differ_and_no_owner_is_a_token_of_the_worker() {
        let mut owners = Owners { generation: GENERATION_MAX - 2 };
        let names: Vec<u64> = (0..4).map(|_| owners.next(0xffff_ffff)).collect();
        assert!(names.iter().all(|&name| slot_of(name) == 0xffff_ffff && name < u64::MAX - 2), "{names:x?}");
        assert!((1..4).all(|at| !names[..at].contains(&names[at])), "{names:x?}");
    }
}
