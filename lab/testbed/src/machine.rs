//! The machine of an experiment: its description for the manifest, and the priority that keeps its load punctual.

use std::collections::BTreeMap;

use crate::tool;
use crate::virtual_time::{is_virtual, version};

/// The words of `chrt` before a command: a real-time priority above everything ordinary, and above the servers and the
/// lab if those run under `chrt -f 1`. Of two equal priorities the first keeps the processor (measured: 2 to 6 ms of
/// lateness).
const REAL_TIME: [&str; 3] = ["chrt", "-f", "10"];

/// The words before the load generator that let it wake up on time on a busy machine; empty if that is not permitted
/// (sched(7): it needs CAP_SYS_NICE or RLIMIT_RTPRIO).
///
/// It represents clients elsewhere, so the server should not be able to delay it. On two cores that also compiled,
/// requests at the 99th percentile were 3 to 4 ms late, which voids a run, and 0.05 ms with this.
pub(crate) fn punctual_prefix() -> Vec<String> {
    let attempt = [REAL_TIME.as_slice(), &["true"]].concat();
    if tool::run_words(&attempt).is_ok() { REAL_TIME.map(String::from).into() } else { vec![] }
}

/// Describes the clock, the kernel, the processor, and the scheduling of the load.
pub(crate) fn describe() -> BTreeMap<String, String> {
    let clock = if is_virtual() { "virtual" } else { "real" };
    let entries = [
        ("clock", clock.into()),
        ("kernel_version", version()),
        ("cpu", processors(&cpuinfo())),
        ("load_scheduling", punctual_prefix().join(" ")),
    ];
    entries.map(|(key, value)| (key.into(), value)).into()
}

fn cpuinfo() -> String {
    std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()
}

/// The number and the model of the processors, from /proc/cpuinfo. (The crate `procfs` cuts off a model's name at a
/// colon.)
fn processors(cpuinfo: &str) -> String {
    let field = |line: &str, name: &str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    };
    let count = cpuinfo.lines().filter(|line| field(line, "processor").is_some()).count();
    let model = cpuinfo.lines().find_map(|line| field(line, "model name")).unwrap_or_else(|| "unknown model".into());
    let is_guest = cpuinfo
        .lines()
        .find_map(|line| field(line, "flags"))
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    format!("{count} x {model}{}", if is_guest { ", of a virtual machine" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_of_a_virtual_machine_says_so() {
        let info = "processor\t: 0\nmodel\t\t: 6\nmodel name\t: QEMU TCG CPU version 2.5+\nflags\t\t: fpu hypervisor\n\n\
            processor\t: 1\nmodel name\t: QEMU TCG CPU version 2.5+\n";
        assert_eq!(processors(info), "2 x QEMU TCG CPU version 2.5+, of a virtual machine");
        assert_eq!(processors("processor : 0\nmodel name : A: B\nflags : fpu\n"), "1 x A: B");
        assert_eq!(processors(""), "0 x unknown model");
    }
}
