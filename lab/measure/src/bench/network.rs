//! The congestion control of the run. BBR paces segments with timers, even on loopback, where the timers cost more than
//! all work of a server and leave both sides idle. A machine's default can therefore decide which server is faster.

use std::fs;
use std::process::{Command, Stdio};

const CHOSEN: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Returns the congestion control of new connections.
pub fn congestion() -> String {
    fs::read_to_string(CHOSEN).unwrap_or_default().trim().to_owned()
}

/// Runs this program again, with the same arguments except this one, in a network namespace that uses this congestion
/// control.
pub fn run_under(congestion: &str) -> Result<(), String> {
    let script = format!("ip link set lo up && echo \"$0\" > {CHOSEN} && exec \"$@\"");
    let program = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", &script, congestion]).arg(program).args(others(std::env::args().skip(1)));
    let status = command.stdin(Stdio::null()).status().map_err(|e| format!("cannot run unshare: {e}"))?;
    let why = "needs root, and one of net.ipv4.tcp_allowed_congestion_control";
    status
        .success()
        .then_some(())
        .ok_or_else(|| format!("the run under --congestion {congestion} failed ({why}): {status}"))
}

fn others(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut is_value = false;
    let is_other = |argument: &String| {
        let was_value = std::mem::replace(&mut is_value, argument == "--congestion");
        !was_value && !argument.starts_with("--congestion")
    };
    arguments.filter(is_other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_taken_out_with_its_value() {
        let without = |line: &str| others(line.split(' ').map(str::to_owned)).join(" ");
        assert_eq!(without("bench --congestion reno --quick"), "bench --quick");
        assert_eq!(without("bench --quick --congestion=reno"), "bench --quick");
        assert_eq!(without("bench --only idle"), "bench --only idle");
    }
}
