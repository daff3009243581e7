"""The laboratory of Weir: simulate schedules of responses, and read and judge results.

jobs = weirlab.poisson("exponential:mean=5000", rho=0.8)
done = weirlab.simulate(jobs["size_bytes"], jobs["arrival_ns"], policy="srpt")
weirlab.response_ms(done).mean()
"""

from . import figures, intervals, plots
from ._weirlab import Path, PolicyError
from .claims import Claim, claims
from .closed_forms import Solution, alternating, bounds, theory
from .experiments import RunError, run, sim
from .folders import Experiment, experiments_in
from .judgement import Checked, Found, check, findings, judge
from .recorded import Responses, Run, keep, records, runs, without_seed
from .repeats import factors, over
from .simulation import Policy, poisson, policies, response_ms, simulate, stretch
from .sweeps import SweepError, sweep
from .traces import trace

__all__ = [
    "Checked",
    "Claim",
    "Experiment",
    "Found",
    "Path",
    "Policy",
    "PolicyError",
    "Responses",
    "Run",
    "RunError",
    "Solution",
    "SweepError",
    "alternating",
    "bounds",
    "check",
    "claims",
    "experiments_in",
    "factors",
    "figures",
    "findings",
    "intervals",
    "judge",
    "keep",
    "over",
    "plots",
    "poisson",
    "policies",
    "records",
    "response_ms",
    "run",
    "runs",
    "sim",
    "simulate",
    "stretch",
    "sweep",
    "theory",
    "trace",
    "without_seed",
]
