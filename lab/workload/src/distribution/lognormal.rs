use std::f64::consts::{SQRT_2, TAU};

use statrs::function::erf::{erfc, erfc_inv};

#[derive(Debug, Clone)]
pub(super) struct Lognormal {
    pub mu: f64,
    pub sigma: f64,
}

impl Lognormal {
    /// E[X^k; X <= x] = exp(k mu + k² sigma² / 2) Phi((ln x - mu - k sigma²) / sigma).
    pub fn partial_moment(&self, k: u32, x: f64) -> f64 {
        let k = f64::from(k);
        let whole = (k * self.mu + 0.5 * (k * self.sigma).powi(2)).exp();
        let z = (x.ln() - self.mu - k * self.sigma.powi(2)) / self.sigma;
        whole * 0.5 * erfc(-z / SQRT_2)
    }

    pub fn survival(&self, x: f64) -> f64 {
        0.5 * erfc((x.ln() - self.mu) / self.sigma / SQRT_2)
    }

    pub fn density(&self, x: f64) -> f64 {
        let z = (x.ln() - self.mu) / self.sigma;
        (-0.5 * z * z).exp() / (x * self.sigma * TAU.sqrt())
    }

    pub fn quantile(&self, u: f64) -> f64 {
        if u == 0.0 {
            return 0.0;
        }
        (self.mu - self.sigma * SQRT_2 * erfc_inv(2.0 * u)).exp()
    }
}
