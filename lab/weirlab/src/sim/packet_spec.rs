//! The fields of a spec that only the packet model has.

use serde::{Deserialize, Serialize};

/// All fields have defaults: today's Linux on a link without delay and loss, shaping off, and a FIFO of 100 packets
/// under an HTB.
#[derive(Debug, Clone, PartialEq, Default, clap::Args, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Only with --model packet")]
pub struct PacketSpec {
    /// How responses reach the bottleneck: off (sockets take all), paced (Weir's writer), bands (packets are marked with
    /// the policy's band) [default: off]
    #[arg(long, value_name = "KIND")]
    pub shaping: Option<String>,
    /// What queues at the server's egress: fifo[:PACKETS], bands[:PACKETS]
    /// [default: fifo:100, or what the shaping needs]
    #[arg(long, value_name = "QUEUE")]
    pub bottleneck: Option<String>,
    /// What limits its rate: htb[:BURST_BYTES], a token bucket; wire, whose packets take their time; htb-wire[:BURST_BYTES], the
    /// bucket and behind it a wire of its rate [default: htb]
    #[arg(long, value_name = "SHAPER")]
    pub shaper: Option<String>,
    /// Whose TCP: linux (today, the bottleneck its own qdisc), router (today, the bottleneck one hop on), 2003
    /// [default: linux]
    #[arg(long, value_name = "KIND")]
    pub tcp: Option<String>,
    /// Segments a connection may send at first [default: 10; 2 with --tcp 2003]
    #[arg(long, value_name = "N")]
    pub initial_window: Option<u32>,
    /// Timeout of SYN and SYN-ACK [default: 1s; 3s with --tcp 2003]
    #[arg(long, value_name = "TIME")]
    pub initial_rto: Option<String>,
    /// Longest IP packet, 52 bytes of it headers [default: 1500]
    #[arg(long, value_name = "BYTES")]
    pub mtu: Option<u32>,
    /// Most bytes of a connection that are on their way and not acknowledged [default: 3 MiB; 32 KiB with --tcp 2003]
    #[arg(long, value_name = "BYTES")]
    pub receive_window: Option<u64>,
    /// Most segments handed to the queue as one packet [default: 44; 1 with --tcp router or 2003]
    #[arg(long, value_name = "N")]
    pub gso_segments: Option<u32>,
    /// Round-trip time beside the queue, half of it each way [default: 0ms]
    #[arg(long, value_name = "TIME")]
    pub rtt: Option<String>,
    /// The way to the client takes up to this much more or less [default: 0ms]
    #[arg(long, value_name = "TIME")]
    pub jitter: Option<String>,
    /// Share of packets lost on the way to the client [default: 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub loss: Option<f64>,
    /// Share of packets lost on the way to the server [default: 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub loss_back: Option<f64>,
    /// Instead of one path several that connections take in turn: RTT/JITTER/LOSS,..., such as 50ms/10ms/0.005
    #[arg(long, value_name = "PATHS", conflicts_with_all = ["rtt", "jitter", "loss"])]
    pub wans: Option<String>,
    /// Requests on each connection, one after the other [default: 1]
    #[arg(long, value_name = "N")]
    pub per_connection: Option<u32>,
    /// Connections that can be worked on at once [default: no limit]
    #[arg(long, value_name = "N")]
    pub workers: Option<u32>,
    /// Handshakes that can be unfinished at once [default: 4096]
    #[arg(long, value_name = "N")]
    pub syn_queue: Option<u32>,
    /// Connections that can wait for a worker [default: 4096]
    #[arg(long, value_name = "N")]
    pub accept_queue: Option<u32>,
    /// No SYN queue but SYN cookies
    #[arg(long)]
    pub syn_cookies: bool,
    /// Users reset the connection after this long and ask again [default: never]
    #[arg(long, value_name = "TIME")]
    pub abort_after: Option<String>,
    /// How often users ask again before they give up [default: 0]
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,
    /// Stop this long after the last arrival; what is left counts with the time it waited [default: when all is done]
    #[arg(long, value_name = "TIME")]
    pub grace: Option<String>,
}
