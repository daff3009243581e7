//! `weir init`: asks up to four questions and writes a configuration that `weir check` accepts.
//!
//! Later questions depend on earlier answers, so the questions are a table of conditions, default answers and checks. A
//! flag answers its question in advance and is checked in the same way.

mod recipe;

use std::fs::OpenOptions;
use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use cli::Failure;

use crate::check;
use recipe::{ANY, AUTO, Answers, KINDS, USUAL_CERT, USUAL_KEY};

const AFTER_HELP: &str = "\
An empty answer takes what stands in brackets; without a terminal, answers are read from
standard input, one on each line. A flag answers its question beforehand.

Examples:
  weir init
  weir init /etc/weir/weir.toml
  weir init --serve app --folder dist --domain example.org --defaults
  weir init --serve program --program :3000 --certificate none --defaults";

/// The maximum number of attempts to answer a question at a terminal.
const TRIES_MAX: usize = 5;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Configuration to write; an existing file is left as it is
    #[arg(default_value = "weir.toml")]
    file: PathBuf,
    /// Ask nothing: take the usual answer where no flag gives one
    #[arg(long)]
    defaults: bool,
    #[command(flatten)]
    answers: Answers,
}

struct Question {
    flag: &'static str,
    text: &'static str,
    field: fn(&mut Answers) -> &mut Option<String>,
    is_asked: fn(&Answers) -> bool,
    usual: fn(&Answers) -> String,
    /// Returns an error for a wrong answer: a sentence with the correct form. The path is the file to write.
    check: fn(&Answers, &Path) -> Result<(), String>,
}

const QUESTIONS: [Question; 9] = [
    Question {
        flag: "--serve",
        text: "1. What is served: folder, program, php, or app (a single-page app)",
        field: |a| &mut a.kind,
        is_asked: |_| true,
        usual: |_| KINDS[0].into(),
        check: |a, _| a.check_kind(),
    },
    Question {
        flag: "--folder",
        text: "   Its folder",
        field: |a| &mut a.folder,
        is_asked: Answers::has_folder,
        usual: Answers::usual_folder,
        check: Answers::check_folder,
    },
    Question {
        flag: "--program",
        text: "   Its address",
        field: |a| &mut a.program,
        is_asked: Answers::is_program,
        usual: |_| ":3000".into(),
        check: |a, _| a.check_text(),
    },
    Question {
        flag: "--php-fpm",
        text: "   Address of php-fpm",
        field: |a| &mut a.php_fpm,
        is_asked: Answers::is_php,
        usual: Answers::usual_php_fpm,
        check: |a, _| a.check_text(),
    },
    Question {
        flag: "--domain",
        text: "2. Host names, with spaces between them, or any",
        field: |a| &mut a.hosts,
        is_asked: |_| true,
        usual: |_| ANY.into(),
        check: |a, _| a.check_text(),
    },
    Question {
        flag: "--certificate",
        text: "3. Certificate for HTTPS: acme (Weir gets and renews it), own (files) or none",
        field: |a| &mut a.certificate,
        is_asked: |_| true,
        usual: Answers::usual_certificate,
        check: |a, _| a.check_certificate(),
    },
    Question {
        flag: "--cert",
        text: "   The certificate, a PEM file with its chain",
        field: |a| &mut a.cert,
        is_asked: Answers::is_own,
        usual: |_| USUAL_CERT.into(),
        check: |a, _| recipe::there(a.cert.as_deref().unwrap_or_default()),
    },
    Question {
        flag: "--key",
        text: "   Its private key, a PEM file",
        field: |a| &mut a.key,
        is_asked: Answers::is_own,
        usual: |_| USUAL_KEY.into(),
        check: |a, _| recipe::there(a.key.as_deref().unwrap_or_default()),
    },
    Question {
        flag: "--uplink",
        text: "4. Rate of your uplink, for example 10mbit, or auto: Weir finds it",
        field: |a| &mut a.uplink,
        is_asked: |_| true,
        usual: |_| AUTO.into(),
        check: |a, _| a.check_text(),
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
    let is_terminal = stdin.is_terminal() && !args.defaults;
    let tries = if is_terminal { TRIES_MAX } else { 1 };
    let to: &mut dyn Write = if is_terminal { &mut io::stdout() } else { &mut io::sink() };
    let from = if args.defaults { None } else { Some(&mut stdin.lock() as &mut dyn BufRead) };
    let answers = Asking { from, to, tries, file }.all(args.answers)?;
    let made = OpenOptions::new().write(true).create_new(true).open(file);
    let made = made.and_then(|mut made| made.write_all(answers.text().as_bytes()));
    made.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(),
        _ => Failure::Failed(format!("cannot write {name}: {error}; expected a folder that you may write")),
    })?;
    cli::say(&format!("Written: {name}"));
    answers.remark().inspect(|remark| cli::say(remark));
    check::report(file)?;
    cli::say(&format!("Serve it: weir run {name}"));
    Ok(())
}

/// The source of answers.
struct Asking<'a> {
    /// The input; `None` to take the default answers.
    from: Option<&'a mut dyn BufRead>,
    to: &'a mut dyn Write,
    /// Maximum number of tries for a question.
    tries: usize,
    file: &'a Path,
}

impl Asking<'_> {
    /// Asks all questions that the earlier answers require and that no flag has answered.
    fn all(&mut self, mut given: Answers) -> Result<Answers, Failure> {
        let mut answers = Answers::default();
        for question in &QUESTIONS {
            let is_asked = (question.is_asked)(&answers);
            match (question.field)(&mut given).take() {
                Some(_) if !is_asked => return Err(Failure::Usage(without_effect(question.flag, &answers))),
                Some(answer) => {
                    *(question.field)(&mut answers) = Some(answer);
                    let checked = (question.check)(&answers, self.file);
                    checked.map_err(|wrong| Failure::Usage(format!("{}: {wrong}", question.flag)))?;
                }
                None if is_asked => self.ask(question, &mut answers)?,
                None => {}
            }
        }
        answers.listen = given.listen;
        answers.check_text().map_err(|wrong| Failure::Usage(format!("--listen: {wrong}")))?;
        Ok(answers)
    }

    /// Asks a question until its answer is valid, at most [`Asking::tries`] times.
    fn ask(&mut self, question: &Question, answers: &mut Answers) -> Result<(), Failure> {
        let usual = (question.usual)(answers);
        for attempt in 1.. {
            write!(self.to, "{} [{usual}]: ", question.text)?;
            self.to.flush()?;
            let answer = self.answer(question)?;
            *(question.field)(answers) = Some(if answer.is_empty() { usual.clone() } else { answer });
            let Err(wrong) = (question.check)(answers, self.file) else { break };
            if attempt >= self.tries {
                return Err(Failure::Failed(wrong));
            }
            writeln!(self.to, "{wrong}")?;
        }
        Ok(())
    }

    fn answer(&mut self, question: &Question) -> Result<String, Failure> {
        let Some(from) = &mut self.from else { return Ok(String::new()) };
        let mut line = String::new();
        if from.read_line(&mut line)? > 0 {
            return Ok(line.trim().to_string());
        }
        let (text, flag) = (question.text.trim_start(), question.flag);
        let cure = format!("expected a line for each question, {flag}, or --defaults");
        Err(Failure::Failed(format!("standard input ended before an answer to `{text}`; {cure}")))
    }
}

/// Returns a message about a flag whose question is not asked with the other answers.
fn without_effect(flag: &str, answers: &Answers) -> String {
    let (other, word) = match flag {
        "--cert" | "--key" => ("--certificate", &answers.certificate),
        _ => ("--serve", &answers.kind),
    };
    let word = word.as_deref().unwrap_or_default();
    format!("{flag} has no effect with {other} {word}; expected one of them alone")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers to these lines, and what was asked.
    fn asked(given: Answers, lines: &str, tries: usize) -> (Result<Answers, Failure>, String) {
        let (mut said, mut from) = (Vec::new(), lines.as_bytes());
        let file = Path::new("/none/weir.toml");
        let answers = Asking { from: Some(&mut from), to: &mut said, tries, file }.all(given);
        (answers, String::from_utf8(said).unwrap())
    }

    #[test]
    fn every_answer_gives_a_correct_file() {
        let here = std::env::current_dir().unwrap().display().to_string();
        for (lines, expected) in [
            ("\n.\n\n\n\n", "[[site]]\nroot = \"HERE\"\n"),
            (
                "folder\nsrc\na.org *.a.org\nnone\n10 mbit\n",
                "[[site]]\nhosts = [\"a.org\", \"*.a.org\"]\ndefault = true    # requests for other names too\nroot = \"HERE/src\"\n",
            ),
            (
                "folder\n.\na.org\nown\nCargo.toml\nsrc/main.rs\n\n",
                "[[site]]\nhosts = [\"a.org\"]\ndefault = true    # requests for other names too\n\
                 cert = \"HERE/Cargo.toml\"\nkey = \"HERE/src/main.rs\"\nhttps_redirect = true\nroot = \"HERE\"\n",
            ),
            (
                "folder\n.\na.org\n\n\n",
                "[acme]    # by Let's Encrypt, to whose terms you agree\n\n[[site]]\nhosts = [\"a.org\"]\n\
                 default = true    # requests for other names too\nhttps_redirect = true\nroot = \"HERE\"\n",
            ),
            (
                "folder\n.\nlocalhost 127.0.0.1 nas.lan\n\n\n",
                "hosts = [\"localhost\", \"127.0.0.1\", \"nas.lan\"]\ndefault = true    # requests for other names too\nroot = \"HERE\"\n",
            ),
            ("program\n\n\n\n2mbit..20mbit\n", "[[site]]\n\n[[site.proxy]]\nto = [\":3000\"]\n"),
            ("program\nhttps://b.org\n\n\n\n", "to = [\"https://b.org\"]\n"),
            ("program\nunix:/run/app.sock\n\n\n\n", "to = [\"unix:/run/app.sock\"]\n"),
            (
                "php\n.\n127.0.0.1:9000\n\n\n\n",
                "root = \"HERE\"\nindex = [\"index.php\", \"index.html\"]\nfastcgi = \"127.0.0.1:9000\"\n",
            ),
        ] {
            let (answers, said) = asked(Answers::default(), lines, 1);
            let Ok(answers) = answers else { panic!("{lines:?}: {said}") };
            let text = answers.text().replace(&here, "HERE");
            assert!(text.ends_with(expected) && config::read(text.as_bytes()).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_wrong_answer_is_asked_again_at_a_terminal_alone() {
        let lines =
            "files\nfolder\nno\"where\n.\na b..c\na.org\nyes\nown\nnone.pem\nCargo.toml\nsrc/main.rs\nfast\n10mbit\n";
        let (answers, said) = asked(Answers::default(), lines, TRIES_MAX);
        assert!(answers.is_ok_and(|answers| answers.text().contains("rate = \"10mbit\"")), "{said}");
        for wrong in ["`files`", "no\"where", "`b..c`", "`yes`", "`none.pem`", "`fast`"] {
            assert_eq!(said.matches(wrong).count(), 1, "{wrong}: {said}");
        }
        for (lines, expected) in [
            (lines, "`files`: expected folder, program, php or app"),
            (":3000\n", "`:3000`: expected folder, program, php or app; where it is, is asked next"),
            ("folder\nnowhere\n", "expected a folder that exists; for a program start again with --serve program"),
            ("app\nsrc\n", "npm run build"),
            ("folder\n.\nany\nacme\n", "`acme`: a certificate is for host names"),
            ("folder\n.\n*.a.org\nacme\n", "expected acme.dns_hook, or cert and key"),
            ("program\nno where\n", "expected an upstream, for example 127.0.0.1:3000"),
        ] {
            let (answers, said) = asked(Answers::default(), lines, 1);
            let Err(Failure::Failed(wrong)) = answers else { panic!("{said}") };
            assert!(wrong.contains(expected), "{wrong}");
        }
        assert!(asked(Answers::default(), &"nowhere\n".repeat(9), TRIES_MAX).0.is_err());
        let Err(Failure::Failed(ended)) = asked(Answers::default(), "\n.\n", TRIES_MAX).0 else { panic!("no answer") };
        assert!(ended.starts_with("standard input ended before an answer to `2. Host names"), "{ended}");
    }

    #[test]
    fn a_flag_answers_its_question() {
        let given = |kind: &str, cert: Option<&str>| Answers {
            kind: Some(kind.into()),
            program: Some(":80".into()),
            cert: cert.map(String::from),
            listen: Some("127.0.0.1:0".into()),
            ..Answers::default()
        };
        let (answers, said) = asked(given("program", None), "any\nnone\nauto\n", 1);
        assert!(!said.contains("What is served") && said.contains("2. Host names"), "{said}");
        let text = answers.map(|answers| answers.text()).unwrap_or_default();
        assert!(text.contains("address = \"127.0.0.1:0\"\n") && text.contains("to = [\":80\"]"), "{text}");
        let wrong = |given: Answers| match asked(given, ".\nany\nnone\nauto\n", 1).0 {
            Err(Failure::Usage(wrong)) => wrong,
            _ => panic!("it is right"),
        };
        assert_eq!(
            wrong(given("folder", None)),
            "--program has no effect with --serve folder; expected one of them alone"
        );
        assert!(wrong(given("all", None)).starts_with("--serve: `all`: expected folder, "));
        assert!(
            wrong(Answers { listen: Some("80".into()), program: None, ..given("folder", None) })
                .starts_with("--listen: ")
        );
        let wrong = wrong(Answers { program: None, ..given("folder", Some("c.pem")) });
        assert!(wrong.starts_with("--cert has no effect with --certificate none"), "{wrong}");
    }

    #[test]
    fn the_file_is_not_below_its_root() {
        let answers = Answers { folder: Some("src".into()), ..Answers::default() };
        assert!(answers.check_folder(Path::new("weir.toml")).is_ok());
        let Err(said) = answers.check_folder(Path::new("src/a/weir.toml")) else { panic!("it is served") };
        assert!(said.starts_with("src/a/weir.toml would be served: it is below /"), "{said}");
    }
}
