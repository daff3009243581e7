//! Conversion between columns of numbers and bytes.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use units::{Nanos, Rate};
use workload::Job;

/// The mark of a missing number in a column; the package makes it a null.
pub const NONE: u64 = u64::MAX;

/// An error about an argument: its name, then what is wrong with it.
pub fn wrong(argument: &str, reason: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("{argument}: {reason}"))
}

pub fn link(text: &str) -> PyResult<Rate> {
    text.parse().map_err(|error| wrong("link", error))
}

/// The column of these numbers.
pub fn column<'py>(py: Python<'py>, numbers: &[u64]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, numbers.len() * 8, |bytes| {
        for (into, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            into.copy_from_slice(&number.to_le_bytes());
        }
        Ok(())
    })
}

/// The numbers of a column.
pub fn numbers(bytes: &[u8]) -> impl ExactSizeIterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|eight| u64::from_le_bytes(eight.try_into().expect("a chunk has eight bytes")))
}

/// The jobs of two columns: sizes in bytes, arrivals in nanoseconds.
pub fn jobs(sizes: &[u8], arrivals: &[u8]) -> PyResult<Vec<Job>> {
    if sizes.len() != arrivals.len() {
        let said = format!("{} arrivals for {} sizes: give one for each", arrivals.len() / 8, sizes.len() / 8);
        return Err(wrong("arrivals", said));
    }
    let mut last = 0;
    let job = |(at, (size_bytes, arrival)): (usize, (u64, u64))| {
        if arrival < last {
            let said =
                format!("job {at} arrives at {arrival} ns, before the one ahead of it at {last} ns: sort by time");
            return Err(wrong("arrivals", said));
        }
        last = arrival;
        Ok(Job { arrival: Nanos(arrival), size_bytes, client: None })
    };
    numbers(sizes).zip(numbers(arrivals)).enumerate().map(job).collect()
}
