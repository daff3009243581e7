use units::Nanos;

use super::absent::Folder;
use super::key::{self, Key};
use super::loader::{Known, Loader, Outcome};
use super::watch::Moment;
use super::{Missing, Stop, Wait};

/// A lookup that may have to wait for a disk: to be run by somebody who can, and then given back to the cache it came from.
#[derive(Debug)]
pub struct Lookup {
    pub(super) request: Request,
    loader: Loader,
}

/// What is to be found.
#[derive(Debug)]
pub(super) struct Request {
    pub key: Key,
    /// Decoded.
    pub path: Vec<u8>,
    pub known: Known,
    pub began_at: Nanos,
    pub since: Moment,
    /// Files were closed for it to have a descriptor.
    pub is_second: bool,
    /// Where it ends the names are read too, if the path leads nowhere.
    pub reads_names: bool,
}

/// The end of a lookup.
pub struct FinishedLookup {
    pub(super) request: Request,
    pub(super) outcome: Outcome,
    /// The folder that has no such name.
    pub(super) without: Option<Folder>,
}

impl Lookup {
    pub(super) fn new(request: Request, loader: Loader) -> Lookup {
        Lookup { request, loader }
    }

    /// The disk it may have to wait for.
    pub fn device(&self) -> u64 {
        self.loader.device(&self.request.path)
    }

    pub fn key(&self) -> &Key {
        &self.request.key
    }

    pub fn began_at(&self) -> Nanos {
        self.request.began_at
    }

    /// Waits as long as it takes.
    pub fn run(self) -> FinishedLookup {
        let Lookup { request, loader } = self;
        let (_, page) = key::page(request.key.raw_path());
        let mut outcome = loader.find(&request.path, page, &request.known, Wait::Allowed);
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
