//! Other traffic through the bottleneck: `[[neighbour]]`, a bulk transfer to the clients over TCP. It comes from another host
//! behind the same router, a namespace of its own, and the server sees none of it; or from another program on the server's
//! host.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Deserializer};
use socket2::SockRef;
use units::Rate;

use crate::experiment::{check_name, duration, maybe_rate};
use crate::namespace::Place;
use crate::{Experiment, LabError, Network};

/// Each has a cable to the router of its own.
pub(crate) const NEIGHBOURS_MAX: usize = 8;
/// Their cables, from the last block of four addresses below 198.18.1.0 downwards.
const LAST_CABLE: u8 = 63;
const FIRST_PORT: u16 = 9000;
/// HTB's class 1:12 of `qdisc = "siblings"`; elsewhere it means nothing.
pub(crate) const SIBLING_PRIORITY: u32 = 0x0001_0012;
/// Written at once; a neighbour with a rate writes less, and more often.
const CHUNK_BYTES: usize = 16 << 10;
/// The time that a thread may be in one call: it looks then whether it is to end.
const CALL_WITHIN: Duration = Duration::from_millis(100);

/// The contents of a `[[neighbour]]`: one bulk transfer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbour {
    #[serde(deserialize_with = "name")]
    pub name: String,
    #[serde(default)]
    pub at: At,
    /// The kernel's name of it; unset is that of the experiment.
    pub congestion_control: Option<String>,
    /// When it begins, counted from the start of the load.
    #[serde(default, deserialize_with = "duration")]
    pub from: Duration,
    /// The time that it lasts.
    #[serde(rename = "for", deserialize_with = "duration")]
    pub lasts: Duration,
    /// At most so fast; unset is as fast as TCP lets it.
    #[serde(default, deserialize_with = "maybe_rate")]
    pub rate: Option<Rate>,
}

/// The place of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum At {
    /// A host of its own behind the router.
    #[default]
    Router,
    /// The server's host.
    Server,
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    check_name(&name, "a neighbour").map_err(serde::de::Error::custom)?;
    Ok(name)
}

/// Returns what is wrong with the neighbours of an experiment.
pub(crate) fn check(experiment: &Experiment) -> Result<(), String> {
    let count = experiment.neighbours.len();
    let is_routed = experiment.network == Network::Router;
    if !is_routed && experiment.neighbours.iter().any(|neighbour| neighbour.at == At::Router) {
        return Err("a neighbour is behind a router: write network = \"router\", or at = \"server\"".into());
    }
    if count > 0 && experiment.network == Network::Loopback {
        return Err("a neighbour needs namespaces: leave network out".into());
    }
    if count > NEIGHBOURS_MAX {
        return Err(format!("there are {count} neighbours: at most {NEIGHBOURS_MAX}"));
    }
    Ok(())
}

/// The addresses of a neighbour's cable: the router's end, then its own.
pub(crate) fn addresses(index: usize) -> [Ipv4Addr; 2] {
    let cable = LAST_CABLE - u8::try_from(index.min(NEIGHBOURS_MAX)).unwrap_or(0);
    [1, 2].map(|end| Ipv4Addr::new(198, 18, 0, 4 * cable + end))
}

/// The neighbours of a run at work; dropping it ends them.
#[derive(Debug)]
pub(crate) struct Transfers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    received: Vec<(String, Arc<AtomicU64>)>,
}

impl Transfers {
    pub fn start(
        neighbours: &[Neighbour],
        places: &[Place<'_>],
        client: Place<'_>,
        to: IpAddr,
    ) -> Result<Transfers, LabError> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut transfers = Transfers { stop, threads: vec![], received: vec![] };
        for ((index, neighbour), place) in neighbours.iter().enumerate().zip(places) {
            let address = SocketAddr::new(to, FIRST_PORT + index as u16);
            let listener =
                client.enter(|| TcpListener::bind(address)).map_err(|e| LabError::io("a neighbour's peer", e))?;
            // The connection is made now, while nothing is in its way, and idles until its time has come.
            let connect = || connect(neighbour, address);
            let stream = place.enter(connect).map_err(|e| LabError::io("a neighbour", e))?;
            let (peer, _) = listener.accept().map_err(|e| LabError::io("a neighbour's peer", e))?;
            transfers.begin(neighbour.clone(), stream, peer);
        }
        Ok(transfers)
    }

    fn begin(&mut self, neighbour: Neighbour, stream: TcpStream, peer: TcpStream) {
        let received = Arc::new(AtomicU64::new(0));
        self.received.push((neighbour.name.clone(), received.clone()));
        let (stop, began) = (self.stop.clone(), Instant::now());
        self.threads.push(std::thread::spawn(move || send(&neighbour, stream, began, &stop)));
        let stop = self.stop.clone();
        self.threads.push(std::thread::spawn(move || receive(peer, &received, &stop)));
    }

    /// Ends them and gives what each has brought to its peer, bytes.
    pub fn finish(mut self) -> Vec<(String, u64)> {
        self.end();
        self.received.iter().map(|(name, bytes)| (name.clone(), bytes.load(Ordering::Acquire))).collect()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            // A transfer that is cut off shows in its bytes.
            let _ = thread.join();
        }
    }
}

impl Drop for Transfers {
    fn drop(&mut self) {
        self.end();
    }
}

fn connect(neighbour: &Neighbour, address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
    let socket = SockRef::from(&stream);
    if let Some(name) = &neighbour.congestion_control {
        socket.set_tcp_congestion(name.as_bytes())?;
    }
    if neighbour.at == At::Server {
        // The class beside the server's, where there is one.
        socket.set_priority(SIBLING_PRIORITY)?;
    }
    Ok(stream)
}

fn send(neighbour: &Neighbour, mut stream: TcpStream, began: Instant, stop: &AtomicBool) -> io::Result<()> {
    stream.set_write_timeout(Some(CALL_WITHIN))?;
    let chunk = vec![0; neighbour.rate.map_or(CHUNK_BYTES, |_| 1448)];
    let mut sent = 0;
    while !stop.load(Ordering::Acquire) && began.elapsed() < neighbour.from + neighbour.lasts {
        let due = neighbour.from + neighbour.rate.map_or(Duration::ZERO, |rate| rate.time_for(sent).into());
        if began.elapsed() < due {
            std::thread::sleep((due - began.elapsed()).min(CALL_WITHIN));
            continue;
        }
        match stream.write(&chunk) {
            Ok(bytes) => sent += bytes as u64,
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn receive(mut peer: TcpStream, received: &AtomicU64, stop: &AtomicBool) -> io::Result<()> {
    peer.set_read_timeout(Some(CALL_WITHIN))?;
    let mut buffer = vec![0; CHUNK_BYTES];
    while !stop.load(Ordering::Acquire) {
        match peer.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => drop(received.fetch_add(bytes as u64, Ordering::AcqRel)),
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;
    use std::path::Path;

    fn parse(more: &str, neighbour: &str) -> Result<Experiment, String> {
        let text = format!(
            "question = \"\"\nlink = \"10mbit\"\nrho = 0.8\nseconds = 1\n{more}\n[[run]]\nname = \"a\"\nserver = \"nginx\"\n\
            [[neighbour]]\n{neighbour}"
        );
        Experiment::parse(&text, Path::new("x.toml")).map_err(|e| e.to_string())
    }

    #[test]
    fn a_neighbour_is_a_transfer_behind_the_router() {
        let keys = "name = \"b\"\nfrom = \"2s\"\nfor = \"9s\"\nrate = \"3mbit\"";
        let experiment = parse("network = \"router\"", keys).unwrap();
        let neighbour = &experiment.neighbours[0];
        assert_eq!((neighbour.from, neighbour.lasts), (Duration::from_secs(2), Duration::from_secs(9)));
        assert_eq!(neighbour.rate, "3mbit".parse().ok());
        assert_eq!(addresses(1), [Ipv4Addr::new(198, 18, 0, 249), Ipv4Addr::new(198, 18, 0, 250)]);
    }

    #[test]
    fn a_neighbour_may_be_at_the_server() {
        let experiment =
            parse("", "name = \"b\"\nat = \"server\"\ncongestion_control = \"bbr\"\nfor = \"9s\"").unwrap();
        let neighbour = &experiment.neighbours[0];
        assert_eq!((neighbour.at, neighbour.congestion_control.as_deref()), (At::Server, Some("bbr")));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (more, keys, says) in [
            ("", "name = \"b\"\nfor = \"9s\"", "a neighbour is behind a router: write network = \"router\", or at ="),
            ("network = \"loopback\"", "name = \"b\"\nat = \"server\"\nfor = \"9s\"", "a neighbour needs namespaces"),
            ("network = \"router\"", "name = \"b\"", "missing field `for`"),
            ("network = \"router\"", "name = \"b c\"\nfor = \"9s\"", "`b c` is not a name for a neighbour"),
            ("network = \"router\"", "name = \"b\"\nfor = \"soon\"", "`soon` is not a duration"),
        ] {
            let said = parse(more, keys).unwrap_err();
            assert!(said.contains(says), "{keys}: {said}");
        }
        let many = "name = \"b\"\nfor = \"9s\"\n[[neighbour]]\n".repeat(NEIGHBOURS_MAX) + "name = \"b\"\nfor = \"9s\"";
        let said = parse("network = \"router\"", &many).unwrap_err();
        assert!(said.contains("there are 9 neighbours: at most 8"), "{said}");
    }

    /// Over loopback: what is sent arrives and is counted, and the end does not wait for the time that was asked for.
    #[test]
    fn what_is_sent_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        let mut transfers = Transfers { stop: Arc::default(), threads: vec![], received: vec![] };
        let (from, lasts) = (Duration::ZERO, Duration::from_secs(86_400));
        transfers.begin(
            Neighbour { name: "b".into(), at: At::Server, congestion_control: None, from, lasts, rate: None },
            stream,
            peer,
        );
        while transfers.received[0].1.load(Ordering::Acquire) < 1 << 20 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let [(name, bytes)] = &transfers.finish()[..] else { panic!("one neighbour") };
        assert!(name == "b" && *bytes >= 1 << 20);
    }
}
