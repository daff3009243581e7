//! Local addresses and ports to connect from.
//!
//! By default the kernel searches for a free port at every connection. The search is long if many ports are taken: it
//! tries all odd ports before an even one (`__inet_hash_connect` in net/ipv4/inet_hashtables.c). Once half of them are
//! taken, every connection costs 14,000 lookups, and the generator is late. Instead we count up the ports of each
//! address, so the port that was used longest ago is next, and it is nearly always free. (With IP_BIND_ADDRESS_NO_PORT
//! the kernel would choose at `connect`, with the same search.) Without a given address, the kernel's choice is cheaper
//! as long as few connections are open.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketType};

use crate::deal::Dealt;
use crate::{Plan, PlanError};

/// The maximum number of ports of one address tried for a connection.
pub(crate) const PORT_TRIES_MAX: usize = 64;

/// The kernel chooses ports until this fraction of its range (1/4) is in use. A random odd port is then free in every
/// other try.
const KERNELS_PART: usize = 4;

/// The default range of ports in Linux (Documentation/networking/ip-sysctl.rst).
const PORTS_USUAL: RangeInclusive<u16> = 32_768..=60_999;

/// The addresses of a plan's clients, each with its ports.
#[derive(Debug)]
pub(crate) struct Origins {
    groups: Vec<Vec<Origin>>,
    /// The number of open connections up to which the kernel chooses the port.
    kernels: usize,
}

#[derive(Debug)]
struct Origin {
    address: IpAddr,
    ports: Ports,
}

/// The ports of an address, used in turn and without end.
#[derive(Debug, Clone)]
struct Ports {
    range: RangeInclusive<u16>,
    next: u16,
}

impl Origins {
    /// Creates the origins of a plan. `turn` determines the first port of each address, so that a run does not begin
    /// with the ports of the run before it.
    pub(crate) fn of(plan: &Plan, turn: u64) -> Origins {
        let ports = Ports::starting_at(local_ports(), turn);
        let origin = |&address: &IpAddr| Origin { address, ports: ports.clone() };
        let mut groups: Vec<Vec<Origin>> =
            plan.clients.iter().map(|group| group.addresses.iter().map(origin).collect()).collect();
        if !groups.is_empty() {
            return Origins { groups, kernels: 0 };
        }
        groups.extend(address_towards(plan.target).ok().map(|address| vec![origin(&address)]));
        Origins { groups, kernels: ports.range.len() / KERNELS_PART }
    }

    /// Returns the address and port from which this client's next connection starts, given the number of open
    /// connections; `None` if the kernel chooses.
    pub(crate) fn next(&mut self, dealt: Dealt, standing: usize) -> Option<SocketAddr> {
        if standing < self.kernels {
            return None;
        }
        let origin = self.groups.get_mut(dealt.group as usize)?.get_mut(dealt.address as usize)?;
        Some(SocketAddr::new(origin.address, origin.ports.next()))
    }
}

impl Ports {
    fn starting_at(range: RangeInclusive<u16>, turn: u64) -> Ports {
        let next = range.start() + (turn % range.len() as u64) as u16;
        Ports { range, next }
    }

    fn next(&mut self) -> u16 {
        let port = self.next;
        self.next = if port == *self.range.end() { *self.range.start() } else { port + 1 };
        port
    }
}

/// Checks before the run that connections can start from every address.
pub(crate) fn check(plan: &Plan) -> Result<(), PlanError> {
    for group in &plan.clients {
        for &address in &group.addresses {
            can_start_from(address).map_err(|errno| PlanError::NotOurs(group.name.clone(), address, errno))?;
        }
    }
    Ok(())
}

/// The number of connections to one server for which the addresses of a plan have ports. Without addresses the kernel
/// chooses from the ports of one address.
pub(crate) fn ports(plan: &Plan) -> usize {
    let addresses: usize = plan.clients.iter().map(|group| group.addresses.len()).sum();
    addresses.max(1) * local_ports().len()
}

fn can_start_from(address: IpAddr) -> Result<(), Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = net::socket(family, SocketType::STREAM, None)?;
    net::bind(&socket, &SocketAddr::new(address, 0))
}

/// Returns the local address that the kernel would choose for this target. Nothing is sent.
fn address_towards(target: SocketAddr) -> Result<IpAddr, Errno> {
    let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = net::socket(family, SocketType::DGRAM, None)?;
    net::connect(&socket, &target)?;
    let address = SocketAddr::try_from(net::getsockname(&socket)?).map_err(|_| Errno::AFNOSUPPORT)?;
    Ok(address.ip())
}

fn local_ports() -> RangeInclusive<u16> {
    fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|text| parse(&text))
        .unwrap_or(PORTS_USUAL)
}

fn parse(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.trim().split_once(char::is_whitespace)?;
    let range = first.parse().ok()?..=last.trim().parse().ok()?;
    (!range.is_empty()).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{group, plan};

    #[test]
    fn ports_come_in_turn_from_anywhere() {
        let taken: Vec<u16> = std::iter::repeat_with({
            let mut ports = Ports::starting_at(10..=12, 4);
            move || ports.next()
        })
        .take(5)
        .collect();
        assert_eq!(taken, [11, 12, 10, 11, 12]);
        let mut highest = Ports::starting_at(65_535..=65_535, u64::MAX);
        assert_eq!((highest.next(), highest.next()), (65_535, 65_535));
    }

    #[test]
    fn the_kernels_range_is_read() {
        assert_eq!(parse("32768\t60999\n"), Some(32_768..=60_999));
        for wrong in ["", "5", "9 8", "a b", "1 70000"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert!(!local_ports().is_empty());
    }

    #[test]
    fn each_client_has_its_own() {
        let mut plan = plan(1);
        plan.clients = vec![group("a", &["127.0.0.2", "127.0.0.3"], 0.5), group("b", &["127.0.0.4"], 0.5)];
        let mut origins = Origins::of(&plan, 0);
        assert_eq!(ports(&plan), 3 * ports(&crate::plan::tests::plan(1)));
        let mut next = |group, address| origins.next(Dealt { group, address }, 0).unwrap();
        let (one, two, other) = (next(0, 1), next(0, 1), next(1, 0));
        assert_eq!((one.ip().to_string(), one.port() + 1), ("127.0.0.3".into(), two.port()));
        assert_eq!((other.ip().to_string(), other.port()), ("127.0.0.4".into(), one.port()));
    }

    #[test]
    fn the_kernel_chooses_while_few_stand() {
        let plan = crate::plan::tests::plan(1);
        let mut origins = Origins::of(&plan, 0);
        let mut next = |standing| origins.next(Dealt { group: 0, address: 0 }, standing);
        let few = ports(&plan) / KERNELS_PART;
        assert_eq!((next(0), next(few - 1)), (None, None));
        let (one, two) = (next(few).unwrap(), next(few).unwrap());
        assert_eq!((one.ip(), one.port() + 1), (plan.target.ip(), two.port()), "to ourselves it is the same address");
    }

    #[test]
    fn an_address_of_another_machine_is_refused() {
        let mut plan = plan(1);
        plan.clients = vec![group("far", &["127.0.0.1", "192.0.2.1"], 1.0)];
        let said = check(&plan).unwrap_err().to_string();
        assert!(said.starts_with("client group `far`: cannot send from 192.0.2.1: "), "{said}");
    }
}
