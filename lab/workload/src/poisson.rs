use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use units::Nanos;

use crate::sizes::unit;

/// The instants of a Poisson process with this many a second, the first at 0. A stream of the seed decides them.
pub fn poisson_times(rate_per_s: f64, seed: u64, stream: u64) -> impl Iterator<Item = Nanos> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(stream);
    let next = move |at: &Nanos| Some(*at + Nanos((-(1.0 - unit(&mut random)).ln() * 1e9 / rate_per_s) as u64));
    std::iter::successors(Some(Nanos::ZERO), next)
}
