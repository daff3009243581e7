"""Pictures of runs."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from .figures import growth
from .points import Point
from .recorded import Responses, Run

_ORACLES = {"ideal-ps": ("ideal processor sharing", "--"), "bound": ("clairvoyant bound", ":")}


def by_size(runs: Iterable[Run], title: str = "response time by size") -> Any:
    """The mean response time against size: a line for each run of one point, ideal processor sharing and the bound dashed.

    Both axes are logarithmic. A run that is void by its manifest says so. Returns a figure of matplotlib, whose `.savefig(FILE)`
    writes it.
    """
    point = Point("")
    point.runs = {run.name: run for run in runs}
    if not point.runs:
        raise ValueError("by_size: there are no runs to draw")
    try:
        figure = importlib.import_module("matplotlib.figure").Figure(figsize=(8, 5), layout="constrained")
    except ImportError as error:
        raise ImportError("plots: matplotlib is not installed: pip install 'weirlab[plot]'") from error
    axes = figure.subplots()
    for name, run in point.runs.items():
        of = point.responses[name]
        label = f"{name}{' VOID' if run.void else ''} ({_mean(of)})"
        axes.plot(*growth(of.size_bytes, of.ms), marker=".", markersize=3, linewidth=1, label=label)
    for name, (label, style) in _ORACLES.items():
        oracle = point.of(name)
        if oracle is not None:
            label = f"{label} ({_mean(oracle)})"
            axes.plot(*growth(oracle.size_bytes, oracle.ms), style, color="0.4", linewidth=1, label=label)
    axes.set(xlabel="size of the response body (bytes)", ylabel="mean response time (ms)", xscale="log", yscale="log")
    axes.set_title(title)
    axes.legend()
    return figure


def _mean(of: Responses) -> str:
    ms = of.ms.mean()
    return f"mean {ms:,.0f} ms" if ms >= 100 else f"mean {ms:.3g} ms"
