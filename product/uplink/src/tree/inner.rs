//! The leaves of the classes of responses, the bands below each leaf, and the filter that finds a packet's class.
//!
//! A packet's priority names its band in the HTB of its class, not in the HTB at the root. At the root, a program of
//! seven instructions reads the class from the upper half of the priority. It is assembled here, because a tree must
//! not require clang.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use units::Nanos;

use super::build::{self, At, HtbClass, LINK_CLASS, ROOT};
use super::classes::{self, ClassRates};
use super::{DATA_BAND_FIRST, Plan};
use crate::constants::CLASSES_MAX;
use crate::netlink::{Body, NLM_F_CREATE};
use crate::tc::{Qdisc, RTM_DELTCLASS, RTM_NEWTFILTER, TCA_KIND, TCA_OPTIONS, tcm};

/// The handle of the first class's HTB, `5760:`, as it appears in the upper half of a priority.
const INNER_FIRST: u32 = 0x5760;
/// The leaf of the first class, `5745:20`.
const CLASS_FIRST: u32 = ROOT | 0x20;
/// The handle of the queue of the first class's band 0, `5800:`. Each class has sixteen.
const QUEUE_FIRST: u32 = 0x5800;
/// The priority of the classes in the root HTB: after control packets, and before other traffic that exceeds its share.
const PRIORITY: u8 = 1;
/// The maximum time for which a class at its maximum rate may catch up; it is otherwise the time of two rounds of
/// turns.
const ROUNDS_MAX: Nanos = Nanos::from_millis(500);
/// The rate of a class's HTB, in bytes per second. It is so high that the HTB does not shape; its leaf does.
const UNBOUNDED: u64 = 1 << 34;

const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
/// The name of the program: "weir" and its purpose.
const NAME: &str = "weir_class";
const ETH_P_ALL: u16 = 3;

/// Returns the handle of a class's HTB.
pub fn root_of(class: usize) -> u32 {
    (INNER_FIRST + class as u32) << 16
}

/// Returns the leaf of a class.
pub fn leaf_of(class: usize) -> u32 {
    CLASS_FIRST + class as u32
}

/// Returns the handle of the queue of a band.
pub fn queue_of(class: usize, band: u8) -> u32 {
    (QUEUE_FIRST + class as u32 * 16 + u32::from(band)) << 16
}

/// Creates the HTB of each class with its bands, and the filter.
pub fn make(at: &mut At<'_>, plan: &Plan) -> io::Result<()> {
    set(at, plan, 0)?;
    if plan.classes.is_empty() { Ok(()) } else { select(at) }
}

/// Creates the HTBs of classes from number `before` on, or removes those that the plan no longer has, and updates the
/// guaranteed shares of the others.
pub fn set(at: &mut At<'_>, plan: &Plan, before: usize) -> io::Result<()> {
    let classes = plan.classes.len();
    for class in before..classes {
        build::make_htb(at, root_of(class), leaf_of(class), build::leaf_of(plan, class, plan.bands - 1))?;
    }
    set_bands(at, plan)?;
    for class in before..classes {
        (DATA_BAND_FIRST..plan.bands).try_for_each(|band| build::make_queue(at, plan, class, band))?;
    }
    (classes..before).try_for_each(|class| {
        match at.netlink.change(RTM_DELTCLASS, 0, &tcm(at.interface, leaf_of(class), ROOT)) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(()),
        }
    })
}

/// Creates the leaves of the classes, or changes their rates.
pub fn set_leaves(at: &mut At<'_>, plan: &Plan) -> io::Result<()> {
    let all = classes::rates(plan, build::packet_bytes(at.mtu_bytes));
    let round_bytes: u64 = all.iter().map(|rates| u64::from(rates.turn_bytes)).sum();
    // A round takes longer because of the bytes that leave at minimum rates.
    let burst = plan.rate.time_for(2 * round_bytes).clamp(build::BURST, ROUNDS_MAX);
    for (class, rates) in all.into_iter().enumerate() {
        let ClassRates { guaranteed, ceiling, turn_bytes, .. } = rates;
        let leaf = HtbClass { guaranteed, ceiling, priority: PRIORITY, quantum_bytes: turn_bytes, burst };
        leaf.set(at, leaf_of(class), LINK_CLASS, plan.framing)?;
    }
    Ok(())
}

/// Creates the bands of the classes, or changes their guaranteed shares.
fn set_bands(at: &mut At<'_>, plan: &Plan) -> io::Result<()> {
    for (class, rates) in classes::rates(plan, build::packet_bytes(at.mtu_bytes)).into_iter().enumerate() {
        let (quantum_bytes, burst) = (build::QUANTUM_MAX, build::BURST);
        let all = HtbClass { guaranteed: UNBOUNDED, ceiling: UNBOUNDED, priority: 0, quantum_bytes, burst };
        let top = root_of(class) | (LINK_CLASS & 0xffff);
        all.set(at, top, root_of(class), plan.framing)?;
        for band in DATA_BAND_FIRST..plan.bands {
            let leaf = build::band_class(at, plan, band, [plan.guaranteed(rates.nominal, band), UNBOUNDED]);
            leaf.set(at, build::leaf_of(plan, class, band), top, plan.framing)?;
        }
    }
    Ok(())
}

/// Adds the filter at the root.
fn select(at: &mut At<'_>) -> io::Result<()> {
    let program = load()?;
    let mut message = tcm(at.interface, 0, ROOT);
    // The filter's preference, and the protocol of its packets.
    message[16..].copy_from_slice(&(1 << 16 | u32::from(ETH_P_ALL.to_be())).to_ne_bytes());
    let options = Body::new(&[]).attribute(TCA_BPF_FD, &program.as_raw_fd().to_ne_bytes()).text(TCA_BPF_NAME, NAME);
    let filter = Body::new(&message).text(TCA_KIND, "bpf").nested(TCA_OPTIONS, options);
    at.netlink.change(RTM_NEWTFILTER, NLM_F_CREATE, filter.bytes())
}

/// Returns true if these are the qdiscs and classes of a tree with this plan's classes.
pub fn is_whole(plan: &Plan, qdiscs: &[Qdisc], ids: &[u32]) -> bool {
    let has_root = |class: usize| qdiscs.iter().any(|qdisc| qdisc.handle == root_of(class) && qdisc.kind == "htb");
    let has_bands = |class| (DATA_BAND_FIRST..plan.bands).all(|band| ids.contains(&build::leaf_of(plan, class, band)));
    (0..plan.classes.len()).all(|class| ids.contains(&leaf_of(class)) && has_root(class) && has_bands(class))
        && !ids.contains(&leaf_of(plan.classes.len()))
}

/// The start of `union bpf_attr` for BPF_PROG_LOAD (linux/bpf.h).
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log: [u32; 4],
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
/// The offset of `priority` in `struct __sk_buff`.
const PRIORITY_AT: i16 = 32;

/// Assembles the program: it returns the leaf of the class whose HTB the priority names, or 0 for no class.
fn code() -> [u64; 7] {
    // One `struct bpf_insn`: opcode, registers (destination, source), offset, constant.
    let instruction = |code: u8, registers: u8, offset: i16, constant: u32| {
        let mut bytes = [0; 8];
        bytes[..2].copy_from_slice(&[code, registers]);
        bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
        bytes[4..].copy_from_slice(&constant.to_ne_bytes());
        u64::from_ne_bytes(bytes)
    };
    let registers = |source: u8| if cfg!(target_endian = "big") { source } else { source << 4 };
    [
        instruction(0x61, registers(1), PRIORITY_AT, 0),
        instruction(0x74, 0, 0, 16),
        instruction(0x04, 0, 0, INNER_FIRST.wrapping_neg()),
        // The result is 0 unless the number is below the number of classes.
        instruction(0xa5, 0, 1, CLASSES_MAX as u32),
        instruction(0xb4, 0, 0, CLASS_FIRST.wrapping_neg()),
        instruction(0x04, 0, 0, CLASS_FIRST),
        instruction(0x95, 0, 0, 0),
    ]
}

fn load() -> io::Result<OwnedFd> {
    let (code, license) = (code(), c"Dual MIT/GPL");
    let mut load = Load {
        kind: BPF_PROG_TYPE_SCHED_CLS,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        ..Load::default()
    };
    load.name[..NAME.len()].copy_from_slice(NAME.as_bytes());
    // SAFETY: the kernel reads `load` and, through it, the instructions and the licence; all three live through the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw mut load, size_of::<Load>()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a successful BPF_PROG_LOAD returns a descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::testing::{in_own_network, run};
    use crate::tree::{CLASS_STEP, Change, ClassShare, Kind, Tree, change_rate, down, find, up};
    use crate::{Counted, Interface};

    /// The packets that a class has waiting, the total number that leaves in a window, and their size without headers.
    const WAITING: usize = 400;
    const WINDOW: u64 = 300;
    const BYTES: usize = 1200;

    fn share(weight: u16, min: Option<&str>, max: Option<&str>) -> ClassShare {
        let part = |text: &str| text.parse().unwrap();
        ClassShare { weight, min_rate: min.map(part), max_rate: max.map(part) }
    }

    fn plan(rate: &str, classes: &[ClassShare]) -> Plan {
        let plan = Plan::new(Kind::Htb, rate.parse().unwrap());
        Plan { classes: classes.to_vec(), packets_per_band: 1000, ..plan }
    }

    /// Runs a test with an interface that drops all packets.
    fn on_an_interface(test: impl FnOnce(&Interface) + Send + 'static) {
        in_own_network(|| {
            run("ip link add weir0 type veth peer name weir1");
            run("ip link set weir1 up");
            run("ip link set weir0 up");
            run("ip addr add 198.18.70.1/24 dev weir0");
            run("ip neigh add 198.18.70.2 lladdr 02:00:00:00:00:01 dev weir0");
            test(&Interface::by_name("weir0").unwrap());
        });
    }

    fn set(socket: &UdpSocket, option: i32, value: u32) {
        // SAFETY: the option's value is one int, which outlives the call.
        let status =
            unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, (&raw const value).cast(), 4) };
        assert_eq!(status, 0);
    }

    /// Sends datagrams of a class and a band, which wait there.
    fn fill(tree: &Tree, class: u32, band: u8) {
        let socket = UdpSocket::bind("198.18.70.1:0").unwrap();
        set(&socket, libc::SO_SNDBUFFORCE, 8 << 20);
        set(&socket, libc::SO_PRIORITY, tree.priority(band) + class * CLASS_STEP);
        for _ in 0..WAITING {
            socket.send_to(&[0; BYTES], "198.18.70.2:9").unwrap();
        }
    }

    fn tree(weir0: &Interface) -> Tree {
        find(weir0).unwrap().unwrap()
    }

    /// Returns each class's part of the bytes that leave in a window. All classes must have packets waiting until its
    /// end: a class that is found empty later has had its part before.
    fn parts(weir0: &Interface, waiting: &[usize]) -> Vec<f64> {
        let bytes = |stats: &[Counted]| stats.iter().map(|counted| counted.bytes).collect::<Vec<_>>();
        let (before, until) = (bytes(&tree(weir0).class_stats().unwrap()), Instant::now() + Duration::from_secs(20));
        while Instant::now() < until {
            let now = tree(weir0).class_stats().unwrap();
            let sent: Vec<u64> = bytes(&now).iter().zip(&before).map(|(now, before)| now - before).collect();
            let all: u64 = sent.iter().sum();
            if all >= WINDOW * BYTES as u64 {
                assert!(waiting.iter().all(|class| now[*class].backlog_packets > 0), "too late: {now:?}");
                return sent.iter().map(|sent| *sent as f64 / all as f64).collect();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("less than {WINDOW} packets left in 20 s");
    }

    fn are_near(found: &[f64], expected: [f64; 3]) -> bool {
        found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() <= 0.03)
    }

    /// The class with the greater weight has the worse band, which makes no difference; an idle class takes nothing.
    #[test]
    fn bytes_are_divided_by_weight_among_the_classes_that_send() {
        for (floods, expected) in [
            (vec![(0, 2), (1, 14), (2, 8)], [0.1, 0.3, 0.6]),
            (vec![(0, 2), (1, 14)], [0.25, 0.75, 0.0]),
            (vec![(2, 14), (1, 2)], [0.0, 0.333, 0.667]),
        ] {
            on_an_interface(move |weir0| {
                let classes = [share(1, None, None), share(3, None, None), share(6, None, None)];
                assert_eq!(up(weir0, &plan("2mbit", &classes), false).unwrap(), Change::Made);
                floods.iter().for_each(|(class, band)| fill(&tree(weir0), *class, *band));
                let waiting: Vec<usize> = floods.iter().map(|(class, _)| *class as usize).collect();
                let found = parts(weir0, &waiting);
                assert!(are_near(&found, expected), "{found:?}");
            });
        }
    }

    /// Packets that wait stay in their queues.
    #[test]
    fn weights_and_rates_change_in_place() {
        on_an_interface(|weir0| {
            let before = [share(1, None, None), share(3, None, None), share(6, None, None)];
            up(weir0, &plan("2mbit", &before), false).unwrap();
            (0..3).for_each(|class| fill(&tree(weir0), class, 5));
            let after = [share(1, Some("50%"), None), share(1, None, None), share(3, None, None)];
            assert_eq!(up(weir0, &plan("2mbit", &after), false).unwrap(), Change::Rates);
            // A new rate of a class counts once the class has paid for the previous packet.
            std::thread::sleep(Duration::from_millis(1000));
            let found = parts(weir0, &[0, 1, 2]);
            // The part is larger if the machine stops for a while; formerly it was a tenth.
            assert!(found[0] >= 0.5 && (2.3..3.7).contains(&(found[2] / found[1])), "{found:?}");
            let lost: u64 = tree(weir0).class_stats().unwrap().iter().map(|counted| counted.drops).sum();
            assert_eq!(lost, 0);
        });
    }

    /// A clock meters the rates, and a machine that stops for a while sends less than the link could, so the parts are
    /// bounds. By weight alone the classes would have 10, 1 and 10 parts of 21.
    #[test]
    fn a_minimum_rate_holds_against_a_flood_and_a_maximum_rate_is_not_exceeded() {
        // On a line of half the rate the percentage gives half, and the absolute rate, in bytes per second, stays the
        // same.
        let (minimum, maximum) = (0.4, 50_000.0);
        for rate in ["4mbit", "2mbit"] {
            on_an_interface(move |weir0| {
                let classes = [share(10, None, None), share(1, Some("40%"), None), share(10, None, Some("400kbit"))];
                up(weir0, &plan("4mbit", &classes), false).unwrap();
                let link: units::Rate = rate.parse().unwrap();
                if rate != "4mbit" {
                    assert!(change_rate(weir0, "4mbit".parse().unwrap(), link, None).unwrap());
                }
                (0..3).for_each(|class| fill(&tree(weir0), class, if class == 1 { 14 } else { 2 }));
                let before = tree(weir0).class_stats().unwrap()[2].bytes;
                let began = Instant::now();
                let found = parts(weir0, &[0, 1, 2]);
                let capped = (tree(weir0).class_stats().unwrap()[2].bytes - before) as f64;
                let most = maximum * (began.elapsed().as_secs_f64() * 1.05 + ROUNDS_MAX.0 as f64 / 1e9);
                assert!(found[1] >= minimum && capped <= most, "{rate}: {found:?}, {capped} of {most}");
                let its_part = maximum * 8.0 / link.bits_per_s() as f64;
                assert!(found[2] >= its_part - 0.03, "{rate}: {found:?}");
            });
        }
    }

    /// The order inside a class is the order of its bands.
    #[test]
    fn a_class_sends_its_better_band_first() {
        on_an_interface(|weir0| {
            up(weir0, &plan("2mbit", &[share(1, None, None), share(1, None, None)]), false).unwrap();
            [12, 2].iter().for_each(|band| fill(&tree(weir0), 1, *band));
            let before = tree(weir0).stats().unwrap();
            assert_eq!(parts(weir0, &[1]), [0.0, 1.0]);
            let after = tree(weir0).stats().unwrap();
            let sent = |band: usize| after[band].packets - before[band].packets;
            assert!(sent(2) > 20 * sent(12), "{} and {}", sent(2), sent(12));
        });
    }

    #[test]
    fn classes_come_and_go_and_nothing_is_left() {
        on_an_interface(|weir0| {
            let mut netlink = crate::netlink::Socket::open().unwrap();
            let mut all = || format!("{:?}", crate::tc::qdiscs(&mut netlink, weir0.index).unwrap());
            let before = all();
            let classes = vec![share(7, Some("3%"), Some("1gbit")); CLASSES_MAX];
            let whole = plan("9999999bit", &classes);
            assert_eq!(up(weir0, &whole, false).unwrap(), Change::Made);
            assert_eq!(up(weir0, &whole, false).unwrap(), Change::Nothing);
            let tree = find(weir0).unwrap().unwrap();
            assert_eq!(Plan { rate: whole.rate, ..tree.plan.clone() }, whole);
            assert_eq!((tree.stats().unwrap().len(), tree.class_stats().unwrap().len()), (15, CLASSES_MAX));
            // The number of classes changes in place: the first classes keep their waiting packets.
            for count in [2, 5, 1, CLASSES_MAX, 2] {
                let plan = plan("9999999bit", &classes[..count]);
                assert_eq!(up(weir0, &plan, false).unwrap(), Change::Rates, "{count}");
                assert_eq!(up(weir0, &plan, false).unwrap(), Change::Nothing, "{count}");
                assert_eq!(find(weir0).unwrap().unwrap().plan.classes, plan.classes);
            }
            assert_eq!(up(weir0, &plan("9999999bit", &[]), false).unwrap(), Change::Rebuilt);
            assert_eq!(find(weir0).unwrap().unwrap().plan.classes, []);
            up(weir0, &whole, false).unwrap();
            run("tc qdisc del dev weir0 parent 5761:14");
            assert!(find(weir0).is_err());
            assert_eq!(up(weir0, &whole, false).unwrap(), Change::Rebuilt);
            assert!(down(weir0).unwrap());
            assert_eq!((all(), crate::tree::classes::kept(weir0)), (before, None));
        });
    }
}
