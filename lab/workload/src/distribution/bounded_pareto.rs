/// The density is alpha L^alpha x^(-alpha-1) / (1 - (L/H)^alpha) between L and H.
pub(super) struct BoundedPareto {
    pub alpha: f64,
    pub min: f64,
    pub max: f64,
}

impl BoundedPareto {
    /// E[X^k; X <= x].
    pub fn partial_moment(&self, k: u32, x: f64) -> f64 {
        if x <= self.min {
            return 0.0;
        }
        let x = x.min(self.max);
        let scale = self.alpha * self.min.powi(k as i32) / self.covered();
        scale * integral_of_power(f64::from(k) - self.alpha, (x / self.min).ln())
    }

    pub fn survival(&self, x: f64) -> f64 {
        let x = x.clamp(self.min, self.max);
        -(self.min / x).powf(self.alpha) * (self.alpha * (x / self.max).ln()).exp_m1() / self.covered()
    }

    pub fn density(&self, x: f64) -> f64 {
        if (self.min..=self.max).contains(&x) {
            self.alpha * (self.min / x).powf(self.alpha) / (x * self.covered())
        } else {
            0.0
        }
    }

    pub fn quantile(&self, u: f64) -> f64 {
        (self.min / (1.0 - u * self.covered()).powf(1.0 / self.alpha)).min(self.max)
    }

    /// The share of an unbounded Pareto distribution below H.
    fn covered(&self) -> f64 {
        -(self.alpha * (self.min / self.max).ln()).exp_m1()
    }
}

/// The integral of y^(power-1) dy from 1 to e^log: (e^(power log) - 1) / power, and log where power is 0.
fn integral_of_power(power: f64, log: f64) -> f64 {
    if power == 0.0 { log } else { (power * log).exp_m1() / power }
}
