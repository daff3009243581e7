//! Policies of papers, for comparisons with what Weir does by default, and the paths to clients that two of them look at.
//!
//! They cost nothing where another policy is chosen: a [`Policy`](super::Policy) has its own state alone, and paths are
//! asked for only where [`Policy::needs_path`](super::Policy::needs_path).

pub(crate) mod fcf;
pub(crate) mod path;
pub(crate) mod quick_fix;
pub(crate) mod srrt;
