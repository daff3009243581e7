"""The laboratory of Weir: simulate schedules of responses, and read and judge results.

jobs = weirlab.poisson("exponential:mean=5000", rho=0.8)
done = weirlab.simulate(jobs["size_bytes"], jobs["arrival_ns"], policy="srpt")
weirlab.response_ms(done).mean()
"""

from ._weirlab import Path, PolicyError
from .simulation import Policy, poisson, policies, response_ms, simulate, stretch
from .theory import Solution, bounds, theory
from .traces import trace

__all__ = [
    "Path",
    "Policy",
    "PolicyError",
    "Solution",
    "bounds",
    "poisson",
    "policies",
    "response_ms",
    "simulate",
    "stretch",
    "theory",
    "trace",
]
