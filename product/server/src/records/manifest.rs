//! How a recorded run was made, as far as a server knows.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use record::{Manifest, Wire};
use rustix::time::{ClockId, clock_gettime};
use units::wire::{CONNECTION_BYTES, SEGMENT_BYTES, bytes_of};
use units::{Nanos, Rate};

use super::thread::folder_of;
use super::{RecordsConfig, Row};
use crate::config::Config;

/// What is known from the start.
#[derive(Debug, Clone)]
pub struct About {
    pub path: PathBuf,
    command: Vec<String>,
    version: String,
    commit: String,
    policy: String,
    drain: &'static str,
    /// Which drain, and why.
    why: String,
    link: Option<Rate>,
    listen: SocketAddr,
    workers: usize,
    /// Names of the classes by number, where there are several.
    pub(super) classes: Vec<String>,
    started_unix_ns: u128,
}

/// What has been seen since the file was begun.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    began_at: Nanos,
    cpu_before: Nanos,
    rows: u64,
    connections: u64,
    /// Of all responses on the wire, as far as they were asked for.
    wire_bytes: u64,
    /// Of the rows of earlier files, those that were not sent and those that were not written.
    lost_before: (u64, u64),
    reopened: u64,
}

impl Tally {
    pub fn new(began_at: Nanos) -> Tally {
        Tally { began_at, cpu_before: cpu(), ..Tally::default() }
    }

    /// For the next file, when so many rows were not sent and so many not written.
    pub fn next(&self, began_at: Nanos, lost_before: (u64, u64)) -> Tally {
        Tally { reopened: self.reopened + 1, lost_before, ..Tally::new(began_at) }
    }

    pub fn add(&mut self, row: &Row) {
        self.rows += 1;
        self.connections += u64::from(row.opens);
        let payload_bytes = row.record.size_bytes.saturating_add(row.record.head_bytes);
        self.wire_bytes = self.wire_bytes.saturating_add(bytes_of(payload_bytes, SEGMENT_BYTES));
    }

    /// Requests on each connection.
    fn per_connection(&self) -> u64 {
        let connections = self.connections.max(1);
        ((self.rows + connections / 2) / connections).max(1)
    }

    /// What came over what the link carries meanwhile.
    fn rho(&self, link: Option<Rate>, seconds: f64) -> f64 {
        let Some(link) = link.filter(|_| seconds > 0.0) else { return 0.0 };
        let bytes = self.wire_bytes as f64 + (self.connections * CONNECTION_BYTES) as f64;
        8.0 * bytes / (link.bits_per_s() as f64 * seconds)
    }
}

/// Of the classes, by number.
fn names(config: &Config) -> Vec<String> {
    let classes = config.assigned.iter().flat_map(|assigned| &assigned.table.classes);
    classes.map(|class| class.name.clone()).collect()
}

impl About {
    pub fn new(records: &RecordsConfig, config: &Config, listen: SocketAddr) -> About {
        let RecordsConfig { path, command, version, commit } = records.clone();
        About {
            path,
            command,
            version,
            commit,
            policy: config.drain.policy.to_string(),
            drain: config.drain.name(),
            why: config.drain.why.clone(),
            link: config.drain.link,
            listen,
            workers: config.workers,
            classes: names(config),
            started_unix_ns: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos(),
        }
    }

    /// Of the file that is open, when so many rows were not sent and so many not written.
    pub(super) fn manifest(&self, tally: &Tally, lost: (u64, u64), now: Nanos) -> Manifest {
        let seconds = (now - tally.began_at).as_secs_f64();
        let (unsent, unwritten) = (lost.0 - tally.lost_before.0, lost.1 - tally.lost_before.1);
        let of = tally.rows + unsent;
        let manifest = Manifest {
            name: name(folder_of(&self.path)),
            server: "weir".into(),
            policy: self.policy.clone(),
            drain: self.drain.into(),
            link_bps: self.link.map_or(0, Rate::bits_per_s),
            rho: tally.rho(self.link, seconds),
            seed: 0,
            per_connection: tally.per_connection(),
            seconds,
            commit: self.commit.clone(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            command: self.command.clone(),
            server_cpu: (seconds > 0.0).then(|| (cpu() - tally.cpu_before).as_secs_f64() / seconds),
            client_cpu: None,
            lateness_ns_p99: None,
            wire_bytes: None,
            void: (unsent + unwritten > 0).then(|| format!("{} of {of} rows were lost", unsent + unwritten)),
            baseline: None,
            closed: None,
            wire: Wire::default(),
            clients: self.classes.clone(),
            environment: self.environment(tally, (unsent, unwritten)),
        };
        manifest.of_server()
    }

    fn environment(&self, tally: &Tally, (unsent, unwritten): (u64, u64)) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("version".into(), self.version.clone()),
            ("drain_why".into(), self.why.clone()),
            ("listen".into(), self.listen.to_string()),
            ("workers".into(), self.workers.to_string()),
            ("started_unix_ns".into(), self.started_unix_ns.to_string()),
            ("connections".into(), tally.connections.to_string()),
            ("rows_written".into(), (tally.rows - unwritten.min(tally.rows)).to_string()),
            ("rows_lost_in_queue".into(), unsent.to_string()),
            ("rows_lost_in_writing".into(), unwritten.to_string()),
            ("file_reopened".into(), tally.reopened.to_string()),
        ])
    }
}

/// CPU time of the process so far.
fn cpu() -> Nanos {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// A run is called as its folder is.
fn name(folder: &Path) -> String {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let whole = fs::canonicalize(folder).ok();
    whole.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned())).unwrap_or_else(|| "weir".into())
}
