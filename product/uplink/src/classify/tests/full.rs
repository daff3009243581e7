//! The tables of flows and clients when more of both come than fit: the oldest go.

use libbpf_rs::{MapCore, MapHandle, Program};
use sched::policy::ClientShareSpec;
use std::collections::BTreeSet;
use std::os::fd::AsFd;

use super::tracked::{IPV4, TCP, ethernet, ipv4, run_on, transport};
use super::*;
use crate::classify::program::info;

const FLOWS: u32 = 100_000;
/// The number of flows that the table holds.
const HELD: usize = 1 << 16;
const PAYLOAD: usize = 1400;
/// The offsets of the client's address and port in a frame.
const CLIENT_AT: usize = 30;
const CLIENT_PORT_AT: usize = 36;
/// The offset of the client's address in a key of the table.
const CLIENT_IN_KEY: usize = 16;
/// The address of the first client, 198.18.0.0.
const FIRST: u32 = 0xc612_0000;
/// The number of flows of which all must be forgotten, and of which none may be.
const FEW: u32 = 1000;
const MEMORY_MAX: u64 = 32 << 20;

/// The first packet of a flow; each flow is of another client.
fn frame(flow: u32) -> Vec<u8> {
    let tcp = transport(TCP, 5000, PAYLOAD);
    let mut frame = ethernet(&[], IPV4, &ipv4(1, TCP, &tcp));
    frame[CLIENT_AT..CLIENT_AT + 4].copy_from_slice(&(FIRST + flow).to_be_bytes());
    frame[CLIENT_PORT_AT..CLIENT_PORT_AT + 2].copy_from_slice(&(flow as u16 | 1).to_be_bytes());
    frame
}

fn maps(program: u32) -> Vec<MapHandle> {
    let program = Program::fd_from_id(program).unwrap();
    let (_, numbers) = info(program.as_fd()).unwrap();
    numbers.into_iter().map(|number| MapHandle::from_map_id(number).unwrap()).collect()
}

/// Returns the flows in the table.
fn flows(program: u32) -> BTreeSet<u32> {
    let table = maps(program).into_iter().find(|map| map.name() == "weir_tracked").unwrap();
    let client = |key: Vec<u8>| u32::from_be_bytes(key[CLIENT_IN_KEY..CLIENT_IN_KEY + 4].try_into().unwrap());
    table.keys().map(|key| client(key) - FIRST).collect()
}

/// Returns the bytes of kernel memory that a map takes.
fn memory_bytes(map: &MapHandle) -> u64 {
    let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", map.as_fd().as_raw_fd())).unwrap();
    about.lines().find_map(|line| line.strip_prefix("memlock:")).unwrap().trim().parse().unwrap()
}

#[test]
fn full_tables_forget_the_oldest_and_refuse_nothing() {
    let clients = Clients { share: ClientShareSpec::On, v4_bits: 32, v6_bits: 56, by: ClientBy::Address };
    with(Classify { clients: Some(clients), ..wanted(Policy::Psjf) }, |site| {
        let id = find(&site.interface).unwrap().unwrap().facts.id;
        let seen = site.during(|| (0..FLOWS).for_each(|flow| run_on(id, &frame(flow))));
        assert_eq!((seen.by_flow, seen.no_storage, seen.behind), (FLOWS.into(), 0, 0));
        assert_eq!(seen.bands[2].packets, u64::from(FLOWS));
        let kept = flows(id);
        assert!((HELD / 2..=HELD).contains(&kept.len()), "{}", kept.len());
        let of = |flows: std::ops::Range<u32>| flows.filter(|flow| kept.contains(flow)).count();
        assert_eq!((of(0..FEW), of(FLOWS - FEW..FLOWS)), (0, FEW as usize));
        let memory: u64 = maps(id).iter().map(memory_bytes).sum();
        println!("the tables take {memory} bytes with {FLOWS} flows");
        assert!(memory <= MEMORY_MAX, "{memory}");
    });
}
