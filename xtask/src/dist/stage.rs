//! The tree as it is installed.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::{Release, run};
use crate::docs;

/// Where it comes from, below the project, and goes to, as a file of mode 0644.
const FILES: &[(&str, &str)] = &[
    ("packaging/systemd/weir.service", "usr/lib/systemd/system/weir.service"),
    ("packaging/systemd/weir.socket", "usr/lib/systemd/system/weir.socket"),
    ("packaging/systemd/weir-attach@.service", "usr/lib/systemd/system/weir-attach@.service"),
    ("packaging/systemd/weir-attach-watch@.service", "usr/lib/systemd/system/weir-attach-watch@.service"),
    ("packaging/systemd/weir.sysusers.conf", "usr/lib/sysusers.d/weir.conf"),
    ("packaging/weir.logrotate", "etc/logrotate.d/weir"),
    ("packaging/welcome/index.html", "usr/share/weir/welcome/index.html"),
    ("LICENSE-APACHE", "usr/share/doc/weir/LICENSE-APACHE"),
    ("LICENSE-MIT", "usr/share/doc/weir/LICENSE-MIT"),
    ("examples/small-site.toml", "usr/share/doc/weir/examples/small-site.toml"),
    ("examples/several-sites.toml", "usr/share/doc/weir/examples/several-sites.toml"),
    ("examples/hoster.toml", "usr/share/doc/weir/examples/hoster.toml"),
    ("examples/proxy.toml", "usr/share/doc/weir/examples/proxy.toml"),
];
/// Read by the server's user alone: it may hold tokens.
const CONFIGURATION: &str = "etc/weir/weir.toml";
/// The pages, in the places that they have in the workspace, so that links between them hold.
const DOCUMENTATION: &str = "usr/share/doc/weir";
/// Shell, and where its completions go; zsh has two customs.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/weir"),
    ("zsh", "usr/share/zsh/site-functions/_weir"),
    ("fish", "usr/share/fish/vendor_completions.d/weir.fish"),
];
/// Where an administrator installs by hand, and where a package does.
const PREFIXES: [&str; 2] = ["/usr/local/bin/weir", "/usr/bin/weir"];

pub struct Stage<'a> {
    project: &'a Path,
    pub folder: PathBuf,
    at: SystemTime,
}

impl<'a> Stage<'a> {
    pub fn new(project: &'a Path, folder: PathBuf, release: &Release) -> Stage<'a> {
        Stage { project, folder, at: SystemTime::UNIX_EPOCH + Duration::from_secs(release.epoch) }
    }

    /// A part of another tree.
    pub fn beside(&self, folder: PathBuf) -> Stage<'a> {
        Stage { folder, ..*self }
    }

    pub fn fill(&self, program: &Path) -> Result<(), String> {
        let bytes = fs::read(program).map_err(|e| format!("{}: {e}", program.display()))?;
        let weir = self.put("usr/bin/weir", &bytes, 0o755)?;
        // One that was given may have symbols.
        run(Command::new("strip").arg(&weir))?;
        for (from, to) in FILES {
            let text = self.read(from)?;
            self.put(to, text.replace(PREFIXES[0], PREFIXES[1]).as_bytes(), 0o644)?;
        }
        for (page, bytes) in docs::packaged(self.project)? {
            self.put(&Path::new(DOCUMENTATION).join(page).display().to_string(), &bytes, 0o644)?;
        }
        self.put(CONFIGURATION, self.read("packaging/weir.toml")?.as_bytes(), 0o640)?;
        for (shell, to) in COMPLETIONS {
            let text = run(Command::new(&weir).args(["completions", shell]))?;
            self.put(to, text.as_bytes(), 0o644)?;
        }
        self.manual(&weir)?;
        self.settle()
    }

    /// Each page goes into the folder of its section, compressed.
    fn manual(&self, weir: &Path) -> Result<(), String> {
        let pages = self.folder.join("pages");
        run(Command::new(weir).arg("manual").arg(&pages))?;
        for name in names(&pages)? {
            let section = name.rsplit('.').next().unwrap_or("1");
            run(Command::new("gzip").args(["-9n", &name]).current_dir(&pages))?;
            let page = fs::read(pages.join(format!("{name}.gz"))).map_err(|e| format!("{name}: {e}"))?;
            self.put(&format!("usr/share/man/man{section}/{name}.gz"), &page, 0o644)?;
        }
        super::remove(&pages)
    }

    fn read(&self, name: &str) -> Result<String, String> {
        fs::read_to_string(self.project.join(name)).map_err(|e| format!("{name}: {e}"))
    }

    /// A file of this mode, whatever the umask is.
    pub fn put(&self, name: &str, bytes: &[u8], mode: u32) -> Result<PathBuf, String> {
        let path = self.folder.join(name);
        let write = || {
            fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
            fs::write(&path, bytes)?;
            fs::set_permissions(&path, Permissions::from_mode(mode))
        };
        write().map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(path)
    }

    /// Gives every folder its mode, and everything the time of the release. What comes later into a folder changes its time again.
    pub fn settle(&self) -> Result<(), String> {
        settle(&self.folder, self.at).map_err(|e| format!("{}: {e}", self.folder.display()))
    }
}

fn settle(path: &Path, at: SystemTime) -> std::io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            settle(&entry?.path(), at)?;
        }
        let mode = path.metadata()?.permissions().mode() & 0o1000 | 0o755;
        fs::set_permissions(path, Permissions::from_mode(if mode & 0o1000 != 0 { 0o1777 } else { mode }))?;
    }
    File::open(path)?.set_times(FileTimes::new().set_modified(at).set_accessed(at))
}

/// The names of a folder, in order.
fn names(folder: &Path) -> Result<Vec<String>, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut names: Vec<String> = entries.iter().map(|entry| entry.file_name().to_string_lossy().into()).collect();
    names.sort();
    Ok(names)
}
