//! The number of connections: as many as there are descriptors and ports, because a lower limit would make the loop
//! closed.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{Plan, origin};

/// Descriptors reserved for everything except connections: standard streams, epoll, timer, results.
const DESCRIPTORS_KEPT: u64 = 64;

/// The maximum number of connections of all addresses, from the kernel's default limit of a process (`fs.nr_open`).
const CONNECTIONS_MAX: u64 = (1 << 20) - DESCRIPTORS_KEPT;

/// Returns the maximum number of concurrent connections. Requests beyond it are immediately recorded as refused, and
/// void the run. Raises the descriptor limits of this process to the number that the ports of all clients can use, or
/// as far as permitted: any process may raise the soft limit, a privileged one the hard limit.
pub(crate) fn connections(plan: &Plan) -> usize {
    connections_over(origin::ports(plan))
}

fn connections_over(ports: usize) -> usize {
    let most = (ports as u64).min(CONNECTIONS_MAX);
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let wanted = most + DESCRIPTORS_KEPT;
    if maximum.is_none_or(|maximum| maximum >= wanted)
        || setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: Some(wanted) }).is_err()
    {
        // The hard limit is enough, or this process may not raise it. If this is refused too, the remaining limit applies.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    connections_under(getrlimit(Resource::Nofile).current, most)
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
        let connections = connections_over(1000);
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!((current, connections), (maximum, connections_under(maximum, 1000)));
        assert!(connections_over(usize::MAX) >= connections);
    }

    #[test]
    fn an_address_has_no_more_connections_than_ports() {
        let plan = crate::plan::tests::plan(1);
        assert!(connections(&plan) <= origin::ports(&plan));
    }
}
