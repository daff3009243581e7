//! What is known of a run: what happened in it, and how it ends.

#[derive(Default)]
pub struct Outcome {
    /// Of all that happened.
    pub trace: u64,
    /// The first law that was broken.
    pub broken: Option<String>,
    /// Nothing will happen any more.
    pub is_over: bool,
    /// The server is to be told to stop.
    pub is_stop_due: bool,
    /// The client whose connection is shown on standard output (WEIR_SHOW).
    pub shown: Option<usize>,
    /// Segments that the kernel kept in vain.
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
