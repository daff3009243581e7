"""The runs of one trace beside each other, and what no run of it can beat."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from . import _weirlab
from ._columns import Numbers, from_bytes, to_bytes
from .recorded import Responses, Run, least_heads, without_seed


class Point:
    """The runs of one trace, and what they share if they had the same requests."""

    def __init__(self, name: str) -> None:
        self.name, self.group = name, without_seed(name)
        self.runs: dict[str, Run] = {}

    @cached_property
    def responses(self) -> dict[str, Responses]:
        """Those of each run, read once."""
        return {name: run.responses() for name, run in self.runs.items()}

    @cached_property
    def link(self) -> str | None:
        """The rate of the link, if a manifest says it."""
        rate = next(iter(self.runs.values())).manifest.get("link_bps")
        return f"{rate}bit" if rate else None

    @cached_property
    def heads(self) -> Numbers | None:
        """The least head that any run had of each response."""
        return least_heads(self.responses.values()) if self.are_alike else None

    @cached_property
    def are_alike(self) -> bool:
        """Whether the runs had the same requests; of a load that asks when it was answered they have not."""
        first, *others = self.responses.values()
        return all(np.array_equal(first.size_bytes, of.size_bytes) for of in others)

    @cached_property
    def alone_ms(self) -> npt.NDArray[np.float64] | None:
        """The time of the link for each response; None where heads or the rate were not kept."""
        if self.heads is None or self.link is None:
            return None
        sizes = next(iter(self.responses.values())).size_bytes
        column = _weirlab.alone(to_bytes("size_bytes", sizes), to_bytes("head_bytes", self.heads), self.link)
        return from_bytes(column) / 1e6

    @cached_property
    def oracles(self) -> dict[str, Responses]:
        """What no schedule of these requests can beat, and ideal sharing of them."""
        first = next(iter(self.responses.values()))
        if first.arrival_ns is None or self.heads is None or self.link is None:
            return {}
        sizes, arrivals = to_bytes("sizes", first.size_bytes), to_bytes("arrivals", first.arrival_ns)
        times = _weirlab.bounds(sizes, arrivals, to_bytes("heads", self.heads), self.link)
        of = ((name, from_bytes(column) / 1e6) for name, column in zip(("bound", "ideal-ps"), times, strict=True))
        return {name: Responses(first.size_bytes, ms, np.ones(len(ms), np.bool_), group=first.group) for name, ms in of}

    def of(self, name: str) -> Responses | None:
        """Those of a run, or of `bound` or `ideal-ps`."""
        return self.oracles.get(name) if name in ("bound", "ideal-ps") else self.responses.get(name)


def points_of(found_in: Iterable[Run]) -> list[Point]:
    """The points of these runs; those that are void by their manifests are left out."""
    points: dict[str, Point] = {}
    for run in found_in:
        if run.void is None:
            points.setdefault(run.point, Point(run.point)).runs[run.name] = run
    return list(points.values())
