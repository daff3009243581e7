//! The state of the server as seen from outside during the load: its connections, the lengths and losses of its queues,
//! and the resources of its processes. `samples.parquet`, next to the records of the run, has a row every 100 ms.
//!
//! All values come from the kernel, so that every server is observed in the same way and none is queried. Counters that
//! end in `_total` count up from the beginning; the others are values at the instant.
//!
//! | column | what |
//! |---|---|
//! | `at_ns` | when, since the run began |
//! | `connections_STATE` | of the server's port, by TCP state: `established` (those in the accept queue included), `fin_wait_1`, `fin_wait_2`, `close_wait`, `last_ack`, `closing` |
//! | `connections_time_wait` | over, and their ports not free yet |
//! | `connections_orphaned` | closed by the program, and not by the client; of the whole machine |
//! | `syn_queue_connections` | SYN came, handshake not over |
//! | `accept_queue_connections` | made, and accepted by no program yet |
//! | `accept_queue_limit_connections` | how many of those there may be, over all listening sockets; the kernel lets in one more |
//! | `active_responses` | connections with bytes that the client has not acknowledged |
//! | `unacknowledged_bytes` | all those bytes, sent or not |
//! | `below_tcp_bytes` | memory of packets below TCP that have not left the machine, overhead included |
//! | `aborts_on_timeout_total` | connections that the kernel gave up after too many tries (TCPAbortOnTimeout): their clients hear nothing |
//! | `listen_drops_total` | SYNs and last packets of handshakes thrown away, for whatever reason (ListenDrops) |
//! | `listen_overflows_total` | of those, because the accept queue was full (ListenOverflows) |
//! | `syn_queue_full_drops_total` | of those, because the SYN queue was as long as the accept queue may be (TCPReqQFullDrop) |
//! | `syn_queue_full_cookies_total` | SYNs answered by a cookie instead (TCPReqQFullDoCookies) |
//! | `syn_cookies_sent_total` | SYN-ACKs with a cookie |
//! | `retransmitted_segments_total` | by every socket of the server's side |
//! | `link_backlog_packets`, `link_backlog_bytes` | waiting at the bottleneck |
//! | `link_drops_packets_total` | lost there |
//! | `link_sent_packets_total`, `link_sent_bytes_total` | let through by the shaper, bytes as it counts them |
//! | `band_N_backlog_packets`, `band_N_backlog_bytes`, `band_N_drops_packets_total`, `band_N_sent_bytes_total` | the same of each band, where the bottleneck is a tree of ours |
//! | `server_cpu_us_total` | CPU time of all processes on the server's side |
//! | `server_waited_us_total` | time in which one of them was ready and had no processor |
//! | `machine_busy_us_total`, `machine_nice_us_total`, `machine_idle_us_total` | of all processors: at ordinary or better priority, at lower, idle |
//! | `server_log_bytes_total` | how long the server's log was: when it said what |
//! | `sample_cost_us` | CPU time that this row took to make |
//!
//! A cell is empty if the kernel does not provide the value: there is no queue on loopback, or no version 2 of control
//! groups.

mod carried;
mod counters;
mod processors;
mod sampler;

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use uplink::{ConnectionWatch, Connections, QueueWatch, Queues, State};

use crate::namespace::Place;
use crate::{Link, cgroup};
use counters::{Machine, Protocol};

pub(crate) use carried::carried;
pub(crate) use processors::shares;
pub(crate) use sampler::{Sampler, Taken};

/// The counter of the bytes that the bottleneck has sent.
pub(crate) const LINK_SENT: &str = "link_sent_bytes_total";
/// The length of the server's log, which dates its lines.
pub(crate) const LOG_COLUMN: &str = "server_log_bytes_total";

/// A name and its value.
type Cell = (Cow<'static, str>, Option<u64>);

/// The columns of connections by state.
const STATES: [(&str, State); 6] = [
    ("connections_established", State::Established),
    ("connections_fin_wait_1", State::FinWait1),
    ("connections_fin_wait_2", State::FinWait2),
    ("connections_close_wait", State::CloseWait),
    ("connections_last_ack", State::LastAck),
    ("connections_closing", State::Closing),
];

/// All observed files, opened once. An open file belongs to the namespace in which it was opened, for any thread.
pub(crate) struct View {
    connections: ConnectionWatch,
    /// The counters of the server's namespace; `None` on loopback, where they would count the whole machine.
    protocol: Option<Protocol>,
    queues: Option<QueueWatch>,
    /// The control group of the server's processes.
    cgroup: Option<PathBuf>,
    machine: Machine,
    /// The server's log.
    log: PathBuf,
}

impl View {
    /// Opens the view of the server on this port of the link or of loopback, and of its log.
    pub(crate) fn open(link: Option<&Link>, port: u16, log: PathBuf) -> io::Result<View> {
        let server = link.map_or(Place::Here, Link::server);
        let (connections, protocol) = server.enter(|| {
            let connections = ConnectionWatch::open(port).map_err(io::Error::other)?;
            Ok((connections, link.map(|_| Protocol::open()).transpose()?))
        })?;
        let queues = link.map(|link| {
            let (place, device) = link.bottleneck_place();
            place.enter(|| QueueWatch::open(device).map_err(io::Error::other))
        });
        Ok(View {
            connections,
            protocol,
            queues: queues.transpose()?,
            cgroup: server.cgroup().map(PathBuf::from),
            machine: Machine::open()?,
            log,
        })
    }

    /// Returns a row. A counter that cannot be read now has no value, and the run continues.
    fn read(&mut self) -> Vec<Cell> {
        let mut row = vec![];
        connection_cells(self.connections.read().ok(), &mut row);
        if let Some(protocol) = &mut self.protocol {
            protocol.read(&mut row);
        }
        if let Some(queues) = &mut self.queues {
            queue_cells(queues.read().ok(), queues.bands(), &mut row);
        }
        let micros = |read: fn(&std::path::Path) -> Option<std::time::Duration>| {
            self.cgroup.as_deref().and_then(read).map(|time| time.as_micros() as u64)
        };
        row.push(("server_cpu_us_total".into(), micros(cgroup::used)));
        row.push(("server_waited_us_total".into(), micros(cgroup::waited)));
        self.machine.read(&mut row);
        row.push((LOG_COLUMN.into(), std::fs::metadata(&self.log).ok().map(|file| file.len())));
        row
    }
}

fn connection_cells(found: Option<Connections>, row: &mut Vec<Cell>) {
    let mut cell =
        |name: &'static str, of: &dyn Fn(&Connections) -> u64| row.push((name.into(), found.as_ref().map(of)));
    for (name, state) in STATES {
        cell(name, &|found| found.in_state(state));
    }
    cell("syn_queue_connections", &|found| found.in_state(State::SynReceived));
    cell("accept_queue_connections", &|found| found.accept_queue);
    cell("accept_queue_limit_connections", &|found| found.accept_queue_limit);
    cell("active_responses", &|found| found.sending);
    cell("unacknowledged_bytes", &|found| found.unacknowledged_bytes);
    cell("below_tcp_bytes", &|found| found.below_tcp_bytes);
}

fn queue_cells(found: Option<Queues>, bands: usize, row: &mut Vec<Cell>) {
    let mut cell = |name: Cow<'static, str>, of: &dyn Fn(&Queues) -> u64| row.push((name, found.as_ref().map(of)));
    cell("link_backlog_packets".into(), &|found| found.root.backlog_packets);
    cell("link_backlog_bytes".into(), &|found| found.root.backlog_bytes);
    cell("link_drops_packets_total".into(), &|found| found.drops);
    cell("link_sent_packets_total".into(), &|found| found.root.packets);
    cell(LINK_SENT.into(), &|found| found.root.bytes);
    for band in 0..bands {
        cell(format!("band_{band}_backlog_packets").into(), &|found| found.bands[band].backlog_packets);
        cell(format!("band_{band}_backlog_bytes").into(), &|found| found.bands[band].backlog_bytes);
        cell(format!("band_{band}_drops_packets_total").into(), &|found| found.bands[band].drops);
        cell(format!("band_{band}_sent_bytes_total").into(), &|found| found.bands[band].bytes);
    }
}
