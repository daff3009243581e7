//! Counts refusals by kind, and logs at most one line per kind in ten seconds, so that a flood of refusals does not
//! flood the log.

use units::Nanos;

use super::ClientLimits;

/// The minimum interval between two lines of one kind.
const TELL_EVERY: Nanos = Nanos::from_secs(10);
const KINDS: [Kind; 2] = [Kind::Connections, Kind::Requests];

/// The limit that a client exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Connections,
    Requests,
}

#[derive(Debug, Default)]
pub(super) struct Refusals {
    by_kind: [Count; KINDS.len()],
}

#[derive(Debug, Default)]
struct Count {
    /// The number of refusals since the last line.
    refused: u64,
    last: u128,
    told_at: Option<Nanos>,
}

impl Refusals {
    pub fn add(&mut self, kind: Kind, prefix: u128) {
        let count = &mut self.by_kind[kind as usize];
        count.refused += 1;
        count.last = prefix;
    }

    /// Returns the next line that is due.
    pub fn tell(&mut self, now: Nanos, limits: &ClientLimits) -> Option<String> {
        KINDS.into_iter().find_map(|kind| self.by_kind[kind as usize].tell(kind, now, limits))
    }
}

impl Count {
    fn tell(&mut self, kind: Kind, now: Nanos, limits: &ClientLimits) -> Option<String> {
        if self.refused == 0 || self.told_at.is_some_and(|at| now - at < TELL_EVERY) {
            return None;
        }
        self.told_at = Some(now);
        let refused = std::mem::take(&mut self.refused);
        Some(line(kind, refused, limits, limits.prefix.show(self.last)))
    }
}

fn line(kind: Kind, refused: u64, limits: &ClientLimits, last: String) -> String {
    let (noun, limit) = match kind {
        Kind::Connections => (
            "connection",
            format!("have {} at once (--client-connections, limits.client_connections)", limits.connections_max),
        ),
        Kind::Requests => (
            "request",
            format!("make {} per second (--client-requests, limits.client_requests)", limits.requests_per_s_max),
        ),
    };
    let plural = if refused == 1 { "" } else { "s" };
    format!("refused {refused} {noun}{plural}, the last from {last}: one client may {limit}")
}
