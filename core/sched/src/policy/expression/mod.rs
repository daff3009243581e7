//! A rank that an operator writes: an expression that computes a number from the known facts about a job.
//!
//! Examples are `left * rtt`, `min(left, 3MB)` and `step(size, 64KB) * sent`. The text is parsed once
//! ([`parse`](mod@parse) has the grammar) into a program for a stack machine with at most [`OPS_MAX`] steps and
//! [`DEPTH_MAX`] values on the stack. The program neither allocates nor recurses when it runs. The server, the
//! simulator and the laboratory's closed form run the same program; each supplies the [`Fact`]s.
//!
//! Every value is a number from 0 to infinity. A result below 0 becomes 0, and an undefined result (0 / 0, infinity
//! minus infinity) becomes infinity, so that the job is served last. Sizes are in bytes, times in seconds, rates in
//! bytes per second.
//!
//! The order is kept between events, so no expression may depend on how long a job has waited. `arrived` is the instant
//! of a job's arrival, so `arrived + size / 10mbit` orders jobs by due time.

mod parse;
mod rank;

use std::fmt;
use std::sync::Arc;

pub use parse::{LIBRARY, RankError};

use crate::routes::Curve;

/// The maximum number of characters of an expression.
pub const TEXT_MAX: usize = 300;
/// The maximum number of steps of a program.
pub const OPS_MAX: usize = 64;
/// The maximum depth of the stack while a program runs, and of nested brackets.
pub const DEPTH_MAX: usize = 16;

/// A known number about a job that an expression can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// The total bytes. For a response that does not announce its size, the rank that `psjf` gives it.
    Size,
    /// The bytes left to send. For a response that does not announce its size, the rank that `srpt` gives it.
    Left,
    /// The bytes sent since its source last paused.
    Sent,
    /// The instant of the job's arrival, in seconds since the start.
    Arrived,
    /// The number of its class, from 0.
    Class,
    /// The round trip to its client, in seconds.
    Rtt,
    /// The congestion window, in bytes.
    Window,
    /// The throughput of its connection, in bytes per second.
    Throughput,
    /// The route's index after the bytes sent so far: [`crate::routes`].
    Route,
    /// A number drawn for this job from the standard normal distribution.
    Deviate,
}

/// A step of a program. It takes its operands from the top of the stack and pushes one result.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Op {
    Number(f64),
    Fact(Fact),
    Floor,
    Log2,
    Add,
    Subtract,
    Multiply,
    Divide,
    Min,
    Max,
    /// 0 if the first value is at most the second, and 1 otherwise.
    Step,
    /// The first value times a random error, log-normal with the second value as sigma.
    Noisy,
}

/// The index that an expression computes from the sizes of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteIndex {
    Gittins,
    MSerpt,
}

/// A parsed expression.
#[derive(Debug, Clone)]
pub struct Expression {
    /// `rank:` followed by the text as the operator wrote it.
    spec: Box<str>,
    program: Box<[Op]>,
    traits: Traits,
    /// The number of bytes in one scheduler unit.
    unit_bytes: f64,
    /// An index by bytes sent that all jobs share, in place of the index of each job's route.
    curve: Option<Arc<Curve>>,
}

/// The properties that follow from the program alone.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Traits {
    /// The rank is a number of bytes that comes from a size or a route.
    is_size: bool,
    needs_path: bool,
    knows_size: bool,
    /// Serving a job can worsen its rank.
    takes_turns: bool,
    index: Option<RouteIndex>,
}

impl Expression {
    /// Returns the rank, from 0 to infinity, of the job whose facts `of` returns.
    pub fn value(&self, of: impl Fn(Fact) -> f64) -> f64 {
        let mut stack = [0.0; DEPTH_MAX];
        let mut len = 0;
        for op in &self.program {
            let pushed = match *op {
                Op::Number(number) => Some(number),
                Op::Fact(fact) => Some(of(fact)),
                _ => None,
            };
            if let Some(value) = pushed {
                stack[len] = value;
                len += 1;
                continue;
            }
            let operands = op.operands();
            len -= operands - 1;
            let (a, b) = (stack[len - 1], if operands == 2 { stack[len] } else { 0.0 });
            stack[len - 1] = settled(op.apply(a, b, &of));
        }
        // Of two zeros, the one whose bits are 0.
        settled(stack[0]) + 0.0
    }

    /// Returns whether the rank depends on a job's size, so that sizes must be known.
    pub fn knows_size(&self) -> bool {
        self.traits.knows_size
    }

    /// Returns whether serving a job can worsen its rank, so that the order changes without an arrival.
    pub fn takes_turns(&self) -> bool {
        self.traits.takes_turns
    }

    /// Returns the index that the expression computes from the sizes of a route.
    pub fn route_index(&self) -> Option<RouteIndex> {
        self.traits.index
    }

    /// The same as [`crate::Policy::needs_path`].
    pub fn needs_path(&self) -> bool {
        self.traits.needs_path
    }

    /// Returns whether the expression uses any of these facts.
    pub fn has(&self, facts: &[Fact]) -> bool {
        self.program.iter().any(|op| matches!(op, Op::Fact(fact) if facts.contains(fact)))
    }

    /// Returns the numbers in the expression.
    pub fn numbers(&self) -> impl Iterator<Item = f64> {
        self.program.iter().filter_map(|op| if let Op::Number(number) = op { Some(*number) } else { None })
    }

    /// Returns whether the expression contains `noisy`, so that each job has its own random error.
    pub fn is_noisy(&self) -> bool {
        self.program.contains(&Op::Noisy)
    }

    /// Returns the same expression for a scheduler whose unit of size stands for `unit_bytes` bytes.
    #[must_use]
    pub fn in_units_of(self, unit_bytes: f64) -> Expression {
        Expression { unit_bytes, ..self }
    }

    /// Returns the same expression for jobs that all have one route, with this index by bytes sent.
    #[must_use]
    pub fn of_one_route(self, curve: Curve) -> Expression {
        Expression { curve: Some(Arc::new(curve)), ..self }
    }
}

impl Op {
    fn operands(self) -> usize {
        match self {
            Op::Number(_) | Op::Fact(_) => 0,
            Op::Floor | Op::Log2 => 1,
            _ => 2,
        }
    }

    fn apply(self, a: f64, b: f64, of: impl Fn(Fact) -> f64) -> f64 {
        match self {
            Op::Number(number) => number,
            Op::Fact(fact) => of(fact),
            Op::Floor => a.floor(),
            Op::Log2 => a.log2(),
            Op::Add => a + b,
            Op::Subtract => a - b,
            Op::Multiply => a * b,
            Op::Divide => a / b,
            Op::Min => a.min(b),
            Op::Max => a.max(b),
            Op::Step => f64::from(u8::from(a > b)),
            Op::Noisy => a * (b * of(Fact::Deviate)).exp(),
        }
    }
}

/// Limits a value to at least 0, and turns an undefined value into infinity.
fn settled(value: f64) -> f64 {
    if value >= 0.0 {
        value
    } else if value.is_nan() {
        f64::INFINITY
    } else {
        0.0
    }
}

/// Two expressions are equal if they are written alike.
impl PartialEq for Expression {
    fn eq(&self, other: &Expression) -> bool {
        self.spec == other.spec && self.unit_bytes == other.unit_bytes && self.curve == other.curve
    }
}

impl Eq for Expression {}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spec)
    }
}

#[cfg(test)]
mod tests;
