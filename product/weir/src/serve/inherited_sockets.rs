//! Sockets that this process did not bind itself: they come from the service manager or from the process that this one
//! replaces.

use std::os::fd::OwnedFd;

use cli::Failure;
use server::service_manager::{PassedSocket, gather, passed_sockets};

use super::handover::{ADMIN, Predecessor, VARIABLE};

pub struct Given {
    pub passed: Vec<PassedSocket>,
    pub admin: Option<OwnedFd>,
    pub predecessor: Option<Predecessor>,
}

impl Given {
    /// Takes the sockets. Must be called before anything else opens a descriptor.
    pub fn take() -> Result<Given, Failure> {
        let untaken = |error| Failure::Failed(format!("cannot take the sockets over ({VARIABLE}): {error}"));
        let Some((predecessor, sockets)) = Predecessor::from_env().map_err(untaken)? else {
            return Ok(Given { passed: passed_sockets()?, admin: None, predecessor: None });
        };
        let (admin, sockets): (Vec<_>, Vec<_>) = sockets.into_iter().partition(|one| one.name == ADMIN);
        let admin = admin.into_iter().next().map(|one| one.socket);
        Ok(Given { passed: gather(sockets)?, admin, predecessor: Some(predecessor) })
    }
}
