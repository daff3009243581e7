//! The clients of a simulation, from words.

use cli::Failure;
use sched::policy::ClientShareSpec;
use sim::queue::{ClientSpec, Closed, Owners};
use units::parse_size;

use super::SimSpec;

pub(super) fn of(spec: &SimSpec) -> Result<ClientSpec, Failure> {
    let owners = spec.clients.as_deref().map(owners).transpose()?;
    let closed = spec.closed.iter().map(|text| closed(text)).collect::<Result<Vec<_>, _>>()?;
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
    match (text, text.parse()) {
        ("trace", _) => Ok(Owners::Trace),
        (_, Ok(count)) => Ok(Owners::Dealt(count)),
        _ => Err(Failure::Usage(format!("--clients: `{text}` is no number of clients: write 1000, say, or trace"))),
    }
}

fn closed(text: &str) -> Result<Closed, Failure> {
    let parts = || {
        let (connections, size) = text.split_once(',')?;
        Some(Closed { connections: connections.parse().ok()?, size_bytes: parse_size(size).ok()? })
    };
    parts().ok_or_else(|| {
        Failure::Usage(format!("--closed: `{text}` is no closed client: write CONNECTIONS,SIZE such as 8,100KB"))
    })
}
