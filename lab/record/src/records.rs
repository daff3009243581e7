//! The records of a run as a file: in columns if the build supports it, else as text. The file extension shows which.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use crate::{FileError, JobRecord};

const AS_TEXT: &str = "records.csv";
const IN_COLUMNS: &str = "records.parquet";

/// The file that a run is written to.
pub(crate) const USUAL: &str = if cfg!(feature = "parquet") { IN_COLUMNS } else { AS_TEXT };

/// The records in a run's folder; the path of the text file if there are none.
pub(crate) fn find(folder: &Path) -> PathBuf {
    let in_columns = folder.join(IN_COLUMNS);
    if in_columns.exists() { in_columns } else { folder.join(AS_TEXT) }
}

fn is_in_columns(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "parquet")
}

/// Reads records, in arrival order.
pub(crate) fn read(path: &Path) -> Result<Vec<JobRecord>, FileError> {
    let mut records = if is_in_columns(path) { columns::read(path)? } else { read_text(path)? };
    records.sort_by_key(|record| record.job);
    Ok(records)
}

fn read_text(path: &Path) -> Result<Vec<JobRecord>, FileError> {
    let mut reader = csv::Reader::from_path(path).map_err(|e| FileError::new(path, e))?;
    reader.deserialize().collect::<Result<_, _>>().map_err(|e| FileError::new(path, e))
}

/// Writes records one by one, so that memory does not grow with their number.
pub struct RecordWriter {
    path: PathBuf,
    format: Format,
}

enum Format {
    Text(Box<csv::Writer<BufWriter<File>>>),
    Columns(Box<columns::Writer>),
}

impl RecordWriter {
    /// Creates a file: in columns if the path ends in `.parquet`, otherwise as CSV.
    pub fn create(path: &Path) -> Result<RecordWriter, FileError> {
        let text = || File::create(path).map_err(|error| FileError::new(path, error));
        let format = match is_in_columns(path) {
            true => Format::Columns(Box::new(columns::Writer::create(path)?)),
            false => Format::Text(Box::new(csv::Writer::from_writer(BufWriter::new(text()?)))),
        };
        Ok(RecordWriter { path: path.into(), format })
    }

    pub fn write(&mut self, record: &JobRecord) -> Result<(), FileError> {
        match &mut self.format {
            Format::Text(csv) => csv.serialize(record).map_err(|error| FileError::new(&self.path, error)),
            Format::Columns(columns) => columns.write(record),
        }
    }

    /// Flushes; reports an error that buffering had hidden.
    pub fn finish(self) -> Result<(), FileError> {
        match self.format {
            Format::Text(mut csv) => csv.flush().map_err(|error| FileError::new(&self.path, error)),
            Format::Columns(columns) => columns.finish(),
        }
    }
}

#[cfg(feature = "parquet")]
mod columns {
    use std::path::Path;

    use crate::{FileError, JobRecord, Kind, Outcome, Table, TableWriter, Value};

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

    /// The numbers of columns of runs that were written before users could give up, and before clients were
    /// distinguished.
    const COLUMNS_BEFORE: [usize; 2] = [10, 12];

    fn kind(name: &str) -> Kind {
        if name == "outcome" { Kind::Text } else { Kind::Integer }
    }

    pub struct Writer(TableWriter);

    impl Writer {
        pub fn create(path: &Path) -> Result<Writer, FileError> {
            TableWriter::create(path, &NAMES.map(|name| (name.to_string(), kind(name)))).map(Writer)
        }

        pub fn write(&mut self, record: &JobRecord) -> Result<(), FileError> {
            let JobRecord { job, size_bytes, head_bytes, arrival_ns, start_ns, first_byte_ns, end_ns, .. } = *record;
            let or_missing = |value: Option<u64>| value.map_or(Value::Missing, Value::Integer);
            let sizes = [job, size_bytes, head_bytes, arrival_ns].map(Value::Integer);
            let instants = [start_ns, first_byte_ns].map(or_missing);
            let after = [end_ns, record.body_bytes, record.status.into()].map(Value::Integer);
            let outcome = Value::Text(record.outcome.name().into());
            let last = [record.attempts, record.group].map(|value| Value::Integer(value.into()));
            let before = sizes.into_iter().chain(instants);
            let of_client = [record.client.map(u64::from), record.ahead_bytes].map(or_missing);
            self.0.write(before.chain(after).chain([outcome]).chain(last).chain(of_client).collect())
        }

        pub fn finish(self) -> Result<(), FileError> {
            self.0.finish()
        }
    }

    pub fn read(path: &Path) -> Result<Vec<JobRecord>, FileError> {
        let table = Table::read(path)?;
        let is_known = |count: usize| table.columns == NAMES[..count];
        if !COLUMNS_BEFORE.into_iter().chain([NAMES.len()]).any(is_known) {
            return Err(FileError::new(
                path,
                format!("its columns are not those of records: {}", table.columns.join(", ")),
            ));
        }
        let rows = table.rows.iter().enumerate();
        let wrong = |row| FileError::new(path, format!("row {row} holds what no record can: {:?}", table.rows[row]));
        rows.map(|(number, row)| record(row).ok_or_else(|| wrong(number))).collect()
    }

    fn record(row: &[Value]) -> Option<JobRecord> {
        let integer = |column: usize| match row.get(column) {
            Some(Value::Integer(integer)) => Some(*integer),
            _ => None,
        };
        let small = |column: usize, before| match row.get(column) {
            Some(Value::Integer(integer)) => u32::try_from(*integer).ok(),
            Some(_) => None,
            None => Some(before),
        };
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
            attempts: small(10, 1)?,
            group: small(11, 0)?,
            client: integer(12).map(u32::try_from).transpose().ok()?,
            ahead_bytes: integer(13),
        })
    }
}

/// A build without Parquet reports that when it meets such a file.
#[cfg(not(feature = "parquet"))]
mod columns {
    use std::path::Path;

    use crate::{FileError, JobRecord};

    pub enum Writer {}

    impl Writer {
        pub fn create(path: &Path) -> Result<Writer, FileError> {
            Err(FileError::new(path, NOT_BUILT))
        }

        pub fn write(&mut self, _: &JobRecord) -> Result<(), FileError> {
            match *self {}
        }

        pub fn finish(self) -> Result<(), FileError> {
            match self {}
        }
    }

    pub fn read(path: &Path) -> Result<Vec<JobRecord>, FileError> {
        Err(FileError::new(path, NOT_BUILT))
    }

    const NOT_BUILT: &str = "this program was built without Parquet; weirlab has it";
}
