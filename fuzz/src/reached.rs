//! The marks that a run has reached, so that a target that no longer reaches anything is noticed.

use std::collections::BTreeSet;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Reached(BTreeSet<&'static str>);

impl Reached {
    pub fn mark(&mut self, what: &'static str) {
        self.0.insert(what);
    }

    /// Adds the mark if the condition holds.
    pub fn mark_if(&mut self, holds: bool, what: &'static str) {
        if holds {
            self.mark(what);
        }
    }

    pub fn merge(&mut self, other: Reached) {
        self.0.extend(other.0);
    }

    pub fn has(&self, what: &str) -> bool {
        self.0.contains(what)
    }

    pub fn iter(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().copied()
    }
}
