//! A configuration that is read again while the server runs: all of it counts, or nothing.

use std::path::Path;

use cli::Failure;
use server::{Reload, Server, SiteConfig, StartError};

use super::{Flags, Hosted, access_log, limits, shaping};

/// Where a server's configuration comes from.
pub trait Source {
    /// Read again as the user that the server has become.
    fn file(&self) -> Option<&Path>;
    /// As it is now.
    fn next(&self) -> Result<Next, Refused>;
    /// What was read last is in force: the next is compared with it.
    fn adopt(&self);
}

/// One site, as the flags say: its folder, its certificate and its log are opened again.
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

    fn adopt(&self) {}
}

/// What was read.
pub struct Next {
    pub hosted: Hosted,
    pub flags: Flags,
    pub uplink: UplinkChange,
    /// A line for each.
    pub changes: Vec<String>,
}

/// What of the uplink is not as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UplinkChange {
    None,
    /// The order, or the shares.
    Order,
    /// The rate, and perhaps the order.
    Line,
}

/// What became of a reload, and lines about it, the verdict last.
pub struct Outcome {
    pub verdict: Verdict,
    pub lines: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Used,
    Unused,
    /// Not used, and another process would.
    Fixed,
}

/// Why what was read is not used.
pub struct Refused {
    verdict: Verdict,
    reason: Failure,
}

impl Refused {
    /// What a process has from its start to its end would be another.
    pub fn fixed(reason: String) -> Refused {
        Refused { verdict: Verdict::Fixed, reason: Failure::Failed(reason) }
    }
}

impl From<Failure> for Refused {
    fn from(reason: Failure) -> Refused {
        Refused { verdict: Verdict::Unused, reason }
    }
}

impl From<StartError> for Refused {
    fn from(error: StartError) -> Refused {
        let is_fixed =
            matches!(error, StartError::OtherShaping { .. } | StartError::OutOfReach(_) | StartError::Classes(_));
        let verdict = if is_fixed { Verdict::Fixed } else { Verdict::Unused };
        Refused { verdict, reason: error.into() }
    }
}

/// As the user that the server has become: what cannot be read now cannot be read again at SIGHUP.
pub fn readable(file: &Path) -> Result<(), Failure> {
    config::open(file).map(drop).map_err(|error| {
        let name = file.display();
        Failure::Failed(format!(
            "cannot read {name} again as server.user: {error}; run: chgrp GROUP {name}; chmod g+r {name}"
        ))
    })
}

/// All of the configuration as it is now, or nothing of it.
pub fn reload(server: &Server, source: &dyn Source) -> Outcome {
    match replaced(server, source) {
        Ok((changes, count)) => {
            let sites = if count == 1 { "1 site is".to_string() } else { format!("{count} sites are") };
            let verdict = format!("configuration read again: {sites} in force");
            let lines = changes.into_iter().chain(server.remarks()).chain([verdict]);
            Outcome { verdict: Verdict::Used, lines: lines.collect() }
        }
        Err(Refused { verdict, reason: Failure::Failed(reason) | Failure::Usage(reason) }) => {
            let said = "configuration read again and not used: that from before stays in force";
            let lines = reason.lines().chain([said]).map(Into::into).collect();
            Outcome { verdict, lines }
        }
    }
}

/// What has changed, and how many sites there are.
fn replaced(server: &Server, source: &dyn Source) -> Result<(Vec<String>, usize), Refused> {
    let Next { hosted: Hosted { sites, classes }, flags, uplink, changes } = source.next()?;
    let addresses: Vec<_> = server.addresses().iter().map(|listen| listen.address).collect();
    let found = || shaping::found(&flags, classes.as_ref(), &addresses, None);
    let reload = Reload {
        sites: &sites,
        classes: classes.as_ref(),
        access_log: flags.access_log.as_ref().map(|path| access_log(path.clone(), flags.log_format)),
        limits: limits(&flags),
        shaping: (uplink != UplinkChange::None).then(found).transpose()?,
        is_line_new: uplink == UplinkChange::Line,
    };
    server.reload(reload)?;
    source.adopt();
    Ok((changes, sites.len()))
}
