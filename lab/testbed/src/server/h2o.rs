use std::net::SocketAddr;
use std::path::Path;

use super::{absolute, write_config};
use crate::{LabError, Server, find_program};

pub(super) fn command(address: SocketAddr, site: &Path, folder: &Path) -> Result<Vec<String>, LabError> {
    let h2o = find_program(Server::H2o.program())?.display().to_string();
    let site = absolute(site)?;
    let (_, file) = write_config(folder, "h2o.conf", |_| config(address, &site))?;
    Ok([&h2o, "-m", "worker", "-c", &file].map(String::from).into())
}

/// A file server over plain HTTP as it comes, without a log of requests.
fn config(address: SocketAddr, site: &str) -> String {
    format!(
        "listen:
  host: {}
  port: {}
hosts:
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
        let config = config("198.18.0.1:8080".parse().unwrap(), "/some where/www");
        assert!(config.starts_with("listen:\n  host: 198.18.0.1\n  port: 8080\n"), "{config}");
        assert!(config.contains("        file.dir: \"/some where/www\"\n"), "{config}");
    }
}
