//! Fairness between clients: the account in the kernel equals the account of `sched`, and packets follow it.

use libbpf_rs::{Object, ProgramInput};
use sched::policy::{ClientShare, ClientShareSpec, PolicySpec};
use sched::{Arrival, Pace, Scheduler, Size};
use units::Nanos;

use super::classes::set;
use super::tracked::{IPV4, TCP, arrive, ethernet, ipv4, leave, run_on, transport};
use super::*;
use crate::testing::loaded;

/// bpf/client.h as a separate program; empty without clang.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/client-test.bpf.o"));

const MB: u64 = 1_000_000;
/// The rate of the link, 10 Mbit/s.
const LINK_BYTES_PER_S: u64 = 1_250_000;
const PACKET_BYTES: u64 = 1500;
const PACKET_NS: u64 = PACKET_BYTES * 1_000_000_000 / LINK_BYTES_PER_S;

/// The accounts in the kernel, charged one packet at a time.
struct Kernel {
    object: Object,
    allowance_bytes: u64,
    now: u64,
}

impl Kernel {
    fn new(allowance_bytes: u64) -> Option<Kernel> {
        let object = loaded(OBJECT)?;
        Some(Kernel { object, allowance_bytes, now: 3_600_000_000_000 })
    }

    /// Charges a packet; returns the bytes by which the client is ahead with it.
    fn charge(&self, client: u64, bytes: u64) -> u64 {
        let question = [client, bytes, self.allowance_bytes, LINK_BYTES_PER_S, self.now, 0];
        let mut bytes: Vec<u8> = question.iter().flat_map(|long| long.to_ne_bytes()).collect();
        let program = self.object.progs_mut().find(|program| program.name() == "weir_charge").unwrap();
        let input = ProgramInput { context_in: Some(&mut bytes), ..ProgramInput::default() };
        assert_eq!(program.test_run(input).unwrap().return_value, 0);
        u64::from_ne_bytes(bytes[40..48].try_into().unwrap())
    }

    /// Sends a packet, and advances the clock by the time for which it occupies the link.
    fn send(&mut self, client: u64) -> u64 {
        let ahead = self.charge(client, PACKET_BYTES);
        self.now += PACKET_NS;
        ahead
    }
}

/// Four clients with 6, 2, 1 and 1 responses take turns in the order of `sched`. The kernel's account is the same to
/// within the error of one round of counting. At first one client exceeds the allowance, in the end all do.
#[test]
fn the_account_is_that_of_sched() {
    let Some(ahead) = compare(&[0, 0, 0, 0, 0, 0, 1, 1, 2, 3], 60_000, 100_000) else { return };
    assert!(ahead.iter().all(|&ahead| ahead > 3 * MB), "{ahead:?}");
}

/// Crowds are of 20 and of 40 clients with two responses each; the clock is slower by the same factors.
#[test]
fn the_clock_of_a_crowd_is_that_of_sched() {
    for (clients, packets) in [(20, 60_000), (40, 100_000)] {
        let owners: Vec<u32> = (0..clients).chain(0..clients).collect();
        let Some(ahead) = compare(&owners, packets, 50_000) else { return };
        assert!(ahead.iter().all(|&ahead| ahead > 2 * MB), "{clients}: {ahead:?}");
    }
}

/// Charges the kernel's account with the packets that `sched` grants to endless responses of these clients; the two are
/// never further apart than `most_apart`. Returns the bytes by which each client is ahead at the end.
fn compare(owners: &[u32], packets: usize, most_apart: u64) -> Option<Vec<u64>> {
    let share = ClientShare { allowance_bytes: 3 * MB, idle_bytes_per_s: LINK_BYTES_PER_S };
    let mut kernel = Kernel::new(share.allowance_bytes)?;
    let policy = "las".parse::<PolicySpec>().unwrap().build_shared(share);
    let mut sched = Scheduler::new(policy, Pace::UNLIMITED);
    for client in owners.iter().copied() {
        sched.arrive(Nanos::ZERO, Arrival { client, ..Arrival::of(Size::Known(1 << 40)) });
    }
    for packet in 0..packets {
        let grant = sched.poll_grant(Nanos::ZERO).unwrap();
        let client = owners[grant.job.number as usize];
        let _progress = sched.on_sent(Nanos::ZERO, grant.job, PACKET_BYTES);
        let want = sched.order().policy().ahead_bytes(client).unwrap();
        let ahead = kernel.send(client.into());
        assert!(ahead.abs_diff(want) < most_apart, "packet {packet} of client {client}: {ahead}, not {want}");
    }
    let clients = owners.iter().max().map_or(0, |most| most + 1);
    Some((0..clients).map(|client| sched.order().policy().ahead_bytes(client).unwrap()).collect())
}

/// A client that has the link to itself gets ahead by twice its allowance and no further; a newcomer is not ahead, and
/// goes first.
#[test]
fn nobody_is_further_ahead_than_twice_the_allowance() {
    let Some(mut kernel) = Kernel::new(3 * MB) else { return };
    let most = (0..10_000).map(|_| kernel.send(0)).max().unwrap();
    assert!((6 * MB - PACKET_BYTES..=6 * MB + PACKET_BYTES).contains(&most), "{most}");
    assert!(kernel.charge(0, PACKET_BYTES) > 5 * MB);
    assert!(kernel.send(1) <= PACKET_BYTES);
}

/// An idle link reduces the lead at its rate; a link with queued packets is not idle.
#[test]
fn an_idle_link_forgives() {
    let Some(mut kernel) = Kernel::new(3 * MB) else { return };
    let ahead = (0..4000).fold(0, |_, _| kernel.send(0));
    kernel.now += 1_000_000_000;
    let after = kernel.send(0);
    assert!(ahead > 2 * MB && (ahead - after).abs_diff(LINK_BYTES_PER_S) < 3 * PACKET_BYTES, "{ahead}, {after}");
    // The packets are queued together, as by a large window: they occupy the link for 0.6 s.
    let burst = (0..500).fold(0, |_, _| kernel.charge(0, PACKET_BYTES));
    kernel.now += 600_000_000;
    let after = kernel.charge(0, PACKET_BYTES);
    assert!(after > burst, "{burst}, {after}");
    // The link is idle for a minute and longer; a clock that goes back, as between processors, has no effect.
    kernel.now += 1 << 50;
    assert!(kernel.send(0) <= PACKET_BYTES);
    kernel.now -= 1 << 49;
    assert!(kernel.send(0) <= 2 * PACKET_BYTES);
}

/// No link setting and no traffic causes an overflow.
#[test]
fn no_account_overflows() {
    for allowance_bytes in [1, 1000, 3 * MB, 30_000 * MB] {
        let Some(kernel) = Kernel::new(allowance_bytes) else { return };
        let bytes = allowance_bytes / 400 + 1;
        let most = (0..1000).map(|_| kernel.charge(0, bytes)).max().unwrap();
        assert!((allowance_bytes..=2 * allowance_bytes + bytes).contains(&most), "{allowance_bytes}: {most}");
    }
}

/// The bytes that put a client ahead by twice its allowance, so far that the link must be idle for over a second before
/// the client is within the allowance again: no machine takes that long between two requests.
const FAR_BYTES: usize = 2_400_000;

fn shared(v4_bits: u8) -> Classify {
    let clients =
        Some(Clients { share: ClientShareSpec::Allowance(600_000), v4_bits, v6_bits: 56, by: ClientBy::Address });
    Classify { clients, rate: Some("4mbit".parse().unwrap()), ..wanted(Policy::Psjf) }
}

/// Returns the bands of a small response to this client, and the number of its packets that count as behind.
fn small(site: &Site, client: &str) -> (Vec<usize>, u64) {
    let server = if client.contains(':') { "::1" } else { "127.0.0.1" };
    let counted = site.during(|| Pair::of(server, client).answer(&[&plain(100)]));
    (bands(&counted), counted.behind)
}

/// A client that had much more than its share goes behind all others, whatever it requests, once there is another
/// client; the other client is not affected.
#[test]
fn who_is_far_ahead_goes_behind_when_another_comes() {
    with(shared(32), |site| {
        let mut greedy = Pair::of("127.0.0.1", "127.0.0.2");
        let alone = site.during(|| {
            greedy.answer(&[&plain(50_000)]);
            greedy.answer(&[&plain(FAR_BYTES)]);
        });
        assert_eq!((bands(&alone), alone.behind), (vec![3, 4], 0));
        assert_eq!(small(site, "127.0.0.3"), (vec![2], 0));
        // This also holds on a new connection, and by size: the ten bands behind those three are ordered too.
        assert_eq!(small(site, "127.0.0.2"), (vec![5], 1));
        let counted = site.during(|| Pair::of("127.0.0.1", "127.0.0.2").answer(&[&plain(150_000)]));
        assert!(counted.behind > 0 && bands(&counted) == [11], "{counted:?}");
        assert_eq!(small(site, "127.0.0.3"), (vec![2], 0));
    });
}

/// The payload of a forwarded segment, and flows of the client that is ahead.
const SEGMENT_BYTES: u32 = 1400;
const FLOWS: u32 = 20;

/// The segment `nth` of the forwarded flow to this port of this client.
fn segment(client: u8, port: u16, nth: u32) -> Vec<u8> {
    let mut tcp = transport(TCP, 5000 + SEGMENT_BYTES * nth, SEGMENT_BYTES as usize);
    tcp[2..4].copy_from_slice(&port.to_be_bytes());
    ethernet(&[], IPV4, &ipv4(client, TCP, &tcp))
}

/// The acknowledgement of the first segment of this flow.
fn first_acknowledged(client: u8, port: u16) -> Vec<u8> {
    let mut tcp = transport(TCP, 77, 0);
    tcp.copy_within(..2, 2);
    tcp[..2].copy_from_slice(&port.to_be_bytes());
    tcp[8..12].copy_from_slice(&(5000 + SEGMENT_BYTES).to_be_bytes());
    let mut ip = ipv4(client, TCP, &tcp);
    ip[12..20].rotate_left(4);
    ethernet(&[], IPV4, &ip)
}

/// Forwarded downloads always have something outstanding, and rise with it once their client is within its allowance:
/// one in a tenth of a second, since each has a burst of packets out of order.
#[test]
fn forwarded_downloads_of_who_is_ahead_no_more_rise_one_by_one() {
    with(shared(32), |site| {
        let id = find(&site.interface).unwrap().unwrap().facts.id;
        let send = |nth| (0..FLOWS).for_each(|flow| run_on(id, &segment(1, 40_000 + flow as u16, nth)));
        leave(site, &segment(2, 40_000, 0));
        send(0);
        (0..FLOWS).for_each(|flow| arrive(site, &first_acknowledged(1, 40_000 + flow as u16)));
        let last = (1..200).find(|&nth| site.during(|| send(nth)).behind >= u64::from(FLOWS)).unwrap();
        // The other client has so much that the first is within its allowance again, by more than it sends below.
        (1..600).for_each(|nth| run_on(id, &segment(2, 40_000, nth)));
        let began = std::time::Instant::now();
        let counted = site.during(|| (1..=5).for_each(|after| send(last + after)));
        // The clock of a tick is at most 10 ms late.
        let most = 1 + (began.elapsed().as_millis() + 10) / 100;
        assert_eq!(counted.behind, 0, "{counted:?}");
        assert!((1..=most).contains(&counted.promotions.into()), "{counted:?}, {most}");
        assert!(counted.held_back > 0 || most > 5, "{counted:?}");
        // A tenth of a second later another rises.
        std::thread::sleep(std::time::Duration::from_millis(120));
        assert!(site.during(|| send(last + 6)).promotions > 0);
    });
}

#[test]
fn a_prefix_is_one_client() {
    with(shared(24), |site| {
        Pair::of("127.0.0.1", "127.0.0.2").answer(&[&plain(FAR_BYTES)]);
        assert_eq!(small(site, "127.0.1.2"), (vec![2], 0));
        assert_eq!(small(site, "127.0.0.200"), (vec![5], 1));
    });
}

/// Returns the bands of a small response to 127.0.0.2 with this mark.
fn small_with(site: &Site, mark: i32) -> Vec<usize> {
    let counted = site.during(|| marked("127.0.0.2", mark).answer(&[&plain(100)]));
    bands(&counted)
}

fn marked(client: &str, mark: i32) -> Pair {
    let pair = Pair::of("127.0.0.1", client);
    set(&pair.server, libc::SOL_SOCKET, libc::SO_MARK, mark);
    pair
}

/// Behind one address the mark of the packets separates clients. What has no mark counts by its address, which is no
/// mark of the same number.
#[test]
fn clients_behind_one_address_are_told_apart_by_their_mark() {
    let clients = shared(32).clients.map(|clients| Clients { by: ClientBy::Mark, ..clients });
    with(Classify { clients, ..shared(32) }, |site| {
        let of_address = i32::from_ne_bytes([127, 0, 0, 2]);
        marked("127.0.0.2", 1).answer(&[&plain(FAR_BYTES)]);
        assert_eq!(small_with(site, 2), [2]);
        assert_eq!(small_with(site, 1), [5]);
        assert_eq!(small_with(site, 0), [2]);
        // One mark is one client, whatever its addresses.
        let counted = site.during(|| marked("127.0.0.7", 1).answer(&[&plain(100)]));
        assert_eq!(counted.behind, 1);
        marked("127.0.0.9", of_address).answer(&[&plain(FAR_BYTES)]);
        assert_eq!(small_with(site, of_address), [5]);
        assert_eq!(small(site, "127.0.0.2"), (vec![2], 0));
    });
}

/// An IPv6 client is by default a home with a network of 56 bits.
#[test]
fn addresses_of_one_network_are_one_client() {
    with(shared(32), |site| {
        for address in ["2001:db8:1:100::1", "2001:db8:1:1ff::2", "2001:db8:1:200::1"] {
            run(&format!("ip address add {address}/128 dev lo nodad"));
        }
        Pair::of("::1", "2001:db8:1:100::1").answer(&[&plain(FAR_BYTES)]);
        assert_eq!(small(site, "2001:db8:1:200::1"), (vec![2], 0));
        assert_eq!(small(site, "2001:db8:1:1ff::2"), (vec![5], 1));
    });
}

/// A followed rate changes every few seconds; the program, loaded with one rate, is not loaded anew for each.
#[test]
fn the_share_of_a_followed_rate_may_lag_by_a_quarter() {
    let clients = Some(Clients { share: ClientShareSpec::On, v4_bits: 32, v6_bits: 56, by: ClientBy::Address });
    let at = move |rate: &str| Classify { clients, rate: rate.parse().ok(), is_followed: true, ..wanted(Policy::Psjf) };
    with(at("10mbit"), move |site| {
        let (interface, told) = (&site.interface, Classify { is_followed: false, ..at("9mbit") });
        let change =
            |from: &str, to: &str| tree::change_rate(interface, from.parse().unwrap(), to.parse().unwrap(), None);
        assert!(!change("9mbit", "8mbit").unwrap(), "another has set it");
        assert!(change("10mbit", "9mbit").unwrap() && is_in_place(interface, &at("9mbit")).unwrap());
        assert!(!is_in_place(interface, &told).unwrap());
        assert!(change("9mbit", "7mbit").unwrap() && !is_in_place(interface, &at("7mbit")).unwrap());
        attach(interface, &at("7mbit")).unwrap();
        assert!(is_in_place(interface, &at("7mbit")).unwrap());
    });
}
