//! What came out of a run: one [`JobRecord`] per request, and the [`Manifest`] that says how it was made.
//!
//! The server, the simulator and the load generator all write this one record, and this crate alone knows the file
//! formats: `records.csv` and `manifest.json` in a run's folder. A result without a manifest does not exist.

mod job;
mod manifest;
mod run;

pub use job::{JobRecord, Outcome};
pub use manifest::Manifest;
pub use run::{ReadError, RecordWriter, Run};
