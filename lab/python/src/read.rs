//! Readers of files: request logs in any format, and the server's access log.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use record::{JobRecord, Outcome, Run};
use workload::{Log, ReadOptions, Request};

use crate::columns::{self, NONE, column};

/// The number of skipped lines, and the first of them as `FILE:LINE: reason: text`.
type Bad = (u64, Vec<String>);

/// Returns the columns of a request log by name, its format, and the lines that could not be read.
#[pyfunction]
pub fn trace(
    py: Python<'_>,
    path: PathBuf,
    format: Option<&str>,
    strict: bool,
    everything: bool,
    seed: u64,
) -> PyResult<(Py<PyDict>, String, Bad)> {
    let format = format.map(str::parse).transpose().map_err(|error| columns::wrong("format", error))?;
    let log = py.detach(|| read(&path, &ReadOptions { format, strict }))?;
    let kept = if everything { log.clone() } else { log.answered() };
    if kept.requests.is_empty() {
        let said = format!("none of its {} requests has a body and status 200 (or no status)", log.requests.len());
        return Err(columns::wrong(&path.display().to_string(), said));
    }
    let arrivals = kept.trace(seed).arrivals;
    let of = |number: fn(&Request) -> u64| kept.requests.iter().map(number).collect::<Vec<u64>>();
    let columns = PyDict::new(py);
    columns.set_item("arrival_ns", column(py, &arrivals.iter().map(|arrival| arrival.at.0).collect::<Vec<u64>>())?)?;
    columns.set_item("size_bytes", column(py, &of(|request| request.size_bytes))?)?;
    columns.set_item("status", column(py, &of(|request| request.status.map_or(NONE, u64::from)))?)?;
    columns.set_item("client", column(py, &of(|request| request.client.map_or(NONE, u64::from)))?)?;
    let bad = log.bad.first.iter().map(|bad| format!("{}:{}: {}: {}", path.display(), bad.line, bad.reason, bad.text));
    Ok((columns.unbind(), log.format.to_string(), (log.bad.count, bad.collect())))
}

fn read(path: &std::path::Path, options: &ReadOptions) -> PyResult<Log> {
    let name = path.display();
    let file = File::open(path).map_err(|error| PyOSError::new_err(format!("{name}: {error}")))?;
    workload::read(BufReader::new(file), options).map_err(|error| {
        let line = error.line().map_or(String::new(), |line| format!(":{line}"));
        PyValueError::new_err(format!("{name}{line}: {error}"))
    })
}

/// A column of records.
type Column = (&'static str, fn(&JobRecord) -> u64);

const COLUMNS: [Column; 13] = [
    ("job", |record| record.job),
    ("size_bytes", |record| record.size_bytes),
    ("head_bytes", |record| record.head_bytes),
    ("arrival_ns", |record| record.arrival_ns),
    ("start_ns", |record| record.start_ns.unwrap_or(NONE)),
    ("first_byte_ns", |record| record.first_byte_ns.unwrap_or(NONE)),
    ("end_ns", |record| record.end_ns),
    ("body_bytes", |record| record.body_bytes),
    ("status", |record| record.status.into()),
    ("outcome", |record| {
        Outcome::ALL.iter().position(|outcome| *outcome == record.outcome).map_or(NONE, |at| at as u64)
    }),
    ("group", |record| record.group.into()),
    ("client", |record| record.client.map_or(NONE, u64::from)),
    ("ahead_bytes", |record| record.ahead_bytes.unwrap_or(NONE)),
];

/// Returns the columns of the records in a JSON access log by name, the names of outcomes by number, and the names of
/// classes.
#[pyfunction]
pub fn access_log(py: Python<'_>, path: PathBuf) -> PyResult<(Py<PyDict>, Vec<&'static str>, Vec<String>)> {
    let run = py.detach(|| Run::read_access_log(&path)).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let columns = PyDict::new(py);
    for (name, number) in COLUMNS {
        columns.set_item(name, column(py, &run.records.iter().map(number).collect::<Vec<u64>>())?)?;
    }
    Ok((columns.unbind(), Outcome::ALL.map(Outcome::name).to_vec(), run.manifest.clients))
}
