//! `weir init`: a few questions, and a configuration that `weir check` finds correct.

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

/// Times that a question is asked at a terminal.
const TRIES_MAX: usize = 5;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Configuration to write; an existing file is left as it is
    #[arg(default_value = "weir.toml")]
    file: PathBuf,
}

/// The answers, as they were typed.
#[derive(Debug, Clone)]
struct Answers {
    /// A folder, or an upstream.
    source: String,
    hosts: String,
    listen: String,
    rate: String,
}

struct Question {
    text: &'static str,
    field: fn(&mut Answers) -> &mut String,
}

const QUESTIONS: [Question; 4] = [
    Question { text: "Folder to serve, or the port of a program to stand before, as :3000", field: |a| &mut a.source },
    Question { text: "Host names, with spaces between them, or any", field: |a| &mut a.hosts },
    Question { text: "Address to listen on; :8080 is that port of all addresses", field: |a| &mut a.listen },
    Question {
        text: "Rate at which your line sends, as 10mbit, or auto if you do not know it: it is found then",
        field: |a| &mut a.rate,
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

/// Asks all of them, each until its answer is right or so often.
fn ask(from: &mut dyn BufRead, to: &mut dyn Write, tries: usize, file: &Path) -> Result<Answers, Failure> {
    let mut answers = Answers::default();
    for Question { text, field } in QUESTIONS {
        let default = field(&mut answers).clone();
        for attempt in 1.. {
            write!(to, "{text} [{default}]: ")?;
            to.flush()?;
            let mut line = String::new();
            if from.read_line(&mut line)? == 0 {
                return Err(Failure::Failed(format!("no answer to `{text}`: expected a line on standard input")));
            }
            let answer = line.trim();
            *field(&mut answers) = if answer.is_empty() { default.clone() } else { answer.into() };
            let Err(wrong) = answers.check(file) else { break };
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
        Answers { source, hosts, listen: format!(":{port}"), rate }
    }
}

impl Answers {
    /// In one sentence.
    fn check(&self, file: &Path) -> Result<(), String> {
        config::read(self.text().as_bytes()).map_err(|mistakes| mistakes[0].said.clone())?;
        let root = self.root();
        if !self.is_upstream() && !root.is_dir() {
            return Err(format!("`{}`: expected a folder that exists, or a program as :3000", root.display()));
        }
        self.keep_out(file)
    }

    /// The configuration is nothing to serve.
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

    /// From here, wherever the file is.
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
        format!("{HEAD}[uplink]\nrate = {rate}\n\n[[listener]]\naddress = {listen}\n\n[[site]]\n{hosts}{source}")
    }
}

const HEAD: &str = "\
# Configuration of Weir. After a change: weir check FILE, then weir reload. weir.toml(5) lists all keys.

";

/// As a string of TOML: those of JSON are.
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
                "src\na.org *.a.org\n8443\n10 mbit\n",
                "hosts = [\"a.org\", \"*.a.org\"]\ndefault = true\nroot = \"HERE/src\"\n",
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
        let lines = "no\"where\n.\na b..c\na.org\nport\n80\nfast\n10mbit\n";
        let (answers, said) = asked(lines, TRIES_MAX);
        assert!(answers.is_ok_and(|answers| answers.text().contains("rate = \"10mbit\"")), "{said}");
        for wrong in ["no\"where", "`b..c`", "`port`", "`fast`"] {
            assert_eq!(said.matches(wrong).count(), 1, "{wrong}: {said}");
        }
        for lines in [lines, "nowhere"] {
            let (answers, said) = asked(lines, 1);
            let Err(Failure::Failed(wrong)) = answers else { panic!("{said}") };
            assert!(wrong.contains("expected a folder"), "{wrong}");
        }
        assert!(asked(&"nowhere\n".repeat(9), TRIES_MAX).0.is_err());
        let Err(Failure::Failed(ended)) = asked(".\n", TRIES_MAX).0 else { panic!("two answers are missing") };
        assert!(ended.starts_with("no answer to `Host names"), "{ended}");
    }

    #[test]
    fn the_file_is_not_below_its_root() {
        let answers = Answers { source: "src".into(), ..Answers::default() };
        assert!(answers.keep_out(Path::new("weir.toml")).is_ok());
        let Err(said) = answers.keep_out(Path::new("src/a/weir.toml")) else { panic!("it is served") };
        assert!(said.starts_with("src/a/weir.toml would be served: it is below /"), "{said}");
    }
}
