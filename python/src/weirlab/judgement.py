"""Claims of experiments held against runs, and what is published of them computed again."""

from __future__ import annotations

import json
import os
import pathlib
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .figures import figure, is_of_pairs, of_pair, share_within
from .intervals import Estimate, mean, pooled, ratio
from .recorded import RESPONSES, Responses, Run, runs

# Traces with requests of their own that a verdict needs.
TRACES_MIN = 5
# How far a figure may be from the published one: kept response times are whole microseconds.
TOLERANCE = 0.001
# The largest requests, which may lose.
_TOP_PERCENT = 99.5


@dataclass(frozen=True)
class Claim:
    """A statement of an experiment: a figure of `of`, or that over the same of `over`, lies from `least` to `most`."""

    text: str
    value: str
    of: str
    over: str | None = None
    point: str | None = None
    least: float | None = None
    most: float | None = None
    larger: str | None = None
    one_sided: str | None = None
    sizes: tuple[float, float] | None = None
    client: str | None = None
    seconds: float | None = None
    items: tuple[int, ...] = ()

    @property
    def is_ratio(self) -> bool:
        """Whether it is of one run over another."""
        return self.over is not None and not is_of_pairs(self.value)

    def verdict(self, found: Estimate, traces: int) -> str:
        """`reproduced`, `larger`, `refuted`, `undecided` or `not comparable`: the interval decides, never the point."""
        if (self.least is None or self.most is None) and not self.one_sided:
            return "not comparable"
        if traces < TRACES_MIN or found.low is None or found.high is None:
            return "undecided"
        least = -np.inf if self.least is None else self.least
        most = np.inf if self.most is None else self.most
        if found.low >= least and found.high <= most:
            return "reproduced"
        if found.low <= most and found.high >= least:
            return "undecided"
        is_larger = (self.larger == "more" and found.low > most) or (self.larger == "less" and found.high < least)
        return "larger" if is_larger else "refuted"


@dataclass(frozen=True)
class Found:
    """What became of a claim at a point."""

    claim: Claim
    point: str
    estimate: Estimate
    traces: int

    @property
    def verdict(self) -> str:
        return self.claim.verdict(self.estimate, self.traces)


def claims(experiment: str | os.PathLike[str]) -> list[Claim]:
    """The claims of an experiment's file (`[[figure.expect]]`)."""
    path = pathlib.Path(experiment)
    try:
        expects = tomllib.loads(path.read_text()).get("figure", {}).get("expect", [])
        return [Claim(**{**of, "larger": of.get("larger", of.get("better")), **_tuples(of)}) for of in map(_known, expects)]
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def _known(of: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in of.items() if key != "better"}


def _tuples(of: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(of[key]) for key in ("sizes", "items") if key in of}


def judge(found_in: Iterable[Run], stated: Iterable[Claim]) -> list[Found]:
    """Each claim at each point whose runs are here, pooled over the traces. Claims of other figures, and of groups of clients,
    are left out."""
    points = _points(found_in)
    found = []
    for claim in stated:
        for group in {run.group: None for at in points.values() for run in at.values()}:
            values = [value for at in points.values() if (value := _value(claim, group, at)) is not None]
            if values:
                found.append(Found(claim, group, pooled(values, claim.is_ratio), len(values)))
    return found


def _points(found_in: Iterable[Run]) -> dict[str, dict[str, Run]]:
    points: dict[str, dict[str, Run]] = {}
    for run in found_in:
        points.setdefault(run.point, {})[run.name] = run
    return points


def _value(claim: Claim, group: str, at: dict[str, Run]) -> float | None:
    """The figure of one trace, if it is of this point and its runs are here."""
    of, over = at.get(claim.of), at.get(claim.over or claim.of)
    if of is None or over is None or of.group != group or claim.client is not None:
        return None
    if claim.point not in (None, group, of.point) or not _is_here(claim.value):
        return None
    mine, base = of.responses(), over.responses()
    if claim.value.startswith("slowdown") and (mine.head_bytes is None or base.head_bytes is None):
        return None
    chosen = None if claim.sizes is None else share_within(mine.size_bytes, *claim.sizes)
    if is_of_pairs(claim.value):
        return of_pair(claim.value, mine, base, chosen)
    top = figure(claim.value, mine, chosen, link_bps=of.manifest.get("link_bps", 0))
    if claim.over is None:
        return top
    bottom = figure(claim.value, base, chosen, link_bps=of.manifest.get("link_bps", 0))
    return 1.0 if top == bottom else top / bottom


def _is_here(value: str) -> bool:
    """Whether it is computed from response times."""
    known = ("response_time_ms.", "completed_ms.", "slowdown")
    return is_of_pairs(value) or value.startswith(known) or value in ("completed", "incomplete", "incomplete_share", "bytes")


def over(found_in: Iterable[Run], reference: str) -> list[dict[str, Any]]:
    """Each run's mean response time over the traces of its point, and over that of another run, paired: what `weirlab report
    --over RUN --json` prints of them."""
    groups: dict[tuple[str, str], list[tuple[Responses, Responses | None]]] = {}
    for at in _points(found_in).values():
        base = at[reference].responses() if reference in at else None
        for run in at.values():
            groups.setdefault((run.group, run.name), []).append((run.responses(), base))
    rows = []
    for (group, name), of in groups.items():
        pairs = [(mine, base) for mine, base in of if base is not None and name != reference]
        row: dict[str, Any] = {"group": group, "run": name, "mean_ms": mean(mine.ms.mean() for mine, _ in of)}
        row["factor"] = ratio((mine.ms.mean(), base.ms.mean()) for mine, base in pairs) if pairs else None
        row["factor_top"] = ratio((_top(mine), _top(base)) for mine, base in pairs) if pairs else None
        rows.append(row)
    return rows


def _top(run: Responses) -> float:
    return float(run.ms[share_within(run.size_bytes, _TOP_PERCENT, 100)].mean())


@dataclass(frozen=True)
class Checked:
    """A published figure, and the same computed from the kept response times."""

    what: str
    published: float
    computed: float | None
    """None where the response times do not give it."""

    @property
    def agrees(self) -> bool:
        return self.computed is not None and abs(self.computed - self.published) <= TOLERANCE * abs(self.published)


def check(result: str | os.PathLike[str], experiments: str | os.PathLike[str] | None = None) -> list[Checked]:
    """Every figure that a kept result publishes (`over-*.json`, `claims.json`) and that its response times give, computed again.

    `experiments` is the folder of the experiments' files; without it that of the project that the result is in.
    """
    at = pathlib.Path(result)
    if not (at / RESPONSES).is_dir():
        raise FileNotFoundError(f"{at}: no {RESPONSES} are kept here")
    kept = runs(at)
    checked = [row for file in sorted(at.glob("over-*.json")) for row in _check_over(file, kept)]
    if (at / "claims.json").exists():
        folder = pathlib.Path(experiments) if experiments is not None else at.resolve().parents[1] / "experiments"
        checked += _check_claims(json.loads((at / "claims.json").read_text()), folder, kept)
    if not checked:
        raise ValueError(f"{at}: no figure is published here")
    return checked


def _check_over(file: pathlib.Path, kept: list[Run]) -> Iterable[Checked]:
    published = json.loads(file.read_text())
    found = {(row["group"], row["run"]): row for row in over(kept, published["over"])}
    for row in published["rows"]:
        here = found.get((row["group"], row["run"]))
        for key in ("mean_ms", "factor", "factor_top"):
            for end in ("value", "low", "high"):
                if row.get(key) and row[key].get(end) is not None:
                    what = f"{file.name}: {row['group']} {row['run']} {key} {end}"
                    yield Checked(what, row[key][end], getattr(here[key], end) if here and here[key] else None)


def _check_claims(published: list[dict[str, Any]], experiments: pathlib.Path, kept: list[Run]) -> Iterable[Checked]:
    stated = {name: claims(experiments / f"{name}.toml") for name in {row["experiment"] for row in published}}
    found = {(name, of.claim.text, of.point): of.estimate for name, all_of in stated.items() for of in judge(kept, all_of)}
    for row in published:
        if row.get("value") is None:
            continue
        here = found.get((row["experiment"], row["text"], row.get("point", "")))
        what = f"claims.json: {row['text']} at {row.get('point', '')}"
        yield Checked(f"{what}, value", row["value"], None if here is None else here.value)
        for end, place in (("low", 0), ("high", 1)):
            if row.get("ends"):
                yield Checked(f"{what}, {end}", row["ends"][place], None if here is None else getattr(here, end))
