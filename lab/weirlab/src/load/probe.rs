//! Probes the server before the run: a mistyped port should cost a second, not a run of minutes.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use loadgen::{Plan, Protocol};

use super::url::Url;
use cli::Failure;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const HEAD_BYTES_MAX: u64 = 16 << 10;

/// Checks that a server listens and supports the protocol. Returns the server's name: `given`, or what it calls itself,
/// or `unknown`.
pub(crate) fn server_name(url: &Url, plan: &Plan, given: Option<&str>) -> Result<String, Failure> {
    let target = plan.target;
    if let (Protocol::Http3 { .. }, Some(tls)) = (plan.protocol, &plan.tls) {
        loadgen::check_http3(target, tls).map_err(|error| Failure::Failed(format!("{url}: {error}")))?;
        // It may listen only on UDP, and is not probed over TCP.
        return Ok(given.unwrap_or("unknown").into());
    }
    let stream = TcpStream::connect_timeout(&target, CONNECT_WITHIN)
        .map_err(|error| Failure::Failed(format!("{url}: cannot connect to {target}: {error}")))?;
    if plan.protocol != Protocol::Http1 {
        loadgen::check_http2(target, plan.tls.as_ref()).map_err(|error| Failure::Failed(format!("{url}: {error}")))?;
    }
    if let Some(name) = given {
        return Ok(name.into());
    }
    // A server that does not answer this can still be measured; the run then shows that.
    let head = ask(stream, url).unwrap_or_default();
    Ok(product(&head).unwrap_or("unknown").into())
}

fn ask(mut stream: TcpStream, url: &Url) -> io::Result<String> {
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    write!(stream, "HEAD {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", url.prefix, url.authority)?;
    let mut head = Vec::new();
    stream.take(HEAD_BYTES_MAX).read_to_end(&mut head)?;
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// The first product of the `Server` field without its version: `nginx` for `nginx/1.22.1` (RFC 9110 section 10.2.4).
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
