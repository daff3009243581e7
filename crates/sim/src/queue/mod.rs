//! One link.
