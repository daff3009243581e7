//! Every attempt of users who give up and retry, in columns: `attempts.parquet` next to the records of the jobs.

use std::path::{Path, PathBuf};

use crate::run::{make, whole};
use crate::{FileError, Kind, Outcome, Table, TableWriter, Value};

/// An attempt to be served. All instants are nanoseconds since the run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptRecord {
    pub job: u64,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// When it began: the first when the job was submitted, a later one when the one before it was given up.
    pub start_ns: u64,
    pub first_byte_ns: Option<u64>,
    pub end_ns: u64,
    /// Bytes of body that arrived; those of an attempt that was given up were sent in vain.
    pub body_bytes: u64,
    /// `Aborted` if it was given up; the last one ended as the job did.
    pub outcome: Outcome,
}

const COLUMNS: [(&str, Kind); 7] = [
    ("job", Kind::Integer),
    ("attempt", Kind::Integer),
    ("start_ns", Kind::Integer),
    ("first_byte_ns", Kind::Integer),
    ("end_ns", Kind::Integer),
    ("body_bytes", Kind::Integer),
    ("outcome", Kind::Text),
];

impl AttemptRecord {
    /// Writes `attempts.parquet` into `folder` (made if missing).
    pub fn write_all(folder: &Path, attempts: &[AttemptRecord]) -> Result<(), FileError> {
        make(folder)?;
        whole(&path(folder), |part| {
            let mut writer = TableWriter::create(part, &COLUMNS.map(|(name, kind)| (name.to_string(), kind)))?;
            attempts.iter().try_for_each(|attempt| writer.write(attempt.row()))?;
            writer.finish()
        })
    }

    /// Reads what [`AttemptRecord::write_all`] wrote; `None` for a run whose users were patient.
    pub fn read_all(folder: &Path) -> Result<Option<Vec<AttemptRecord>>, FileError> {
        let path = path(folder);
        if !path.exists() {
            return Ok(None);
        }
        let table = Table::read(&path)?;
        if table.columns != COLUMNS.map(|(name, _)| name) {
            let reason = format!("its columns are not those of attempts: {}", table.columns.join(", "));
            return Err(FileError::new(&path, reason));
        }
        let wrong = |row: usize| FileError::new(&path, format!("row {row} holds what no attempt can"));
        let rows = table.rows.iter().enumerate();
        rows.map(|(number, row)| AttemptRecord::of_row(row).ok_or_else(|| wrong(number)))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    fn row(&self) -> Vec<Value> {
        vec![
            Value::Integer(self.job),
            Value::Integer(self.attempt.into()),
            Value::Integer(self.start_ns),
            self.first_byte_ns.map_or(Value::Missing, Value::Integer),
            Value::Integer(self.end_ns),
            Value::Integer(self.body_bytes),
            Value::Text(self.outcome.name().into()),
        ]
    }

    fn of_row(row: &[Value]) -> Option<AttemptRecord> {
        let integer = |column: usize| match row[column] {
            Value::Integer(integer) => Some(integer),
            _ => None,
        };
        let Value::Text(name) = &row[6] else { return None };
        Some(AttemptRecord {
            job: integer(0)?,
            attempt: integer(1)?.try_into().ok()?,
            start_ns: integer(2)?,
            first_byte_ns: integer(3),
            end_ns: integer(4)?,
            body_bytes: integer(5)?,
            outcome: Outcome::ALL.into_iter().find(|outcome| outcome.name() == name)?,
        })
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join("attempts.parquet")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_it_wrote() {
        let folder = std::env::temp_dir().join(format!("weir-attempts-{}", std::process::id()));
        assert_eq!(AttemptRecord::read_all(&folder).unwrap(), None);
        let of = |(attempt, outcome): (usize, Outcome)| AttemptRecord {
            job: 7,
            attempt: 1 + attempt as u32,
            start_ns: 10,
            first_byte_ns: (attempt % 2 == 0).then_some(11),
            end_ns: 12,
            body_bytes: 13,
            outcome,
        };
        let attempts: Vec<AttemptRecord> = Outcome::ALL.into_iter().enumerate().map(of).collect();
        AttemptRecord::write_all(&folder, &attempts).unwrap();
        assert_eq!(AttemptRecord::read_all(&folder).unwrap(), Some(attempts));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
