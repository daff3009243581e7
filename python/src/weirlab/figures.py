"""Figures of a run, or of one run against another, by the names that experiments give them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .recorded import Responses

Floats = npt.NDArray[np.float64]

# Half a percent of the requests by size, as the papers have them.
_BUCKETS = 200


def share_within(sizes: npt.NDArray[np.uint64], low: float, high: float) -> npt.NDArray[np.bool_]:
    """Which requests lie between these percentiles (0 to 100) of all sizes; equal sizes count in order of arrival."""
    order = np.argsort(sizes, kind="stable")
    cuts = [len(sizes) * round(percent * 1e4) // 1_000_000 for percent in (low, high)]
    within = np.zeros(len(sizes), np.bool_)
    within[order[cuts[0] : cuts[1]]] = True
    return within


def nearest_rank(values: Floats, permille: int) -> float:
    """The least value that at least so many of a thousand do not exceed."""
    rank = -(-len(values) * permille // 1000)
    return float(np.sort(values)[min(max(rank, 1), len(values)) - 1])


def by_size(sizes: npt.NDArray[np.uint64], values: Floats, count: int = _BUCKETS) -> tuple[Floats, Floats, Floats]:
    """The mean size, and the mean and variance of the values, in each of `count` equal shares of the requests by size.

    The smallest sizes come first. A share too small for a request is left out. Equal sizes count in order of arrival.
    """
    order = np.argsort(sizes, kind="stable")
    cuts = [len(order) * share // count for share in range(count + 1)]
    parts = [order[low:high] for low, high in pairwise(cuts) if low < high]
    columns = (
        [sizes[part].mean() for part in parts],
        [values[part].mean() for part in parts],
        [values[part].var() for part in parts],
    )
    mean_size, mean_value, variance = (np.asarray(column, np.float64) for column in columns)
    return mean_size, mean_value, variance


def growth(sizes: npt.NDArray[np.uint64], values: Floats) -> tuple[Floats, Floats]:
    """The mean size and the mean value in each bin of sizes. Every run of the same requests has the same bins.

    A bin is from x to below 1.2 x, where x is the least size not yet in a bin.
    """
    order = np.argsort(sizes, kind="stable")
    ascending, low, parts = sizes[order].astype(np.float64), 0, []
    while low < len(order):
        high = int(np.searchsorted(ascending, ascending[low] * 1.2, side="left"))
        high = max(high, int(np.searchsorted(ascending, ascending[low], side="right")))
        parts.append(order[low:high])
        low = high
    return np.asarray([sizes[part].mean() for part in parts]), np.asarray([values[part].mean() for part in parts])


_PERMILLE = {"p50": 500, "p90": 900, "p99": 990, "p999": 999, "max": 1000}


def _stat(name: str, values: Floats) -> float:
    if name in _PERMILLE:
        return nearest_rank(values, _PERMILLE[name])
    if name == "mean":
        return float(values.mean())
    return float(values.var() if name == "variance" else values.var() / values.mean() ** 2)


_STATS = (*_PERMILLE, "mean", "variance", "scv")


def is_of_pairs(name: str) -> bool:
    """Returns whether the figure compares each request of one run with the same request of another run."""
    return name in _PAIRS


def figure(name: str, run: Responses, chosen: npt.NDArray[np.bool_] | None = None, *, alone_ms: Floats | None = None) -> float:
    """A figure of a run: `response_time_ms.mean` (p50, p90, p99, p999, max, variance, scv), the same of `completed_ms`,
    `first_byte_ms` and `slowdown`, of `second_means_ms`, the means over each second of arrivals, `completed`,
    `incomplete`, `incomplete_share`, `bytes`.

    `chosen` are the requests that count, `alone_ms` the time of the link for each, for slowdown. Raises NoFigure where the run
    has not what the figure is of.
    """
    of = np.ones(len(run.ms), np.bool_) if chosen is None else chosen
    if name in COUNTS:
        return _count(name, run, of)
    times, _, stat = ("slowdown.mean" if name == "slowdown_mean" else name).rpartition(".")
    if times not in TIMES or stat not in _STATS:
        raise ValueError(f"`{name}` is no figure of response times")
    if times == "second_means_ms":
        return _stat(stat, second_means(run, of))
    values = _times(times, run, alone_ms)
    if times == "completed_ms":
        of = of & run.is_complete
    if not of.any():
        raise NoFigure(f"{name}: no request counts")
    return _stat(stat, values[of])


def second_means(run: Responses, of: npt.NDArray[np.bool_]) -> Floats:
    """For each second in which requests came, the mean of their response times, in order."""
    second = _kept("second_means_ms", run.arrival_s)[of]
    if not len(second):
        raise NoFigure("second_means_ms: no request counts")
    _, place = np.unique(second, return_inverse=True)
    return np.asarray(np.bincount(place, run.ms[of]) / np.bincount(place))


class NoFigure(ValueError):
    """A run has not what a figure is of, or no request counts for it: none of this size completed."""


def _times(name: str, run: Responses, alone_ms: Floats | None) -> Floats:
    if name == "first_byte_ms":
        return _kept(name, run.first_byte_ms)
    return run.ms / _kept(name, alone_ms) if name == "slowdown" else run.ms


def _kept(name: str, column: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    if column is None:
        raise NoFigure(f"{name}: these responses were not kept with it")
    return column


def _count(name: str, run: Responses, of: npt.NDArray[np.bool_]) -> float:
    if name == "bytes":
        # Where nobody kept how much came, it is known of what is complete.
        body = run.size_bytes if run.body_bytes is None and run.is_complete[of].all() else run.body_bytes
        return float(_kept(name, body)[of].sum())
    done = run.is_complete[of]
    return float({"completed": done.sum(), "incomplete": (~done).sum(), "incomplete_share": (~done).mean()}[name])


TIMES = ("response_time_ms", "completed_ms", "first_byte_ms", "slowdown", "second_means_ms")
COUNTS = ("completed", "incomplete", "incomplete_share", "bytes")
_COUNTER_STATS = ("max", "mean", "last", "first_s")

# Short names of counters, with their columns in samples.parquet and what is taken of them.
_SHORT = {
    "connections_max": ("connections", "max"),
    "syn_drops": ("listen_drops_total", "last"),
}
# Connections that hold a place, which `connections` adds up.
_HOLDING = ("established", "fin_wait_1", "close_wait", "last_ack", "closing")


def counter(name: str, samples: pa.Table | None) -> float:
    """A figure of what was measured from outside: `samples.COLUMN.max` (mean, last, first_s), `connections_max`, `syn_drops`.
    What counts up counts from the first sample on; `first_s` is when it was first above 0."""
    column, stat = _SHORT.get(name) or tuple(name.removeprefix("samples.").rpartition(".")[::2])
    if samples is None:
        raise NoFigure(f"{name}: nothing was measured from outside")
    if column == "connections":
        values = sum(samples[f"connections_{state}"].to_numpy() for state in _HOLDING)
    elif column in samples.column_names:
        values = samples[column].to_numpy()
    else:
        raise NoFigure(f"{name}: there is no column {column}")
    if column.endswith("_total"):
        values = np.maximum(values - values[0], 0)
    if stat == "first_s":
        above = np.flatnonzero(values > 0)
        if not len(above):
            raise NoFigure(f"{name}: it was never above 0")
        return float(samples["at_ns"][int(above[0])].as_py() / 1e9)
    return float({"max": values.max(), "mean": values.mean(), "last": values[-1]}[stat])


def check_name(name: str) -> None:
    """Raises ValueError, with the names that there are, if there is no such figure."""
    times, _, stat = ("slowdown.mean" if name == "slowdown_mean" else name).rpartition(".")
    is_time = times in TIMES and stat in _STATS
    is_sample = times.startswith("samples.") and stat in _COUNTER_STATS
    if not (is_time or is_sample or name in (*COUNTS, "server_cpu", *_PAIRS, *_SHORT)):
        known = [f"{of}.{{{'|'.join(_STATS)}}}" for of in TIMES]
        known += [f"samples.COLUMN.{{{'|'.join(_COUNTER_STATS)}}}", *COUNTS, "server_cpu", *_PAIRS, *_SHORT]
        raise ValueError(f"`{name}` is no figure; there are {', '.join(known)}")


def is_counter(name: str) -> bool:
    """Returns whether the figure comes from the samples that were measured from outside the server."""
    return name in _SHORT or name.startswith("samples.")


def is_growing(name: str) -> bool:
    """Returns whether the figure can only grow while a run goes on: what was dropped, and the most connections."""
    return name in _SHORT


def of_pair(name: str, run: Responses, base: Responses, chosen: npt.NDArray[np.bool_] | None = None) -> float:
    """A figure of each request under one run against the same one under another: `share_gaining`, `share_starved`,
    `stretch.mean`, `stretch.max`, `bucket_share_gaining`, `bucket_variance_ratio`, `bucket_scv_ratio`, `file_share_starved`."""
    if name not in _PAIRS:
        raise ValueError(f"`{name}` is no figure of two runs; there are {', '.join(_PAIRS)}")
    if not np.array_equal(run.size_bytes, base.size_bytes):
        raise ValueError(f"{name}: the runs had different requests, which cannot be matched")
    of = np.ones(len(run.ms), np.bool_) if chosen is None else chosen
    return _PAIRS[name](_Pair(run.size_bytes[of], run.ms[of], base.ms[of], len(run.ms)))


class _Pair:
    """Two runs' response times of the same requests."""

    def __init__(self, sizes: npt.NDArray[np.uint64], mine: Floats, base: Floats, of_all: int) -> None:
        self.sizes, self.of_all = sizes, of_all
        # In whole microseconds, as kept results have them: of two ends that are nanoseconds apart, neither is later.
        self.mine, self.base = (np.rint(of * 1e3) / 1e3 for of in (mine, base))
        with np.errstate(divide="ignore", invalid="ignore"):
            self.stretch = np.where(self.mine == self.base, 1.0, self.mine / self.base)

    def buckets(self) -> tuple[Floats, Floats, Floats, Floats]:
        """The means of both runs, then their variances, in each half percent of all requests by size."""
        count = max(round(len(self.sizes) / max(self.of_all, 1) * _BUCKETS), 1)
        (_, mine, mine_variance), (_, base, base_variance) = (by_size(self.sizes, of, count) for of in (self.mine, self.base))
        return mine, base, mine_variance, base_variance

    def files_starved(self) -> float:
        """The share of the requests whose file, known by its size, takes longer in the mean than under the base."""
        files, of = np.unique(self.sizes, return_inverse=True)
        longer = np.bincount(of, self.mine - self.base, len(files))
        return float((longer[of] > 0).mean())


def _median(mine: Floats, base: Floats) -> float:
    """The median of the base's values over this run's. Two equal values have the ratio 1, even if both are 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(mine == base, 1.0, base / mine)
    return nearest_rank(ratios[~np.isnan(ratios)], 500)


def _scv_ratio(pair: _Pair) -> float:
    mine_mean, base_mean, mine, base = pair.buckets()
    return _median(mine / mine_mean**2, base / base_mean**2)


_PAIRS = {
    "share_gaining": lambda pair: float((pair.stretch < 1).mean()),
    "share_starved": lambda pair: float((pair.stretch > 1).mean()),
    "stretch.mean": lambda pair: float(pair.stretch.mean()),
    "stretch.max": lambda pair: float(pair.stretch.max()),
    "bucket_share_gaining": lambda pair: float(np.less(*pair.buckets()[:2]).mean()),
    "bucket_variance_ratio": lambda pair: _median(*pair.buckets()[2:]),
    "bucket_scv_ratio": _scv_ratio,
    "file_share_starved": _Pair.files_starved,
}
