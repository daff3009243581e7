use std::net::SocketAddr;
use std::path::Path;

use super::certificate::Certificate;
use super::{absolute, write_config};
use crate::{LabError, Server, find_program};

/// The variables for the folders in which Caddy stores its state; it creates them.
const STATE_FOLDERS: [&str; 3] = ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"];

pub(super) fn command(
    address: SocketAddr,
    site: &Path,
    folder: &Path,
    certificate: Option<&Certificate>,
) -> Result<Vec<String>, LabError> {
    let caddy = find_program(Server::Caddy.program())?.display().to_string();
    let site = absolute(site)?;
    let (folder, file) = write_config(folder, "Caddyfile", |folder| config(address, &site, folder, certificate))?;
    let state = STATE_FOLDERS.iter().map(|name| format!("{name}={folder}"));
    let words = [&caddy, "run", "--config", &file, "--adapter", "caddyfile"].map(String::from);
    Ok(std::iter::once("env".to_owned()).chain(state).chain(words).collect())
}

/// The configuration of a file server with Caddy's defaults, which has no access log, no other listener and no
/// certificates by ACME. Over TLS it uses HTTP/2 by default, and from 2.6 on HTTP/3. Any host is served: only the address is bound.
fn config(address: SocketAddr, site: &str, folder: &str, certificate: Option<&Certificate>) -> String {
    let (scheme, tls) = match certificate {
        Some(Certificate { chain, key }) => ("https", format!("    tls \"{chain}\" \"{key}\"\n")),
        None => ("http", String::new()),
    };
    let (ip, port) = (address.ip(), address.port());
    format!(
        "{{
    admin off
    auto_https off
    storage file_system \"{folder}\"
}}
{scheme}://:{port} {{
    bind {ip}
{tls}    root * \"{site}\"
    file_server
}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caddy_listens_where_it_is_told_and_keeps_to_its_folder() {
        let config = config("198.18.0.1:8080".parse().unwrap(), "/some where/www", "/some where/run", None);
        assert!(config.contains("http://:8080 {") && config.contains("    bind 198.18.0.1\n"), "{config}");
        assert!(config.contains("root * \"/some where/www\"") && config.contains("admin off"), "{config}");
        assert!(config.contains("storage file_system \"/some where/run\""), "{config}");
        let certificate = Certificate { chain: "/c d/cert.pem".into(), key: "/c d/key.pem".into() };
        let secure = super::config("198.18.0.1:8080".parse().unwrap(), "www", "run", Some(&certificate));
        let wanted = "https://:8080 {\n    bind 198.18.0.1\n    tls \"/c d/cert.pem\" \"/c d/key.pem\"\n";
        assert!(secure.contains(wanted), "{secure}");
    }
}
