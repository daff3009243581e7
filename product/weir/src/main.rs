//! The program `weir`: its commands.

#[cfg(feature = "bpf")]
mod attach;
#[cfg(not(feature = "bpf"))]
#[path = "no_attach.rs"]
mod attach;
mod check;
mod demo;
#[cfg(test)]
mod examples;
mod explain;
mod faults;
mod generate;
mod hash_password;
mod helper_processes;
mod init;
mod process;
mod reload;
mod running;
mod serve;
mod status;
mod top;
mod upgrade;
mod uplink;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "weir",
    version,
    about = "A web server for slow uplinks: the response with the fewest bytes left goes first",
    after_help = "\
Examples:
  weir serve /srv/www                             serve a folder
  weir proxy :3000                                stand before a program
  weir check weir.toml                            check a configuration
  weir attach eth0                                order the responses of nginx, Apache, Caddy

`weir COMMAND --help` lists the flags of a command.
The program `weirlab` measures and simulates what Weir does: docs/weirlab.md."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a folder over HTTP/1.1, HTTP/2 and HTTP/3
    Serve(Box<serve::Args>),
    /// Pass requests on to another server, and order its responses
    Proxy(Box<serve::proxy::Args>),
    /// Ask four questions and write a configuration
    Init(init::Args),
    /// Serve by a configuration file
    Run(serve::run::Args),
    /// Make a running server read its configuration again
    Reload(reload::Args),
    /// Replace a running server by a new process, without refusing a client
    Upgrade(upgrade::Args),
    /// Show the uplink of a running server, times of responses, classes and certificates
    Status(status::Args),
    /// Show what a running server does, once a second
    Top(top::Args),
    /// Check a configuration and explain what it does with a request
    Check(check::Args),
    /// Print the hash of a password, for a file of users
    HashPassword(hash_password::Args),
    /// Compare the load times of a page during downloads, with the order and without
    Demo(demo::Args),
    /// Create, remove and watch priority bands on an interface
    Uplink(uplink::Args),
    /// Order the responses of a server that already runs
    #[cfg_attr(
        not(feature = "bpf"),
        command(about = "Order the responses of a server that already runs (not in this build)")
    )]
    Attach(attach::Args),
    /// Make the attaches in /etc/weir/attach.toml that are missing
    #[cfg_attr(not(feature = "bpf"), command(about = "Make the attaches in /etc/weir/attach.toml (not in this build)"))]
    Apply(attach::apply::Args),
    /// Print the completions of a shell
    Completions(generate::Completions),
    #[command(hide = true)]
    Manual(generate::Manual),
}

fn main() -> std::process::ExitCode {
    if let Some(main) = std::env::args_os().next().and_then(|name| helper_processes::of_name(&name)) {
        return helper_processes::run(main);
    }
    let outcome = match cli::parse::<Cli>("weir", |word| config::gone(word).or_else(|| config::elsewhere(word))).command
    {
        Command::Serve(args) => serve::main(*args),
        Command::Proxy(args) => serve::proxy::main(*args),
        Command::Init(args) => init::main(args),
        Command::Run(args) => serve::run::main(args),
        Command::Reload(args) => reload::main(args),
        Command::Upgrade(args) => upgrade::main(args),
        Command::Status(args) => status::main(args),
        Command::Top(args) => top::main(&args),
        Command::Check(args) => check::main(args),
        Command::HashPassword(args) => hash_password::main(args),
        Command::Demo(args) => demo::main(args),
        Command::Uplink(args) => uplink::main(args),
        Command::Attach(args) => attach::main(args),
        Command::Apply(args) => attach::apply::main(args),
        Command::Completions(args) => generate::completions(&args),
        Command::Manual(args) => generate::manual(&args),
    };
    cli::exit_code("weir", outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    const LINES_MAX: usize = 2;
    const LINE_CHARS_MAX: usize = 120;

    /// A command and all below it, each with its name as it is typed.
    fn all(command: &clap::Command, path: &str) -> Vec<(String, clap::Command)> {
        let below = command.get_subcommands().filter(|sub| sub.get_name() != "help");
        let below = below.flat_map(|sub| all(sub, &format!("{path} {}", sub.get_name())));
        std::iter::once((path.to_string(), command.clone())).chain(below).collect()
    }

    #[test]
    fn every_command_shows_an_example_that_parses() {
        for (path, command) in all(&Cli::command(), "weir") {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> = help.lines().filter_map(|line| Some(&line[line.find(&path)?..])).collect();
            assert!(!examples.is_empty(), "{path}: {help}");
            // `weirlab` is another program.
            let is_example = |example: &&&str| !example.contains("COMMAND") && !example.starts_with("weirlab");
            for example in examples.iter().filter(is_example) {
                // Redirections of the shell are cut off.
                let words = example.split("  ").next().and_then(|words| words.split(" >").next()).unwrap_or_default();
                let parsed = Cli::try_parse_from(words.split(' '));
                assert!(parsed.is_ok(), "{example}: {:?}", parsed.err());
            }
        }
    }

    #[test]
    fn every_flag_has_a_short_help() {
        for (path, mut command) in all(&Cli::command(), "weir") {
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                // A longer help of one flag would spread that of all over several lines.
                assert!(arg.get_long_help().is_none(), "{path} {}", arg.get_id());
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                assert!((1..=LINES_MAX).contains(&help.lines().count()), "{path} {}: {help}", arg.get_id());
                assert!(!help.ends_with('.'), "{path} {}: {help}", arg.get_id());
            }
            let help = command.render_help().to_string();
            let lines: Vec<&str> = help.lines().filter(|line| line.chars().count() > LINE_CHARS_MAX).collect();
            assert!(lines.is_empty(), "{path}: {lines:?}");
        }
    }
}
