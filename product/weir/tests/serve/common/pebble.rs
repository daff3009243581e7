//! An authority for the tests: Pebble, with a DNS in which all names lead to this machine. `scripts/pebble.sh` builds
//! it.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::tls::{Made, Trust};
use super::{Site, get, wait_until};

/// A running authority, ended when dropped.
pub struct Pebble {
    pebble: Child,
    dns: Child,
    made: Made,
    /// The ports at which it verifies names.
    pub http: SocketAddr,
    pub tls: SocketAddr,
    pub address: SocketAddr,
    management: SocketAddr,
    /// The address at which the DNS server takes records.
    pub dns_management: SocketAddr,
    settings: Settings,
    files: [PathBuf; 2],
    ports: [SocketAddr; 4],
}

/// The settings that differ between tests.
#[derive(Clone)]
pub struct Settings {
    /// The validity of a certificate in seconds.
    pub validity_s: u64,
    /// The percentage of valid nonces that are refused.
    pub refused_nonces: u32,
    /// True if verification waits a few seconds.
    pub sleeps: bool,
    /// Pebble's environment.
    pub environment: Vec<(&'static str, &'static str)>,
    pub external_account: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        let validity_s = 90 * 24 * 3600;
        Settings { validity_s, refused_nonces: 15, sleeps: false, environment: Vec::new(), external_account: false }
    }
}

/// Returns a free address of this machine, below the ports that the kernel assigns to connections. Another program
/// could still take it before it is used.
fn free() -> SocketAddr {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id().wrapping_mul(97).wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed));
        let address = SocketAddr::from(([127, 0, 0, 1], 10_000 + (number % 20_000) as u16));
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
}

fn tool(name: &str) -> Option<PathBuf> {
    let tool = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?.join("tools").join(name);
    tool.exists().then_some(tool)
}

impl Pebble {
    /// Starts an authority; without the program, prints SKIPPED and returns `None`.
    pub fn start(site: &Site, settings: &Settings) -> Option<Pebble> {
        let (Some(pebble), Some(dns)) = (tool("pebble"), tool("pebble-challtestsrv")) else {
            println!("SKIPPED: there is no Pebble below target/tools (scripts/pebble.sh)");
            return None;
        };
        let ports @ [address, management, resolver, dns_management] = [(); 4].map(|()| free());
        let [http, tls] = [(); 2].map(|()| free());
        let made = Made::new(site, "pebble", &["127.0.0.1", "localhost"]);
        let files = [pebble, site.outside("pebble.json")];
        let dns = Command::new(dns)
            .args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv6", ""])
            .args(["-dnsserver", &resolver.to_string(), "-management", &dns_management.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let settings = settings.clone();
        let started = start(&files, (&ports, [http, tls]), &made, &settings);
        let pebble = Pebble {
            pebble: started,
            dns,
            made,
            http,
            tls,
            address,
            management,
            dns_management,
            settings,
            files,
            ports,
        };
        pebble.wait();
        Some(pebble)
    }

    /// Ends the authority; its account and certificates are forgotten.
    pub fn stop(&mut self) {
        let _ = self.pebble.kill();
        let _ = self.pebble.wait();
    }

    /// Starts it again at the same addresses.
    pub fn start_again(&mut self) {
        self.pebble = start(&self.files, (&self.ports, [self.http, self.tls]), &self.made, &self.settings);
        self.wait();
    }

    /// Uses other settings from the next start on.
    pub fn change(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Makes the authority suggest to renew the certificate in this file now (RFC 9773).
    pub fn wants_renewed(&self, file: &Path) {
        let text = std::fs::read_to_string(file).unwrap();
        let leaf = text.split_once("-----BEGIN CERTIFICATE-----").unwrap().1;
        let leaf = leaf.split_once("-----END CERTIFICATE-----").unwrap().0;
        let leaf = format!("-----BEGIN CERTIFICATE-----{leaf}-----END CERTIFICATE-----\n");
        let window = r#"{"suggestedWindow":{"start":"2020-01-01T00:00:00Z","end":"2020-01-02T00:00:00Z"}}"#;
        let body = serde_json::json!({ "certificate": leaf, "ariResponse": window }).to_string();
        let mut client = self.made.trust().connect(self.management, "127.0.0.1");
        let length = body.len();
        client.send(&format!("POST /set-renewal-info/ HTTP/1.1\r\nHost: a\r\nUser-Agent: weir-test\r\nContent-Length: {length}\r\n\r\n{body}"));
        let (head, said) = client.response();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}{}", String::from_utf8_lossy(&said));
    }

    fn wait(&self) {
        for address in [self.address, self.management, self.dns_management] {
            wait_until("the authority to listen", || TcpStream::connect(address).is_ok());
        }
    }

    pub fn directory(&self) -> String {
        format!("https://{}/dir", self.address)
    }

    pub fn ca(&self) -> &str {
        self.made.cert.to_str().unwrap()
    }

    /// The flags of a server whose hosts this authority verifies.
    pub fn flags(&self) -> Vec<String> {
        let [http, tls] = [self.http, self.tls].map(|address| address.to_string());
        let words = ["--listen", &tls, "--listen-http", &http, "--acme-ca", self.ca()];
        let mut flags: Vec<String> = words.map(String::from).to_vec();
        flags.extend(["--acme-directory".into(), self.directory()]);
        flags
    }

    /// A client that trusts only the authority's certificates.
    pub fn trust(&self) -> Trust {
        let mut client = self.made.trust().connect(self.management, "127.0.0.1");
        client.send(&get("/roots/0"));
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
        let mut root = vec![0; length.parse().unwrap()];
        std::io::Read::read_exact(&mut client.stream, &mut root).unwrap();
        Trust::of_pem(&[&String::from_utf8(root).unwrap()])
    }
}

fn start(
    [pebble, config]: &[PathBuf; 2],
    ([address, management, resolver, _], [http, tls]): (&[SocketAddr; 4], [SocketAddr; 2]),
    made: &Made,
    settings: &Settings,
) -> Child {
    let text = serde_json::json!({ "pebble": {
        "listenAddress": address.to_string(),
        "managementListenAddress": management.to_string(),
        "certificate": made.cert, "privateKey": made.key,
        "httpPort": http.port(), "tlsPort": tls.port(),
        "ocspResponderURL": "",
        "externalAccountBindingRequired": settings.external_account,
        "externalAccountMACKeys": { "kid-1": "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W" },
        "domainBlocklist": ["refused.test"],
        "keyAlgorithm": "ecdsa",
        "profiles": { "default": { "description": "default", "validityPeriod": settings.validity_s } },
    }});
    std::fs::write(config, text.to_string()).unwrap();
    let mut command = Command::new(pebble);
    command.arg("-config").arg(config).args(["-dnsserver", &resolver.to_string()]);
    command.env("PEBBLE_WFE_NONCEREJECT", settings.refused_nonces.to_string());
    if !settings.sleeps {
        command.env("PEBBLE_VA_NOSLEEP", "1");
    }
    command.envs(settings.environment.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

impl Drop for Pebble {
    fn drop(&mut self) {
        self.stop();
        let _ = self.dns.kill();
        let _ = self.dns.wait();
    }
}
