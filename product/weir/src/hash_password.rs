//! `weir hash-password`: prints the hash of a password, for a user file.

use std::io::{self, IsTerminal, Read, Write};

use clap::Args as ClapArgs;
use cli::Failure;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use server::{PASSWORD_BYTES_MAX, hash_password};

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  weir hash-password ada >> /etc/weir/users    ask for a password, and append its user")]
pub struct Args {
    /// Name of the user; without one the hash alone is printed
    user: Option<String>,
}

/// Reads a password (at a terminal twice and without echo) and prints the user's line.
pub fn main(args: Args) -> Result<(), Failure> {
    if let Some(user) = args.user.as_ref().filter(|user| user.is_empty() || user.contains([':', '\n', '\r'])) {
        return Err(Failure::Usage(format!("user `{}`: expected a name without a colon", units::plain(user))));
    }
    let password = if io::stdin().is_terminal() { asked()? } else { line(&mut io::stdin().lock())? };
    let hash = hash_password(&password).map_err(|error| Failure::Failed(error.to_string()))?;
    let user = args.user.map(|user| format!("{user}:")).unwrap_or_default();
    writeln!(io::stdout(), "{user}{hash}")?;
    Ok(())
}

/// Asks for the password at the terminal, twice.
fn asked() -> Result<Vec<u8>, Failure> {
    let hidden = Hidden::new()?;
    let ask = |text: &str| -> io::Result<Vec<u8>> {
        write!(io::stderr(), "{text}: ")?;
        let password = line(&mut io::stdin().lock())?;
        writeln!(io::stderr())?;
        Ok(password)
    };
    let (password, again) = (ask("Password")?, ask("The same again")?);
    drop(hidden);
    if password == again {
        Ok(password)
    } else {
        Err(Failure::Failed("the two passwords differ: expected the same".into()))
    }
}

/// Reads the first line without its end. Reads at most one byte more than a password may have.
fn line(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let (mut read, mut byte) = (Vec::new(), [0]);
    while read.len() <= PASSWORD_BYTES_MAX && from.read(&mut byte)? == 1 && byte[0] != b'\n' {
        read.push(byte[0]);
    }
    if read.ends_with(b"\r") {
        read.pop();
    }
    Ok(read)
}

/// A terminal whose echo is disabled until this is dropped.
struct Hidden(Termios);

impl Hidden {
    fn new() -> io::Result<Hidden> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Hidden(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line() {
        let line = |text: &str| line(&mut text.as_bytes()).unwrap();
        for (text, expected) in [("a b\nc", "a b"), ("a\r\n", "a"), ("a", "a"), ("", ""), ("\n", "")] {
            assert_eq!(line(text), expected.as_bytes(), "{text:?}");
        }
        assert_eq!(line(&"x".repeat(1 << 20)).len(), PASSWORD_BYTES_MAX + 1);
    }
}
