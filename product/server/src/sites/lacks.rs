//! The missing folders and pages of sites that are served nevertheless. A disk may be mounted after the server starts,
//! and a missing folder of one site must not stop the others; nginx, Apache and Caddy start without the folder too.
//! Certificates, users and logs are required: a site without them would differ from the one that its operator wants.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::Codings;

use super::pages::listing_page;
use super::{Served, SiteConfig, SitesError};
use crate::files::{Options, Root, SiteNumber};

/// A part of a site that can be missing. Error pages, proxies and access rules have an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Folder,
    SymlinkFolder,
    ListingPage,
    ErrorPage(usize),
    Proxy(usize),
    Access(usize),
    Certificate,
    Log,
}

/// A folder or page of a site that could not be opened.
#[derive(Debug, Clone)]
pub struct Lack {
    /// The index of the site.
    pub site: usize,
    pub part: Part,
    /// The line for the operator, with the remedy.
    pub said: String,
    path: PathBuf,
}

/// The missing folders and pages of a set of sites, while it is opened.
pub(super) struct Lacks<'b> {
    is_allowed: bool,
    /// The sites that these replace. A path that was missing there too does not stop a reload; a newly missing one
    /// does.
    before: Option<&'b Served>,
    found: RefCell<Vec<Lack>>,
}

impl<'b> Lacks<'b> {
    pub fn new(is_allowed: bool, before: Option<&'b Served>) -> Lacks<'b> {
        Lacks { is_allowed, before, found: RefCell::default() }
    }

    /// Creates a set in which every folder and page must exist.
    #[cfg(test)]
    pub fn none() -> Lacks<'b> {
        Lacks::new(false, None)
    }

    /// Records that a part of a site cannot be opened. Returns the error if the site cannot be served without it.
    pub fn pass(&self, (site, part): (usize, Part), path: &Path, error: SitesError) -> Result<(), SitesError> {
        if !self.is_allowed || self.before.is_some_and(|before| !before.is_known_to_lack(path)) {
            return Err(error);
        }
        let until = match part {
            Part::ListingPage | Part::ErrorPage(_) => "Weir's own page stands in for it until a reload finds it",
            Part::SymlinkFolder => "symlinks into it are not followed until a reload finds it",
            _ => "its files are missing until it is there",
        };
        let said = format!("{error}; {until}");
        self.found.borrow_mut().push(Lack { site, part, said, path: path.into() });
        Ok(())
    }

    pub fn into_found(self) -> Vec<Lack> {
        self.found.into_inner()
    }
}

impl Served {
    /// Returns true if this path is known to be missing: it was missing when these sites were opened, or it is a site's
    /// folder that has disappeared since, or lies in one.
    fn is_known_to_lack(&self, path: &Path) -> bool {
        let is_gone = |root: &Arc<Root>| root.holds(path) && root.try_out().is_err();
        self.told.lacks.iter().any(|lack| lack.path == path) || self.roots.folders.iter().flatten().any(is_gone)
    }
}

/// Opens the folder of a site, if it has one.
pub(super) fn open_folder(at: usize, site: &SiteConfig, lacks: &Lacks<'_>) -> Result<Option<Arc<Root>>, SitesError> {
    let Some(dir) = &site.dir else { return Ok(None) };
    let mut options = site.files.clone();
    options.links_into.clear();
    for folder in &site.files.links_into {
        let found = folder.metadata().map(|found| found.is_dir());
        let wrong = match found {
            Ok(true) => {
                options.links_into.push(folder.clone());
                continue;
            }
            Ok(false) => io::ErrorKind::NotADirectory.into(),
            Err(error) => error,
        };
        lacks.pass((at, Part::SymlinkFolder), folder, SitesError::Folder(folder.clone(), wrong))?;
    }
    options.page = match listing_page(site) {
        Ok(page) => page,
        Err(error) => {
            let file = site.listing_page.as_deref().unwrap_or(dir);
            lacks.pass((at, Part::ListingPage), file, error.into())?;
            None
        }
    };
    open_root((at, Part::Folder), dir, options, lacks).map(Some)
}

/// Opens a folder from which upstreams name files. The numbers of these folders follow those of the sites' folders.
pub(super) fn open_named_files(
    of: (usize, Part),
    (dir, codings): (&Path, Codings),
    (first, folders): (SiteNumber, &mut Vec<Option<Arc<Root>>>),
    lacks: &Lacks<'_>,
) -> Result<SiteNumber, SitesError> {
    let options = Options { hidden: true, index: Vec::new(), codings, ..Options::default() };
    folders.push(Some(open_root(of, dir, options, lacks)?));
    Ok(first.wrapping_add(folders.len() as SiteNumber - 1))
}

fn open_root(of: (usize, Part), dir: &Path, options: Options, lacks: &Lacks<'_>) -> Result<Arc<Root>, SitesError> {
    let root = Root::awaited(dir, options).map_err(|error| SitesError::Folder(dir.into(), error))?;
    if let Err(error) = root.try_out() {
        lacks.pass(of, dir, SitesError::Folder(dir.into(), error))?;
    }
    Ok(Arc::new(root))
}
