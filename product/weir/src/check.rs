//! `weir check`: prints the mistakes in a configuration and everything that would keep it from running, or explains its
//! effect on a request. It changes nothing.

use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use cli::Failure;
use config::{Configuration, FileError, FileNames, Listener, Place, Placed, Question, Remark};
use server::Checked;
use server::service_manager::Account;

use crate::explain::{self, Asked};
use crate::faults::{fault_in, place_of, wrong};
use crate::running;
use crate::serve::run;

const AFTER_HELP: &str = "\
Examples:
  weir check weir.toml
  weir check --syntax-only weir.toml
  weir check --explain http://example.org/a --client 192.0.2.7
  weir check --schema

Users, folders, certificates, addresses, logs and names of upstreams are tried, as `weir run` would:
as root, where root starts the server.
Status 0: correct; 1: mistakes, each as FILE:LINE:COLUMN; 2: wrong usage.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Configuration
    #[arg(default_value = "weir.toml")]
    file: PathBuf,
    /// Print the site and the class of a request, each with its line, and its answer
    #[arg(long, value_name = "URL", conflicts_with = "schema")]
    explain: Option<String>,
    /// Print every setting that applies to the request too, with --explain
    #[arg(long, requires = "explain")]
    all: bool,
    /// Address of the client of this request [default: unknown]
    #[arg(long, value_name = "ADDR", requires = "explain")]
    client: Option<IpAddr>,
    /// Header field of this request, as 'Name: value'; repeatable
    #[arg(long = "header", value_name = "FIELD", requires = "explain")]
    headers: Vec<String>,
    /// Read the file alone, as for another machine: nothing that it names is opened
    #[arg(long, conflicts_with = "schema")]
    syntax_only: bool,
    /// Print the JSON schema of the configuration, for editors
    #[arg(long)]
    schema: bool,
}

pub fn main(args: Args) -> Result<(), Failure> {
    if args.schema {
        return print(format!("{}\n", serde_json::to_string_pretty(&config::schema())?));
    }
    let question = args.explain.as_deref().map(|url| Question::new(url, args.client, &args.headers)).transpose();
    let question = question.map_err(|error| Failure::Usage(error.to_string()))?;
    if let (Some(question), Some(url)) = (question, &args.explain) {
        let configuration = read(&args.file)?;
        let explanation = config::explain(&configuration, &question);
        let asked = Asked { url, headers: &args.headers };
        let answer = || explain::answer(&configuration, &args.file, &explanation, &asked);
        let answer = if args.syntax_only { String::new() } else { answer() };
        let files = &configuration.files;
        let settings = if args.all { explanation.settings_of_file(files).to_string() } else { String::new() };
        return print(format!("{}{answer}{settings}", explanation.of_file(files)));
    }
    if args.syntax_only {
        return print(summary(&read(&args.file)?, &args.file.display().to_string()));
    }
    report(&args.file)
}

/// Prints that a file is correct, with the warnings of a start, or prints all its mistakes.
pub fn report(file: &Path) -> Result<(), Failure> {
    let (configuration, name) = (read(file)?, file.display().to_string());
    let remarks = try_out(&configuration, file)?;
    let remarks: String = remarks.iter().map(|remark| format!("{name}: {}\n", units::plain(remark))).collect();
    print(summary(&configuration, &name) + &remarks)
}

fn read(file: &Path) -> Result<Configuration, Failure> {
    config::read_file(file).map_err(|error| match error {
        FileError::Mistakes { mistakes, files, .. } => refused(&mistakes, &files, &file.display().to_string()),
        error => error.into(),
    })
}

/// Prints all mistakes. Returns a failure with their number.
fn refused(mistakes: &[Remark], files: &FileNames, file: &str) -> Failure {
    let lines = mistakes.iter().map(|mistake| mistake.line(files) + "\n").collect();
    let count = count(mistakes.len(), "mistake", "mistakes");
    print(lines).err().unwrap_or(Failure::Failed(format!("{file}: {count}")))
}

/// Returns the warnings of a start, or a failure with everything that would keep the server from running.
fn try_out(configuration: &Configuration, file: &Path) -> Result<Vec<String>, Failure> {
    let mut wanted = configuration.clone();
    let process = &mut wanted.settings.process;
    let account = process.user.as_deref().map(|user| Account::find(user, process.group.as_deref())).transpose();
    let mut mistakes = Vec::new();
    if let Err(error) = account {
        mistakes.push(wrong(&configuration.settings.held, "server.user", &error));
        (process.user, process.group) = (None, None);
    }
    mistakes.extend(admin(configuration));
    // Everything else can still be tried.
    if let Err(mistake) = run::check_shaping(&wanted, file) {
        mistakes.push(mistake);
        wanted.settings.uplink.shaping = config::Shaping::Auto;
    }
    let Checked { faults, remarks } = run::check(wanted, file)?;
    mistakes.extend(faults.iter().map(|fault| fault_in(configuration, fault)));
    if mistakes.is_empty() {
        return Ok(remarks.into_iter().map(told_of_use).collect());
    }
    mistakes.sort();
    Err(refused(&mistakes, &configuration.files, &file.display().to_string()))
}

/// Completes a remark about an address that is in use, which is normal if another Weir uses it.
fn told_of_use(remark: String) -> String {
    match remark.ends_with(server::IN_USE) && running::servers_here().is_empty() {
        true => remark + ": by another program, unless the service manager holds it for Weir; no Weir runs here",
        false => remark,
    }
}

/// Tries the address of the admin listener.
fn admin(configuration: &Configuration) -> Option<Remark> {
    let settings = &configuration.settings;
    let admin = settings.process.admin?;
    let overlaps = |listener: &&Placed<Listener>| {
        let Listener { address, .. } = listener.value;
        address.port() == admin.port() && (address.ip() == admin.ip() || address.ip().is_unspecified())
    };
    let said = match settings.listeners.iter().find(overlaps) {
        Some(listener) => {
            format!("server.admin: {admin} is of the listener of line {}; expected another port", listener.at.line)
        }
        None => match std::net::TcpListener::bind(admin).err()?.kind() {
            // The server of this configuration most likely uses it.
            std::io::ErrorKind::AddrInUse if !running::servers_here().is_empty() => return None,
            kind => format!(
                "server.admin: cannot listen on {admin}: {kind}; expected an address of this machine and a free port"
            ),
        },
    };
    Some(Remark { at: place_of(&settings.held, "server.admin").unwrap_or(Place::START), said })
}

/// Returns the numbers of sites and other settings, followed by the notes.
fn summary(configuration: &Configuration, file: &str) -> String {
    let counts = [
        count(configuration.settings.listeners.len(), "listener", "listeners"),
        count(configuration.sites.len(), "site", "sites"),
        count(configuration.classes.len(), "class", "classes"),
    ];
    let notes: String = configuration.notes.iter().map(|note| note.line(&configuration.files) + "\n").collect();
    format!("{file}: correct: {}\n{notes}", counts.join(", "))
}

fn count(count: usize, noun: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { noun } else { plural })
}

fn print(text: String) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        // A reader such as `head` may close the pipe.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_and_notes() {
        let text = "[[site]]\nroot = 'r'\nclass = 'a'\n[[class]]\nname = 'a'\nmin_rate = '1mbit'\n[[listener]]\naddress = '[::]:1'\n[[listener]]\naddress = '[::]:2'\n";
        let Ok(configuration) = config::read(text.as_bytes()) else { panic!("a right file") };
        let note = "class.min_rate without uplink.rate: not compared with the rate of the uplink";
        assert_eq!(summary(&configuration, "f"), format!("f: correct: 2 listeners, 1 site, 1 class\n:6:12: {note}\n"));
    }
}
