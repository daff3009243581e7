//! One run of an experiment: the server of the jobs, their order, and the queue at the bottleneck.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use sched::UplinkRate;
use sched::policy::PolicySpec;
use serde::{Deserialize, Deserializer};
use workload::STREAMS_MAX;

use crate::experiment::{check_name, maybe_parsed, parsed};
use crate::{Framing, Network, placeholders, upstream};

/// A run: the server of the jobs, and their order.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// The name of the run and of its folder: letters, digits, `-`, `_`.
    #[serde(deserialize_with = "name")]
    pub name: String,
    pub server: Server,
    #[serde(default = "fair", deserialize_with = "parsed")]
    pub policy: PolicySpec,
    /// One of [`SHAPINGS`].
    #[serde(default = "off", deserialize_with = "shaping")]
    pub shaping: String,
    /// The uplink rate that is configured in Weir, or in `weir attach` at a server before a router, instead of the
    /// experiment's.
    #[serde(default, deserialize_with = "maybe_parsed")]
    pub told: Option<UplinkRate>,
    /// Additional flags for the server: of `weir serve`, or of another server (Apache's `-c DIRECTIVE`), whose
    /// configuration is unchanged.
    #[serde(default)]
    pub flags: Vec<String>,
    /// The text of a weir.toml, which the run starts with `weir run`. `{address}`, `{site}`, `{link}`, `{policy}`,
    /// `{shaping}`, `{access_log}` (a file in the run's folder), `{upstream}` (its address) and the names of `fill` are
    /// replaced in it.
    pub config: Option<String>,
    /// How the application server marks the end of bodies, if the server has no files and passes requests to an
    /// application server on its host.
    pub upstream: Option<Framing>,
    /// Additional flags for `weirlab upstream`: its workers, and the duration of requests.
    #[serde(default)]
    pub upstream_flags: Vec<String>,
    /// The clients use TLS, and the server has a self-signed certificate.
    #[serde(default)]
    pub tls: bool,
    /// No connection of its clients resumes the TLS session of an earlier one.
    #[serde(default)]
    pub full_handshakes: bool,
    /// The minimum bytes of the server's certificate, as of a chain of several; unset for a single one of a few hundred
    /// bytes.
    pub certificate_bytes: Option<u16>,
    /// The clients use HTTP/2, with up to this many concurrent requests on a connection: with `tls` by ALPN, otherwise
    /// with prior knowledge.
    pub h2: Option<NonZeroU32>,
    /// The clients use HTTP/3, with up to this many concurrent requests on a connection, over UDP at the same port;
    /// requires `tls`.
    pub h3: Option<NonZeroU32>,
    /// The maximum number of connections of a client, as in browsers; unset for no limit.
    pub client_connections: Option<NonZeroU32>,
    /// The qdisc at the bottleneck; [`crate::Experiment::qdisc_of`] defines the default.
    #[serde(rename = "qdisc")]
    pub(crate) qdisc_given: Option<Qdisc>,
    /// Additional flags for the `weir uplink up` that builds `bands`.
    #[serde(default)]
    pub qdisc_flags: Vec<String>,
    /// The policy by which `weir attach` orders the server's traffic; unset attaches nothing.
    pub attach: Option<Attach>,
    /// Additional flags for `weir attach`.
    #[serde(default)]
    pub attach_flags: Vec<String>,
    /// The server is in a container. Its host, which attaches, only forwards its packets.
    #[serde(default)]
    pub container: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Server {
    Apache,
    Caddy,
    H2o,
    Nginx,
    Weir,
}

impl Server {
    pub fn name(self) -> &'static str {
        match self {
            Server::Apache => "apache",
            Server::Caddy => "caddy",
            Server::H2o => "h2o",
            Server::Nginx => "nginx",
            Server::Weir => "weir",
        }
    }

    /// Returns the name of its program.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Server::Apache => "apache2",
            other => other.name(),
        }
    }
}

/// The qdisc at the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Qdisc {
    /// A single FIFO of `fifo_packets` under the shaper: the papers' FAIR.
    #[default]
    Fifo,
    /// fq_codel with its defaults under the shaper: the default of most distributions.
    FqCodel,
    /// fq with its defaults under the shaper: connections take turns, each paced by its TCP.
    Fq,
    /// CAKE with its defaults, which shapes by itself.
    Cake,
    /// CAKE that shares the link first between client hosts (`dual-dsthost`), then between their connections.
    CakeHosts,
    /// The priority bands of `weir uplink up`, with its own shaper.
    Bands,
}

impl Qdisc {
    pub fn name(self) -> &'static str {
        match self {
            Qdisc::Fifo => "fifo",
            Qdisc::FqCodel => "fq_codel",
            Qdisc::Fq => "fq",
            Qdisc::Cake => "cake",
            Qdisc::CakeHosts => "cake_hosts",
            Qdisc::Bands => "bands",
        }
    }

    /// Returns true if it needs a separate shaper above it.
    pub(crate) fn is_under_shaper(self) -> bool {
        matches!(self, Qdisc::Fifo | Qdisc::FqCodel | Qdisc::Fq)
    }

    /// Returns true if `weir uplink up` builds it; it is useful only where the server's own packets queue.
    pub(crate) fn is_ours(self) -> bool {
        self == Qdisc::Bands
    }
}

/// A policy of `weir attach`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attach {
    Las,
    Psjf,
    Srpt,
    Srrt,
}

impl Attach {
    pub fn name(self) -> &'static str {
        match self {
            Attach::Las => "las",
            Attach::Psjf => "psjf",
            Attach::Srpt => "srpt",
            Attach::Srrt => "srrt",
        }
    }
}

impl RunSpec {
    /// Returns true if the server has a self-made certificate, and is requested over TLS.
    pub(crate) fn speaks_tls(&self) -> bool {
        self.tls || self.flags.iter().any(|flag| flag == crate::server::TLS_FLAG)
    }

    /// Returns the key of HTTP/2 or HTTP/3 if one is set, and the maximum concurrent requests on a connection.
    fn streams(&self) -> Option<(&'static str, NonZeroU32)> {
        self.h2.map(|streams| ("h2", streams)).or(self.h3.map(|streams| ("h3", streams)))
    }

    /// Refuses a protocol that the lab does not support for this server.
    fn check_protocol(&self, per_connection: u64) -> Result<(), String> {
        let name = self.server.name();
        match (self.server, self.streams()) {
            (Server::Apache, streams) if self.tls || streams.is_some() => {
                return Err("the lab gives apache no TLS, no HTTP/2 and no HTTP/3: leave tls, h2 and h3 out".into());
            }
            (Server::Nginx | Server::H2o, _) if self.h3.is_some() => {
                return Err(format!("the lab gives {name} no HTTP/3: leave h3 out, or write server = \"caddy\""));
            }
            (Server::Caddy, _) if self.h2.is_some() && !self.tls => {
                return Err("caddy speaks HTTP/2 over TLS alone: write tls = true too".into());
            }
            _ => {}
        }
        if self.h2.is_some() && self.h3.is_some() {
            return Err("h2 and h3 are two protocols: give one of them".into());
        }
        if self.h3.is_some() && !self.speaks_tls() {
            return Err("HTTP/3 is spoken over TLS alone: write tls = true too".into());
        }
        if self.full_handshakes && !self.speaks_tls() {
            return Err("full_handshakes without TLS: write tls = true too".into());
        }
        if self.certificate_bytes.is_some() && !self.tls {
            return Err("certificate_bytes without a certificate: write tls = true too".into());
        }
        match self.streams() {
            Some((key, streams)) if streams.get() > STREAMS_MAX => {
                Err(format!("{key} = {streams} streams on a connection: write 1 to {STREAMS_MAX}"))
            }
            Some((key, _)) if per_connection == 1 => Err(format!(
                "{key} with one request on each connection: write per_connection = 100 at the top, for every run"
            )),
            _ => Ok(()),
        }
    }

    fn check_told(&self) -> Result<(), String> {
        if self.told.is_none() {
            return Ok(());
        }
        if self.attach.is_some() {
            return Ok(());
        }
        if self.server != Server::Weir {
            return Err(format!("told is of weir alone: leave it out of {}", self.server.name()));
        }
        if self.shaping == "off" && self.config.is_none() {
            return Err("told to a run with shaping `off`, which paces nothing: write shaping = \"paced\"".into());
        }
        Ok(())
    }

    /// The qdisc that this run's keys require: the named one, or otherwise the one that its shaping or `attach` needs.
    /// In front of a router's line, `attach` creates its own.
    pub(crate) fn qdisc_wanted(&self, network: Network) -> Option<Qdisc> {
        self.qdisc_given.or(match (self.shaping.as_str(), self.attach) {
            (_, Some(_)) if network == Network::Router => None,
            ("bands" | "bands-at-once", _) | (_, Some(_)) => Some(Qdisc::Bands),
            _ => None,
        })
    }

    /// Checks the names in braces in its configuration, given the names in `fill` in addition to the run's own.
    pub(crate) fn check_placeholders(&self, fill: &BTreeMap<String, u64>) -> Result<(), String> {
        let own = placeholders::OWN.into_iter().chain(self.upstream.map(|_| placeholders::UPSTREAM));
        let is_known = |name: &str| own.clone().any(|own| own == name) || fill.contains_key(name);
        let text = self.config.as_deref().unwrap_or_default();
        let Some(unknown) = placeholders::unknown(text, is_known) else { return Ok(()) };
        let names = own.chain(fill.keys().map(String::as_str));
        let names: Vec<String> = names.map(|name| format!("{{{name}}}")).collect();
        Err(format!("run `{}`: config: unknown `{{{unknown}}}`, expected one of {}", self.name, names.join(", ")))
    }

    /// Checks a run with this qdisc on this network.
    pub(crate) fn check(&self, qdisc: Qdisc, network: Network, per_connection: u64) -> Result<(), String> {
        let (name, queue) = (&self.name, qdisc.name());
        let wrong = |reason: String| Err(format!("run `{name}`: {reason}"));
        self.check_protocol(per_connection).or_else(wrong)?;
        let is_plain = self.policy.is_fair() && self.shaping == "off";
        if self.server != Server::Weir && !is_plain {
            let server = self.server.name();
            return wrong(format!("{server} knows no policy or shaping of ours: leave them out"));
        }
        self.check_told().and_then(|()| upstream::check(self)).or_else(wrong)?;
        if self.config.is_some() && (self.server != Server::Weir || !self.flags.is_empty()) {
            return wrong(
                "config is of `weir run`: write server = \"weir\", and settings in it instead of flags".into(),
            );
        }
        if self.shaping.starts_with("bands") && qdisc != Qdisc::Bands {
            return wrong(format!(
                "shaping `{}` into qdisc `{queue}`: write qdisc = \"bands\" or leave it out",
                self.shaping
            ));
        }
        if self.attach.is_some() && !qdisc.is_ours() && network != Network::Router {
            return wrong(format!("attach has nothing to order in qdisc `{queue}`: write \"bands\""));
        }
        if self.attach.is_none() && !self.attach_flags.is_empty() {
            return wrong("attach_flags without attach: name a policy, for example attach = \"las\"".into());
        }
        if self.container && (self.attach.is_none() || network != Network::Router) {
            return wrong("container is of the host that attaches before a router's line: name a policy".into());
        }
        if !qdisc.is_ours() && !self.qdisc_flags.is_empty() {
            return wrong(format!("qdisc_flags are for `bands`, not for `{queue}`: leave them out"));
        }
        self.check_network(qdisc, network).or_else(wrong)
    }

    fn check_network(&self, qdisc: Qdisc, network: Network) -> Result<(), String> {
        let (queue, wrong) = (qdisc.name(), Err::<(), String>);
        match network {
            Network::Loopback if qdisc != Qdisc::Fifo => {
                wrong(format!("nothing queues on loopback, so no qdisc `{queue}`: leave network or qdisc out"))
            }
            Network::Router if qdisc.is_ours() => {
                wrong(format!("qdisc `{queue}` needs the bottleneck at the server, not at a router: leave network out"))
            }
            _ => Ok(()),
        }
    }
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    check_name(&name, "a run").map_err(serde::de::Error::custom)?;
    Ok(name)
}

/// The values of `weir serve --shaping`. The server would refuse others only after its machine has booted.
const SHAPINGS: [&str; 5] = ["auto", "paced", "bands", "bands-at-once", "off"];

fn shaping<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is_known = SHAPINGS.contains(&text.as_str());
    let said = || serde::de::Error::custom(format!("shaping `{text}`: write one of {}", SHAPINGS.join(", ")));
    if is_known { Ok(text.clone()) } else { Err(said()) }
}

fn fair() -> PolicySpec {
    "fair".parse().expect("a policy")
}

fn off() -> String {
    "off".into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{one, parse};

    fn qdisc(more: &str, run: &str) -> Qdisc {
        let (experiment, spec) = one(more, run);
        experiment.qdisc_of(&spec)
    }

    #[test]
    fn a_run_brings_the_qdisc_it_needs() {
        assert_eq!(qdisc("", "server = \"apache\""), Qdisc::Fifo);
        assert_eq!(qdisc("qdisc = \"cake\"", "server = \"caddy\""), Qdisc::Cake);
        assert_eq!(qdisc("qdisc = \"cake\"", "server = \"nginx\"\nqdisc = \"fq_codel\""), Qdisc::FqCodel);
        assert_eq!(qdisc("qdisc = \"cake\"", "server = \"nginx\"\nattach = \"las\""), Qdisc::Bands);
        assert_eq!(qdisc("", "server = \"weir\"\npolicy = \"srpt\"\nshaping = \"bands\""), Qdisc::Bands);
    }

    #[test]
    fn a_run_is_told_its_own_else_the_experiments_else_the_link() {
        let told = |top: &str, run: &str| {
            let experiment = parse(top, &format!("server = \"weir\"\nshaping = \"paced\"\n{run}")).unwrap();
            experiment.told_to(experiment.runs().next().unwrap()).to_string()
        };
        assert_eq!(told("", ""), "10mbit");
        assert_eq!(told("told = \"7mbit\"", ""), "7mbit");
        assert_eq!(told("told = \"7mbit\"", "told = \"auto\""), "auto");
    }

    #[test]
    fn a_protocol_that_a_server_does_not_speak_is_said() {
        for (more, run, says) in [
            (
                "per_connection = 9",
                "server = \"apache\"\ntls = true",
                "run `a`: the lab gives apache no TLS, no HTTP/2 and no HTTP/3",
            ),
            ("per_connection = 9", "server = \"nginx\"\nh3 = 6\ntls = true", "run `a`: the lab gives nginx no HTTP/3"),
            ("per_connection = 9", "server = \"weir\"\nh3 = 6", "run `a`: HTTP/3 is spoken over TLS alone"),
            ("per_connection = 9", "server = \"weir\"\nh2 = 6\nh3 = 6\ntls = true", "run `a`: h2 and h3 are two"),
            (
                "per_connection = 9",
                "server = \"weir\"\nh3 = 2000\ntls = true",
                "run `a`: h3 = 2000 streams on a connection: write 1 to 1000",
            ),
            ("", "server = \"weir\"\nh3 = 6\ntls = true", "run `a`: h3 with one request on each connection"),
            ("per_connection = 9", "server = \"caddy\"\nh2 = 6", "run `a`: caddy speaks HTTP/2 over TLS alone"),
            (
                "per_connection = 9",
                "server = \"nginx\"\nh2 = 1001",
                "run `a`: h2 = 1001 streams on a connection: write 1 to 1000",
            ),
            ("", "server = \"weir\"\nfull_handshakes = true", "run `a`: full_handshakes without TLS"),
            ("", "server = \"weir\"\ncertificate_bytes = 3000", "run `a`: certificate_bytes without a certificate"),
            ("", "server = \"nginx\"\nh2 = 6", "run `a`: h2 with one request on each connection"),
        ] {
            let said = parse(more, run).unwrap_err();
            assert!(said.contains(says) && said.starts_with("x.toml:"), "{run}: {said}");
        }
        assert!(parse("per_connection = 9", "server = \"caddy\"\nh3 = 1000\ntls = true").is_ok());
    }

    #[test]
    fn what_cannot_go_together_is_said() {
        for (more, run, says) in [
            ("", "server = \"caddy\"\nshaping = \"bands\"", "run `a`: caddy knows no policy or shaping"),
            (
                "",
                "server = \"weir\"\nshaping = \"bands\"\nqdisc = \"cake\"",
                "run `a`: shaping `bands` into qdisc `cake`",
            ),
            ("", "server = \"nginx\"\nattach = \"las\"\nqdisc = \"fifo\"", "run `a`: attach has nothing to order"),
            ("", "server = \"nginx\"\nattach = \"fifo\"", "unknown variant `fifo`, expected one of `las`"),
            ("", "server = \"weir\"\nshaping = \"of\"", "shaping `of`: write one of auto, paced, bands, "),
            ("", "server = \"weir\"\npolicy = \"sprt\"", "unknown policy `sprt`: choose one of fair, fcfs, srpt"),
            ("", "server = \"nginx\"\nattach_flags = [\"-x\"]", "run `a`: attach_flags without attach"),
            ("", "server = \"nginx\"\ncontainer = true", "run `a`: container is of the host that attaches"),
            ("", "server = \"nginx\"\nqdisc_flags = [\"-x\"]", "run `a`: qdisc_flags are for `bands`"),
            ("", "server = \"nginx\"\nconfig = \"\"", "run `a`: config is of `weir run`"),
            ("", "server = \"nginx\"\ntold = \"auto\"", "run `a`: told is of weir alone: leave it out of nginx"),
            (
                "",
                "server = \"weir\"\ntold = \"auto\"",
                "run `a`: told to a run with shaping `off`, which paces nothing",
            ),
            ("told = \"on\"", "server = \"weir\"", "x.toml:5: `on`: expected auto, off, a rate or two rates"),
            ("", "server = \"nginx\"\nqdisc = \"codel\"", "unknown variant `codel`, expected one of `fifo`"),
            ("network = \"loopback\"", "server = \"weir\"\nqdisc = \"cake\"", "run `a`: nothing queues on loopback"),
            (
                "network = \"router\"",
                "server = \"nginx\"\nattach = \"las\"\nqdisc = \"bands\"",
                "run `a`: qdisc `bands` needs the bottleneck",
            ),
        ] {
            let said = parse(more, run).unwrap_err();
            assert!(said.contains(says) && said.starts_with("x.toml:"), "{run}: {said}");
        }
        assert!(parse("network = \"router\"", "server = \"nginx\"\nqdisc = \"fq_codel\"").is_ok());
    }
}
