//! The bodies of error pages and the pages around listings. They are held in memory, so that the page for a missing
//! file cannot be missing itself.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::{ErrorPage, MediaTypes, Statuses};
use thiserror::Error;

use super::lacks::{Lacks, Part};
use super::{SiteConfig, SitesError};
use crate::files::{LISTING_PAGE_BYTES_MAX, ListingPage, PageFault};

const PAGE_BYTES_MAX: u64 = 1 << 20;

/// A page and its media type.
#[derive(Debug, Clone)]
pub struct Page {
    pub bytes: Arc<Vec<u8>>,
    pub mime: String,
}

#[derive(Debug, Error)]
#[error("error page {file} of status {statuses}: {cause}; expected a readable file of at most 1 MiB")]
pub struct PageError {
    file: String,
    statuses: Statuses,
    #[source]
    cause: io::Error,
}

/// The reason why a site's page around listings cannot be used.
#[derive(Debug, Error)]
pub enum ListingPageError {
    #[error("listing page `{file}`: {1}; expected a readable file of at most 64 KiB", file = .0.display())]
    Unread(PathBuf, #[source] io::Error),
    #[error("listing page `{file}:{line}`: {said}", file = .0.display(), line = .1.line, said = .1.said)]
    Wrong(PathBuf, PageFault),
}

/// Reads the site's own page around listings, if it has one.
pub fn listing_page(site: &SiteConfig) -> Result<Option<Arc<ListingPage>>, ListingPageError> {
    let Some(file) = &site.listing_page else { return Ok(None) };
    let bytes = tls::read_within(file, LISTING_PAGE_BYTES_MAX)
        .map_err(|cause| ListingPageError::Unread(file.clone(), cause))?;
    let page = ListingPage::read(&bytes).map_err(|fault| ListingPageError::Wrong(file.clone(), fault))?;
    Ok(Some(Arc::new(page)))
}

/// The error pages of each site, by the site's index, in the order of their rules.
#[derive(Debug, Default)]
pub struct Pages(Vec<Vec<(Statuses, Page)>>);

impl Pages {
    pub fn read(sites: &[SiteConfig], lacks: &Lacks<'_>) -> Result<Pages, SitesError> {
        Ok(Pages(sites.iter().enumerate().map(|(at, site)| of_site(at, site, lacks)).collect::<Result<_, _>>()?))
    }

    pub fn of(&self, place: usize, status: u16) -> Option<&Page> {
        self.0.get(place)?.iter().find(|(statuses, _)| statuses.has(status)).map(|(_, page)| page)
    }
}

/// Reads the error pages of a site. A file that several pages share is read once.
fn of_site(at: usize, site: &SiteConfig, lacks: &Lacks<'_>) -> Result<Vec<(Statuses, Page)>, SitesError> {
    let Some(dir) = site.answers.error_root.as_ref().or(site.dir.as_ref()) else { return Ok(Vec::new()) };
    let mut known: HashMap<&str, Page> = HashMap::new();
    let mut pages = Vec::new();
    for (page_at, ErrorPage { statuses, file, .. }) in site.answers.error_pages.iter().enumerate() {
        let path: PathBuf = dir.join(file.trim_start_matches('/'));
        let page = known.get(file.as_str()).map_or_else(|| read(&path, &site.files.types), |page| Ok(page.clone()));
        let page = match page {
            Ok(page) => page,
            Err(cause) => {
                let file = format!("`{}`", path.display());
                let error = PageError { file, statuses: *statuses, cause };
                lacks.pass((at, Part::ErrorPage(page_at)), &path, error.into())?;
                continue;
            }
        };
        known.insert(file, page.clone());
        pages.push((*statuses, page));
    }
    Ok(pages)
}

fn read(path: &Path, types: &MediaTypes) -> io::Result<Page> {
    let bytes = tls::read_within(path, PAGE_BYTES_MAX)?;
    let mime = crate::files::mime_of(&path.to_string_lossy(), &bytes, types);
    Ok(Page { bytes: Arc::new(bytes), mime })
}
