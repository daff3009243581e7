//! How many connections there may be: as many as there are descriptors, for a lower limit would be a closed loop.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors left for everything that is not a connection: standard streams, epoll, timer, results.
const DESCRIPTORS_KEPT: u64 = 64;

/// Connections where descriptors have no limit: a client address has no more ports towards one server.
const CONNECTIONS_MAX: u64 = 65_535;

/// Raises the soft limit on descriptors to the hard one and says how many connections fit under it.
pub(crate) fn connections_max() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Should it be refused, the limit that remains is the one that counts.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    connections_under(getrlimit(Resource::Nofile).current)
}

/// `None` is no limit.
fn connections_under(descriptors: Option<u64>) -> usize {
    let room = descriptors.map_or(CONNECTIONS_MAX, |limit| limit.saturating_sub(DESCRIPTORS_KEPT));
    room.min(CONNECTIONS_MAX) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_room_for_other_files() {
        assert_eq!(connections_under(Some(20_000)), 19_936);
        assert_eq!(connections_under(Some(10)), 0);
        assert_eq!(connections_under(Some(u64::MAX)), 65_535);
        assert_eq!(connections_under(None), 65_535);
    }

    #[test]
    fn raises_the_soft_limit() {
        let room = connections_max();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
        assert_eq!(room, connections_under(maximum));
    }
}
