use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What one run came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Figures by name; the name ends in the unit.
    pub metrics: BTreeMap<String, f64>,
    /// Sizes in bins that are the same in every run, ascending.
    pub by_size: Vec<SizeBin>,
}

/// Jobs of like size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SizeBin {
    /// The smallest size that belongs here.
    pub from_bytes: u64,
    pub jobs: u64,
    pub size_bytes_mean: f64,
    pub response_time_ms_mean: f64,
    /// Square milliseconds.
    pub response_time_variance_ms2: f64,
    pub slowdown_mean: f64,
}

impl Measured {
    /// Takes apart what a model's outcome is as JSON.
    ///
    /// A number becomes a metric under the names of the objects that hold it, joined by `_`: `response_time_ms_mean`. The
    /// elements of `by_class` go by their class: `class2_slowdown_mean`. `by_size` is kept as it is; a field
    /// called `summary` adds nothing to the names in it. What is null was not measured; other lists and texts are left out.
    pub fn from_json(outcome: &Value) -> Result<Measured, serde_json::Error> {
        let mut measured = Measured::default();
        measured.take("", outcome)?;
        Ok(measured)
    }

    /// The metric of this name, or else of this name with `_mean` behind it.
    pub fn metric_name(&self, name: &str) -> Result<String, String> {
        let names = [name.to_string(), format!("{name}_mean")];
        names.into_iter().find(|name| self.metrics.contains_key(name)).ok_or_else(|| {
            let known: Vec<&str> = self.metrics.keys().map(String::as_str).collect();
            format!("plot.y: it has no `{name}`, only {}", known.join(", "))
        })
    }

    fn take(&mut self, prefix: &str, value: &Value) -> Result<(), serde_json::Error> {
        let Value::Object(fields) = value else { return Ok(()) };
        for (name, value) in fields {
            match (name.as_str(), value) {
                ("by_size", Value::Array(_)) => self.by_size = Vec::deserialize(value)?,
                ("by_class", Value::Array(classes)) => {
                    for class in classes {
                        self.take(&format!("{prefix}class{}_", class["class"]), class)?;
                    }
                }
                ("class", _) => {}
                ("summary", _) => self.take(prefix, value)?,
                (_, Value::Object(_)) => self.take(&format!("{prefix}{name}_"), value)?,
                (_, Value::Number(number)) => {
                    self.metrics.extend(number.as_f64().map(|number| (format!("{prefix}{name}"), number)));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_go_by_where_they_stand() {
        let bin = json!({ "from_bytes": 100, "jobs": 3, "size_bytes_mean": 110.0, "response_time_ms_mean": 2.0,
            "response_time_variance_ms2": 1.0, "slowdown_mean": 4.0, "slowdown_variance": 0.5 });
        let measured = Measured::from_json(&json!({
            "summary": {
                "jobs": 3,
                "response_time_ms": { "mean": 2.5, "ci99": [1.0, 4.0], "p50": null },
                "by_size": [bin],
                "by_class": [{ "class": 2, "slowdown_mean": 7.0 }],
                "ccdf": [{ "response_time_ms": 1.0, "share_above": 0.5 }],
            },
            "utilisation": 0.8,
            "policy": "srpt",
        }))
        .unwrap();
        let metrics: Vec<(&str, f64)> = measured.metrics.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let expected =
            [("class2_slowdown_mean", 7.0), ("jobs", 3.0), ("response_time_ms_mean", 2.5), ("utilisation", 0.8)];
        assert_eq!(metrics, expected);
        assert_eq!((measured.by_size[0].jobs, measured.by_size[0].slowdown_mean), (3, 4.0));
    }

    #[test]
    fn a_bin_without_its_fields_is_an_error() {
        assert!(Measured::from_json(&json!({ "by_size": [{ "jobs": 1 }] })).is_err());
    }
}
