//! How many connections there may be: as many as there are descriptors and ports, for a lower limit would be a closed loop.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{Plan, origin};

/// Descriptors left for everything that is not a connection: standard streams, epoll, timer, results.
const DESCRIPTORS_KEPT: u64 = 64;

/// Connections of all addresses: what the kernel lets a process have unless told otherwise (`fs.nr_open`).
const CONNECTIONS_MAX: u64 = (1 << 20) - DESCRIPTORS_KEPT;

/// Returns the connections that can stand at once: requests beyond are recorded as refused, at once, and void the run. The limits on
/// descriptors of this process are raised to what the ports of all clients can use, or as far as allowed: the soft limit anybody, the hard
/// one the privileged.
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
        // The hard limit is enough, or it is the privileged who may raise it. Should this be refused too, the limit that
        // remains is the one that counts.
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
