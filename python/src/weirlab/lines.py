"""Figures of runs on a line whose rate has to be found: the share of it that was used, and when the server found its rate."""

from __future__ import annotations

import csv
import pathlib
import re

from .figures import nearest_rank, share_within
from .recorded import Responses, Run

_SENT = "link_sent_bytes_total"
"""The counter among a run's samples of what left the bottleneck."""


def used_share(run: Run) -> float | None:
    """The part of what the line could carry while requests arrived that left the bottleneck."""
    samples = run.samples()
    if samples is None or _SENT not in samples.column_names:
        return None
    both = zip(samples["at_ns"].to_pylist(), samples[_SENT].to_pylist(), strict=True)
    within = [(at / 1e9, sent) for at, sent in both if sent is not None and at / 1e9 <= run.manifest["seconds"]]
    if not within:
        return None
    (low, first), (high, last) = within[0], within[-1]
    # Where nothing was written, the line always had the rate of the link.
    file, whole = run.path / "line.csv", [(0.0, float(run.manifest["link_bps"]))]
    rates = [(at, _number(file, rate)) for at, rate in _rows(file)] or whole
    ends = [at for at, _ in rates[1:]] + [float("inf")]
    could = sum(max(min(high, end) - max(low, at), 0.0) * rate for (at, rate), end in zip(rates, ends, strict=True))
    return 8 * (last - first) / could if could > 0 else None


def found_s(run: Run) -> float | None:
    """The instant, in seconds, of the first message of the server, or of the program that shapes for it, with a rate."""
    notices = _rows(run.path / "uplink.csv")
    return next((at for at, text in notices if text.startswith("uplink") and rate_in(text) is not None), None)


def _rows(file: pathlib.Path) -> list[tuple[float, str]]:
    """Rows below the heading: seconds, and what stands behind them."""
    if not file.exists():
        return []
    with file.open(newline="") as text:
        return [(_number(file, row[0]), ",".join(row[1:])) for row in list(csv.reader(text))[1:] if row]


def _number(file: pathlib.Path, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"{file}: `{text}` is no number") from error


_RATE = re.compile(r"^(\d+(?:\.\d+)?)(bit|kbit|mbit|gbit)$")
_UNITS = {"bit": 1, "kbit": 1_000, "mbit": 1_000_000, "gbit": 1_000_000_000}


def rate_in(text: str) -> int | None:
    """The last rate in these words, as `9.7mbit` or `9.7 Mbit/s`, that is no former one (`before 9 Mbit/s`)."""
    words = [re.sub(r"^[^A-Za-z0-9]+|[^A-Za-z0-9]+$", "", word).lower().removesuffix("/s") for word in text.split()]
    for at in reversed(range(len(words))):
        if at > 0 and words[at - 1] == "before":
            continue
        for word in (words[at], "".join(words[at : at + 2])):
            if said := _RATE.match(word):
                return round(float(said[1]) * _UNITS[said[2]])
    return None


MEASURES = ("small p50", "small p95", "of the line", "dropped", "found")
"""Figures of a run on a line: median and 95th percentile of the half with the smallest bodies (ms), what left the bottleneck over
what it could carry while requests arrived, packets dropped there, and when the server first named a rate (s)."""
TIMES = 2
"""How many of them, the first, are times of requests."""


def figures_of(run: Run, of: Responses) -> list[float | None]:
    """The figures of a run, each None where it has none."""
    small, dropped = of.ms[share_within(of.size_bytes, 0, 50)], run.environment.get("dropped_packets")
    percentiles = [nearest_rank(small, permille) for permille in (500, 950)]
    return [*percentiles, used_share(run), None if dropped is None else float(dropped), found_s(run)]
