//! Parses the clients of a simulation.

use cli::Failure;
use sched::policy::{ClientShareSpec, Network};
use sim::queue::{CLOSED_MAX, ClientSpec, Closed, Owners};
use units::parse_size;

use super::SimSpec;

pub(super) fn of(spec: &SimSpec) -> Result<ClientSpec, Failure> {
    let owners = spec.clients.as_deref().map(owners).transpose()?;
    let closed = (0..).zip(&spec.closed).map(|(at, text)| closed(at, text)).collect::<Result<Vec<_>, _>>()?.concat();
    let has_clients = owners.is_some() || !closed.is_empty();
    let share = match spec.client_share.as_deref() {
        None => has_clients.then_some(ClientShareSpec::On),
        Some(text) => Some(text.parse().map_err(super::queue::wrong("client_share"))?),
    };
    if spec.client_share.is_some() && !has_clients {
        return Err(Failure::Usage("--client-share: all jobs are one client's: write --clients 1000, say".into()));
    }
    Ok(ClientSpec { owners, share, closed })
}

fn owners(text: &str) -> Result<Owners, Failure> {
    if text == "trace" {
        return Ok(Owners::Trace);
    }
    text.parse()
        .map(Owners::Dealt)
        .map_err(|_| Failure::Usage(format!("--clients: `{text}` is no number of clients: write 1000, say, or trace")))
}

/// Parses a closed client, or several of one network.
fn closed(at: u64, text: &str) -> Result<Vec<Closed>, Failure> {
    let parts = || {
        let (connections, size) = text.split_once(',')?;
        let (count, connections) = connections.split_once('x').unwrap_or(("1", connections));
        let count = count.parse().ok().filter(|count| (1..=CLOSED_MAX).contains(count))?;
        let network = if count > 1 { Network::of_hash(at) } else { Network::NONE };
        let closed = Closed { connections: connections.parse().ok()?, size_bytes: parse_size(size).ok()?, network };
        Some(vec![closed; count])
    };
    parts().ok_or_else(|| {
        Failure::Usage(format!(
            "--closed: `{text}` is no closed client: write CONNECTIONS,SIZE such as 8,100KB; 256x6,10KB for up to {CLOSED_MAX} of one network"
        ))
    })
}
