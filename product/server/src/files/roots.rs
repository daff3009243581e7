//! The folders of sites, by number.

use std::sync::Arc;

use super::{Root, SiteNumber};

/// The folders of a set of sites, for the sites that have one. Site numbers continue from set to set, and wrap around.
#[derive(Debug, Clone)]
pub struct Roots {
    pub first: SiteNumber,
    pub folders: Arc<[Option<Arc<Root>>]>,
}

impl Roots {
    /// The number after the last site.
    pub fn end(&self) -> SiteNumber {
        self.first.wrapping_add(self.folders.len() as SiteNumber)
    }

    /// Returns the index of a site in `folders`; out of range for a site of another set.
    pub fn place(&self, site: SiteNumber) -> usize {
        site.wrapping_sub(self.first) as usize
    }

    /// Returns the root of a site; `None` for a site of another set, and `Some(None)` for a site without a folder.
    pub fn of(&self, site: SiteNumber) -> Option<Option<&Arc<Root>>> {
        self.folders.get(self.place(site)).map(Option::as_ref)
    }
}

#[cfg(test)]
impl From<Root> for Roots {
    fn from(root: Root) -> Roots {
        Roots { first: 0, folders: [Some(Arc::new(root))].into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_round() {
        let folders: Arc<[_]> = [None, None, None].into();
        let roots = Roots { first: SiteNumber::MAX - 1, folders };
        let has = |site| roots.of(site).is_some();
        assert_eq!(
            (roots.end(), has(SiteNumber::MAX - 1), has(0), has(1), has(SiteNumber::MAX - 2)),
            (1, true, true, false, false)
        );
    }
}
