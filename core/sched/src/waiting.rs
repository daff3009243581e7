//! Requests that wait for an upstream with as many under way as it may have: the class of the least priority number first, of it the
//! shortest by what is known of its route, and so that nobody waits for ever.

use units::Nanos;

/// Requests that wait for one upstream, beyond those under way.
pub const WAITING_MAX: usize = 1024;
/// One release in so many is that of the request that has waited longest. A request before which `n` others came is begun after
/// `RELEASES_PER_OLDEST` (n + 1) releases at most.
pub const RELEASES_PER_OLDEST: u32 = 32;

/// Where a request stands among those that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Turn {
    /// Of its class; a lower number goes first.
    pub priority: u8,
    /// How long the upstream is expected to take for it.
    pub service: Nanos,
    /// When it came to wait first.
    pub since: Nanos,
}

/// At most [`WAITING_MAX`], each with a name of its own; the lesser name goes first where all else is equal.
#[derive(Debug)]
pub struct Waiting<T> {
    /// In no order.
    turns: Vec<(Turn, T)>,
    /// Since the one that had waited longest was released.
    releases: u32,
}

impl<T> Default for Waiting<T> {
    fn default() -> Waiting<T> {
        Waiting { turns: Vec::new(), releases: 0 }
    }
}

impl<T: Copy + Ord> Waiting<T> {
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Whether there is room for one more; if so, it waits.
    pub fn push(&mut self, turn: Turn, name: T) -> bool {
        let has_room = self.turns.len() < WAITING_MAX;
        if has_room {
            self.turns.push((turn, name));
        }
        has_room
    }

    /// The one that is begun next, of those that may begin.
    pub fn pop(&mut self, may_begin: impl Fn(&T) -> bool) -> Option<T> {
        let ready = self.turns.iter().enumerate().filter(|(_, (_, name))| may_begin(name));
        let is_oldests = self.releases + 1 >= RELEASES_PER_OLDEST;
        let next = if is_oldests {
            ready.min_by_key(|(_, (turn, name))| (turn.since, *name))
        } else {
            ready.min_by_key(|(_, (turn, name))| (*turn, *name))
        };
        let at = next?.0;
        self.releases = if is_oldests { 0 } else { self.releases + 1 };
        Some(self.turns.swap_remove(at).1)
    }

    /// Those of these names wait no more.
    pub fn leave(&mut self, is_leaving: impl Fn(&T) -> bool) {
        self.turns.retain(|(_, name)| !is_leaving(name));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn turn(priority: u8, service: u64, since: u64) -> Turn {
        Turn { priority, service: Nanos(service), since: Nanos(since) }
    }

    #[test]
    fn classes_go_first_then_the_shortest_then_the_first_to_come() {
        let mut waiting = Waiting::default();
        for (transfer, turn) in [turn(1, 1, 0), turn(0, 9, 1), turn(0, 5, 3), turn(0, 5, 2)].into_iter().enumerate() {
            assert!(waiting.push(turn, transfer));
        }
        let order: Vec<usize> = std::iter::from_fn(|| waiting.pop(|_| true)).collect();
        assert_eq!(order, [3, 2, 1, 0]);
    }

    #[test]
    fn no_more_wait_than_may_and_those_who_leave_make_room() {
        let mut waiting = Waiting::default();
        assert!((0..WAITING_MAX).all(|transfer| waiting.push(Turn::default(), transfer)));
        assert!(!waiting.push(Turn::default(), WAITING_MAX) && waiting.len() == WAITING_MAX);
        waiting.leave(|name| *name == 0);
        assert!(waiting.push(Turn::default(), WAITING_MAX) && !waiting.push(Turn::default(), 9999));
    }

    #[test]
    fn one_that_may_not_begin_holds_nobody_back_and_keeps_its_turn() {
        let mut waiting = Waiting::default();
        for name in 0..3 {
            waiting.push(turn(0, name as u64, 0), name);
        }
        assert_eq!([waiting.pop(|name| *name > 0), waiting.pop(|name| *name > 2)], [Some(1), None]);
        assert_eq!([waiting.pop(|_| true), waiting.pop(|_| true)], [Some(0), Some(2)]);
    }

    proptest! {
        /// However many shorter ones of better classes come behind it.
        #[test]
        fn nobody_waits_longer_than_is_stated(before in 0_usize..50, comes in prop::collection::vec(0_usize..4, 900)) {
            let mut waiting = Waiting::default();
            (0..before).for_each(|transfer| assert!(waiting.push(turn(0, 1, transfer as u64), transfer)));
            waiting.push(turn(15, 1_000_000, before as u64), before);
            let (mut next, mut releases) = (before + 1, 0);
            for comes in comes {
                for _ in 0..comes {
                    waiting.push(turn(0, 1, next as u64), next);
                    next += 1;
                }
                releases += 1;
                if waiting.pop(|_| true) == Some(before) {
                    break;
                }
            }
            prop_assert!(releases <= RELEASES_PER_OLDEST as usize * (before + 1), "{releases} behind {before}");
        }
    }
}
