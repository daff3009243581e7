"""Means over traces with requests of their own, and how sure they are: the rules of docs/reproduction/verdicts.md."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import scipy.stats

# So far published tables go, with three decimals: theirs are in the intervals of kept results.
_DEGREES_TABULATED = 30


@dataclass(frozen=True)
class Estimate:
    """A mean, and the ends of its 95 % interval; one value alone has none."""

    value: float
    low: float | None = None
    high: float | None = None

    def as_json(self) -> dict[str, float | None]:
        """As results keep it."""
        return {"value": self.value, "low": self.low, "high": self.high}


def student_t(degrees: int, level: float = 0.95) -> float:
    """The two-sided point of Student's t."""
    point = float(scipy.stats.t.ppf((1 + level) / 2, degrees))
    return round(point, 3) if degrees <= _DEGREES_TABULATED else point


def mean(values: Iterable[float], level: float = 0.95) -> Estimate:
    """The mean of independent values, and its interval by Student's t."""
    of = [float(value) for value in values]
    if not of:
        raise ValueError("no values: there is no mean")
    centre = sum(of) / len(of)
    degrees = len(of) - 1
    if degrees == 0:
        return Estimate(centre)
    variance = sum((value - centre) ** 2 for value in of) / degrees
    half = student_t(degrees, level) * math.sqrt(variance / len(of))
    return Estimate(centre, centre - half, centre + half)


def ratio(pairs: Iterable[tuple[float, float]], level: float = 0.95) -> Estimate:
    """The mean ratio of pairs, one pair of each trace: geometric, its interval that of the logarithms.

    So a ratio of 2 and one of 1/2 cancel out. A pair with a 0 has no ratio and is left out.
    """
    logs = [math.log(mine / base) for mine, base in pairs if mine > 0 and base > 0]
    of = mean(logs, level)
    ends = (None if end is None else math.exp(end) for end in (of.low, of.high))
    return Estimate(math.exp(of.value), *ends)


def pooled(values: Sequence[float], is_ratio: bool) -> Estimate:
    """The mean of one figure of each trace: of ratios geometric, unless one is 0; of shares and counts plain."""
    if is_ratio and all(value > 0 for value in values):
        return ratio((value, 1.0) for value in values)
    return mean(values)
