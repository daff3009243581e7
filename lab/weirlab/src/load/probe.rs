//! Probes the server before the run: a mistyped port should cost a second, not a run of minutes.

use std::net::TcpStream;
use std::ops::ControlFlow;
use std::time::Duration;

use loadgen::{Plan, Protocol, Tls};
use units::Nanos;
use workload::{Job, Scheduled};

use super::url::Url;
use cli::Failure;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const RESPONSE_WITHIN: Nanos = Nanos::from_secs(5);

/// Checks that somebody listens and speaks the protocol. A server of HTTP/1.1 that does not answer can still be measured: that it does
/// not is then what is found.
pub(crate) fn check(url: &Url, plan: &Plan) -> Result<(), Failure> {
    if plan.protocol != Protocol::Http1 {
        return check_speaks(url, plan);
    }
    let connected = TcpStream::connect_timeout(&plan.target, CONNECT_WITHIN);
    connected.map_err(|error| Failure::Failed(format!("{url}: cannot connect to {}: {error}", plan.target)))?;
    Ok(())
}

/// Asks for one file, which need not be there, as the run will ask.
fn check_speaks(url: &Url, plan: &Plan) -> Result<(), Failure> {
    let (flag, name) = match plan.protocol {
        Protocol::Http3 { .. } => ("--h3", "HTTP/3"),
        _ => ("--h2", "HTTP/2"),
    };
    let tls = plan.tls.as_ref().map(|_| Tls::new(false, plan.protocol));
    let plan = Plan {
        prefix: plan.prefix.clone(),
        per_connection: plan.per_connection,
        grace: RESPONSE_WITHIN,
        protocol: plan.protocol,
        tls,
        ..Plan::new(plan.target, &plan.host)
    };
    let job = Job { arrival: Nanos::ZERO, size_bytes: 0, client: None };
    let outcome = loadgen::run(&plan, &mut Scheduled::new(&[job]), |_| ControlFlow::Continue(()))?;
    match &outcome.records[..] {
        [record] if record.status == 0 => Err(Failure::Failed(format!(
            "{url}: a first request over {name} ended without a response ({}), expected one within {} s: see whether the server runs, and \
             leave {flag} out if it has no {name}{}",
            record.outcome.name(),
            RESPONSE_WITHIN.as_secs_f64(),
            if plan.tls.is_none() { ", or none without TLS" } else { "" },
        ))),
        _ => Ok(()),
    }
}
