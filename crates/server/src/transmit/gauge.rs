use units::Nanos;

/// How often the queue below is read at most: a reading costs about 10 µs, so this is at most 2 % of a core.
const READ_EVERY: Nanos = Nanos::from_micros(500);

/// Reads how many bytes wait in the queue below us, where that can be read.
pub struct Gauge {
    read: Box<dyn FnMut() -> Option<u64> + Send>,
    read_at: Nanos,
}

impl Gauge {
    pub fn new(read: impl FnMut() -> Option<u64> + Send + 'static) -> Gauge {
        Gauge { read: Box::new(read), read_at: Nanos::ZERO }
    }

    /// The queue now, in bytes; `None` if it was read a moment ago or cannot be read.
    pub fn read(&mut self, now: Nanos) -> Option<u64> {
        if now - self.read_at < READ_EVERY {
            return None;
        }
        self.read_at = now;
        (self.read)()
    }
}
