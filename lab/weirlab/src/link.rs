//! `weirlab link`: a wide-area link between two TUN devices, of the kind that `weirlab run` puts into an experiment. The link
//! itself is the crate `wan`.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use wan::{Group, Link};

use cli::Failure;

/// Where `ip netns` keeps its namespaces.
const NAMESPACES: &str = "/run/netns";

/// Carries packets between two TUN devices with the delay, jitter, loss and rate of each group of clients, until SIGTERM or
/// SIGINT; then prints what became of them as one JSON object (needs root).
///
/// The device at the servers' side is in the namespace this is started in. Addresses and routes are the caller's: what is
/// routed to one device comes out of the other.
#[derive(clap::Args)]
pub struct Args {
    /// TUN device at the servers' side, made if there is none
    #[arg(long, value_name = "NAME", default_value = "wide")]
    device: String,
    /// TUN device at the clients' side
    #[arg(long, value_name = "NAME", default_value = "wide")]
    client_device: String,
    /// Namespace of the clients' side, as `ip netns` names it; without one, this one
    #[arg(long, value_name = "NAME")]
    client_namespace: Option<String>,
    /// Clients by their addresses and what their path does, for example a=198.18.16.0/24,rtt=100ms,jitter=20ms,shape=pareto,loss=0.01,rate=1mbit,ways=in; repeatable
    #[arg(long = "group", value_name = "NAME=BLOCK[,KEY=VALUE...]", required = true)]
    groups: Vec<Group>,
    /// Same seed, same delays and losses for the same packets
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let stop = stop_signals()?;
    let server_side = uplink::open_tun(&args.device)?;
    let client_side = match &args.client_namespace {
        Some(name) => open_tun_in(name, &args.client_device)?,
        None if args.client_device == args.device => {
            return Err(Failure::Usage(format!("both sides are the device `{}`: name another", args.device)));
        }
        None => uplink::open_tun(&args.client_device)?,
    };
    eprintln!("carrying packets between {} and {}", args.device, args.client_device);
    let carried = wan::carry(server_side, client_side, stop, Link::new(args.groups, args.seed))?;
    println!("{}", serde_json::to_string(&carried)?);
    Ok(())
}

/// Can be read once a signal has come that asks us to end.
fn stop_signals() -> Result<UnixStream, Failure> {
    let (reader, writer) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    Ok(reader)
}

/// A device belongs to the namespace of the thread that opens it.
fn open_tun_in(namespace: &str, device: &str) -> Result<OwnedFd, Failure> {
    let path = Path::new(NAMESPACES).join(namespace);
    let file = File::open(&path).map_err(|e| Failure::Failed(format!("{}: {e}", path.display())))?;
    let open = || -> Result<OwnedFd, Failure> {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|e| Failure::Failed(format!("entering namespace {namespace}: {e}")))?;
        Ok(uplink::open_tun(device)?)
    };
    std::thread::scope(|scope| match scope.spawn(open).join() {
        Ok(opened) => opened,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
