//! Detects when another folder replaces the root of a site, by remembering the folders that a worker has seen.

use units::Nanos;

use super::root::Identity;
use super::{Root, Roots};

/// The interval between two checks of the root of a site that receives requests. A check takes about 2 µs.
pub const FOLLOW_EVERY: Nanos = Nanos::from_millis(250);
/// The maximum number of log lines that wait for the next second.
const LINES_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct Followed {
    /// The data about each site, by its index.
    seen: Vec<Seen>,
    lines: Vec<String>,
}

#[derive(Debug, Clone, Default)]
struct Seen {
    /// The folder at the site's root; `None` until the site's first request.
    folder: Option<Identity>,
    looked_at: Nanos,
    due_at: Nanos,
}

impl Followed {
    pub fn new(roots: &Roots) -> Followed {
        Followed { seen: vec![Seen::default(); roots.folders.len()], lines: Vec::new() }
    }

    /// Replaces the sites, and forgets the folders of the previous ones.
    pub fn replace(&mut self, roots: &Roots) {
        self.seen = vec![Seen::default(); roots.folders.len()];
    }

    /// Returns true, at most once per [`FOLLOW_EVERY`] and site, if the caller must check the root of this site now.
    /// Returns false for an index that is too large.
    pub fn take_turn(&mut self, place: usize, now: Nanos) -> bool {
        let Some(seen) = self.seen.get_mut(place).filter(|seen| now >= seen.due_at) else { return false };
        seen.due_at = now + FOLLOW_EVERY;
        true
    }

    /// Records that the root was this folder at time `at`. Returns true if it was a different folder before.
    pub fn see(&mut self, place: usize, root: &Root, folder: Identity, at: Nanos) -> bool {
        let Some(seen) = self.seen.get_mut(place).filter(|seen| at >= seen.looked_at) else { return false };
        seen.looked_at = at;
        let before = seen.folder.replace(folder);
        if before == Some(folder) {
            return false;
        }
        let line = if before.is_none() { root.tell_arrival(folder) } else { root.tell_change(folder) };
        self.lines.extend(line.filter(|_| self.lines.len() < LINES_MAX));
        before.is_some()
    }

    /// Adds log lines, as many as there is room for.
    pub fn add_lines(&mut self, lines: Vec<String>) {
        let room = LINES_MAX.saturating_sub(self.lines.len());
        self.lines.extend(lines.into_iter().take(room));
    }

    pub fn has_lines(&self) -> bool {
        !self.lines.is_empty()
    }

    pub fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}
