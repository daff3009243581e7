//! The rank of a job by an expression.

use units::Nanos;

use super::{Expression, Fact, Op};
use crate::policy::{Las, Psjf, Rank, Srpt, Srrt, unknown_rank};
use crate::{Job, Path};

impl Expression {
    /// Returns this job's rank, from 0 to infinity.
    pub(super) fn value_of(&self, job: &Job, path: &Path) -> f64 {
        self.value(|fact| self.fact(job, path, fact))
    }

    fn fact(&self, job: &Job, path: &Path, fact: Fact) -> f64 {
        let bytes = |units: u64| units as f64 * self.unit_bytes;
        match fact {
            Fact::Size => bytes(job.known().unwrap_or_else(|| unknown_rank(job))),
            Fact::Left => bytes(job.known_left().unwrap_or_else(|| unknown_rank(job))),
            Fact::Sent => bytes(job.attained_anew()),
            Fact::Arrived => job.arrived_at.as_secs_f64(),
            Fact::Class => job.class.into(),
            Fact::Rtt => path.rtt.unwrap_or(Srrt::RTT_ASSUMED).max(Nanos::from_micros(1)).as_secs_f64(),
            Fact::Window => path.cwnd_bytes.map_or(Srrt::CWND_ASSUMED_BYTES as f64, bytes).max(1.0),
            Fact::Throughput => match path.throughput_bps {
                Some(bps) => bps as f64 / 8.0,
                None => self.fact(job, path, Fact::Window) / self.fact(job, path, Fact::Rtt),
            },
            Fact::Route => match &self.curve {
                Some(curve) => curve.rank(bytes(job.attained_anew()) as u64) as f64,
                None => self.fact(job, path, Fact::Left),
            },
            Fact::Deviate => deviate(job.number),
        }
    }
}

impl Rank for Expression {
    fn name(&self) -> &str {
        &self.spec
    }

    fn needs_path(&self) -> bool {
        self.traits.needs_path
    }

    fn is_size(&self) -> bool {
        self.traits.is_size
    }

    /// Returns the rank as an integer. A rank that is a size is converted to scheduler units, because it is compared
    /// with other sizes. Any other rank is returned as the bits of the floating-point number, which sort like the
    /// numbers. An expression that is a single fact uses the faster policy for it.
    fn rank(&self, job: &Job, path: &Path) -> u64 {
        match *self.program {
            [Op::Fact(Fact::Left)] => return Srpt.rank(job, path),
            [Op::Fact(Fact::Size)] => return Psjf.rank(job, path),
            [Op::Fact(Fact::Sent)] => return Las.rank(job, path),
            _ => {}
        }
        let value = self.value_of(job, path);
        if self.traits.is_size { (value / self.unit_bytes).round() as u64 } else { value.to_bits() }
    }
}

/// Returns a standard normal deviate computed from the job's number. Not inlined, because otherwise it would be
/// computed for every rank.
#[cold]
#[inline(never)]
fn deviate(number: u64) -> f64 {
    let uniform = |of: u64| ((mixed(of) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let (radius, turn) = (uniform(number.wrapping_mul(2)), uniform(number.wrapping_mul(2).wrapping_add(1)));
    // Box & Muller, "A note on the generation of random normal deviates", 1958.
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * turn).cos()
}

/// SplitMix64 (Steele, Lea & Flood, "Fast splittable pseudorandom number generators", 2014).
fn mixed(of: u64) -> u64 {
    let mut z = of.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
