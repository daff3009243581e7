"""Figures of runs on a line whose rate has to be found: the share of it that was used, and when the server found its rate."""

from __future__ import annotations

import csv
import pathlib
import re
from dataclasses import dataclass

import pyarrow as pa

from .figures import nearest_rank, share_within
from .recorded import Responses, Run

_SENT = "link_sent_bytes_total"
"""The counter among a run's samples of what left the bottleneck."""


@dataclass(frozen=True)
class Seen:
    """The observations of a run's line, as opposed to its requests."""

    sent: list[tuple[float, float]]
    """Seconds, each with the number of bytes that had left the bottleneck by then."""
    rates: list[tuple[float, float]]
    """Seconds, each with the bits per second from then on; empty if the line always had the rate of the link."""
    notices: list[tuple[float, str]]
    """Seconds, each with the message about the line from the server, or from the program that shapes for it."""

    def found_s(self) -> float | None:
        """When the server first named a rate of the line."""
        return next((at for at, text in self.notices if text.startswith("uplink") and rate_in(text) is not None), None)

    def could_carry(self, low: float, high: float, link_bps: float) -> float:
        """Bits between two instants."""
        rates = self.rates or [(0.0, link_bps)]
        ends = [at for at, _ in rates[1:]] + [float("inf")]
        spans = ((min(high, end) - max(low, at), rate) for (at, rate), end in zip(rates, ends, strict=True))
        return sum(max(seconds, 0.0) * rate for seconds, rate in spans)

    def used_share(self, run: Run) -> float | None:
        """The part of what the line could carry while requests arrived that it did."""
        within = [of for of in self.sent if of[0] <= run.manifest["seconds"]]
        if not within:
            return None
        (low, first), (high, last) = within[0], within[-1]
        could = self.could_carry(low, high, run.manifest["link_bps"])
        return 8 * (last - first) / could if could > 0 else None


def seen(run: Run) -> Seen:
    """Reads the observations of a run's line from its folder."""
    samples = run.samples()
    rates = [(at, _number(run.path / "line.csv", rest)) for at, rest in _rows(run.path / "line.csv")]
    return Seen(_sent(samples), rates, _rows(run.path / "uplink.csv"))


def _sent(samples: pa.Table | None) -> list[tuple[float, float]]:
    if samples is None or _SENT not in samples.column_names:
        return []
    both = zip(samples["at_ns"].to_pylist(), samples[_SENT].to_pylist(), strict=True)
    return [(at / 1e9, float(sent)) for at, sent in both if sent is not None]


def _cells(file: pathlib.Path) -> list[tuple[float, list[str]]]:
    """Rows below the heading: seconds, and the other cells."""
    if not file.exists():
        return []
    with file.open(newline="") as text:
        rows = list(csv.reader(text))[1:]
    return [(_number(file, row[0]), row[1:]) for row in rows if row]


def _rows(file: pathlib.Path) -> list[tuple[float, str]]:
    return [(at, ",".join(cells)) for at, cells in _cells(file)]


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
    small, of_line = of.ms[share_within(of.size_bytes, 0, 50)], seen(run)
    dropped = run.environment.get("dropped_packets")
    percentiles = [nearest_rank(small, permille) for permille in (500, 950)]
    return [*percentiles, of_line.used_share(run), None if dropped is None else float(dropped), of_line.found_s()]
