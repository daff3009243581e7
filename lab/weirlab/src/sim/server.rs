//! Converts a spec to the model of a web server, and its outcome to named figures.

use cli::Failure;
use serde_json::{Map, Value};
use sim::{Hooks, server};

use super::{SimOutcome, SimSpec};

/// The number of requests counted without `--jobs`.
const REQUESTS_USUAL: u64 = 1_000_000;

/// The number of counted requests per request of the warm-up.
const WARM_UP_SHARE: u64 = 10;

pub(super) fn check(spec: &SimSpec) -> Result<(), Failure> {
    config(spec)?.check().map_err(failure)
}

pub(super) fn run(spec: &SimSpec, hooks: Hooks) -> Result<SimOutcome, Failure> {
    let config = config(spec)?;
    let outcome = server::run(&config, hooks).map_err(failure)?;
    Ok(SimOutcome {
        link_bps: config.network.bits_per_s,
        summary: outcome.summary,
        details: details(serde_json::to_value(&outcome.server)?),
        simulated_jobs: outcome.simulated_requests,
    })
}

fn failure(error: server::ConfigError) -> Failure {
    let said = error.to_string();
    // Fields of a section have no separate flag.
    let is_set = said.split(':').next().is_some_and(|field| field.contains('.'));
    Failure::Usage(if is_set { format!("--set: {said}") } else { format!("--{said}") })
}

fn config(spec: &SimSpec) -> Result<server::Config, Failure> {
    let mut config = settings(spec.set.as_deref().unwrap_or_default())?;
    config.policy = spec.policy.parse().map_err(super::queue::wrong("policy"))?;
    config.users = spec.users.unwrap_or(config.users);
    config.requests = spec.jobs.unwrap_or(REQUESTS_USUAL);
    config.warm_up = spec.warm_up.unwrap_or(config.requests / WARM_UP_SHARE);
    config.seed = spec.seed;
    Ok(config)
}

/// The defaults, changed by assignments such as `disk.position_us=3000, internet.loss=0.02`, which are lines of TOML.
fn settings(set: &str) -> Result<server::Config, Failure> {
    const OTHERWISE: [&str; 5] = ["policy", "users", "requests", "warm_up", "seed"];
    let names = set.split(',').filter_map(|assignment| assignment.split_once('=')).map(|(name, _)| name.trim());
    if let Some(name) = names.into_iter().find(|name| OTHERWISE.contains(name)) {
        return Err(Failure::Usage(format!("--set: `{name}` has a flag of its own")));
    }
    toml::from_str(&set.replace(',', "\n")).map_err(|error| {
        let said = error.message().split('\n').next().unwrap_or_default();
        Failure::Usage(format!(
            "--set: `{set}`: {said}; write assignments such as disk.position_us=3000,internet.loss=0.02"
        ))
    })
}

/// Converts lists of classes to objects by class, so that each figure has its own name.
fn details(outcome: Value) -> Map<String, Value> {
    let Value::Object(mut details) = outcome else { return Map::new() };
    for (list, unit) in [("by_size_class", "from_bytes_"), ("by_bandwidth", "bps_")] {
        if let Some(Value::Array(classes)) = details.get_mut(list).map(Value::take) {
            let named = classes.into_iter().map(|class| (format!("{unit}{}", class["from"]), class));
            details.insert(list.into(), Value::Object(named.collect()));
        }
    }
    details
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(set: &str) -> String {
        match settings(set) {
            Err(Failure::Usage(said)) => said,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn settings_change_what_they_name() {
        let config = settings("disk.position_us=3000, internet.loss=0.02, until=\"count\"").unwrap();
        assert_eq!((config.disk.position_us, config.internet.loss), (3000, 0.02));
        assert_eq!(config.until, server::Until::Count);
        assert_eq!(config.disk.block_bytes, server::Disk::default().block_bytes);
    }

    #[test]
    fn a_wrong_setting_is_named() {
        assert!(said("disk.speed=3").contains("unknown field `speed`"), "{}", said("disk.speed=3"));
        assert!(said("disk").starts_with("--set: `disk`: "));
        assert_eq!(said("users=3"), "--set: `users` has a flag of its own");
    }
}
