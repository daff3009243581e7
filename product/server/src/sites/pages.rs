//! The bodies of errors and the pages around listings, held in memory: the answer for a missing file must not be
//! missing itself.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use super::SiteConfig;
use crate::files::{LISTING_PAGE_BYTES_MAX, ListingPage, PageFault};

const PAGE_BYTES_MAX: u64 = 1 << 20;

/// A page and its media type.
#[derive(Debug, Clone)]
pub struct Page {
    pub bytes: Arc<Vec<u8>>,
    pub mime: String,
}

#[derive(Debug, Error)]
#[error("error page {file} of status {status}: {cause}; expected a readable file of at most 1 MiB")]
pub struct PageError {
    file: String,
    status: u16,
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

/// Reads the page around the listings of a site, if it has its own.
pub fn listing_page(site: &SiteConfig) -> Result<Option<Arc<ListingPage>>, ListingPageError> {
    let Some(file) = &site.listing_page else { return Ok(None) };
    let bytes = tls::read_within(file, LISTING_PAGE_BYTES_MAX)
        .map_err(|cause| ListingPageError::Unread(file.clone(), cause))?;
    let page = ListingPage::read(&bytes).map_err(|fault| ListingPageError::Wrong(file.clone(), fault))?;
    Ok(Some(Arc::new(page)))
}

/// Error pages by the index of the site in its set, and status.
#[derive(Debug, Default)]
pub struct Pages(HashMap<(usize, u16), Page>);

impl Pages {
    pub fn read(sites: &[SiteConfig]) -> Result<Pages, PageError> {
        let mut pages = Pages::default();
        for (place, site) in sites.iter().enumerate() {
            let Some(dir) = &site.dir else { continue };
            for page in &site.answers.error_pages {
                let path: PathBuf = dir.join(page.file.trim_start_matches('/'));
                let read = read(&path).map_err(|cause| {
                    let file = format!("`{}`", path.display());
                    PageError { file, status: page.status, cause }
                });
                pages.0.entry((place, page.status)).or_insert(read?);
            }
        }
        Ok(pages)
    }

    pub fn of(&self, place: usize, status: u16) -> Option<&Page> {
        self.0.get(&(place, status))
    }
}

fn read(path: &Path) -> io::Result<Page> {
    let bytes = tls::read_within(path, PAGE_BYTES_MAX)?;
    let mime = crate::files::mime_of(&path.to_string_lossy());
    Ok(Page { bytes: Arc::new(bytes), mime })
}
