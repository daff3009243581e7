//! Policies from papers, to compare with Weir's default, and the client paths that two of them use.
//!
//! They cost nothing unless chosen: each [`Policy`](super::Policy) holds only its own state, and paths are read only if
//! [`Policy::needs_path`](super::Policy::needs_path).

pub(crate) mod fcf;
pub(crate) mod path;
pub(crate) mod quick_fix;
pub(crate) mod srrt;
