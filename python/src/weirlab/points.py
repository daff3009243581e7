"""The runs of one trace together, and the bounds that no run of it can beat."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from . import _weirlab
from ._columns import Numbers, from_bytes, to_bytes
from .folders import Experiment
from .recorded import Responses, Run, least_heads, without_seed


class Point:
    """The runs of one trace, and what they share if they had the same requests."""

    def __init__(self, name: str) -> None:
        self.name, self.group = name, without_seed(name)
        self.runs: dict[str, Run] = {}
        self.skipped: dict[str, str] = {}
        """Runs that are not here, with the reason."""

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
    def are_alike(self) -> bool:
        """True if the runs had the same requests. Under a load whose clients wait for their answers they have not."""
        first, *others = self.responses.values()
        return all(np.array_equal(first.size_bytes, of.size_bytes) for of in others)

    @cached_property
    def mismatch(self) -> str | None:
        """The reason why the runs are not compared, or None. Runs of an open load must have had the same requests."""
        if self.are_alike or any(run.manifest.get("closed") is not None or not run.path.is_dir() for run in self.runs.values()):
            return None
        return f"runs {', '.join(self.runs)}: they had different requests; only runs of the same jobs compare"

    def heads_of(self, name: str) -> Numbers | None:
        """The least head that any run of the same requests had of each response."""
        return least_heads(self.responses.values() if self.are_alike else [self.responses[name]])

    def alone_ms_of(self, name: str) -> npt.NDArray[np.float64] | None:
        """The time of the link for each response of this run; None where heads or the rate were not kept."""
        heads, sizes = self.heads_of(name), to_bytes("size_bytes", self.responses[name].size_bytes)
        if heads is None or self.link is None:
            return None
        if self.is_plain:
            return from_bytes(_weirlab.alone_plain(sizes, self.link)) / 1e6
        return from_bytes(_weirlab.alone(sizes, to_bytes("head_bytes", heads), self.link)) / 1e6

    def oracles_of(self, name: str) -> dict[str, Responses]:
        """The response times that no schedule of this run's requests can beat, and those under ideal sharing."""
        first, heads = self.responses[name], self.heads_of(name)
        if first.arrival_ns is None or heads is None or self.link is None:
            return {}
        sizes, arrivals = to_bytes("sizes", first.size_bytes), to_bytes("arrivals", first.arrival_ns)
        times = _weirlab.bounds(sizes, arrivals, None if self.is_plain else to_bytes("heads", heads), self.link)
        of = ((name, from_bytes(column) / 1e6) for name, column in zip(("bound", "ideal-ps"), times, strict=True))
        return {name: Responses(first.size_bytes, ms, np.ones(len(ms), np.bool_), group=first.group) for name, ms in of}

    @cached_property
    def oracles(self) -> dict[str, Responses]:
        """Those of the first run."""
        return self.oracles_of(next(iter(self.runs)))

    def bound_ms(self, name: str) -> float | None:
        """The mean of the bound of this run."""
        oracles = self.oracles if self.are_alike else self.oracles_of(name)
        return float(oracles["bound"].ms.mean()) if oracles else None

    @property
    def is_plain(self) -> bool:
        """True if the link carries sizes alone, as in queueing theory."""
        return next(iter(self.runs.values())).manifest.get("wire") == "plain"

    @cached_property
    def load(self) -> str:
        """A hash of its requests: a trace that comes again with another seed says nothing of other requests."""
        return load_of(next(iter(self.responses.values())))

    def packet_bound_ms(self, name: str) -> float | None:
        """The mean response time in the best order of whole packets, with handshakes, over the protocol of this run."""
        run, of = self.runs[name], self.responses[name]
        protocol = run.environment.get("protocol", "")
        # Heads are those of the runs over the protocol: over HTTP/2 they are shorter.
        alike = {key: self.responses[key] for key, at in self.runs.items() if at.environment.get("protocol", "") == protocol}
        heads = least_heads(alike.values() if self.are_alike else [of])
        if of.arrival_ns is None or heads is None or self.link is None:
            return None
        if self.is_plain:
            return self.bound_ms(name)
        payloads, connections = to_bytes("payloads", of.size_bytes + heads), int(run.manifest.get("per_connection", 1))
        times = _weirlab.packet_bound(to_bytes("arrivals", of.arrival_ns), payloads, connections, protocol, self.link)
        return float(from_bytes(times).mean() / 1e6)

    @cached_property
    def _rounded(self) -> dict[str, Responses]:
        """Those of runs and oracles in whole microseconds, as kept results have them: of two ends that are nanoseconds apart,
        neither is later."""
        of_all = {**self.oracles, **self.responses}
        in_us = {name: np.maximum(np.rint(of.ms * 1e3), 1) / 1e3 for name, of in of_all.items()}
        return {name: dataclasses.replace(of, ms=in_us[name]) for name, of in of_all.items()}

    def forget(self) -> None:
        """Lets go of all that was read: a hundred runs of 90,000 requests are much memory."""
        for name in ("responses", "oracles", "are_alike", "mismatch", "load", "_rounded"):
            self.__dict__.pop(name, None)

    def of(self, name: str) -> Responses | None:
        """Those of a run, or of `bound` or `ideal-ps`, in whole microseconds."""
        return self._rounded.get(name)


def load_of(of: Responses) -> str:
    """A hash of the instants and sizes of its requests."""
    columns = [of.arrival_ns if of.arrival_ns is not None else of.arrival_s, of.size_bytes]
    text = hashlib.sha256()
    for column in columns:
        text.update(b"" if column is None else column.astype("<u8").tobytes())
    return text.hexdigest()


def points_of(found_in: Iterable[Run]) -> list[Point]:
    """The points of these runs."""
    points: dict[str, Point] = {}
    for run in found_in:
        points.setdefault(run.point, Point(run.point)).runs[run.name] = run
    return list(points.values())


def points_in(experiment: Experiment) -> list[Point]:
    """The points of an experiment, with their runs, in the order of its file."""
    return points_of(run for of in experiment.points.values() for run in of)
