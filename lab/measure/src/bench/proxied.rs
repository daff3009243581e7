//! `--proxy`: the same requests through servers that pass them on. One nginx with the files is the upstream of all, on
//! the generator's cores.

use super::server::Kind;

/// The number of idle connections kept open to the upstream.
const KEPT: u32 = 128;

/// The servers that pass requests on, in addition to nginx and Weir.
pub const PEERS: [Kind; 2] = [Kind::Haproxy, Kind::Caddy];

/// The configuration of a server that passes requests from this port to the upstream's.
pub fn configuration(kind: Kind, port: u16, upstream: u16, workers: u32, folder: &str) -> Option<String> {
    match kind {
        Kind::Nginx => Some(format!(
            "worker_processes {workers};\npid {folder}/nginx-{port}.pid;\nevents {{ worker_connections 20000; }}\nhttp {{\n  access_log off;\n  \
             keepalive_timeout 300s;\n  keepalive_requests 1000000000;\n  client_body_temp_path {folder}/nginx-body;\n  \
             proxy_temp_path {folder}/nginx-proxy;\n  fastcgi_temp_path {folder}/nginx-fastcgi;\n  uwsgi_temp_path {folder}/nginx-uwsgi;\n  \
             scgi_temp_path {folder}/nginx-scgi;\n  \
             upstream files {{ server 127.0.0.1:{upstream}; keepalive {KEPT}; keepalive_requests 1000000000; }}\n  \
             server {{ listen 127.0.0.1:{port} reuseport deferred backlog=4096;\n    location / {{ proxy_pass http://files; proxy_http_version 1.1; \
             proxy_set_header Connection \"\"; proxy_set_header Host $host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; }} }}\n}}\n"
        )),
        Kind::Haproxy => Some(format!(
            "global\n  maxconn 5000\n  nbthread {workers}\ndefaults\n  mode http\n  timeout connect 3s\n  timeout client 300s\n  timeout server 300s\n  \
             option forwardfor\n  http-reuse always\nfrontend all\n  bind 127.0.0.1:{port}\n  default_backend files\nbackend files\n  \
             server files 127.0.0.1:{upstream} pool-max-conn {KEPT}\n"
        )),
        Kind::Caddy => Some(format!(
            "{{\n admin off\n auto_https off\n storage file_system {folder}/caddy\n}}\nhttp://:{port} {{\n bind 127.0.0.1\n reverse_proxy 127.0.0.1:{upstream} \
             {{\n  transport http {{\n   keepalive_idle_conns_per_host {KEPT}\n  }}\n }}\n}}\n"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_passes_on_has_the_upstream() {
        for kind in [Kind::Nginx, Kind::Haproxy, Kind::Caddy] {
            let text = configuration(kind, 1000, 2000, 1, "/f").unwrap();
            assert!(text.contains("127.0.0.1:2000") && text.contains(":1000"), "{text}");
        }
        assert!(configuration(Kind::Weir, 1000, 2000, 1, "/f").is_none());
    }
}
