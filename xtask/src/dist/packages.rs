//! An archive for any Linux, and packages of two families of systems.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::stage::Stage;
use super::{Release, run};

const EPOCH: &str = "SOURCE_DATE_EPOCH";
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// As Debian names the processor.
fn debian(processor: &str) -> &str {
    match processor {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// GNU tar with names in order, nobody's names and the release's time, so that the same tree gives the same bytes.
pub fn tar(release: &Release) -> Command {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--numeric-owner", "--format=gnu", &format!("--mtime=@{}", release.epoch)]);
    tar
}

pub fn archive(tree: &Stage, folder: &Path, release: &Release) -> Result<PathBuf, String> {
    let name = format!("weir-{}-linux-{}", release.version, release.processor);
    let path = folder.join(format!("{name}.tar.gz"));
    let plain = folder.join(format!("{name}.tar"));
    let mut tar = tar(release);
    tar.args(["--owner=0", "--group=0", &format!("--transform=s,^[.],{name},"), "-cf"]);
    run(tar.arg(&plain).arg("-C").arg(&tree.folder).arg("."))?;
    run(Command::new("gzip").args(["-9nf"]).arg(&plain))?;
    Ok(path)
}

pub fn deb(root: &Path, tree: &Stage, folder: &Path, release: &Release) -> Result<PathBuf, String> {
    let processor = debian(release.processor);
    let size_kb = run(Command::new("du").args(["-sk", "--apparent-size"]).arg(&tree.folder))?;
    let size_kb = size_kb.split_whitespace().next().unwrap_or("0").to_owned();
    let control = format!(
        "Package: weir\nVersion: {}\nArchitecture: {processor}\nMaintainer: The Weir maintainers <weir@localhost>\n\
         Installed-Size: {size_kb}\nSection: httpd\nPriority: optional\nProvides: httpd\nSuggests: logrotate, ca-certificates\n\
         Description: web server and reverse proxy for slow uplinks\n \
         Weir sends the response with the fewest bytes left first, so that small pages\n \
         do not wait behind downloads. It serves folders, is a reverse proxy for\n \
         applications, and orders the responses of other servers of the same machine.\n",
        release.version
    );
    tree.put("DEBIAN/control", control.as_bytes(), 0o644)?;
    tree.put("DEBIAN/conffiles", b"/etc/weir/weir.toml\n/etc/logrotate.d/weir\n", 0o644)?;
    for script in SCRIPTS {
        let from = root.join("packaging/deb").join(script);
        let text = std::fs::read(&from).map_err(|e| format!("{}: {e}", from.display()))?;
        tree.put(&format!("DEBIAN/{script}"), &text, 0o755)?;
    }
    tree.settle()?;
    let path = folder.join(format!("weir_{}_{processor}.deb", release.version));
    let mut build = Command::new("dpkg-deb");
    build.env(EPOCH, release.epoch.to_string()).args(["--root-owner-group", "-Zxz", "--build"]);
    let outcome = run(build.arg(&tree.folder).arg(&path));
    super::remove(&tree.folder.join("DEBIAN"))?;
    outcome.map(|_| path)
}

pub fn rpm(root: &Path, tree: &Stage, folder: &Path, release: &Release) -> Result<PathBuf, String> {
    tree.settle()?;
    let from = root.join("packaging/rpm/weir.spec");
    let spec = std::fs::read_to_string(&from).map_err(|e| format!("{}: {e}", from.display()))?;
    let spec = spec.replace("@VERSION@", &release.version).replace("@STAGE@", &tree.folder.display().to_string());
    let beside = tree.beside(folder.join("rpm"));
    let spec = beside.put("weir.spec", spec.as_bytes(), 0o644)?;
    let mut build = Command::new("rpmbuild");
    build.env(EPOCH, release.epoch.to_string()).args(["-bb", "--quiet", "--target", release.processor]);
    let defines = [
        format!("_topdir {}", beside.folder.display()),
        "_buildhost localhost".into(),
        "use_source_date_epoch_as_buildtime 1".into(),
        "clamp_mtime_to_source_date_epoch 1".into(),
        // The program is stripped, and the pages are compressed.
        "__os_install_post %{nil}".into(),
        "debug_package %{nil}".into(),
        "_build_id_links none".into(),
    ];
    defines.iter().for_each(|define| {
        build.args(["--define", define]);
    });
    run(build.arg(&spec))?;
    let name = format!("weir-{}-1.{}.rpm", release.version, release.processor);
    let path = folder.join(&name);
    let built = beside.folder.join("RPMS").join(release.processor).join(&name);
    std::fs::copy(&built, &path).map_err(|e| format!("{}: {e}", built.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    /// `StateDirectory=weir-attach` makes /var/lib/weir-attach, which no package knows.
    #[test]
    fn a_purge_removes_each_folder_of_the_units() {
        let packaging = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging");
        let postrm = std::fs::read_to_string(packaging.join("deb/postrm")).unwrap();
        let mut count = 0;
        for unit in std::fs::read_dir(packaging.join("systemd")).unwrap() {
            let unit = std::fs::read_to_string(unit.unwrap().path()).unwrap();
            for (key, folder) in [("StateDirectory=", "/var/lib/"), ("LogsDirectory=", "/var/log/")] {
                for name in unit.lines().filter_map(|line| line.strip_prefix(key)) {
                    let folder = format!("{folder}{name}");
                    let is_removed = |line: &str| line.contains("rm -rf") && line.split(' ').any(|word| word == folder);
                    assert!(postrm.lines().any(is_removed), "{folder}");
                    count += 1;
                }
            }
        }
        assert_eq!(count, 3);
    }
}
