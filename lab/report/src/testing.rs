//! Sample runs for the tests of this crate.

use record::{JobRecord, Manifest, Run};

/// 8 Mbit/s carries a byte per microsecond.
pub const LINK_BPS: u64 = 8_000_000;

pub fn manifest(name: &str) -> Manifest {
    Manifest {
        server: "weir".into(),
        policy: "srpt".into(),
        shaping: "paced".into(),
        link_bps: LINK_BPS,
        rho: 0.8,
        seed: 1,
        seconds: 2.0,
        server_cpu: Some(0.25),
        lateness_ns_p99: Some(50_000),
        ..Manifest::new(name)
    }
}

/// A run of complete jobs, each given by arrival in ms, size in bytes and response time in ms.
pub fn run(name: &str, jobs: &[(u64, u64, u64)]) -> Run {
    let records = (0..).zip(jobs).map(|(job, &(arrival_ms, size_bytes, response_ms))| {
        let (arrival_ns, end_ns) = (arrival_ms * 1_000_000, (arrival_ms + response_ms) * 1_000_000);
        let (start_ns, first_byte_ns) = (Some(arrival_ns + 50_000), Some(end_ns));
        let complete = JobRecord::complete(job, size_bytes, arrival_ns, end_ns);
        JobRecord { head_bytes: 200, start_ns, first_byte_ns, ..complete }
    });
    Run { manifest: manifest(name), records: records.collect(), pages: vec![] }
}
