//! `weir check`: what is wrong with a configuration, or what it does with a request. Changes nothing.

use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;

use cli::Failure;
use config::{Configuration, FileError, Question};

const AFTER_HELP: &str = "\
Examples:
  weir check weir.toml
  weir check --explain http://example.org/a --client 192.0.2.7
  weir check --schema

Status 0: correct; 1: mistakes, each as FILE:LINE:COLUMN; 2: wrong usage.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Configuration
    #[arg(default_value = "weir.toml")]
    file: PathBuf,
    /// Print the site, the class and the values of a request, each with its line
    #[arg(long, value_name = "URL", conflicts_with = "schema")]
    explain: Option<String>,
    /// Address of the client of this request [default: unknown]
    #[arg(long, value_name = "ADDR", requires = "explain")]
    client: Option<IpAddr>,
    /// Header field of this request, as 'Name: value'; repeatable
    #[arg(long = "header", value_name = "FIELD", requires = "explain")]
    headers: Vec<String>,
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
    let file = args.file.display().to_string();
    let configuration = match config::read_file(&args.file) {
        Ok(configuration) => configuration,
        Err(FileError::Mistakes { mistakes, .. }) => {
            print(mistakes.iter().map(|mistake| mistake.line(&file) + "\n").collect())?;
            return Err(Failure::Failed(format!("{file}: {}", count(mistakes.len(), "mistake", "mistakes"))));
        }
        Err(error) => return Err(error.into()),
    };
    match question {
        Some(question) => print(config::explain(&configuration, &question).of_file(&file).to_string()),
        None => print(summary(&configuration, &file)),
    }
}

/// The counts, then the notes.
fn summary(configuration: &Configuration, file: &str) -> String {
    let counts = [
        count(configuration.settings.listeners.len(), "listener", "listeners"),
        count(configuration.sites.len(), "site", "sites"),
        count(configuration.classes.len(), "class", "classes"),
    ];
    let notes: String = configuration.notes.iter().map(|note| note.line(file) + "\n").collect();
    format!("{file}: correct: {}\n{notes}", counts.join(", "))
}

fn count(count: usize, noun: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { noun } else { plural })
}

fn print(text: String) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        // A reader that has seen enough, as `head`.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_and_notes() {
        let text = "[[site]]\nroot = 'r'\nclass = 'a'\n[[class]]\nname = 'a'\nguaranteed = '1mbit'\n[[listener]]\naddress = '[::]:1'\n[[listener]]\naddress = '[::]:2'\n";
        let Ok(configuration) = config::read(text.as_bytes()) else { panic!("a right file") };
        let note = "class.guaranteed without uplink.rate: not compared with the rate of the uplink";
        assert_eq!(summary(&configuration, "f"), format!("f: correct: 2 listeners, 1 site, 1 class\nf:6:14: {note}\n"));
    }
}
