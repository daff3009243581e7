use units::Nanos;

use super::absent::Folder;
use super::key::Key;
use super::loader::{Known, Loader, Outcome};
use super::view::ListingView;
use super::watch::Moment;
use super::{Missing, Stop, Wait};

/// A lookup that may block on a disk. A thread that may wait runs it, and then it is passed back to its cache.
#[derive(Debug)]
pub struct Lookup {
    pub(super) request: Request,
    loader: Loader,
}

/// The description of the file to find.
#[derive(Debug)]
pub(super) struct Request {
    pub key: Key,
    /// The decoded path.
    pub path: Vec<u8>,
    pub known: Known,
    pub began_at: Nanos,
    pub since: Moment,
    /// True if this is the second attempt, after files were closed to free a descriptor.
    pub is_second: bool,
    /// True if, should the path not exist, the names in the folder at which it ends are read.
    pub reads_names: bool,
}

/// A completed lookup.
pub struct FinishedLookup {
    pub(super) request: Request,
    pub(super) outcome: Outcome,
    /// The folder that lacks a name of the path, with the names that it contains.
    pub(super) without: Option<Folder>,
}

impl Lookup {
    pub(super) fn new(request: Request, loader: Loader) -> Lookup {
        Lookup { request, loader }
    }

    /// The device on which the lookup may block.
    pub fn device(&self) -> u64 {
        self.loader.device(&self.request.path)
    }

    pub fn key(&self) -> &Key {
        &self.request.key
    }

    pub fn began_at(&self) -> Nanos {
        self.request.began_at
    }

    /// Runs the lookup, blocking for as long as it takes.
    pub fn run(self) -> FinishedLookup {
        let Lookup { request, loader } = self;
        let (_, view) = ListingView::split(request.key.raw_path());
        let mut outcome = loader.find(&request.path, view, &request.known, Wait::Allowed);
        let reads = request.reads_names && matches!(outcome.loaded, Err(Stop::Missing(Missing::NotFound)));
        let without = reads.then(|| Folder::read(&loader, &request.path, &mut outcome.added)).flatten();
        FinishedLookup { request, outcome, without }
    }
}

impl FinishedLookup {
    pub fn key(&self) -> &Key {
        &self.request.key
    }
}
