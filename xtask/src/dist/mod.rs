//! `cargo xtask dist`: the program, statically linked, as an archive, as Debian's and Red Hat's packages, and as an image for containers.
//!
//! All are made of one tree, whose files have the time of the last commit; so the same commit gives the same bytes.

mod image;
mod packages;
mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs;

/// What is made, and the trees that it is made of.
const FOLDER: &str = "target/packages";
/// Where everything is made again, to be compared.
const AGAIN: &str = "target/packages-again";
/// Largest program that is packaged, bytes.
const PROGRAM_BYTES_MAX: u64 = 20 << 20;

#[derive(clap::Args)]
pub struct Args {
    /// Make everything twice, in two folders, and compare the bytes
    #[arg(long)]
    twice: bool,
    /// Install, upgrade and remove the packages and run the image, in a copy of this machine's files; as root
    #[arg(long)]
    check: bool,
    /// Package this program as it is, instead of building one that is small and needs no library
    #[arg(long, value_name = "FILE", conflicts_with = "twice")]
    weir: Option<PathBuf>,
}

/// What all packages say of themselves.
struct Release {
    version: String,
    /// Of the last commit, seconds since 1970: the time of every file.
    epoch: u64,
    /// As Rust names the processor, x86_64 or aarch64.
    processor: &'static str,
}

pub fn main(root: &Path, args: &Args) -> Result<(), String> {
    let release = Release::of(root)?;
    let made = make(root, &root.join(FOLDER), args.weir.as_deref(), &release)?;
    if args.twice {
        let again = make(root, &root.join(AGAIN), None, &release)?;
        compare(&made, &again)?;
    }
    for file in &made {
        println!("{:>9} KB  {}", bytes_of(file)? / 1000, file.strip_prefix(root).unwrap_or(file).display());
    }
    if args.check {
        for script in ["scripts/check-packages.sh", "scripts/check-service.sh"] {
            run(Command::new(script).arg(root.join(FOLDER)).current_dir(root)).map(|said| print!("{said}"))?;
        }
    }
    Ok(())
}

impl Release {
    fn of(root: &Path) -> Result<Release, String> {
        let epoch = run(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root))?;
        let epoch = epoch.trim().parse().map_err(|_| format!("git log: `{}` is no time", epoch.trim()))?;
        Ok(Release { version: env!("CARGO_PKG_VERSION").into(), epoch, processor: std::env::consts::ARCH })
    }
}

/// Everything, into this folder: the archive, the packages and the image.
fn make(root: &Path, folder: &Path, weir: Option<&Path>, release: &Release) -> Result<Vec<PathBuf>, String> {
    let program = match weir {
        Some(program) => program.to_owned(),
        None => build(root, folder, release)?,
    };
    // What was made before would be packaged with it.
    for part in ["root", "rpm", "image"] {
        remove(&folder.join(part))?;
    }
    remove_packages(folder)?;
    let tree = stage::Stage::new(root, folder.join("root"), release);
    tree.fill(&program)?;
    let mut made = vec![packages::archive(&tree, folder, release)?, packages::deb(root, &tree, folder, release)?];
    match programs::find("rpmbuild") {
        Some(_) => made.push(packages::rpm(root, &tree, folder, release)?),
        None => println!("SKIPPED: the package for Red Hat's systems: no rpmbuild; scripts/setup.sh dist installs it"),
    }
    made.push(image::make(&tree, folder, release)?);
    Ok(made)
}

/// A program for any Linux of this processor: no library of the machine, nor the name of a folder in it.
fn build(root: &Path, folder: &Path, release: &Release) -> Result<PathBuf, String> {
    let target = format!("{}-unknown-linux-gnu", release.processor);
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")));
    let home = home.map_err(|_| "HOME is not set: cargo's folder is below it".to_owned())?;
    let renamed = format!("--remap-path-prefix={}=/weir --remap-path-prefix={home}=/cargo", root.display());
    let flags = format!("-C target-feature=+crt-static {renamed}");
    let built = folder.join("build");
    let built = built.to_str().ok_or("the folder's name is no UTF-8")?;
    let words = ["--profile", "dist", "--target", &target, "--target-dir", built, "--package", "weir"];
    let c_flags = format!(
        "-ffile-prefix-map={}=/weir -ffile-prefix-map={home}=/cargo -ffile-prefix-map={built}=/build",
        root.display()
    );
    let program = programs::build(root, &words, &[("RUSTFLAGS", &flags), ("CFLAGS", &c_flags)])?;
    let bytes = bytes_of(&program)?;
    if bytes > PROGRAM_BYTES_MAX {
        return Err(format!("{}: {bytes} bytes: at most {PROGRAM_BYTES_MAX} are packaged", program.display()));
    }
    Ok(program)
}

fn compare(made: &[PathBuf], again: &[PathBuf]) -> Result<(), String> {
    for (one, other) in made.iter().zip(again) {
        let [first, second] = [one, other].map(|file| fs::read(file).map_err(|e| format!("{}: {e}", file.display())));
        if first? != second? {
            return Err(format!(
                "{} and {} differ: the same commit is to give the same bytes",
                one.display(),
                other.display()
            ));
        }
    }
    println!("{} files, made twice: the same bytes", made.len());
    Ok(())
}

fn bytes_of(file: &Path) -> Result<u64, String> {
    fs::metadata(file).map(|about| about.len()).map_err(|e| format!("{}: {e}", file.display()))
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {error}", folder.display())),
        _ => Ok(()),
    }
}

/// Those of another version.
fn remove_packages(folder: &Path) -> Result<(), String> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_file() && name.to_string_lossy().starts_with("weir") {
            fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}

/// Runs a program to its end and gives what it printed; an error has what it said.
fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("cannot run {name}: {e}"))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(said(&output.stdout));
    }
    Err(format!("{name} failed ({}):\n{}{}", output.status, said(&output.stdout), said(&output.stderr)))
}
