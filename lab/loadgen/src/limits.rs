//! How many connections there may be: as many as there are descriptors and ports, for a lower limit would be a closed loop.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{Plan, origin};

/// Descriptors left for everything that is not a connection: standard streams, epoll, timer, results.
const DESCRIPTORS_KEPT: u64 = 64;

/// Connections of all addresses: what the kernel lets a process have unless told otherwise (`fs.nr_open`).
const CONNECTIONS_MAX: u64 = (1 << 20) - DESCRIPTORS_KEPT;

/// The room that this machine has for the connections of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// The connections that can stand at once. Requests beyond are recorded as refused, at once, and void the run.
    pub connections: usize,
    /// The descriptors that this process may have; `None` is no limit.
    pub descriptors: Option<u64>,
    /// The ports of all addresses of the plan's clients.
    pub ports: usize,
}

impl Room {
    /// Raises the limits on descriptors of this process to what so many ports can use, or as far as allowed: the soft limit
    /// anybody, the hard one the privileged.
    pub fn of(plan: &Plan) -> Room {
        Room::with_ports(origin::ports(plan))
    }

    fn with_ports(ports: usize) -> Room {
        let most = (ports as u64).min(CONNECTIONS_MAX);
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let wanted = most + DESCRIPTORS_KEPT;
        if maximum.is_none_or(|maximum| maximum >= wanted)
            || setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: Some(wanted) }).is_err()
        {
            // The hard limit is enough, or it is the privileged who may raise it. Should this be refused too, the limit that
            // remains is the one that counts.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        }
        let descriptors = getrlimit(Resource::Nofile).current;
        Room { connections: connections_under(descriptors, most), descriptors, ports }
    }
}

fn connections_under(descriptors: Option<u64>, most: u64) -> usize {
    let room = descriptors.map_or(most, |limit| limit.saturating_sub(DESCRIPTORS_KEPT));
    room.min(most) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_room_for_other_files() {
        assert_eq!(connections_under(Some(20_000), 28_232), 19_936);
        assert_eq!(connections_under(Some(10), 28_232), 0);
        assert_eq!(connections_under(Some(u64::MAX), 28_232), 28_232);
        assert_eq!(connections_under(None, 2 * 28_232), 56_464);
    }

    #[test]
    fn raises_the_soft_limit() {
        let room = Room::with_ports(1000);
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!((current, room.descriptors), (maximum, maximum));
        assert_eq!((room.connections, room.ports), (connections_under(maximum, 1000), 1000));
        assert!(Room::with_ports(usize::MAX).connections >= room.connections);
    }

    #[test]
    fn an_address_has_no_more_connections_than_ports() {
        let plan = crate::plan::tests::plan(1);
        assert!(Room::of(&plan).connections <= origin::ports(&plan));
    }
}
