//! Loads for the tests of this crate.

use units::Nanos;
use workload::{Ask, Source};

/// An open load of one request a millisecond.
#[derive(Debug)]
pub(crate) struct Jobs {
    sizes: Vec<u64>,
    next: usize,
}

impl Jobs {
    pub(crate) fn of(sizes: &[u64]) -> Jobs {
        Jobs { sizes: sizes.to_vec(), next: 0 }
    }
}

impl Source for Jobs {
    fn due(&self) -> Option<Nanos> {
        (self.next < self.sizes.len()).then(|| Nanos::from_millis(self.next as u64))
    }

    fn take(&mut self) -> Option<Ask> {
        let at = self.due()?;
        self.next += 1;
        Some(Ask { at, size_bytes: self.sizes[self.next - 1], user: None, group: None, client: None, part: None })
    }

    fn on_end(&mut self, _: u32, _: Nanos) -> bool {
        panic!("nobody waits in an open load");
    }

    fn last_at(&self) -> Nanos {
        Nanos::from_millis(self.sizes.len().saturating_sub(1) as u64)
    }

    fn count(&self) -> Option<usize> {
        Some(self.sizes.len())
    }
}

/// Two users who request ten bytes, think, and request again, for a second.
#[derive(Debug)]
pub(crate) struct TwoUsers {
    due: [Option<Nanos>; 2],
}

impl Default for TwoUsers {
    fn default() -> TwoUsers {
        TwoUsers { due: [Some(Nanos::ZERO); 2] }
    }
}

impl TwoUsers {
    pub(crate) const THINK: Nanos = Nanos::from_millis(50);

    fn first(&self) -> Option<(Nanos, usize)> {
        self.due.iter().enumerate().filter_map(|(user, at)| Some(((*at)?, user))).min()
    }
}

impl Source for TwoUsers {
    fn due(&self) -> Option<Nanos> {
        self.first().map(|(at, _)| at)
    }

    fn take(&mut self) -> Option<Ask> {
        let (at, user) = self.first()?;
        self.due[user] = None;
        Some(Ask { at, size_bytes: 10, user: Some(user as u32), group: None, client: None, part: None })
    }

    fn on_end(&mut self, user: u32, at: Nanos) -> bool {
        let next = at + TwoUsers::THINK;
        self.due[user as usize] = (next <= self.last_at()).then_some(next);
        next <= self.last_at()
    }

    fn last_at(&self) -> Nanos {
        Nanos::from_secs(1)
    }

    fn count(&self) -> Option<usize> {
        None
    }
}
