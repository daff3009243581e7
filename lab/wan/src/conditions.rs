use units::{Nanos, Rate};

use crate::Shape;

/// What a path does to packets one way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditions {
    /// Mean delay.
    pub delay: Nanos,
    /// Spread of the delay around its mean, in the sense of its shape.
    pub jitter: Nanos,
    pub shape: Shape,
    /// Probability that a packet is lost, each by itself.
    pub loss: f64,
    /// Rate of the narrowest link of the path, if any.
    pub rate: Option<Rate>,
    /// Whether packets of one connection may overtake each other, as their delays would have it.
    pub reorder: bool,
}

impl Conditions {
    /// Whether packets pass as if there were no path.
    pub fn is_plain(&self) -> bool {
        self.delay == Nanos::ZERO && self.jitter == Nanos::ZERO && self.loss == 0.0 && self.rate.is_none()
    }

    /// The longest delay there is, waiting for the rate apart.
    pub fn delay_max(&self) -> Nanos {
        self.delay + Nanos((self.jitter.0 as f64 * self.shape.bound()) as u64)
    }
}
