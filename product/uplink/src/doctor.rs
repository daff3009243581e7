//! The kernel features that this machine offers, and the remedy for each missing one.
//!
//! A queueing discipline is checked by trying it, which also makes the kernel load its module. This happens on the
//! loopback of a temporary network namespace, so that no interface in use is touched.

use std::fs;
use std::io;

use crate::Interface;
use crate::netlink::{Body, NLM_F_CREATE, NLM_F_EXCL, Socket};
use crate::tc::{RTM_NEWQDISC, RTM_NEWTFILTER, TC_H_CLSACT, TC_H_CLSACT_EGRESS, TC_H_ROOT, TCA_KIND, tcm};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Ok,
    Missing,
    /// The state is unknown, because finding out requires a privilege that we do not have.
    Unknown,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Missing => "missing",
            State::Unknown => "unknown",
        }
    }

    fn of(is_there: bool) -> State {
        if is_there { State::Ok } else { State::Missing }
    }
}

/// A feature that is present or missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub what: &'static str,
    pub state: State,
    pub used_for: &'static str,
    /// The requirement for the feature.
    pub needs: &'static str,
}

/// Checks all features. Changes no interface.
pub fn examine() -> Vec<Finding> {
    let mut findings = privileges();
    findings.extend(qdiscs());
    findings.extend(types());
    findings.extend(settings());
    findings
}

/// Returns, for each command, the features that it lacks or may lack here, by [`Finding::what`]. A command with an
/// empty list works.
pub fn verdicts(findings: &[Finding]) -> Vec<(&'static str, Vec<(&'static str, State)>)> {
    let state =
        |what: &str| findings.iter().find(|finding| finding.what == what).map_or(State::Ok, |found| found.state);
    let is_missing = |what: &str| state(what) != State::Ok;
    let missing = |needed: &[&'static str]| {
        let lacking = needed.iter().copied().filter(|what| is_missing(what));
        lacking.map(|what| (what, state(what))).collect::<Vec<_>>()
    };
    let mut attach = missing(&["CAP_NET_ADMIN", "CAP_BPF", "CAP_PERFMON", "BTF", "BPF programs in this build"]);
    if is_missing("TCX") {
        attach.extend(missing(&["clsact", "cls_bpf"]));
    }
    vec![("weir attach", attach), ("weir uplink up", missing(&["CAP_NET_ADMIN", "htb"]))]
}

/// Bits of the capability sets (linux/capability.h).
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

fn privileges() -> Vec<Finding> {
    let held = capabilities().unwrap_or(0);
    let holds = |bit: u32| held & (1 << bit) != 0;
    vec![
        Finding {
            what: "CAP_NET_ADMIN",
            state: State::of(holds(CAP_NET_ADMIN)),
            used_for: "uplink up and down, attach, serve --shaping bands",
            needs: "root, or this capability",
        },
        Finding {
            what: "CAP_BPF",
            state: State::of(holds(CAP_BPF) || holds(CAP_SYS_ADMIN)),
            used_for: "attach",
            needs: "root, or this capability",
        },
        Finding {
            what: "CAP_SYS_ADMIN",
            state: State::of(holds(CAP_SYS_ADMIN)),
            used_for: "attach: finding its program again",
            needs: "root, or this capability",
        },
        Finding {
            what: "CAP_PERFMON",
            state: State::of(holds(CAP_PERFMON) || holds(CAP_SYS_ADMIN)),
            used_for: "attach",
            needs: "root, or this capability",
        },
    ]
}

/// The effective capabilities of this thread.
fn capabilities() -> Option<u64> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

const QDISCS: [(&str, &str, &str); 6] = [
    ("htb", "uplink up: the shaper", "CONFIG_NET_SCH_HTB (module sch_htb)"),
    ("prio", "uplink up --qdisc prio: 16 bands instead of 15", "CONFIG_NET_SCH_PRIO (module sch_prio)"),
    ("fq_codel", "comparison only", "CONFIG_NET_SCH_FQ_CODEL (module sch_fq_codel)"),
    ("cake", "comparison only", "CONFIG_NET_SCH_CAKE (module sch_cake)"),
    ("netem", "delay and loss in experiments only", "CONFIG_NET_SCH_NETEM (module sch_netem)"),
    ("clsact", "attach without TCX: the place of the program", "CONFIG_NET_SCH_INGRESS (module sch_ingress)"),
];

fn qdiscs() -> Vec<Finding> {
    let states = in_throw_away_network(|lo| {
        let states = QDISCS.map(|(kind, ..)| try_qdisc(lo, kind));
        (states, try_filter(lo))
    });
    let (states, filter) = states.unwrap_or(([State::Unknown; QDISCS.len()], State::Unknown));
    let findings = QDISCS.iter().zip(states);
    let mut findings: Vec<Finding> =
        findings.map(|(&(what, used_for, needs), state)| Finding { what, state, used_for, needs }).collect();
    findings.push(Finding {
        what: "cls_bpf",
        state: filter,
        used_for: "attach without TCX: the classifier",
        needs: "CONFIG_NET_CLS_BPF (module cls_bpf)",
    });
    findings
}

/// Runs `examine` on the loopback interface of a network namespace that ends with this call; `None` without the
/// privilege.
fn in_throw_away_network<T: Send + 'static>(examine: impl FnOnce(&Interface) -> T + Send + 'static) -> Option<T> {
    let thread = std::thread::spawn(|| {
        // SAFETY: no memory is touched; the network namespace changes only for this thread, which ends below.
        let is_alone = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
        let lo = if is_alone { Interface::by_name("lo").ok() } else { None };
        lo.map(|lo| examine(&lo))
    });
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn try_qdisc(lo: &Interface, kind: &str) -> State {
    let (handle, parent) = match kind {
        "clsact" => (TC_H_CLSACT & 0xffff_0000, TC_H_CLSACT),
        _ => (1 << 16, TC_H_ROOT),
    };
    let body = Body::new(&tcm(lo.index, handle, parent)).text(TCA_KIND, kind);
    known(Socket::open().and_then(|mut netlink| netlink.change(RTM_NEWQDISC, NLM_F_CREATE, body.bytes())))
}

fn try_filter(lo: &Interface) -> State {
    // The lower half of tcm_info is the protocol, in network order: ETH_P_ALL.
    let mut head = tcm(lo.index, 0, TC_H_CLSACT_EGRESS);
    head[16..].copy_from_slice(&(1 << 16 | u32::from(3u16.to_be())).to_ne_bytes());
    let body = Body::new(&head).text(TCA_KIND, "bpf");
    known(
        Socket::open().and_then(|mut netlink| netlink.change(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, body.bytes())),
    )
}

/// Interprets the outcome of an attempt. Attempts pass no options, and most kinds reject that: only "no such kind"
/// means that the feature is missing.
fn known(outcome: io::Result<()>) -> State {
    match outcome.map_err(|error| error.raw_os_error()) {
        Err(Some(libc::ENOENT)) => State::Missing,
        Err(Some(libc::EPERM | libc::EACCES) | None) => State::Unknown,
        _ => State::Ok,
    }
}

const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Checks features that the kernel's type information reveals.
fn types() -> Vec<Finding> {
    let types = fs::read(BTF).unwrap_or_default();
    let names = |name: &str| types.windows(name.len()).any(|window| window == name.as_bytes());
    vec![
        Finding {
            what: "BTF",
            state: State::of(!types.is_empty()),
            used_for: "attach: programs that fit any kernel",
            needs: "CONFIG_DEBUG_INFO_BTF",
        },
        Finding {
            what: "TCX",
            state: State::of(names("\0tcx_link\0")),
            used_for: "attach: first of all programs",
            needs: "Linux 6.6",
        },
    ]
}

fn settings() -> Vec<Finding> {
    // Some are visible only in the first network namespace.
    let is_on = |path: &str| match fs::read_to_string(path) {
        Ok(text) => State::of(text.trim() != "0"),
        Err(_) => State::Unknown,
    };
    vec![
        Finding {
            what: "BPF JIT",
            state: is_on("/proc/sys/net/core/bpf_jit_enable"),
            used_for: "speed of attach",
            needs: "sysctl net.core.bpf_jit_enable=1 (CONFIG_BPF_JIT)",
        },
        Finding {
            what: "BPF statistics",
            state: is_on("/proc/sys/kernel/bpf_stats_enabled"),
            used_for: "measuring the cost of the programs",
            needs: "sysctl kernel.bpf_stats_enabled=1",
        },
        Finding {
            what: "BPF programs in this build",
            state: State::of(is_built_with_programs()),
            used_for: "attach",
            needs: "a build with the feature bpf and clang 15 or newer",
        },
    ]
}

fn is_built_with_programs() -> bool {
    #[cfg(feature = "bpf")]
    const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classify.bpf.o"));
    #[cfg(not(feature = "bpf"))]
    const PROGRAM: &[u8] = &[];
    !PROGRAM.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{in_own_network, run};

    fn state(findings: &[Finding], what: &str) -> State {
        findings.iter().find(|finding| finding.what == what).unwrap().state
    }

    /// All trials run in another network.
    #[test]
    fn finds_the_shaper_and_changes_no_interface() {
        in_own_network(|| {
            run("ip link set lo up");
            let qdiscs = || crate::tc::qdiscs(&mut Socket::open().unwrap(), 1).unwrap();
            let before = qdiscs();
            let findings = examine();
            assert_eq!(qdiscs(), before);
            // All other tests of the tree need these three as well.
            for what in ["CAP_NET_ADMIN", "CAP_BPF", "CAP_PERFMON", "htb"] {
                assert_eq!(state(&findings, what), State::Ok, "{what}");
            }
        });
    }

    #[test]
    fn a_command_works_unless_something_that_it_needs_is_missing() {
        let finding = |what, state| Finding { what, state, used_for: "", needs: "" };
        let all = |tcx, cls_bpf| {
            let findings = [finding("CAP_BPF", State::Ok), finding("TCX", tcx), finding("cls_bpf", cls_bpf)];
            verdicts(&findings).into_iter().map(|(_, missing)| missing).collect::<Vec<_>>()
        };
        let none = [vec![], vec![]];
        assert_eq!(all(State::Ok, State::Missing), none, "TCX needs no classifier");
        assert_eq!(all(State::Missing, State::Ok), none);
        assert_eq!(all(State::Missing, State::Unknown), [vec![("cls_bpf", State::Unknown)], vec![]]);
        let shaper = verdicts(&[finding("htb", State::Missing), finding("CAP_NET_ADMIN", State::Missing)]);
        let [admin, htb] = ["CAP_NET_ADMIN", "htb"].map(|what| (what, State::Missing));
        assert_eq!(shaper, [("weir attach", vec![admin]), ("weir uplink up", vec![admin, htb])]);
    }

    #[test]
    fn what_no_kernel_has_is_missing() {
        in_own_network(|| {
            let lo = Interface::by_name("lo").unwrap();
            assert_eq!(try_qdisc(&lo, "weir_none"), State::Missing);
            assert_eq!(try_qdisc(&lo, "pfifo"), State::Ok);
        });
    }
}
