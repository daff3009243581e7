//! The records of a run as a file of columns.

use std::path::Path;

use crate::table::{Kind, Table, Value};
use crate::{FileError, JobRecord, Outcome};

/// The file that a run is written to.
pub(crate) const FILE: &str = "records.parquet";

/// The columns, in order.
const NAMES: [&str; 14] = [
    "job",
    "size_bytes",
    "head_bytes",
    "arrival_ns",
    "start_ns",
    "first_byte_ns",
    "end_ns",
    "body_bytes",
    "status",
    "outcome",
    "attempts",
    "group",
    "client",
    "ahead_bytes",
];

fn kind(name: &str) -> Kind {
    if name == "outcome" { Kind::Text } else { Kind::Integer }
}

/// Writes records, in arrival order.
pub(crate) fn write(path: &Path, records: &[JobRecord]) -> Result<(), FileError> {
    Table::write(path, &NAMES.map(|name| (name.to_string(), kind(name))), records.iter().map(row))
}

fn row(record: &JobRecord) -> Vec<Value> {
    let JobRecord { job, size_bytes, head_bytes, arrival_ns, start_ns, first_byte_ns, end_ns, .. } = *record;
    let or_missing = |value: Option<u64>| value.map_or(Value::Missing, Value::Integer);
    let sizes = [job, size_bytes, head_bytes, arrival_ns].map(Value::Integer);
    let instants = [start_ns, first_byte_ns].map(or_missing);
    let after = [end_ns, record.body_bytes, record.status.into()].map(Value::Integer);
    let outcome = Value::Text(record.outcome.name().into());
    let last = [record.attempts, record.group].map(|value| Value::Integer(value.into()));
    let of_client = [record.client.map(u64::from), record.ahead_bytes].map(or_missing);
    sizes.into_iter().chain(instants).chain(after).chain([outcome]).chain(last).chain(of_client).collect()
}

/// Reads records, in arrival order.
pub(crate) fn read(path: &Path) -> Result<Vec<JobRecord>, FileError> {
    let table = Table::read(path)?;
    if table.columns != NAMES {
        return Err(FileError::new(
            path,
            format!("its columns are not those of records: {}", table.columns.join(", ")),
        ));
    }
    let rows = table.rows.iter().enumerate();
    let wrong = |row| FileError::new(path, format!("row {row} holds what no record can: {:?}", table.rows[row]));
    let mut records: Vec<JobRecord> =
        rows.map(|(number, row)| record(row).ok_or_else(|| wrong(number))).collect::<Result<_, _>>()?;
    records.sort_by_key(|record| record.job);
    Ok(records)
}

fn record(row: &[Value]) -> Option<JobRecord> {
    let integer = |column: usize| match row.get(column) {
        Some(Value::Integer(integer)) => Some(*integer),
        _ => None,
    };
    let small = |column| integer(column).and_then(|integer| u32::try_from(integer).ok());
    let Value::Text(name) = &row[9] else { return None };
    Some(JobRecord {
        job: integer(0)?,
        size_bytes: integer(1)?,
        head_bytes: integer(2)?,
        arrival_ns: integer(3)?,
        start_ns: integer(4),
        first_byte_ns: integer(5),
        end_ns: integer(6)?,
        body_bytes: integer(7)?,
        status: integer(8)?.try_into().ok()?,
        outcome: Outcome::ALL.into_iter().find(|outcome| outcome.name() == name)?,
        attempts: small(10)?,
        group: small(11)?,
        client: integer(12).map(u32::try_from).transpose().ok()?,
        ahead_bytes: integer(13),
    })
}
