//! The server: files, connections, limits, logs, and the write path that sends what the scheduler grants.
//!
//! The life of a request: a worker accepts the connection and reads the head ([`event_loop`](self)), `http` parses it,
//! `answer` finds the file and builds head and body, and `send` sends them as the scheduler grants, in the worker's own
//! turn. With paced shaping there is one worker, so that one order holds for all connections.

mod access;
mod answer;
mod body;
mod classes;
mod client_turns;
mod clients;
mod clock;
mod codec;
mod coded;
mod connection;
mod connection_places;
mod disk;
mod event_loop;
mod exchange_id;
mod files;
mod journal;
mod kept_rates;
mod limits;
mod logging;
mod memory;
pub mod metrics;
mod net;
mod objectives;
mod poll;
mod proxy;
mod sandbox;
mod send;
pub mod service_manager;
mod shaping;
#[cfg(test)]
mod simulation;
mod sites;
mod stages;
mod start;
pub mod stderr;
mod storage;
mod sys;
#[cfg(feature = "testing")]
pub mod testing;
mod threads;
mod udp;
mod upload;
mod upstream;
mod wake;

pub use access::{HashError, PASSWORD_BYTES_MAX, hash_password};
pub use answer::alternative;
pub use classes::ClassesConfig;
pub use clients::{ClientWeights, NetworkList};
pub use codec::digest_of;
pub use disk::SpoolConfig;
pub use files::Options as FileOptions;
pub use kept_rates::{Keeper, KeptLine, unkept};
pub use limits::{Limits, Patience};
pub use logging::{Format as LogFormat, LogConfig};
pub use memory::{MEMORY_BYTES_MIN, MemoryLimit, Origin as MemoryOrigin};
pub use objectives::{
    ClassStatus, ClientStatus, Counts, ObjectiveStatus, Question, RESPONSES_MAX, ResponseStatus, ResponsesStatus,
    Status, StatusChannel, UnderWay,
};
pub use send::{Line, WaitsFor, in_words, mbit};
pub use service_manager::Listen;
pub use shaping::{ShapingChoice, ShapingError, ShapingKind, ShapingOptions};
pub use sites::{AcmeConfig, Certificate, Https, Part, Saving, SecureError, SiteConfig, SitesError};
pub use start::{
    Checked, Config, Fault, IN_USE, Reload, Reporting, STATUS_WAIT_MAX, Server, StartError, Unstarted, WORKERS_MAX,
    check,
};
pub use threads::ThreadError;
pub use upstream::{RouteStatus, RoutesStatus, UpstreamStatus};

/// Scheduling policies and line limits, and the forms in which an operator writes them, for help texts.
pub use sched::line::{Bounds, Limit, Status as LineStatus};
pub use sched::policy::{ClientShareSpec, FORMS as POLICY_FORMS, PolicySpec};
pub use sched::{CROSS_SHARE_PERMILLE, WaitBound};

/// The guard's default share, in thousandths. At 10 Mbit/s a response then waits for a byte for at most 1.1 s, plus
/// 0.12 s for each ready response. The mean response time does not change at rho 0.8 and 0.95; at 1.05 with five
/// downloads it rises by 9 % (2 thousandths cost 4 %).
pub const GUARD_PERMILLE: u32 = 10;
