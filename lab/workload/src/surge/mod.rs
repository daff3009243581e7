//! SURGE: requests to a Web server, and their times (Barford & Crovella, "Generating representative web workloads for
//! network and server performance evaluation", 1998).
//!
//! A server has files ([`Files`], by [`ServerModel`] or [`FileModel`]), and a [`Sequence`] determines the next request.
//! A user equivalent ([`UserModel`], run by [`crate::Population::users`]) requests one Web object after another: a
//! file, the files embedded in it with an active OFF time before each (the browser at work), then an inactive OFF time
//! (the reader at work). It waits for every response, so the load is closed, and a slow server receives fewer requests.
//! 000 instead uses the same sequence at Poisson times ([`trace`]), so that the load is as wanted.

mod files;
mod matched;
mod open;
mod sequence;
mod user;

pub use files::{FileModel, Files};
pub use matched::ServerModel;
pub use open::trace;
pub use sequence::{LOCAL_SHARE, Reference, STACK_DISTANCE, Sequence};
pub use user::{Lognormal, Pareto, UserModel, Weibull};
