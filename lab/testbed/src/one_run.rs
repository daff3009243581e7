//! One run: a new link, one server, one load. Its measurements are added to the manifest of the load generator.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use record::{GIVEN_UP, Manifest, Run, Samples};

use crate::client_group::client_flags;
use crate::folder::DIGEST;
use crate::line::{self, Changes};
use crate::namespace::Place;
use crate::program::{POLL_EVERY, Program};
use crate::server::{Endpoint, SERVER_LOG, Source, server_command, start_server};
use crate::upstream::{Upstream, free_address};
use crate::view::{LOG_COLUMN, Sampler, Taken, View, carried, shares};
use crate::{
    Calibration, Counters, Interrupt, LabError, Link, Network, Plan, RunSpec, Server, find_program, ipv6, machine,
    said, server_side, tool, watch,
};

/// The server's port, the only one in its namespace.
pub(crate) const PORT: u16 = 8080;
/// The time by which a load may exceed the duration of its jobs on the link. Users retry, packets are lost, and the
/// generator decides when to give up (120 s after the last arrival by default). A load that takes longer counts as
/// hung.
const LOAD_WITHIN: Duration = Duration::from_secs(180);

/// The measurements before, during and after the load.
struct Measured {
    server_cpu: Duration,
    elapsed: Duration,
    counters: Option<Counters>,
}

/// Carries out one run of the plan; its folder is `plan.out`/NAME.
pub(crate) fn one_run(plan: &Plan<'_>, spec: &RunSpec, site: &Path, interrupt: &Interrupt) -> Result<Run, LabError> {
    let folder = make_folder(plan, spec)?;
    let weir = plan.programs.weir.as_deref();
    let link = match plan.experiment.network {
        Network::Namespaces | Network::Router => Some(Link::build(plan.experiment, spec, weir)?),
        Network::Loopback => None,
    };
    let endpoint = endpoint(link.as_ref())?;
    let (attached, followed) = attach(plan, spec, link.as_ref(), &folder)?;
    let mut serving = Serving::start(plan, spec, endpoint, (site, &folder), interrupt)?;
    let bar = progress_bar(&format!("{} {}", plan.title, spec.name), plan.experiment.seconds());
    let (measured, taken) = measure(plan, spec, endpoint, link.as_ref(), &mut serving, &bar, interrupt)?;
    let mut environment = link.as_ref().map_or(Ok(BTreeMap::new()), Link::describe)?;
    environment.extend(serving.describe());
    drop((serving, followed));
    drop(link);
    environment.extend(attached.map(|command| ("attach_command".into(), command)));
    environment.extend(described(plan, spec));
    complete(&folder, spec, measured, taken, environment)
}

/// Attaches if the run does so. Returns the command, and the program that follows the line.
fn attach(
    plan: &Plan<'_>,
    spec: &RunSpec,
    link: Option<&Link>,
    folder: &Path,
) -> Result<(Option<String>, Option<Program>), LabError> {
    let (Some(link), weir) = (link, plan.programs.weir.as_deref()) else { return Ok((None, None)) };
    Ok((link.attach(plan.experiment, spec, PORT, weir)?, link.follow(spec, folder, weir)?))
}

/// The server of a run, and the upstream behind it if it has one; the server ends first.
struct Serving {
    server: Program,
    command: Vec<String>,
    upstream: Option<Upstream>,
}

impl Serving {
    fn start(
        plan: &Plan<'_>,
        spec: &RunSpec,
        at: Endpoint<'_>,
        (site, folder): (&Path, &Path),
        interrupt: &Interrupt,
    ) -> Result<Serving, LabError> {
        let probe = format!("/{}.bin", plan.sizes.first().copied().unwrap_or(0));
        let upstream = Upstream::start(plan, spec, at, (site, folder, &probe), interrupt)?;
        let source = Source { site, upstream: upstream.as_ref().map(Upstream::address) };
        let command = server_command(plan.experiment, spec, at.address, source, folder, plan.programs.weir.as_deref())?;
        let server = start_server(at, spec, &command, folder, &probe, interrupt)?;
        Ok(Serving { server, command, upstream })
    }

    fn check_running(&mut self) -> Result<(), LabError> {
        self.server.check_running()?;
        self.upstream.as_mut().map_or(Ok(()), Upstream::check_running)
    }

    /// Describes the server and the upstream for the manifest.
    fn describe(&self) -> BTreeMap<String, String> {
        let mut described = self.upstream.as_ref().map(Upstream::describe).unwrap_or_default();
        described.insert("server_command".into(), self.command.join(" "));
        described
    }
}

fn make_folder(plan: &Plan<'_>, spec: &RunSpec) -> Result<PathBuf, LabError> {
    let folder = plan.out.join(&spec.name);
    std::fs::create_dir_all(&plan.out).map_err(|e| LabError::path(&plan.out, e))?;
    std::fs::create_dir(&folder).map_err(|e| LabError::path(&folder, e))?;
    line::write(plan.experiment, &folder)?;
    Ok(folder)
}

/// The properties of a run that are known in advance.
fn described(plan: &Plan<'_>, spec: &RunSpec) -> BTreeMap<String, String> {
    let mut environment = plan.environment.clone();
    environment.insert("worker_slots".into(), plan.experiment.limits.slots_of(spec.server));
    if spec.server == Server::Weir && spec.shaping != "off" {
        environment.insert("told".into(), plan.experiment.told_to(spec).to_string());
    }
    environment.insert("run_command".into(), std::env::args().collect::<Vec<_>>().join(" "));
    environment.insert("bottleneck".into(), plan.experiment.qdisc_of(spec).name().into());
    let segments = plan.experiment.gso_max_segs;
    environment.extend(segments.map(|segments| ("gso_max_segs".into(), segments.to_string())));
    environment.extend(machine::describe());
    environment.extend(versions(spec, plan.programs.weir.as_deref()));
    environment.extend(plan.digests.get(&spec.name).map(|digest| (DIGEST.into(), digest.clone())));
    environment
}

fn endpoint(link: Option<&Link>) -> Result<Endpoint<'_>, LabError> {
    match link {
        Some(link) => {
            let address = SocketAddr::new(link.server_address(), PORT);
            Ok(Endpoint { server: link.server(), client: link.client(), address })
        }
        None => Ok(Endpoint { server: Place::Here, client: Place::Here, address: free_address()? }),
    }
}

/// Runs the load, and reads the server's CPU time and the bottleneck's counters before and after.
fn measure(
    plan: &Plan<'_>,
    spec: &RunSpec,
    endpoint: Endpoint<'_>,
    link: Option<&Link>,
    serving: &mut Serving,
    bar: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<(Measured, Taken), LabError> {
    let counters = || link.map(Link::counters).transpose();
    let folder = plan.out.join(&spec.name);
    let log = folder.join(SERVER_LOG);
    let view =
        View::open(link, endpoint.address.port(), log).map_err(|e| LabError::io("the server's connections", e))?;
    let (cpu_before, counters_before, began) = (serving.server.cpu()?, counters()?, Instant::now());
    let sampler = Sampler::start(view)?;
    let mut command = machine::punctual_prefix();
    command.extend(load_command(plan, spec, endpoint.address, &folder)?);
    let mut load = Program::start(endpoint.client, "weirlab load", &command, &folder.join("load.log"))?;
    let weir = plan.programs.weir.as_deref();
    let watch = watch::start(endpoint.server, spec, weir, serving.server.id(), &folder)?;
    let changes = link.map(|link| link.start_changes(plan.experiment));
    let awaited = await_load(plan, &mut load, serving, bar, interrupt);
    bar.finish_and_clear();
    awaited?;
    changes.map_or(Ok(()), Changes::finish)?;
    drop(watch);
    let taken = sampler.finish();
    let counters = counters()?.zip(counters_before).map(|(after, before)| after.since(before));
    let server_cpu = serving.server.cpu()?.saturating_sub(cpu_before);
    Ok((Measured { server_cpu, elapsed: began.elapsed(), counters }, taken))
}

fn await_load(
    plan: &Plan<'_>,
    load: &mut Program,
    serving: &mut Serving,
    bar: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<(), LabError> {
    let seconds = plan.experiment.seconds();
    let (began, grace) = (Instant::now(), plan.experiment.load.grace.unwrap_or_default());
    while !load.poll_success()? {
        interrupt.check()?;
        serving.check_running()?;
        if began.elapsed() > Duration::from_secs(seconds) + plan.lasts + grace + LOAD_WITHIN {
            return Err(load.failed("did not end in time"));
        }
        bar.set_position(began.elapsed().as_secs().min(seconds));
        std::thread::sleep(POLL_EVERY);
    }
    Ok(())
}

/// A progress bar with the remaining seconds; invisible if standard error is a file.
fn progress_bar(name: &str, seconds: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} s, {eta} left");
    ProgressBar::new(seconds)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(name.to_owned())
}

fn load_command(plan: &Plan<'_>, spec: &RunSpec, address: SocketAddr, folder: &Path) -> Result<Vec<String>, LabError> {
    let experiment = plan.experiment;
    let load = serde_json::to_string(&experiment.load)
        .map_err(|e| LabError::Output { what: "the load".into(), reason: e.to_string() })?;
    let mut command =
        vec![plan.programs.weirlab.display().to_string(), "load".into(), format!("http://{address}/"), "--json".into()];
    command.extend(spec.speaks_tls().then(|| "--tls".into()));
    command.extend(spec.full_handshakes.then(|| "--full-handshakes".into()));
    let mut flag = |name: &str, value: String| command.extend([format!("--{name}"), value]);
    flag("load", load);
    for (name, number) in [("h2", spec.h2), ("h3", spec.h3), ("client-connections", spec.client_connections)] {
        if let Some(number) = number {
            flag(name, number.to_string());
        }
    }
    flag("uplink", experiment.link.to_string());
    for client in client_flags(experiment.clients()) {
        flag("client", if experiment.ipv6 { ipv6::flag(&client) } else { client });
    }
    flag("name", spec.name.clone());
    flag("server", spec.server.name().into());
    // The policy that orders the bytes, in the server or in a program in front of it.
    let (policy, shaping) = match spec.attach {
        Some(policy) => (policy.name().to_string(), experiment.qdisc_of(spec).name()),
        None => (spec.policy.to_string(), spec.shaping.as_str()),
    };
    flag("policy", policy);
    flag("shaping", shaping.into());
    flag("out", folder.display().to_string());
    Ok(command)
}

/// Adds our own measurements to the manifest and writes it. `report` judges whether they void the run.
fn complete(
    folder: &Path,
    spec: &RunSpec,
    measured: Measured,
    taken: Taken,
    mut environment: BTreeMap<String, String>,
) -> Result<Run, LabError> {
    let mut run = Run::read(folder)
        .map_err(|e| LabError::Output { what: "what the load recorded".into(), reason: e.to_string() })?;
    let samples = taken.since(began_unix_ns(&run.manifest)?);
    samples.write(folder).map_err(|e| LabError::io("samples", io::Error::other(e.to_string())))?;
    watch::write(folder)?;
    said::write(folder, &samples.series(LOG_COLUMN))?;
    environment.extend(shares(&samples, run.manifest.seconds));
    environment.extend(given_up(&samples));
    // A line that changes is full at varying loads.
    let is_steady = !line::is_kept(folder);
    environment.extend(is_steady.then(|| carried(&samples, run.manifest.link_bps, run.manifest.seconds)).flatten());
    if let Some(calibration) = is_steady.then(|| Calibration::of(&run, &samples)).flatten() {
        calibration.write(folder)?;
        if !calibration.agrees {
            eprintln!("run {}: {}", spec.name, calibration.describe());
        }
        environment.insert("calibration".into(), calibration.describe());
        environment.insert("critical_rho".into(), format!("{:.4}", calibration.critical_rho));
        environment.insert("critical_rho_half_width".into(), format!("{:.4}", calibration.critical_rho_half_width));
    }
    environment.extend(server_side::described(folder)?);
    amend(&mut run.manifest, &measured, environment);
    Run::write_manifest(folder, &run.manifest)?;
    Ok(run)
}

/// Returns the number of connections that the server's kernel gave up during the run. Their clients received nothing,
/// so they count with the time that they waited.
fn given_up(samples: &Samples) -> Option<(String, String)> {
    let counted = samples.series("aborts_on_timeout_total");
    let (first, last) = counted.first().zip(counted.last())?;
    Some((GIVEN_UP.into(), last.1.saturating_sub(first.1).to_string()))
}

/// The instant at which the run's clock was zero, from the load generator's manifest.
fn began_unix_ns(manifest: &Manifest) -> Result<u64, LabError> {
    let said = manifest.environment.get("started_unix_ns").and_then(|text| text.parse().ok());
    said.ok_or_else(|| LabError::Output {
        what: "the manifest of the load".into(),
        reason: "it does not say when the run began".into(),
    })
}

fn amend(manifest: &mut Manifest, measured: &Measured, environment: BTreeMap<String, String>) {
    manifest.server_cpu = Some(measured.server_cpu.as_secs_f64() / measured.elapsed.as_secs_f64());
    manifest.environment.extend(environment);
    if let Some(counters) = measured.counters {
        manifest.wire_bytes = Some(counters.sent_bytes);
        manifest.environment.insert("dropped_packets".into(), counters.dropped_packets.to_string());
    }
}

/// The versions of the programs used in the run.
fn versions(spec: &RunSpec, weir: Option<&Path>) -> BTreeMap<String, String> {
    let found = || find_program(spec.server.program()).ok();
    let server = match spec.server {
        Server::Apache | Server::Nginx => found().map(|program| tool::version(&program, "-v")),
        Server::H2o => found().map(|h2o| tool::version(&h2o, "--version")),
        Server::Caddy => found().map(|caddy| tool::version(&caddy, "version")),
        Server::Weir => weir.map(|weir| tool::version(weir, "--version")),
    };
    let tc = find_program("tc").ok().map(|tc| tool::version(&tc, "-V"));
    let named = [("server_version", server), ("tc_version", tc)];
    named.into_iter().filter_map(|(name, version)| Some((name.to_owned(), version?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Programs};
    use std::collections::BTreeSet;

    #[test]
    fn adds_what_was_measured() {
        let mut manifest = Manifest::new("a");
        let counters = Some(Counters { sent_bytes: 7, sent_packets: 2, dropped_packets: 1 });
        let measured = Measured { server_cpu: Duration::from_millis(500), elapsed: Duration::from_secs(2), counters };
        amend(&mut manifest, &measured, BTreeMap::from([("qdisc".into(), "htb".into())]));
        assert_eq!((manifest.server_cpu, manifest.wire_bytes), (Some(0.25), Some(7)));
        assert_eq!(manifest.environment["qdisc"], "htb");
        assert_eq!(manifest.environment["dropped_packets"], "1");
    }

    #[test]
    fn the_load_is_told_the_jobs_and_the_labels() {
        let text =
            "question = \"\"\nlink = \"10mbit\"\nrho = 0.8\nseconds = 9\n[[run]]\nname = \"a\"\nserver = \"nginx\"\n";
        let experiment = Experiment::parse(text, Path::new("x.toml")).unwrap();
        let programs = Programs { weir: None, weirlab: "weirlab".into() };
        let plan = Plan {
            experiment: &experiment,
            title: "x".into(),
            sizes: &BTreeSet::new(),
            out: "out".into(),
            programs: &programs,
            skip_missing: false,
            lasts: Duration::from_secs(9),
            digests: BTreeMap::new(),
            environment: BTreeMap::new(),
            again: vec![],
        };
        let address = "198.18.0.1:8080".parse().unwrap();
        let spec = experiment.runs().next().unwrap();
        let command = load_command(&plan, spec, address, Path::new("out/a")).unwrap().join(" ");
        let load = r#"{"rho":0.8,"seconds":9,"repeat":false,"seed":1,"per_connection":1}"#;
        let want = format!(
            "weirlab load http://198.18.0.1:8080/ --json --load {load} --uplink 10mbit --name a --server nginx \
             --policy fair --shaping off --out out/a"
        );
        assert_eq!(command, want);
    }
}
