//! How many connections there may be: as many as there are descriptors, for a lower limit would be a closed loop.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors left for everything that is not a connection: standard streams, epoll, timer, results.
const DESCRIPTORS_KEPT: u64 = 64;

/// Connections of one client address: it has no more ports towards one server.
const PORTS_MAX: u64 = 65_535;

/// Connections of all addresses: what the kernel lets a process have unless told otherwise (`fs.nr_open`).
const CONNECTIONS_MAX: u64 = (1 << 20) - DESCRIPTORS_KEPT;

/// Raises the limits on descriptors to what so many addresses can use, or as far as allowed, and says how many
/// connections fit under it.
pub(crate) fn connections_max(addresses: usize) -> usize {
    let most = PORTS_MAX.saturating_mul(addresses as u64).min(CONNECTIONS_MAX);
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let wanted = most + DESCRIPTORS_KEPT;
    if maximum.is_none_or(|maximum| maximum >= wanted)
        || setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: Some(wanted) }).is_err()
    {
        // The hard limit is enough, or it is the privileged who may raise it. Should this be refused too, the limit that
        // remains is the one that counts.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    connections_under(getrlimit(Resource::Nofile).current, most)
}

/// `None` is no limit.
fn connections_under(descriptors: Option<u64>, most: u64) -> usize {
    let room = descriptors.map_or(most, |limit| limit.saturating_sub(DESCRIPTORS_KEPT));
    room.min(most) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_room_for_other_files() {
        assert_eq!(connections_under(Some(20_000), PORTS_MAX), 19_936);
        assert_eq!(connections_under(Some(10), PORTS_MAX), 0);
        assert_eq!(connections_under(Some(u64::MAX), PORTS_MAX), 65_535);
        assert_eq!(connections_under(None, 2 * PORTS_MAX), 131_070);
    }

    #[test]
    fn raises_the_soft_limit() {
        let room = connections_max(1);
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
        assert_eq!(room, connections_under(maximum, PORTS_MAX));
        assert!(connections_max(usize::MAX) >= room);
    }
}
