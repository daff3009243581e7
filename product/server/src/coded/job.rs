//! A form that is to be made, on any thread.

use std::io;
use std::sync::Arc;

use super::FormId;
use crate::codec::{Level, encoded};
use crate::files::Entry;

/// A form of a file, at a level.
#[derive(Debug, Clone)]
pub struct Job {
    pub id: FormId,
    pub level: Level,
    pub entry: Arc<Entry>,
}

impl Job {
    /// Reads and codes the file; waits for its disk. Fails if the file is not the one of the entry any more.
    pub fn run(&self) -> io::Result<Vec<u8>> {
        encoded(self.id.coding, self.level, &self.entry.whole()?)
    }
}
