//! The qdisc between two networks: one sends through it, the other writes down what arrives. These need a kernel with BPF
//! qdiscs, so they run where `make test-vm` takes them and say SKIPPED elsewhere.

mod cost;
mod order;
mod pair;
mod residue;

use super::*;

/// Runs a test in a network of its own where the kernel has BPF qdiscs; in the virtual machine it has to.
fn with_ranked(test: impl FnOnce() + Send + 'static) {
    match available() {
        Ok(()) => crate::testing::in_own_network(test),
        Err(error) => {
            assert!(std::env::var("VM_RUN_GUEST").is_err(), "not skipped in the virtual machine: {error}");
            println!("SKIPPED: {error}; `make test-vm` has one");
        }
    }
}

fn rate(text: &str) -> Rate {
    text.parse().unwrap()
}

#[test]
fn settings_and_counters_have_the_layout_of_the_program() {
    let settings = Settings { overhead_bytes: 24, ..Settings::new(rate("10mbit"), 7) };
    let bytes = settings.encode("weir_0123456789");
    assert_eq!(bytes.len(), 56);
    assert_eq!(&bytes[..16], b"weir_0123456789\0");
    assert_eq!(u64::from_ne_bytes(bytes[16..24].try_into().unwrap()), 1_250_000);
    assert_eq!(Settings::decode(&bytes), Some(settings));
    assert_eq!(Settings::decode(&bytes[1..]), None);

    let words: Vec<u8> = (1..=8u64).flat_map(u64::to_ne_bytes).chain((9..=12u32).flat_map(u32::to_ne_bytes)).collect();
    let stats = Stats::decode(&[vec![0; 16], words].concat()).unwrap();
    assert_eq!((stats.packets, stats.backlog_bytes, stats.backlog_packets, stats.waits), (1, 8, 9, 12));
}

#[test]
fn a_name_fits_the_kernel_and_is_new_every_time() {
    let (one, other) = (new_kind(), new_kind());
    assert_eq!((one.len(), other.len()), (15, 15));
    assert_ne!(one, other);
}

#[test]
fn a_bound_on_flows_that_is_none_is_refused() {
    let lo = Interface { index: 1, name: "lo".to_string() };
    for flows_max in [0, FLOWS_MAX_LIMIT + 1] {
        let error = install(&lo, rate("10mbit"), flows_max).unwrap_err().to_string();
        assert!(error.contains("write 1 to 262144"), "{error}");
    }
}
