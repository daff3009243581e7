//! SURGE: what is asked of a Web server, and when (Barford & Crovella, "Generating representative web workloads for
//! network and server performance evaluation", 1998).
//!
//! A server has files ([`Files`], by [`ServerModel`] or [`FileModel`]); which is asked for next is a [`Sequence`]. A user
//! equivalent ([`UserModel`], run by [`crate::Population::users`]) asks for one Web object after another: a file, the
//! files embedded in it with an active OFF time before each (the browser at work), then an inactive OFF time (the reader
//! at work). It waits for every response, so the load is closed: a slow server is asked less. 000 asks for the same
//! sequence at Poisson times instead ([`trace`]), so that the load is what was wanted.

mod files;
mod matched;
mod open;
mod sequence;
mod user;

pub use files::{FileModel, Files};
pub use matched::{Requested, ServerModel};
pub use open::trace;
pub use sequence::{LOCAL_SHARE, Reference, STACK_DISTANCE, Sequence};
pub use user::{Lognormal, Pareto, UserModel, Weibull};
