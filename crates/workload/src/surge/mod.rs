//! SURGE's users: what they ask for and when (Barford & Crovella, "Generating representative web workloads for network
//! and server performance evaluation", 1998).
//!
//! A user equivalent asks for one Web object after another: a file, the files embedded in it with an active OFF time
//! before each (the browser at work), then an inactive OFF time (the reader at work). It waits for every response, so
//! the load is closed: a slow server is asked less. [`Files`] is what can be asked for, [`UserModel`] when.

mod files;
mod user;

pub use files::{FileModel, Files};
pub use user::{Pareto, UserModel, Weibull};
