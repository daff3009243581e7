//! Access to certificates and keys that only root may read, even after the server has become another user.
//!
//! A helper process stays root to read the files again at every reload. Before the server gives up its privileges, it
//! gives the helper the file names; afterwards it can request a file only by its number. The helper has one capability,
//! opens no socket, and ends with the server. It is started as a new program, not forked, so it holds none of the
//! server's ports, logs or memory.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::DumpableBehavior;
use rustix::thread::CapabilitySet;

use super::privileges::confine;
use crate::sandbox::{Reach, folders_of, refuse_calls, restrict_files};

/// The name of the helper, which distinguishes it from the server.
pub const NAME: &str = "weir-keys";
/// The maximum size of all names together. The names for 10,000 sites take a megabyte.
const NAMES_BYTES_MAX: u32 = 16 << 20;

/// Reads certificates and keys: the files named at the start through the helper, others as the server's user.
#[derive(Debug, Clone, Default)]
pub struct Keys(Option<Arc<Helper>>);

#[derive(Debug)]
struct Helper {
    socket: Mutex<UnixStream>,
    files: Vec<PathBuf>,
}

impl Keys {
    /// Starts the helper for these files, with the current privileges. Without files, starts nothing.
    pub fn kept(files: Vec<PathBuf>) -> io::Result<Keys> {
        if files.is_empty() {
            return Ok(Keys::default());
        }
        let (own, its) = UnixStream::pair()?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0(NAME).env_clear().process_group(0);
        command.stdin(OwnedFd::from(its)).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let names: Vec<&[u8]> = files.iter().map(|file| file.as_os_str().as_encoded_bytes()).collect();
        send(&own, &names.join(&0))?;
        Ok(Keys(Some(Arc::new(Helper { socket: Mutex::new(own), files }))))
    }

    pub(crate) fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        let kept = self.0.as_ref().and_then(|helper| Some((helper, helper.files.iter().position(|of| of == file)?)));
        match kept {
            Some((helper, at)) => helper.read(at),
            None => tls::read_file(file),
        }
    }
}

impl Helper {
    fn read(&self, at: usize) -> io::Result<Vec<u8>> {
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = ask(&mut socket, at);
        let gone = |_| io::Error::other("the process that reads it as root (weir-keys) has ended; run `weir upgrade`");
        match asked.map_err(gone)? {
            (0, bytes) => Ok(bytes),
            (errno, _) => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// Requests the file with this number. Returns the error number, or 0, and the bytes of the file.
fn ask(socket: &mut UnixStream, at: usize) -> io::Result<(i32, Vec<u8>)> {
    socket.write_all(&u32::try_from(at).map_err(io::Error::other)?.to_le_bytes())?;
    let errno = i32::from_le_bytes(number(socket)?);
    Ok((errno, receive(socket, tls::FILE_BYTES_MAX as u32)?))
}

/// Runs the helper. Standard input is the socket to the server.
pub fn keep() -> io::Result<()> {
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let names = receive(&mut socket, NAMES_BYTES_MAX)?;
    let files: Vec<PathBuf> =
        names.split(|&byte| byte == 0).map(|name| OsString::from_vec(name.into()).into()).collect();
    let own = rustix::thread::capabilities(None)?.permitted;
    confine(own & CapabilitySet::DAC_READ_SEARCH)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let reads = files.iter().flat_map(|file| folders_of(file)).collect();
    // Only kernels that support these restrictions apply them.
    let _ = (restrict_files(&Reach { reads, writes: Vec::new() }, false), refuse_calls());
    loop {
        let at = match number(&mut socket) {
            Ok(bytes) => u32::from_le_bytes(bytes) as usize,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        let read = files.get(at).map_or_else(|| Err(io::ErrorKind::NotFound.into()), |file| tls::read_file(file));
        let (errno, bytes) = match read {
            Ok(bytes) => (0, bytes),
            Err(error) => (error.raw_os_error().unwrap_or(libc::EFBIG), Vec::new()),
        };
        socket.write_all(&errno.to_le_bytes())?;
        send(&socket, &bytes)?;
    }
}

pub(super) fn send(mut socket: &UnixStream, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    socket.write_all(&length.to_le_bytes())?;
    socket.write_all(bytes)
}

pub(super) fn receive(socket: &mut UnixStream, bytes_max: u32) -> io::Result<Vec<u8>> {
    let length = u32::from_le_bytes(number(socket)?);
    if length > bytes_max {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length as usize];
    socket.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn number(socket: &mut UnixStream) -> io::Result<[u8; 4]> {
    let mut bytes = [0; 4];
    socket.read_exact(&mut bytes)?;
    Ok(bytes)
}
