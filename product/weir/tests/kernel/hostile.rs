//! `weir attach` where something is in its way: another attach, an interface that goes, a kernel that lacks a part.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

use seccompiler::SeccompAction::{Allow, Errno};
use seccompiler::{
    BpfProgram, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, apply_filter,
};

use crate::attach::attached;
use crate::network::{Network, WEIR};

const ATTACH: &str = "attach uplink --rate 9mbit --no-watch";
/// Commands of bpf(2), from linux/bpf.h.
const MAP_CREATE: u64 = 0;
const PROG_LOAD: u64 = 5;
const PROG_ATTACH: u64 = 8;
const PROG_BY_NUMBER: u64 = 13;
const PROG_QUERY: u64 = 16;
const BTF_LOAD: u64 = 18;
const SWEEP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/kill-attach.py");

/// The queues, classes, filters and packet sizes of `uplink`.
fn state(network: &Network) -> String {
    let shown = ["qdisc show dev uplink", "class show dev uplink", "filter show dev uplink egress"];
    let shown: String = shown.iter().map(|what| network.command(&format!("tc {what}"))).collect();
    shown + &network.command("ip -d link show dev uplink")
}

/// The records in /run/weir of this network, without those that are only locked.
fn records(network: &Network) -> Vec<String> {
    let namespace = network.cable.at_server(|| fs::metadata("/proc/thread-self/ns/net").unwrap().ino()).to_string();
    let files = fs::read_dir("/run/weir").into_iter().flatten().flatten();
    let names = files.map(|file| file.file_name().into_string().unwrap());
    names.filter(|name| name.contains(&namespace) && !name.starts_with("change-")).collect()
}

/// Runs the program where this command of bpf(2), or all of it, fails with this error.
fn without(network: &Network, command: Option<u64>, errno: i32, args: &str) -> Output {
    let is_it = |command| SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, command).unwrap();
    let rules = command.map(|command| SeccompRule::new(vec![is_it(command)]).unwrap()).into_iter().collect();
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(BTreeMap::from([(libc::SYS_bpf, rules)]), Allow, Errno(errno as u32), arch);
    let filter: BpfProgram = filter.unwrap().try_into().unwrap();
    network.cable.at_server(|| {
        apply_filter(&filter).unwrap();
        Command::new(WEIR).args(args.split_whitespace()).output().unwrap()
    })
}

#[test]
fn two_attaches_at_once_leave_one_that_is_whole() {
    let Some(network) = Network::new() else { return };
    if !attached(&network, &format!("{ATTACH} --dry-run")) {
        return;
    }
    let before = state(&network);
    let both = ["9mbit", "5mbit"].map(|rate| network.start(&format!("attach uplink --rate {rate} --no-watch")));
    let outputs = both.map(|one| one.wait_with_output().unwrap());
    assert!(outputs.iter().any(|output| output.status.success()));
    // The second waits for the first, for ten seconds at most.
    for output in outputs.iter().filter(|output| !output.status.success()) {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with("weir: another weir has been changing uplink") && said.lines().count() == 1, "{said}");
    }
    let list = network.json("attach --list");
    assert_eq!(list.as_array().unwrap().len(), 1, "{list}");
    let shown = network.printed("uplink show uplink");
    let rates = ["at 9mbit", "at 5mbit"].map(|rate| shown.contains(rate));
    assert!(rates[0] != rates[1] && shown.contains("15 bands of htb"), "{shown}");
    network.printed("attach --detach uplink");
    assert_eq!((state(&network), records(&network)), (before, vec![]));
}

/// While it waits for its turn, and after its first record.
#[test]
fn an_interface_that_goes_during_an_attach_is_said() {
    for is_waiting in [true, false] {
        let Some(network) = Network::new() else { return };
        if !attached(&network, &format!("{ATTACH} --dry-run")) {
            return;
        }
        let namespace = network.cable.at_server(|| fs::metadata("/proc/thread-self/ns/net").unwrap().ino());
        let index = network.command("ip -o link show uplink").split(':').next().unwrap().to_string();
        let file = |kind: &str| format!("/run/weir/{kind}-{namespace}-{index}");
        fs::create_dir_all("/run/weir").unwrap();
        let change = fs::OpenOptions::new().create(true).append(true).open(file("change")).unwrap();
        change.lock().unwrap();
        let attach = network.start(ATTACH);
        if is_waiting {
            network.command("ip link delete uplink");
            drop(change);
        } else {
            drop(change);
            while !Path::new(&file("attached")).exists() {
                std::thread::yield_now();
            }
            network.command("ip link delete uplink");
        }
        let output = attach.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        // Deleted after its last step, the interface takes a whole attach with it.
        if is_waiting || !output.status.success() {
            assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
            assert!(said.contains("uplink") && (said.contains("has gone") || said.contains("no interface")), "{said}");
        }
        network.command("ip link add uplink type veth peer name other");
        network.command("ip link set uplink up");
        network.printed(ATTACH);
        network.printed("attach --detach uplink");
        assert_eq!(records(&network), Vec::<String>::new());
    }
}

#[test]
fn each_part_that_the_kernel_lacks_is_said_and_nothing_is_changed() {
    let Some(network) = Network::new() else { return };
    if !attached(&network, &format!("{ATTACH} --dry-run")) {
        return;
    }
    let before = state(&network);
    for (command, errno, cure) in [
        (
            None,
            libc::EPERM,
            "this needs CAP_NET_ADMIN, and in a container a filter that lets the system call `bpf` pass",
        ),
        (None, libc::ENOSYS, "there is no system call `bpf`"),
        (None, libc::EINVAL, "it needs Linux 5.17 with BTF"),
        (Some(MAP_CREATE), libc::EPERM, "it needs Linux 5.17 with BTF"),
        (Some(PROG_LOAD), libc::EINVAL, "it needs Linux 5.17 with BTF"),
        (Some(BTF_LOAD), libc::EINVAL, "it needs Linux 5.17 with BTF"),
        (Some(PROG_BY_NUMBER), libc::EPERM, "this needs root or CAP_SYS_ADMIN"),
        (Some(PROG_ATTACH), libc::EPERM, "this needs root or CAP_NET_ADMIN"),
    ] {
        let output = without(&network, command, errno, ATTACH);
        let said = String::from_utf8(output.stderr).unwrap();
        let case = format!("{command:?} {errno}: {said}");
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{case}");
        assert!(said.starts_with("weir: ") && said.contains(cure), "{case}");
        assert_eq!((state(&network), records(&network)), (before.clone(), vec![]), "{case}");
        assert_eq!(network.printed("attach --list"), "weir: nothing is attached\n", "{case}");
    }
}

/// A kernel before 6.6 does not know the question for programs at TCX.
#[test]
fn without_tcx_the_classifier_is_a_filter() {
    let Some(network) = Network::new() else { return };
    if !attached(&network, &format!("{ATTACH} --dry-run")) {
        return;
    }
    let before = state(&network);
    let old = |args: &str| without(&network, Some(PROG_QUERY), libc::EINVAL, args);
    assert!(old(ATTACH).status.success());
    assert!(network.command("tc filter show dev uplink egress").contains("weir_classify"));
    assert!(old("attach --detach uplink").status.success());
    assert_eq!((state(&network), records(&network)), (before, vec![]));
}

/// A few of the kills that the script makes; all of them take an hour.
#[test]
fn a_kill_at_a_call_leaves_what_a_detach_puts_back() {
    if !Path::new(SWEEP).exists() {
        return println!("SKIPPED: this machine does not see the repository"); // the virtual one sees no /tmp
    }
    let Some(network) = Network::new() else { return };
    if !attached(&network, &format!("{ATTACH} --dry-run")) {
        return;
    }
    if Command::new("strace").arg("-V").output().is_err() {
        return println!("SKIPPED: no strace");
    }
    let flags = ["--weir", WEIR, "--only", "attach,detach", "--every", "12", "--most", "4"];
    let output = Command::new(SWEEP).args(flags).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let kills = said.lines().last().and_then(|line| line.strip_suffix(" kills, 0 failures")?.parse::<u32>().ok());
    assert!(output.status.success() && kills.is_some_and(|kills| kills >= 4), "{said}");
}
