//! The result of a run: the trace of its events, and the way it ends.

#[derive(Default)]
pub struct Outcome {
    /// A hash of all events so far.
    pub trace: u64,
    /// The first invariant that was broken.
    pub broken: Option<String>,
    /// True if no event is left.
    pub is_over: bool,
    /// True if it is time to stop the server.
    pub is_stop_due: bool,
    /// The client whose connection is shown on standard output (WEIR_SHOW).
    pub shown: Option<usize>,
    /// The segments that the kernel held back for nothing.
    pub held_tails: Vec<String>,
}

impl Outcome {
    pub fn new() -> Outcome {
        Outcome { shown: super::number("WEIR_SHOW").map(|client| client as usize), ..Outcome::default() }
    }

    pub fn note(&mut self, what: u64) {
        self.trace = (self.trace ^ what).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }

    pub fn fail(&mut self, why: String) {
        self.broken.get_or_insert(why);
    }
}
