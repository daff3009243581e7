//! The experiment file: one question, one link and one list of jobs, on which several runs are compared at each of its
//! points.
//!
//! Every mistake is an error that names the file, the line, the fault and the correct form. An unknown key is a mistake
//! too, because a misspelt `fifo_packets` that is silently ignored would cause a wrong result.

mod customer;
mod file;
mod keys;
mod known;
mod layers;
mod load;
#[cfg(test)]
mod tests;
mod vary;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sched::UplinkRate;
use serde::Deserialize;
use toml::Spanned;
use units::Rate;

pub use customer::{Customer, CustomerAt, check_customers};
pub use file::{ExperimentFile, Overrides, Point};
use keys::packets;
pub use keys::{Surge, check_rho, check_seconds};
pub(crate) use keys::{check_name, duration, maybe_parsed, parsed, rate};
pub use load::Load;

use crate::client_group::check_groups;
use crate::limits::within;
use crate::{ClientGroup, LabError, Limits, Qdisc, RateChange, RunSpec, ipv6, line};

/// The settings of an experiment file at one point, with the defaults filled in.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The question that the experiment answers, for readers.
    pub question: String,
    /// The rate of the bottleneck at the server's egress.
    #[serde(deserialize_with = "rate")]
    pub link: Rate,
    /// The uplink rate configured in Weir for runs that do not specify one, if it is not the link's rate.
    #[serde(default, deserialize_with = "maybe_parsed")]
    pub told: Option<UplinkRate>,
    /// The requests. In a file the load's keys are among the others.
    pub load: Load,
    /// The limits of the kernel and the server: queues, timeouts, workers.
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub network: Network,
    /// Server and clients have only IPv6 addresses.
    #[serde(default)]
    pub ipv6: bool,
    /// A wire behind the shaper serialises packets, so that no bit arrives before its time. Without it the shaper sends
    /// packets early, which favours every server, and the best order most of all. Results from before this key have no
    /// wire.
    #[serde(default = "yes")]
    pub wire: bool,
    #[serde(default)]
    pub shaper: Shaper,
    /// The queue at the bottleneck in runs that do not specify one.
    #[serde(default)]
    pub qdisc: Qdisc,
    /// The bytes that the shaper lets through without delay after a pause; see [`Experiment::burst_bytes`]. The
    /// minimum is a full packet on Ethernet, without which nothing is sent.
    #[serde(rename = "burst_bytes", default, deserialize_with = "within::<1514, 2_147_483_647, _>")]
    pub burst_bytes_given: Option<u64>,
    /// The length of the FIFO at the bottleneck in packets. The papers' FAIR has 100.
    #[serde(default = "fifo_packets", deserialize_with = "packets")]
    pub fifo_packets: u64,
    /// The maximum number of TCP segments in a packet that the stack passes to the bottleneck, up to GSO_MAX_SEGS
    /// (linux/netdevice.h); unset keeps the kernel's default.
    ///
    /// It determines how many bytes a FIFO of 100 packets holds. `ethtool -K gso off` splits packets only *below* the
    /// queue: in the queue they still hold up to 44 segments (measured: 61 KB). With 1, TCP small queues allow each
    /// connection two or three packets, and the FIFO of the server itself never fills. Mean response time of nginx-fair
    /// at rho 0.8 with the same jobs: 27 ms with 1, 50 with 10, 63 unset; 147 if the FIFO is in a router one hop on,
    /// where neither helps.
    #[serde(default, deserialize_with = "within::<1, 65_535, _>")]
    pub gso_max_segs: Option<u64>,
    #[serde(default = "cubic")]
    pub congestion_control: String,
    /// The bytes that one connection may have queued in the kernel below TCP; unset keeps the kernel's default.
    #[serde(default, deserialize_with = "within::<1, 2_147_483_647, _>")]
    pub tcp_limit_output_bytes: Option<u64>,
    /// Numbers for the names in braces in the configurations of runs. `[vary]` can change them.
    #[serde(default)]
    pub fill: BTreeMap<String, u64>,
    /// The groups of clients. If empty, all requests come from one address, with no path other than the cable.
    #[serde(default, rename = "client")]
    clients: Vec<Spanned<ClientGroup>>,
    /// The changes of the line's rate during the load, in order of time.
    #[serde(default, rename = "rate_change")]
    pub rate_changes: Vec<RateChange>,
    /// The runs, at least one, with distinct names.
    #[serde(rename = "run")]
    runs: Vec<Spanned<RunSpec>>,
}

/// The network between server and clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// Two namespaces with a shaped cable between them (root).
    #[default]
    Namespaces,
    /// Two such namespaces and a router in a third namespace between them, whose egress to the client is the
    /// bottleneck. The server cannot see its queue, and its packets are single segments whatever the server's stack
    /// builds.
    Router,
    /// 127.0.0.1, where the server's own pacing is the only shaping (no privilege).
    Loopback,
}

/// The qdisc that shapes. CAKE and our own qdiscs shape by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shaper {
    #[default]
    Htb,
    Tbf,
}

impl Experiment {
    /// Reads an experiment file with a single point.
    pub fn read(file: &Path) -> Result<Experiment, LabError> {
        ExperimentFile::read(file, &Overrides::default())?.single()
    }

    /// Parses the text of an experiment with a single point. `file` is used in messages, and to find set-ups in its
    /// folder.
    pub fn parse(text: &str, file: &Path) -> Result<Experiment, LabError> {
        ExperimentFile::parse(text, file, &Overrides::default())?.single()
    }

    /// The runs in the order of the file.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = &RunSpec> {
        self.runs.iter().map(Spanned::get_ref)
    }

    /// The groups of clients in the order of the file.
    pub fn clients(&self) -> impl ExactSizeIterator<Item = &ClientGroup> + Clone {
        self.clients.iter().map(Spanned::get_ref)
    }

    /// The queue at the bottleneck in this run: the one that it names or needs, otherwise the experiment's.
    pub fn qdisc_of(&self, run: &RunSpec) -> Qdisc {
        run.qdisc_wanted(self.network).unwrap_or(self.qdisc)
    }

    /// The uplink rate configured in Weir for this run.
    pub(crate) fn told_to(&self, run: &RunSpec) -> UplinkRate {
        run.told.or(self.told).unwrap_or(UplinkRate::Told(self.link))
    }

    /// Keeps only the named runs. The error names the unknown run and lists the existing ones.
    pub fn keep_only(&mut self, names: &[String]) -> Result<(), String> {
        let known: Vec<&str> = self.runs().map(|run| run.name.as_str()).collect();
        if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(format!("there is no run `{unknown}`; the runs are {}", known.join(", ")));
        }
        self.runs.retain(|run| names.contains(&run.get_ref().name));
        Ok(())
    }

    /// The time for which requests arrive, in whole seconds; a file always specifies it.
    pub fn seconds(&self) -> u64 {
        self.load.seconds.unwrap_or_default() as u64
    }

    /// The maximum burst that the shaper lets through, in bytes.
    ///
    /// By default it has room for one full packet (1,514 bytes on Ethernet, rounded up to 1,600), or for a millisecond
    /// at the link's rate if that is more, so that a timer that fires late does not cost capacity (measured at 10
    /// Mbit/s: 10.00 with 1,600, 9.986 with 200). HTB sends while it has any token at all, so 1,600 bytes at 10 Mbit/s
    /// compensate for 1.28 ms of lateness. TBF needs tokens for the whole packet first, so the millisecond is added to
    /// the packet.
    pub fn burst_bytes(&self) -> u64 {
        const PACKET_BYTES: u64 = 1600;
        let millisecond_bytes = self.link.bits_per_s() / 8000;
        self.burst_bytes_given.unwrap_or(match self.shaper {
            Shaper::Htb => PACKET_BYTES.max(millisecond_bytes),
            Shaper::Tbf => PACKET_BYTES + millisecond_bytes,
        })
    }

    /// Checks the combination of keys that are valid by themselves. The error is an offset, 0 if there is none, and the
    /// reason.
    fn check(&self) -> Result<(), (usize, String)> {
        self.load.check().map_err(|reason| (0, reason))?;
        self.limits.check(self).map_err(|reason| (0, reason))?;
        self.check_clients()?;
        self.check_runs()?;
        let checks = [line::check, ipv6::check];
        checks.into_iter().try_for_each(|check| check(self)).map_err(|reason| (0, reason))
    }

    fn check_clients(&self) -> Result<(), (usize, String)> {
        let at = |index: usize| self.clients.get(index).map_or(0, |client| client.span().start);
        if self.network == Network::Loopback && !self.clients.is_empty() {
            return Err((at(0), "clients with addresses of their own need namespaces: leave network out".into()));
        }
        if !self.clients.is_empty() && !self.load.class.is_empty() {
            return Err((at(0), "class says who asks: leave [[client]] out".into()));
        }
        check_groups(self.clients()).map_err(|(index, reason)| (at(index), reason))
    }

    fn check_runs(&self) -> Result<(), (usize, String)> {
        if self.runs.is_empty() {
            return Err((0, "there is no run: write at least one [[run]] table".into()));
        }
        let mut names = BTreeSet::new();
        for run in &self.runs {
            let at = |reason: String| (run.span().start, reason);
            let spec = run.get_ref();
            if !names.insert(&spec.name) {
                return Err(at(format!("there are two runs named `{}`: give each its own name", spec.name)));
            }
            let per_connection = if self.load.pages { u64::MAX } else { self.load.per_connection };
            spec.check(self.qdisc_of(spec), self.network, per_connection).map_err(at)?;
            spec.check_placeholders(&self.fill).map_err(at)?;
        }
        Ok(())
    }
}

fn yes() -> bool {
    true
}

fn fifo_packets() -> u64 {
    100
}

fn cubic() -> String {
    "cubic".into()
}

#[cfg(test)]
mod key_tests {
    use super::*;
    use crate::Server;

    const GOOD: &str = r#"question = "does it work"
link = "10mbit"
rho = 0.8
seconds = 60

[[run]]
name = "nginx-fair"
server = "nginx"

[[run]]
name = "weir-paced-srpt"
server = "weir"
policy = "srpt"
shaping = "paced"
"#;

    fn parse(text: &str) -> Result<Experiment, String> {
        Experiment::parse(text, Path::new("x.toml")).map_err(|e| e.to_string())
    }

    fn wrong(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from));
        parse(&GOOD.replacen(from, to, 1)).unwrap_err()
    }

    #[test]
    fn fills_in_defaults() {
        let experiment = parse(GOOD).unwrap();
        assert_eq!((experiment.load.seed, experiment.load.per_connection, experiment.fifo_packets), (1, 1, 100));
        assert_eq!(experiment.congestion_control, "cubic");
        assert_eq!((experiment.network, experiment.shaper), (Network::Namespaces, Shaper::Htb));
        let runs: Vec<_> =
            experiment.runs().map(|run| (run.server, run.policy.to_string(), run.shaping.as_str())).collect();
        assert_eq!(runs, [(Server::Nginx, "fair".into(), "off"), (Server::Weir, "srpt".into(), "paced")]);
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let said = wrong("rho = 0.8", "rhoo = 0.8");
        assert!(said.starts_with("x.toml:3: unknown field `rhoo`"), "{said}");
        let said = wrong("policy = \"srpt\"", "polcy = \"srpt\"");
        assert!(said.starts_with("x.toml:13: unknown field `polcy`"), "{said}");
        assert_eq!(wrong("shaping = \"paced\"", "drain = \"paced\""), "x.toml:14: `drain` is gone: write shaping");
    }

    #[test]
    fn a_wrong_value_is_quoted_with_its_line_and_what_is_right() {
        for (from, to, line, says) in [
            ("\"10mbit\"", "\"10mb/s\"", 2, "`10mb/s` is not a rate: write a number"),
            ("\"10mbit\"", "\"1bit\"", 2, "`1bit` is too slow for a link: write at least 12kbit"),
            ("60", "60\nfifo_packets = 2000000", 5, "`2000000` is out of range: write 1 to 1000000"),
            ("60", "60\nburst_bytes = 0", 5, "`0` is out of range: write 1514 to "),
            ("60", "60\ngso_max_segs = 100000", 5, "`100000` is out of range: write 1 to 65535"),
            ("60", "60\ntcp_limit_output_bytes = 3000000000", 5, "`3000000000` is out of range: write 1 to "),
            ("0.8", "0.0", 3, "`0` is not a load"),
            ("0.8", "nan", 3, "`NaN` is not a load"),
            ("0.8", "\"high\"", 3, "invalid type"),
            ("60", "0", 4, "`0` is not a length of run"),
            ("60", "-5", 4, "invalid value"),
            ("\"nginx-fair\"", "\"../up\"", 7, "`../up` is not a name for a run"),
            (
                "\"nginx\"",
                "\"iis\"",
                8,
                "unknown variant `iis`, expected one of `apache`, `caddy`, `h2o`, `nginx`, `weir`",
            ),
            ("\"nginx-fair\"", "\"weir-paced-srpt\"", 10, "there are two runs named `weir-paced-srpt`"),
            (
                "server = \"nginx\"",
                "server = \"nginx\"\npolicy = \"srpt\"",
                6,
                "run `nginx-fair`: nginx knows no policy",
            ),
            ("rho = 0.8", "rho = = 0.8", 3, ""),
        ] {
            let said = wrong(from, to);
            assert!(said.starts_with(&format!("x.toml:{line}: {says}")) && !said.contains('\n'), "{to}: {said}");
        }
    }

    /// Earlier the name was left as it was, and a file of that name was written.
    #[test]
    fn an_unknown_name_between_braces_is_refused() {
        let with = |line: &str| {
            wrong("shaping = \"paced\"\n", &format!("config = \"\"\"\n[server]\n{line}\n\"\"\"\n[fill]\nmax_a = 1\n"))
        };
        let said = with("access_log = '{log}'");
        let names = "expected one of {address}, {site}, {link}, {policy}, {shaping}, {access_log}, {max_a}";
        assert_eq!(said, format!("x.toml:10: run `weir-paced-srpt`: config: unknown `{{log}}`, {names}"));
    }

    #[test]
    fn clients_are_checked_with_their_lines() {
        let with = |more: &str, client: &str| parse(&format!("{more}{GOOD}\n[[client]]\nname = \"a\"\n{client}\n"));
        let experiment = with("", "rtt = \"100ms\"\nloss = 0.05").unwrap();
        assert_eq!(experiment.clients().len(), 1);
        for (more, client, says) in [
            ("", "loss = 1.2", "x.toml:18: `1.2` is not a loss"),
            ("", "rtt = \"-5ms\"", "x.toml:18: `-5ms` is not a duration"),
            ("", "rtt = \"5ms\"\njitter = \"6ms\"", "x.toml:16: client `a`: jitter `6ms` is larger than the rtt `5ms`"),
            ("", "[[client]]\nname = \"a\"", "x.toml:18: there are two clients named `a`"),
            ("network = \"loopback\"\n", "", "x.toml:17: clients with addresses of their own need namespaces"),
        ] {
            let said = with(more, client).unwrap_err();
            assert!(said.starts_with(says), "{client}: {said}");
        }
    }

    #[test]
    fn a_missing_key_is_named() {
        let said = wrong("link = \"10mbit\"\n", "");
        assert!(said.contains("missing field `link`"), "{said}");
        let said = parse("question = \"x\"\nlink = \"1mbit\"\nrho = 1\nseconds = 1\nrun = []\n").unwrap_err();
        assert!(said.contains("[[run]]"), "{said}");
    }

    #[test]
    fn only_the_runs_asked_for() {
        let mut experiment = parse(GOOD).unwrap();
        let said = experiment.keep_only(&["weir-of".into()]).unwrap_err();
        assert_eq!(said, "there is no run `weir-of`; the runs are nginx-fair, weir-paced-srpt");
        experiment.keep_only(&["weir-paced-srpt".into()]).unwrap();
        assert_eq!(experiment.runs().map(|run| run.name.as_str()).collect::<Vec<_>>(), ["weir-paced-srpt"]);
    }

    #[test]
    fn the_burst_holds_a_packet_and_a_millisecond() {
        let burst =
            |link: &str, more: &str| parse(&format!("{more}{}", GOOD.replace("10mbit", link))).unwrap().burst_bytes();
        assert_eq!(burst("10mbit", ""), 1600);
        assert_eq!(burst("100mbit", ""), 12_500);
        assert_eq!(burst("10mbit", "shaper = \"tbf\"\n"), 2850);
        assert_eq!(burst("10mbit", "burst_bytes = 3000\n"), 3000);
    }

    #[test]
    fn a_sweep_is_told_apart() {
        let said = parse("question = \"x\"\n[grid]\nrho = [0.5]\n").unwrap_err();
        assert_eq!(said, "x.toml:1: it has a [grid]: that is an experiment for python -m weirlab sweep");
    }

    #[test]
    fn a_load_is_given_once() {
        assert!(wrong("rho = 0.8\n", "").contains("missing field `rho`: a load is rho = 0.8, profile"));
        let said = wrong("rho = 0.8", "rho = 0.8\nprofile = \"W1\"");
        assert!(said.starts_with("x.toml:1: rho, profile, users and webstone are each a load"), "{said}");
        let said = wrong("rho = 0.8", "profile = \"W11\"");
        assert!(said.starts_with("x.toml:3: `W11` is no load profile"), "{said}");
        let said = wrong("rho = 0.8", "rho = 0.8\nretries = 3");
        assert!(said.contains("retries without abort"), "{said}");
    }

    /// All files except those of sweeps, which are checked where sweeps are.
    #[test]
    fn the_experiments_we_ship_are_right() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let mut count = 0;
        let folders = std::fs::read_dir(folder).unwrap().flatten().filter(|folder| folder.file_name() != "setups");
        for entry in folders.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap().flatten()) {
            if !std::fs::read_to_string(entry.path()).unwrap().contains("[grid]") {
                assert!(!ExperimentFile::read(&entry.path(), &Overrides::default()).unwrap().points().is_empty());
                count += 1;
            }
        }
        assert!(count >= 30);
    }
}
