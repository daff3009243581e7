//! FastCGI: the script that a responder runs, and the conversion of its response to the form of an HTTP/1.1 response.

use config::Pattern;
use http::fastcgi::Decoder;
use http::http1::upstream::UpstreamFault;
use units::memory::{Account, Charge};

use super::Fault;

/// The number of bytes that the status line and the fields of a connection add to a head.
const HEAD_ADDED_BYTES: usize = 96;

/// The scripts of a site, as their responder sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scripts {
    /// The folder of the site, absolute.
    pub root: Vec<u8>,
    /// The paths below the folder whose scripts must not run.
    pub except: Vec<Pattern>,
    /// True if connections are kept for further requests, one after the other.
    pub keeps_connections: bool,
}

impl Scripts {
    /// Returns true if this script may run.
    pub fn admits(&self, run: &Run) -> bool {
        !self.except.iter().any(|path| path.matches(&run.name))
    }
}

/// A script to run for a request: a file beneath the root of its site, which existed a moment ago.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The script's path below the root, with a leading slash.
    pub name: Vec<u8>,
    /// The rest of the request's path after the script, decoded.
    pub path_info: Vec<u8>,
}

/// The decoded bytes that have arrived from a responder: at most the result of one read of its socket, and a head.
#[derive(Debug)]
pub struct Inflow {
    decoder: Decoder,
    ready: Vec<u8>,
    /// The number of bytes of `ready` that were taken.
    at: usize,
    fault: Option<UpstreamFault>,
    /// The memory of the whole value.
    charge: Charge,
}

impl Inflow {
    /// Creates the state for a new response, and counts its memory in `account`.
    pub fn new(decoder: Decoder, account: &Account) -> Inflow {
        let charge = Charge::new(account, 0);
        Inflow { decoder, ready: Vec::new(), at: 0, fault: None, charge }
    }

    /// Decodes bytes that have arrived. A fault is kept until [`Inflow::take`] has returned the bytes before it.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.fault.is_none() {
            // The heads of chunks are shorter than those of records.
            self.ready.reserve(bytes.len() + HEAD_ADDED_BYTES);
            self.fault = self.decoder.decode(bytes, &mut self.ready).err();
        }
        self.count();
    }

    fn count(&mut self) {
        self.charge.set(self.ready.capacity() + self.decoder.memory_bytes());
    }

    /// Moves decoded bytes into `into`, and returns their number.
    pub fn take(&mut self, into: &mut [u8]) -> Result<usize, Fault> {
        let rest = &self.ready[self.at..];
        let bytes = rest.len().min(into.len());
        into[..bytes].copy_from_slice(&rest[..bytes]);
        self.at += bytes;
        if self.at == self.ready.len() && self.at > 0 {
            (self.ready, self.at) = (Vec::new(), 0);
            self.count();
        }
        match &self.fault {
            Some(fault) if bytes == 0 => Err(Fault::Wrong(*fault)),
            _ => Ok(bytes),
        }
    }

    /// Returns true if the whole response was taken, so that the connection may carry another request.
    pub fn is_done(&self) -> bool {
        self.decoder.is_done() && self.ready.is_empty() && self.fault.is_none()
    }

    /// Takes the text that the program has written to its error stream, as one line.
    pub fn take_said(&mut self) -> Option<String> {
        let said = self.decoder.take_said();
        let said: String =
            String::from_utf8_lossy(&said).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Some(said.trim().to_string()).filter(|said| !said.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u16).to_be_bytes();
        [&[1, kind, 0, 1, length[0], length[1], 0, 0][..], content].concat()
    }

    #[test]
    fn what_waits_is_counted_and_given_back() {
        let account = Account::default();
        let mut inflow = Inflow::new(Decoder::new(4096, true), &account);
        inflow.push(&record(6, b"A: b"));
        assert!((4..200).contains(&account.bytes()), "{}", account.bytes());
        inflow.push(&record(6, &[b"\r\n\r\n", &[b'x'; 50_000][..]].concat()));
        assert!(account.bytes() >= 50_000 && !inflow.is_done());
        inflow.push(&record(7, b"aside\n"));
        inflow.push(&record(3, &[0; 8]));
        let (mut into, mut taken) = ([0; 1000], 0);
        while let Ok(bytes @ 1..) = inflow.take(&mut into) {
            taken += bytes;
        }
        assert!(taken > 50_000 && inflow.is_done());
        assert_eq!(inflow.take_said().as_deref(), Some("aside"));
        drop(inflow);
        assert_eq!(account.bytes(), 0);
    }

    #[test]
    fn a_fault_follows_what_was_right() {
        let mut inflow = Inflow::new(Decoder::new(4096, true), &Account::default());
        inflow.push(&[record(6, b"\nab"), b"HTTP/1.1".to_vec()].concat());
        inflow.push(b"more");
        let mut into = [0; 1000];
        assert!(matches!(inflow.take(&mut into), Ok(1..)));
        assert!(matches!(inflow.take(&mut into), Err(Fault::Wrong(_))) && !inflow.is_done());
    }
}
