//! The Rust part of the Python package `weirlab`: the simulator, the closed forms, and the readers of traces and logs.
//!
//! Columns are passed as bytes of little-endian integers, which Arrow and NumPy can use without conversion. The names
//! and the help for users are in the Python package (`python/src/weirlab`).

mod called;
mod columns;
mod jobs;
mod read;
mod simulate;
mod solve;

use pyo3::exceptions::PyRuntimeError;
use pyo3::{create_exception, pymodule};

create_exception!(weirlab, PolicyError, PyRuntimeError, "A policy's function raised, or returned what is no rank.");

#[pymodule(name = "_weirlab")]
mod module {
    #[pymodule_export]
    use crate::PolicyError;
    #[pymodule_export]
    use crate::called::Path;
    #[pymodule_export]
    use crate::jobs::{poisson, stretch};
    #[pymodule_export]
    use crate::read::{access_log, trace};
    #[pymodule_export]
    use crate::simulate::{policies, simulate};
    #[pymodule_export]
    use crate::solve::{alone, alone_plain, alternating, bounds, packet_bound, solve_mg1};
}
