//! Starts the servers, each tuned for this test as its authors would, with logs off, pinned to the same cores.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::Serialize;

use super::machine::Cores;
use super::plan::{SAMPLES, Sample};
use super::wrk;
use super::{procfs, proxied};
use crate::conformance::certificates::{self, Certificates};
use crate::conformance::run::{Running, free_ports, last_lines, wait_for};

/// The time that a server may take to answer its first request.
const START: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize)]
pub enum Kind {
    Nginx,
    H2o,
    Lighttpd,
    Haproxy,
    Caddy,
    /// Weir without options.
    Weir,
    /// Weir with the order of arrival, and so nothing to order.
    WeirFair,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Nginx => "nginx",
            Kind::H2o => "h2o",
            Kind::Lighttpd => "lighttpd",
            Kind::Haproxy => "haproxy",
            Kind::Caddy => "caddy",
            Kind::Weir => "weir",
            Kind::WeirFair => "weir-fair",
        }
    }

    /// Returns true for servers with HTTP/3: Caddy since 2.6. nginx has it since 1.25, which Debian 12 lacks.
    pub fn has_http3(self) -> bool {
        matches!(self, Kind::Caddy | Kind::Weir | Kind::WeirFair)
    }

    pub fn is_weir(self) -> bool {
        matches!(self, Kind::Weir | Kind::WeirFair)
    }
}

/// The programs of this project.
#[derive(Debug, Clone)]
pub struct Programs {
    pub weir: PathBuf,
    /// The generator of HTTP/3.
    pub weirlab: PathBuf,
}

/// The resources that all measurements share: the files, the cores, the programs. The folder is removed at the end.
pub struct Bench {
    pub workers: u32,
    pub cores: Cores,
    pub programs: Programs,
    folder: PathBuf,
    /// The certificates, if all servers use TLS.
    certificates: Option<Certificates>,
    /// The upstream of all servers, if they do not serve the files themselves.
    upstream: Option<Instance>,
}

impl Bench {
    pub fn new(workers: u32, cores: Cores, programs: Programs, is_secure: bool) -> Result<Bench, String> {
        // A process may have several at the same time.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("weir-bench-{}-{number}", std::process::id()));
        let mut bench = Bench { workers, cores, programs, folder, certificates: None, upstream: None };
        bench.write_files().map_err(|e| format!("{}: {e}", bench.folder.display()))?;
        if is_secure {
            bench.certificates = Some(certificates::make(&bench.folder, Path::new("openssl"))?);
        }
        Ok(bench)
    }

    /// Makes the servers started from now on pass requests to an nginx on the generator's cores.
    pub fn behind(mut self) -> Result<Bench, String> {
        self.upstream = Some(Instance::start_on(&self, Kind::Nginx, &SAMPLES, &self.cores.wrk)?);
        Ok(self)
    }

    /// Returns the CPU seconds of the upstream, if there is one.
    pub fn upstream_cpu_seconds(&self) -> f64 {
        self.upstream.as_ref().map_or(0.0, |upstream| procfs::cpu_seconds(upstream.pid()))
    }

    fn write_files(&self) -> io::Result<()> {
        fs::create_dir_all(self.files())?;
        for sample in SAMPLES {
            let size = usize::try_from(sample.size_bytes).map_err(io::Error::other)?;
            let text: Vec<u8> = (0..size).map(|at| b'a' + (at % 26) as u8).collect();
            fs::write(self.files().join(sample.name), &text)?;
            // The name that `weirlab load` requests.
            fs::write(self.files().join(format!("{size}.bin")), text)?;
        }
        fs::write(self.script(), wrk::SCRIPT)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn script(&self) -> PathBuf {
        self.folder.join("measured.lua")
    }

    fn files(&self) -> PathBuf {
        self.folder.join("files")
    }

    /// The server's command line, without the pinning. Its configuration file, if any, has the content of
    /// `configuration`.
    pub fn command(&self, kind: Kind, port: u16) -> Vec<String> {
        let config = self.config_path(kind, port).display().to_string();
        let prefix = format!("{}/", self.folder.display());
        let own = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        match kind {
            Kind::Nginx => own(&["nginx", "-p", &prefix, "-c", &config, "-e", "nginx.log", "-g", "daemon off;"]),
            Kind::H2o => own(&["h2o", "-c", &config]),
            Kind::Lighttpd => own(&["lighttpd", "-D", "-f", &config]),
            Kind::Haproxy => own(&["haproxy", "-db", "-f", &config]),
            Kind::Caddy => {
                // The folder in which Caddy stores its last configuration.
                let state = format!("XDG_CONFIG_HOME={}", self.state_of_caddy());
                own(&["env", &state, "caddy", "run", "--adapter", "caddyfile", "--config", &config])
            }
            Kind::Weir | Kind::WeirFair => {
                let (weir, files) = (self.programs.weir.display().to_string(), self.files().display().to_string());
                let (listen, workers) = (format!("127.0.0.1:{port}"), self.workers.to_string());
                // The default is one worker per core that the server is pinned to.
                let workers = if self.cores.are_apart { vec![] } else { vec!["--workers", &workers] };
                let upstream = self.upstream.as_ref().map(|upstream| format!("127.0.0.1:{}", upstream.port));
                let what = upstream.as_ref().map_or(["serve", &files], |upstream| ["proxy", upstream]);
                let order = if kind == Kind::WeirFair { vec!["--policy", "fair"] } else { vec![] };
                let [cert, key] = self.identity().unwrap_or_default();
                // All connections come from one client here.
                let own_flags = ["--client-connections", "0", "--cert", &cert, "--key", &key];
                let tls = if cert.is_empty() { vec![] } else { own_flags.to_vec() };
                own(&[vec![&weir, what[0], what[1], "--listen", &listen], workers, order, tls].concat())
            }
        }
    }

    /// The files of the certificates and the key, if TLS is used.
    fn identity(&self) -> Option<[String; 2]> {
        let Certificates { chain, key, .. } = self.certificates.as_ref()?;
        Some([chain, key].map(|path| path.display().to_string()))
    }

    fn state_of_caddy(&self) -> String {
        self.folder.join("caddy").display().to_string()
    }

    fn config_path(&self, kind: Kind, port: u16) -> PathBuf {
        self.folder.join(format!("{}-{port}.conf", kind.name()))
    }

    /// Returns the configuration of a server that serves the files or passes requests on.
    pub fn configuration(&self, kind: Kind, port: u16) -> Option<String> {
        match &self.upstream {
            Some(upstream) => {
                proxied::configuration(kind, port, upstream.port, self.workers, &self.folder.display().to_string())
            }
            None => self.of_files(kind, port),
        }
    }

    /// The configuration with room for 10,000 connections, no limit on requests per connection, open files cached, and
    /// no logs.
    fn of_files(&self, kind: Kind, port: u16) -> Option<String> {
        let (workers, folder, files) = (self.workers, self.folder.display(), self.files());
        let files = files.display();
        let [cert, key] = self.identity().unwrap_or_default();
        let with_tls = |text: String| if cert.is_empty() { String::new() } else { text };
        let as_root = |line: &'static str| if rustix::process::geteuid().is_root() { line } else { "" };
        match kind {
            Kind::Nginx => Some(format!(
                "{}worker_processes {workers};\npid {folder}/nginx-{port}.pid;\n\
                 events {{ worker_connections 20000; }}\n\
                 http {{\n  types {{ text/html html; }}\n  access_log off;\n  sendfile on;\n  tcp_nopush on;\n  \
                 open_file_cache max=1000 inactive=60s;\n  keepalive_timeout 300s;\n  keepalive_requests 1000000000;\n  \
                 client_body_temp_path {folder}/nginx-body;\n  proxy_temp_path {folder}/nginx-proxy;\n  \
                 fastcgi_temp_path {folder}/nginx-fastcgi;\n  uwsgi_temp_path {folder}/nginx-uwsgi;\n  \
                 scgi_temp_path {folder}/nginx-scgi;\n  \
                 server {{ listen 127.0.0.1:{port}{} reuseport deferred backlog=4096; root {files}; {}}}\n}}\n",
                as_root("user root;\n"),
                with_tls(" ssl http2".into()),
                with_tls(format!("ssl_certificate {cert}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3; ")),
            )),
            Kind::H2o => Some(format!(
                "{}num-threads: {workers}\nmax-connections: 20000\nhttp1-request-timeout: 300\nhttp2-idle-timeout: 300\n\
                 listen:\n  host: 127.0.0.1\n  port: {port}\n{}error-log: {folder}/h2o.log\n\
                 hosts:\n  default:\n    paths:\n      \"/\":\n        file.dir: {files}\n",
                as_root("user: root\n"),
                with_tls(h2o_identity(&cert, &key))
            )),
            Kind::Lighttpd => Some(format!(
                "server.bind = \"127.0.0.1\"\nserver.port = {port}\nserver.document-root = \"{files}\"\n\
                 server.errorlog = \"{folder}/lighttpd.log\"\nserver.max-worker = {}\n\
                 server.max-connections = 20000\nserver.max-fds = 40000\nserver.listen-backlog = 4096\n\
                 server.max-keep-alive-requests = 65535\nserver.max-keep-alive-idle = 300\n\
                 server.stat-cache-engine = \"simple\"\nserver.network-backend = \"sendfile\"\n\
                 mimetype.assign = ( \".html\" => \"text/html\" )\n",
                if workers == 1 { 0 } else { workers }
            )),
            Kind::Caddy => Some(caddyfile(port, &self.state_of_caddy(), &files.to_string(), &cert, &key)),
            Kind::Haproxy | Kind::Weir | Kind::WeirFair => None,
        }
    }
}

/// Disables the query for revocation, since the certificate is self-made.
fn h2o_identity(cert: &str, key: &str) -> String {
    format!("  ssl:\n    certificate-file: {cert}\n    key-file: {key}\n    ocsp-update-interval: 0\n")
}

fn caddyfile(port: u16, state: &str, files: &str, cert: &str, key: &str) -> String {
    let site = format!("bind 127.0.0.1\n tls {cert} {key}\n root * {files}\n file_server");
    format!(
        "{{\n admin off\n auto_https off\n storage file_system {state}\n}}\nhttps://localhost:{port} {{\n {site}\n}}\n"
    )
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.upstream = None;
        if let Err(e) = fs::remove_dir_all(&self.folder) {
            eprintln!("measure: {} is left behind: {e}", self.folder.display());
        }
    }
}

/// A running server; it is ended when dropped.
pub struct Instance {
    running: Running,
    port: u16,
    is_secure: bool,
}

impl Instance {
    /// Starts a server, and checks that it serves these samples.
    pub fn start(bench: &Bench, kind: Kind, samples: &[Sample]) -> Result<Instance, String> {
        Instance::start_on(bench, kind, samples, &bench.cores.server)
    }

    fn start_on(bench: &Bench, kind: Kind, samples: &[Sample], cores: &str) -> Result<Instance, String> {
        let failed = |e: io::Error| format!("cannot start {} under taskset: {e}", kind.name());
        let [port] = free_ports()?;
        if let Some(text) = bench.configuration(kind, port) {
            fs::write(bench.config_path(kind, port), text).map_err(failed)?;
        }
        let log = bench.folder.join("server.log");
        let mut command = Command::new("taskset");
        command.args(["-c", cores]).args(bench.command(kind, port));
        let running = Running::start(&mut command, &log)?;
        let mut instance = Instance { running, port, is_secure: bench.certificates.is_some() };
        for &sample in samples {
            instance.check(sample).map_err(|why| {
                let said = fs::read_to_string(&log).unwrap_or_default();
                format!("{} does not serve {}: {why}; it said: {}", kind.name(), sample.name, last_lines(&said, 5))
            })?;
        }
        Ok(instance)
    }

    pub fn pid(&self) -> u32 {
        self.running.id()
    }

    pub fn url(&self, sample: Sample) -> String {
        match self.is_secure {
            true => format!("https://localhost:{}/{}", self.port, sample.name),
            false => format!("http://127.0.0.1:{}/{}", self.port, sample.name),
        }
    }

    /// The folder with all samples.
    pub fn site(&self) -> String {
        format!("https://localhost:{}/", self.port)
    }

    /// Requests a sample until the whole file arrives or the time is over. A server that sends anything else would
    /// appear fast.
    fn check(&mut self, sample: Sample) -> Result<(), String> {
        let (url, mut why) = (self.url(sample), String::new());
        let answers = wait_for(START, || match (get(&url, sample), self.running.status()) {
            (_, Some(status)) => Some(Err(format!("it ended with {status}"))),
            (Err(error), None) => {
                why = error.to_string();
                None
            }
            (Ok(()), None) => Some(Ok(())),
        });
        answers.unwrap_or(Err(why))
    }
}

/// Sends a request by curl, which has nothing of ours in it; an error unless the answer is 200 and as long as the file.
fn get(url: &str, sample: Sample) -> io::Result<()> {
    let arguments = ["-sk", "-m", "10", "-o", "/dev/null", "-w", "%{http_code} %{size_download}", url];
    let output = Command::new("curl").args(arguments).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if said == format!("200 {}", sample.size_bytes) { Ok(()) } else { Err(io::Error::other(format!("curl: {said}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs() -> Programs {
        Programs { weir: "weir".into(), weirlab: "weirlab".into() }
    }

    #[test]
    fn peers_ask_nobody_and_keep_to_the_folder_of_the_run() {
        let bench = Bench::new(1, crate::bench::machine::cores(1), programs(), false).unwrap();
        let state = bench.folder().join("caddy").display().to_string();
        let site = caddyfile(8000, &state, "files", "cert.pem", "key.pem");
        assert!(site.contains(&format!("storage file_system {state}\n")), "{site}");
        assert!(bench.command(Kind::Caddy, 8000).contains(&format!("XDG_CONFIG_HOME={state}")));
    }

    #[test]
    fn weir_is_measured_as_it_comes() {
        let command = |are_apart, kind| {
            let cores = Cores { are_apart, ..crate::bench::machine::cores(1) };
            Bench::new(2, cores, programs(), false).unwrap().command(kind, 8000).join(" ")
        };
        assert!(command(true, Kind::Weir).ends_with("/files --listen 127.0.0.1:8000"));
        assert!(command(true, Kind::WeirFair).ends_with("/files --listen 127.0.0.1:8000 --policy fair"));
        assert!(command(false, Kind::Weir).ends_with("/files --listen 127.0.0.1:8000 --workers 2"));
    }
}
