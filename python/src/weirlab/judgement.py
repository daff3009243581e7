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
import numpy.typing as npt

from .figures import NoRequests, NotKept, counter, figure, is_counter, is_of_pairs, of_pair, share_within
from .intervals import Estimate, mean, pooled, ratio
from .points import Point, points_of
from .recorded import RESPONSES, Responses, Run, runs, seed_of

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
    against: str | None = None
    """Another point: what counts is the figure over the same one there, with the same seed."""
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
        """Whether it is of one run over another, or of one point over another."""
        return self.against is not None or (self.over is not None and not is_of_pairs(self.value))

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
    seconds: float | None = None
    """How long the runs were."""

    @property
    def verdict(self) -> str:
        """That of the claim; `not comparable` where what is claimed grows with the length, and that is another."""
        if self.claim.seconds not in (None, self.seconds):
            return "not comparable"
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
    """Each claim at each point whose runs are here, pooled over the traces.

    Runs that are void by their manifests are left out, and so are claims whose figures these runs have not.
    """
    points, found = points_of(found_in), []
    for claim in stated:
        for group in dict.fromkeys(point.group for point in points):
            of_points = {point: _value_at(claim, point, points) for point in points if point.group == group}
            values = {point: value for point, value in of_points.items() if value is not None}
            if values:
                seconds = next(iter(next(iter(values)).runs.values())).manifest.get("seconds")
                found.append(Found(claim, group, pooled(list(values.values()), claim.is_ratio), len(values), seconds))
    return found


def _value_at(claim: Claim, point: Point, points: list[Point]) -> float | None:
    """The figure of one trace, if the claim is of this point and its runs, and those of its other point, have it."""
    if claim.point not in (None, point.group, point.name):
        return None
    value = _value(claim, point)
    if claim.against is None or value is None:
        return value
    others = [of for of in points if claim.against in (of.group, of.name) and seed_of(of.name) == seed_of(point.name)]
    base = _value(claim, others[0]) if others else None
    return None if base is None else _divided(value, base)


def _divided(top: float, bottom: float) -> float | None:
    return 1.0 if top == bottom else top / bottom if bottom else None


def _value(claim: Claim, point: Point) -> float | None:
    """The figure of one trace, if its runs have it."""
    try:
        if is_of_pairs(claim.value):
            mine, base = point.of(claim.of), point.of(claim.over or claim.of)
            return None if mine is None or base is None else of_pair(claim.value, mine, base, _chosen(claim, point, claim.of))
        top = _figure(claim, point, claim.of)
        if claim.over is None or top is None:
            return top
        bottom = _figure(claim, point, claim.over)
    except (NotKept, NoRequests):
        return None
    return None if bottom is None else _divided(top, bottom)


def _figure(claim: Claim, point: Point, name: str) -> float | None:
    run, of = point.runs.get(name), point.of(name)
    if is_counter(claim.value):
        return None if run is None else counter(claim.value, run.samples())
    if claim.value == "server_cpu":
        return None if run is None else run.manifest.get("server_cpu")
    return None if of is None else figure(claim.value, of, _chosen(claim, point, name), alone_ms=point.alone_ms)


def _chosen(claim: Claim, point: Point, name: str) -> npt.NDArray[np.bool_] | None:
    """The requests that the claim is of, by size and by client; None: all."""
    of, chosen = point.of(name), None
    if of is not None and claim.sizes is not None:
        chosen = share_within(of.size_bytes, *claim.sizes)
    if of is not None and claim.client is not None:
        clients = point.runs[claim.of if name in ("bound", "ideal-ps") else name].manifest.get("clients", [])
        if of.group is None or claim.client not in clients:
            raise NotKept(f"{claim.client}: these responses were not kept with their clients")
        is_of_client = of.group == clients.index(claim.client)
        chosen = is_of_client if chosen is None else chosen & is_of_client
    return chosen


def over(found_in: Iterable[Run], reference: str) -> list[dict[str, Any]]:
    """Each run's mean response time over the traces of its point, and over that of another run, paired: what `weirlab report
    --over RUN --json` prints of them."""
    groups: dict[tuple[str, str], list[tuple[Responses, Responses | None]]] = {}
    for point in points_of(found_in):
        for name, of in point.responses.items():
            groups.setdefault((point.group, name), []).append((of, point.of(reference)))
    rows = []
    for (group, name), used in groups.items():
        pairs = [(mine, base) for mine, base in used if base is not None and name != reference]
        row: dict[str, Any] = {"group": group, "run": name, "mean_ms": mean(mine.ms.mean() for mine, _ in used)}
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
        folder = pathlib.Path(experiments) if experiments is not None else _experiments(at)
        checked += _check_claims(json.loads((at / "claims.json").read_text()), folder, kept)
    if not checked:
        raise ValueError(f"{at}: no figure is published here")
    return checked


def _experiments(result: pathlib.Path) -> pathlib.Path:
    above = [folder / "experiments" for folder in result.resolve().parents]
    return next((folder for folder in above if folder.is_dir()), above[1])


def _check_over(file: pathlib.Path, kept: list[Run]) -> Iterable[Checked]:
    published = json.loads(file.read_text())
    found = {(row["group"], row["run"]): row for row in over(kept, published["over"])}
    for row in published["rows"]:
        # Where nothing but the seed varies, the group has the name of the experiment.
        here = found.get((row["group"], row["run"])) or found.get(("", row["run"]))
        for key in ("mean_ms", "factor", "factor_top"):
            for end in ("value", "low", "high"):
                if row.get(key) and row[key].get(end) is not None:
                    what = f"{file.name}: {row['group']} {row['run']} {key} {end}"
                    yield Checked(what, row[key][end], getattr(here[key], end) if here and here[key] else None)


def _check_claims(published: list[dict[str, Any]], experiments: pathlib.Path, kept: list[Run]) -> Iterable[Checked]:
    files = {file.stem: file for file in experiments.glob("**/*.toml")}
    names = {row["experiment"] for row in published}
    absent = sorted(names - set(files))
    if absent:
        raise FileNotFoundError(f"{experiments}: there is no {absent[0]}.toml, whose claims are published")
    stated = {name: claims(files[name]) for name in names}
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
