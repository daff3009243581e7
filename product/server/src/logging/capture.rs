//! Captures text written to standard error, for tests.

use std::io;
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
pub struct Said(Arc<Mutex<Vec<u8>>>);

impl io::Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Said {
    /// Returns the lines without their times.
    pub fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| line[line.find("weir: ").unwrap()..].to_string()).collect()
    }
}
