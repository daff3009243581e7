//! Grids of simulated runs: every policy at every load on every workload, each repeated with other seeds.
//!
//! One file says which runs ([`Plan`]); a [`Model`] does one of them; [`conduct`] does them all, on all cores, keeping each
//! as soon as it is finished under a key made of all that determines its result. So an interrupted sweep loses only the
//! runs in flight, a repeated one does nothing, and one whose file was changed does what is new. [`Results`] are the means
//! over the seeds with 99 % confidence intervals (Student's t), written as tables by [`write_tables`]; Python draws them.
//!
//! The crate knows no simulator: fields of a run are names and values that only the model understands.
//!
//! # The file
//!
//! ```toml
//! question = "Which policy is best at which load?"
//! model = "queue"                     # queue, server or packet
//! replications = 30                   # runs of each cell, with the seeds 1, 2, ...; without it 10
//! seed = 1                            # the first seed; without it 1
//!
//! [fixed]                             # fields that every run has; which there are, the model says
//! link = "10mbit"
//! jobs = 1_000_000
//!
//! [grid]                              # fields that vary: every combination is a cell
//! policy = ["ps", "srpt", "las"]
//! rho = [0.5, 0.8, 0.9]
//! # internet.loss = [0, 0.05]        # fields with a dot: what `weirlab sim --set` takes
//! # A table sets several fields at once; its name, a text or a number, stands for them in tables.
//! # wan = [{ name = "near", rtt = "50ms", loss = 0.005 }, { name = "far", rtt = "350ms", loss = 0.03 }]
//!
//! [plot]                              # all of it has defaults; `weirlab.plots.sweep` of Python draws it
//! x = "rho"                           # the grid's axis to go from left to right; default: the first of numbers
//! lines = "policy"                    # one line for each; default: policy, if the grid has it
//! y = ["response_time_ms", "slowdown_mean", "response_time_ms_p99"]    # the columns of the table too
//! ```
//!
//! `[[claim]]` says what the sweep is to show, and gets a verdict below the table.
//!
//! The same seeds are used in every cell: under every policy the same jobs arrive, so differences are of the policies.

mod claim;
mod conduct;
mod error;
mod grid;
mod measured;
mod model;
mod plan;
mod results;
mod store;
mod tables;
#[cfg(test)]
mod testing;

pub use claim::Claim;
pub use conduct::{Progress, Workers, conduct};
pub use error::SweepError;
pub use grid::{Axis, Cell};
pub use measured::{Measured, SizeBin};
pub use model::{Fields, Model, Theory};
pub use plan::Plan;
pub use results::{CellResult, Estimate, Results};
pub use store::Store;
pub use tables::{cells_json, markdown, write_tables};
