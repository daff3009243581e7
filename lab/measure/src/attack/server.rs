//! The attacked server, a child of this process on loopback, with an access log, one event loop, and a port for each
//! protocol.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Kind, Memory, application};
use crate::bench::procfs;
use crate::conformance::certificates::{self, Certificates};
use crate::conformance::run::{Running, free_ports, last_lines, wait_for};

const START: Duration = Duration::from_secs(20);

/// The names and sizes in bytes of the honest client's file and of the attackers' file.
pub const SMALL: (&str, usize) = ("small.html", 1024);
pub const LARGE: (&str, usize) = ("20m.bin", 20_000_000);

/// The files and the certificate; they are removed when this is dropped.
pub struct Site {
    folder: PathBuf,
    certificates: Certificates,
    /// The port of the application.
    application: u16,
}

/// The requirements of an attack on the server's configuration.
pub struct Behind<'a> {
    /// The maximum concurrent requests to the application behind the server; `None` without an application.
    pub places: Option<u32>,
    /// Weir's `limits.memory`.
    pub memory: Option<&'a Memory>,
}

impl Site {
    pub fn make() -> Result<Site, String> {
        let folder = std::env::temp_dir().join(format!("weir-attack-{}", std::process::id()));
        let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
        fs::create_dir_all(folder.join("files")).map_err(failed)?;
        for (name, bytes) in [SMALL, LARGE] {
            fs::write(folder.join("files").join(name), vec![b'x'; bytes]).map_err(failed)?;
        }
        let certificates = certificates::make(&folder, Path::new("openssl"))?;
        // HAProxy needs both in one file.
        let read = |file: &Path| fs::read_to_string(file).map_err(failed);
        let both = [read(&certificates.chain)?, read(&certificates.key)?].concat();
        fs::write(folder.join("both.pem"), both).map_err(failed)?;
        Ok(Site { folder, certificates, application: application::start()? })
    }

    fn log(&self) -> PathBuf {
        self.folder.join("access.log")
    }

    /// Returns the folder in which Weir stores the rate that it finds.
    fn state(&self) -> PathBuf {
        self.folder.join("state")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Err(e) = fs::remove_dir_all(&self.folder) {
            eprintln!("measure: {} is left behind: {e}", self.folder.display());
        }
    }
}

/// The ports of a server: HTTP/1.1, HTTP/2 (in Weir the same port, because it detects the protocol; nginx 1.22 cannot),
/// and TLS, whose number is also the port of HTTP/3.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    pub http1: u16,
    pub http2: u16,
    pub tls: u16,
}

/// A running server; it is ended when dropped.
pub struct Server {
    running: Running,
    ports: Ports,
    log: PathBuf,
    said: PathBuf,
    has_http3: bool,
    places: u32,
}

impl Server {
    pub fn start(site: &Site, kind: Kind, weir: &Path, behind: &Behind<'_>) -> Result<Server, String> {
        let [http1, other, tls] = free_ports()?;
        let ports =
            Ports { http1, http2: if matches!(kind, Kind::Nginx | Kind::Haproxy) { other } else { http1 }, tls };
        let (log, said) = (site.log(), site.folder.join("said.log"));
        let config = site.folder.join("server.conf");
        let failed = |e: std::io::Error| format!("{}: {e}", site.folder.display());
        fs::write(&config, configuration(site, kind, ports, behind)).map_err(failed)?;
        fs::write(&log, "").map_err(failed)?;
        // A rate that Weir found under the previous flood would slow it under this one.
        let _ = fs::remove_dir_all(site.state());
        fs::create_dir(site.state()).map_err(failed)?;
        let running = Running::start(&mut command(site, kind, weir, &config), &said)?;
        let (has_http3, places) = (matches!(kind, Kind::Weir | Kind::Caddy), behind.places.unwrap_or(0));
        let mut server = Server { running, ports, log, said, has_http3, places };
        // The server may listen on one port before another.
        let listens = |server: &Server| {
            [server.http1(), server.http2(), server.tls()].iter().all(|address| TcpStream::connect(address).is_ok())
        };
        let answers = wait_for(START, || match server.running.status() {
            None => listens(&server).then_some(true),
            Some(_) => Some(false),
        });
        match answers {
            Some(true) => server.check_own().map(|()| server),
            _ => Err(format!("{} does not start: {}", kind.name(), server.last_words())),
        }
    }

    /// Checks that attacks go only to loopback sockets of this program's own child.
    fn check_own(&self) -> Result<(), String> {
        let read = |path: &str| fs::read_to_string(path).map_err(|e| format!("{path}: {e}"));
        let (tcp, udp) = (read("/proc/net/tcp")?, read("/proc/net/udp")?);
        let folder = fs::read_dir(format!("/proc/{}/fd", self.running.id())).map_err(|e| format!("/proc: {e}"))?;
        let held: Vec<PathBuf> = folder.flatten().filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
        let Ports { http1, http2, tls } = self.ports;
        let over_tcp = [http1, http2, tls].map(|port| (&tcp, port, LISTENS));
        for (table, port, state) in over_tcp.into_iter().chain(self.has_http3.then_some((&udp, tls, UNCONNECTED))) {
            let own = |inode: &&str| held.contains(&PathBuf::from(format!("socket:[{inode}]")));
            let sockets = sockets(table, port, state);
            if sockets.is_empty() || !sockets.iter().all(own) {
                return Err(format!("127.0.0.1:{port} is not our own server's; nothing is sent there"));
            }
        }
        Ok(())
    }

    pub fn http1(&self) -> SocketAddr {
        loopback(self.ports.http1)
    }

    pub fn http2(&self) -> SocketAddr {
        loopback(self.ports.http2)
    }

    pub fn tls(&self) -> SocketAddr {
        loopback(self.ports.tls)
    }

    /// The maximum concurrent requests to the application.
    pub fn places(&self) -> u32 {
        self.places
    }

    pub fn is_alive(&mut self) -> bool {
        self.running.status().is_none()
    }

    pub fn cpu_seconds(&self) -> f64 {
        procfs::cpu_seconds(self.running.id())
    }

    pub fn resident_bytes(&self) -> u64 {
        procfs::resident_bytes(self.running.id())
    }

    /// The maximum resident memory so far.
    pub fn peak_bytes(&self) -> u64 {
        procfs::peak_bytes(self.running.id())
    }

    pub fn log_lines(&self) -> u64 {
        fs::read(&self.log).map_or(0, |text| text.iter().filter(|&&byte| byte == b'\n').count() as u64)
    }

    pub fn last_words(&self) -> String {
        last_lines(&fs::read_to_string(&self.said).unwrap_or_default(), 2)
    }
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// States of a socket in /proc/net/tcp and /proc/net/udp (proc(5)).
const LISTENS: &str = "0A";
const UNCONNECTED: &str = "07";

/// Returns the inodes of the sockets at 127.0.0.1 and this port in the text of /proc/net/tcp or /proc/net/udp.
fn sockets<'a>(table: &'a str, port: u16, state: &str) -> Vec<&'a str> {
    let at = format!("{:08X}:{port:04X}", u32::from_ne_bytes(Ipv4Addr::LOCALHOST.octets()));
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(1) == Some(&at.as_str()) && row.get(3) == Some(&state))
        .filter_map(|row| row.get(9).copied())
        .collect()
}

fn command(site: &Site, kind: Kind, weir: &Path, config: &Path) -> Command {
    match kind {
        Kind::Weir => {
            let mut command = Command::new(weir);
            command.arg("run").arg(config).env("STATE_DIRECTORY", site.state());
            command
        }
        Kind::Nginx => {
            let mut command = Command::new("nginx");
            command.arg("-p").arg(&site.folder).arg("-c").arg(config).args(["-e", "said.log", "-g", "daemon off;"]);
            command
        }
        Kind::Haproxy => {
            let mut command = Command::new("haproxy");
            command.arg("-db").arg("-f").arg(config);
            command
        }
        Kind::Caddy => {
            let mut command = Command::new("caddy");
            command.args(["run", "--adapter", "caddyfile", "--config"]).arg(config);
            // The folder in which Caddy stores its last configuration, and one event loop, as in the others.
            command.env("XDG_CONFIG_HOME", site.folder.join("caddy")).env("GOMAXPROCS", "1");
            command
        }
    }
}

/// The configuration with one event loop, an access log (except for HAProxy, which needs another program), and room for
/// every connection.
fn configuration(site: &Site, kind: Kind, ports: Ports, behind: &Behind<'_>) -> String {
    let (Ports { http1, http2, tls }, application) = (ports, format!("127.0.0.1:{}", site.application));
    let (folder, log) = (site.folder.display(), site.log());
    let (log, Certificates { chain, key, .. }) = (log.display(), &site.certificates);
    let (chain, key) = (chain.display(), key.display());
    let memory = behind.memory.map_or(String::new(), |memory| format!("memory = \"{}\"\n", memory.text));
    match kind {
        Kind::Weir => format!(
            "[server]\nworkers = 1\naccess_log = \"{log}\"\n[limits]\nclient_connections = 0\n{memory}\
             [[listener]]\naddress = \"127.0.0.1:{http1}\"\n[[listener]]\naddress = \"127.0.0.1:{tls}\"\ntls = true\n\
             [[site]]\nroot = \"{folder}/files\"\ncert = \"{chain}\"\nkey = \"{key}\"\n{proxy}",
            proxy = behind.places.map_or(String::new(), |places| format!(
                "[[site.proxy]]\npath = \"/app/*\"\nto = [\"{application}\"]\nmax_concurrent_requests = {places}\n"
            )),
        ),
        Kind::Haproxy => haproxy(site, ports, &application, behind),
        Kind::Caddy => format!(
            "{{\n admin off\n auto_https off\n storage file_system {folder}/caddy\n}}\n\
             (site) {{\n bind 127.0.0.1\n root * {folder}/files\n file_server\n log {{\n output file {log}\n }}\n}}\n\
             http://:{http1} {{\n import site\n}}\nhttps://localhost:{tls} {{\n tls {chain} {key}\n import site\n}}\n"
        ),
        Kind::Nginx => {
            let [upstream, proxy] =
                behind.places.map_or_else(Default::default, |places| nginx_behind(&application, places));
            format!(
                "{user}worker_processes 1;\nworker_rlimit_nofile 20000;\npid {folder}/nginx.pid;\n\
             events {{ worker_connections 20000; }}\n\
             http {{\n access_log {log};\n sendfile on;\n open_file_cache max=1000 inactive=60s;\n\
             keepalive_timeout 300s;\n keepalive_requests 1000000000;\n\
             client_body_temp_path {folder}/nginx-body;\n proxy_temp_path {folder}/nginx-proxy;\n\
             fastcgi_temp_path {folder}/nginx-fastcgi;\n uwsgi_temp_path {folder}/nginx-uwsgi;\n\
             scgi_temp_path {folder}/nginx-scgi;\n ssl_certificate {chain};\n ssl_certificate_key {key};\n\
             ssl_protocols TLSv1.2 TLSv1.3;\n{upstream} server {{\n listen 127.0.0.1:{http1} backlog=4096;\n\
             listen 127.0.0.1:{http2} http2 backlog=4096;\n listen 127.0.0.1:{tls} ssl http2 backlog=4096;\n\
             root {folder}/files;\n{proxy} }}\n}}\n",
                user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" },
            )
        }
    }
}

/// The configuration of HAProxy, which needs an application because it serves no files.
fn haproxy(site: &Site, Ports { http1, http2, tls }: Ports, application: &str, behind: &Behind<'_>) -> String {
    let (folder, places) = (site.folder.display(), behind.places.unwrap_or(0));
    format!(
        "global\n maxconn 9000\n nbthread 1\ndefaults\n mode http\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n\
         timeout queue 10s\n timeout tunnel 1h\nfrontend all\n bind 127.0.0.1:{http1} backlog 4096\n\
         bind 127.0.0.1:{http2} proto h2 backlog 4096\n bind 127.0.0.1:{tls} ssl crt {folder}/both.pem alpn h2,http/1.1\n\
         default_backend application\nbackend application\n server one {application} maxconn {places}\n"
    )
}

/// The upstream, and the part of nginx's server block that passes requests to it.
fn nginx_behind(application: &str, places: u32) -> [String; 2] {
    [
        format!(
            " upstream application {{\n server {application} max_conns={places};\n keepalive 32;\n }}\n\
             map $http_upgrade $connection_upgrade {{\n default upgrade;\n '' '';\n }}\n"
        ),
        " location /app/ {\n proxy_pass http://application;\n proxy_http_version 1.1;\n proxy_set_header Upgrade $http_upgrade;\n\
         proxy_set_header Connection $connection_upgrade;\n proxy_read_timeout 1h;\n }\n"
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_that_listens_on_loopback_is_found() {
        let row = |address: &str, state: &str| {
            format!("  0: {address}:1F90 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 4711 1\n")
        };
        let loopback = format!("{:08X}", u32::from_ne_bytes([127, 0, 0, 1]));
        let found = |address: &str, state: &str, port| !sockets(&row(address, state), port, LISTENS).is_empty();
        assert_eq!(sockets(&row(&loopback, "0A"), 8080, LISTENS), ["4711"]);
        assert!(found(&loopback, "0A", 8080) && !found("00000000", "0A", 8080));
        assert!(!found(&loopback, "01", 8080) && !found(&loopback, "0A", 8081));
        // Every socket of the port is listed, whichever process holds it.
        let two = row(&loopback, UNCONNECTED).repeat(2);
        assert_eq!(sockets(&two, 8080, UNCONNECTED), ["4711", "4711"]);
    }
}
