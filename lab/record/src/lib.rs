//! The results of a run: one [`JobRecord`] per request, and the [`Manifest`] that states how it was made.
//!
//! The load generator writes this one record, a server's access log is read as such, and this crate alone knows the
//! file formats: `records.parquet` and `manifest.json` in a run's folder. A result without a manifest does not exist.
//! Measurements from outside are in `samples.parquet`, missing runs and the reasons in `left-out.json`, the results of
//! pages in `pages.json`.

mod access_log;
mod digest;
mod error;
mod job_record;
mod left_out;
mod manifest;
mod pages;
mod records;
mod run;
mod samples;
mod table;

pub use digest::Digest;
pub use error::FileError;
pub use job_record::{JobRecord, Outcome};
pub use left_out::LeftOut;
pub use manifest::{CARRIED, GIVEN_UP, Manifest};
pub use pages::PageRecord;
pub use run::Run;
pub use samples::{Sample, Samples};
