//! The load of an experiment, described once for three uses: keys of its file, flags of `weirlab load`, and the JSON
//! passed from one to the other.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use serde::{Deserialize, Serialize};

use workload::{Routes, WebStone};

use super::keys::{
    count, maybe_as_text, maybe_duration, maybe_name, maybe_parsed, maybe_routes, maybe_whole, profile, rho, seconds,
    users,
};
use super::{Customer, CustomerAt, Surge, check_customers};

/// The requests of a load, their instants, and how long their users wait. Together with the link it determines every
/// job.
///
/// The values in a file are checked key by key when it is read ([`super::keys`]); a command line may exceed these
/// limits.
#[derive(Debug, Clone, PartialEq, clap::Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Requests to replay; `synthetic`, the default, is the trace this program carries
    #[arg(long, value_name = "FILE")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// Instead of a trace, SURGE's requests: 000 (the default) or 002, as those papers used it
    #[arg(
        long,
        value_name = "MODEL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with = "trace",
        value_parser = Named(Surge::from_str)
    )]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surge: Option<Surge>,
    /// Closed load of so many of SURGE's users, who wait for every answer (of 002, unless --surge says otherwise)
    #[arg(long, value_name = "N", conflicts_with_all = ["rho", "profile", "trace", "repeat"])]
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "users")]
    pub users: Option<u32>,
    /// Closed load of WebStone's clients with a workload of 004, WA or WB: each asks again as soon as it was answered
    #[arg(
        long,
        value_name = "WA|WB",
        conflicts_with_all = ["rho", "profile", "trace", "surge", "users", "repeat", "per_connection"],
        value_parser = Named(WebStone::from_str)
    )]
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "maybe_parsed",
        serialize_with = "maybe_name"
    )]
    pub webstone: Option<WebStone>,
    /// A class of them, who ask for one customer's files: in the folder /name/, or in that folder or at that host; repeatable
    #[arg(long = "class", value_name = "NAME:CLIENTS[=/DIR/|=HOST]", requires = "webstone", value_parser = Named(Customer::from_str))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub class: Vec<Customer>,
    /// Visits of pages arrive instead of requests, with the order, the priorities and the caches of browsers
    #[arg(long, conflicts_with_all = ["profile", "trace", "surge", "users", "webstone", "repeat", "per_connection", "abort"])]
    #[serde(default, skip_serializing_if = "is_not")]
    pub pages: bool,
    /// No visitor loses patience and leaves, so that all servers carry the same bytes
    #[arg(long, requires = "pages")]
    #[serde(default, skip_serializing_if = "is_not")]
    pub patient: bool,
    /// Stretch the trace in time until it loads the uplink to this
    #[arg(long, allow_negative_numbers = true)]
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "rho")]
    pub rho: Option<f64>,
    /// Instead, a load that alternates: W1 to W10, or LOW_S,HIGH_S,LOW_RHO,HIGH_RHO
    #[arg(long, value_name = "SPEC", conflicts_with = "rho")]
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "profile")]
    pub profile: Option<String>,
    /// Arrivals stop after this many seconds [default: the whole trace]
    #[arg(long, allow_negative_numbers = true)]
    #[serde(deserialize_with = "seconds", serialize_with = "maybe_whole")]
    pub seconds: Option<f64>,
    /// Where the trace ends before the seconds do, ask for its requests again, in an order drawn by the seed
    #[arg(long, requires = "seconds")]
    #[serde(default)]
    pub repeat: bool,
    /// Begin the trace at a request that the seed draws, with sizes in an order that it draws: another load with every seed
    #[arg(long, conflicts_with_all = ["surge", "users", "webstone", "pages"])]
    #[serde(default, skip_serializing_if = "is_not")]
    pub shuffle: bool,
    /// Ask below folders that stand for so many routes of an application, sizes within each about log-normal with this sigma;
    /// without it they are any
    #[arg(long, value_name = "N[~SIGMA]", conflicts_with_all = ["webstone", "pages"], value_parser = Named(Routes::from_str))]
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "maybe_parsed",
        serialize_with = "maybe_routes"
    )]
    pub routes: Option<Routes>,
    /// Chooses Poisson times, and times within the whole seconds of a log
    #[arg(long, default_value_t = 1)]
    #[serde(default = "one")]
    pub seed: u64,
    /// Requests on each connection, one after the other; one that finds none free opens another
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[serde(default = "one", deserialize_with = "count")]
    pub per_connection: u64,
    /// Users give up an attempt after this, close its connection and ask again
    #[arg(long, value_name = "DURATION", value_parser = Named(units::parse_duration))]
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "maybe_duration",
        serialize_with = "maybe_as_text"
    )]
    pub abort: Option<Duration>,
    /// The number of times that they ask again before they give up for good [default: 0]
    #[arg(long, value_name = "K", requires = "abort")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// How long after the last arrival to wait for what is outstanding [default: 120s]
    #[arg(long, value_name = "DURATION", value_parser = Named(units::parse_duration))]
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "maybe_duration",
        serialize_with = "maybe_as_text"
    )]
    pub grace: Option<Duration>,
}

impl Load {
    /// Checks that keys, each valid by itself, are compatible.
    pub(super) fn check(&self) -> Result<(), String> {
        let loads = [self.rho.is_some(), self.profile.is_some(), self.users.is_some(), self.webstone.is_some()];
        match loads.iter().filter(|is| **is).count() {
            0 => return Err("missing field `rho`: a load is rho = 0.8, profile = \"W1\" or users = 300".into()),
            1 => {}
            _ => return Err("rho, profile, users and webstone are each a load: give one of them".into()),
        }
        self.check_webstone()?;
        self.check_pages()?;
        if (self.surge.is_some() || self.users.is_some()) && self.trace.is_some() {
            return Err("surge and users make their own requests: leave trace out".into());
        }
        let draws = self.surge.is_some() || self.users.is_some() || self.webstone.is_some() || self.pages;
        if self.shuffle && draws {
            return Err("shuffle is of a trace: surge, users, webstone and pages draw their requests anyhow".into());
        }
        if self.routes.is_some() && (self.webstone.is_some() || self.pages) {
            return Err("webstone and pages have routes of their own: leave routes out".into());
        }
        if self.retries.is_some() && self.abort.is_none() {
            return Err("retries without abort: say after what time users give up, such as abort = \"7s\"".into());
        }
        Ok(())
    }
}

impl Load {
    fn check_webstone(&self) -> Result<(), String> {
        let is_webstone = self.webstone.is_some();
        if is_webstone == self.class.is_empty() {
            return Err("webstone and class go together: webstone = \"WA\", class = [\"A:15\", \"B:15\"]".into());
        }
        let own = self.trace.is_some() || self.surge.is_some() || self.per_connection != 1;
        if is_webstone && own {
            return Err(
                "webstone has requests and connections of its own: leave trace, surge, per_connection out".into()
            );
        }
        if is_webstone { check_customers(&self.class) } else { Ok(()) }
    }

    fn check_pages(&self) -> Result<(), String> {
        if self.patient && !self.pages {
            return Err("patient is of visitors: write pages = true too".into());
        }
        if !self.pages {
            return Ok(());
        }
        if self.rho.is_none() {
            return Err("pages without rho: write the load of the link, rho = 0.8".into());
        }
        let own = [
            ("trace", self.trace.is_some()),
            ("surge", self.surge.is_some()),
            ("repeat", self.repeat),
            ("per_connection", self.per_connection != 1),
            ("abort", self.abort.is_some()),
        ];
        match own.into_iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => Err(format!("pages have requests and connections of their own: leave {key} out")),
            None => Ok(()),
        }
    }

    /// Returns the folders of customers' files, next to the common folder.
    pub(crate) fn folders(&self) -> impl Iterator<Item = String> {
        let folder = |customer: &Customer| match &customer.at {
            CustomerAt::Path(path) => Some(path.clone()),
            CustomerAt::Host(_) => None,
        };
        self.class.iter().filter_map(folder)
    }
}

fn one() -> u64 {
    1
}

fn is_not(is: &bool) -> bool {
    !is
}

/// Parses the value of a flag. An error is reported as `--flag: reason`, like an error found later.
#[derive(Clone)]
struct Named<T, E>(fn(&str) -> Result<T, E>);

impl<T, E> TypedValueParser for Named<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: ToString + Clone + 'static,
{
    type Value = T;

    fn parse_ref(&self, _: &clap::Command, arg: Option<&clap::Arg>, value: &OsStr) -> Result<T, clap::Error> {
        let flag = arg.and_then(clap::Arg::get_long).unwrap_or_default();
        self.0(&value.to_string_lossy())
            .map_err(|error| clap::Error::raw(ErrorKind::ValueValidation, format!("--{flag}: {}", error.to_string())))
    }
}
