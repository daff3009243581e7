//! Tables in columns (Apache Parquet): analysis programs read them without configuration, and they take a tenth of the
//! CSV.

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::Field;
use parquet::schema::types::{Type, TypePtr};

use crate::FileError;

/// The number of rows in memory at once while writing.
const GROUP_ROWS: usize = 64 * 1024;

/// The creator written into every file, always the same so that equal tables are equal files.
const CREATED_BY: &str = "weirlab";

/// The kind of a column's values; a value may be missing in any row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An integer up to 2^63 - 1.
    Integer,
    Text,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Missing,
    Integer(u64),
    Text(String),
}

/// A whole table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    /// Writes these rows; a file cut short is no table. Panics if a value is not of its column's kind, which is a bug of
    /// the caller.
    pub fn write(
        path: &Path,
        columns: &[(String, Kind)],
        mut rows: impl Iterator<Item = Vec<Value>>,
    ) -> Result<(), FileError> {
        let mut write = || -> Result<(), Box<dyn Error + Send + Sync>> {
            let properties = WriterProperties::builder()
                .set_created_by(CREATED_BY.into())
                .set_compression(Compression::SNAPPY)
                .set_max_row_group_row_count(Some(GROUP_ROWS))
                .build();
            let mut file = SerializedFileWriter::new(File::create(path)?, schema(columns)?, Arc::new(properties))?;
            loop {
                let rows: Vec<Vec<Value>> = rows.by_ref().take(GROUP_ROWS).collect();
                let mut group = file.next_row_group()?;
                for index in 0..columns.len() {
                    let mut column = group.next_column()?.expect("the schema has every column");
                    write_column(column.untyped(), rows.iter().map(|row| &row[index]))?;
                    column.close()?;
                }
                group.close()?;
                if rows.len() < GROUP_ROWS {
                    file.close()?;
                    return Ok(());
                }
            }
        };
        write().map_err(|error| FileError::new(path, error))
    }

    /// Reads any flat table of integers and texts.
    pub fn read(path: &Path) -> Result<Table, FileError> {
        let file = File::open(path).map_err(|e| FileError::new(path, e))?;
        let reader = SerializedFileReader::new(file).map_err(|e| FileError::new(path, e))?;
        let schema = reader.metadata().file_metadata().schema().clone();
        let columns = schema.get_fields().iter().map(|field| field.name().to_string()).collect();
        let mut rows = Vec::new();
        for row in reader.get_row_iter(None).map_err(|e| FileError::new(path, e))? {
            let row = row.map_err(|e| FileError::new(path, e))?;
            let row = row.get_column_iter().map(|(name, field)| value(field).ok_or_else(|| kind_unknown(name)));
            rows.push(row.collect::<Result<_, _>>().map_err(|e| FileError::new(path, e))?);
        }
        Ok(Table { columns, rows })
    }
}

fn schema(columns: &[(String, Kind)]) -> Result<TypePtr, ParquetError> {
    let column = |(name, kind): &(String, Kind)| {
        let (physical, converted) = match kind {
            Kind::Integer => (Physical::INT64, ConvertedType::NONE),
            Kind::Text => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
        };
        let builder = Type::primitive_type_builder(name, physical).with_converted_type(converted);
        builder.with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
    };
    let fields = columns.iter().map(column).collect::<Result<_, _>>()?;
    Type::group_type_builder("table").with_fields(fields).build().map(Arc::new)
}

fn write_column<'a>(
    column: &mut ColumnWriter<'_>,
    values: impl Iterator<Item = &'a Value>,
) -> Result<(), ParquetError> {
    let values: Vec<&Value> = values.collect();
    // Level 1: present; level 0: missing.
    let levels: Vec<i16> = values.iter().map(|value| i16::from(**value != Value::Missing)).collect();
    let there = values.into_iter().filter(|value| **value != Value::Missing);
    match column {
        ColumnWriter::Int64ColumnWriter(column) => {
            let integers: Vec<i64> = there.map(integer).collect::<Result<_, _>>()?;
            column.write_batch(&integers, Some(&levels), None)?;
        }
        ColumnWriter::ByteArrayColumnWriter(column) => {
            let texts: Vec<ByteArray> = there.map(|value| ByteArray::from(text(value).as_bytes().to_vec())).collect();
            column.write_batch(&texts, Some(&levels), None)?;
        }
        _ => unreachable!("the schema has these two kinds only"),
    }
    Ok(())
}

fn integer(value: &Value) -> Result<i64, ParquetError> {
    let Value::Integer(integer) = value else { panic!("{value:?} in a column of integers") };
    i64::try_from(*integer).map_err(|_| ParquetError::General(format!("{integer} is above 2^63 - 1")))
}

fn text(value: &Value) -> &str {
    let Value::Text(text) = value else { panic!("{value:?} in a column of texts") };
    text
}

fn value(field: &Field) -> Option<Value> {
    match field {
        Field::Null => Some(Value::Missing),
        Field::Long(integer) => u64::try_from(*integer).ok().map(Value::Integer),
        Field::Int(integer) => u64::try_from(*integer).ok().map(Value::Integer),
        Field::Str(text) => Some(Value::Text(text.clone())),
        _ => None,
    }
}

fn kind_unknown(column: &str) -> String {
    format!("column `{column}` holds what is no whole number from 0 and no text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn file(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("weir-columns-{}-{name}.parquet", std::process::id()))
    }

    fn write(path: &Path, rows: usize) -> Vec<Vec<Value>> {
        let columns = [("n", Kind::Integer), ("t", Kind::Text)].map(|(n, k)| (n.to_string(), k));
        let rows: Vec<Vec<Value>> = (0..rows)
            .map(|n| match n % 3 {
                0 => vec![Value::Integer(n as u64), Value::Text(format!("µ {n}"))],
                1 => vec![Value::Missing, Value::Missing],
                _ => vec![Value::Integer(i64::MAX as u64), Value::Text(String::new())],
            })
            .collect();
        Table::write(path, &columns, rows.iter().cloned()).unwrap();
        rows
    }

    #[test]
    fn reads_back_what_it_wrote() {
        for rows in [0, 1, 100, GROUP_ROWS, GROUP_ROWS + 7] {
            let path = file(&format!("back-{rows}"));
            let written = write(&path, rows);
            let table = Table::read(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            assert_eq!(table.columns, ["n", "t"]);
            assert!(table.rows == written, "{rows} rows");
        }
    }

    #[test]
    fn equal_tables_are_equal_files() {
        let paths = [file("one"), file("two")];
        paths.iter().for_each(|path| drop(write(path, 500)));
        let [one, two] = paths.clone().map(|path| std::fs::read(path).unwrap());
        paths.iter().for_each(|path| std::fs::remove_file(path).unwrap());
        assert!(one == two);
    }

    #[test]
    fn a_file_cut_short_is_an_error_with_its_name() {
        let path = file("cut");
        write(&path, 500);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let said = Table::read(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(said.starts_with(&path.display().to_string()) && !said.contains('\n'), "{said}");
    }
}
