"""The laboratory of Weir: simulate schedules of responses, and read and judge results.

jobs = weirlab.poisson("exponential:mean=5000", rho=0.8)
done = weirlab.simulate(jobs["size_bytes"], jobs["arrival_ns"], policy="srpt")
weirlab.response_ms(done).mean()
"""

from . import figures as figures, intervals as intervals, plots as plots
from ._weirlab import Path as Path, PolicyError as PolicyError
from .claims import Claim as Claim, claims as claims
from .closed_forms import Solution as Solution, alternating as alternating, bounds as bounds, theory as theory
from .experiments import RunError as RunError, run as run, sim as sim
from .folders import Experiment as Experiment, experiments_in as experiments_in
from .judgement import Checked as Checked, Found as Found, check as check, findings as findings, judge as judge
from .recorded import (
    Responses as Responses,
    Run as Run,
    keep as keep,
    records as records,
    runs as runs,
    without_seed as without_seed,
)
from .repeats import factors as factors, over as over
from .simulation import (
    Policy as Policy,
    poisson as poisson,
    policies as policies,
    response_ms as response_ms,
    simulate as simulate,
    stretch as stretch,
)
from .sweeps import SweepError as SweepError, sweep as sweep
from .traces import trace as trace
