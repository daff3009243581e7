//! Stages for tests.

use std::cell::Cell;

use http::{Length, Request, Response};

use crate::body::{Body, Stage};

/// Decides the stages of a response in a test.
pub type Chooser = fn(&Request, &Response<Body>) -> Vec<Box<dyn Stage>>;

thread_local! {
    static CHOOSER: Cell<Option<Chooser>> = const { Cell::new(None) };
}

/// Makes responses on this thread pass through these stages until this value is dropped.
pub struct Staging(Option<Chooser>);

impl Staging {
    pub fn new(chooser: Chooser) -> Staging {
        Staging(CHOOSER.replace(Some(chooser)))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        CHOOSER.set(self.0);
    }
}

/// Returns true if responses on this thread may have stages.
pub fn is_on() -> bool {
    CHOOSER.get().is_some()
}

/// Adds the stages of the test.
pub fn with_stages(
    mut stages: Vec<Box<dyn Stage>>,
    request: &Request,
    response: &Response<Body>,
) -> Vec<Box<dyn Stage>> {
    stages.extend(CHOOSER.get().into_iter().flat_map(|chooser| chooser(request, response)));
    stages
}

/// Makes letters upper-case, which does not change the length.
#[derive(Debug)]
pub struct Upper;

impl Stage for Upper {
    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        out.extend(bytes.iter().map(u8::to_ascii_uppercase));
    }

    fn flush(&mut self, _out: &mut Vec<u8>) {}

    fn finish(&mut self, _out: &mut Vec<u8>) {}

    fn length(&self, of: Length) -> Length {
        of
    }
}

/// The number of bytes that a [`Folding`] keeps back until it is flushed.
pub const FOLDED_BYTES: usize = 5_000;

/// Keeps bytes back as a compressor does and changes their number: drops every zero, doubles every seven, and appends
/// the number of bytes taken.
#[derive(Debug, Default)]
pub struct Folding {
    kept: Vec<u8>,
    taken: u64,
}

impl Stage for Folding {
    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for byte in bytes {
            let times = [1, 0, 2][usize::from(*byte == 0) + 2 * usize::from(*byte == 7)];
            self.kept.extend(std::iter::repeat_n(*byte, times));
        }
        self.taken += bytes.len() as u64;
        if self.kept.len() >= FOLDED_BYTES {
            self.flush(out);
        }
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.kept);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.flush(out);
        out.extend(self.taken.to_string().as_bytes());
    }

    fn length(&self, _of: Length) -> Length {
        Length::Unknown
    }

    fn memory_bytes(&self) -> usize {
        FOLDED_BYTES
    }
}

/// Returns the result of these stages for a whole body.
pub fn applied(stages: Vec<Box<dyn Stage>>, whole: &[u8]) -> Vec<u8> {
    stages.into_iter().fold(whole.to_vec(), |bytes, mut stage| {
        let mut out = Vec::new();
        stage.push(&bytes, &mut out);
        stage.finish(&mut out);
        out
    })
}
