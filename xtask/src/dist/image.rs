//! An image for containers, from scratch: the program, the authorities that it trusts, a user, and folders to write to. Made without a daemon.
//!
//! It is a layout of the Open Container Initiative (image-spec 1.1) in an archive, with the list that `docker load` reads beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::packages::tar;
use super::stage::Stage;
use super::{Release, run};

/// The system's, which upstreams over TLS are checked by.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";
/// Of the server within the image: no user of any machine.
const USER: u32 = 65532;
/// What the server may write to.
const WRITABLE: [&str; 3] = ["var/lib/weir", "var/log/weir", "var/tmp"];
const GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

pub fn make(tree: &Stage, folder: &Path, release: &Release) -> Result<PathBuf, String> {
    let layout = folder.join("image");
    let files = tree.beside(layout.join("files"));
    fill(tree, &files)?;
    let layer = layer(&files, &layout, release)?;
    let blobs = Blobs { files: tree.beside(layout.join("layout")) };
    let diff_id = format!("sha256:{}", digest(&read(&layer)?));
    run(Command::new("gzip").arg("-9nf").arg(&layer))?;
    let layer = blobs.put(&read(&layer.with_extension("tar.gz"))?, GZIP)?;
    let config = blobs.put_json(&config(release, &diff_id), "application/vnd.oci.image.config.v1+json")?;
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config, "layers": [layer],
    });
    let mut manifest = blobs.put_json(&manifest, "application/vnd.oci.image.manifest.v1+json")?;
    let name = format!("weir:{}", release.version);
    manifest["annotations"] =
        json!({ "org.opencontainers.image.ref.name": release.version, "io.containerd.image.name": name });
    let index =
        json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest] });
    let path = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap_or_default();
        format!("blobs/sha256/{}", digest.trim_start_matches("sha256:"))
    };
    let docker = json!([{ "Config": path(&config), "RepoTags": [name], "Layers": [path(&layer)] }]);
    blobs.files.put("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#, 0o644)?;
    blobs.files.put("index.json", index.to_string().as_bytes(), 0o644)?;
    blobs.files.put("manifest.json", docker.to_string().as_bytes(), 0o644)?;
    blobs.files.settle()?;
    let image = folder.join(format!("weir-{}-image-{}.tar", release.version, release.processor));
    let mut tar = tar(release);
    run(tar.args(["--owner=0", "--group=0", "-cf"]).arg(&image).arg("-C").arg(&blobs.files.folder).arg("."))?;
    Ok(image)
}

fn fill(tree: &Stage, files: &Stage) -> Result<(), String> {
    files.put("usr/bin/weir", &read(&tree.folder.join("usr/bin/weir"))?, 0o755)?;
    files.put("srv/www/index.html", &read(&tree.folder.join("usr/share/weir/welcome/index.html"))?, 0o644)?;
    files.put(AUTHORITIES, &read(&Path::new("/").join(AUTHORITIES))?, 0o644)?;
    files.put(
        "etc/passwd",
        format!("root:x:0:0::/:/\nweir:x:{USER}:{USER}:Weir web server:/:/\n").as_bytes(),
        0o644,
    )?;
    files.put("etc/group", format!("root:x:0:\nweir:x:{USER}:\n").as_bytes(), 0o644)?;
    for folder in WRITABLE {
        let path = files.folder.join(folder);
        fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    files.settle()
}

/// The files as an archive: root's, but for what the server writes to.
fn layer(files: &Stage, layout: &Path, release: &Release) -> Result<PathBuf, String> {
    let path = layout.join("layer.tar");
    let mut roots = tar(release);
    roots.args(WRITABLE.map(|folder| format!("--exclude=./{folder}")));
    run(roots.args(["--owner=0", "--group=0", "-cf"]).arg(&path).arg("-C").arg(&files.folder).arg("."))?;
    let mut writable = tar(release);
    writable
        .args([format!("--owner={USER}"), format!("--group={USER}"), "--no-recursion".into(), "-rf".into()])
        .arg(&path);
    run(writable.arg("-C").arg(&files.folder).args(WRITABLE.map(|folder| format!("./{folder}"))))?;
    Ok(path)
}

/// What a container of it runs.
fn config(release: &Release, diff_id: &str) -> Value {
    let architecture = if release.processor == "aarch64" { "arm64" } else { "amd64" };
    json!({
        "architecture": architecture, "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            // Where the rate that is found of the uplink is kept.
            "Env": ["PATH=/usr/bin", "STATE_DIRECTORY=/var/lib/weir"],
            "Entrypoint": ["/usr/bin/weir"],
            "Cmd": ["serve", "/srv/www", "--listen", ":8080"],
            "ExposedPorts": { "8080/tcp": {}, "8080/udp": {} },
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "weir",
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [diff_id] },
    })
}

struct Blobs<'a> {
    files: Stage<'a>,
}

impl Blobs<'_> {
    /// Puts it below its digest and gives its descriptor.
    fn put(&self, bytes: &[u8], media_type: &str) -> Result<Value, String> {
        let digest = digest(bytes);
        self.files.put(&format!("blobs/sha256/{digest}"), bytes, 0o644)?;
        Ok(json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len() }))
    }

    fn put_json(&self, value: &Value, media_type: &str) -> Result<Value, String> {
        self.put(value.to_string().as_bytes(), media_type)
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::digest;

    /// FIPS 180-4, of "abc".
    #[test]
    fn digests_are_sha_256() {
        assert_eq!(digest(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
