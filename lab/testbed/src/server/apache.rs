use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::{absolute, write_config};
use crate::{LabError, Limits, Server, find_program};

/// The folders of Apache's modules in distributions, relative to the prefix of its program: Debian, Fedora, Arch and a
/// local build.
const MODULE_FOLDERS: [&str; 5] =
    ["lib/apache2/modules", "lib64/httpd/modules", "lib/httpd/modules", "libexec/apache2", "modules"];
/// The module whose presence marks the folder.
const PREFORK: &str = "mod_mpm_prefork.so";

/// The number of processes, each for one connection. 000 and 003 raised the limit to 350, beyond which it had no
/// effect.
pub(crate) const PROCESSES: u64 = 350;
/// Apache's default backlog.
const BACKLOG: u64 = 511;

/// `nobody`, the user of the server if we are root: Apache refuses to serve as root.
const NOBODY: u32 = 65_534;

pub(super) fn command(
    address: SocketAddr,
    site: &Path,
    folder: &Path,
    limits: &Limits,
) -> Result<Vec<String>, LabError> {
    let apache = find_program(Server::Apache.program())?.display().to_string();
    let (site, modules) = (absolute(site)?, modules_folder()?.display().to_string());
    let own = folder.join("apache");
    std::fs::create_dir(&own).map_err(|e| LabError::path(&own, e))?;
    let (_, file) = write_config(&own, "apache.conf", |folder| config(address, &site, folder, &modules, limits))?;
    let mut words = vec![];
    if geteuid().is_root() {
        std::os::unix::fs::chown(&own, Some(NOBODY), Some(NOBODY)).map_err(|e| LabError::path(&own, e))?;
        words = as_nobody();
    }
    words.extend([&apache, "-f", &file, "-DFOREGROUND"].map(String::from));
    Ok(words)
}

/// The words before a command that run it as nobody, but with root's permission to read: the folder of an experiment
/// need not be readable by others. A change of user clears the signal for a dead parent, so it is set again.
fn as_nobody() -> Vec<String> {
    let line = format!(
        "setpriv --pdeathsig TERM --reuid {NOBODY} --regid {NOBODY} --clear-groups \
         --inh-caps +dac_override --ambient-caps +dac_override"
    );
    line.split_whitespace().map(String::from).collect()
}

/// Returns the folder of the installed Apache's modules.
pub(super) fn modules_folder() -> Result<PathBuf, LabError> {
    let program = find_program(Server::Apache.program())?;
    let prefix = program.ancestors().nth(2).unwrap_or(Path::new("/"));
    // Where /sbin is a link to /usr/sbin, PATH may name the first.
    let prefixes = [prefix, Path::new("/usr")];
    let folders = prefixes.iter().flat_map(|prefix| MODULE_FOLDERS.iter().map(|folder| prefix.join(folder)));
    { folders }
        .find(|folder| folder.join(PREFORK).is_file())
        .ok_or_else(|| LabError::Missing { program: PREFORK.into() })
}

/// The configuration of Apache with a process per connection, as in the papers, all started from the beginning, so that
/// no request waits for a fork; with sendfile, keep-alive, no access log, and all its files in its own folder.
fn config(address: SocketAddr, site: &str, folder: &str, modules: &str, limits: &Limits) -> String {
    format!(
        "ServerRoot \"{folder}\"
DefaultRuntimeDir \"{folder}\"
PidFile apache.pid
ErrorLog /dev/stderr
LoadModule mpm_prefork_module \"{modules}/{PREFORK}\"
LoadModule authz_core_module \"{modules}/mod_authz_core.so\"
ServerName {ip}
Listen {address}
ListenBacklog {backlog}
ServerLimit {processes}
MaxRequestWorkers {processes}
StartServers {processes}
MinSpareServers {processes}
MaxSpareServers {processes}
KeepAlive On
MaxKeepAliveRequests 0
EnableSendfile On
DocumentRoot \"{site}\"
",
        ip = address.ip(),
        backlog = limits.accept_queue.unwrap_or(BACKLOG),
        processes = limits.workers.unwrap_or(PROCESSES),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apache_listens_where_it_is_told_and_keeps_to_its_folder() {
        let address = "198.18.0.1:8080".parse().unwrap();
        let limits = Limits { accept_queue: Some(512), ..Limits::default() };
        let config = config(address, "/some where/www", "/some where/run", "/usr/lib/apache2/modules", &limits);
        for line in [
            "Listen 198.18.0.1:8080",
            "DocumentRoot \"/some where/www\"",
            "ServerRoot \"/some where/run\"",
            "MaxRequestWorkers 350",
            "ListenBacklog 512",
            "LoadModule mpm_prefork_module \"/usr/lib/apache2/modules/mod_mpm_prefork.so\"",
        ] {
            assert!(config.lines().any(|is| is == line), "{line}: {config}");
        }
    }
}
