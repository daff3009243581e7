//! The server under test, its site and its certificates.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::certificates::{self, Certificates};
use super::run::{self, Running, last_lines};
use super::site;

/// The time that the server may take to start, and to end with responses in flight.
const LIMIT: Duration = Duration::from_secs(60);

/// A running `weir serve`.
pub struct Server {
    running: Running,
    pub port: u16,
    log: PathBuf,
}

impl Server {
    fn start(command: &mut Command, log: PathBuf) -> Result<Server, String> {
        let (running, port) =
            run::until(command, &log, LIMIT, port_of).map_err(|said| format!("weir does not serve: {said}"))?;
        Ok(Server { running, port, log })
    }

    pub fn id(&self) -> u32 {
        self.running.id()
    }

    /// Stops the server. It must still be running, and end with success.
    pub fn stop(mut self) -> Result<(), String> {
        self.running.ask_to_end();
        let ended = self.running.wait(LIMIT);
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        match ended {
            Some(status) if status.success() && !said.contains("panicked") => Ok(()),
            Some(status) => Err(format!("weir ended with {status}: {}", last_lines(&said, 5))),
            None => Err(format!("weir has not ended {LIMIT:?} after SIGTERM: {}", last_lines(&said, 5))),
        }
    }
}

pub struct Bench {
    weir: PathBuf,
    server: Server,
    pub port: u16,
    pub certificates: Certificates,
    pub folder: PathBuf,
    pub site: PathBuf,
}

impl Bench {
    pub fn start(root: &Path, weir: PathBuf, openssl: &Path) -> Result<Bench, String> {
        let folder = root.join("target/conformance");
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(failed)?;
        }
        let site = folder.join("site");
        site::write(&site).map_err(failed)?;
        let certificates = certificates::make(&folder, openssl)?;
        let mut command = serve(&weir, &site, &certificates);
        command.arg("--access-log").arg(folder.join("access.log"));
        let server = Server::start(&mut command, folder.join("server.log"))?;
        let port = server.port;
        Ok(Bench { weir, server, port, certificates, folder, site })
    }

    /// Starts a separate server for a check that ends it or fills it.
    pub fn another(&self, name: &str) -> Result<Server, String> {
        let mut command = serve(&self.weir, &self.site, &self.certificates);
        Server::start(&mut command, self.log(&format!("{name}-server")))
    }

    /// Starts a separate server with this configuration and this state folder.
    pub fn running(&self, configuration: &Path, state: &Path, name: &str) -> Result<Server, String> {
        fs::create_dir_all(state).map_err(|error| format!("{}: {error}", state.display()))?;
        let mut command = Command::new(&self.weir);
        command.arg("run").arg(configuration).env("STATE_DIRECTORY", state);
        Server::start(&mut command, self.log(&format!("{name}-server")))
    }

    /// The program under test.
    pub fn weir(&self) -> &Path {
        &self.weir
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}/{path}", self.port)
    }

    /// Returns the file in which a check keeps its program's output.
    pub fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    /// The access log so far.
    pub fn access_log(&self) -> String {
        fs::read_to_string(self.folder.join("access.log")).unwrap_or_default()
    }

    pub fn stop(self) -> Result<(), String> {
        self.server.stop()
    }
}

fn serve(weir: &Path, site: &Path, certificates: &Certificates) -> Command {
    let mut command = Command::new(weir);
    command.arg("serve").arg(site).args(["--listen", "127.0.0.1:0"]);
    command.arg("--cert").arg(&certificates.chain).arg("--key").arg(&certificates.key);
    command
}

/// Parses the port in the server's first line of output, with or without TLS.
fn port_of(said: &str) -> Option<u16> {
    let rest = said.split_once("://127.0.0.1:")?.1;
    rest.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::port_of;

    #[test]
    fn the_port_is_in_the_first_line() {
        assert_eq!(port_of("weir: serving www at https://127.0.0.1:18443/ (shaping off)\n"), Some(18443));
        assert_eq!(port_of("weir: serving www at http://127.0.0.1:18080/ (shaping off)\n"), Some(18080));
        assert_eq!(port_of("weir: serving www at https://127.0.0.1:184"), None);
    }
}
