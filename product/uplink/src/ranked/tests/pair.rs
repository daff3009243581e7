//! Two networks joined by a cable: this thread's, with the qdisc, and a thread's that receives.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Interface;
use crate::testing::run;

pub const PORT: u16 = 9;
/// Where the receiver's addresses are: `to(n)` is one of them.
const HERE: &str = "198.18.50.1";
const THERE: &str = "198.18.50.2";
/// Longer than anything here takes, even emulated on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a test's packet says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    pub flow: u32,
    pub nth: u32,
}

pub struct Pair {
    pub sender: Interface,
    arrived: Receiver<Mark>,
    _thread: JoinHandle<()>,
}

impl Pair {
    /// To be called in a network of the test's own.
    pub fn new() -> Pair {
        run("ip link add weir0 type veth peer name weir1");
        let (own_network, thread_number) = channel();
        let (ready, is_ready) = channel();
        let (marks, arrived) = channel();
        let (go, may_go) = channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: neither touches memory; the first changes only this thread's view of the network.
            let number = unsafe { (libc::unshare(libc::CLONE_NEWNET) == 0).then(|| libc::gettid()).unwrap() };
            own_network.send(number).unwrap();
            may_go.recv().unwrap();
            let socket = receiving_end();
            ready.send(()).unwrap();
            receive(&socket, &marks);
        });
        let number: i32 = thread_number.recv().unwrap();
        run(&format!("ip link set weir1 netns {number}"));
        go.send(()).unwrap();
        // Nothing but the tests' own packets, and what finds their neighbour.
        std::fs::write("/proc/sys/net/ipv6/conf/weir0/disable_ipv6", "1").unwrap();
        run(&format!("ip addr add {HERE}/24 dev weir0"));
        run("ip link set weir0 up");
        is_ready.recv().unwrap();
        run(&format!("ip route add 198.19.0.0/16 via {THERE}"));
        let pair =
            Pair { sender: Interface::serving(HERE.parse().unwrap()).unwrap().unwrap(), arrived, _thread: thread };
        // Finds the neighbour's address before anything is measured.
        Flow::new(u32::MAX, 1).send(0, 0);
        pair.next();
        pair
    }

    /// The next packet that arrives.
    pub fn next(&self) -> Mark {
        self.arrived.recv_timeout(PATIENCE).expect("a packet arrives")
    }

    pub fn take(&self, count: usize) -> Vec<Mark> {
        (0..count).map(|_| self.next()).collect()
    }

    /// Forgets what has arrived.
    pub fn forget(&self) {
        while self.arrived.try_recv().is_ok() {}
    }

    /// What arrives until nothing has come for a while.
    pub fn rest(&self) -> Vec<Mark> {
        std::iter::from_fn(|| self.arrived.recv_timeout(Duration::from_millis(500)).ok()).collect()
    }
}

/// Sets up the network of the thread that receives.
fn receiving_end() -> UdpSocket {
    run(&format!("ip addr add {THERE}/24 dev weir1"));
    run("ip link set weir1 up");
    run("ip link set lo up");
    run("ip route add local 198.19.0.0/16 dev lo");
    let socket = UdpSocket::bind(("0.0.0.0", PORT)).unwrap();
    set_option(&socket, libc::SO_RCVBUFFORCE, 64 << 20);
    socket
}

/// Tells of every packet until nobody listens.
fn receive(socket: &UdpSocket, marks: &Sender<Mark>) {
    let mut buffer = [0; 2048];
    while let Ok(bytes) = socket.recv(&mut buffer) {
        let word = |at: usize| u32::from_ne_bytes(buffer[at..at + 4].try_into().unwrap());
        if bytes < 8 || marks.send(Mark { flow: word(0), nth: word(4) }).is_err() {
            return;
        }
    }
}

/// A socket, which is a flow while it sends to one address.
pub struct Flow {
    number: u32,
    socket: UdpSocket,
}

impl Flow {
    pub fn new(number: u32, rank: u32) -> Flow {
        let flow = Flow { number, socket: UdpSocket::bind((HERE, 0)).unwrap() };
        flow.rank(rank);
        flow.socket.connect((THERE, PORT)).unwrap();
        flow
    }

    /// A socket that is in no one's way and says where every packet goes.
    pub fn unconnected() -> Flow {
        let flow = Flow { number: 0, socket: UdpSocket::bind((HERE, 0)).unwrap() };
        flow.room(256 << 20);
        flow
    }

    pub fn rank(&self, rank: u32) {
        set_option(&self.socket, libc::SO_PRIORITY, rank as i32);
    }

    /// How many bytes may wait before `send` does.
    pub fn room(&self, bytes: i32) {
        set_option(&self.socket, libc::SO_SNDBUFFORCE, bytes);
    }

    /// A packet of `padding` bytes and 50 more.
    pub fn send(&self, nth: u32, padding: usize) {
        // A drop by the qdisc may be told to the sender; the tests count what arrives.
        let _ = self.socket.send(&self.payload(self.number, nth, padding));
    }

    /// A packet of a flow of its own: `flow` is below 65,536.
    pub fn send_as(&self, flow: u32, nth: u32) {
        let to = std::net::Ipv4Addr::from(u32::from_be_bytes([198, 19, 0, 0]) | flow);
        let _ = self.socket.send_to(&self.payload(flow, nth, 0), (to, PORT));
    }

    fn payload(&self, flow: u32, nth: u32, padding: usize) -> Vec<u8> {
        let mut payload = [flow.to_ne_bytes(), nth.to_ne_bytes()].concat();
        payload.resize(8 + padding, 0);
        payload
    }

    /// Bytes of memory that packets of this socket take, wherever they are.
    pub fn unsent_bytes(&self) -> i32 {
        let mut bytes = 0;
        // SAFETY: TIOCOUTQ writes one int.
        let status = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        assert_eq!(status, 0);
        bytes
    }
}

fn set_option(socket: &UdpSocket, option: i32, value: i32) {
    // SAFETY: the kernel reads one int, which lives through the call.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            size_of::<i32>() as u32,
        )
    };
    assert_eq!(status, 0, "option {option} = {value}");
}

/// Waits until it holds.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
