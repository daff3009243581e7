"""Results of runs on a line whose rate has to be found: their times over those of a run that was given the rate, the
share of the line that was used, and the time at which the rate was found."""

from __future__ import annotations

import csv
import pathlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from . import texts
from .figures import nearest_rank, share_within
from .folders import Experiment
from .intervals import Estimate, mean, ratio
from .recorded import Run

_TIMES = ("mean", "small_p50", "small_p95")
_SENT = "link_sent_bytes_total"
"""The counter among a run's samples of what left the bottleneck."""
Row = dict[str, Any]


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


@dataclass
class _Measured:
    """The figures of the run of one seed."""

    times: tuple[float, float, float]
    """The mean of all requests, and median and 95th percentile of the half with the smallest bodies."""
    used_share: float | None
    dropped: float | None
    found_s: float | None
    others: dict[str, float]
    void: str | None


@dataclass
class _Groups:
    of: dict[str, dict[str, dict[int, _Measured]]] = field(default_factory=dict)

    def add(self, group: str, run: Run, of_line: Seen) -> None:
        seeds = self.of.setdefault(group, {}).setdefault(run.name, {})
        if run.seed in seeds:
            said = "is there twice under the same conditions; of each seed one run counts: leave one out"
            raise ValueError(f"{run.path}: run `{run.name}` of seed {run.seed} {said}")
        seeds[run.seed] = _measured(run, of_line)


def _measured(run: Run, of_line: Seen) -> _Measured:
    of = run.responses()
    small = of.ms[share_within(of.size_bytes, 0, 50)]
    times = (float(of.ms.mean()), nearest_rank(small, 500), nearest_rank(small, 950))
    numbers = {name: float(text) for name, text in run.environment.items() if _is_number(text)}
    others = {name.removeprefix("neighbour_"): of for name, of in sorted(numbers.items()) if name.startswith("neighbour_")}
    return _Measured(times, of_line.used_share(run), numbers.get("dropped_packets"), of_line.found_s(), others, run.void)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", text) is not None


def lines(of: Iterable[Experiment], reference: str) -> Row:
    """Compares the times of each run with those of `reference`. Folders that differ by seed form a group."""
    groups = _Groups()
    for experiment in of:
        for point, runs in sorted(experiment.points.items()):
            for run in sorted(runs, key=lambda run: run.name):
                of_line, name = seen(run), _without_seed(experiment.name, run.seed)
                words = [word for word in point.split("_") if word and word != f"seed-{run.seed}"]
                groups.add(" ".join(filter(None, (name, "_".join(words)))), run, of_line)
    names = sorted({name for runs_of in groups.of.values() for name in runs_of})
    if reference not in names:
        raise ValueError(f"there is no run `{reference}`; the runs are {', '.join(names)}")
    rows = [_row(group, name, runs_of, reference) for group, runs_of in groups.of.items() for name in runs_of]
    return {"over": reference, "rows": rows}


def _without_seed(name: str, seed: int) -> str:
    """The name of an experiment without the seed that its folder ends in: `line-row` for `line-row-2` and seed 2."""
    return next((name.removesuffix(tail) for tail in (f"-seed-{seed}", f"-{seed}") if name.endswith(tail)), name)


def _row(group: str, name: str, runs: dict[str, dict[int, _Measured]], reference: str) -> Row:
    seeds = dict(sorted(runs[name].items()))
    used = {seed: of for seed, of in seeds.items() if of.void is None}
    base = runs.get(reference, {}) if name != reference else {}
    pairs = [(of.times, base[seed].times) for seed, of in used.items() if seed in base and base[seed].void is None]

    def over_seeds(values: Iterable[float | None]) -> Estimate | None:
        known = [value for value in values if value is not None]
        return mean(known) if known else None

    others = sorted({name for of in used.values() for name in of.others})
    found = [of.found_s for of in used.values() if of.found_s is not None]
    return {
        "group": group,
        "run": name,
        "used": len(used),
        "void": [[seed, of.void] for seed, of in seeds.items() if of.void is not None],
        "ms": {key: over_seeds(of.times[at] for of in used.values()) for at, key in enumerate(_TIMES)},
        "factors": {key: ratio((m[at], b[at]) for m, b in pairs) if pairs else None for at, key in enumerate(_TIMES)},
        "used_share": over_seeds(of.used_share for of in used.values()),
        "dropped_packets": over_seeds(of.dropped for of in used.values()),
        "found": len(found),
        "found_s": over_seeds(found),
        "others": {name: over_seeds(of.others.get(name) for of in used.values()) for name in others},
    }


_COLUMNS = ("group", "run", "seeds", "mean, ms ± 95 %", "mean factor, 95 %", "small p50, 95 %", "small p95, 95 %", "of the line",
            "dropped", "found, s")  # fmt: skip
_GROUP_CHARS_MAX, _RUN_CHARS_MAX = 52, 20


def table(of: Row) -> str:
    """For a terminal."""
    over = of["over"]
    legend = (
        f"Factors are response times over those of {over}, seed by seed (geometric mean, 95 % interval by Student's t): the mean "
        "of all requests, and median and 95th percentile of the half with the smallest bodies. "
        f"Above 1 {over} is sooner. Of the line: what left the bottleneck over what it could carry while requests arrived. "
        "Found: when the server first named a rate of its line."
    )
    text = texts.wrap(legend) + "\n" + texts.aligned([_COLUMNS, *map(_cells_of, of["rows"])])
    for row in of["rows"]:
        name = f"{row['group']} / {row['run']}"
        if row["void"]:
            seed, reason = row["void"][0]
            text += texts.wrap(f"{name}: {len(row['void'])} seeds void, the first {seed}: {reason}")
        if row["others"]:
            others = ", ".join(f"{what} {texts.plus_minus(value)}" for what, value in row["others"].items())
            text += texts.wrap(f"{name}: with it {others}")
    return text


def _cells_of(row: Row) -> list[str]:
    seeds, alone = row["used"] + len(row["void"]), texts.figure(row["found_s"].value) if row["found_s"] else "-"
    dropped, share = row["dropped_packets"], row["used_share"]
    return [
        texts.cut(row["group"], _GROUP_CHARS_MAX),
        texts.cut(row["run"], _RUN_CHARS_MAX),
        f"{row['used']}/{seeds}" if row["void"] else str(seeds),
        texts.plus_minus(row["ms"]["mean"]),
        *(texts.with_ends(row["factors"][key]) for key in _TIMES),
        "-" if share is None else texts.figure(share.value),
        "-" if dropped is None else f"{dropped.value:.0f}",
        alone if row["found"] == row["used"] else f"{alone} ({row['found']}/{row['used']})",
    ]
