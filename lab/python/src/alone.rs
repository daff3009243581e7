//! What slowdown is measured against.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use theory::wire_service;

use crate::columns;

/// For each response the time of the link for its head and body in full segments, in nanoseconds.
#[pyfunction]
pub fn alone<'py>(py: Python<'py>, sizes: &[u8], heads: &[u8], link_bps: u64) -> PyResult<Bound<'py, PyBytes>> {
    let link = columns::link(&format!("{link_bps}bit"))?;
    let pairs = columns::numbers(sizes).zip(columns::numbers(heads));
    let times: Vec<u64> = pairs.map(|(size, head)| wire_service(head, size.min(BYTES_MAX), link).0).collect();
    columns::column(py, &times)
}

/// Above it a sum with a head would wrap.
const BYTES_MAX: u64 = 1 << 50;
