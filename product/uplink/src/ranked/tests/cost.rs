//! What the programs cost: instructions the verifier looked at, and run time where the kernel counts it.

use std::os::fd::{FromRawFd, OwnedFd};

use libbpf_rs::query::{ProgInfoIter, ProgramInfo};

use super::*;

/// While it lives the kernel counts the run time of every BPF program.
pub struct Timed {
    _statistics: OwnedFd,
}

impl Timed {
    pub fn new() -> Timed {
        // SAFETY: no memory is passed; the result is checked.
        let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        assert!(fd >= 0, "counting run time: {fd}");
        // SAFETY: the descriptor is new and nobody else's.
        Timed { _statistics: unsafe { OwnedFd::from_raw_fd(fd) } }
    }
}

fn programs() -> impl Iterator<Item = ProgramInfo> {
    ProgInfoIter::default().filter(|program| program.name.to_string_lossy().starts_with("weir_"))
}

/// Prints each program's mean run time; of an emulated processor it says little.
pub fn print(what: &str) {
    for program in programs().filter(|program| program.run_cnt > 0) {
        let mean_ns = program.run_time_ns / program.run_cnt;
        println!("{what}: {} {mean_ns} ns, mean of {}", program.name.display(), program.run_cnt);
    }
}

#[test]
fn the_verifier_takes_the_programs() {
    with_ranked(|| {
        let _registered = kernel::register(&new_kind(), &Settings::new(rate("10mbit"), 64)).unwrap();
        let looked_at: Vec<_> = programs().map(|program| (program.name, program.verified_insns)).collect();
        for (name, verified) in &looked_at {
            println!("verifier: {} {verified} instructions looked at", name.display());
        }
        assert!(looked_at.len() >= 5);
    });
}
