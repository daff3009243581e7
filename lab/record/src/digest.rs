//! A name for everything that determines a run, so that an existing run need not be repeated. It is no defence against
//! an adversary: 128 bits make it unlikely that any two of a million runs collide, and FNV-1a has a one-line definition
//! that will never change under kept results.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The size of one read of a file.
const BUFFER_BYTES: usize = 64 * 1024;

/// FNV-1a, 128 bits (Fowler, Noll, Vo; RFC 9923).
#[derive(Debug, Clone, Copy)]
pub struct Digest(u128);

impl Default for Digest {
    fn default() -> Digest {
        Digest::new()
    }
}

impl Digest {
    pub fn new() -> Digest {
        Digest(0x6c62272e07bb014262b821756295c58d)
    }

    pub fn with(mut self, bytes: &[u8]) -> Digest {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0000000001000000000000000000013b);
        }
        self
    }

    /// The digest as 32 hexadecimal digits.
    pub fn text(self) -> String {
        format!("{:032x}", self.0)
    }

    pub fn of_file(path: &Path) -> io::Result<Digest> {
        let (mut file, mut buffer, mut digest) = (File::open(path)?, vec![0; BUFFER_BYTES], Digest::new());
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(digest),
                count => digest = digest.with(&buffer[..count]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The empty text, "a" and "foobar", as published by the authors.
    #[test]
    fn published_vectors() {
        assert_eq!(Digest::new().text(), "6c62272e07bb014262b821756295c58d");
        assert_eq!(Digest::new().with(b"a").text(), "d228cb696f1a8caf78912b704e4a8964");
        assert_eq!(Digest::new().with(b"foobar").text(), "343e1662793c64bf6f0d3597ba446f18");
    }
}
