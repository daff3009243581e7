//! The configuration check: opens everything that a start opens, in the same way, and closes it again. So nobody stops
//! a running server for a configuration with which it cannot start.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use ::config::Answers;
use socket2::{Domain, Protocol, Socket, Type};
use tls::Identity;

use super::{Config, StartError, open_log};
use crate::logging::{Log, LogConfig, Logs};
use crate::service_manager::{Keys, Listen, PrivilegeError};
use crate::sites::{Certificate, Current, Https, Part, SecureError, SiteConfig, SitesError, Wanted};
use crate::threads::Threads;

/// The end of a remark on an address in use, by the running server with this configuration or by another program.
pub const IN_USE: &str = " is in use";

/// A reason why the server would not start.
#[derive(Debug)]
pub struct Fault {
    /// The index of the site and its faulty part; `None` for the whole server.
    pub of: Option<(usize, Part)>,
    pub error: StartError,
}

/// All reasons found why the server cannot start; at least one.
#[derive(Debug)]
pub struct Unstarted(pub Vec<Fault>);

impl std::error::Error for Unstarted {}

impl fmt::Display for Unstarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(|fault| fault.error.to_string()).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl From<StartError> for Unstarted {
    fn from(error: StartError) -> Unstarted {
        Unstarted(vec![Fault { of: None, error }])
    }
}

/// The outcome of [`check`].
#[derive(Debug, Default)]
pub struct Checked {
    pub faults: Vec<Fault>,
    /// Warnings that a start would log, and the parts that could not be checked.
    pub remarks: Vec<String>,
}

/// Binds the addresses, becomes the user, and opens folders, error pages, certificates, keys, names of upstreams, logs
/// and the spool. Everything is released again, except that the change of user is permanent: the process should end
/// soon.
pub fn check(mut config: Config) -> Checked {
    let mut checked = Checked::default();
    config.listen.iter().for_each(|listen| checked.bind(listen));
    if checked.is_user(&config)
        && let Err(error) = checked.open(&mut config)
    {
        checked.fault(None, error);
    }
    checked
}

impl Checked {
    fn fault(&mut self, of: Option<(usize, Part)>, error: StartError) {
        self.faults.push(Fault { of, error });
    }

    fn bind(&mut self, listen: &Listen) {
        let address = listen.address;
        let bound = bind(address, Type::STREAM).map_err(|error| (StartError::Listen as fn(_, _) -> _, error));
        let datagrams = || bind(address, Type::DGRAM).map_err(|error| (StartError::Udp as fn(_, _) -> _, error));
        let bound = bound.and_then(|()| if listen.has_http3 { datagrams() } else { Ok(()) });
        let Err((fault, error)) = bound else { return };
        let is_root = rustix::process::geteuid().is_root();
        match error.kind() {
            io::ErrorKind::AddrInUse => self.remarks.push(format!("{address}{IN_USE}")),
            io::ErrorKind::PermissionDenied if !is_root => {
                self.remarks
                    .push(format!("{address} was not tried: ports below 1024 need root; run weir check with sudo"));
            }
            _ => self.fault(None, fault(address, error)),
        }
    }

    /// Changes to the user of the server. Returns true if the check can continue, as that user or, if not started as
    /// root, as the current one.
    fn is_user(&mut self, config: &Config) -> bool {
        let Some(account) = &config.privileges.account else { return true };
        match account.assume(config.shaping.capabilities()) {
            Ok(()) => true,
            Err(error @ PrivilegeError::NotRoot { .. }) => {
                self.remarks.push(format!("not checked as user {account}: {error}"));
                true
            }
            Err(error) => {
                self.fault(None, error.into());
                false
            }
        }
    }

    fn open(&mut self, config: &mut Config) -> Result<(), StartError> {
        let threads = Threads::start(None, || {}).map_err(|e| StartError::Thread("weir-watch".into(), e))?;
        let logs = Logs::start(&threads, false).map_err(|e| StartError::Thread("weir-log".into(), e))?;
        let open = |config: &LogConfig| open_log(&logs, config);
        let server_log = config.reporting.access_log.as_ref().map(open).transpose();
        if let Err(error) = server_log {
            self.fault(None, error.into());
        }
        let unkept = config.acme.as_ref().and_then(|acme| unkept_certificates(&acme.folder, config));
        self.open_sites(config, &open);
        logs.remove_made();
        threads.expect_ends();
        self.remarks.extend(unkept);
        self.remarks.extend(config.unspooled());
        Ok(())
    }

    /// Opens all sites together, as a start does. If that fails, opens each part of each site separately, so that one
    /// check reports every fault.
    fn open_sites(&mut self, config: &mut Config, open_log: &dyn Fn(&LogConfig) -> Result<Arc<Log>, SitesError>) {
        let (keys, acme) = (std::mem::take(&mut config.privileges.keys), config.acme.take());
        let open = |sites: &[SiteConfig], is_secure, keys: &Keys| {
            let wanted =
                Wanted { sites, classes: None, access_log: None, open_log, acme: acme.as_ref(), may_lack: false };
            Current::open(&wanted, is_secure, keys.clone(), config.limits.spool.bytes_max)
        };
        let together = match open(&config.sites, config.is_secure(), &keys) {
            Ok(current) => {
                let served = current.served();
                let roots = served.roots.folders.iter().flatten();
                self.remarks.extend(roots.flat_map(|root| root.symlinks_out()).map(|line| line.to_string()));
                return self.remarks.extend(served.told.remarks.iter().cloned());
            }
            Err(error) => error,
        };
        let remarks = &mut self.remarks;
        let found = faults(&config.sites, &keys, |alone| {
            let current = open(std::slice::from_ref(alone), false, &keys)?;
            remarks.extend(current.served().told.remarks.iter().cloned());
            Ok(())
        });
        if found.is_empty() {
            return self.fault(None, together.into());
        }
        self.faults.extend(found);
    }
}

/// Opens the sites, or returns all faults of all of them.
pub(super) fn open_sites(config: &mut Config, logs: &Logs) -> Result<Current, Unstarted> {
    let open = |config: &LogConfig| open_log(logs, config);
    let keys = std::mem::take(&mut config.privileges.keys);
    let (classes, access_log) = (config.assigned.as_ref(), config.reporting.access_log.as_ref());
    let (acme, may_lack, spool) = (config.acme.as_ref(), config.may_lack, config.limits.spool.bytes_max);
    let wanted = Wanted { sites: &config.sites, classes, access_log, open_log: &open, acme, may_lack };
    let opened = Current::open(&wanted, config.is_secure(), keys.clone(), spool).map_err(|error| {
        let mut faults = faults(&config.sites, &keys, |alone| {
            let sites = std::slice::from_ref(alone);
            let alone = Wanted { sites, classes: None, access_log: None, ..wanted };
            Ok(Current::open(&alone, false, keys.clone(), spool).map(drop)?)
        });
        if faults.is_empty() {
            faults.push(Fault { of: None, error: error.into() });
        }
        Unstarted(faults)
    });
    opened.inspect(|_| logs.keep_made()).inspect_err(|_| logs.remove_made())
}

/// Opens each part of each site separately, and returns all faults.
pub(super) fn faults(
    sites: &[SiteConfig],
    keys: &Keys,
    mut open: impl FnMut(&SiteConfig) -> Result<(), StartError>,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (at, site) in sites.iter().enumerate() {
        let mut has_folder = true;
        for (part, alone) in parts(site) {
            if !has_folder && matches!(part, Part::ListingPage | Part::ErrorPage(_)) {
                continue;
            }
            let Err(error) = open(&alone) else { continue };
            if is_of_all(&error) {
                return vec![Fault { of: None, error }];
            }
            has_folder &= part != Part::Folder;
            let of = Some((at, part));
            faults.extend(all_of(error, site, keys).into_iter().map(|error| Fault { of, error }));
        }
    }
    faults
}

/// Explains why certificates cannot be stored in this folder, if so; then none is ordered. If the server changes its
/// user, a start creates the folder as root before that, and this is not checked.
fn unkept_certificates(folder: &Path, config: &Config) -> Option<String> {
    if folder.exists() {
        let tried = acme::Folder::new(folder.into()).try_out();
        return tried.err().map(|error| format!("no certificate is ordered: {error}"));
    }
    let above = folder.ancestors().find(|above| above.exists()).filter(|_| config.privileges.account.is_none())?;
    let access = match above.is_dir() {
        true => rustix::fs::access(above, rustix::fs::Access::WRITE_OK).err()?,
        false => rustix::io::Errno::NOTDIR,
    };
    let (folder, above) = (folder.display(), above.display());
    Some(format!(
        "no certificate is ordered: `{folder}` cannot be made in `{above}`: {access}; expected a folder of weir's user (--state)"
    ))
}

/// Splits a site into sites of one part each. The parts that need the folder come after the folder.
fn parts(site: &SiteConfig) -> Vec<(Part, SiteConfig)> {
    let bare = SiteConfig {
        dir: None,
        listing_page: None,
        answers: Answers::default(),
        log: None,
        https: Https::default(),
        ..site.clone()
    };
    let folder = SiteConfig { dir: site.dir.clone(), ..bare.clone() };
    let mut parts = vec![
        (Part::Folder, folder.clone()),
        (Part::ListingPage, SiteConfig { listing_page: site.listing_page.clone(), ..folder.clone() }),
        (Part::Certificate, SiteConfig { https: site.https.clone(), ..bare.clone() }),
        (Part::Log, SiteConfig { log: site.log.clone(), ..bare.clone() }),
    ];
    for (at, page) in site.answers.error_pages.iter().enumerate() {
        let error_root = site.answers.error_root.clone();
        let answers = Answers { error_pages: vec![page.clone()], error_root, ..Answers::default() };
        parts.push((Part::ErrorPage(at), SiteConfig { answers, ..folder.clone() }));
    }
    for (at, proxy) in site.answers.proxies.iter().enumerate() {
        let answers = Answers { proxies: vec![proxy.clone()], ..Answers::default() };
        parts.push((Part::Proxy(at), SiteConfig { answers, ..bare.clone() }));
    }
    for (at, access) in site.answers.access.iter().enumerate() {
        let answers = Answers { access: vec![access.clone()], ..Answers::default() };
        parts.push((Part::Access(at), SiteConfig { answers, ..bare.clone() }));
    }
    parts
}

/// Returns true for an error that concerns every part of every site.
fn is_of_all(error: &StartError) -> bool {
    matches!(error, StartError::Sites(SitesError::Secure(SecureError::Authorities(_))))
}

/// Returns all faults of the certificate and its key if `error` is about them, otherwise only `error`.
fn all_of(error: StartError, site: &SiteConfig, keys: &Keys) -> Vec<StartError> {
    let files = match (&error, &site.https.certificate) {
        (StartError::Sites(SitesError::Secure(SecureError::Identity(_))), Some(Certificate::Files { cert, key })) => {
            (cert, key)
        }
        _ => return vec![error],
    };
    let faults = Identity::faults(files.0, files.1, &|file| keys.read(file));
    let faults: Vec<StartError> =
        faults.into_iter().map(|fault| SitesError::from(SecureError::from(fault)).into()).collect();
    // The files may have been fixed since.
    if faults.is_empty() { vec![error] } else { faults }
}

/// Binds without listening, so no client can connect.
fn bind(address: SocketAddr, kind: Type) -> io::Result<()> {
    let protocol = if kind == Type::STREAM { Protocol::TCP } else { Protocol::UDP };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    socket.set_reuse_address(kind == Type::STREAM)?;
    socket.bind(&address.into())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn listen(address: SocketAddr) -> Listen {
        Listen { address, is_secure: false, has_http3: false, has_proxy_header: false }
    }

    #[test]
    fn an_address_in_use_is_a_remark_and_one_of_another_host_a_fault() {
        let used = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut checked = Checked::default();
        for address in [used.local_addr().unwrap(), "198.18.255.254:0".parse().unwrap(), "127.0.0.1:0".parse().unwrap()]
        {
            checked.bind(&listen(address));
        }
        let faults: Vec<String> = checked.faults.iter().map(|fault| fault.error.to_string()).collect();
        assert!(checked.remarks.len() == 1 && checked.remarks[0].contains("is in use"), "{:?}", checked.remarks);
        assert!(faults.len() == 1 && faults[0].starts_with("cannot listen on 198.18.255.254:0: "), "{faults:?}");
    }
}
