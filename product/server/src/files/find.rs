use units::Nanos;

use super::absent::Folder;
use super::key::Key;
use super::loader::{Known, Loader, Outcome};
use super::watch::Moment;
use super::{Missing, Stop, Wait};

/// A find that may have to wait for a disk: to be run by somebody who can, and then given back to the cache it came from.
#[derive(Debug)]
pub struct Find {
    pub(super) request: Request,
    loader: Loader,
}

/// What is to be found.
#[derive(Debug)]
pub(super) struct Request {
    pub key: Key,
    /// Decoded.
    pub path: String,
    pub known: Known,
    pub began_at: Nanos,
    pub since: Moment,
    /// Files were closed for it to have a descriptor.
    pub is_second: bool,
    /// Where it ends the names are read too, if the path leads nowhere.
    pub reads_names: bool,
}

/// The end of a find.
pub struct FindDone {
    pub(super) request: Request,
    pub(super) outcome: Outcome,
    /// The folder that has no such name.
    pub(super) without: Option<Folder>,
}

impl Find {
    pub(super) fn new(request: Request, loader: Loader) -> Find {
        Find { request, loader }
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
    pub fn run(self) -> FindDone {
        let Find { request, loader } = self;
        let mut outcome = loader.find(&request.path, &request.known, Wait::Allowed);
        let reads = request.reads_names && matches!(outcome.loaded, Err(Stop::Missing(Missing::NotFound)));
        let without = reads.then(|| Folder::read(&loader, &request.path, &mut outcome.added)).flatten();
        FindDone { request, outcome, without }
    }
}

impl FindDone {
    pub fn key(&self) -> &Key {
        &self.request.key
    }
}
