//! Applies the limits of an experiment in the namespaces of its link.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use uplink::InitialRto;

use super::Limits;
use crate::link::{read_setting, write_setting};
use crate::namespace::{Namespace, Place};
use crate::{LabError, tool};

/// The bytes of the headers of IPv4 and TCP, without options.
const HEADER_BYTES: u64 = 40;
/// The first kernel version that detects losses only with RACK ("tcp: remove obsolete and unused RFC3517/RFC6675 loss
/// recovery code").
const RACK_ONLY: (u64, u64) = (6, 17);
const RACK: u64 = 1;
/// Settings that bound an overload, recorded in every manifest.
const TOLD: [&str; 9] = [
    "net/core/somaxconn",
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv4/tcp_orphan_retries",
    "net/ipv4/tcp_recovery",
    "net/ipv4/tcp_retries2",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_syn_linear_timeouts",
    "net/ipv4/tcp_syncookies",
    "net/ipv4/tcp_wmem",
];

/// Limits that are in force as long as this exists.
#[derive(Debug, Default)]
pub(crate) struct KernelLimits {
    initial_rto: Option<(Duration, InitialRto)>,
}

impl KernelLimits {
    /// Applies the limits, before the server starts and after the routes exist.
    pub(crate) fn set(limits: &Limits, server: &Namespace, client: &Namespace) -> Result<KernelLimits, LabError> {
        check_recovery(limits, &rustix::system::uname().release().to_string_lossy())?;
        let both = [Place::In(server), Place::In(client)];
        for (setting, value) in settings(limits) {
            for side in both {
                write_setting(side, setting, &value)?;
            }
        }
        set_routes(limits, server)?;
        let Some(timeout) = limits.initial_rto else { return Ok(KernelLimits::default()) };
        let groups: Option<Vec<&Path>> = both.iter().map(|side| side.cgroup()).collect();
        let groups = groups.ok_or_else(|| refused("initial_rto", "it needs control groups of version 2"))?;
        let set = InitialRto::set(&groups, timeout).map_err(|error| refused("initial_rto", error))?;
        Ok(KernelLimits { initial_rto: Some((timeout, set)) })
    }

    /// The limits in force in the kernel, for the manifest.
    pub(crate) fn describe(&self, server: &Namespace) -> Result<BTreeMap<String, String>, LabError> {
        let mut said = BTreeMap::new();
        for setting in TOLD {
            let name = setting.rsplit('/').next().unwrap_or(setting);
            // Some were introduced after the oldest kernel that we support.
            said.extend(read_setting(Place::In(server), setting).ok().map(|value| (name.to_owned(), value)));
        }
        said.insert("server_routes".into(), routes(server)?.join(" | "));
        if let Some((timeout, _)) = &self.initial_rto {
            said.insert("initial_rto".into(), format!("{} s, by BPF", timeout.as_secs_f64()));
        }
        Ok(said)
    }
}

/// The settings of a namespace for these limits, and their values.
fn settings(limits: &Limits) -> Vec<(&'static str, String)> {
    let buffer = |[least, usual, most]: [u64; 3]| format!("{least} {usual} {most}");
    let settings = [
        ("net/ipv4/tcp_max_syn_backlog", limits.syn_queue.map(|length| length.to_string())),
        ("net/core/somaxconn", limits.accept_queue.map(|length| length.to_string())),
        ("net/ipv4/tcp_syncookies", limits.syn_cookies.map(|are_sent| u8::from(are_sent).to_string())),
        ("net/ipv4/tcp_wmem", limits.tcp_wmem.map(buffer)),
        ("net/ipv4/tcp_orphan_retries", limits.orphan_retries.map(|retries| retries.to_string())),
        ("net/ipv4/tcp_retries2", limits.orphan_retries.map(|retries| retries.to_string())),
        ("net/ipv4/tcp_recovery", limits.recovery.map(|bits| bits.to_string())),
        ("net/ipv4/tcp_syn_linear_timeouts", limits.initial_rto.map(|_| "0".to_owned())),
    ];
    settings.into_iter().filter_map(|(setting, value)| Some((setting, value?))).collect()
}

/// Sets the segment size and initial window, which are properties of the server's routes. `mtu lock` limits the packets
/// that the server sends, `advmss` those that it requests from clients.
fn set_routes(limits: &Limits, server: &Namespace) -> Result<(), LabError> {
    let mut more = vec![];
    if let Some(mss) = limits.mss {
        more.push(format!("mtu lock {} advmss {mss}", mss + HEADER_BYTES));
    }
    more.extend(limits.initial_window.map(|segments| format!("initcwnd {segments}")));
    if more.is_empty() {
        return Ok(());
    }
    for route in routes(server)? {
        tool::run(&format!("ip -n {} route change {route} {}", server.name(), more.join(" ")))?;
    }
    Ok(())
}

/// The routes of a namespace, each as the words that create it.
fn routes(namespace: &Namespace) -> Result<Vec<String>, LabError> {
    let said = tool::run(&format!("ip -n {} route show", namespace.name()))?;
    // A cable whose other end is not up yet is listed with this word, which is not accepted as input.
    let words = |line: &str| line.split_whitespace().filter(|word| *word != "linkdown").collect::<Vec<_>>().join(" ");
    Ok(said.lines().map(words).filter(|line| !line.is_empty()).collect())
}

fn check_recovery(limits: &Limits, release: &str) -> Result<(), LabError> {
    let Some(bits) = limits.recovery.filter(|bits| bits & RACK == 0) else { return Ok(()) };
    let mut numbers = release.split(['.', '-']).map_while(|word| word.parse::<u64>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= RACK_ONLY => {
            let reason =
                format!("{bits} has no effect on Linux {release}, whose TCP has nothing but RACK: leave it out");
            Err(refused("recovery", reason))
        }
        _ => Ok(()),
    }
}

fn refused(key: &'static str, reason: impl ToString) -> LabError {
    LabError::Limit { key, reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_its_setting() {
        let limits = Limits {
            syn_queue: Some(7),
            accept_queue: Some(8),
            syn_cookies: Some(false),
            tcp_wmem: Some([1, 2, 3]),
            initial_rto: Some(Duration::from_secs(3)),
            orphan_retries: Some(200),
            ..Limits::default()
        };
        let set: Vec<String> = settings(&limits).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let want = [
            "net/ipv4/tcp_max_syn_backlog=7",
            "net/core/somaxconn=8",
            "net/ipv4/tcp_syncookies=0",
            "net/ipv4/tcp_wmem=1 2 3",
            "net/ipv4/tcp_orphan_retries=200",
            "net/ipv4/tcp_retries2=200",
            "net/ipv4/tcp_syn_linear_timeouts=0",
        ];
        assert_eq!(set, want);
        assert!(settings(&Limits::default()).is_empty());
    }

    #[test]
    fn a_limit_without_effect_is_refused() {
        let limits = |recovery| Limits { recovery: Some(recovery), ..Limits::default() };
        for release in ["6.17.0", "6.18.44-fc", "7.2.3+deb13-cloud-amd64"] {
            let said = check_recovery(&limits(0), release).unwrap_err().to_string();
            assert!(said.starts_with(&format!("limits: recovery: 0 has no effect on Linux {release}")), "{said}");
            assert!(check_recovery(&limits(1), release).is_ok());
        }
        for release in ["6.16.12", "5.10-x", ""] {
            assert!(check_recovery(&limits(0), release).is_ok(), "{release}");
        }
    }
}
