//! Experiments on our own link: two network namespaces, a cable between them, a bottleneck on the server's side, and a
//! server and a load generator started in them. The runs follow one after another on the same jobs and leave nothing
//! behind.
//!
//! This crate *starts* programs (`ip`, `tc`, `ethtool`, `weir`, `nginx`, `weirlab load`) and links none of them, so
//! that the measured programs are those that an operator would install. Everything created is owned by a guard that
//! removes it when dropped: at the end, after an error or a panic, on SIGINT or SIGTERM. Remains after a SIGKILL are
//! removed by the next start, which recognises them by the name of their dead owner.

mod bottleneck;
mod cables;
mod calibration;
mod cgroup;
mod client_group;
mod conduct;
mod error;
mod experiment;
mod folder;
mod interrupt;
mod ipv6;
mod limits;
mod line;
mod link;
mod machine;
mod namespace;
mod one_run;
mod path;
mod placeholders;
mod proc_stat;
mod program;
mod qdisc;
mod run_spec;
mod said;
mod server;
mod server_side;
mod site;
#[cfg(test)]
mod testing;
mod tool;
mod upstream;
mod view;
mod virtual_time;
mod watch;
mod wide;
mod wire;

use calibration::Calibration;
pub use client_group::ClientGroup;
pub use conduct::{Conducted, Order, Plan, Programs, Skipped, conduct};
pub use error::LabError;
pub use experiment::{
    Customer, CustomerAt, Experiment, ExperimentFile, Load, Network, Overrides, Point, Shaper, Surge, check_customers,
    check_rho, check_seconds,
};
pub use folder::Folder;
pub use interrupt::Interrupt;
pub use limits::Limits;
pub use line::RateChange;
pub use link::Link;
pub use namespace::{Namespace, Place, remove_leftovers};
pub use program::Program;
pub use qdisc::Counters;
pub use run_spec::{Attach, Qdisc, RunSpec, Server};
pub use server::{Endpoint, Source, server_command, start_server};
pub use site::Site;
pub use tool::find_program;
pub use upstream::Framing;
pub use virtual_time::{Machines, Said, find_kernel, find_random, is_virtual, run_command};
