//! The kernel of machines in virtual time: a Linux that runs as an ordinary program (User-Mode Linux), built by
//! `scripts/setup.sh virtual`.

use std::path::{Path, PathBuf};

use crate::LabError;

/// The variable that names the kernel, if it is not in the cache.
const VARIABLE: &str = "WEIR_VIRTUAL_KERNEL";
/// Its path below the user's cache folder, where `scripts/virtual-kernel.sh` puts it.
const CACHED: &str = "weir/virtual/linux";
/// The library next to the kernel, built by `scripts/virtual-kernel.sh`.
const RANDOM: &str = "random.so";
/// The words on the kernel's command line in a machine whose clock is virtual.
const MARK: &str = "time-travel=inf-cpu";

/// Returns the path of the kernel, or an error that says how to get one.
pub fn find_kernel() -> Result<PathBuf, LabError> {
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(named) = var(VARIABLE) {
        return if named.is_file() { Ok(named) } else { Err(missing(&named, VARIABLE)) };
    }
    let cache = var("XDG_CACHE_HOME").or_else(|| var("HOME").map(|home| home.join(".cache"))).unwrap_or_default();
    let cached = cache.join(CACHED);
    if cached.is_file() { Ok(cached) } else { Err(missing(&cached, "the cache")) }
}

/// Returns the library next to this kernel that derives its random numbers from a seed.
pub fn find_random(kernel: &Path) -> Option<PathBuf> {
    let library = std::path::absolute(kernel.with_file_name(RANDOM)).ok()?;
    library.is_file().then_some(library)
}

fn missing(file: &Path, place: &str) -> LabError {
    LabError::NoVirtualKernel { file: file.into(), place: place.into() }
}

/// Returns true if this machine's clock is virtual. Nothing is then late, and no time passes during computation.
pub fn is_virtual() -> bool {
    std::fs::read_to_string("/proc/cmdline").is_ok_and(|line| says_virtual(&line))
}

/// The build of this kernel, as it reports it.
pub fn version() -> String {
    std::fs::read_to_string("/proc/version").unwrap_or_default().trim().into()
}

fn says_virtual(command_line: &str) -> bool {
    command_line.split_whitespace().any(|word| word == MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_tells() {
        assert!(says_virtual("mem=3G root=/dev/root time-travel=inf-cpu ro\n"));
        assert!(!says_virtual("root=/dev/vda time-travel ro") && !says_virtual(""));
    }

    #[test]
    fn a_missing_kernel_says_how_to_get_one() {
        let said = missing(Path::new("/c/linux"), "the cache").to_string();
        assert!(said.contains("/c/linux") && said.contains("scripts/setup.sh virtual"), "{said}");
    }
}
