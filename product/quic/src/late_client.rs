//! Detects, from acknowledgements, a client that is short of processor time.
//!
//! Datagrams wait in the client's socket buffer until the client runs. The smoothed round trip includes that wait, so
//! it looks like a queue on the line. When the client runs, it reads all of them, and the last one has not waited. So
//! the shortest of several recent round trips is that of the path. A socket buffer also holds only about a hundred
//! datagrams; the client, not the line, loses the others. Such losses follow a silence that ends with many
//! acknowledgements at the same moment.

use std::time::{Duration, Instant};

/// The number of datagrams over which the shortest round trip is determined, together with the same number before them.
const LEAST_OF: u32 = 8;
/// The silence after which a client counts as late. A client may delay an acknowledgement by 25 ms.
const SILENT_FOR: Duration = Duration::from_millis(30);
/// The minimum number of datagrams that a late client acknowledges within `ONCE`. On a slow line, acknowledgements are
/// rare and arrive one by one.
const AT_ONCE: u32 = 10;
const ONCE: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Copy)]
pub(crate) struct LateClient {
    acked_at: Option<Instant>,
    /// Acknowledgements since the client was last silent.
    burst: Option<Burst>,
    /// The end of the last period in which the client was late.
    late_until: Option<Instant>,
    /// The shortest round trip of the latest datagrams, and of the same number before them.
    least: [Duration; 2],
    least_of: u32,
    own_lost_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Burst {
    began: Instant,
    datagrams: u32,
}

impl Default for LateClient {
    fn default() -> LateClient {
        let least = [Duration::MAX; 2];
        LateClient { acked_at: None, burst: None, late_until: None, least, least_of: 0, own_lost_bytes: 0 }
    }
}

impl LateClient {
    /// Records the acknowledgement of a datagram; `least` is the shortest round trip of the path so far.
    pub fn on_ack(&mut self, now: Instant, sent: Instant, least: Duration) {
        let age = now.saturating_duration_since(sent);
        let before = self.acked_at.replace(now);
        if before.is_some_and(|before| now.saturating_duration_since(before) >= SILENT_FOR) {
            // A datagram that was sent only just now gave the client no reason to acknowledge earlier.
            let is_late = age >= least.saturating_add(SILENT_FOR);
            self.burst = is_late.then_some(Burst { began: now, datagrams: 0 });
        }
        if let Some(burst) = &mut self.burst {
            burst.datagrams += 1;
            if now.saturating_duration_since(burst.began) > ONCE {
                self.burst = None;
            } else if burst.datagrams >= AT_ONCE {
                self.late_until = Some(now);
            }
        }
        if self.least_of == LEAST_OF {
            (self.least, self.least_of) = ([Duration::MAX, self.least[0]], 0);
        }
        self.least[0] = self.least[0].min(age);
        self.least_of += 1;
    }

    /// Records lost datagrams, the last of which was sent at this time.
    pub fn on_lost(&mut self, sent: Instant, bytes: u64) {
        if self.late_until.is_some_and(|until| sent <= until) {
            self.own_lost_bytes += bytes;
        }
    }

    /// The shortest round trip of the last 8 to 16 datagrams that were acknowledged; `None` before the first.
    pub fn least_rtt(&self) -> Option<Duration> {
        let least = self.least[0].min(self.least[1]);
        (least != Duration::MAX).then_some(least)
    }

    /// Bytes lost so far because the client was late.
    pub fn own_lost_bytes(&self) -> u64 {
        self.own_lost_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;
    const PATH: Duration = Duration::from_millis(20);

    /// A client that acknowledges, at each of these times, what was sent then.
    fn client(acks: impl IntoIterator<Item = (u64, u64)>) -> (Instant, LateClient) {
        let (start, mut client) = (Instant::now(), LateClient::default());
        acks.into_iter().for_each(|(at, sent)| client.on_ack(start + MS(at), start + MS(sent), PATH));
        (start, client)
    }

    /// Acknowledged a path's time after it was sent, up to the hundredth millisecond; what was sent since, at once.
    fn late(until_ms: u64) -> impl Iterator<Item = (u64, u64)> {
        (20..100).map(|at| (at, at - 20)).chain((80..=until_ms - 20).map(move |sent| (until_ms, sent)))
    }

    #[test]
    fn what_waits_at_the_client_is_no_part_of_the_shortest_round_trip() {
        assert_eq!(LateClient::default().least_rtt(), None);
        assert_eq!(client(late(300)).1.least_rtt(), Some(PATH));
        // Sixteen datagrams later a queue shows.
        let queued = late(300).chain((301..317).map(|at| (at, at - 50)));
        assert_eq!(client(queued).1.least_rtt(), Some(MS(50)));
    }

    #[test]
    fn losses_until_the_end_of_a_silence_are_the_client_s_own() {
        let (start, mut late) = client(late(300));
        late.on_lost(start + MS(300), 5_000);
        late.on_lost(start + MS(301), 7_000);
        assert_eq!(late.own_lost_bytes(), 5_000);
    }

    #[test]
    fn losses_of_the_line_are_not() {
        let steady: Vec<_> = (20..300).map(|at| (at, at - 20)).collect();
        // Two that wait for one another, on a line of a packet every 40 ms.
        let slow: Vec<_> = (2..20).map(|nth| (40 * nth, 40 * nth - 80)).collect();
        // Nothing was sent for a while.
        let idle: Vec<_> = (20..100).chain(300..400).map(|at| (at, at - 20)).collect();
        // An acknowledgement that is a little late, or of little.
        let short: Vec<_> = late(120).collect();
        let few: Vec<_> = late(300).take(88).collect();
        for acks in [steady, slow, idle, short, few] {
            let (start, mut client) = client(acks);
            client.on_lost(start, 5_000);
            assert_eq!(client.own_lost_bytes(), 0);
        }
    }
}
