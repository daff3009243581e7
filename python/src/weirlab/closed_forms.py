"""Results that need no simulation: closed forms of the M/G/1 queue, and bounds of given jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from . import _weirlab
from ._columns import to_arrow, to_bytes


@dataclass(frozen=True)
class Solution:
    """Means in the steady state, of all jobs or of the jobs of one size."""

    response_ms: float
    slowdown: float
    arrivals_per_s: float
    size_mean_bytes: float
    cuts_bytes: tuple[float, ...]


def theory(policy: str, sizes: Any, rho: float, link: str = "10mbit", *, at_size: float | None = None) -> Solution:
    """The mean response time and slowdown with Poisson arrivals (M/G/1), in closed form.

    `sizes` is a distribution such as `exponential:mean=5000`, or a column of sizes that are all equally likely. With `at_size`
    the means are of the jobs of so many bytes. Raises ValueError where no closed form is known, or no steady state exists.
    """
    dist = sizes if isinstance(sizes, str) else None
    given = None if dist is not None else to_bytes("sizes", sizes)
    response_ms, slowdown, per_s, mean, cuts = _weirlab.mg1(policy, dist, given, rho, link, at_size)
    return Solution(response_ms, slowdown, per_s, mean, tuple(cuts))


def alternating(policy: str, dist: str, profile: str, link: str = "10mbit") -> tuple[float, float, float]:
    """Mean response time in ms and slowdown under `fcfs`, `ps` or `srpt` where the load has two phases (`W1` to `W10` of 003,
    `25,25,0.2,1.2`), and the jobs that pile up in the heavier one: approximate."""
    return _weirlab.alternating(policy, dist, profile, link)


def bounds(sizes: Any, arrivals: Any, link: str = "10mbit") -> pa.Table:
    """For each job its response time in nanoseconds under the schedule whose mean is least (`best_ns`) and under ideal sharing
    (`shared_ns`), by programs that share nothing with the simulator."""
    best, shared = _weirlab.bounds(to_bytes("sizes", sizes), to_bytes("arrivals", arrivals), None, link)
    return pa.table({"best_ns": to_arrow(best), "shared_ns": to_arrow(shared)})
