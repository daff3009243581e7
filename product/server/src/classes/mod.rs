//! The class of a request, by the rules of a file.

mod assigned;

pub use assigned::{Assigned, ClassesChange, ClassesConfig};
