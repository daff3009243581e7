//! `weir init`: asks a few questions and writes a configuration that `weir check` accepts.

use std::fs::OpenOptions;
use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use cli::Failure;

use crate::check;

const AFTER_HELP: &str = "\
An empty answer takes what stands in brackets; without a terminal, answers are read from
standard input, one on each line.

Examples:
  weir init
  weir init /etc/weir/weir.toml";

/// Maximum number of tries for a question at a terminal.
const TRIES_MAX: usize = 5;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Configuration to write; an existing file is left as it is
    #[arg(default_value = "weir.toml")]
    file: PathBuf,
}

/// The port of HTTPS, whose clients need a certificate.
const HTTPS_PORT: u16 = 443;

/// The answers, as they were typed.
#[derive(Debug, Clone)]
struct Answers {
    /// A folder, or an upstream.
    source: String,
    hosts: String,
    listen: String,
    /// The file of the certificate; without effect unless [`Answers::is_secure`].
    cert: String,
    /// The file of its private key.
    key: String,
    rate: String,
}

struct Question {
    text: &'static str,
    field: fn(&mut Answers) -> &mut String,
    is_asked: fn(&Answers) -> bool,
    /// True if the answer is the name of a file that must exist.
    is_file: bool,
}

const QUESTIONS: [Question; 6] = [
    Question {
        text: "Folder to serve, or address of an application, for example :3000",
        field: |a| &mut a.source,
        is_asked: |_| true,
        is_file: false,
    },
    Question {
        text: "Host names, with spaces between them, or any",
        field: |a| &mut a.hosts,
        is_asked: |_| true,
        is_file: false,
    },
    Question {
        text: "Address to listen on, for example :8080 for port 8080 of all addresses",
        field: |a| &mut a.listen,
        is_asked: |_| true,
        is_file: false,
    },
    Question {
        text: "Certificate for HTTPS, a PEM file with its chain",
        field: |a| &mut a.cert,
        is_asked: Answers::is_secure,
        is_file: true,
    },
    Question {
        text: "Private key of the certificate, a PEM file",
        field: |a| &mut a.key,
        is_asked: Answers::is_secure,
        is_file: true,
    },
    Question {
        text: "Rate of your uplink, for example 10mbit, or auto: Weir finds the rate",
        field: |a| &mut a.rate,
        is_asked: |_| true,
        is_file: false,
    },
];

pub fn main(args: Args) -> Result<(), Failure> {
    let file = &args.file;
    let name = file.display();
    let exists = || Failure::Failed(format!("{name} exists: edit it, or give another name: weir init FILE"));
    if file.exists() {
        return Err(exists());
    }
    let stdin = io::stdin();
    let tries = if stdin.is_terminal() { TRIES_MAX } else { 1 };
    let mut to: Box<dyn Write> = if stdin.is_terminal() { Box::new(io::stdout()) } else { Box::new(io::sink()) };
    let answers = ask(&mut stdin.lock(), &mut to, tries, file)?;
    let made = OpenOptions::new().write(true).create_new(true).open(file);
    let made = made.and_then(|mut made| made.write_all(answers.text().as_bytes()));
    made.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(),
        _ => Failure::Failed(format!("cannot write {name}: {error}; expected a folder that you may write")),
    })?;
    println!("Written: {name}");
    check::report(file)?;
    println!("Serve it: weir run {name}");
    Ok(())
}

/// Asks all questions that the answers before them call for, each until its answer is right, at most `tries` times.
fn ask(from: &mut dyn BufRead, to: &mut dyn Write, tries: usize, file: &Path) -> Result<Answers, Failure> {
    let mut answers = Answers::default();
    for Question { text, field, is_asked, is_file } in QUESTIONS {
        if !is_asked(&answers) {
            continue;
        }
        let default = field(&mut answers).clone();
        for attempt in 1.. {
            write!(to, "{text} [{default}]: ")?;
            to.flush()?;
            let mut line = String::new();
            if from.read_line(&mut line)? == 0 {
                return Err(Failure::Failed(format!(
                    "standard input ended before an answer to `{text}`; expected a line for each question"
                )));
            }
            let answer = line.trim();
            *field(&mut answers) = if answer.is_empty() { default.clone() } else { answer.into() };
            let checked = if is_file { there(field(&mut answers)) } else { Ok(()) };
            let Err(wrong) = checked.and(answers.check(file)) else { break };
            if attempt >= tries {
                return Err(Failure::Failed(wrong));
            }
            writeln!(to, "{wrong}")?;
        }
    }
    Ok(answers)
}

impl Default for Answers {
    fn default() -> Answers {
        let (source, hosts, rate) = ("www".into(), "any".into(), "auto".into());
        let port = if rustix::process::geteuid().is_root() { 80 } else { 8080 };
        let (cert, key) = ("fullchain.pem".into(), "privkey.pem".into());
        Answers { source, hosts, listen: format!(":{port}"), cert, key, rate }
    }
}

impl Answers {
    /// Checks the answers; the error is one sentence.
    fn check(&self, file: &Path) -> Result<(), String> {
        config::read(self.text().as_bytes()).map_err(|mistakes| mistakes[0].said.clone())?;
        let root = self.root();
        if !self.is_upstream() && !root.is_dir() {
            return Err(format!("`{}`: expected a folder that exists, or an application as :3000", root.display()));
        }
        self.keep_out(file)
    }

    /// Returns true if the address has the port of HTTPS.
    fn is_secure(&self) -> bool {
        config::listen_address(&self.listen).is_some_and(|address| address.port() == HTTPS_PORT)
    }

    /// Refuses a folder that would serve the configuration itself.
    fn keep_out(&self, file: &Path) -> Result<(), String> {
        let absolute = std::path::absolute(file).unwrap_or(file.into());
        if self.is_upstream() || !absolute.starts_with(self.root()) {
            return Ok(());
        }
        let (name, root) = (file.display(), self.root());
        Err(format!(
            "{name} would be served: it is below {}; expected another folder, or a file elsewhere: weir init ../weir.toml",
            root.display()
        ))
    }

    /// The absolute path of the folder, which does not depend on the place of the file.
    fn root(&self) -> PathBuf {
        std::fs::canonicalize(&self.source).or(std::path::absolute(&self.source)).unwrap_or((&self.source).into())
    }

    fn is_upstream(&self) -> bool {
        !self.source.contains('/') && self.source.contains(':')
            || self.source.contains("://")
            || self.source.starts_with("unix:")
    }

    fn text(&self) -> String {
        let hosts: Vec<&str> = if self.hosts == "any" { Vec::new() } else { self.hosts.split([' ', ',']).collect() };
        let hosts: Vec<String> = hosts.into_iter().filter(|host| !host.is_empty()).map(quoted).collect();
        let hosts =
            if hosts.is_empty() { String::new() } else { format!("hosts = [{}]\ndefault = true\n", hosts.join(", ")) };
        let source = match self.is_upstream() {
            true => format!("[[site.proxy]]\nto = [{}]\n", quoted(&self.source)),
            false => format!("root = {}\n", quoted(&self.root().to_string_lossy())),
        };
        let (rate, listen) = (quoted(&self.rate), quoted(&self.listen));
        let (tls, certificate) = match self.is_secure() {
            true => {
                let [cert, key] = [&self.cert, &self.key].map(|file| quoted(&file_of(file).to_string_lossy()));
                ("tls = true\n", format!("cert = {cert}\nkey = {key}\n"))
            }
            false => ("", String::new()),
        };
        // Tables of a site follow its own keys.
        format!(
            "{HEAD}[uplink]\nrate = {rate}\n\n[[listener]]\naddress = {listen}\n{tls}\n[[site]]\n{hosts}{certificate}{source}"
        )
    }
}

/// Returns an error for a file that does not exist. A file that only root may read is left to `weir check`.
fn there(name: &str) -> Result<(), String> {
    match file_of(name).metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(format!("`{name}`: expected a PEM file that exists")),
        _ => Ok(()),
    }
}

/// The file as a configuration elsewhere names it.
fn file_of(name: &str) -> PathBuf {
    std::path::absolute(name).unwrap_or(name.into())
}

const HEAD: &str = "\
# Configuration of Weir. After a change: weir check FILE, then weir reload. weir.toml(5) lists all keys.

";

/// Writes text as a TOML string, in the form of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers to these lines, and what was asked.
    fn asked(lines: &str, tries: usize) -> (Result<Answers, Failure>, String) {
        let mut said = Vec::new();
        let answers = ask(&mut lines.as_bytes(), &mut said, tries, Path::new("/none/weir.toml"));
        (answers, String::from_utf8(said).unwrap())
    }

    #[test]
    fn every_answer_gives_a_correct_file() {
        let here = std::env::current_dir().unwrap().display().to_string();
        for (lines, expected) in [
            (".\n\n\n\n", "[[site]]\nroot = \"HERE\"\n"),
            (
                "src\na.org *.a.org\n:8443\n10 mbit\n",
                "hosts = [\"a.org\", \"*.a.org\"]\ndefault = true\nroot = \"HERE/src\"\n",
            ),
            (
                ".\na.org\n[::]:443\nCargo.toml\nsrc/main.rs\n\n",
                "address = \"[::]:443\"\ntls = true\n\n[[site]]\nhosts = [\"a.org\"]\ndefault = true\n\
                 cert = \"HERE/Cargo.toml\"\nkey = \"HERE/src/main.rs\"\nroot = \"HERE\"\n",
            ),
            (":3000\n\n\n2mbit..20mbit\n", "[[site.proxy]]\nto = [\":3000\"]\n"),
            ("https://b.org\n\n\n\n", "to = [\"https://b.org\"]\n"),
            ("unix:/run/app.sock\n\n\n\n", "to = [\"unix:/run/app.sock\"]\n"),
        ] {
            let (answers, said) = asked(lines, 1);
            let Ok(answers) = answers else { panic!("{lines:?}: {said}") };
            let text = answers.text().replace(&here, "HERE");
            assert!(text.ends_with(expected) && config::read(text.as_bytes()).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_wrong_answer_is_asked_again_at_a_terminal_alone() {
        let lines = "no\"where\n.\na b..c\na.org\nport\n80\n:443\nnone.pem\nCargo.toml\nsrc/main.rs\nfast\n10mbit\n";
        let (answers, said) = asked(lines, TRIES_MAX);
        assert!(answers.is_ok_and(|answers| answers.text().contains("rate = \"10mbit\"")), "{said}");
        for wrong in ["no\"where", "`b..c`", "`port`", "`80`", "`none.pem`", "`fast`"] {
            assert_eq!(said.matches(wrong).count(), 1, "{wrong}: {said}");
        }
        for lines in [lines, "nowhere"] {
            let (answers, said) = asked(lines, 1);
            let Err(Failure::Failed(wrong)) = answers else { panic!("{said}") };
            assert!(wrong.contains("expected a folder"), "{wrong}");
        }
        assert!(asked(&"nowhere\n".repeat(9), TRIES_MAX).0.is_err());
        let Err(Failure::Failed(ended)) = asked(".\n", TRIES_MAX).0 else { panic!("two answers are missing") };
        assert!(ended.starts_with("standard input ended before an answer to `Host names"), "{ended}");
    }

    #[test]
    fn the_file_is_not_below_its_root() {
        let answers = Answers { source: "src".into(), ..Answers::default() };
        assert!(answers.keep_out(Path::new("weir.toml")).is_ok());
        let Err(said) = answers.keep_out(Path::new("src/a/weir.toml")) else { panic!("it is served") };
        assert!(said.starts_with("src/a/weir.toml would be served: it is below /"), "{said}");
    }
}
