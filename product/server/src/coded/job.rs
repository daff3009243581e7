//! The job that makes a form, on any thread.

use std::io;
use std::sync::Arc;

use http::Digest;

use super::{Dictionaries, FormId};
use crate::codec::{Level, digest_of, encoded, encoded_with};
use crate::files::{Entry, Way};

/// A form of a file, at a level.
#[derive(Debug, Clone)]
pub struct Job {
    pub id: FormId,
    pub level: Level,
    pub entry: Arc<Entry>,
}

impl Job {
    /// Reads and codes the file. May block on the disk. Fails if the file has changed since its entry was made, or if
    /// the dictionary is gone.
    pub fn run(&self, dictionaries: &Dictionaries) -> io::Result<Vec<u8>> {
        let FormId { coding, dictionary, .. } = self.id;
        let Some(id) = dictionary else { return encoded(coding, self.level, &self.entry.whole()?) };
        let dictionary = dictionaries.bytes(&id)?;
        encoded_with(coding, self.level, &self.entry.whole()?, &dictionary, &id.digest)
    }

    /// Returns the coding, level and dictionary for a form at this level.
    pub fn way(&self, level: Level) -> Way {
        let FormId { coding, dictionary, .. } = self.id;
        Way { coding, level: level.number(coding), dictionary: dictionary.map(|id| id.digest) }
    }

    /// Returns the name under which the best form is stored on the shelf.
    pub fn kept_name(&self) -> Digest {
        let (state, suffix) = (self.id.file.to_bytes(), self.way(Level::Best).suffix());
        // The suffix contains only the beginning of the digest.
        let digest = self.id.dictionary.map(|id| id.digest.to_vec()).unwrap_or_default();
        let parts = [&state[..], suffix.as_bytes(), &digest];
        digest_of(&parts.concat())
    }
}
