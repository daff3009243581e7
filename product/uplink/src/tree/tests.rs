//! The tree in a kernel: each test has a separate network.

use super::*;
use crate::tc;
use crate::testing::{in_own_network, run};

/// Runs a test with a pair of interfaces (`weir0` is up) in a separate network.
fn on_a_pair(test: impl FnOnce(&Interface) + Send + 'static) {
    in_own_network(|| {
        run("ip link add weir0 type veth peer name weir1");
        run("ip link set weir0 up");
        test(&Interface::by_name("weir0").unwrap());
    });
}

fn plan(rate: &str) -> Plan {
    Plan::new(Kind::Htb, rate.parse().unwrap())
}

/// Returns the segments per packet, and the kind, handle, parent and options of every qdisc and class.
fn everything(interface: &Interface) -> String {
    let mut netlink = Socket::open().unwrap();
    let mut all = format!("{}\n", segments_of(interface));
    for qdisc in tc::qdiscs(&mut netlink, interface.index).unwrap() {
        all += &format!("{} {:x} {:x} {:?}\n", qdisc.kind, qdisc.handle, qdisc.parent, qdisc.options);
    }
    for class in tc::classes(&mut netlink, interface.index).unwrap() {
        all += &format!("{:x} {:x} {:?}\n", class.id, class.parent, class.options);
    }
    all
}

fn segments_of(interface: &Interface) -> u32 {
    crate::device::Device::of(interface).unwrap().unwrap().gso_max_segs
}

fn refused(interface: &Interface, plan: &Plan, replace: bool) -> String {
    let before = everything(interface);
    let said = up(interface, plan, replace).unwrap_err().to_string();
    assert_eq!(everything(interface), before, "{said}");
    assert!(!said.contains('\n'), "{said}");
    said
}

#[test]
fn goes_up_is_found_and_goes_down() {
    on_a_pair(|weir0| {
        let before = everything(weir0);
        assert_eq!(find(weir0).unwrap(), None);
        assert!(!down(weir0).unwrap(), "there is nothing to remove");
        for rate in ["1mbit", "9500kbit", "10mbit", "9999999bit", "5000001bit", "1gbit", "10gbit"] {
            for (bands, share_permille, other_share_permille) in [(15, 0, 0), (9, 7, 300), (15, 57, 200), (8, 114, 200)]
            {
                let plan = Plan { bands, share_permille, other_share_permille, packets_per_band: 50, ..plan(rate) };
                assert_eq!(up(weir0, &plan, false).unwrap(), Change::Made);
                let made = everything(weir0);
                assert_eq!(up(weir0, &plan, false).unwrap(), Change::Nothing, "{plan:?}");
                assert_eq!(everything(weir0), made);
                let tree = find(weir0).unwrap().unwrap();
                assert_eq!(Plan { rate: plan.rate, ..tree.plan.clone() }, plan);
                assert!(plan.rate.bits_per_s().abs_diff(tree.plan.rate.bits_per_s()) < 8, "{rate}");
                assert!(down(weir0).unwrap());
                assert_eq!(everything(weir0), before);
            }
        }
    });
}

/// Above 34 Gbit/s a rate in bytes per second does not fit in 32 bits. Loopback reports no speed that would forbid it.
#[test]
fn packets_are_small_while_a_slow_tree_is_there() {
    on_a_pair(|weir0| {
        for own in [65_535, 3] {
            run(&format!("ip link set weir0 gso_max_segs {own}"));
            for (rate, segments) in [("10mbit", 1), ("50mbit", 4), ("100mbit", 8), ("1gbit", 83)] {
                up(weir0, &plan(rate), false).unwrap();
                assert_eq!(segments_of(weir0), segments.min(own), "{rate}");
            }
            down(weir0).unwrap();
            assert_eq!(segments_of(weir0), own);
        }
        // Another program removes the tree: the original value is still stored.
        up(weir0, &plan("10mbit"), false).unwrap();
        run("tc qdisc del dev weir0 root");
        up(weir0, &plan("10mbit"), false).unwrap();
        down(weir0).unwrap();
        assert_eq!(segments_of(weir0), 3);
        // A value changed since, or the value of another interface with these numbers, is not restored.
        up(weir0, &plan("10mbit"), false).unwrap();
        run("ip link set weir0 gso_max_segs 5");
        down(weir0).unwrap();
        assert_eq!(segments_of(weir0), 5);
    });
}

/// If the bridge, VLAN or macvlan has the address, the stack builds the packets there.
#[test]
fn packets_of_the_interfaces_above_are_small_too() {
    on_a_pair(|weir0| {
        for command in [
            "ip link add br0 type bridge",
            "ip link set weir0 master br0",
            "ip link add link br0 name mac0 type macvlan",
            "ip link set mac0 gso_max_segs 40",
        ] {
            run(command);
        }
        let names = ["weir0", "br0", "mac0", "weir1"];
        let all = || names.map(|name| segments_of(&Interface::by_name(name).unwrap()));
        let before = all();
        up(weir0, &plan("10mbit"), false).unwrap();
        assert_eq!(all(), [1, 1, 1, before[3]]);
        up(weir0, &plan("100mbit"), false).unwrap();
        assert_eq!(all(), [8, 8, 8, before[3]]);
        // The value of an interface that leaves in the meantime is restored too.
        run("ip link set weir0 nomaster");
        assert!(down(weir0).unwrap());
        assert_eq!(all(), before);
    });
}

/// Its record of an interface above cannot be written: a folder has the place.
#[test]
fn packets_that_cannot_be_limited_above_stay_large_below() {
    on_a_pair(|weir0| {
        run("ip link add above link weir0 type macvlan");
        let above = Interface::by_name("above").unwrap();
        let before = everything(weir0);
        let record = leftovers::path("upper", &above).unwrap();
        std::fs::create_dir_all(&record).unwrap();
        let said = refused(weir0, &plan("10mbit"), false);
        assert!(said.contains(&format!("cannot write {}", record.display())), "{said}");
        assert!(everything(weir0) == before && !leftovers::path("segments", weir0).unwrap().exists());
        let unfinished = record.with_extension(format!("{}.new", std::process::id()));
        assert!(!unfinished.exists());
        std::fs::remove_dir(&record).unwrap();
        up(weir0, &plan("10mbit"), false).unwrap();
        down(weir0).unwrap();
    });
}

/// Any program may have removed the tree: `down` restores the packets' size; otherwise segmentation offload would stay
/// off.
#[test]
fn the_packets_size_is_put_back_whoever_removed_the_tree() {
    on_a_pair(|weir0| {
        for (removed, left) in [
            ("tc qdisc del dev weir0 root", "noqueue"),
            ("tc qdisc replace dev weir0 root handle 7: pfifo limit 77", "pfifo"),
        ] {
            up(weir0, &plan("10mbit"), false).unwrap();
            run(removed);
            assert_eq!(segments_of(weir0), 1);
            assert!(down(weir0).unwrap(), "{removed}");
            assert_eq!(segments_of(weir0), 65_535, "{removed}");
            assert!(everything(weir0).contains(left), "{removed}");
        }
        // None of our parts is left.
        assert!(down(weir0).unwrap_err().to_string().contains("the pfifo on weir0 is not weir's"));
    });
}

#[test]
fn a_renamed_interface_gets_back_what_it_had() {
    on_a_pair(|weir0| {
        run("tc qdisc add dev weir0 root handle 7: pfifo limit 77");
        let before = everything(weir0);
        up(weir0, &plan("10mbit"), true).unwrap();
        run("ip link set weir0 down");
        run("ip link set weir0 name weir7");
        run("ip link set weir7 up");
        let weir7 = Interface::by_name("weir7").unwrap();
        // The rate changes in the meantime: the original value is not forgotten.
        up(&weir7, &plan("100mbit"), true).unwrap();
        assert!(down(&weir7).unwrap());
        assert_eq!(everything(&weir7), before);
    });
}

/// A process killed before its next step leaves one of the following states.
#[test]
fn a_kill_at_any_step_loses_nothing() {
    on_a_pair(|weir0| {
        let device = || crate::device::Device::of(weir0).unwrap().unwrap();
        let file = leftovers::path("segments", weir0).unwrap();
        let netlink = || Socket::open().unwrap();
        // The process was killed after the packets were limited, before there was a tree.
        assert!(segments::bound(&mut netlink(), weir0, &device(), "10mbit".parse().unwrap()).unwrap());
        assert!(down(weir0).unwrap());
        assert_eq!(segments_of(weir0), 65_535);
        // It was killed after another limit was recorded, before it was set: the file has 8, the interface 1.
        up(weir0, &plan("10mbit"), false).unwrap();
        segments::bound(&mut netlink(), weir0, &device(), "100mbit".parse().unwrap()).unwrap();
        run("ip link set weir0 gso_max_segs 1");
        assert!(std::fs::read_to_string(&file).unwrap().ends_with(" 65535 1 8\n"));
        // `up` continues from there, and so does `down`.
        up(weir0, &plan("50mbit"), false).unwrap();
        assert_eq!(segments_of(weir0), 4);
        // It was killed after the tree was removed, before the packets' size was restored.
        run("tc qdisc del dev weir0 root");
        assert!(down(weir0).unwrap());
        assert_eq!(segments_of(weir0), 65_535);
        // It was killed after the size was restored, before the file was removed.
        std::fs::write(&file, "weir0 65535 1\n").unwrap();
        assert!(!down(weir0).unwrap());
        assert_eq!((segments_of(weir0), file.exists()), (65_535, false));
        // It was killed after the tree was removed, before the discipline that the tree had replaced was put back.
        run("tc qdisc add dev weir0 root handle 7: pfifo limit 77");
        let before = everything(weir0);
        up(weir0, &plan("10mbit"), true).unwrap();
        build::remove(&mut netlink(), weir0.index).unwrap();
        up(weir0, &plan("10mbit"), true).unwrap();
        assert!(down(weir0).unwrap());
        assert_eq!(everything(weir0), before);
    });
}

#[test]
fn loopback_takes_a_tree_of_100_gigabit() {
    in_own_network(|| {
        run("ip link set lo up");
        let lo = Interface::by_name("lo").unwrap();
        let plan = Plan { share_permille: 57, ..plan("400gbit") };
        up(&lo, &plan, false).unwrap();
        assert_eq!(find(&lo).unwrap().unwrap().plan, plan);
    });
}

#[test]
fn another_plan_takes_the_place_of_the_first() {
    on_a_pair(|weir0| {
        up(weir0, &plan("10mbit"), false).unwrap();
        let faster = Plan { share_permille: 10, ..plan("20mbit") };
        assert_eq!(up(weir0, &faster, false).unwrap(), Change::Rates);
        assert_eq!(find(weir0).unwrap().unwrap().plan, faster);
        for other in [
            Plan { bands: 3, ..faster.clone() },
            Plan { bands: 9, ..faster.clone() },
            Plan { packets_per_band: 7, ..faster.clone() },
            plan("1mbit"),
        ] {
            assert_eq!(up(weir0, &other, false).unwrap(), Change::Rebuilt);
            assert_eq!(find(weir0).unwrap().unwrap().plan, other);
        }
    });
}

#[test]
fn somebody_elses_qdisc_is_refused_or_put_back() {
    on_a_pair(|weir0| {
        run("tc qdisc add dev weir0 root handle 7: pfifo limit 77");
        let before = everything(weir0);
        let said = refused(weir0, &plan("10mbit"), false);
        assert!(said.contains("weir0 has a pfifo") && said.contains("--replace"), "{said}");
        assert!(down(weir0).unwrap_err().to_string().contains("the pfifo on weir0 is not weir's"));
        for _ in 0..2 {
            assert_eq!(up(weir0, &plan("10mbit"), true).unwrap(), Change::Made);
            // A second change must not forget the original discipline.
            assert_eq!(up(weir0, &Plan { bands: 4, ..plan("10mbit") }, true).unwrap(), Change::Rebuilt);
            assert!(down(weir0).unwrap());
            assert_eq!(everything(weir0), before);
        }
        assert_eq!(keep::kept(weir0), None);
    });
}

fn tc_command(words: &str) -> std::process::Output {
    std::process::Command::new("tc").args(words.split_whitespace()).output().unwrap()
}

/// The test covers all restorable kinds that this kernel has, which in a virtual machine are all kinds.
#[test]
fn each_restorable_kind_is_put_back_as_it_was() {
    on_a_pair(|weir0| {
        // In tc's output codel counts time in units of 1024 ns, so its options can come back a microsecond less.
        let shown = || String::from_utf8(tc_command("qdisc show dev weir0").stdout).unwrap();
        let mut put_back = 0;
        for kind in keep::RESTORABLE {
            if !tc_command(&format!("qdisc add dev weir0 root handle 7: {kind}")).status.success() {
                continue;
            }
            let before = shown();
            up(weir0, &plan("10mbit"), true).unwrap();
            down(weir0).unwrap();
            assert_eq!(shown(), before);
            run("tc qdisc del dev weir0 root");
            put_back += 1;
        }
        // All kernels have the three fifos.
        assert!(put_back >= 3, "{put_back}");
    });
}

#[test]
fn what_could_not_be_put_back_is_refused_even_with_replace() {
    on_a_pair(|weir0| {
        run("tc qdisc add dev weir0 root handle 1: htb default 1");
        run("tc class add dev weir0 parent 1: classid 1:1 htb rate 1mbit");
        for replace in [false, true] {
            let said = refused(weir0, &plan("10mbit"), replace);
            assert!(
                said.contains("a htb, which weir cannot restore") && said.contains("tc qdisc del dev weir0"),
                "{said}"
            );
        }
    });
}

/// If `sch_prio` is missing, the build fails after its second step; the interface is as it was before.
#[test]
fn a_failure_half_way_leaves_everything_as_it_was() {
    on_a_pair(|weir0| {
        let prio = Plan::new(Kind::Prio, "10mbit".parse().unwrap());
        match up(weir0, &prio, false) {
            Ok(_) => {
                assert_eq!(find(weir0).unwrap().unwrap().plan, prio);
                println!("SKIPPED: this kernel has prio, so nothing fails half way");
                return;
            }
            Err(error) => assert!(error.is_missing(), "{error}"),
        }
        refused(weir0, &prio, false);
        run("tc qdisc add dev weir0 root handle 7: pfifo limit 77");
        refused(weir0, &prio, true);
        assert_eq!(keep::kept(weir0), None);
        run("tc qdisc del dev weir0 root");
        up(weir0, &plan("10mbit"), false).unwrap();
        refused(weir0, &prio, false);
    });
}

#[test]
fn a_tree_with_a_part_missing_is_told_and_made_whole() {
    on_a_pair(|weir0| {
        up(weir0, &plan("10mbit"), false).unwrap();
        for part in ["5745:12", "5745:1e"] {
            run(&format!("tc qdisc del dev weir0 parent {part}"));
            let said = find(weir0).unwrap_err().to_string();
            assert!(said.contains("the tree on weir0 is incomplete"), "{part}: {said}");
            assert_eq!(up(weir0, &plan("10mbit"), false).unwrap(), Change::Rebuilt);
            assert_eq!(find(weir0).unwrap().unwrap().plan, plan("10mbit"));
        }
        run("tc qdisc del dev weir0 parent 5745:12");
        assert!(down(weir0).unwrap());
    });
}

#[test]
fn what_no_interface_could_do_is_refused() {
    on_a_pair(|weir0| {
        let ten = plan("10mbit");
        for (wrong, said) in [
            (plan("11gbit"), "rate 11gbit is above the 10gbit of weir0"),
            (plan("8kbit"), "rate 8kbit is too low: write 12000bit or more"),
            (Plan { bands: 2, ..ten.clone() }, "2 bands: htb takes 3 to 15"),
            (Plan { bands: 16, ..ten.clone() }, "16 bands: htb takes 3 to 15"),
            (Plan { bands: 17, ..Plan::new(Kind::Prio, ten.rate) }, "17 bands: prio takes 3 to 16"),
            (Plan { kind: Kind::Prio, other_share_permille: 1, ..ten.clone() }, "a guaranteed share needs --qdisc htb"),
            (Plan { share_permille: 58, ..ten.clone() }, "write at most 5.7% for each band"),
            (Plan { other_share_permille: 1001, share_permille: 0, ..ten.clone() }, "more than 100% together"),
            (Plan { packets_per_band: 0, ..ten.clone() }, "0 packets per band"),
        ] {
            let answer = refused(weir0, &wrong, true);
            assert!(answer.contains(said), "{answer}");
        }
        run("ip link set weir0 down");
        assert!(refused(weir0, &ten, true).contains("weir0 is down: run `ip link set weir0 up` first"));
    });
}

/// The interface was looked up, and disappears before the command reaches it.
#[test]
fn an_interface_that_goes_or_is_made_anew_is_told_by_name() {
    on_a_pair(|weir0| {
        let ten = plan("10mbit");
        up(weir0, &ten, false).unwrap();
        run("ip link del weir0");
        let outcomes = || [up(weir0, &ten, true).map(|_| ()), down(weir0).map(|_| ())];
        for outcome in outcomes() {
            assert_eq!(outcome.unwrap_err().to_string(), "the interface weir0 has gone");
        }
        run("ip link add weir0 type veth peer name weir1");
        run("ip link set weir0 up");
        let anew = Interface::by_name("weir0").unwrap();
        let before = everything(&anew);
        for outcome in outcomes() {
            let said = outcome.unwrap_err().to_string();
            assert!(said.starts_with("the interface weir0 was created again meanwhile"), "{said}");
        }
        assert_eq!((everything(&anew), find(&anew).unwrap()), (before, None));
        // Looked up again, it is an ordinary interface, whose packets are not limited for the previous tree.
        assert_eq!(up(&anew, &ten, false).unwrap(), Change::Made);
        assert!(down(&anew).unwrap());
        assert_eq!(segments_of(&anew), 65_535);
    });
}

/// The test runs in a separate network, so that this machine's is untouched whatever happens.
#[test]
fn without_privilege_it_says_so() {
    on_a_pair(|weir0| {
        drop_privilege();
        let said = refused(weir0, &plan("10mbit"), false);
        assert_eq!(said, "making the tree on weir0: not allowed, this needs root or CAP_NET_ADMIN");
    });
}

/// Drops the capabilities of this thread permanently.
fn drop_privilege() {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none }).unwrap();
}

/// An unclassified ping is counted in the other band; with SO_PRIORITY it is in the band that this names.
#[test]
fn packets_are_counted_in_the_band_that_their_priority_names() {
    on_a_pair(|weir0| {
        run("ip addr add 198.18.78.1/24 dev weir0");
        run("ip link set weir1 up");
        run("ip neigh add 198.18.78.2 lladdr 02:00:00:00:00:02 dev weir0");
        up(weir0, &plan("10mbit"), false).unwrap();
        let tree = find(weir0).unwrap().unwrap();
        let socket = std::net::UdpSocket::bind("198.18.78.1:0").unwrap();
        let mut expected = vec![0; 15];
        expected[usize::from(OTHER_BAND)] = packets(&tree)[usize::from(OTHER_BAND)] + 1;
        socket.send_to(b"nobody said", "198.18.78.2:9").unwrap();
        for band in 0..15 {
            set_priority(&socket, tree.priority(band));
            socket.send_to(&[0; 58], "198.18.78.2:9").unwrap();
            expected[usize::from(band)] += 1;
        }
        let counted = tree.stats().unwrap();
        // IPv6 sends packets of its own on a new interface, and these are unclassified.
        let at_least = counted.iter().zip(&expected).all(|(counted, expected)| counted.packets >= *expected);
        assert!(at_least, "{counted:?}");
        for band in (0..15).filter(|band| *band != OTHER_BAND).map(usize::from) {
            assert_eq!((counted[band].packets, counted[band].bytes), (1, 100), "band {band}");
        }
    });
}

fn packets(tree: &Tree) -> Vec<u64> {
    tree.stats().unwrap().iter().map(|counted| counted.packets).collect()
}

fn set_priority(socket: &std::net::UdpSocket, priority: u32) {
    use std::os::fd::AsRawFd;
    // SAFETY: the pointer and the length describe `priority`, which outlives the call, and the descriptor is open.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PRIORITY,
            (&raw const priority).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
}

/// The kernel itself puts an `mq` at devices of several queues, and again when the tree is removed.
#[test]
fn the_kernel_s_mq_comes_back_and_somebody_s_is_refused() {
    in_own_network(|| {
        if !std::path::Path::new("/dev/net/tun").exists() {
            return crate::testing::skip("there is no /dev/net/tun");
        }
        run("ip tuntap add dev weir0 mode tap multi_queue");
        run("ip link set weir0 up");
        let weir0 = Interface::by_name("weir0").unwrap();
        let root = || {
            let qdiscs = tc::qdiscs(&mut Socket::open().unwrap(), weir0.index).unwrap();
            let root = qdiscs.iter().find(|qdisc| qdisc.parent == tc::TC_H_ROOT);
            root.map(|root| (root.kind.clone(), root.handle)).unwrap()
        };
        assert_eq!(root(), ("mq".to_string(), 0));
        assert_eq!(up(&weir0, &plan("10mbit"), false).unwrap(), Change::Made);
        assert!(down(&weir0).unwrap());
        assert_eq!(root(), ("mq".to_string(), 0));
        run("tc qdisc replace dev weir0 root handle 1: mq");
        assert!(refused(&weir0, &plan("10mbit"), true).contains("has a mq, which weir cannot restore later"));
    });
}
