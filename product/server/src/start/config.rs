//! The server's resolved configuration: every option has a value, and every value a reason.

use std::net::SocketAddr;

use crate::classes::ClassesConfig;
use crate::disk::SpoolConfig;
use crate::kept_rates::Keeper;
use crate::limits::Limits;
use crate::logging::LogConfig;
use crate::service_manager::{Listen, PassedSocket, Privileges, Watchdog};
use crate::shaping::ShapingChoice;
use crate::sites::{AcmeConfig, SiteConfig};

/// The maximum number of event loops.
pub const WORKERS_MAX: usize = 256;

pub struct Config {
    /// The sites; at least one.
    pub sites: Vec<SiteConfig>,
    /// True if sites are served without their missing folders or pages; otherwise a missing one makes the start fail.
    pub may_lack: bool,
    /// Sockets that are listening already.
    pub passed: Vec<PassedSocket>,
    /// Addresses to listen on; at least one, unless a socket was passed.
    pub listen: Vec<Listen>,
    pub privileges: Privileges,
    /// The watchdog, which is fed while all event loops turn.
    pub watchdog: Option<Watchdog>,
    /// The number of connections that the kernel queues on each listening socket until they are accepted. The kernel
    /// caps it at net.core.somaxconn.
    pub backlog: u16,
    /// The number of event loops, each a thread with its own listening sockets. One per core has the highest
    /// throughput; a single one leaves the other cores free. At most [`WORKERS_MAX`], and one if the shaping is paced,
    /// see [`crate::event_loop`](self).
    pub workers: usize,
    pub shaping: ShapingChoice,
    /// Keeps the rate of the line across restarts.
    pub keeper: Option<Keeper>,
    /// The classes of responses according to the rules of a class file. Their table is in the scheduler.
    pub assigned: Option<ClassesConfig>,
    pub limits: Limits,
    pub reporting: Reporting,
    /// The authority that issues certificates, if sites have automatic certificates.
    pub acme: Option<AcmeConfig>,
}

/// Records kept about responses.
#[derive(Debug, Clone, Default)]
pub struct Reporting {
    /// The access log for requests of no site, and for sites without a log of their own.
    pub access_log: Option<LogConfig>,
    /// True if responses are counted, which takes 144 bytes for each response in progress that is not logged.
    pub has_metrics: bool,
}

/// Returns true if responses of these sites' upstreams may be spooled to files.
pub(super) fn is_spooling(sites: &[SiteConfig], spool: &SpoolConfig) -> bool {
    let mut proxies = sites.iter().flat_map(|site| &site.answers.proxies);
    spool.bytes_max > 0 && proxies.any(|proxy| proxy.max_temp_file_bytes > 0)
}

impl Config {
    /// All listening addresses.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.passed.iter().map(|socket| socket.address).chain(self.listen.iter().map(|listen| listen.address))
    }

    /// Returns true if upstream responses may be spooled to files.
    pub fn is_spooling(&self) -> bool {
        is_spooling(&self.sites, &self.limits.spool)
    }

    /// Returns the reason why responses cannot be spooled although the configuration asks for it.
    pub fn unspooled(&self) -> Option<String> {
        let spool = &self.limits.spool;
        let error = self.is_spooling().then(|| spool.try_out().err())??;
        let folder = spool.folder.display();
        Some(format!(
            "no file can be made in `{folder}`: {error}; slow clients hold upstreams: set server.spool_folder or --spool-folder"
        ))
    }

    /// Returns true if clients use TLS on any of the sockets.
    pub fn is_secure(&self) -> bool {
        self.passed.iter().any(|socket| socket.is_secure) || self.listen.iter().any(|listen| listen.is_secure)
    }

    /// Returns true if there must be a single event loop, to have one order of all responses or one count of each
    /// class.
    pub fn has_one_loop(&self) -> bool {
        self.shaping.is_paced() || self.assigned.is_some()
    }
}
