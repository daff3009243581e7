//! `weir completions` and `weir manual`: generate files that a package contains in addition to the program.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use cli::Failure;

use crate::Cli;

/// Print the completions of a shell
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  weir completions bash > /etc/bash_completion.d/weir
  weir completions zsh > /usr/local/share/zsh/site-functions/_weir
  weir completions fish > /etc/fish/completions/weir.fish")]
pub struct Completions {
    /// bash, zsh or fish
    #[arg(value_name = "SHELL", hide_possible_values = true, value_parser = ["bash", "zsh", "fish"])]
    shell: String,
}

/// Write the manual pages: weir(1), one for each command, and weir.toml(5)
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  weir manual man         man/weir.1 and the others; the folder is made if missing")]
pub struct Manual {
    /// Folder to write them to
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub fn completions(args: &Completions) -> Result<(), Failure> {
    let shell: Shell = args.shell.parse().map_err(Failure::Usage)?;
    let mut out = vec![];
    clap_complete::generate(shell, &mut Cli::command(), "weir", &mut out);
    Ok(std::io::stdout().write_all(&out)?)
}

pub fn manual(args: &Manual) -> Result<(), Failure> {
    let failed = |error| Failure::Failed(format!("{}: {error}", args.folder.display()));
    std::fs::create_dir_all(&args.folder).map_err(failed)?;
    let mut command = Cli::command();
    command.build();
    pages(&command, "weir", &args.folder).map_err(failed)?;
    std::fs::write(args.folder.join("weir.toml.5"), config::manual()).map_err(failed)
}

/// Writes the manual page of a command and those of its subcommands.
fn pages(command: &Command, name: &str, folder: &Path) -> std::io::Result<()> {
    std::fs::write(folder.join(format!("{name}.1")), page(command, name)?)?;
    below(command).try_for_each(|below| pages(below, &format!("{name}-{}", below.get_name()), folder))
}

fn below(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set())
}

/// Returns the manual page of a command in the format of man(7).
fn page(command: &Command, name: &str) -> std::io::Result<Vec<u8>> {
    let titled = command.clone().display_name(name.to_owned()).disable_help_subcommand(true);
    // clap_mangen leaves out flags that only `--help-all` shows; a manual page has all of them.
    let titled = titled.mut_args(|arg| arg.hide_short_help(false));
    let mut page = vec![];
    clap_mangen::Man::new(titled).title(name.to_owned()).render(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command and all below it, with their names as pages have them.
    fn all<'c>(command: &'c Command, name: &str) -> Vec<(String, &'c Command)> {
        let below = below(command).flat_map(|below| all(below, &format!("{name}-{}", below.get_name())));
        std::iter::once((name.to_string(), command)).chain(below).collect()
    }

    /// The text of a page without marks of man(7).
    fn plain(page: &[u8]) -> String {
        String::from_utf8_lossy(page)
            .replace("\\-", "-")
            .replace("\\fB", "")
            .replace("\\fI", "")
            .replace("\\fR", "")
            .replace("\\*(Aq", "'")
    }

    #[test]
    fn every_flag_has_its_text_in_the_manual() {
        let mut root = Cli::command();
        root.build();
        let mut flags = 0;
        for (name, command) in all(&root, "weir") {
            let page = plain(&page(command, &name).unwrap());
            let entries: Vec<&str> = page.split("\n.TP\n").skip(1).collect();
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let first = help.lines().next().unwrap_or_default();
                let flag = arg.get_long().map(|long| format!("--{long}"));
                let is_its = |entry: &&&str| {
                    let head = entry.lines().next().unwrap_or_default();
                    flag.as_ref().is_none_or(|flag| head.split([' ', ',', '=', '[']).any(|word| word == flag))
                };
                let entry = entries.iter().filter(is_its).find(|entry| entry.lines().nth(1) == Some(first));
                assert!(entry.is_some() && !first.is_empty(), "{name} {:?}: `{first}`\n{page}", arg.get_id());
                flags += 1;
            }
        }
        assert!(flags > 100, "{flags} flags");
    }
}
