//! One run of a sweep is one `weirlab sim`: the fields of the grid are the fields of its spec.

use std::path::{Path, PathBuf};

use ::sweep::{Fields, Measured, SweepError, Theory};
use cli::Failure;
use serde_json::{Map, Value};

use super::closed_form;
use crate::sim::{self, SimSpec};

/// Raised whenever a simulation of the same spec comes to another result: what is kept of older ones is then not used.
const VERSION: u32 = 1;

/// Texts that begin so name a file, as in `dist = "trace:FILE"`.
const TRACE_PREFIX: &str = "trace:";

/// A model of the crate `sim`, with the folder that traces are relative to.
pub struct Simulator {
    model: Value,
    folder: PathBuf,
}

impl Simulator {
    /// `folder` is that of the experiment `file`, which stands in messages.
    pub fn new(model: &str, folder: &Path, file: &Path) -> Result<Simulator, SweepError> {
        let simulator = Simulator { model: model.into(), folder: folder.into() };
        let known = serde_json::from_value::<sim::Model>(simulator.model.clone());
        known.map_err(|e| SweepError::Plan { file: file.into(), line: None, reason: format!("model: {e}") })?;
        Ok(simulator)
    }

    fn spec(&self, fields: &Fields, seed: u64) -> Result<SimSpec, String> {
        let (set, own): (Vec<_>, Vec<_>) = fields.clone().into_iter().partition(|(field, _)| is_setting(field));
        let mut map: Map<String, Value> = own.into_iter().collect();
        if !set.is_empty() {
            let before = map.get("set").and_then(Value::as_str).map(str::to_string);
            let assignments = before.into_iter().chain(set.iter().map(|(field, value)| format!("{field}={value}")));
            map.insert("set".into(), assignments.collect::<Vec<_>>().join(",").into());
        }
        map.insert("model".into(), self.model.clone());
        map.insert("seed".into(), seed.into());
        for (field, prefix, file) in traces(fields) {
            map.insert(field.into(), format!("{prefix}{}", self.folder.join(file).display()).into());
        }
        serde_json::from_value(Value::Object(map)).map_err(|error| match misfit(fields) {
            Some((field, error)) => format!("{field}: {error}"),
            None => error.to_string(),
        })
    }
}

/// What a model is like beyond the fields that all have: an assignment of `weirlab sim --set`.
fn is_setting(field: &str) -> bool {
    field.contains('.')
}

/// The files that a run reads: the field that names one, what stands before the name in it, and the name.
fn traces(fields: &Fields) -> Vec<(&'static str, &'static str, &str)> {
    let text = |field: &str| fields.get(field).and_then(Value::as_str);
    let trace = text("trace").map(|file| ("trace", "", file));
    let dist = text("dist").and_then(|dist| dist.strip_prefix(TRACE_PREFIX)).map(|file| ("dist", TRACE_PREFIX, file));
    trace.into_iter().chain(dist).collect()
}

/// The field that no spec can have, and why: serde names unknown fields but not those of a wrong type.
fn misfit(fields: &Fields) -> Option<(&String, serde_json::Error)> {
    fields.iter().filter(|(field, _)| !is_setting(field)).find_map(|(field, value)| {
        let mut alone = Map::from_iter([("policy".to_string(), Value::from("srpt"))]);
        alone.insert(field.clone(), value.clone());
        serde_json::from_value::<SimSpec>(Value::Object(alone)).err().map(|error| (field, error))
    })
}

impl ::sweep::Model for Simulator {
    fn version(&self) -> u32 {
        VERSION
    }

    fn check(&self, fields: &Fields) -> Result<(), String> {
        const ANY_SEED: u64 = 1;
        let said = sim::check(&self.spec(fields, ANY_SEED)?).map_err(reason);
        // What is wrong with a file begins with its path: the field that names it comes first.
        said.map_err(|said| {
            let is_of = |file: &str| said.starts_with(&self.folder.join(file).display().to_string());
            match traces(fields).into_iter().find(|(.., file)| is_of(file)) {
                Some((field, ..)) => format!("{field}: {said}"),
                None => said,
            }
        })
    }

    fn files(&self, fields: &Fields) -> Vec<PathBuf> {
        traces(fields).into_iter().map(|(.., file)| self.folder.join(file)).collect()
    }

    fn theory(&self, fields: &Fields, sizes_bytes: &[f64]) -> Option<Theory> {
        const ANY_SEED: u64 = 1;
        closed_form::of(&self.spec(fields, ANY_SEED).ok()?, sizes_bytes)
    }

    fn run(&self, fields: &Fields, seed: u64) -> Result<Measured, String> {
        let outcome = sim::run(&self.spec(fields, seed)?, ::sim::Hooks::none()).map_err(reason)?;
        let measured = serde_json::to_value(&outcome.summary).and_then(|mut json| {
            for (name, value) in outcome.details {
                // What all models have goes before what only this one has.
                if json.get(&name).is_none() {
                    json[name] = value;
                }
            }
            Measured::from_json(&json)
        });
        measured.map_err(|e| e.to_string())
    }
}

/// Flags go by the names of fields, so a mistake in a file is not one in `--rho` but in `rho`.
fn reason(failure: Failure) -> String {
    let (Failure::Usage(reason) | Failure::Failed(reason)) = failure;
    reason.trim_start_matches("--").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::sweep::Model as _;
    use serde_json::json;

    fn said(field: &str, value: Value) -> String {
        let simulator = Simulator::new("queue", Path::new("experiments"), Path::new("x.toml")).unwrap();
        let mut fields = Fields::from([("policy".into(), "srpt".into()), ("rho".into(), 0.5.into())]);
        fields.insert("dist".into(), "exponential:mean=5000".into());
        fields.insert("jobs".into(), 1000.into());
        fields.insert(field.into(), value);
        simulator.check(&fields).unwrap_err()
    }

    #[test]
    fn a_field_of_a_wrong_kind_is_named() {
        assert!(said("rho", json!("high")).starts_with("rho: invalid type"), "{}", said("rho", json!("high")));
        assert!(said("jobs", json!(-1)).starts_with("jobs: invalid value"), "{}", said("jobs", json!(-1)));
        assert!(
            said("polcy", json!("ps")).starts_with("polcy: unknown field `polcy`"),
            "{}",
            said("polcy", json!("ps"))
        );
    }

    #[test]
    fn fields_with_a_dot_are_settings() {
        let simulator = Simulator::new("server", Path::new(""), Path::new("x.toml")).unwrap();
        let mut fields = Fields::from([("policy".into(), "srpt".into()), ("users".into(), 70.into())]);
        fields.insert("set".into(), "internet.loss=0.02".into());
        fields.insert("disk.position_us".into(), 3000.into());
        assert_eq!(simulator.spec(&fields, 1).unwrap().set.unwrap(), "internet.loss=0.02,disk.position_us=3000");
        simulator.check(&fields).unwrap();
        fields.insert("disk.size".into(), 1.into());
        assert!(simulator.check(&fields).unwrap_err().starts_with("set: "));
    }

    #[test]
    fn what_only_one_model_tells_is_a_metric_too() {
        let simulator = Simulator::new("server", Path::new(""), Path::new("x.toml")).unwrap();
        let fields = [("policy", json!("srpt")), ("users", json!(10)), ("jobs", json!(200)), ("warm_up", json!(0))];
        let fields: Fields = fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        let measured = simulator.run(&fields, 1).unwrap();
        for metric in ["response_time_ms_mean", "jobs", "server_delay_ms_mean", "utilisation_disk"] {
            assert!(measured.metrics.contains_key(metric), "{metric}: {:?}", measured.metrics.keys());
        }
        assert!(!measured.by_size.is_empty() && !measured.ccdf.is_empty());
    }

    #[test]
    fn an_unknown_model_is_named() {
        let said = Simulator::new("fluid", Path::new(""), Path::new("x.toml")).err().unwrap().to_string();
        assert!(said.starts_with("x.toml: model: unknown variant `fluid`, expected one of `queue`"), "{said}");
    }

    /// Every file with a grid; the others are checked where the lab reads them.
    #[test]
    fn the_sweeps_we_ship_are_right() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let mut count = 0;
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let file = entry.path();
            let is_toml = file.extension().is_some_and(|extension| extension == "toml");
            if is_toml && std::fs::read_to_string(&file).unwrap().contains("[grid]") {
                let plan = ::sweep::Plan::read(&file).unwrap();
                let simulator = Simulator::new(&plan.model, &folder, &file).unwrap();
                plan.check(&simulator, &file, &std::env::temp_dir()).unwrap();
                count += 1;
            }
        }
        assert!(count >= 1);
    }

    #[test]
    fn traces_are_beside_the_experiment() {
        let simulator = Simulator::new("queue", Path::new("experiments"), Path::new("x.toml")).unwrap();
        let files = |field: &str, value: &str| simulator.files(&Fields::from([(field.into(), value.into())]));
        assert_eq!(files("trace", "a.csv"), [Path::new("experiments/a.csv")]);
        assert_eq!(files("dist", "trace:../traces/a.csv"), [Path::new("experiments/../traces/a.csv")]);
        assert!(files("dist", "exponential:mean=5000").is_empty());
    }
}
