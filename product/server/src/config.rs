//! Everything the server needs to know, resolved: no option is left open, and every value has its reason.

use std::net::SocketAddr;

use crate::classes::ClassesConfig;
use crate::kept::Keeper;
use crate::limits::Limits;
use crate::logging::LogConfig;
use crate::service::{PassedSocket, Privileges, Watchdog};
use crate::shaping::ShapingChoice;
use crate::sites::SiteConfig;

/// Most event loops.
pub const WORKERS_MAX: usize = 256;

pub struct Config {
    /// At least one.
    pub sites: Vec<SiteConfig>,
    /// Sockets that listen already.
    pub passed: Vec<PassedSocket>,
    /// Addresses that are to be listened on; at least one, or a socket that was passed.
    pub listen: Vec<Listen>,
    pub privileges: Privileges,
    /// To be fed while all event loops turn.
    pub watchdog: Option<Watchdog>,
    /// Connections the kernel keeps on each listening socket before we accept them; it lowers this to net.core.somaxconn.
    pub backlog: u16,
    /// Event loops, each a thread with listening sockets of its own. One per core serves the most; one alone keeps the
    /// other cores free. At most [`WORKERS_MAX`]; one with the shaping paced, see [`crate::worker`](self).
    pub workers: usize,
    pub shaping: ShapingChoice,
    /// Where the rate of the line is kept over a restart.
    pub keeper: Option<Keeper>,
    /// The same by the rules of a file; the scheduler has their table.
    pub assigned: Option<ClassesConfig>,
    pub limits: Limits,
    pub reporting: Reporting,
}

/// What is kept of responses.
#[derive(Debug, Clone, Default)]
pub struct Reporting {
    /// Of the sites without their own, and of requests for no site.
    pub access_log: Option<LogConfig>,
    /// Whether they are counted; 144 bytes for each under way that is not logged.
    pub has_metrics: bool,
}

impl Config {
    /// All that are listened on.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.passed.iter().map(|socket| socket.address).chain(self.listen.iter().map(|listen| listen.address))
    }

    /// Whether responses of upstreams may go to files.
    pub fn is_spooling(&self) -> bool {
        let mut proxies = self.sites.iter().flat_map(|site| &site.answers.proxies);
        self.limits.spool.bytes_max > 0 && proxies.any(|proxy| proxy.spool_bytes > 0)
    }

    /// Why they will not, where they should.
    pub fn unspooled(&self) -> Option<String> {
        let spool = &self.limits.spool;
        let error = self.is_spooling().then(|| spool.try_out().err())??;
        let folder = spool.folder.display();
        Some(format!(
            "no file can be made in `{folder}`: {error}; slow clients hold upstreams: set server.spool_folder or --spool-folder"
        ))
    }

    /// Whether clients of any of them speak TLS.
    pub fn is_secure(&self) -> bool {
        self.passed.iter().any(|socket| socket.is_secure) || self.listen.iter().any(|listen| listen.is_secure)
    }

    /// One order of all responses, one count of a class's.
    pub fn has_one_loop(&self) -> bool {
        self.shaping.is_paced() || self.assigned.is_some()
    }
}

/// An address that is listened on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    pub address: SocketAddr,
    /// Its clients speak TLS.
    pub is_secure: bool,
    /// They may speak HTTP/3 too, over UDP at the same address; not without TLS, nor in a build without it.
    pub has_http3: bool,
    /// Its connections begin with a header of the PROXY protocol.
    pub has_proxy_header: bool,
}
