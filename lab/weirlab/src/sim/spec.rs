//! The specification of one simulation, as on a command line and in the cells of a sweep's grid.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cli::Failure;
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use super::{PacketSpec, WebStoneSpec};

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
    pub rho: Option<f64>,
    /// Distribution of sizes in bytes, such as exponential:mean=5000; arrivals are Poisson
    #[arg(long, value_name = "SPEC", conflicts_with = "trace")]
    pub dist: Option<String>,
    /// Replay this request trace, stretched in time to rho
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Instead of one rho, alternate between two: W1 to W10 of the overload paper, or LOW_S,HIGH_S,LOW_RHO,HIGH_RHO
    #[arg(long, value_name = "SPEC", conflicts_with = "rho")]
    pub profile: Option<String>,
    /// Rate of the link [default: 10mbit]
    #[arg(long, value_name = "RATE")]
    pub link: Option<String>,
    /// Bytes a job takes on the link: its size alone, or with head, packet headers and handshake
    #[arg(long, value_enum, default_value_t)]
    #[serde(default)]
    pub wire: Wire,
    /// Hand bytes down in grants of this many, as the server does [default: fluid, preemptive at every arrival; of a
    /// rank that grows as a job is served, a fiftieth of the mean size, at most 1448; of policies that take turns, 1448]
    #[arg(long, value_name = "BYTES")]
    pub chunk: Option<u64>,
    /// What policies that look at paths (fcf, srrt) see of each client's
    #[arg(long, value_enum, default_value_t)]
    #[serde(default)]
    pub paths: Paths,
    /// Shares of the jobs in classes 0, 1, ..., for policies with classes
    #[arg(long, value_name = "SHARE,SHARE", value_delimiter = ',', allow_negative_numbers = true)]
    #[serde(default)]
    pub classes: Vec<f64>,
    /// Instead of a policy, the [[class]] tables of this weir.toml; --classes are then the shares of its classes in their
    /// order, that of no rule last [model queue]
    #[arg(long, value_name = "FILE")]
    pub class_table: Option<PathBuf>,
    /// Users of the models server and packet, each asking again when answered, instead of an offered load
    #[arg(long, value_name = "N")]
    pub users: Option<u32>,
    /// What else the model server is like: assignments such as disk.position_us=3000,internet.loss=0.02
    #[arg(long, value_name = "NAME=VALUE,...")]
    pub set: Option<String>,
    /// Count this many jobs, behind the warm-up; of a trace the first so many [default: 1000000, or the whole trace]
    #[arg(long, value_name = "N", alias = "requests")]
    pub jobs: Option<u64>,
    /// Stop at this instant of simulated time; jobs still there count with the time they waited
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub seconds: Option<f64>,
    /// Jobs at the start that are simulated and not counted [default: a tenth of --jobs; none with --seconds or --trace]
    #[arg(long, value_name = "N")]
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

    /// The fields that are set, by name.
    pub fn told(&self) -> Result<Map<String, Value>, serde_json::Error> {
        let mut fields = fields_of(self)?;
        fields.retain(|_, value| ![Value::Null, json!([]), json!(false)].contains(value));
        Ok(fields)
    }

    /// Refuses a field that is set and belongs to other models.
    pub fn refuse_others(&self) -> Result<(), Failure> {
        let usual = [("wire", json!(Wire::default())), ("paths", json!(Paths::default()))];
        let told = self.told()?.into_iter().filter(|(field, value)| !usual.contains(&(field.as_str(), value.clone())));
        for (field, _) in told {
            let mut knowing = Model::ALL.to_vec();
            knowing.retain(|model| model.knows(&field));
            if !knowing.contains(&self.model) {
                let names: Vec<String> = knowing.iter().map(|model| format!("{model:?}").to_lowercase()).collect();
                let (field, names) = (field.replace('_', "-"), names.join(" or "));
                return Err(Failure::Usage(format!("--{field}: it belongs to --model {names}")));
            }
        }
        Ok(())
    }
}

fn fields_of(spec: &impl Serialize) -> Result<Map<String, Value>, serde_json::Error> {
    Ok(serde_json::to_value(spec)?.as_object().cloned().unwrap_or_default())
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

impl Model {
    const ALL: [Model; 3] = [Model::Queue, Model::Server, Model::Packet];

    /// Returns whether the model has this field.
    fn knows(self, field: &str) -> bool {
        let is_of_packet = fields_of(&PacketSpec::default()).is_ok_and(|fields| fields.contains_key(field));
        let is_of_all = ["model", "policy", "jobs", "warm_up", "seed"].contains(&field);
        match self {
            Model::Queue => !is_of_packet && !["users", "set"].contains(&field),
            Model::Server => is_of_all || ["users", "set"].contains(&field),
            Model::Packet => {
                let shared = ["users", "rho", "dist", "trace", "profile", "link", "wire", "seconds"];
                is_of_packet || is_of_all || shared.contains(&field)
            }
        }
    }
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
