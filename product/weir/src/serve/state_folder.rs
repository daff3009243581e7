//! The folder for data that is kept across restarts.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use server::Keeper;
use server::service_manager::Account;

/// Opens the folder, or returns the reason why it cannot.
pub fn keeper(asked: Option<&Path>, account: Option<&Account>) -> Result<Option<Keeper>, String> {
    let Some(folder) = folder(asked) else { return Ok(None) };
    Keeper::open(&folder, account).map(Some).map_err(|error| server::unkept(&folder, &error))
}

/// The operator's folder if one is given, and otherwise this process's.
pub fn folder(asked: Option<&Path>) -> Option<PathBuf> {
    asked.map(Path::to_path_buf).or_else(|| of_program("weir"))
}

/// The folder of this process, if the service manager knows its program by this name.
pub fn of_program(program: &str) -> Option<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    found(program, |name| std::env::var_os(name), is_root)
}

/// The folder of the service manager if there is one, or else the system's for root, or else the user's. Returns `None`
/// for a user without a home.
fn found(program: &str, variable: impl Fn(&str) -> Option<OsString>, is_root: bool) -> Option<PathBuf> {
    let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    // A service may have several, separated by colons.
    let of_manager = variable("STATE_DIRECTORY").and_then(|folders| std::env::split_paths(&folders).next());
    if let Some(folder) = of_manager.filter(|folder| folder.is_absolute()) {
        return Some(folder);
    }
    if is_root {
        return Some(Path::new("/var/lib").join(program));
    }
    let state = path("XDG_STATE_HOME").or_else(|| Some(path("HOME")?.join(".local/state")));
    state.map(|state| state.join(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_the_service_s_the_machine_s_or_the_user_s() {
        let of = |variables: &[(&str, &str)], is_root| {
            let find =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into());
            found("weir", find, is_root).map(|folder| folder.display().to_string())
        };
        let (state, xdg, home) = (("STATE_DIRECTORY", "/s/weir:/s/b"), ("XDG_STATE_HOME", "/x"), ("HOME", "/h"));
        let said = |folder: &str| Some(folder.to_string());
        assert_eq!(of(&[state, xdg, home], true), said("/s/weir"));
        assert_eq!(of(&[xdg, home], true), said("/var/lib/weir"));
        assert_eq!(of(&[xdg, home], false), said("/x/weir"));
        assert_eq!(
            of(&[home, ("XDG_STATE_HOME", "relative"), ("STATE_DIRECTORY", "")], false),
            said("/h/.local/state/weir")
        );
        assert_eq!(of(&[], false), None);
    }
}
