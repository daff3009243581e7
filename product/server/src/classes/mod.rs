//! The class of a request: by the path prefixes of a command line, or by the rules of a file.

mod assigned;
mod prefixes;

pub use assigned::{Assigned, ClassesChange, ClassesConfig};
pub use prefixes::{Classes, ClassesError};
