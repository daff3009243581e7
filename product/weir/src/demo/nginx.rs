//! nginx as an additional server of the demo, if it is on PATH: a child process without privileges, with all its files
//! in the demo's folder.
//!
//! A port that is free now may be taken before nginx binds it. The demo therefore keeps it bound, without listening,
//! until nginx shares it (SO_REUSEPORT). The child first runs this program, which asks the kernel to kill it together
//! with the demo, because a killed demo could not end it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use socket2::{Domain, Socket, Type};

/// The name of the child process before it becomes nginx.
pub const NAME: &str = "weir-nginx";
/// The maximum time until the first response. The next constant is the pause between two attempts.
const START_MAX: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_millis(10);
const LOG: &str = "nginx.log";
/// The maximum length of an nginx error that is shown.
const SAID_BYTES_MAX: u64 = 16 << 10;

/// nginx, killed when dropped.
pub struct Nginx {
    child: Child,
    address: SocketAddr,
}

impl Nginx {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts this nginx for the folder `www` in the demo's folder. Returns the reason if it does not serve.
    pub fn start(program: &Path, folder: &Path) -> Result<Nginx, String> {
        let served = reserve().and_then(|(address, reserved)| {
            let mut nginx = Nginx::spawned(program, folder, address)?;
            nginx.wait_for_answer()?;
            drop(reserved);
            Ok(nginx)
        });
        served.map_err(|error| {
            let said = last_line(&folder.join(LOG));
            format!("{}: {}", program.display(), said.unwrap_or_else(|| error.to_string()))
        })
    }

    fn spawned(program: &Path, folder: &Path, address: SocketAddr) -> io::Result<Nginx> {
        std::fs::write(folder.join("nginx.conf"), configuration(address))?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0(NAME).arg(getpid().as_raw_nonzero().to_string());
        command.arg(program).arg("-p").arg(folder).args(["-c", "nginx.conf"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(folder.join(LOG))?);
        Ok(Nginx { child: command.spawn()?, address })
    }

    fn wait_for_answer(&mut self) -> io::Result<()> {
        let since = Instant::now();
        loop {
            match self.answer() {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                answered => return answered,
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("it ended: {status}")));
            }
            if since.elapsed() > START_MAX {
                return Err(io::Error::other(format!("it did not answer within {} s", START_MAX.as_secs())));
            }
            thread::sleep(RETRY);
        }
    }

    /// Requests an object.
    fn answer(&self) -> io::Result<()> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(START_MAX))?;
        stream.write_all(b"GET /object-0 HTTP/1.0\r\n\r\n")?;
        let mut status = [0; "HTTP/1.1 200".len()];
        stream.read_exact(&mut status)?;
        if status == *b"HTTP/1.1 200" { Ok(()) } else { Err(io::Error::other(String::from_utf8_lossy(&status))) }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a free address on loopback, with a socket that reserves it.
fn reserve() -> io::Result<(SocketAddr, Socket)> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_port(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    let address = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok((address, socket))
}

/// Finds the program in the folders of PATH.
pub fn find(path: &OsStr) -> Option<PathBuf> {
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join("nginx")).find(|file| file.is_file())
}

/// Returns the configuration of nginx: sendfile and tcp_nopush, no other tuning, and paths relative to the demo's
/// folder. A single process is enough for a slow line, and runs as the user that started it.
fn configuration(address: SocketAddr) -> String {
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let folders = folders.map(|of| format!("{of}_temp_path nginx-temp;\n")).concat();
    format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr crit;\nevents {{}}\n\
         http {{\nsendfile on;\ntcp_nopush on;\naccess_log off;\ndefault_type application/octet-stream;\n{folders}\
         server {{\nlisten {address} reuseport;\nroot www;\nadd_header Access-Control-Allow-Origin *;\n}}\n}}\n"
    )
}

fn last_line(log: &Path) -> Option<String> {
    let mut said = Vec::new();
    File::open(log).ok()?.take(SAID_BYTES_MAX).read_to_end(&mut said).ok()?;
    let said = String::from_utf8_lossy(&said);
    said.lines().map(str::trim).rfind(|line| !line.is_empty()).map(String::from)
}

/// Becomes the program on the command line, which follows the process number of the demo. Returns only with an error,
/// which is also logged.
pub fn become_nginx() -> io::Result<()> {
    let error = become_program();
    eprintln!("{error}");
    Err(error)
}

fn become_program() -> io::Error {
    let mut words = std::env::args_os().skip(1);
    let (Some(demo), Some(program)) = (words.next(), words.next()) else {
        return io::Error::other("expected the demo's process and a program");
    };
    if let Err(errno) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return errno.into();
    }
    // The demo may have ended before.
    let parent = getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    if demo.to_str() != Some(parent.to_string().as_str()) {
        return io::Error::other("the demo has ended");
    }
    Command::new(program).args(words).exec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_in_an_absolute_folder_of_the_path_is_found() {
        let folder = std::env::temp_dir().join(format!("weir-demo-path-{}", std::process::id()));
        let [with, without] = ["with", "without"].map(|name| folder.join(name));
        std::fs::create_dir_all(without.join("nginx")).unwrap();
        std::fs::create_dir_all(&with).unwrap();
        std::fs::write(with.join("nginx"), "").unwrap();
        let path = std::env::join_paths([Path::new(""), &without, &with]).unwrap();
        assert_eq!(find(&path), Some(with.join("nginx")));
        assert_eq!((find(OsStr::new("")), find(without.as_os_str())), (None, None));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
