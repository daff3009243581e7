//! Replaces the configuration of a running server, either completely or not at all.
//!
//! The steps that can fail come first: folders, certificates and logs are opened before the event loops take anything
//! over. An event loop takes over its settings at the beginning of a turn ([`crate::event_loop`](self)), and the reload
//! is complete when all loops have done so.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use sched::Settings;
use sched::policy::{ClientShare, PolicySpec};

use super::{Config, Fault, STATUS_WAIT_MAX, Server, StartError, check, confine, open_log, order};
use crate::classes::ClassesConfig;
use crate::clients::ClientRate;
use crate::disk::{BUFFERED_BYTES_MAX, SpoolConfig};
use crate::event_loop::{Change, LinkChange, MemoryShare, NewSettings};
use crate::files::CacheLimits;
use crate::limits::Limits;
use crate::logging::LogConfig;
use crate::memory::MemoryLimit;
use crate::send::{LineSettings, LinkSettings};
use crate::service_manager::NamedSocket;
use crate::shaping::ShapingChoice;
use crate::sites::{AcmeConfig, SiteConfig, Wanted};

/// The new settings of a running server.
pub struct Reload<'r> {
    pub sites: &'r [SiteConfig],
    pub classes: Option<&'r ClassesConfig>,
    /// The access log for requests of no site, and for sites without a log of their own.
    pub access_log: Option<LogConfig>,
    /// Ignored unless the server was started with ACME.
    pub acme: Option<AcmeConfig>,
    pub limits: Limits,
    /// The new shaping; `None` if the uplink's settings are unchanged.
    pub shaping: Option<ShapingChoice>,
    /// True if the operator changed the line's rate, so that the measured rate no longer applies.
    pub is_line_new: bool,
}

/// The parts of the current configuration that are compared with the next one.
pub(super) struct InForce {
    pub workers: usize,
    /// The maximum number of connections that the limit on open files allows, after the descriptors of the event loops.
    pub connections_allowed: usize,
    pub shaping: &'static str,
    pub order: OrderKey,
    pub stop_timeout: Duration,
    /// All listening sockets.
    pub sockets: Vec<NamedSocket>,
}

/// The settings that make two orders of responses different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OrderKey {
    policy: PolicySpec,
    guard_permille: u32,
    client_share: Option<ClientShare>,
}

impl OrderKey {
    pub fn of(shaping: &ShapingChoice) -> OrderKey {
        let (policy, guard_permille) = (shaping.policy.clone(), shaping.guard_permille);
        OrderKey { policy, guard_permille, client_share: shaping.client_share() }
    }
}

impl InForce {
    pub fn of(config: &Config, connections_allowed: usize, sockets: Vec<NamedSocket>) -> InForce {
        InForce {
            workers: config.workers,
            connections_allowed,
            shaping: config.shaping.name(),
            order: OrderKey::of(&config.shaping),
            stop_timeout: config.limits.stop_timeout,
            sockets,
        }
    }

    /// Returns the changes to the write path of a worker.
    fn link(&self, shaping: &mut ShapingChoice, is_line_new: bool) -> LinkChange {
        let is_reordered = self.order != OrderKey::of(shaping);
        let order = order(shaping);
        LinkChange {
            settings: LinkSettings {
                scheduler: Settings {
                    order: is_reordered.then(|| (shaping.policy_of_all(), shaping.guard())),
                    pace: shaping.pace,
                },
                line: is_line_new.then(|| LineSettings { bounds: shaping.bounds, gauge: shaping.gauge.take() }),
            },
            is_direct: shaping.is_memoryless(),
            order,
        }
    }
}

impl MemoryShare {
    pub(super) fn of(memory: &MemoryLimit, logins_bytes: u64, workers: usize) -> MemoryShare {
        let cache_bytes = usize::try_from(memory.caches_bytes(workers)).unwrap_or(usize::MAX);
        MemoryShare {
            connections_bytes: memory.connections_bytes(logins_bytes, workers),
            cache: CacheLimits::per_worker(workers).within(cache_bytes),
        }
    }
}

impl Server {
    /// Applies the new settings. On an error, the old settings stay. Responses in progress end under the settings with
    /// which they began, except that the new order and pace apply to them.
    pub fn reload(&self, mut reload: Reload<'_>) -> Result<(), StartError> {
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shaping) = &reload.shaping
            && (shaping.name() != in_force.shaping || shaping.name() == "bands")
        {
            let is_same = shaping.name() == in_force.shaping;
            let after = if is_same { "bands with other settings" } else { shaping.name() };
            return Err(StartError::OtherShaping { before: in_force.shaping, after });
        }
        self.replace_sites(&reload)?;
        if let Err(error) = self.follow_names() {
            self.tell(&format!("names of upstreams are not looked up again: {error}"));
        }
        if let Err(error) = self.start_renewer() {
            self.tell(&format!("certificates are not ordered: {error}"));
        }
        if let Err(error) = self.start_verifier() {
            self.tell(&format!("passwords are not verified: {error}; run `weir upgrade`"));
        }
        self.set_shared_limits(&reload.limits, in_force.connections_allowed);
        let (logins_bytes, memory) = (self.current.served().logins_bytes(), reload.limits.memory);
        self.tell_memory(&memory);
        for (changes, wake) in self.loops.changes.iter().zip(&self.loops.wakes) {
            let client_rate = reload.limits.client_rate_max.map(|_| Arc::clone(&self.clients) as Arc<dyn ClientRate>);
            let settings = NewSettings {
                limits: reload.limits.clone(),
                memory: MemoryShare::of(&memory, logins_bytes, in_force.workers),
                client_rate,
                link: reload.shaping.as_mut().map(|shaping| in_force.link(shaping, reload.is_line_new)),
            };
            let change = Change::Settings(Box::new(settings));
            changes.hand_over(change, || wake.set(), STATUS_WAIT_MAX);
        }
        if let Some(shaping) = &reload.shaping {
            in_force.order = OrderKey::of(shaping);
        }
        in_force.stop_timeout = reload.limits.stop_timeout;
        Ok(())
    }

    /// Logs that the verification of a password takes more memory than is available.
    pub(super) fn tell_memory(&self, memory: &MemoryLimit) {
        memory.short_for_logins(self.current.served().logins_bytes()).inspect(|line| self.tell(line));
    }

    /// Replaces the sites. The event loops take them over with the next change that they receive.
    fn replace_sites(&self, reload: &Reload<'_>) -> Result<(), StartError> {
        let open = |config: &LogConfig| open_log(&self.logs, config);
        let reached = self.reaches(reload.sites, Some(&reload.limits.spool));
        let Reload { sites, classes, .. } = *reload;
        let (access_log, acme) = (reload.access_log.as_ref(), reload.acme.as_ref());
        let wanted = Wanted { sites, classes, access_log, open_log: &open, acme, may_lack: true };
        let replaced = reached.and_then(|()| Ok(self.current.replace(&wanted)?));
        match &replaced {
            Ok(()) => self.logs.keep_made(),
            Err(_) => self.logs.remove_made(),
        }
        self.logs.forget_unused();
        replaced.map_err(|error| self.explained(error))
    }

    /// Returns the reasons why these sites and this server log cannot replace the current ones. Changes nothing.
    pub fn faults(&self, sites: &[SiteConfig], access_log: Option<&LogConfig>) -> Vec<Fault> {
        let open = |config: &LogConfig| open_log(&self.logs, config);
        let log = access_log.and_then(|log| open(log).err()).map(|error| Fault { of: None, error: error.into() });
        let mut faults = check::faults(sites, self.current.keys(), |alone| {
            let sites = std::slice::from_ref(alone);
            let wanted = Wanted { sites, classes: None, access_log: None, open_log: &open, acme: None, may_lack: true };
            self.reaches(sites, None).and_then(|()| Ok(self.current.try_out(&wanted)?))
        });
        faults.extend(log);
        self.logs.remove_made();
        self.logs.forget_unused();
        faults.into_iter().map(|Fault { of, error }| Fault { of, error: self.explained(error) }).collect()
    }

    /// Returns an error if the sandbox forbids access that these sites, or the spool, need.
    fn reaches(&self, sites: &[SiteConfig], spool: Option<&SpoolConfig>) -> Result<(), StartError> {
        self.granted.map_or(Ok(()), |granted| confine::out_of_reach(granted, sites, spool))
    }

    /// Adds the sandbox to the error, if it may be the reason.
    fn explained(&self, error: StartError) -> StartError {
        if self.is_sandboxed() { confine::explained(error) } else { error }
    }

    /// Returns true if access is confined to the files that were named at the start.
    pub fn is_sandboxed(&self) -> bool {
        self.granted.is_some()
    }

    /// Sets the limits that all event loops share.
    fn set_shared_limits(&self, limits: &Limits, connections_allowed: usize) {
        self.places.set_max(limits.connections_max.min(connections_allowed).max(1));
        self.clients.set_limits(limits.clients(self.places.max()));
        self.pool.set_bound(limits.memory.reads_bytes().min(BUFFERED_BYTES_MAX));
        self.loops.coder.set_bytes_max(limits.memory.coded_bytes());
        self.logs.bound(usize::try_from(limits.memory.logs_bytes()).unwrap_or(usize::MAX));
        self.current.set_spool(limits.spool.bytes_max);
    }

    /// Handles the end of the previous process, which owned these sockets: from now on only this process reads their
    /// datagrams.
    pub fn on_predecessor_ended(&self) {
        for (changes, wake) in self.loops.changes.iter().zip(&self.loops.wakes) {
            changes.hand_over(Change::PredecessorEnded, || wake.set(), STATUS_WAIT_MAX);
        }
    }

    /// Returns a function with which another thread can reopen the logs, like [`Server::reopen_logs`], even while the
    /// server ends.
    pub fn logs_reopener(&self) -> impl Fn() + Send + use<> {
        self.logs.reopener()
    }

    /// Returns all listening sockets for the process that follows this one.
    pub fn sockets(&self) -> std::io::Result<Vec<NamedSocket>> {
        let in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        let clone = |one: &NamedSocket| Ok(NamedSocket { name: one.name.clone(), socket: one.socket.try_clone()? });
        in_force.sockets.iter().map(clone).collect()
    }

    /// Returns remarks for the operator on the current certificates and on upstreams' names.
    pub fn remarks(&self) -> Vec<String> {
        self.current.served().told.remarks.clone()
    }

    /// Returns the time for which a stopping server continues to send.
    pub fn stop_timeout(&self) -> Duration {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner).stop_timeout
    }
}
