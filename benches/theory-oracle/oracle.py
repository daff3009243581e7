#!/usr/bin/env python3
"""A second opinion on `weirlab theory`: mean response times of M/G/1 under SRPT, PSJF and LAS.

The numbers are constants in lab/theory/src/mg1/tests.rs. Two sources, neither of them ours in Rust:

- line-solver (PyPI, 3.0.8), module api.qsys.scheduling, for exponential sizes. (Its module api.qsys.sizebased has
  functions of the same names that give other numbers, for example 25 for M/M/1 PSJF at rho 0.8, which is M/M/1's mean
  under PS squared; they are not used.)
- mpmath (PyPI), 30 digits, for every distribution: E[T(x)] written from densities alone, rho(x) and m2(x)
  themselves by quadrature of the density where they have no elementary form, integrated over ln x.

    python3 -m venv venv && venv/bin/pip install line-solver mpmath && venv/bin/python oracle.py
"""

from mpmath import mp, mpf, exp, log, erfc, sqrt, pi, quad, nstr, linspace

mp.dps = 30


class Exponential:
    """Mean 1."""

    name, low, high = "exponential mean 1", mpf("1e-12"), mpf(90)

    def f(self, x): return exp(-x)
    def m0(self, x): return 1 - exp(-x)
    def m1(self, x): return 1 - exp(-x) * (1 + x)
    def m2(self, x): return 2 - exp(-x) * (2 + 2 * x + x * x)


class Hyperexponential(Exponential):
    """0.9 with mean 1000, 0.1 with mean 40000."""

    name, low, high = "hyperexponential 0.9 1000 40000", mpf("1e-9"), mpf(3200000)
    parts = ((mpf("0.9"), mpf(1000)), (mpf("0.1"), mpf(40000)))

    def f(self, x): return sum(p / m * exp(-x / m) for p, m in self.parts)
    def m0(self, x): return sum(p * Exponential.m0(self, x / m) for p, m in self.parts)
    def m1(self, x): return sum(p * m * Exponential.m1(self, x / m) for p, m in self.parts)
    def m2(self, x): return sum(p * m * m * Exponential.m2(self, x / m) for p, m in self.parts)


class BoundedPareto:
    low, high = mpf(100), mpf(10) ** 7

    def __init__(self, alpha):
        self.alpha = mpf(alpha)
        self.name = f"bounded Pareto {alpha} 100 1e7"

    def f(self, x): return self.alpha * self.low ** self.alpha * x ** (-self.alpha - 1) / (1 - (self.low / self.high) ** self.alpha)

    def moment(self, k, x):
        scale = self.alpha * self.low ** self.alpha / (1 - (self.low / self.high) ** self.alpha)
        return scale * (x ** (k - self.alpha) - self.low ** (k - self.alpha)) / (k - self.alpha)

    def m0(self, x): return self.moment(0, x)
    def m1(self, x): return self.moment(1, x)
    def m2(self, x): return self.moment(2, x)


class Lognormal:
    """mu 7, sigma 1.5."""

    name, mu, sigma = "lognormal 7 1.5", mpf(7), mpf("1.5")
    low, high = exp(mpf(7) - 15), exp(mpf(7) + 18)

    def f(self, x): return exp(-((log(x) - self.mu) / self.sigma) ** 2 / 2) / (x * self.sigma * sqrt(2 * pi))

    def moment(self, k, x):
        z = (log(x) - self.mu) / self.sigma - k * self.sigma
        return exp(k * self.mu + (k * self.sigma) ** 2 / 2) * erfc(-z / sqrt(mpf(2))) / 2

    def m0(self, x): return self.moment(0, x)
    def m1(self, x): return self.moment(1, x)
    def m2(self, x): return self.moment(2, x)


def mean_responses(d, rho):
    """SRPT, PSJF, LAS in bytes of the link."""
    lam = rho / d.m1(d.high)
    over = lambda g: quad(lambda y: g(exp(y)) * exp(y), linspace(log(d.low), log(d.high), 41))
    load = lambda x: lam * d.m1(x)
    tail = lambda x: d.m0(d.high) - d.m0(x)
    capped = lambda x: d.m2(x) + x * x * tail(x)
    shared = lambda x: load(x) + lam * x * tail(x)
    # E of the integral of dt / (1 - rho(t)) up to X, the order of integration exchanged; below `low` rho(t) is 0.
    srpt = over(lambda x: d.f(x) * lam * capped(x) / 2 / (1 - load(x)) ** 2 + tail(x) / (1 - load(x))) + d.low
    psjf = over(lambda x: d.f(x) * (lam * d.m2(x) / 2 / (1 - load(x)) ** 2 + x / (1 - load(x))))
    las = over(lambda x: d.f(x) * (lam * capped(x) / 2 / (1 - shared(x)) ** 2 + x / (1 - shared(x))))
    return srpt, psjf, las


def main():
    for rho in ("0.5", "0.8", "0.95"):
        for d in (Exponential(), Hyperexponential(), BoundedPareto("1.1"), BoundedPareto("1.5"), Lognormal()):
            print("mpmath     ", rho, d.name, *(nstr(t, 10) for t in mean_responses(d, mpf(rho))))
    try:
        from line_solver.api.qsys import scheduling
    except ImportError:
        print("line-solver is not installed")
        return
    for rho in (0.5, 0.8, 0.95):
        solvers = (scheduling.qsys_mg1_srpt, scheduling.qsys_mg1_psjf, scheduling.qsys_mg1_fb)
        print("line-solver", rho, "exponential mean 1", *(f"{s([rho], [1.0], [1.0])[0][0]:.7g}" for s in solvers))


if __name__ == "__main__":
    main()
