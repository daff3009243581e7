use std::net::SocketAddr;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use super::certificate::Certificate;
use super::{Source, Speech, absolute, write_config};
use crate::{LabError, Limits, Server, find_program};

/// The connections of the pool that a worker uses itself: the listening socket, and the channel to its master.
const OWN_CONNECTIONS: u64 = 2;
/// The number of idle connections to an upstream that a worker keeps, as many as Weir.
const KEPT_CONNECTIONS: u32 = 32;
pub(super) fn command(
    address: SocketAddr,
    source: Source<'_>,
    folder: &Path,
    limits: &Limits,
    speech: Speech<'_>,
) -> Result<Vec<String>, LabError> {
    let nginx = find_program(Server::Nginx.program())?.display().to_string();
    let (before, serving) = serving(source)?;
    let (prefix, _) = write_config(folder, "nginx.conf", |_| {
        config(address, (&before, &serving), descriptors_max(), limits, speech)
    })?;
    Ok([&nginx, "-p", &prefix, "-c", "nginx.conf", "-e", "stderr"].map(String::from).into())
}

/// The configuration of nginx with its defaults (sendfile, tcp_nopush, a worker per core, keep-alive 75 s), without an
/// access log, so that no disk affects it, and with all its files in its own folder. `user root` lets its workers read
/// the site. A connection takes two descriptors, its socket and its file.
///
/// With a limit of slots it has one worker with as many connections. A connection that arrives when all are taken does
/// not wait, as with Apache: nginx accepts and closes it, after closing idle connections (ngx_event_accept.c,
/// ngx_get_connection in ngx_connection.c). Two workers with their mutex would let it wait only some of the time.
fn config(
    address: SocketAddr,
    (before, serving): (&str, &str),
    descriptors: u64,
    limits: &Limits,
    speech: Speech<'_>,
) -> String {
    let backlog = limits.accept_queue.map_or(String::new(), |connections| format!(" backlog={connections}"));
    let (parameters, certificate) = tls_and_http2(speech);
    let (processes, connections) = match limits.workers {
        Some(slots) => ("1", slots + OWN_CONNECTIONS),
        None => ("auto", descriptors / 2),
    };
    format!(
        "daemon off;
user root;
worker_processes {processes};
worker_rlimit_nofile {descriptors};
pid nginx.pid;
events {{ worker_connections {connections}; }}
http {{
    sendfile on;
    tcp_nopush on;
    access_log off;
    default_type application/octet-stream;
    client_body_temp_path nginx-temp;
    proxy_temp_path nginx-temp;
    fastcgi_temp_path nginx-temp;
    uwsgi_temp_path nginx-temp;
    scgi_temp_path nginx-temp;
{before}    server {{
        listen {address}{backlog}{parameters};
{certificate}{serving}    }}
}}
"
    )
}

/// The lines before the server block and in it that define the source of responses. Connections to an upstream are kept
/// open, as nginx's documentation recommends (ngx_http_upstream_module, `keepalive`). Responses are buffered as by
/// default, beyond the memory for them in files in the server's own folder.
fn serving(Source { site, upstream }: Source<'_>) -> Result<(String, String), LabError> {
    let Some(upstream) = upstream else {
        return Ok((String::new(), format!("        root \"{}\";\n", absolute(site)?)));
    };
    let before = format!("    upstream application {{ server {upstream}; keepalive {KEPT_CONNECTIONS}; }}\n");
    let pass = "        location / {
            proxy_pass http://application;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
        }\n";
    Ok((before, pass.into()))
}

/// The words after the address in `listen`, and the lines for a certificate. HTTP/2 is enabled in `listen` (from 1.25
/// on it has a separate line, and this causes a warning).
fn tls_and_http2(Speech { certificate, is_http2 }: Speech<'_>) -> (String, String) {
    let http2 = if is_http2 { " http2" } else { "" };
    match certificate {
        Some(Certificate { chain, key }) => (
            format!(" ssl{http2}"),
            format!("        ssl_certificate \"{chain}\";\n        ssl_certificate_key \"{key}\";\n"),
        ),
        None => (http2.into(), String::new()),
    }
}

/// Returns the number of descriptors that this process could have, up to a number for which nginx can allocate memory.
fn descriptors_max() -> u64 {
    const ENOUGH: u64 = 32_768;
    getrlimit(Resource::Nofile).maximum.map_or(ENOUGH, |hard| hard.min(ENOUGH))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Speech<'_> = Speech { certificate: None, is_http2: false };

    #[test]
    fn nginx_speaks_what_it_is_told() {
        let certificate = Certificate { chain: "/c d/cert.pem".into(), key: "/c d/key.pem".into() };
        let config_of = |speech| config("198.18.0.1:8080".parse().unwrap(), ("", ""), 1000, &Limits::default(), speech);
        let secure = config_of(Speech { certificate: Some(&certificate), is_http2: true });
        assert!(
            secure.contains("listen 198.18.0.1:8080 ssl http2;\n        ssl_certificate \"/c d/cert.pem\";\n"),
            "{secure}"
        );
        let http1 = config_of(Speech { certificate: Some(&certificate), is_http2: false });
        assert!(http1.contains("listen 198.18.0.1:8080 ssl;"), "{http1}");
        assert!(config_of(Speech { certificate: None, is_http2: true }).contains("listen 198.18.0.1:8080 http2;"));
    }

    #[test]
    fn nginx_listens_where_it_is_told() {
        let (before, serving) = serving(std::env::temp_dir().as_path().into()).unwrap();
        let address = "198.18.0.1:8080".parse().unwrap();
        let config = config(address, (&before, &serving), 1000, &Limits::default(), PLAIN);
        assert!(config.contains("worker_connections 500;") && config.contains("listen 198.18.0.1:8080;"));
        let root = format!("root \"{}\";", absolute(&std::env::temp_dir()).unwrap());
        assert!(config.contains(&root) && config.contains("worker_processes auto;"));
        assert!(!config.contains("proxy_pass") && !config.contains("upstream"), "{config}");
    }

    #[test]
    fn nginx_passes_requests_on_over_kept_connections() {
        let source = Source { site: Path::new("/nonexistent"), upstream: Some("127.0.0.1:3000".parse().unwrap()) };
        let (before, serving) = serving(source).unwrap();
        let address = "198.18.0.1:8080".parse().unwrap();
        let config = config(address, (&before, &serving), 1000, &Limits::default(), PLAIN);
        assert!(
            config.contains("\n    upstream application { server 127.0.0.1:3000; keepalive 32; }\n    server {"),
            "{config}"
        );
        assert!(config.contains("proxy_pass http://application;\n            proxy_http_version 1.1;"), "{config}");
        assert!(!config.contains("root \""), "{config}");
    }

    #[test]
    fn nginx_has_the_slots_it_is_given() {
        let limits = Limits { workers: Some(350), accept_queue: Some(512), ..Limits::default() };
        let config = config("198.18.0.1:8080".parse().unwrap(), ("", ""), 1000, &limits, PLAIN);
        assert!(config.contains("worker_processes 1;") && config.contains("worker_connections 352;"), "{config}");
        assert!(config.contains("listen 198.18.0.1:8080 backlog=512;"), "{config}");
    }
}
