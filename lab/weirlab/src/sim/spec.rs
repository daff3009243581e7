//! The specification of one simulation, as on a command line and in the cells of a sweep's grid.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};

use super::{PacketSpec, PagesSpec, WebStoneSpec};

/// Everything that determines a simulation; equal specs give the same result to the byte.
///
/// The same names are flags (`--warm-up`) and keys (`warm_up`). A key that a model does not know is an error there.
#[derive(Debug, Clone, PartialEq, clap::Args, Serialize, Deserialize)]
pub struct SimSpec {
    /// Which model to simulate
    #[arg(long, value_enum, default_value_t)]
    #[serde(default)]
    pub model: Model,
    /// Whose bytes leave first: ps (exact processor sharing), or what `weir serve --policy` takes
    #[arg(
        long,
        value_name = "SPEC",
        required = false,
        required_unless_present = "class_table",
        conflicts_with = "class_table",
        default_value_if("class_table", clap::builder::ArgPredicate::IsPresent, "classes")
    )]
    pub policy: String,
    /// Offered load of the link, 1 is full
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rho: Option<f64>,
    /// Distribution of sizes in bytes, such as exponential:mean=5000; arrivals are Poisson
    #[arg(long, value_name = "SPEC", conflicts_with = "trace")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dist: Option<String>,
    /// Replay this request trace, stretched in time to rho
    #[arg(long, value_name = "FILE")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// Instead of one rho, alternate between two: W1 to W10 of the overload paper, or LOW_S,HIGH_S,LOW_RHO,HIGH_RHO
    #[arg(long, value_name = "SPEC", conflicts_with = "rho")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Rate of the link [default: 10mbit]
    #[arg(long, value_name = "RATE")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Bytes a job takes on the link: its size alone, or with head, packet headers and handshake
    #[arg(long, value_enum, default_value_t)]
    #[serde(default)]
    pub wire: Wire,
    /// Hand bytes down in grants of this many, as the server does [default: fluid, preemptive at every arrival; of a
    /// rank that grows as a job is served, a fiftieth of the mean size, at most 1448; of policies that take turns, 1448]
    #[arg(long, value_name = "BYTES")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<u64>,
    /// What policies that look at paths (fcf, srrt) see of each client's
    #[arg(long, value_enum, default_value_t)]
    #[serde(default)]
    pub paths: Paths,
    /// Shares of the jobs in classes 0, 1, ..., for policies with classes
    #[arg(long, value_name = "SHARE,SHARE", value_delimiter = ',', allow_negative_numbers = true)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<f64>,
    /// Instead of a policy, the [[class]] tables of this weir.toml; --classes are then the shares of its classes in their
    /// order, that of no rule last [model queue]
    #[arg(long, value_name = "FILE")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_table: Option<PathBuf>,
    /// Jobs come on so many connections in turn, which carry several at once [default: each on its own; model queue]
    #[arg(long, value_name = "N")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<NonZeroU32>,
    /// Clients of the jobs: `trace`, or so many that jobs are dealt to at random; of pages, one for each `visit`, or `households`
    /// [default: one; model queue]
    #[arg(long, value_name = "trace|N|visit|households")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<String>,
    /// True if clients share the link, as `weir serve --client-share`: on, off, strict, or the allowance as a size
    /// [default: on with clients]
    #[arg(long, value_name = "SHARE")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_share: Option<String>,
    /// A client beside them with always so many responses of one size under way; repeatable, with --seconds
    #[arg(long, value_name = "CONNECTIONS,SIZE")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<String>,
    /// Users of the models server and packet, each asking again when answered, instead of an offered load
    #[arg(long, value_name = "N")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<u32>,
    /// What else the model server is like: assignments such as disk.position_us=3000,internet.loss=0.02
    #[arg(long, value_name = "NAME=VALUE,...")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// Count this many jobs, behind the warm-up; of a trace the first so many [default: 1000000, or the whole trace]
    #[arg(long, value_name = "N", alias = "requests")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u64>,
    /// Stop at this instant of simulated time; jobs still there count with the time they waited
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Jobs at the start that are simulated and not counted [default: a tenth of --jobs; none with --seconds or --trace]
    #[arg(long, value_name = "N")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<u64>,
    /// Same seed, same jobs
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[serde(default = "default_seed")]
    pub seed: u64,
    #[command(flatten)]
    #[serde(flatten)]
    pub webstone: WebStoneSpec,
    #[command(flatten)]
    #[serde(flatten)]
    pub pages: PagesSpec,
    #[command(flatten)]
    #[serde(flatten)]
    pub packet: PacketSpec,
    /// Takes all keys that no field above has, and refuses them: serde cannot both flatten and deny.
    #[arg(skip)]
    #[serde(flatten, skip_serializing, deserialize_with = "nothing_else")]
    pub nothing_else: (),
}

impl SimSpec {
    /// The rate of the link as written, for models that have one.
    pub fn link(&self) -> &str {
        self.link.as_deref().unwrap_or(LINK_USUAL)
    }
}

/// The rate of the papers' testbeds.
const LINK_USUAL: &str = "10mbit";

fn nothing_else<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    let left = BTreeMap::<String, IgnoredAny>::deserialize(deserializer)?;
    match left.keys().next() {
        Some(field) => Err(D::Error::custom(format!("unknown field `{field}`"))),
        None => Ok(()),
    }
}

/// The models, in order of detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// A link
    #[default]
    Queue,
    /// A web server: processor, disk, network
    Server,
    /// TCP over a bottleneck
    Packet,
}

/// Which bytes of a job the link counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    /// Service is size / link
    #[default]
    Plain,
    /// Head, packet headers and one connection per job, as `weirlab load` counts them
    Tcp,
}

/// The places of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Paths {
    /// Nothing is known of any path
    #[default]
    Unknown,
    /// Throughput and RTT of the bandwidth and RTT classes of 001
    Internet,
}

fn default_seed() -> u64 {
    1
}
