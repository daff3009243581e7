//! Whether the link of a run was a wire: no response can have arrived before the link alone could have carried its bytes.
//!
//! A token bucket sends a packet first and waits afterwards, so on one a response ends up to a packet before its time, and a run seems
//! closer to the bounds than any schedule of a wire can come. No figure of the run shows it: a mean hides a millisecond under
//! its queue. So every completed job of every run is held against the time its own bytes take.

use std::num::NonZeroU64;

use record::{JobRecord, Manifest, Run, Wire};
use theory::{Carrier, plain_service, wire_service};
use units::wire::SEGMENT_BYTES;
use units::{Nanos, Rate};

/// The time by which, before its wire time, a response may seem to end: clocks of two programs and of kernels that count in
/// nanoseconds, read before and after the event. A byte takes 800 ns at 10 Mbit/s; by a token bucket it is 1,211 us.
pub const CLOCK_GRANULARITY: Nanos = Nanos::from_micros(1);

/// Links round every packet to a nanosecond.
const PACKET_ROUNDING: Nanos = Nanos(1);

/// The key of a manifest's environment for a link that serialises, and how it does; runs over a token bucket do not have it.
pub(crate) const WIRE: &str = "wire";

/// The remark on response times that the link has no part in.
const OF_SERVER: &str = "recorded by the server: a response ends when the kernel has its last byte, before the link has carried \
                         it, and ratios to a bound are not comparable";

/// The jobs of a run that completed, and those of them that the link would have needed longer for than they took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beaten {
    pub beat: usize,
    pub completed: usize,
}

impl Beaten {
    pub fn of(run: &Run) -> Beaten {
        let completed = || run.records.iter().filter(|record| record.is_complete());
        let link = Rate::from_bits_per_s(run.manifest.link_bps);
        let beat = completed().filter(|record| link.is_some_and(|link| beats(record, run.manifest.wire, link))).count();
        Beaten { beat, completed: completed().count() }
    }

    /// Returns the remark that belongs to every figure of the run that depends on the link; `None` if there is none.
    pub fn remark(self, manifest: &Manifest) -> Option<String> {
        if manifest.is_of_server() {
            return Some(OF_SERVER.into());
        }
        self.reason()
    }

    /// Returns the reason if the link let jobs end before their time.
    fn reason(self) -> Option<String> {
        let Beaten { beat, completed } = self;
        (beat > 0).then(|| {
            format!(
                "{beat} of {completed} jobs beat their own wire time: the link does not serialise, and ratios to a bound are not \
                 comparable"
            )
        })
    }
}

/// Returns the reason why a run is void that says it went over a wire; one that does not say so is only marked.
pub(crate) fn void_reason(run: &Run) -> Option<String> {
    run.manifest.environment.contains_key(WIRE).then(|| Beaten::of(run).reason()).flatten()
}

fn beats(record: &JobRecord, wire: Wire, link: Rate) -> bool {
    let payload_bytes = record.head_bytes.saturating_add(record.body_bytes);
    let rounding = Nanos(PACKET_ROUNDING.0.saturating_mul(payload_bytes.div_ceil(SEGMENT_BYTES)));
    let needed = match wire {
        Wire::Tcp => wire_service(record.head_bytes, record.body_bytes, link),
        Wire::Plain => plain_service(record.body_bytes, link),
    };
    record.response_time() + CLOCK_GRANULARITY + rounding < needed
}

/// Returns the carrier by what the load generator wrote of its protocol; of others, and of runs that a server recorded,
/// nobody knows, and it is HTTP/1.1.
pub(crate) fn carrier(manifest: &Manifest) -> Carrier {
    Carrier::of_protocol(manifest.environment.get(PROTOCOL).map_or("", String::as_str))
}

/// In a manifest's environment, where it is not HTTP/1.1 without TLS.
const PROTOCOL: &str = "protocol";

/// The packet bound of these jobs.
pub(crate) fn packet_bound(run: &Run, heads: &[u64], link: Rate) -> Vec<Nanos> {
    let payload = |(record, head): (&JobRecord, &u64)| (Nanos(record.arrival_ns), head + record.size_bytes);
    let requests: Vec<(Nanos, u64)> = run.records.iter().zip(heads).map(payload).collect();
    let per_connection = NonZeroU64::new(run.manifest.per_connection).unwrap_or(NonZeroU64::MIN);
    theory::packet_bound(&requests, per_connection, carrier(&run.manifest), link)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run;
    use record::Outcome;

    /// 1,000 + 200 bytes take 1,266 us at a byte per microsecond.
    fn took(response_ns: u64) -> Run {
        let mut run = run("a", &[(0, 1000, 5), (9, 1000, 5)]);
        run.records[1].end_ns = run.records[1].arrival_ns + response_ns;
        run
    }

    #[test]
    fn a_job_sooner_than_its_own_bytes_is_found() {
        assert_eq!(Beaten::of(&took(1_266_000)).beat, 0);
        // As far as the clock goes, and a nanosecond for its packet.
        assert_eq!(Beaten::of(&took(1_264_999)).reason(), None);
        let said = Beaten::of(&took(1_264_998)).reason().unwrap();
        assert!(said.starts_with("1 of 2 jobs beat their own wire time: the link does not serialise"), "{said}");
    }

    #[test]
    fn only_what_arrived_counts_and_only_of_jobs_that_completed() {
        let mut short = took(100_000);
        short.records[1].outcome = Outcome::Reset;
        assert_eq!(Beaten::of(&short), Beaten { beat: 0, completed: 1 });
        let mut empty = took(266_000);
        empty.records[1].body_bytes = 0;
        assert_eq!(Beaten::of(&empty).beat, 0, "a head of 200 bytes and nothing else");
    }

    /// The link of queueing theory carries 1,000 bytes in 1,000 us.
    #[test]
    fn without_packets_the_size_alone_has_to_fit() {
        let of = |response_ns| {
            let mut run = took(response_ns);
            run.manifest.wire = Wire::Plain;
            run
        };
        assert_eq!((Beaten::of(&of(1_000_000)).beat, Beaten::of(&of(998_000)).beat), (0, 1));
        let summary = crate::summarize("e", &[of(1_000_000)]).unwrap();
        assert_eq!(summary.packet_bound_ms, summary.bound_ms);
    }

    #[test]
    fn a_wire_that_is_none_is_void_and_history_is_marked() {
        let mut run = took(100_000);
        assert_eq!(crate::void_reason(&run), None);
        run.manifest.environment.insert("wire".into(), "netem rate 8000000".into());
        assert!(crate::void_reason(&run).unwrap().starts_with("1 of 2 jobs beat their own wire time"));
        let mut good = took(1_266_000);
        good.manifest.environment = run.manifest.environment;
        assert_eq!(crate::void_reason(&good), None);
    }

    /// The server does not see its last packets leave, however good the link is.
    #[test]
    fn a_server_that_records_has_not_seen_the_link() {
        let mut run = took(1_266_000);
        assert_eq!(crate::summarize("e", &[run.clone()]).unwrap().runs[0].not_a_wire, None);
        run.manifest = run.manifest.of_server();
        let said = crate::summarize("e", &[run]).unwrap().runs[0].not_a_wire.clone().unwrap();
        assert!(said.starts_with("recorded by the server: "), "{said}");
    }

    #[test]
    fn the_packet_bound_opens_connections() {
        let bound = |per_connection| {
            let mut run = run("a", &[(0, 1248, 90), (0, 1248, 90), (0, 1248, 90)]);
            run.manifest.per_connection = per_connection;
            let times = packet_bound(&run, &[200; 3], "8mbit".parse().unwrap());
            times.iter().map(|time| time.0 / 1000).collect::<Vec<_>>()
        };
        let one = 74 + 1514;
        assert_eq!(bound(1), [one, 2 * one, 3 * one], "closes wait");
        // The second and third have no handshake and are therefore first.
        assert_eq!(bound(3), [3 * 1514 + 74, 1514, 2 * 1514]);
    }

    #[test]
    fn the_carrier_is_what_the_generator_says_it_spoke() {
        let of = |said: &str| {
            let mut manifest = run("a", &[]).manifest;
            manifest.environment.insert("protocol".into(), said.into());
            carrier(&manifest)
        };
        assert_eq!(of("HTTP/1.1 over TLS"), Carrier::HTTP1_TLS);
        assert_eq!(of("HTTP/2 over TLS, up to 6 streams on a connection"), Carrier::HTTP2_TLS);
        assert_eq!(of("HTTP/2, up to 6 streams on a connection"), Carrier::HTTP2);
        assert_eq!(of("HTTP/3, up to 100 streams on a connection"), Carrier::HTTP3);
        assert_eq!(carrier(&run("a", &[]).manifest), Carrier::HTTP1);
    }
}
