//! Weir's view of its line, queried once a second during a run (`weir status --watch`): `pace.csv` in the run's folder.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::Program;
use crate::{LabError, Place, RunSpec, Server};

const LOG: &str = "uplink-watch.log";
const FILE: &str = "pace.csv";
/// The keys of each answer that are kept.
const KEYS: [&str; 4] = ["rate_bits_per_s", "pace_bits_per_s", "limit", "age_s"];

/// Starts to query the server of a run, if it is Weir and paces; dropping it ends that. With a `weir` that cannot be
/// queried, it ends by itself.
pub(crate) fn start(
    place: Place<'_>,
    spec: &RunSpec,
    weir: Option<&Path>,
    server: u32,
    folder: &Path,
) -> Result<Option<Program>, LabError> {
    let Some(weir) = weir.filter(|_| spec.server == Server::Weir && spec.shaping == "paced") else { return Ok(None) };
    let words =
        [&weir.display().to_string(), "status", "--watch", "--pid", &server.to_string(), "--json"].map(String::from);
    Program::start(place, "weir status --watch", &words, &folder.join(LOG)).map(Some)
}

/// Writes the answers as a table, with a row for each second since the load began, and removes the raw answers.
pub(crate) fn write(folder: &Path) -> Result<(), LabError> {
    let log = folder.join(LOG);
    let Ok(text) = fs::read_to_string(&log) else { return Ok(()) };
    fs::remove_file(&log).map_err(|e| LabError::path(&log, e))?;
    let Some(table) = table(&text) else { return Ok(()) };
    let file = folder.join(FILE);
    fs::write(&file, table).map_err(|e| LabError::path(&file, e))
}

/// `None` if there is no answer, as from an older `weir`.
fn table(answers: &str) -> Option<String> {
    let mut table = String::from("second,rate_bps,pace_bps,limit,age_s\n");
    let answers: Vec<Value> = answers.lines().map_while(|line| serde_json::from_str(line).ok()).collect();
    for (second, answer) in answers.iter().enumerate() {
        let cells = KEYS.map(|key| match &answer[key] {
            Value::Null => String::new(),
            Value::String(word) => word.clone(),
            other => other.to_string(),
        });
        let _ = writeln!(table, "{second},{}", cells.join(","));
    }
    (!answers.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_row() {
        let answers = "{\"rate_bits_per_s\":null,\"pace_bits_per_s\":null,\"limit\":null,\"age_s\":null,\"x\":1}\n\
            {\"rate_bits_per_s\":9420000,\"pace_bits_per_s\":9200000,\"limit\":\"line\",\"age_s\":0.5}\nnull\n{\"cut";
        let want = "second,rate_bps,pace_bps,limit,age_s\n0,,,,\n1,9420000,9200000,line,0.5\n2,,,,\n";
        assert_eq!(table(answers).as_deref(), Some(want));
        assert_eq!(table("weir: unknown flag --watch\n"), None);
    }

    #[test]
    fn only_weir_that_paces_is_asked() {
        let spec = |keys: &str| crate::testing::one("", keys).1;
        for keys in ["server = \"nginx\"", "server = \"weir\""] {
            let started = start(Place::Here, &spec(keys), Some(Path::new("weir")), 1, Path::new("/nonexistent"));
            assert!(started.unwrap().is_none(), "{keys}");
        }
    }
}
