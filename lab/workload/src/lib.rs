//! Workloads: traces, sizes, arrival times, and scaling to a load rho. Seeded and pure.
//!
//! A request [`Log`] is read from any of four formats ([`read`]), reduced to the bodies that were sent
//! ([`Log::answered`]), spread in time if the log has only whole seconds ([`Log::trace`]), and stretched so that its mean load on a link is rho
//! ([`schedule`]). Nothing here opens a file or reads a clock: readers take `impl BufRead`. The
//! same input and seed give the same jobs on every machine.
//!
//! ```
//! let text = "epoch_s,size_bytes,status\n0.0,900,200\n0.5,4000,200\n2.5,100,200\n";
//! let log = workload::read(text.as_bytes(), &workload::ReadOptions::default()).unwrap();
//! let trace = log.answered().trace(1);
//! let scaling = workload::Scaling {
//!     load: workload::LoadProfile::constant(0.8).unwrap(),
//!     link: "10mbit".parse().unwrap(),
//!     seconds: None,
//!     per_connection: 1,
//!     repeat: None,
//! };
//! let schedule = workload::schedule(&trace, &scaling).unwrap();
//! assert_eq!(schedule.jobs.len(), 3);
//! assert!((schedule.rho_measured - 0.8).abs() < 1e-3);
//! ```

mod calendar;
mod closed;
mod distribution;
mod format;
mod input;
mod log;
mod pages;
mod poisson;
mod population;
mod profile;
mod read;
mod routes;
mod schedule;
mod sizes;
mod source;
mod spread;
pub mod surge;
mod webstone;

pub use closed::{Beside, CLOSED_CONNECTIONS_MAX, ClosedClient};
pub use distribution::{Distribution, DistributionError, Empirical, Sampler};
pub use format::{Format, UnknownFormat};
pub use log::{Arrival, Log, Request, Trace};
pub use pages::{
    Found, ObjectKind, PAGE_OBJECTS_MAX, PAGE_OBJECTS_MEDIAN, PAGES_MAX, PageLoads, PageObject, PageTimes, PagesError,
    VisitedPage, Visitors,
};
pub use poisson::poisson_times;
pub use population::{EndlessSizes, Population, USERS_MAX};
pub use profile::{LoadProfile, Phase, ProfileError};
pub use read::{BAD_LINES_KEPT, BadLine, BadLines, ReadError, ReadOptions, read};
pub use routes::{ROUTES_MAX, Routes, RoutesError};
pub use schedule::{
    HEAD_BYTES_NOMINAL, Job, Scaling, Schedule, ScheduleError, schedule, schedule_plain, shuffled, wire_bytes,
};
pub use sizes::Sizes;
pub use source::{Ask, Part, Scheduled, Source};
pub use webstone::{
    WEBSTONE_CLASSES_MAX, WEBSTONE_CLIENTS_MAX, WebStone, WebStoneClients, WebStoneFiles, check_webstone,
};

/// The maximum size that a reader accepts, 1 PiB: a line with a larger one is damaged, and no sum over a log overflows.
pub const SIZE_BYTES_MAX: u64 = 1 << 50;

/// The maximum number of streams on one HTTP/2 connection in a load: ten times as many as servers allow.
pub const STREAMS_MAX: u32 = 1000;

/// The latest instant that a reader accepts, 9,999,999,999 s (the year 2286): later ones are milliseconds.
pub const EPOCH_S_MAX: u64 = 9_999_999_999;

/// The maximum number of requests in a log. At 32 bytes each they need two thirds of a gigabyte; the World Cup's own
/// files have 7 million.
pub const REQUESTS_MAX: usize = 20_000_000;
