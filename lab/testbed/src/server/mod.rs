//! Starts the server of a run and waits until it answers.

mod apache;
mod caddy;
mod certificate;
mod h2o;
mod nginx;

pub(crate) use apache::PROCESSES as APACHE_PROCESSES;

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use certificate::Certificate;

use crate::namespace::Place;
use crate::program::{POLL_EVERY, Program};
use crate::{Experiment, Interrupt, LabError, RunSpec, Server, find_program, placeholders, server_side};

/// The time that a server may take until it answers: it needs well under a second, except in an emulated machine.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// The time limit of one probe: a connection and a head on an idle link.
const PROBE_WITHIN: Duration = Duration::from_secs(1);
/// The bytes of a response that contain its status line.
const PROBE_BYTES: usize = 64;

/// The location of a server, and the place from which it is reached.
#[derive(Debug, Clone, Copy)]
pub struct Endpoint<'a> {
    pub server: Place<'a>,
    pub client: Place<'a>,
    pub address: SocketAddr,
}

/// Where a server's responses come from.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The files.
    pub site: &'a Path,
    /// The server that has the files, if this one passes requests on.
    pub upstream: Option<SocketAddr>,
}

impl<'a> From<&'a Path> for Source<'a> {
    fn from(site: &'a Path) -> Source<'a> {
        Source { site, upstream: None }
    }
}

/// The name of the server's log in the run's folder.
pub(crate) const SERVER_LOG: &str = "server.log";
/// The name of the folder for its state between starts, also in the run's folder; it is not created.
const STATE_FOLDER: &str = "state";
/// The flag of `weir serve` for a self-signed certificate.
pub(crate) const TLS_FLAG: &str = "--tls-self-signed";

/// The protocol between the server and its clients.
#[derive(Debug, Clone, Copy)]
struct Speech<'a> {
    certificate: Option<&'a Certificate>,
    is_http2: bool,
}

/// Starts the server of a run on the files of `site`, with `folder` for its configuration and log, and waits until it
/// answers for `probe` (an existing path). `command` is the result of [`server_command`].
pub fn start_server(
    endpoint: Endpoint<'_>,
    spec: &RunSpec,
    command: &[String],
    folder: &Path,
    probe: &str,
    interrupt: &Interrupt,
) -> Result<Program, LabError> {
    let command = [keeping_nothing(folder)?, command.to_vec()].concat();
    let mut program = Program::start(endpoint.server, spec.server.program(), &command, &folder.join(SERVER_LOG))?;
    let is_plain = !spec.speaks_tls() && spec.h2.is_none();
    await_answer(&mut program, (endpoint.client, endpoint.address), probe, is_plain, interrupt)?;
    Ok(program)
}

/// Waits until a started server answers for `probe`, requested from this place; see [`ask`].
pub(crate) fn await_answer(
    program: &mut Program,
    (from, address): (Place<'_>, SocketAddr),
    probe: &str,
    is_plain: bool,
    interrupt: &Interrupt,
) -> Result<(), LabError> {
    let began = Instant::now();
    loop {
        interrupt.check()?;
        program.check_running()?;
        let Err(error) = from.enter(|| ask(address, probe, is_plain)) else { return Ok(()) };
        if began.elapsed() > READY_WITHIN {
            let waited = READY_WITHIN.as_secs();
            return Err(program.failed(&format!("did not answer on {address} within {waited} s ({error})")));
        }
        std::thread::sleep(POLL_EVERY);
    }
}

/// The words before a server's command that put its state between starts into the run's folder. A run that began with
/// the rate found by another run would show nothing about how the rate is found.
fn keeping_nothing(folder: &Path) -> Result<Vec<String>, LabError> {
    Ok(vec!["env".into(), format!("STATE_DIRECTORY={}/{STATE_FOLDER}", absolute(folder)?)])
}

/// The command that serves `source` at `address`. If the server has a configuration, it is written into `folder`.
/// Apache, Caddy and h2o only serve files.
pub fn server_command<'a>(
    experiment: &Experiment,
    spec: &RunSpec,
    address: SocketAddr,
    source: impl Into<Source<'a>>,
    folder: &Path,
    weir: Option<&Path>,
) -> Result<Vec<String>, LabError> {
    let source = source.into();
    let site = source.site;
    let is_made = spec.tls && (spec.server != Server::Weir || spec.certificate_bytes.is_some());
    let bytes = spec.certificate_bytes.unwrap_or(0);
    let certificate = is_made.then(|| Certificate::make(folder, bytes)).transpose()?;
    let speech = Speech { certificate: certificate.as_ref(), is_http2: spec.h2.is_some() };
    let mut command = match (spec.server, weir) {
        (Server::Apache, _) => apache::command(address, site, folder, &experiment.limits)?,
        (Server::Caddy, _) => caddy::command(address, site, folder, speech.certificate)?,
        (Server::H2o, _) => h2o::command(address, site, folder, speech.certificate)?,
        (Server::Nginx, _) => nginx::command(address, source, folder, &experiment.limits, speech)?,
        (Server::Weir, Some(weir)) => weir_words(experiment, spec, address, source, (folder, weir))?,
        (Server::Weir, None) => return Err(LabError::Missing { program: "weir".into() }),
    };
    // A configuration has its own listeners.
    if spec.server == Server::Weir && spec.config.is_none() {
        command.extend(match &certificate {
            Some(Certificate { chain, key }) => ["--cert", chain, "--key", key].map(String::from).to_vec(),
            None => spec.tls.then(|| TLS_FLAG.into()).into_iter().collect(),
        });
    }
    command.extend(spec.flags.iter().cloned());
    Ok(command)
}

/// Checks that the program and modules of a run's server are installed; the error names the missing one.
pub(crate) fn check_installed(spec: &RunSpec, weir: Option<&Path>) -> Result<(), LabError> {
    let server = spec.server;
    match server {
        Server::Weir => weir.map(drop).ok_or_else(|| LabError::Missing { program: "weir".into() }),
        Server::Apache => apache::modules_folder().map(drop),
        Server::Caddy | Server::H2o | Server::Nginx => find_program(server.program()).map(drop),
    }
}

/// Writes a server's configuration to its folder and returns the absolute paths of the folder and the file.
pub(crate) fn write_config(
    folder: &Path,
    name: &str,
    text: impl Fn(&str) -> String,
) -> Result<(String, String), LabError> {
    let folder = absolute(folder)?;
    let file = Path::new(&folder).join(name);
    fs::write(&file, text(&folder)).map_err(|e| LabError::path(&file, e))?;
    Ok((folder, file.display().to_string()))
}

fn absolute(folder: &Path) -> Result<String, LabError> {
    Ok(folder.canonicalize().map_err(|e| LabError::path(folder, e))?.display().to_string())
}

fn weir_words(
    experiment: &Experiment,
    spec: &RunSpec,
    address: SocketAddr,
    source: Source<'_>,
    (folder, weir): (&Path, &Path),
) -> Result<Vec<String>, LabError> {
    if let Some(text) = &spec.config {
        let filled = filled(experiment, spec, text, (address, source), folder)?;
        let (_, file) = write_config(folder, "weir.toml", |_| filled.clone())?;
        return Ok(vec![weir.display().to_string(), "run".into(), file]);
    }
    let mut command = weir_command(experiment, spec, address, source, weir);
    // Latency on the server's side is only used for customers.
    if !experiment.load.class.is_empty() {
        command.extend(["--access-log".into(), access_log(folder)?, "--log-format".into(), "json".into()]);
    }
    Ok(command)
}

/// Returns the text of a configuration with the names in braces replaced.
fn filled(
    experiment: &Experiment,
    spec: &RunSpec,
    text: &str,
    (address, source): (SocketAddr, Source<'_>),
    folder: &Path,
) -> Result<String, LabError> {
    let of_name = |name: &str| {
        Ok(match name {
            "address" => address.to_string(),
            "site" => absolute(source.site)?,
            placeholders::UPSTREAM => source.upstream.map(|upstream| upstream.to_string()).unwrap_or_default(),
            "link" => experiment.told_to(spec).to_string(),
            "policy" => spec.policy.to_string(),
            "shaping" => spec.shaping.clone(),
            "access_log" => access_log(folder)?,
            given => experiment.fill[given].to_string(),
        })
    };
    // Reading the experiment has refused all other names.
    placeholders::fill(text, of_name)
}

fn access_log(folder: &Path) -> Result<String, LabError> {
    Ok(server_side::access_log(folder).map_err(|e| LabError::path(folder, e))?.display().to_string())
}

fn weir_command(
    experiment: &Experiment,
    spec: &RunSpec,
    address: SocketAddr,
    source: Source<'_>,
    weir: &Path,
) -> Vec<String> {
    let (verb, what) = match source.upstream {
        Some(upstream) => ("proxy", upstream.to_string()),
        None => ("serve", source.site.display().to_string()),
    };
    let mut command = vec![weir.display().to_string(), verb.into(), what];
    // The sizes of an experiment are defined by its load.
    command.push("--no-compression".into());
    let mut flag = |name: &str, value: String| command.extend([format!("--{name}"), value]);
    flag("listen", address.to_string());
    flag("policy", spec.policy.to_string());
    flag("shaping", spec.shaping.clone());
    if spec.shaping != "off" {
        flag("uplink", experiment.told_to(spec).to_string());
    }
    if !spec.flags.iter().any(|flag| flag.starts_with("--client-connections")) {
        // A load has many clients, even if they use few addresses, and the other servers have no such limit.
        flag("client-connections", "0".into());
    }
    if let Some(slots) = experiment.limits.workers {
        flag("max-accepted-connections", slots.to_string());
        if !spec.flags.iter().any(|flag| flag.starts_with("--idle-timeout")) {
            // Apache's KeepAliveTimeout: an idle connection that keeps a slot blocks other clients.
            flag("idle-timeout", "5s".into());
        }
    }
    if let Some(connections) = experiment.limits.accept_queue {
        flag("backlog", connections.to_string());
    }
    command
}

/// Requests the head of a file, as proof that the server serves the site and is reachable. A server with TLS or HTTP/2
/// is also asked in plain HTTP/1.1: any reaction, even a close, proves that it runs. The load checks its protocol.
fn ask(address: SocketAddr, path: &str, is_plain: bool) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, PROBE_WITHIN)?;
    stream.set_read_timeout(Some(PROBE_WITHIN))?;
    write!(stream, "HEAD {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = [0; PROBE_BYTES];
    let count = match stream.read(&mut answer) {
        Err(error) if !is_plain && error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
        read => read?,
    };
    let status = String::from_utf8_lossy(&answer[..count]).lines().next().unwrap_or_default().to_owned();
    if !is_plain || status.starts_with("HTTP/1.1 200 ") {
        return Ok(());
    }
    Err(io::Error::other(format!("HEAD {path} was answered by `{status}`")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::testing::{one, parse};

    const PACED: &str = "server = \"weir\"\npolicy = \"srpt\"\nshaping = \"paced\"\nflags = [\"--workers\", \"1\"]";

    /// The words of the command for a run with these keys, if `change` is made to the experiment.
    fn command<'a>(keys: &str, source: impl Into<Source<'a>>, change: impl FnOnce(&mut Experiment)) -> Vec<String> {
        let (mut experiment, spec) = one("fill = { max_a = 5 }", keys);
        change(&mut experiment);
        let (source, address) = (source.into(), "198.18.0.1:8080".parse().unwrap());
        let folder = if spec.config.is_some() { source.site } else { Path::new(".") };
        server_command(&experiment, &spec, address, source, folder, Some(Path::new("weir"))).unwrap()
    }

    fn files(keys: &str, change: impl FnOnce(&mut Experiment)) -> String {
        command(keys, Path::new("www"), change).join(" ")
    }

    #[test]
    fn weir_is_told_the_uplink_unless_it_drains_off() {
        assert_eq!(
            files("server = \"weir\"", |_| ()),
            "weir serve www --no-compression --listen 198.18.0.1:8080 --policy fair --shaping off --client-connections 0"
        );
        assert_eq!(
            files(PACED, |_| ()),
            "weir serve www --no-compression --listen 198.18.0.1:8080 --policy srpt --shaping paced --uplink 10mbit --client-connections 0 --workers 1"
        );
    }

    #[test]
    fn weir_stands_before_an_upstream_with_the_flags_that_it_has_for_files() {
        let source = Source { site: Path::new("www"), upstream: Some("127.0.0.1:3000".parse().unwrap()) };
        let (proxy, files) = (command(PACED, source, |_| ()), command(PACED, source.site, |_| ()));
        assert_eq!(proxy[..3], ["weir", "proxy", "127.0.0.1:3000"]);
        assert_eq!(proxy[3..], files[3..]);
    }

    #[test]
    fn a_configuration_is_told_where_the_upstream_is() {
        let keys = "server = \"weir\"\nconfig = \"[[site.proxy]]\\nto = ['{upstream}']\\n\"";
        let folder = std::env::temp_dir().join(format!("weir-upstream-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let source = Source { site: &folder, upstream: Some("127.0.0.1:3000".parse().unwrap()) };
        let command = command(&format!("{keys}\nupstream = \"chunked\""), source, |_| ());
        assert_eq!(fs::read_to_string(&command[2]).unwrap(), "[[site.proxy]]\nto = ['127.0.0.1:3000']\n");
        fs::remove_dir_all(&folder).unwrap();
        let said = parse("", keys).unwrap_err();
        assert!(said.contains("run `a`: config: unknown `{upstream}`, expected one of {address}"), "{said}");
    }

    #[test]
    fn weir_may_be_told_another_rate_than_the_link_s() {
        for told in ["10.5mbit", "auto", "5mbit..20mbit"] {
            let command = files(PACED, |experiment| experiment.told = told.parse().ok());
            assert!(command.contains(&format!("--uplink {told} ")), "{command}");
        }
    }

    #[test]
    fn weir_is_told_the_limits_of_the_server() {
        let limits = Limits { workers: Some(350), accept_queue: Some(512), ..Limits::default() };
        let command = files("server = \"weir\"", |experiment| experiment.limits = limits);
        assert!(
            command.ends_with(
                "--shaping off --client-connections 0 --max-accepted-connections 350 --idle-timeout 5s --backlog 512"
            ),
            "{command}"
        );
    }

    #[test]
    fn a_limit_of_one_client_is_the_runs_own() {
        let command = files("server = \"weir\"\nflags = [\"--client-connections=9\"]", |_| ());
        assert!(command.ends_with("--shaping off --client-connections=9"), "{command}");
    }

    /// Earlier the next run on the host began with the state of a run before it, and so did machines in virtual time,
    /// which see the host's files.
    #[test]
    fn a_server_finds_nothing_that_another_run_kept() {
        let folder = std::env::temp_dir().join(format!("weir-state-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let words = keeping_nothing(&folder).unwrap();
        let own = format!("STATE_DIRECTORY={}/state", folder.canonicalize().unwrap().display());
        assert_eq!(words, ["env".to_owned(), own]);
        fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn a_missing_weir_is_said() {
        let (experiment, spec) = one("", "server = \"weir\"");
        let (nowhere, address) = (Path::new("/nonexistent"), "127.0.0.1:1".parse().unwrap());
        let error = server_command(&experiment, &spec, address, nowhere, nowhere, None).unwrap_err();
        assert!(error.to_string().starts_with("the program `weir` is not found"));
    }

    #[test]
    fn a_configuration_is_filled_in_and_run() {
        let keys = "server = \"weir\"\nshaping = \"paced\"\n\
            config = \"\"\"\n[uplink]\nrate = \"{link}\"\nshaping = \"{shaping}\"\n[server]\naccess_log = \"{access_log}\"\n\
            [[listener]]\naddress = \"{address}\"\n# {max_a}\n\"\"\"";
        let folder = std::env::temp_dir().join(format!("weir-config-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let command = command(keys, folder.as_path(), |_| ());
        assert_eq!(command[..2], ["weir", "run"]);
        let written = fs::read_to_string(&command[2]).unwrap();
        let log = folder.canonicalize().unwrap().join("access.json");
        let expected = format!(
            "[uplink]\nrate = \"10mbit\"\nshaping = \"paced\"\n[server]\naccess_log = \"{}\"\n\
             [[listener]]\naddress = \"198.18.0.1:8080\"\n# 5\n",
            log.display()
        );
        assert_eq!(written, expected);
        fs::remove_dir_all(&folder).unwrap();
    }
}
