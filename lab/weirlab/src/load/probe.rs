//! One look at the server before the run: a mistyped port should cost a second, not a run of minutes.

use std::io::{self, Read, Write};
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
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const HEAD_BYTES_MAX: u64 = 16 << 10;

/// Checks that somebody listens and speaks the protocol, and gives the server's name: `given`, or what it calls itself, or `unknown`.
pub(crate) fn server_name(url: &Url, plan: &Plan, given: Option<&str>) -> Result<String, Failure> {
    if plan.protocol != Protocol::Http1 {
        check_speaks(url, plan)?;
    }
    if let (Protocol::Http3 { .. }, name) = (plan.protocol, given) {
        // It may listen on UDP alone, and is not asked over TCP.
        return Ok(name.unwrap_or("unknown").into());
    }
    let target = plan.target;
    let stream = TcpStream::connect_timeout(&target, CONNECT_WITHIN)
        .map_err(|error| Failure::Failed(format!("{url}: cannot connect to {target}: {error}")))?;
    if let Some(name) = given {
        return Ok(name.into());
    }
    // A server that does not answer this can still be measured: that it does not is then what is found.
    let head = ask(stream, url).unwrap_or_default();
    Ok(product(&head).unwrap_or("unknown").into())
}

/// Asks for one file, which need not be there, as the run will ask.
fn check_speaks(url: &Url, plan: &Plan) -> Result<(), Failure> {
    let (flag, name) = match plan.protocol {
        Protocol::Http3 { .. } => ("--h3", "HTTP/3"),
        _ => ("--h2", "HTTP/2"),
    };
    let tls = plan.tls.as_ref().map(|_| Tls::new(false, plan.protocol));
    let plan = Plan {
        sites: vec![],
        routes: None,
        documents: None,
        grace: RESPONSE_WITHIN,
        patience: None,
        clients: vec![],
        tls,
        ..plan.clone()
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

fn ask(mut stream: TcpStream, url: &Url) -> io::Result<String> {
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    write!(stream, "HEAD {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", url.prefix, url.authority)?;
    let mut head = Vec::new();
    stream.take(HEAD_BYTES_MAX).read_to_end(&mut head)?;
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// The first product of the `Server` field without its version: `nginx` of `nginx/1.22.1` (RFC 9110 section 10.2.4).
fn product(head: &str) -> Option<&str> {
    let fields = head.lines().skip(1).take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':'));
    let (_, value) = { fields }.find(|(name, _)| name.eq_ignore_ascii_case("server"))?;
    value.split(['/', ' ']).find(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_field_without_its_version() {
        for (head, expected) in [
            ("HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\n\r\n", Some("nginx")),
            ("HTTP/1.1 404 Not Found\r\nserver:weir\r\n\r\n", Some("weir")),
            ("HTTP/1.1 200 OK\r\nServer: Apache/2.4 (Unix)\r\n\r\n", Some("Apache")),
            ("HTTP/1.1 200 OK\r\nServer:\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\n\r\nServer: body\r\n", None),
            ("", None),
        ] {
            assert_eq!(product(head), expected, "{head}");
        }
    }
}
