//! Starts the servers, each tuned for this test as its authors would, with logs off, pinned to the same cores.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use super::machine::Cores;
use super::plan::{SAMPLES, Sample};
use super::wrk;
use super::{procfs, proxied};
use crate::conformance::certificates::{self, Certificates};

/// The time that a server may take to answer its first request, and to end after a signal.
const START: Duration = Duration::from_secs(10);
const STOP: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);

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

    /// Returns true if the server serves files here, over TLS or not. HAProxy never does, Caddy has no cleartext site
    /// here, and lighttpd none under TLS.
    pub fn can_serve(self, is_secure: bool) -> bool {
        match self {
            Kind::Caddy => is_secure,
            Kind::Haproxy => false,
            Kind::Lighttpd => !is_secure,
            Kind::Nginx | Kind::H2o | Kind::Weir | Kind::WeirFair => true,
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
                let upstream = self.upstream.as_ref().map(|upstream| upstream.address().to_string());
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
    child: Child,
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
        let port = free_port().map_err(failed)?;
        if let Some(text) = bench.configuration(kind, port) {
            fs::write(bench.config_path(kind, port), text).map_err(failed)?;
        }
        let log = fs::File::create(bench.folder.join("server.log")).map_err(failed)?;
        let mut command = Command::new("taskset");
        command.args(["-c", cores]).args(bench.command(kind, port)).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(log).spawn().map_err(failed)?;
        let mut instance = Instance { child, port, is_secure: bench.certificates.is_some() };
        for &sample in samples {
            instance.check(sample, START).map_err(|e| {
                let said = fs::read_to_string(bench.folder.join("server.log")).unwrap_or_default();
                format!("{} does not serve {}: {e}; it said: {}", kind.name(), sample.name, said.trim())
            })?;
        }
        Ok(instance)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
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

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    fn get(&self, sample: Sample, patience: Duration) -> io::Result<()> {
        let mut stream = TcpStream::connect(self.address())?;
        stream.set_read_timeout(Some(patience))?;
        get(&mut stream, sample)
    }

    /// Requests a sample until the whole file arrives or the time is over. A server that sends anything else would
    /// appear fast.
    fn check(&mut self, sample: Sample, patience: Duration) -> io::Result<()> {
        let deadline = Instant::now() + patience;
        loop {
            let answer =
                if self.is_secure { get_secure(&self.url(sample), sample) } else { self.get(sample, patience) };
            let ended = self.child.try_wait()?.map(|status| io::Error::other(format!("it ended with {status}")));
            match (answer, ended) {
                (_, Some(ended)) => return Err(ended),
                (Err(_), None) if Instant::now() < deadline => sleep(POLL),
                (answer, None) => return answer,
            }
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::TERM); // Already gone is what we want.
        }
        let deadline = Instant::now() + STOP;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            sleep(POLL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request over TLS with curl, which shares no code with Weir.
fn get_secure(url: &str, sample: Sample) -> io::Result<()> {
    let arguments = ["-sk", "-o", "/dev/null", "-w", "%{http_code} %{size_download}", url];
    let output = Command::new("curl").args(arguments).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if said == format!("200 {}", sample.size_bytes) { Ok(()) } else { Err(io::Error::other(format!("curl: {said}"))) }
}

/// Sends a request on an open connection. Returns an error unless the answer is 200 and exactly as long as the file.
pub fn get(stream: &mut TcpStream, sample: Sample) -> io::Result<()> {
    stream.write_all(format!("GET /{} HTTP/1.1\r\nHost: bench\r\n\r\n", sample.name).as_bytes())?;
    let mut buffer = vec![0; 64 * 1024];
    let mut got = stream.read(&mut buffer)?;
    let head_end = loop {
        if let Some(at) = buffer[..got].windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        match stream.read(&mut buffer[got..])? {
            0 => return Err(io::Error::other("the answer has no end of its head")),
            more => got += more,
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).to_ascii_lowercase();
    let is_right =
        head.starts_with("http/1.1 200") && head.contains(&format!("content-length: {}\r\n", sample.size_bytes));
    if !is_right {
        return Err(io::Error::other(format!("the answer is not the file: {}", head.lines().next().unwrap_or(""))));
    }
    let left = sample.size_bytes - (got - head_end) as u64;
    let copied = io::copy(&mut stream.take(left), &mut io::sink())?;
    if copied == left { Ok(()) } else { Err(io::Error::other("the answer is too short")) }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::KB;
    use std::thread;

    fn programs() -> Programs {
        Programs { weir: "weir".into(), weirlab: "weirlab".into() }
    }

    /// Returns the result of `get` for a server that sends `answer` and closes.
    fn got(answer: String) -> Result<(), String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let outcome = get(&mut TcpStream::connect(address).unwrap(), KB).map_err(|e| e.to_string());
        server.join().unwrap();
        outcome
    }

    #[test]
    fn only_the_whole_file_counts() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n";
        assert_eq!(got(format!("{head}{}", "x".repeat(1024))), Ok(()));
        assert!(got(format!("{head}{}", "x".repeat(1023))).unwrap_err().contains("too short"));
        assert!(got("HTTP/1.1 404 Not Found\r\nContent-Length: 1024\r\n\r\n".into()).unwrap_err().contains("404"));
        assert!(got("HTTP/1.1 200 OK\r\n".into()).unwrap_err().contains("no end"));
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
