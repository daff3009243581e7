//! Parses the command line and exits. Exit status 0 means success, 1 failure, 2 wrong usage. With 1 and 2, one line on
//! standard error states what is wrong, where, and how to fix it.

use std::io::Write;
use std::process::ExitCode;

/// The reason why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The command line makes no sense (exit status 2).
    Usage(String),
    /// The command was valid but failed (exit status 1).
    Failed(String),
}

impl Failure {
    pub fn into_text(self) -> String {
        let (Failure::Usage(text) | Failure::Failed(text)) = self;
        text
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Failed(error.to_string())
    }
}

/// Parses the command line. Help and version print and exit as usual in clap; a mistake prints one line and exits.
/// `gone` maps a flag or command that was renamed or removed, or that other programs have, to a hint about its
/// replacement.
pub fn parse<C: clap::Parser>(program: &str, gone: fn(&str) -> Option<String>) -> C {
    C::try_parse().unwrap_or_else(|error| {
        if !error.use_stderr() {
            error.exit();
        }
        // A command without its arguments is answered with the help, which clap reports as an error.
        if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            eprint!("{error}");
        } else {
            let words: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into()).collect();
            let path = command_path(&C::command(), program, &words);
            let word = unknown_word(&error).or_else(|| unknown_command(&error, &path));
            let said = word.and_then(|word| gone(&word)).or_else(|| unknown_flag(&error));
            let said = said.unwrap_or_else(|| one_line(&error.to_string()));
            eprintln!("{program}: {said}; see `{path} --help`");
        }
        std::process::exit(2)
    })
}

/// Prints a line that reports a finished action. The action has succeeded even if nobody reads the line, so a closed or
/// full output is not an error.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Prints the failure, if any, as `program: reason` and returns the exit status.
pub fn exit_code(program: &str, outcome: Result<(), Failure>) -> ExitCode {
    let (status, reason) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Failed(reason)) => (1, reason),
        Err(Failure::Usage(reason)) => (2, reason),
    };
    let _ = writeln!(std::io::stderr(), "{program}: {}", units::plain(&reason));
    ExitCode::from(status)
}

/// Describes an unknown flag, with clap's suggestion if there is one.
fn unknown_flag(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let is_flag = |word: &&str| error.kind() == ErrorKind::UnknownArgument && word.starts_with('-');
    let flag = text(ContextKind::InvalidArg).filter(is_flag)?;
    let meant = text(ContextKind::SuggestedArg).map_or(String::new(), |meant| format!(" (did you mean {meant}?)"));
    Some(format!("unknown flag {flag}{meant}"))
}

/// Returns an unknown flag, or a flag together with the value that it does not accept.
fn unknown_word(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let flag = text(ContextKind::InvalidArg)?;
    match error.kind() {
        ErrorKind::UnknownArgument => Some(flag.into()),
        // clap names the flag with its placeholder, for example `--policy <POLICY>`.
        ErrorKind::InvalidValue => Some(format!("{} {}", flag.split(' ').next()?, text(ContextKind::InvalidValue)?)),
        _ => None,
    }
}

/// Returns an unknown command with its parents, as typed: `weir uplink watch`.
fn unknown_command(error: &clap::Error, path: &str) -> Option<String> {
    use clap::error::{ContextKind, ContextValue};
    match error.get(ContextKind::InvalidSubcommand)? {
        ContextValue::String(word) => Some(format!("{path} {word}")),
        _ => None,
    }
}

/// Returns the command that these words name, as typed: `weir uplink up` for the words `up eth0`.
fn command_path(root: &clap::Command, program: &str, words: &[String]) -> String {
    let (mut command, mut path) = (root, program.to_string());
    for word in words {
        let Some(sub) = command.find_subcommand(word) else { break };
        path = format!("{path} {}", sub.get_name());
        command = sub;
    }
    path
}

/// Joins clap's multi-line message into one line and drops the usage and the pointer to `--help`.
pub fn one_line(text: &str) -> String {
    let said = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let said = said.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ").replace(" tip: ", "; ");
    let said = said.split("For more information").next().unwrap_or_default();
    said.trim_start_matches("error:").trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser, Debug)]
    struct Args {
        #[arg(long, value_parser = ["fair", "srpt"])]
        policy: String,
        #[arg(long)]
        rho: f64,
        #[arg(long, value_parser = ["new"])]
        kind: Option<String>,
    }

    #[test]
    fn a_mistake_points_at_the_help_of_its_command() {
        let up = clap::Command::new("up").alias("on");
        let root = clap::Command::new("weir").subcommand(clap::Command::new("uplink").subcommand(up));
        for (words, path) in [
            (&[][..], "weir"),
            (&["--uplnk"], "weir"),
            (&["uplink"], "weir uplink"),
            (&["uplink", "--rate", "up"], "weir uplink"),
            (&["uplink", "up", "eth0", "--rat"], "weir uplink up"),
            (&["uplink", "on", "uplink"], "weir uplink up"),
            (&["up"], "weir"),
        ] {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            assert_eq!(command_path(&root, "weir", &words), path, "{words:?}");
        }
    }

    #[test]
    fn a_word_that_is_unknown_is_known_by_its_name() {
        for (words, word) in [
            (&["--old"][..], Some("--old")),
            (&["--old=3"], Some("--old")),
            (&["--rho", "x"], None),
            (&["--kind", "old"], Some("--kind old")),
        ] {
            let error = Args::try_parse_from([&["program", "--policy", "srpt"], words].concat()).unwrap_err();
            assert_eq!(unknown_word(&error).as_deref(), word, "{words:?}");
        }
    }

    #[test]
    fn an_unknown_command_is_known_as_it_is_typed() {
        let uplink = clap::Command::new("uplink").subcommand_required(true).subcommand(clap::Command::new("up"));
        let root = clap::Command::new("weir").subcommand(uplink);
        let of = |words: &[&str]| {
            let error = root.clone().try_get_matches_from([&["weir"], words].concat()).unwrap_err();
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            unknown_command(&error, &command_path(&root, "weir", &words))
        };
        assert_eq!(of(&["uplink", "watch"]).as_deref(), Some("weir uplink watch"));
        assert_eq!(of(&["watch"]).as_deref(), Some("weir watch"));
        assert_eq!(of(&["uplink", "up", "--x"]), None);
    }

    #[test]
    fn an_unknown_flag_is_told_with_the_one_that_is_meant() {
        for (words, said) in [
            (&["--port", "80"][..], Some("unknown flag --port")),
            (&["--polcy=srpt"], Some("unknown flag --polcy (did you mean --policy?)")),
            (&["folder"], None),
            (&["--rho", "x"], None),
        ] {
            let error = Args::try_parse_from([&["program", "--policy", "srpt"], words].concat()).unwrap_err();
            assert_eq!(unknown_flag(&error).as_deref(), said, "{words:?}");
        }
    }

    #[test]
    fn mistakes_are_one_line_with_what_would_be_right() {
        for (args, said) in [
            (
                &["--policy", "sprt"][..],
                "invalid value 'sprt' for '--policy <POLICY>' [possible values: fair, srpt]; a similar value exists: 'srpt'",
            ),
            (&["--rho", "x"], "invalid value 'x' for '--rho <RHO>': invalid float literal"),
            (&[], "the following required arguments were not provided: --policy <POLICY> --rho <RHO>"),
        ] {
            let error = Args::try_parse_from([&["program"], args].concat()).unwrap_err();
            assert_eq!(one_line(&error.to_string()), said);
        }
    }
}
