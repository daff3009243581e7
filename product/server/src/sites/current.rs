//! The current sites. A reload replaces the whole set in one step, and the event loops notice the new one at their next
//! wake-up.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use acme::{Folder, Renewer};
use config::UpstreamVersion;
use http::{Codings, Request};
use tls::{Acceptor, Connector, Roots as Authorities, RootsError, Tickets};

use super::lacks::{Lack, Lacks, Part, open_folder, open_named_files};
use super::login_gates::{Gate, open_gates};
use super::{
    AcmeConfig, Development, Ordered, SecureError, Secured, SiteConfig, Sites, SitesError, name_of, ordered_names,
    secure,
};
use crate::classes::{Assigned, ClassesChange, ClassesConfig};
use crate::disk::Room;
use crate::files::{Roots, SiteNumber};
use crate::logging::{Log, LogConfig};
use crate::service_manager::Keys;
use crate::upstream::resolver::{Name, Names};
use crate::upstream::{Group, NamedFiles, Scripts, Trust};

/// A set of sites with their folders and logs. All folders existed when the set was opened, except the recorded lacks.
pub struct Served {
    pub sites: Arc<Sites>,
    pub roots: Roots,
    /// The classes by the rules of a class file.
    pub assigned: Option<Arc<Assigned>>,
    behind: Behind,
    /// True if some upstreams have health checks.
    pub has_checks: bool,
    /// The log of each site, by the site's index: its own log or the server's.
    logs: Vec<Option<Arc<Log>>>,
    server_log: Option<Arc<Log>>,
    /// The acceptor for TLS connections; `None` if no site has a certificate.
    pub acceptor: Option<Acceptor>,
    pub told: Told,
    /// The expiry of each site's certificate, by the site's index; empty if no site has a certificate.
    not_after: Vec<Option<SystemTime>>,
    /// The names with certificates by ACME.
    ordered: Arc<Ordered>,
    renewer: Option<Renewer>,
}

/// Reports to the operator about a set of sites.
pub struct Told {
    /// Remarks on the certificates, and on upstreams' names.
    pub remarks: Vec<String>,
    /// The folders and pages that were missing.
    pub lacks: Vec<Lack>,
}

/// Opens a log, or returns the one that is open.
pub type OpenLog<'o> = dyn Fn(&LogConfig) -> Result<Arc<Log>, SitesError> + 'o;

/// The configuration to serve.
#[derive(Clone, Copy)]
pub struct Wanted<'w> {
    pub sites: &'w [SiteConfig],
    pub classes: Option<&'w ClassesConfig>,
    /// The log of the sites that have none of their own.
    pub access_log: Option<&'w LogConfig>,
    pub open_log: &'w OpenLog<'w>,
    pub acme: Option<&'w AcmeConfig>,
    /// True if folders and pages of sites may be missing.
    pub may_lack: bool,
}

/// The upstream groups of each site, by the site's index, in the order of the configuration.
struct Behind {
    groups: Vec<Vec<Arc<Group>>>,
    /// The gates of each site's access rules.
    gates: Vec<Vec<Gate>>,
}

impl Behind {
    /// Returns all upstreams, including authentication servers.
    fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        let asked = self.gates.iter().flatten().filter_map(|gate| Some(&gate.asked.as_ref()?.group));
        self.groups.iter().flatten().chain(asked)
    }
}

/// The state that is carried over from the previous sites.
struct Before<'b> {
    /// The number of the first site.
    first: SiteNumber,
    /// The previous sites; `None` at the start.
    served: Option<&'b Served>,
    tickets: &'b Tickets,
    development: &'b Development,
    keys: &'b Keys,
    spool: &'b Arc<Room>,
    names: &'b Arc<Names>,
    renewer: Option<&'b Renewer>,
}

impl Served {
    /// Opens all parts of the sites, logs last.
    fn open(wanted: &Wanted<'_>, assigned: Option<Assigned>, before: Before<'_>) -> Result<Served, SitesError> {
        let configs = wanted.sites;
        let Before { first, served: lacking, tickets, development, keys, spool, names, renewer } = before;
        let lacks = Lacks::new(wanted.may_lack, lacking);
        let open = |(at, site)| open_folder(at, site, &lacks);
        let mut folders = configs.iter().enumerate().map(open).collect::<Result<Vec<_>, _>>()?;
        let sites = Arc::new(Sites::open(configs, first, &lacks)?);
        let connectors = RefCell::default();
        let trust = |ca: Option<&Path>| connector(ca, keys, &connectors);
        let mut open_files = |of, files: (&Path, Codings)| open_named_files(of, files, (first, &mut folders), &lacks);
        names.introduce(&names_of(configs));
        let groups = configs.iter().enumerate().map(|site| groups(site, (spool, names), &trust, &mut open_files));
        let groups = groups.collect::<Result<Vec<_>, _>>()?;
        let behind = Behind { groups, gates: gates_of(configs, keys, (spool, names), &trust)? };
        let has_checks = behind.groups().any(|group| group.health.is_some());
        let automatic = renewer.map(Renewer::automatic);
        let secured = secure(configs, &sites, tickets, (keys, development), automatic)?;
        let (acceptor, mut remarks, not_after, ordered) = match secured {
            Some(Secured { acceptor, remarks, not_after, ordered }) => (Some(acceptor), remarks, not_after, ordered),
            None => (None, Vec::new(), Vec::new(), Arc::default()),
        };
        remarks.extend(behind.groups().flat_map(|group| group.addresses.remarks(names)));
        remarks.extend(configs.iter().filter_map(lacks_fallback));
        let (server_log, logs) = open_logs(wanted)?;
        let roots = Roots { first, folders: folders.into() };
        Ok(Served {
            sites,
            roots,
            assigned: assigned.map(Arc::new),
            behind,
            has_checks,
            logs,
            server_log,
            acceptor,
            told: Told { remarks, lacks: lacks.into_found() },
            not_after,
            ordered,
            renewer: renewer.cloned(),
        })
    }

    /// Returns the answer to an authority's challenge at this path, if one is pending.
    pub fn challenge_answer(&self, path: &[u8]) -> Option<String> {
        self.renewer.as_ref()?.tokens().answer(path)
    }

    /// Returns true if clients cannot use TLS for this request's host yet, because its certificate has not been issued.
    pub fn is_certificate_pending(&self, site: SiteNumber, request: &Request) -> bool {
        let Some(renewer) = &self.renewer else { return false };
        let host = request.fields.host.and_then(name_of);
        self.ordered.is_pending(self.sites.place(site), host.as_deref(), renewer.automatic())
    }

    /// Returns the group of upstreams to which a request for this site is passed on, if it is.
    pub fn group(&self, site: SiteNumber, request: &Request) -> Option<Arc<Group>> {
        let proxy = self.sites.proxy(site, request)?;
        Some(Arc::clone(&self.behind.groups[self.sites.place(site)][proxy]))
    }

    /// Returns the gate of the access rule with this index in a site.
    pub fn gate(&self, site: SiteNumber, at: usize) -> Option<&Gate> {
        self.behind.gates.get(self.sites.place(site))?.get(at)
    }

    /// Returns true if passwords have to be verified.
    pub fn has_users(&self) -> bool {
        self.behind.gates.iter().flatten().any(|gate| gate.users.is_some())
    }

    /// Returns the memory that a password verification may need. Passwords are verified one at a time.
    pub fn logins_bytes(&self) -> u64 {
        let users = self.behind.gates.iter().flatten().filter_map(|gate| gate.users.as_ref());
        users.map(|users| users.memory_bytes()).max().unwrap_or(0)
    }

    /// Returns true if this site has scripts that upstreams run; their source must not be sent.
    pub fn runs_scripts(&self, site: SiteNumber) -> bool {
        self.behind.groups[self.sites.place(site)].iter().any(|group| group.scripts.is_some())
    }

    /// Returns the names of the sites with a certificate, with its expiry.
    pub fn certificates(&self) -> impl Iterator<Item = (&str, SystemTime)> {
        self.sites.names().zip(&self.not_after).filter_map(|(site, end)| Some((site, (*end)?)))
    }

    /// Returns the upstreams of all sites, including authentication servers.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.behind.groups()
    }

    /// Returns the names of upstreams that must be resolved, each once.
    pub fn names(&self) -> Vec<Name> {
        let names: BTreeSet<&Name> = self.groups().flat_map(|group| group.addresses.names()).collect();
        names.into_iter().cloned().collect()
    }

    /// Returns true if upstreams answer requests of some site.
    pub fn has_proxies(&self) -> bool {
        self.groups().next().is_some()
    }

    /// Returns the log for a request of this site. A request of no site, or one refused before its site is known, is
    /// logged in the server's log, or else in the default site's or the first site's.
    pub fn log(&self, site: Option<SiteNumber>) -> Option<&Arc<Log>> {
        match site.and_then(|site| self.logs.get(self.sites.place(site))) {
            Some(own) => own.as_ref(),
            None => self.server_log.as_ref().or_else(|| self.logs.get(self.sites.default_place())?.as_ref()),
        }
    }
}

/// Opens the server's log, and for each site its own log or else the server's.
#[expect(clippy::type_complexity, reason = "each part goes into a field of its own")]
fn open_logs(wanted: &Wanted<'_>) -> Result<(Option<Arc<Log>>, Vec<Option<Arc<Log>>>), SitesError> {
    let own = |own: &LogConfig| (wanted.open_log)(own).map(Some);
    let server_log = wanted.access_log.map_or(Ok(None), own)?;
    let log = |site: &SiteConfig| site.log.as_ref().map_or(Ok(server_log.clone()), own);
    let logs = wanted.sites.iter().map(log).collect::<Result<_, _>>()?;
    Ok((server_log, logs))
}

/// Returns the gates of each site's access rules.
fn gates_of(
    configs: &[SiteConfig],
    keys: &Keys,
    (spool, names): (&Arc<Room>, &Arc<Names>),
    trust: &Trust,
) -> Result<Vec<Vec<Gate>>, SitesError> {
    let gates = configs.iter().map(|site| {
        let make = |proxy: &config::Proxy| -> Result<Arc<Group>, SitesError> {
            Ok(Arc::new(Group::new(first_host(site), proxy, spool, trust, names)?))
        };
        open_gates(site, keys, &make)
    });
    gates.collect()
}

/// Returns a remark if the fallback of a site does not exist.
fn lacks_fallback(site: &SiteConfig) -> Option<String> {
    let (fallback, dir) = (&site.answers.tries.fallback.as_ref()?.value, site.dir.as_ref()?);
    let file = dir.join(fallback.trim_start_matches('/'));
    let said = "expected a file; until it exists, navigations that lead nowhere get 404";
    (!file.is_file() && dir.is_dir()).then(|| format!("site.fallback `{}` of {}: {said}", file.display(), site.name))
}

/// Returns the names of all upstreams.
fn names_of(configs: &[SiteConfig]) -> Vec<Name> {
    let upstreams = configs.iter().flat_map(|site| site.answers.upstreams());
    let names: BTreeSet<Name> = upstreams.filter_map(Name::of_upstream).collect();
    names.into_iter().collect()
}

/// Returns the first host of a site, under which the sizes of its upstreams' responses are learned.
fn first_host(config: &SiteConfig) -> &str {
    config.hosts.first().map_or("default", String::as_str)
}

/// Opens a folder from which upstreams may name files, for a part of a site.
type OpenNamedFiles<'o> = dyn FnMut((usize, Part), (&Path, Codings)) -> Result<SiteNumber, SitesError> + 'o;

/// Creates the upstream groups of a site, with their addresses.
fn groups(
    (site, config): (usize, &SiteConfig),
    (spool, names): (&Arc<Room>, &Arc<Names>),
    trust: &Trust,
    open_files: &mut OpenNamedFiles<'_>,
) -> Result<Vec<Arc<Group>>, SitesError> {
    let name = first_host(config);
    let group = |(at, proxy): (usize, &config::Proxy)| {
        let group = Group::new(name, proxy, spool, trust, names)?;
        let files = match &proxy.accel_root {
            Some(dir) => Some(NamedFiles::new(open_files((site, Part::Proxy(at)), (dir, config.files.codings))?, dir)),
            None => None,
        };
        let pages = config.answers.error_pages.iter().filter(|_| proxy.intercept_errors);
        let intercepted = pages.map(|page| page.statuses).collect();
        Ok(Arc::new(Group { files, intercepted, scripts: scripts(config, proxy), ..group }))
    };
    config.answers.proxies.iter().enumerate().map(group).collect()
}

/// Returns the scripts that a proxy of a site runs, if its upstreams speak FastCGI.
fn scripts(config: &SiteConfig, proxy: &config::Proxy) -> Option<Scripts> {
    let dir = config.dir.as_ref().filter(|_| proxy.version() == UpstreamVersion::FastCgi)?;
    let root = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
    let root = root.components().as_path().as_os_str().as_bytes().to_vec();
    let except = proxy.fastcgi_except.clone();
    Some(Scripts { root, except, keeps_connections: proxy.fastcgi_keep_conn })
}

/// Returns the connector for this file of authorities; upstreams with the same file share one.
fn connector(
    ca: Option<&Path>,
    keys: &Keys,
    known: &RefCell<HashMap<Option<PathBuf>, Connector>>,
) -> Result<Connector, RootsError> {
    if let Some(known) = known.borrow().get(&ca.map(Path::to_path_buf)) {
        return Ok(known.clone());
    }
    let read = |file: &Path| keys.read(file);
    let connector =
        Connector::new(ca.map_or_else(|| Authorities::of_system(&read), |file| Authorities::read(file, &read))?);
    known.borrow_mut().insert(ca.map(Path::to_path_buf), connector.clone());
    Ok(connector)
}

impl Drop for Served {
    fn drop(&mut self) {
        Log::release(std::mem::take(&mut self.logs).into_iter().chain([self.server_log.take()]).flatten());
    }
}

pub struct Current {
    served: Mutex<Arc<Served>>,
    /// The number of replacements so far.
    turn: AtomicU64,
    /// The session ticket keys. All sets share them, so that a client can resume its session under a new set.
    tickets: Tickets,
    development: Development,
    /// True if a listener uses TLS.
    is_secure: bool,
    /// The reader of certificates and keys.
    keys: Keys,
    /// The disk space for the responses of all proxies.
    spool: Arc<Room>,
    /// The names of upstreams.
    names: Arc<Names>,
    /// True if a thread resolves the names periodically.
    is_followed: AtomicBool,
    /// The renewer of certificates. `None` if the server was started without ACME.
    renewer: Option<Renewer>,
}

impl Current {
    /// Opens the first set. `is_secure` is true if clients of a listener use TLS.
    pub fn open(wanted: &Wanted<'_>, is_secure: bool, keys: Keys, spool_bytes_max: u64) -> Result<Current, SitesError> {
        let tickets = Tickets::new().ok_or(SitesError::Tickets(io::ErrorKind::Other.into()))?;
        let spool = Room::new(spool_bytes_max);
        let development = Development::new();
        let names = Arc::<Names>::default();
        let renewer = wanted.acme.map(|acme| Renewer::new(Folder::new(acme.folder.clone()), acme.hook.clone()));
        let before = Before {
            first: 0,
            served: None,
            tickets: &tickets,
            development: &development,
            keys: &keys,
            spool: &spool,
            names: &names,
            renewer: renewer.as_ref(),
        };
        let served = Served::open(wanted, wanted.classes.map(Assigned::new), before)?;
        let served = Arc::new(ordering(checked(served, is_secure)?, wanted, &keys)?);
        Ok(Current {
            served: Mutex::new(served),
            turn: AtomicU64::new(0),
            tickets,
            development,
            is_secure,
            keys,
            spool,
            names,
            is_followed: AtomicBool::new(false),
            renewer,
        })
    }

    pub fn names(&self) -> &Arc<Names> {
        &self.names
    }

    /// Returns true, once, if a thread must be started that resolves names periodically.
    pub fn needs_follower(&self) -> bool {
        !self.served().names().is_empty() && !self.is_followed.swap(true, Ordering::Relaxed)
    }

    /// Replaces the sites with these. On an error, the old sites stay. The new sites get new numbers, so that a request
    /// begun under the old set is not attributed to a new site.
    pub fn replace(&self, wanted: &Wanted<'_>) -> Result<(), SitesError> {
        let before = self.served();
        let assigned = match (&before.assigned, wanted.classes) {
            (Some(before), Some(classes)) => Some(before.succeeded_by(classes)?),
            (None, None) => None,
            _ => return Err(ClassesChange::Presence.into()),
        };
        let first = before.roots.end();
        let Current { tickets, development, keys, spool, names, renewer, .. } = self;
        let renewer = renewer.as_ref();
        let before = Before { first, served: Some(&before), tickets, development, keys, spool, names, renewer };
        let served = checked(Served::open(wanted, assigned, before)?, self.is_secure)?;
        let served = Arc::new(ordering(served, wanted, keys)?);
        *self.served.lock().unwrap_or_else(PoisonError::into_inner) = served;
        self.turn.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Opens these sites as [`Current::replace`] does, and closes them again.
    pub fn try_out(&self, wanted: &Wanted<'_>) -> Result<(), SitesError> {
        let Current { tickets, development, keys, spool, .. } = self;
        let (names, renewer) = (&Arc::default(), self.renewer.as_ref());
        let in_force = self.served();
        let before = Before { first: 0, served: Some(&in_force), tickets, development, keys, spool, names, renewer };
        Served::open(wanted, None, before).map(drop)
    }

    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Sets the disk space for spooled responses.
    pub fn set_spool(&self, bytes_max: u64) {
        self.spool.set_bytes_max(bytes_max);
    }

    /// Returns the renewer of certificates, if the server was started with ACME.
    pub fn renewer(&self) -> Option<&Renewer> {
        self.renewer.as_ref()
    }

    pub fn served(&self) -> Arc<Served> {
        Arc::clone(&self.served.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the current sites if they are newer than generation `than`, and sets `than` to their generation.
    pub fn newer(&self, than: &mut u64) -> Option<Arc<Served>> {
        let turn = self.turn.load(Ordering::Acquire);
        (std::mem::replace(than, turn) != turn).then(|| self.served())
    }
}

/// Returns an error if a certificate is needed and no site has one.
fn checked(served: Served, is_secure: bool) -> Result<Served, SitesError> {
    if is_secure && served.acceptor.is_none() {
        return Err(SecureError::NoCertificate.into());
    }
    Ok(served)
}

/// Orders the certificates of these sites from now on. This is the last step, because nothing may fail after it.
fn ordering(mut served: Served, wanted: &Wanted<'_>, keys: &Keys) -> Result<Served, SitesError> {
    if let Some(renewer) = &served.renewer {
        let settings = wanted.acme.map(|acme| acme.settings(keys)).transpose()?;
        served.told.remarks.extend(renewer.want(settings, &ordered_names(wanted.sites)));
    }
    Ok(served)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(sites: &[SiteConfig]) -> Wanted<'_> {
        let open_log = &|_: &LogConfig| unreachable!("no site has a log");
        Wanted { sites, classes: None, access_log: None, open_log, acme: None, may_lack: true }
    }

    #[test]
    fn a_set_that_cannot_be_changes_nothing() {
        let site = |dir: &str| SiteConfig::alone(dir.into(), Default::default());
        let current = Current::open(&wanted(&[site("/")]), false, Keys::default(), 0).unwrap();
        let mut turn = 0;
        assert!(current.newer(&mut turn).is_none());
        assert!(current.replace(&wanted(&[site("/"), site("/none/of/that/name")])).is_err());
        assert!(current.newer(&mut turn).is_none() && current.served().sites.of(None) == Some(0));
        current.replace(&wanted(&[site("/"), site("/")])).unwrap();
        let newer = current.newer(&mut turn).unwrap();
        assert_eq!((newer.sites.of(None), newer.roots.first, newer.roots.end()), (Some(1), 1, 3));
        assert!(current.newer(&mut turn).is_none());
    }

    /// One site whose disk is not mounted yet stopped all of them. A new path that is wrong still stops a reload.
    #[test]
    fn a_site_whose_folder_is_missing_stops_no_other() {
        let folder = crate::files::temporary::Folder::new();
        folder.put("one/a", "");
        let site = |dir: &str| SiteConfig::alone(folder.path(dir), Default::default());
        let file = "[[site]]\nroot = 'r'\n[[site.error_page]]\nstatus = 404\nfile = '/404.html'";
        let Ok(file) = config::read(file.as_bytes()) else { panic!("a right file") };
        let page = &file.sites[0].answers.error_pages[0];
        let paged = |dir: &str| {
            let answers = config::Answers { error_pages: vec![page.clone()], ..config::Answers::default() };
            SiteConfig { answers, ..site(dir) }
        };
        let sites = [site("one"), paged("disk/two")];
        let strict = Wanted { may_lack: false, ..wanted(&sites) };
        assert!(Current::open(&strict, false, Keys::default(), 0).is_err());
        let current = Current::open(&wanted(&sites), false, Keys::default(), 0).unwrap();
        let lacks = || current.served().told.lacks.iter().map(|lack| (lack.site, lack.part)).collect::<Vec<_>>();
        assert_eq!(lacks(), [(1, Part::Folder), (1, Part::ErrorPage(0))]);
        assert!(current.served().told.lacks[0].said.ends_with("; its files are missing until it is there"));
        current.replace(&wanted(&[paged("disk/two"), site("one")])).unwrap();
        assert_eq!(lacks(), [(0, Part::Folder), (0, Part::ErrorPage(0))]);
        assert!(current.replace(&wanted(&[paged("disk/two"), site("oen")])).is_err(), "a new root");
        folder.put("disk/two/404.html", "lost");
        current.replace(&wanted(&sites)).unwrap();
        assert_eq!(lacks(), []);
        std::fs::remove_dir_all(folder.path("disk")).unwrap();
        current.replace(&wanted(&sites)).unwrap();
        assert_eq!(lacks(), [(1, Part::Folder), (1, Part::ErrorPage(0))], "gone while it was served");
    }
}
