//! Builds the bottleneck of a run with `tc` (a shaper over a queue), or with the trees of `weir uplink` and `weir
//! attach`.

use std::path::Path;

use sched::UplinkRate;

use crate::{Experiment, LabError, Network, Qdisc, RunSpec, Shaper};

/// The pace of a server that is given its line's rate, in thousandths of that rate, as with `weir serve --uplink RATE`.
/// `attach` gets the same part of a router's line.
const TOLD_PERMILLE: u32 = 980;

/// The commands, each as one line of words, that put the run's qdisc on `device` in the namespace `side`.
pub(crate) fn build_commands(
    side: &str,
    device: &str,
    experiment: &Experiment,
    spec: &RunSpec,
    weir: Option<&Path>,
) -> Result<Vec<Vec<String>>, LabError> {
    let shaped_over = |queue: &str| shaper_lines(side, device, experiment, queue);
    let bits = experiment.link.bits_per_s();
    let lines = match experiment.qdisc_of(spec) {
        Qdisc::Fifo => shaped_over(&format!("pfifo limit {}", experiment.fifo_packets)),
        Qdisc::FqCodel => shaped_over("fq_codel"),
        Qdisc::Fq => shaped_over("fq"),
        qdisc @ (Qdisc::Cake | Qdisc::CakeHosts) => {
            let isolation = if qdisc == Qdisc::Cake { "" } else { " dual-dsthost" };
            vec![format!("tc -n {side} qdisc add dev {device} root handle 1: cake bandwidth {bits}bit{isolation}")]
        }
        Qdisc::Bands => {
            let mut words = weir_words(side, weir, &["uplink", "up", device])?;
            words.extend(["--rate".into(), experiment.link.to_string()]);
            words.extend(spec.qdisc_flags.iter().cloned());
            return Ok(vec![words]);
        }
    };
    Ok(lines.iter().map(|line| line.split_whitespace().map(String::from).collect()).collect())
}

/// The command that orders the traffic of the server on `port` through `device`; `None` if the run attaches nothing.
pub(crate) fn attach_command(
    side: &str,
    device: &str,
    experiment: &Experiment,
    spec: &RunSpec,
    port: u16,
    weir: Option<&Path>,
) -> Result<Option<Vec<String>>, LabError> {
    let Some(policy) = spec.attach else { return Ok(None) };
    let mut words = weir_words(side, weir, &["attach", device])?;
    let rate = match (&spec.told, experiment.network) {
        (Some(told), _) => told.to_string(),
        (None, Network::Router) => experiment.link.permille(TOLD_PERMILLE).to_string(),
        (None, _) => experiment.link.to_string(),
    };
    let mut flag = |name: &str, value: String| words.extend([format!("--{name}"), value]);
    flag("port", port.to_string());
    flag("rate", rate);
    flag("policy", policy.name().into());
    words.push("--no-watch".into());
    words.extend(spec.attach_flags.iter().cloned());
    Ok(Some(words))
}

/// The command that follows the line behind `device` after attaching; `None` if the rate is given. It does not know the
/// rates that other runs found: it keeps its rates in `state`.
pub(crate) fn follow_command(
    side: &str,
    device: &str,
    spec: &RunSpec,
    state: &Path,
    weir: Option<&Path>,
) -> Result<Option<Vec<String>>, LabError> {
    if spec.attach.is_none() || spec.told != Some(UplinkRate::Auto) {
        return Ok(None);
    }
    let mut words = vec!["env".to_owned(), format!("STATE_DIRECTORY={}", state.display())];
    words.extend(weir_words(side, weir, &["attach", device, "--rate", "auto"])?);
    Ok(Some(words))
}

/// The command `weir ARGS` in a namespace.
pub(crate) fn weir_words(side: &str, weir: Option<&Path>, args: &[&str]) -> Result<Vec<String>, LabError> {
    let weir = weir.ok_or_else(|| LabError::Missing { program: "weir".into() })?.display().to_string();
    Ok(["ip", "netns", "exec", side, &weir].iter().chain(args).map(|word| (*word).to_owned()).collect())
}

/// The commands for a shaper at the link's rate over one queue.
///
/// HTB has a single class with rate = ceil, so nothing is borrowed. `quantum` only matters between classes, and is set
/// to a packet because HTB's own choice (rate / 10) would cause a warning. TBF's `limit` sizes the queue that it
/// creates by itself, which ours then replaces.
fn shaper_lines(side: &str, device: &str, experiment: &Experiment, queue: &str) -> Vec<String> {
    let tc = |rest: String| format!("tc -n {side} {rest}");
    let (bits, burst) = (experiment.link.bits_per_s(), experiment.burst_bytes());
    let below = tc(format!("qdisc add dev {device} parent 1:1 handle 10: {queue}"));
    match experiment.shaper {
        Shaper::Htb => vec![
            tc(format!("qdisc add dev {device} root handle 1: htb default 1")),
            tc(format!(
                "class add dev {device} parent 1: classid 1:1 htb rate {bits}bit ceil {bits}bit burst {burst} cburst {burst} quantum 1514"
            )),
            below,
        ],
        Shaper::Tbf => vec![
            tc(format!("qdisc add dev {device} root handle 1: tbf rate {bits}bit burst {burst} limit {burst}")),
            below,
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(more: &str, run: &str) -> (Experiment, RunSpec) {
        crate::testing::one(more, &format!("server = \"nginx\"\n{run}"))
    }

    fn commands(more: &str, run: &str) -> Vec<String> {
        let (experiment, spec) = one(more, run);
        let commands = build_commands("S", "cable", &experiment, &spec, Some(Path::new("/a b/weir"))).unwrap();
        commands.iter().map(|words| words.join(" ")).collect()
    }

    const HTB: [&str; 2] = [
        "tc -n S qdisc add dev cable root handle 1: htb default 1",
        "tc -n S class add dev cable parent 1: classid 1:1 htb rate 10000000bit ceil 10000000bit burst 1600 cburst 1600 quantum 1514",
    ];

    #[test]
    fn htb_is_one_class_over_a_queue() {
        let fifo = "tc -n S qdisc add dev cable parent 1:1 handle 10: pfifo limit 100";
        assert_eq!(commands("", ""), [HTB[0], HTB[1], fifo]);
        let fq_codel = "tc -n S qdisc add dev cable parent 1:1 handle 10: fq_codel";
        assert_eq!(commands("", "qdisc = \"fq_codel\""), [HTB[0], HTB[1], fq_codel]);
    }

    #[test]
    fn tbf_gets_the_same_fifo() {
        let want = [
            "tc -n S qdisc add dev cable root handle 1: tbf rate 10000000bit burst 2850 limit 2850",
            "tc -n S qdisc add dev cable parent 1:1 handle 10: pfifo limit 7",
        ];
        assert_eq!(commands("shaper = \"tbf\"\nfifo_packets = 7", ""), want);
    }

    #[test]
    fn what_shapes_by_itself_is_told_the_rate() {
        let cake = "tc -n S qdisc add dev cable root handle 1: cake bandwidth 10000000bit";
        assert_eq!(commands("qdisc = \"cake\"", ""), [cake]);
        assert_eq!(commands("qdisc = \"cake_hosts\"", ""), [format!("{cake} dual-dsthost")]);
        let bands = "ip netns exec S /a b/weir uplink up cable --rate 10mbit --qdisc htb";
        assert_eq!(commands("", "qdisc = \"bands\"\nqdisc_flags = [\"--qdisc\", \"htb\"]"), [bands]);
    }

    #[test]
    fn attach_is_told_port_rate_policy_and_what_is_there() {
        let attach = |run: &str| {
            let (experiment, spec) = one("", run);
            let words = attach_command("S", "cable", &experiment, &spec, 8080, Some(Path::new("weir"))).unwrap();
            words.map(|words| words.join(" "))
        };
        assert_eq!(attach(""), None);
        let want = "ip netns exec S weir attach cable --port 8080 --rate 10mbit --policy las --no-watch";
        assert_eq!(attach("attach = \"las\"").unwrap(), want);
        let (router, spec) = one("network = \"router\"", "attach = \"las\"\ntold = \"auto\"");
        assert_eq!(router.qdisc_of(&spec), Qdisc::Fifo, "attach makes its own bands");
        let follow = follow_command("S", "cable", &spec, Path::new("f"), Some(Path::new("weir"))).unwrap().unwrap();
        assert_eq!(follow.join(" "), "env STATE_DIRECTORY=f ip netns exec S weir attach cable --rate auto");
        let (router, spec) = one("network = \"router\"", "attach = \"las\"");
        let words = attach_command("S", "cable", &router, &spec, 8080, Some(Path::new("weir"))).unwrap().unwrap();
        assert!(words.join(" ").contains("--rate 9.8mbit"), "{words:?}");
        let want = "ip netns exec S weir attach cable --port 8080 --rate 10mbit --policy srpt --no-watch --x 1";
        let run = "attach = \"srpt\"\nqdisc = \"bands\"\nattach_flags = [\"--x\", \"1\"]";
        assert_eq!(attach(run).unwrap(), want);
    }

    #[test]
    fn our_trees_need_our_program() {
        let (experiment, spec) = one("", "attach = \"las\"");
        let error = build_commands("S", "cable", &experiment, &spec, None).unwrap_err();
        assert!(error.to_string().starts_with("the program `weir` is not found"));
    }
}
