//! Reloads the configuration while the server runs. Either all of it takes effect, or none.

use std::path::Path;

use cli::Failure;
use server::{Fault, LogConfig, Reload, Server, SiteConfig, SitesError, StartError};

use super::unmet::Unmet;
use super::{Flags, Hosted, access_log, acme, limits, shaping};

/// The source of a server's configuration.
pub trait Source {
    /// The file. It is read again as the user to which the server has switched; `None` without a file.
    fn file(&self) -> Option<&Path>;
    /// Reads the current configuration.
    fn next(&self) -> Result<Next, Refused>;
    /// Returns, with their places, the faults of the last-read configuration that a server finds when it opens the
    /// files and addresses in it.
    fn placed(&self, faults: &[Fault]) -> Vec<String>;
    /// Records that the last-read configuration is now used; the next one is compared with it.
    fn adopt(&self);
    /// Returns the failure for a setting that this machine cannot provide, with its place.
    fn unmet(&self, unmet: Unmet) -> Failure;
}

/// The configuration of flags: a single site, whose folder, certificate and log are opened again.
pub struct OfFlags {
    pub site: SiteConfig,
    pub flags: Flags,
}

impl Source for OfFlags {
    fn file(&self) -> Option<&Path> {
        None
    }

    fn next(&self) -> Result<Next, Refused> {
        let hosted = Hosted { sites: vec![self.site.clone()], classes: None };
        Ok(Next { hosted, flags: self.flags.clone(), uplink: UplinkChange::None, changes: Vec::new() })
    }

    fn placed(&self, faults: &[Fault]) -> Vec<String> {
        faults.iter().map(|fault| fault.error.to_string()).collect()
    }

    fn adopt(&self) {}

    fn unmet(&self, unmet: Unmet) -> Failure {
        unmet.into()
    }
}

/// A configuration that was read.
pub struct Next {
    pub hosted: Hosted,
    pub flags: Flags,
    pub uplink: UplinkChange,
    /// One line for each change.
    pub changes: Vec<String>,
}

/// The part of the uplink that has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UplinkChange {
    None,
    /// The policy or the shares.
    Order,
    /// The rate, and perhaps the policy or the shares.
    Line,
}

/// The outcome of a reload, and lines about it; the last line is the verdict.
pub struct Outcome {
    pub verdict: Verdict,
    pub lines: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Used,
    Unused,
    /// The configuration is not used, but a new process would use it.
    Fixed,
}

/// The reason why a configuration cannot be used.
pub struct Refused {
    verdict: Verdict,
    reason: Failure,
    /// True if the process may not read a file of the configuration.
    is_denied: bool,
}

/// The line printed after files of the configuration that cannot be read in the sandbox.
const OUT_OF_REACH: &str =
    "or what cannot be read was created after the start and is outside weir's sandbox: run `weir upgrade`";

impl Refused {
    /// Makes a refusal because a process cannot change this setting.
    pub fn fixed(reason: String) -> Refused {
        Refused { verdict: Verdict::Fixed, reason: Failure::Failed(reason), is_denied: false }
    }

    /// Adds to the refusal that the server's sandbox may be the reason why a file cannot be read.
    fn in_sandbox(self) -> Refused {
        if !self.is_denied {
            return self;
        }
        let reason = self.reason.into_text();
        Refused::fixed(format!("{}\n{OUT_OF_REACH}", units::plain(&reason)))
    }
}

impl From<config::FileError> for Refused {
    fn from(error: config::FileError) -> Refused {
        let is_denied = error.is_denied();
        Refused { verdict: Verdict::Unused, reason: error.into(), is_denied }
    }
}

impl From<Failure> for Refused {
    fn from(reason: Failure) -> Refused {
        Refused { verdict: Verdict::Unused, reason, is_denied: false }
    }
}

impl From<StartError> for Refused {
    fn from(error: StartError) -> Refused {
        let is_fixed = matches!(
            error,
            StartError::OtherShaping { .. }
                | StartError::OutOfReach(_)
                | StartError::BeyondSandbox(_)
                | StartError::Sites(SitesError::Classes(_))
        );
        let verdict = if is_fixed { Verdict::Fixed } else { Verdict::Unused };
        Refused { verdict, reason: error.into(), is_denied: false }
    }
}

/// Checks that the user to which the server has switched can read the file, as SIGHUP requires.
pub fn readable(file: &Path) -> Result<(), Unmet> {
    config::open(file).map(drop).map_err(|error| {
        let name = file.display();
        let cure = format!("chgrp GROUP {name}; chmod g+r {name}");
        let said = format!("cannot read {name} again as server.user: {error}; run: {cure}");
        Unmet::Key("server.user", Failure::Failed(said))
    })
}

/// Applies the current configuration, either completely or not at all.
pub fn reload(server: &Server, source: &dyn Source) -> Outcome {
    match replaced(server, source) {
        Ok((changes, count)) => {
            let sites = if count == 1 { "1 site is".to_string() } else { format!("{count} sites are") };
            let verdict = format!("configuration read again: {sites} in force");
            let lacks = source.placed(&server.lacks());
            let lines = changes.into_iter().chain(server.remarks()).chain(lacks).chain([verdict]);
            Outcome { verdict: Verdict::Used, lines: lines.collect() }
        }
        Err(Refused { verdict, reason, .. }) => {
            let said = "configuration read again but not used: the earlier one stays in force";
            let lines = reason.into_text().lines().chain([said]).map(Into::into).collect();
            Outcome { verdict, lines }
        }
    }
}

/// Replaces the configuration. Returns the changes and the number of sites.
fn replaced(server: &Server, source: &dyn Source) -> Result<(Vec<String>, usize), Refused> {
    let next = source.next().map_err(|refused| if server.is_sandboxed() { refused.in_sandbox() } else { refused });
    let Next { hosted: Hosted { sites, classes }, flags, uplink, changes } = next?;
    let addresses: Vec<_> = server.addresses().iter().map(|listen| listen.address).collect();
    let acme = acme::config(&flags, server.addresses().iter().map(|listen| listen.is_secure));
    let acme = acme.map_err(|unmet| source.unmet(unmet))?;
    if acme.is_some() && !server.orders_certificates() {
        return Err(Refused::fixed(format!("the table [acme] is new\n{}", super::run::TAKES_A_PROCESS)));
    }
    let found = || shaping::found(&flags, classes.as_ref(), &addresses, None);
    let log = flags.access_log.as_ref().map(|path| access_log(path.clone(), flags.log_format));
    let reload = Reload {
        sites: &sites,
        classes: classes.as_ref(),
        access_log: log.clone(),
        acme,
        limits: limits(&flags),
        shaping: (uplink != UplinkChange::None).then(found).transpose().map_err(|unmet| source.unmet(unmet))?,
        is_line_new: uplink == UplinkChange::Line,
    };
    server.reload(reload).map_err(|error| explained(server, source, (&sites, log.as_ref()), error))?;
    source.adopt();
    Ok((changes, sites.len()))
}

/// Returns the refusal of a configuration, with every part of it that could not be opened, in the words of `weir
/// check`.
fn explained(
    server: &Server,
    source: &dyn Source,
    (sites, log): (&[SiteConfig], Option<&LogConfig>),
    error: StartError,
) -> Refused {
    let is_open = !matches!(error, StartError::Sites(_) | StartError::OutOfReach(_) | StartError::BeyondSandbox(_));
    let refused = Refused::from(error);
    let faults = if is_open { Vec::new() } else { server.faults(sites, log) };
    match source.placed(&faults) {
        lines if lines.is_empty() => refused,
        lines => Refused { reason: Failure::Failed(lines.join("\n")), ..refused },
    }
}
