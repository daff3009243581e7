use std::net::SocketAddr;
use std::path::Path;

use super::certificate::Certificate;
use super::{absolute, write_config};
use crate::{LabError, Server, find_program};

pub(super) fn command(
    address: SocketAddr,
    site: &Path,
    folder: &Path,
    certificate: Option<&Certificate>,
) -> Result<Vec<String>, LabError> {
    let h2o = find_program(Server::H2o.program())?.display().to_string();
    let site = absolute(site)?;
    let (_, file) = write_config(folder, "h2o.conf", |_| config(address, &site, certificate))?;
    Ok([&h2o, "-m", "worker", "-c", &file].map(String::from).into())
}

/// The configuration of a file server with H2O's defaults, without a log of requests. It supports HTTP/2 by default,
/// over TLS by ALPN and otherwise with prior knowledge. Queries for revocation are off, because the certificate is
/// self-signed.
fn config(address: SocketAddr, site: &str, certificate: Option<&Certificate>) -> String {
    let ssl = certificate.map_or(String::new(), |Certificate { chain, key }| {
        format!(
            "  ssl:
    certificate-file: \"{chain}\"
    key-file: \"{key}\"
    ocsp-update-interval: 0
"
        )
    });
    format!(
        "listen:
  host: {}
  port: {}
{ssl}hosts:
  default:
    paths:
      \"/\":
        file.dir: \"{site}\"
",
        address.ip(),
        address.port()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h2o_listens_where_it_is_told() {
        let config = config("198.18.0.1:8080".parse().unwrap(), "/some where/www", None);
        assert!(config.starts_with("listen:\n  host: 198.18.0.1\n  port: 8080\n"), "{config}");
        assert!(config.contains("        file.dir: \"/some where/www\"\n") && !config.contains("ssl"), "{config}");
        let certificate = Certificate { chain: "/c d/cert.pem".into(), key: "/c d/key.pem".into() };
        let secure = super::config("198.18.0.1:8080".parse().unwrap(), "www", Some(&certificate));
        assert!(secure.contains("  port: 8080\n  ssl:\n    certificate-file: \"/c d/cert.pem\"\n"), "{secure}");
    }
}
