//! An Apache with one process per request on one processor, whose forensic log is written to our pipe.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::namespace::Place;
use crate::program::POLL_EVERY;
use crate::server::{as_nobody, modules_folder, write_config};
use crate::{LabError, Program, find_program};

/// The number of processes, larger than the number of clients, so that no connection waits for a process.
const PROCESSES: usize = 64;
const START_WITHIN: Duration = Duration::from_secs(10);

/// A running Apache and the page requested from it.
pub(super) struct Apache {
    pub address: SocketAddr,
    pub program: Program,
    pub master: u32,
}

/// The cost of one response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    pub bytes: usize,
    /// True if the serving process compresses the page at the highest level, which takes most of its CPU time.
    pub is_compressed: bool,
}

impl Apache {
    /// Starts an Apache that serves the page as `/a/page` and `/b/page` at a loopback address, on this processor.
    pub fn start(folder: &Path, pipe: &Path, page: Page, processor: usize) -> Result<Apache, LabError> {
        let site = folder.join("www");
        for class in ["a", "b"] {
            let of_class = site.join(class);
            std::fs::create_dir_all(&of_class).map_err(|e| LabError::path(&of_class, e))?;
            let file = of_class.join("page");
            std::fs::write(&file, words(page.bytes)).map_err(|e| LabError::path(&file, e))?;
        }
        let address = TcpListener::bind("127.0.0.1:0").and_then(|taken| taken.local_addr());
        let address = address.map_err(|e| LabError::io("a port of loopback", e))?;
        let own = folder.join("apache");
        std::fs::create_dir_all(&own).map_err(|e| LabError::path(&own, e))?;
        let modules = modules_folder()?.display().to_string();
        let paths = [&site, pipe].map(|path| path.display().to_string());
        let (_, file) = write_config(&own, "apache.conf", |folder| config(address, folder, &modules, &paths, page))?;
        let mut command: Vec<String> = vec!["taskset".into(), "-c".into(), processor.to_string()];
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&own, Some(65_534), Some(65_534)).map_err(|e| LabError::path(&own, e))?;
            command.extend(as_nobody());
        }
        let apache = find_program("apache2").or_else(|_| find_program("httpd"))?.display().to_string();
        command.extend([apache.as_str(), "-f", &file, "-DFOREGROUND"].map(String::from));
        let program = Program::start(Place::Here, "apache", &command, &folder.join("apache.log"))?;
        let master = program.id();
        let mut apache = Apache { address, program, master };
        apache.wait()?;
        Ok(apache)
    }

    fn wait(&mut self) -> Result<(), LabError> {
        let until = Instant::now() + START_WITHIN;
        while std::net::TcpStream::connect(self.address).is_err() {
            self.program.check_running()?;
            if Instant::now() >= until {
                return Err(self.program.failed("does not listen"));
            }
            std::thread::sleep(POLL_EVERY);
        }
        Ok(())
    }
}

/// Words of an artificial language: text that compresses to about a third.
fn words(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    let mut state = 1u32;
    while text.len() < bytes {
        // Numerical Recipes' generator: the text only has to be the same each time.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let _ = write!(text, "{:x} ", state >> 14 & 0x3fff);
    }
    text.truncate(bytes);
    text
}

fn config(address: SocketAddr, folder: &str, modules: &str, [site, pipe]: &[String; 2], page: Page) -> String {
    let compression = match page.is_compressed {
        true => format!(
            "LoadModule deflate_module \"{modules}/mod_deflate.so\"\nSetOutputFilter DEFLATE\nDeflateCompressionLevel 9\n"
        ),
        false => String::new(),
    };
    format!(
        "ServerRoot \"{folder}\"
DefaultRuntimeDir \"{folder}\"
PidFile apache.pid
ErrorLog /dev/stderr
LoadModule mpm_prefork_module \"{modules}/mod_mpm_prefork.so\"
LoadModule authz_core_module \"{modules}/mod_authz_core.so\"
LoadModule log_forensic_module \"{modules}/mod_log_forensic.so\"
{compression}ForensicLog \"{pipe}\"
LimitRequestLine 2000
LimitRequestFieldSize 1500
ServerName {ip}
Listen {address}
ServerLimit {PROCESSES}
MaxRequestWorkers {PROCESSES}
StartServers {PROCESSES}
MinSpareServers {PROCESSES}
MaxSpareServers {PROCESSES}
KeepAlive Off
DocumentRoot \"{site}\"
",
        ip = address.ip(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_many_bytes_as_asked_for() {
        assert_eq!(words(1000).len(), 1000);
        assert_eq!(words(1000), words(2000)[..1000]);
    }
}
