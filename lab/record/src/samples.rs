//! Measurements of a run from outside, at instants: `samples.parquet` next to the records.

use std::path::Path;

use crate::FileError;
use crate::table::{Kind, Table, Value};

const SAMPLES: &str = "samples.parquet";
/// The column with the time of a row, in nanoseconds since the run began.
const AT: &str = "at_ns";

/// A table of one row per instant and one column of integers per counter, named with its unit; a counter that grows
/// from the beginning ends in `_total`. A counter without a value at an instant is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Samples {
    /// Names of the counters.
    pub columns: Vec<String>,
    pub rows: Vec<Sample>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Nanoseconds since the run began.
    pub at_ns: u64,
    /// Values, in the order of the columns.
    pub values: Vec<Option<u64>>,
}

impl Samples {
    /// Reads the samples of the run in this folder; `None` if it has none.
    pub fn read(folder: &Path) -> Result<Option<Samples>, FileError> {
        let path = folder.join(SAMPLES);
        if !path.exists() {
            return Ok(None);
        }
        let mut table = Table::read(&path)?;
        if table.columns.first().is_none_or(|first| first != AT) {
            return Err(FileError::new(&path, format!("its first column is not `{AT}`")));
        }
        let columns = table.columns.split_off(1);
        let rows = table.rows.into_iter().enumerate();
        let wrong = |row| FileError::new(&path, format!("row {row} holds what is no whole number from 0"));
        let rows = rows.map(|(number, row)| sample(&row).ok_or_else(|| wrong(number))).collect::<Result<_, _>>()?;
        Ok(Some(Samples { columns, rows }))
    }

    /// Writes the samples to the folder of their run. The caller must give every row a value for every column.
    pub fn write(&self, folder: &Path) -> Result<(), FileError> {
        let names = std::iter::once(AT).chain(self.columns.iter().map(String::as_str));
        let columns: Vec<_> = names.map(|name| (name.to_owned(), Kind::Integer)).collect();
        let row = |row: &Sample| {
            let values = row.values.iter().map(|value| value.map_or(Value::Missing, Value::Integer));
            std::iter::once(Value::Integer(row.at_ns)).chain(values).collect()
        };
        Table::write(&folder.join(SAMPLES), &columns, self.rows.iter().map(row))
    }

    /// The instants and values of a counter, at which it had one; empty for an unknown counter.
    pub fn series(&self, column: &str) -> Vec<(u64, u64)> {
        let Some(at) = self.columns.iter().position(|name| name == column) else { return vec![] };
        self.rows.iter().filter_map(|row| Some((row.at_ns, row.values[at]?))).collect()
    }
}

fn sample(row: &[Value]) -> Option<Sample> {
    let value = |value: &Value| match value {
        Value::Missing => Some(None),
        Value::Integer(integer) => Some(Some(*integer)),
        Value::Text(_) => None,
    };
    let (at, values) = row.split_first()?;
    Some(Sample { at_ns: value(at)??, values: values.iter().map(value).collect::<Option<_>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("weir-samples-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn reads_back_what_it_wrote() {
        let folder = folder("back");
        assert_eq!(Samples::read(&folder).unwrap(), None);
        let samples = Samples {
            columns: vec!["syn_queue".into(), "drops_total".into()],
            rows: vec![
                Sample { at_ns: 0, values: vec![Some(3), Some(0)] },
                Sample { at_ns: 100_000_000, values: vec![None, Some(7)] },
            ],
        };
        samples.write(&folder).unwrap();
        assert_eq!(Samples::read(&folder).unwrap().as_ref(), Some(&samples));
        assert_eq!(samples.series("drops_total"), [(0, 0), (100_000_000, 7)]);
        assert_eq!(samples.series("syn_queue"), [(0, 3)]);
        assert!(samples.series("no_such").is_empty());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn another_table_is_refused() {
        let folder = folder("other");
        let columns = [("x".to_owned(), Kind::Integer)];
        Table::write(&folder.join(SAMPLES), &columns, [vec![Value::Integer(1)]].into_iter()).unwrap();
        assert!(Samples::read(&folder).unwrap_err().to_string().ends_with("its first column is not `at_ns`"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
