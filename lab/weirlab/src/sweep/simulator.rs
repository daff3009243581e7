//! One run of a sweep is one `weirlab sim`: the fields of the grid are the fields of its spec.

use std::path::{Path, PathBuf};

use ::sweep::{Fields, Measured, SweepError, Theory};
use cli::Failure;
use serde_json::{Map, Value};

use super::closed_form;
use crate::sim::{self, SimOutcome, SimSpec};

/// A digest of the sources that decide what a simulation of a spec comes to, see `build.rs`: what an older program kept is
/// not used when any of them has changed, even if the change makes no difference.
const VERSION: &str = env!("WEIR_MODEL_DIGEST");

/// Jobs of a trial: enough for every figure that is one of all jobs.
const TRIAL_JOBS: u64 = 100;

/// Pages of a trial.
const TRIAL_PAGES: u32 = 10;

/// Seconds of a trial where the spec says seconds: a link of 10 Gbit/s full of small jobs is done with them at once.
const TRIAL_SECONDS: f64 = 1.0;

/// Whether a spec can be run does not depend on it.
const ANY_SEED: u64 = 1;

/// Texts that begin so name a file, as in `dist = "trace:FILE"`.
const TRACE_PREFIX: &str = "trace:";

/// A model of the crate `sim`, with the folder that traces are relative to.
pub struct Simulator {
    model: Value,
    folder: PathBuf,
    /// Read wherever the experiment names a trace.
    trace: Option<PathBuf>,
}

impl Simulator {
    /// `folder` is that of the experiment `file`, which stands in messages.
    pub fn new(model: &str, folder: &Path, file: &Path) -> Result<Simulator, SweepError> {
        let simulator = Simulator { model: model.into(), folder: folder.into(), trace: None };
        let known = serde_json::from_value::<sim::Model>(simulator.model.clone());
        known.map_err(|e| SweepError::Plan { file: file.into(), line: None, reason: format!("model: {e}") })?;
        Ok(simulator)
    }

    /// The same with another trace than the experiment names.
    pub fn with_trace(self, trace: Option<PathBuf>) -> Simulator {
        Simulator { trace, ..self }
    }

    /// Where a trace that the experiment names is read.
    fn path(&self, file: &str) -> PathBuf {
        self.trace.clone().unwrap_or_else(|| self.folder.join(file))
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
            map.insert(field.into(), format!("{prefix}{}", self.path(file).display()).into());
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
    let classes = text("class_table").map(|file| ("class_table", "", file));
    trace.into_iter().chain(dist).chain(classes).collect()
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
    fn version(&self) -> String {
        VERSION.into()
    }

    fn check(&self, fields: &Fields) -> Result<(), String> {
        for (field, _, file) in traces(fields) {
            let path = self.path(file);
            if !path.exists() {
                return Err(format!("{field}: {} is not there: name the file with --trace FILE", path.display()));
            }
        }
        let said = sim::check(&self.spec(fields, ANY_SEED)?).map_err(reason);
        // What is wrong with a file begins with its path: the field that names it comes first.
        said.map_err(|said| {
            let is_of = |file: &str| said.starts_with(&self.path(file).display().to_string());
            match traces(fields).into_iter().find(|(.., file)| is_of(file)) {
                Some((field, ..)) => format!("{field}: {said}"),
                None => said,
            }
        })
    }

    fn files(&self, fields: &Fields) -> Vec<PathBuf> {
        traces(fields).into_iter().map(|(.., file)| self.path(file)).collect()
    }

    fn trial(&self, fields: &Fields) -> Result<Measured, String> {
        let mut spec = self.spec(fields, ANY_SEED)?;
        spec.warm_up = Some(0);
        if spec.model == sim::Model::Server {
            // Of many users some ask for what takes until thousands of others have been answered.
            spec.users = Some(1);
        }
        match &mut spec.seconds {
            _ if spec.pages.pages.is_some() => (spec.pages.pages, spec.warm_up) = (Some(TRIAL_PAGES), None),
            Some(seconds) => *seconds = seconds.min(TRIAL_SECONDS),
            None => spec.jobs = Some(spec.jobs.map_or(TRIAL_JOBS, |jobs| jobs.min(TRIAL_JOBS))),
        }
        // So short a run may have no job.
        let mut measured = measured(sim::try_out(&spec, ::sim::Hooks::none()))?;
        // Whether anybody is in a class the trial may be too short to say.
        let of_class = serde_json::to_value(::sim::GroupSummary::default()).unwrap_or_default();
        for class in 0..::sim::CLASSES_MAX {
            let names = of_class.as_object().into_iter().flat_map(Map::keys);
            measured.metrics.extend(names.map(|name| (format!("class{class}_{name}"), 0.0)));
        }
        Ok(measured)
    }

    fn theory(&self, fields: &Fields) -> Option<Theory> {
        closed_form::of(&self.spec(fields, ANY_SEED).ok()?)
    }

    fn run(&self, fields: &Fields, seed: u64) -> Result<Measured, String> {
        measured(sim::run(&self.spec(fields, seed)?, ::sim::Hooks::none()))
    }
}

fn measured(outcome: Result<SimOutcome, Failure>) -> Result<Measured, String> {
    let outcome = outcome.map_err(reason)?;
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

/// Flags go by the names of fields, so a mistake in a file is not one in `--rho` but in `rho`.
fn reason(failure: Failure) -> String {
    failure.into_text().trim_start_matches("--").into()
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
        assert!(!measured.by_size.is_empty());
    }

    /// A second of a load that has a job in a minute: nothing is in the trial, and the names of the metrics are.
    #[test]
    fn a_trial_may_be_without_jobs_and_a_run_not() {
        let simulator = Simulator::new("queue", Path::new(""), Path::new("x.toml")).unwrap();
        let fields = [("policy", json!("srpt")), ("rho", json!(0.0001)), ("seconds", json!(0.5))];
        let mut fields: Fields = fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        fields.insert("dist".into(), "exponential:mean=5000".into());
        assert!(simulator.trial(&fields).unwrap().metrics.contains_key("response_time_ms_mean"));
        assert!(simulator.run(&fields, 1).unwrap_err().starts_with("no job was counted"));
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
        let folders = std::fs::read_dir(&folder).unwrap().flatten();
        let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap().flatten());
        for file in files.map(|entry| entry.path()) {
            if std::fs::read_to_string(&file).unwrap().contains("[grid]") {
                let plan = ::sweep::Plan::read(&file).unwrap();
                let simulator = Simulator::new(&plan.model, file.parent().unwrap(), &file).unwrap();
                // Real logs are not shipped, and this one does for all.
                let trace = folder.join("../traces/synthetic.csv.gz");
                let simulator = simulator.with_trace(names_a_log(&plan).then_some(trace));
                plan.check(&simulator, &file, &std::env::temp_dir()).unwrap();
                count += 1;
            }
        }
        assert!(count >= 1);
    }

    fn names_a_log(plan: &::sweep::Plan) -> bool {
        let mut traces = plan.cells.iter().flat_map(|cell| traces(&cell.fields));
        traces.any(|(.., file)| file.contains("nasa"))
    }

    /// All that a run measures its trial does, and nothing is missing but classes that nobody was in.
    #[test]
    fn a_trial_has_every_metric() {
        let cases = [
            (
                "queue",
                json!({ "policy": "srpt", "rho": 0.8, "dist": "exponential:mean=5000", "jobs": 3000,
                "classes": [0.5, 0.5] }),
            ),
            ("queue", json!({ "policy": "srpt-bands:5", "rho": 1.2, "dist": "exponential:mean=5000", "seconds": 5 })),
            ("server", json!({ "policy": "fcf", "users": 50, "jobs": 2000 })),
            ("packet", json!({ "policy": "srpt", "rho": 0.8, "dist": "surge", "seconds": 5, "shaping": "paced" })),
        ];
        for (model, fields) in cases {
            let simulator = Simulator::new(model, Path::new(""), Path::new("x.toml")).unwrap();
            let Value::Object(fields) = fields else { unreachable!() };
            let fields: Fields = fields.into_iter().collect();
            let (run, trial) = (simulator.run(&fields, 1).unwrap(), simulator.trial(&fields).unwrap());
            let missing: Vec<_> = run.metrics.keys().filter(|name| !trial.metrics.contains_key(*name)).collect();
            let more: Vec<_> = trial.metrics.keys().filter(|name| !run.metrics.contains_key(*name)).collect();
            assert!(missing.is_empty(), "{model}: {missing:?}");
            assert!(more.iter().all(|name| name.starts_with("class")), "{model}: {more:?}");
        }
    }

    #[test]
    fn a_trace_that_is_not_there_can_be_named() {
        let simulator = || Simulator::new("packet", Path::new("experiments"), Path::new("x.toml")).unwrap();
        let fields = [("policy", json!("fair")), ("rho", json!(0.5)), ("seconds", json!(1))];
        let mut fields: Fields = fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        fields.insert("dist".into(), "trace:nasa.log.gz".into());
        let said = simulator().check(&fields).unwrap_err();
        assert_eq!(said, "dist: experiments/nasa.log.gz is not there: name the file with --trace FILE");
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/synthetic.csv.gz");
        let simulator = simulator().with_trace(Some(shipped.clone()));
        simulator.check(&fields).unwrap();
        assert_eq!(simulator.files(&fields), [shipped]);
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
