//! The proofs, such as a password, that clients must give before they are admitted.

use std::io;
use std::path::Path;
use std::sync::Arc;

use config::{ForwardAuth, Proxy};

use super::{SiteConfig, SitesError};
use crate::access::{USERS_FILE_BYTES_MAX, Users};
use crate::service_manager::Keys;
use crate::upstream::Group;

/// The requirements of an access rule other than networks.
#[derive(Debug, Default)]
pub struct Gate {
    pub users: Option<Arc<Users>>,
    pub asked: Option<Arc<AskedServer>>,
}

/// A server that decides about clients.
#[derive(Debug)]
pub struct AskedServer {
    pub group: Arc<Group>,
    /// The path of the request to the authentication server, with or without a query.
    pub path: String,
    /// The fields of the authentication server's answer that are copied into requests.
    pub copied: Vec<String>,
}

/// A function that makes the upstream group of a proxy.
pub type MakeGroup<'g> = dyn Fn(&Proxy) -> Result<Arc<Group>, SitesError> + 'g;

/// Reads the users of a site's access rules, and sets up the authentication servers of these rules.
pub fn open_gates(site: &SiteConfig, keys: &Keys, make: &MakeGroup) -> Result<Vec<Gate>, SitesError> {
    let open = |access: &config::Access| {
        let users = access.users.as_ref().map(|users| read_users(&users.file, keys)).transpose()?;
        let asked = access.auth.as_ref().map(|auth| asked(auth, make)).transpose()?;
        Ok(Gate { users: users.map(Arc::new), asked: asked.map(Arc::new) })
    };
    site.answers.access.iter().map(open).collect()
}

fn read_users(file: &Path, keys: &Keys) -> Result<Users, SitesError> {
    let bytes = keys.read(file).and_then(|bytes| match bytes.len() as u64 {
        0..=USERS_FILE_BYTES_MAX => Ok(bytes),
        _ => Err(io::Error::other("it is larger")),
    });
    let bytes = bytes.map_err(|error| SitesError::UsersFile(file.into(), error))?;
    Users::read(&bytes).map_err(|fault| SitesError::Users(file.into(), fault))
}

fn asked(auth: &ForwardAuth, make: &MakeGroup) -> Result<AskedServer, SitesError> {
    Ok(AskedServer { group: make(&auth.proxy())?, path: auth.url.path.clone(), copied: auth.copy_headers.clone() })
}
