//! The sites in force. Another set takes their place in one step, and the event loops learn of it by their wake-ups.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{SiteConfig, Sites};
use crate::files::{Root, Roots, SiteNumber};
use crate::start::StartError;

/// Sites and their folders, which were all there when it was made.
pub struct Served {
    pub sites: Sites,
    pub roots: Roots,
}

impl Served {
    fn open(configs: &[SiteConfig], first: SiteNumber) -> Result<Served, StartError> {
        let open = |site: &SiteConfig| {
            let Some(dir) = &site.dir else { return Ok(None) };
            let root = Root::open(dir, site.files.clone());
            root.map(|root| Some(Arc::new(root))).map_err(|e| StartError::Folder(dir.clone(), e))
        };
        let folders = configs.iter().map(open).collect::<Result<_, StartError>>()?;
        Ok(Served { sites: Sites::open(configs, first)?, roots: Roots { first, folders } })
    }
}

pub struct Current {
    served: Mutex<Arc<Served>>,
    /// How often there was another.
    turn: AtomicU64,
}

impl Current {
    pub fn open(configs: &[SiteConfig]) -> Result<Current, StartError> {
        Ok(Current { served: Mutex::new(Arc::new(Served::open(configs, 0)?)), turn: AtomicU64::new(0) })
    }

    /// All of these, or, with the reason why not, those from before. Their numbers are new: what was begun for another set is
    /// not taken for theirs.
    pub fn replace(&self, configs: &[SiteConfig]) -> Result<(), StartError> {
        let first = self.served().roots.end();
        let served = Arc::new(Served::open(configs, first)?);
        *self.served.lock().unwrap_or_else(PoisonError::into_inner) = served;
        self.turn.fetch_add(1, Ordering::Release);
        Ok(())
    }

    pub fn served(&self) -> Arc<Served> {
        Arc::clone(&self.served.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Those in force, if they are not those of this turn; the turn becomes theirs.
    pub fn newer(&self, than: &mut u64) -> Option<Arc<Served>> {
        let turn = self.turn.load(Ordering::Acquire);
        (std::mem::replace(than, turn) != turn).then(|| self.served())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_that_cannot_be_changes_nothing() {
        let site = |dir: &str| SiteConfig::alone(dir.into(), Default::default());
        let current = Current::open(&[site("/")]).unwrap();
        let mut turn = 0;
        assert!(current.newer(&mut turn).is_none());
        assert!(current.replace(&[site("/"), site("/none/of/that/name")]).is_err());
        assert!(current.newer(&mut turn).is_none() && current.served().sites.of(None) == Some(0));
        current.replace(&[site("/"), site("/")]).unwrap();
        let newer = current.newer(&mut turn).unwrap();
        assert_eq!((newer.sites.of(None), newer.roots.first, newer.roots.end()), (Some(1), 1, 3));
        assert!(current.newer(&mut turn).is_none());
    }
}
