//! The floods over QUIC. `weirlab stall` holds the connections, because this program has no QUIC.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde::Deserialize;

use super::server::{LARGE, Server};

/// The program's message once all connections are established.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct Said {
    pub held: u32,
    pub given_up: u32,
    pub answered: u64,
    pub upload_bytes: u64,
}

/// Connections that another program holds; dropping this closes them.
pub struct Quic {
    child: Child,
    pub said: Said,
}

impl Quic {
    pub fn open(server: &Server, connections: u32, requests: u32, deadline: Instant) -> Result<Quic, String> {
        let seconds = deadline.saturating_duration_since(Instant::now()).as_secs().max(1);
        let mut command = Command::new(server.weirlab());
        command.arg("stall").arg(server.tls().to_string()).args(["--path", &format!("/{}", LARGE.0)]);
        for (flag, value) in [("--connections", connections), ("--requests", requests), ("--seconds", seconds as u32)] {
            command.args([flag, &value.to_string()]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("cannot run weirlab: {e}"))?;
        let mut line = String::new();
        let read = child.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        match (read, serde_json::from_str(&line)) {
            (Some(Ok(_)), Ok(said)) => Ok(Quic { child, said }),
            _ => {
                drop(child.stdin.take());
                let status = child.wait().map_err(|e| format!("weirlab: {e}"))?;
                Err(format!("weirlab stall ended ({status}) before it said what it holds"))
            }
        }
    }
}

impl Drop for Quic {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait(); // It ends with its input.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_weirlab_says() {
        let said = r#"{"held": 9, "given_up": 1, "answered": 900, "upload_bytes": 7000}"#;
        let wanted = Said { held: 9, given_up: 1, answered: 900, upload_bytes: 7000 };
        assert_eq!(serde_json::from_str::<Said>(said).ok(), Some(wanted));
        assert!(serde_json::from_str::<Said>("").is_err());
    }
}
