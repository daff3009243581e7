//! `weir completions` and `weir manual`: what a package has besides the program.

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

/// The page of a command, and those of the commands below it.
fn pages(command: &Command, name: &str, folder: &Path) -> std::io::Result<()> {
    let mut page = vec![];
    let titled = command.clone().display_name(name.to_owned()).disable_help_subcommand(true);
    clap_mangen::Man::new(titled).title(name.to_owned()).render(&mut page)?;
    std::fs::write(folder.join(format!("{name}.1")), page)?;
    let below = command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set());
    below.into_iter().try_for_each(|below| pages(below, &format!("{name}-{}", below.get_name()), folder))
}
