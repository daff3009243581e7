//! Whether the load asked for can exceed the connections this machine can hold: better known before the run than from a
//! void one.
//!
//! Nothing waits for a connection here, so a request beyond the limit is refused at once, and the run is void. How many
//! connections stand depends on the server. Two servers are looked at: one that answers in order at the uplink's pace, and
//! one that answers nothing for a while.

use std::collections::VecDeque;

use loadgen::{Patience, Plan, Protocol, Room};
use units::{Nanos, Rate};
use workload::{Job, wire_bytes};

/// A server silent for longer will be found broken without us.
const SILENCE_MAX: Nanos = Nanos::from_secs(10);

/// Returns what to tell before the run, if anything. Nothing is known of users' requests but that each has one at a
/// time. A connection of the `protocol` may carry several jobs.
pub(super) fn warning(jobs: &[Job], users: Option<u32>, uplink: Rate, plan: &Plan, room: &Room) -> Option<String> {
    let (patience, streams) = (plan.patience, streams(plan.protocol));
    let asked = match users {
        Some(users) if users as usize > room.connections => Some(format!("{users} users have a connection each")),
        Some(_) => None,
        None => of_jobs(jobs, uplink, patience.map(given_up_after), streams, room.connections),
    }?;
    let Room { connections, descriptors, ports } = room;
    let descriptors = descriptors.map_or("no limit of".into(), |limit| limit.to_string());
    Some(format!(
        "{asked}, and {connections} fit here ({descriptors} descriptors, {ports} local ports): requests beyond are recorded \
         as refused and void the run: raise `ulimit -Hn`, widen net.ipv4.ip_local_port_range or add addresses with --client"
    ))
}

/// Jobs that a connection carries at once.
fn streams(protocol: Protocol) -> usize {
    match protocol {
        Protocol::Http1 => 1,
        Protocol::Http2 { streams } | Protocol::Http3 { streams } => streams as usize,
    }
}

fn of_jobs(jobs: &[Job], uplink: Rate, given_up_after: Option<Nanos>, streams: usize, room: usize) -> Option<String> {
    let standing = standing_max(jobs, uplink, given_up_after.unwrap_or(Nanos::MAX)).div_ceil(streams);
    if standing > room {
        return Some(format!(
            "about {standing} connections would stand at once where answers come at the uplink's pace"
        ));
    }
    let silence = silence_to_fill(jobs, room * streams)?;
    let is_likely = silence < SILENCE_MAX && given_up_after.is_none_or(|after| silence < after);
    is_likely.then(|| {
        let seconds = silence.as_secs_f64();
        format!("a server that answers nothing for {seconds:.2} s would have {} connections standing", room + 1)
    })
}

/// Until its user gives up for good.
fn given_up_after(patience: Patience) -> Nanos {
    Nanos(patience.abort_after.0.saturating_mul(u64::from(patience.retries) + 1))
}

/// The most jobs under way at once if each is answered in its turn, at the link's pace, and no user waits for longer.
fn standing_max(jobs: &[Job], uplink: Rate, patience: Nanos) -> usize {
    let (mut free_at, mut standing, mut most) = (Nanos::ZERO, VecDeque::new(), 0);
    for job in jobs {
        while standing.front().is_some_and(|&ends: &Nanos| ends <= job.arrival) {
            standing.pop_front();
        }
        let given_up = Nanos(job.arrival.0.saturating_add(patience.0));
        let began = free_at.max(job.arrival);
        // Of one who has left by then nothing is sent.
        if began < given_up {
            free_at = began + uplink.time_for(wire_bytes(job.size_bytes));
        }
        standing.push_back(free_at.min(given_up));
        most = most.max(standing.len());
    }
    most
}

/// The shortest time in which more jobs than this come.
fn silence_to_fill(jobs: &[Job], room: usize) -> Option<Nanos> {
    jobs.iter().zip(jobs.get(room..)?).map(|(first, last)| last.arrival - first.arrival).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room { connections: 3, descriptors: Some(67), ports: 28_232 };

    /// Each is a full segment of 1,514 bytes: 1.2112 ms of 10 Mbit/s.
    fn jobs(arrivals_ms: &[u64]) -> Vec<Job> {
        arrivals_ms.iter().map(|&ms| Job { arrival: Nanos::from_millis(ms), size_bytes: 1208, client: None }).collect()
    }

    fn uplink() -> Rate {
        "10mbit".parse().unwrap()
    }

    fn plan(patience: Option<Patience>, protocol: Protocol) -> Plan {
        Plan {
            target: "127.0.0.1:9".parse().unwrap(),
            host: "h".into(),
            prefix: "/".into(),
            sites: vec![],
            routes: None,
            documents: None,
            per_connection: 1,
            grace: Nanos::ZERO,
            patience,
            clients: vec![],
            seed: 1,
            client_connections: None,
            protocol,
            tls: None,
        }
    }

    fn plain() -> Plan {
        plan(None, Protocol::Http1)
    }

    #[test]
    fn a_connection_of_many_streams_stands_for_many() {
        let warning =
            |at: &[u64], streams| warning(&jobs(at), None, uplink(), &plan(None, Protocol::Http2 { streams }), &ROOM);
        assert!(warning(&[0; 5], 1).is_some() && warning(&[0; 6], 2).is_none());
        assert!(warning(&[0; 7], 2).unwrap().starts_with("about 4 connections would stand at once"));
    }

    #[test]
    fn standing_connections_by_hand() {
        let standing = |at: &[u64], patience| standing_max(&jobs(at), uplink(), patience);
        assert_eq!(standing(&[], Nanos::MAX), 0);
        assert_eq!(standing(&[0, 2, 4, 6], Nanos::MAX), 1);
        // Four come at once; the second ends at 2.4 ms.
        assert_eq!(standing(&[0, 0, 0, 0, 2, 3], Nanos::MAX), 4);
        assert_eq!(standing(&[0, 0, 0, 0, 1, 1], Nanos::MAX), 6);
        assert_eq!(standing(&[0, 0, 0, 0, 1, 1], Nanos::from_millis(1)), 4, "all have ended or given up by then");
    }

    #[test]
    fn says_how_many_would_stand_and_how_many_can() {
        let said = warning(&jobs(&[0; 5]), None, uplink(), &plain(), &ROOM).unwrap();
        assert!(said.starts_with("about 5 connections would stand at once"), "{said}");
        assert!(said.contains("and 3 fit here (67 descriptors, 28232 local ports)"), "{said}");
        let said = warning(&[], Some(4), uplink(), &plain(), &ROOM).unwrap();
        assert!(said.starts_with("4 users have a connection each, and 3 fit here"), "{said}");
        assert_eq!(warning(&[], Some(3), uplink(), &plain(), &ROOM), None);
    }

    #[test]
    fn says_how_long_a_server_may_be_silent() {
        let warning =
            |at: &[u64], patience| warning(&jobs(at), None, uplink(), &plan(patience, Protocol::Http1), &ROOM);
        let said = warning(&[0, 100, 200, 300, 380, 480], None).unwrap();
        assert!(
            said.starts_with("a server that answers nothing for 0.28 s would have 4 connections standing"),
            "{said}"
        );
        assert_eq!(warning(&[0, 5_000, 10_000, 15_000], None), None, "silent for 15 s, it is broken");
        assert_eq!(warning(&[0, 100, 200], None), None);
        let patience = |retries| Some(Patience { abort_after: Nanos::from_millis(100), retries });
        assert!(
            warning(&[0, 100, 200, 300], patience(2)).is_none() && warning(&[0, 100, 200, 300], patience(3)).is_some()
        );
    }
}
