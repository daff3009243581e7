//! A link of the lab with a path of the test's own, and what probes it.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use testbed::{Experiment, Interrupt, Link, Wide};

const PORT: u16 = 9000;
/// The first address of the first group.
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 16, 1);
/// Bytes of a probe before its headers of 28.
const PROBE_BYTES: usize = 100;
/// No path here delays a packet for so long, nor does an emulated processor that hardly gets a turn.
const GONE_AFTER: Duration = Duration::from_secs(5);

/// A link whose clients have one path. Fields are dropped in this order.
pub struct Network {
    wide: Option<Wide>,
    pub link: Link,
    folder: PathBuf,
}

/// One probe that came back: its number, and how long that took, ms.
pub type Echo = (u32, f64);

/// Says that a test was skipped, and why; fails where nothing may be skipped.
pub fn skip(why: &str) {
    assert!(std::env::var("WEIR_REQUIRE_PRIVILEGED").as_deref() != Ok("1"), "not skipped here: {why}");
    println!("SKIPPED: {why}");
}

/// Whether links of our own can be made here; says why not.
pub fn may_test() -> bool {
    let why = match rustix::process::geteuid().is_root() {
        false => "needs root: making namespaces",
        true if !Path::new("/dev/net/tun").exists() => "this kernel has no TUN",
        true => return true,
    };
    skip(why);
    false
}

/// Gives this process the least real-time priority, if it may: the probes are to measure the path and not how busy the machine
/// is, which on two cores that also compile adds up to 130 ms to the longest of 2,000.
fn be_punctual() {
    let words = ["-a", "-f", "-p", "1"].map(String::from).into_iter().chain([std::process::id().to_string()]);
    let _ = std::process::Command::new("chrt").args(words).status();
}

impl Network {
    /// A link of 1 Gbit/s whose clients have this path (the keys of a [[client]]), made by these means. `None` without root,
    /// or where the kernel has no netem and that was asked for.
    pub fn new(name: &str, means: &str, path: &str) -> Option<Network> {
        if !may_test() {
            return None;
        }
        be_punctual();
        let text = format!(
            "question = \"\"\nlink = \"1gbit\"\nrho = 0.8\nseconds = 1\nwire = false\nwan = \"{means}\"\n\
             [[client]]\nname = \"a\"\n{path}\n[[run]]\nname = \"a\"\nserver = \"nginx\"\n"
        );
        let experiment = Experiment::parse(&text, Path::new("x.toml")).unwrap();
        let link = match Link::build(&experiment, experiment.runs().next().unwrap(), None) {
            Ok(link) => link,
            Err(error) if means == "netem" && error.to_string().contains("kind is unknown") => {
                println!("SKIPPED: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let folder = std::env::temp_dir().join(format!("weirlab-wan-{}-{name}-{means}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let weirlab = Path::new(env!("CARGO_BIN_EXE_weirlab"));
        let wide = link.start_wide(weirlab, 1, &folder, &Interrupt::default()).unwrap();
        assert_eq!(wide.is_some(), means == "own");
        Some(Network { wide, link, folder })
    }

    /// Sends probes of one connection to the server and back, one each `every`, and gives those that came back in the order
    /// they did.
    pub fn probe(&self, count: u32, every: Duration) -> Vec<Echo> {
        let target = SocketAddr::new(self.link.server_address(), PORT);
        let server = self.link.server().enter(|| UdpSocket::bind(target)).unwrap();
        let client = self.link.client().enter(|| UdpSocket::bind((CLIENT, 0))).unwrap();
        let began = Instant::now();
        let now_ms = || began.elapsed().as_secs_f64() * 1e3;
        std::thread::scope(|scope| {
            scope.spawn(|| echo(&server, count));
            let receiver = scope.spawn(|| received(&client, count, now_ms));
            for number in 0..count {
                let mut probe = [0u8; PROBE_BYTES];
                probe[..4].copy_from_slice(&number.to_be_bytes());
                probe[4..12].copy_from_slice(&now_ms().to_be_bytes());
                client.send_to(&probe, target).unwrap();
                std::thread::sleep(every);
            }
            receiver.join().unwrap()
        })
    }

    /// Fetches so many bytes over TCP; gives Mbit/s of payload, from the request to the last byte.
    pub fn fetch(&self, bytes: usize) -> f64 {
        let listener = self.link.server().enter(|| TcpListener::bind((self.link.server_address(), PORT))).unwrap();
        let connected = self.link.client().enter(|| connect(self.link.server_address()));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(&vec![7; bytes]).unwrap();
            });
            let mut stream = connected.unwrap();
            let (began, mut got, mut buffer) = (Instant::now(), 0, vec![0; 1 << 18]);
            loop {
                match stream.read(&mut buffer).unwrap() {
                    0 => break,
                    count => got += count,
                }
            }
            assert_eq!(got, bytes);
            bytes as f64 * 8.0 / 1e6 / began.elapsed().as_secs_f64()
        })
    }

    /// What our own link counted; it ends.
    pub fn counted(mut self) -> serde_json::Value {
        let mut wide = self.wide.take().unwrap();
        wide.check_running().unwrap();
        serde_json::from_str(&wide.finish().unwrap()).unwrap()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// From the group's address, within the namespace we are in.
fn connect(server: IpAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((CLIENT, 0)).into())?;
    socket.connect(&SocketAddr::new(server, PORT).into())?;
    Ok(socket.into())
}

/// Sends back what comes, until so many have or none does any more.
fn echo(server: &UdpSocket, count: u32) {
    server.set_read_timeout(Some(GONE_AFTER)).unwrap();
    let mut buffer = [0; 2000];
    for _ in 0..count {
        let Ok((length, from)) = server.recv_from(&mut buffer) else { return };
        server.send_to(&buffer[..length], from).unwrap();
    }
}

fn received(client: &UdpSocket, count: u32, now_ms: impl Fn() -> f64) -> Vec<Echo> {
    client.set_read_timeout(Some(GONE_AFTER)).unwrap();
    let mut buffer = [0; 2000];
    let mut echoes = vec![];
    while echoes.len() < count as usize && client.recv(&mut buffer).is_ok() {
        let number = u32::from_be_bytes(std::array::from_fn(|byte| buffer[byte]));
        let sent_ms = f64::from_be_bytes(std::array::from_fn(|byte| buffer[4 + byte]));
        echoes.push((number, now_ms() - sent_ms));
    }
    echoes
}
