//! `upstream` of a run: an application server behind the run's own server, which passes all requests to it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use serde::Deserialize;

use crate::namespace::Place;
use crate::program::Program;
use crate::server::{Endpoint, await_answer};
use crate::{Interrupt, LabError, Plan, RunSpec, Server};

/// The upstream's port, different from the server's; it listens only on loopback.
const PORT: u16 = 3000;
/// The log of the upstream, in the run's folder.
const LOG: &str = "upstream.log";

/// How an upstream marks the end of a response's body (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framing {
    /// A Content-Length.
    Length,
    /// In chunks: the length is known only at the end.
    Chunked,
    /// The end of the connection.
    Close,
}

impl Framing {
    pub fn name(self) -> &'static str {
        match self {
            Framing::Length => "length",
            Framing::Chunked => "chunked",
            Framing::Close => "close",
        }
    }
}

/// Checks the upstream of a run.
pub(crate) fn check(spec: &RunSpec) -> Result<(), String> {
    match spec.server {
        _ if spec.upstream.is_none() && !spec.upstream_flags.is_empty() => {
            Err("upstream_flags without an upstream: write upstream = \"length\" too".into())
        }
        _ if spec.upstream.is_none() => Ok(()),
        Server::Nginx | Server::Weir => Ok(()),
        other => Err(format!(
            "the lab gives {} no upstream: leave upstream out, or write server = \"nginx\" or \"weir\"",
            other.name()
        )),
    }
}

/// The upstream of a run; it is ended when dropped.
pub(crate) struct Upstream {
    program: Program,
    framing: Framing,
    flags: Vec<String>,
    address: SocketAddr,
}

impl Upstream {
    /// Starts the upstream of a run that has one, at the place of the run's server, and waits until it answers for
    /// `probe`.
    pub(crate) fn start(
        plan: &Plan<'_>,
        spec: &RunSpec,
        beside: Endpoint<'_>,
        (site, folder, probe): (&Path, &Path, &str),
        interrupt: &Interrupt,
    ) -> Result<Option<Upstream>, LabError> {
        let Some(framing) = spec.upstream else { return Ok(None) };
        let place = beside.server;
        let address = match place {
            Place::In(_) => SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
            Place::Here => free_address()?,
        };
        let weirlab = plan.programs.weirlab.display().to_string();
        let command = [
            &weirlab,
            "upstream",
            &site.display().to_string(),
            "--listen",
            &address.to_string(),
            "--framing",
            framing.name(),
        ]
        .map(String::from);
        let command = [&command[..], &spec.upstream_flags].concat();
        let mut program = Program::start(place, "weirlab upstream", &command, &folder.join(LOG))?;
        await_answer(&mut program, (place, address), probe, true, interrupt)?;
        Ok(Some(Upstream { program, framing, flags: spec.upstream_flags.clone(), address }))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn check_running(&mut self) -> Result<(), LabError> {
        self.program.check_running()
    }

    /// Describes the upstream for the manifest.
    pub(crate) fn describe(&self) -> BTreeMap<String, String> {
        let flags = (!self.flags.is_empty()).then(|| ("upstream_flags".into(), self.flags.join(" ")));
        [("upstream".into(), self.framing.name().into())].into_iter().chain(flags).collect()
    }
}

/// Returns an address of 127.0.0.1 with a port that is free now. If another program takes the port before the upstream
/// does, the start fails.
pub(crate) fn free_address() -> Result<SocketAddr, LabError> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    free.map_err(|e| LabError::io("a free port on 127.0.0.1", e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{one, parse};

    #[test]
    fn a_run_has_no_upstream_unless_it_says_so() {
        let of = |run: &str| one("", run).1.upstream;
        assert_eq!(of("server = \"weir\""), None);
        assert_eq!(of("server = \"weir\"\nupstream = \"length\""), Some(Framing::Length));
        assert_eq!(of("server = \"nginx\"\nupstream = \"chunked\""), Some(Framing::Chunked));
        assert_eq!(of("server = \"nginx\"\nupstream = \"close\""), Some(Framing::Close));
    }

    #[test]
    fn an_upstream_that_cannot_be_is_said() {
        for (run, says) in [
            ("server = \"weir\"\nupstream_flags = [\"--workers\", \"8\"]", "x.toml:5: run `a`: upstream_flags without"),
            ("server = \"apache\"\nupstream = \"length\"", "x.toml:5: run `a`: the lab gives apache no upstream"),
            (
                "server = \"weir\"\nupstream = \"none\"",
                "x.toml:8: unknown variant `none`, expected one of `length`, `chunked`, `close`",
            ),
        ] {
            let said = parse("", run).unwrap_err();
            assert!(said.starts_with(says), "{said}");
        }
    }
}
