//! The process that runs the operator's program for DNS records. The sandbox forbids the server to start programs, so
//! the server starts this process before entering the sandbox. The process runs as the same unprivileged user and ends
//! with the server.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Account;
use super::keys::{receive, send};

/// The name of the process, which distinguishes it from the server.
pub const NAME: &str = "weir-hook";
/// The time that the program may take until a record is visible.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(300);
/// The time for which the server waits for the process's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(330);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const MESSAGE_BYTES_MAX: u32 = 16 << 10;
/// The maximum number of bytes of the program's standard error that a message quotes, counted from its end.
const SAID_BYTES_MAX: usize = 500;

/// The program, run by the other process.
#[derive(Debug)]
pub struct HookProgram {
    socket: Mutex<UnixStream>,
}

impl HookProgram {
    /// Starts the process for this program, with the rights of the account.
    pub fn start(program: &Path, account: Option<&Account>) -> io::Result<HookProgram> {
        let (own, its) = UnixStream::pair()?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0(NAME).process_group(0);
        if let Some(account) = account.filter(|_| rustix::process::geteuid().is_root()) {
            command.uid(account.uid()).gid(account.gid());
        }
        command.stdin(OwnedFd::from(its)).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        own.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        send(&own, program.as_os_str().as_encoded_bytes())?;
        Ok(HookProgram { socket: Mutex::new(own) })
    }
}

impl acme::Hook for HookProgram {
    fn run(&self, action: &str, record: &str, value: &str) -> Result<(), String> {
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = send(&socket, format!("{action}\0{record}\0{value}").as_bytes());
        let answer = asked.and_then(|()| receive(&mut socket, MESSAGE_BYTES_MAX));
        let answer =
            answer.map_err(|error| format!("the process that runs it (weir-hook): {error}; run `weir upgrade`"))?;
        if answer.is_empty() { Ok(()) } else { Err(String::from_utf8_lossy(&answer).into_owned()) }
    }
}

/// Runs the process. Standard input is the socket to the server.
pub fn serve() -> io::Result<()> {
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let program = OsString::from_vec(receive(&mut socket, MESSAGE_BYTES_MAX)?);
    loop {
        let asked = match receive(&mut socket, MESSAGE_BYTES_MAX) {
            Ok(asked) => asked,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        let words: Vec<OsString> = asked.split(|&byte| byte == 0).map(|word| OsString::from_vec(word.into())).collect();
        let failure = run(Path::new(&program), &words).err().unwrap_or_default();
        let end = failure.floor_char_boundary(MESSAGE_BYTES_MAX as usize);
        send(&socket, &failure.as_bytes()[..end])?;
    }
}

fn run(program: &Path, words: &[OsString]) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let name = program.display();
    let mut child = command.spawn().map_err(|error| format!("cannot run `{name}`: {error}"))?;
    let said = child.stderr.take().map(|mut stderr| std::thread::spawn(move || last_of(&mut stderr)));
    let status = wait(&mut child).map_err(|error| format!("`{name}`: {error}"))?;
    let Some(status) = status else {
        return Err(format!("`{name}` had not ended after {} s", PROGRAM_TIMEOUT.as_secs()));
    };
    if status.success() {
        return Ok(());
    }
    // Programs that it started may still hold its standard error.
    let said = said.filter(|said| said.is_finished()).and_then(|said| said.join().ok()).unwrap_or_default();
    Err(format!("`{name}` ended with {status}: {}", String::from_utf8_lossy(&said).trim()))
}

/// Waits for the program, and kills it if it takes too long.
fn wait(child: &mut Child) -> io::Result<Option<std::process::ExitStatus>> {
    let deadline = Instant::now() + PROGRAM_TIMEOUT;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            std::thread::sleep(LOOK_EVERY);
            return Ok(Some(status));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// Reads to the end, and returns the last bytes.
fn last_of(from: &mut impl Read) -> Vec<u8> {
    let (mut last, mut part) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = from.read(&mut part) {
        last.extend_from_slice(&part[..count]);
        let surplus = last.len().saturating_sub(SAID_BYTES_MAX);
        last.drain(..surplus);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::temporary::Folder;

    fn program(folder: &Folder, script: &str) -> std::path::PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let program = folder.put("hook", script);
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    #[test]
    fn a_program_gets_its_words_and_says_why_it_failed() {
        let folder = Folder::new();
        let words = ["present", "_acme-challenge.a.test.", "value"].map(OsString::from);
        let out = folder.path("out");
        let script = format!("#!/bin/sh\nprintf '%s|' \"$@\" > {}\n", out.display());
        assert_eq!(run(&program(&folder, &script), &words), Ok(()));
        assert_eq!(std::fs::read_to_string(out).unwrap(), "present|_acme-challenge.a.test.|value|");
        let said = run(&program(&folder, "#!/bin/sh\necho no such zone >&2\nexit 3\n"), &words).unwrap_err();
        assert!(said.contains("exit status: 3: no such zone"), "{said}");
        let said = run(&folder.path("none"), &words).unwrap_err();
        assert!(said.starts_with("cannot run `"), "{said}");
    }

    #[test]
    fn only_the_end_of_much_text_is_kept() {
        let text = [&[b'a'; 100_000][..], b"end"].concat();
        let last = last_of(&mut &text[..]);
        assert!(last.len() == SAID_BYTES_MAX && last.ends_with(b"aend"));
    }
}
