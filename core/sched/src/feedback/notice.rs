use std::fmt;

use units::{Nanos, Rate};

/// Why the pace falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// The queue in front of all clients takes this long.
    Delay(Nanos),
    /// Of all bytes, this many thousandths are lost.
    Loss(u64),
}

/// A line for the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    Fell {
        signal: Signal,
        from: Rate,
        to: Rate,
    },
    Rose {
        rate: Rate,
        ceiling: Rate,
    },
    /// A slower pace changed nothing.
    Foreign {
        signal: Signal,
        rate: Rate,
        lasts: Nanos,
    },
}

/// The pace from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    pub rate: Rate,
    pub notice: Option<Notice>,
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Signal::Delay(delay) => write!(f, "round trips {:.1} ms above their minimum", delay.as_millis_f64()),
            Signal::Loss(permille) => write!(f, "{:.1} % of the bytes lost", *permille as f64 / 10.0),
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Fell { signal, from, to } => {
                write!(f, "uplink: {signal} at {}: pace lowered to {}", InMbit(*from), InMbit(*to))
            }
            Notice::Rose { rate, ceiling } if rate == ceiling => {
                write!(f, "uplink: round trips at their minimum: pace back at its ceiling, {}", InMbit(*rate))
            }
            Notice::Rose { rate, ceiling } => {
                let (rate, ceiling) = (InMbit(*rate), InMbit(*ceiling));
                write!(f, "uplink: round trips at their minimum: pace raised to {rate} of at most {ceiling}")
            }
            Notice::Foreign { signal, rate, lasts } => write!(
                f,
                "uplink: {signal} at a lower pace too, so the queue is of other senders: pace back at {}, next test in {} s",
                InMbit(*rate),
                lasts.0 / 1_000_000_000
            ),
        }
    }
}

/// A measured rate: three digits, since the rest is noise.
struct InMbit(Rate);

impl fmt::Display for InMbit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} Mbit/s", self.0.bits_per_s() as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_the_noun_the_value_and_the_consequence() {
        let rate = |text: &str| text.parse().unwrap();
        let signal = Signal::Delay(Nanos::from_micros(12_340));
        let fell = Notice::Fell { signal, from: rate("10.29mbit"), to: rate("9.8mbit") };
        let want = "uplink: round trips 12.3 ms above their minimum at 10.290 Mbit/s: pace lowered to 9.800 Mbit/s";
        assert_eq!(fell.to_string(), want);
        let foreign = Notice::Foreign { signal: Signal::Loss(25), rate: rate("9mbit"), lasts: Nanos::from_secs(10) };
        let want = "uplink: 2.5 % of the bytes lost at a lower pace too, so the queue is of other senders: \
            pace back at 9.000 Mbit/s, next test in 10 s";
        assert_eq!(foreign.to_string(), want);
        let rose = Notice::Rose { rate: rate("9mbit"), ceiling: rate("9mbit") };
        assert!(rose.to_string().ends_with("pace back at its ceiling, 9.000 Mbit/s"), "{rose}");
        let part = Notice::Rose { rate: rate("8mbit"), ceiling: rate("9mbit") };
        assert!(part.to_string().ends_with("pace raised to 8.000 Mbit/s of at most 9.000 Mbit/s"), "{part}");
    }
}
