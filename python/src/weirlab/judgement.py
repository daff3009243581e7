"""Claims of experiments held against runs, and what is published of them computed again."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .claims import NOT_COMPARABLE, NOT_MEASURED, ORACLES, VOID, Claim, claims
from .conditions import NOT_A_WIRE, apart, is_of_other_length, not_a_wire, number
from .figures import NoFigure, counter, figure, is_counter, is_growing, is_of_pairs, of_pair, share_within
from .intervals import Estimate, pooled
from .points import Point, points_of
from .recorded import RESPONSES, Run, runs, seed_of, without_seed
from .repeats import over

# The largest relative error of a figure computed again: kept response times are whole microseconds.
TOLERANCE = 0.001


@dataclass(frozen=True)
class Found:
    """The verdict on a claim at a point, over its traces."""

    claim: Claim
    point: str
    """Without its seed where it has several."""
    estimate: Estimate | None
    traces: int
    """With requests of their own."""
    verdict: str
    remark: str | None = None


@dataclass(frozen=True)
class _One:
    """The figure of a claim in one trace."""

    point: str
    value: float | None = None
    fault: str | None = None
    """The verdict on a figure that may not be used: void, not comparable or not measured."""
    remark: str | None = None
    wire: str | None = None
    """The reason why the link was no wire."""
    load: str = ""


def judge(found_in: Iterable[Run], stated: Iterable[Claim]) -> list[Found]:
    """Each claim at each point whose runs are here and have its figure, pooled over the traces. Void runs do not count."""
    return [found for found in findings(points_of(found_in), stated) if found.estimate is not None]


def findings(points: list[Point], stated: Iterable[Claim]) -> list[Found]:
    """The verdict on each claim at each point that it speaks of, in this order, also where nothing was measured."""
    ones: dict[tuple[int, str], _One] = {}
    stated = list(stated)
    for point in points:
        for claim in stated:
            if any(at in (point.group, point.name) for at in (claim.against, claim.point)) or claim.point is None:
                ones[_key(claim, point)] = _one(claim, point)
        point.forget()
    return [found for claim in stated for found in _of_claim(claim, points, ones)]


def _key(claim: Claim, point: Point) -> tuple[int, str]:
    return id(claim), point.name


def _of_claim(claim: Claim, points: list[Point], ones: dict[tuple[int, str], _One]) -> list[Found]:
    of = [point for point in points if claim.point in (None, point.group, point.name)]
    if not of:
        return [Found(claim, claim.point or "", None, 0, NOT_MEASURED, "no run of this point is here")]
    groups: dict[str, list[_One]] = {}
    for point in of:
        one = ones[_key(claim, point)]
        if claim.against is not None:
            others = [at for at in points if claim.against in (at.group, at.name) and seed_of(at.name) == seed_of(point.name)]
            one = _over_other(one, [ones[_key(claim, other)] for other in others])
        groups.setdefault(point.group, []).append(one)
    return [_pooled(claim, group) for group in groups.values()]


def _pooled(claim: Claim, group: list[_One]) -> Found:
    """Over the traces of a point. Figures that cannot be used are left out and counted."""
    used = [one for one in group if one.fault is None and one.value is not None]
    if not used:
        one = group[0]
        alone = None if one.value is None else Estimate(one.value)
        return Found(claim, one.point, alone, int(alone is not None), one.fault or NOT_MEASURED, _and(one.remark, one.wire))
    found = pooled([one.value for one in used if one.value is not None], claim.is_ratio)
    loads = len({one.load for one in used})
    if loads < 2:
        found = Estimate(found.value)
    verdict, remark = claim.judged(found, loads)
    left_out = [one for one in group if one not in used]
    if left_out:
        why = f" ({left_out[0].remark})" if left_out[0].remark else ""
        remark = _and(remark, f"{len(left_out)} of {len(group)} seeds {left_out[0].fault}{why}")
    remark = _and(remark, next((one.wire for one in used if one.wire), None))
    point = used[0].point if len(group) == 1 else without_seed(used[0].point)
    return Found(claim, point, found, loads, verdict, remark)


def _and(*said: str | None) -> str | None:
    return "; ".join(of for of in said if of) or None


def _over_other(one: _One, others: list[_One]) -> _One:
    """The figure over that of the other point with the same seed."""
    if not others:
        return _One(one.point, fault=NOT_MEASURED, remark="no run of the other point is here")
    other = others[0]
    for of in (one, other):
        if of.fault is not None:
            return dataclasses.replace(of, point=one.point, value=None)
    value = _divided(one.value or 0, other.value or 0)
    if value is None:
        return _One(one.point, fault=NOT_MEASURED, remark="it is nothing at the other point")
    return dataclasses.replace(one, value=value)


def _divided(top: float, bottom: float) -> float | None:
    return 1.0 if top == bottom else top / bottom if bottom else None


def _one(claim: Claim, point: Point) -> _One:
    """The figure of one trace, or what is missing."""
    try:
        for name in (claim.of, claim.over):
            if name is not None and name not in (*point.runs, *ORACLES):
                raise NoFigure(f"{name}: {point.skipped[name]}" if name in point.skipped else f"run {name} is not here")
        if point.mismatch is not None:
            raise NoFigure(point.mismatch)
        if is_of_pairs(claim.value) and not point.are_alike:
            raise NoFigure("the runs have different requests, as closed loads do: they cannot be matched")
        value = _value(claim, point, claim.of, claim.over)
        if value is None:
            raise NoFigure(f"{claim.value} was not measured or has no value")
    except NoFigure as why:
        return _One(point.name, fault=NOT_MEASURED, remark=str(why))
    sides = [point.runs[name] for name in (claim.of, claim.over) if name in point.runs]
    wires = [not_a_wire(run, point.responses[run.name]) for run in sides]
    wire = next((f"{NOT_A_WIRE}{why}" for why in wires if why), None)
    void = next((run.void for run in sides if run.void is not None), None)
    if void is not None:
        return _One(point.name, value, VOID, void, wire, point.load)
    other = _why_apart(claim, sides, value)
    return _One(point.name, value, NOT_COMPARABLE if other else None, other, wire, point.load)


def _why_apart(claim: Claim, sides: list[Run], value: float) -> str | None:
    """Returns the reason why the runs are not compared with each other or with the paper's run, or None."""
    if len(sides) == 2 and (why := apart(*sides)) is not None:
        return why
    for run in sides:
        seconds = run.manifest.get("seconds", 0)
        if claim.seconds is None or not is_of_other_length(seconds, claim.seconds) or _is_exceeded(claim, seconds, value):
            continue
        return f"{run.name} ran for {number(seconds)} s, the paper's for {number(claim.seconds)}"
    return None


def _is_exceeded(claim: Claim, seconds: float, value: float) -> bool:
    """Returns whether a run shorter than the paper's has passed the most that is claimed: what is only counted up stays so."""
    can_grow = claim.seconds is not None and seconds < claim.seconds and is_growing(claim.value) and claim.over is None
    return can_grow and claim.most is not None and value > claim.most


def _value(claim: Claim, point: Point, of: str, base: str | None) -> float | None:
    if is_of_pairs(claim.value):
        mine, theirs = point.of(of), point.of(base or of)
        return None if mine is None or theirs is None else of_pair(claim.value, mine, theirs, _chosen(claim, point, of))
    top = _figure(claim, point, of)
    if base is None or top is None:
        return top
    bottom = _figure(claim, point, base)
    return None if bottom is None else _divided(top, bottom)


def _figure(claim: Claim, point: Point, name: str) -> float | None:
    run, of = point.runs.get(name), point.of(name)
    if is_counter(claim.value):
        return None if run is None else counter(claim.value, run.samples())
    if claim.value == "server_cpu":
        return None if run is None else run.manifest.get("server_cpu")
    if of is None:
        return None
    alone_ms = point.alone_ms_of(name if name in point.runs else next(iter(point.runs)))
    return figure(claim.value, of, _chosen(claim, point, name), alone_ms=alone_ms)


def _chosen(claim: Claim, point: Point, name: str) -> npt.NDArray[np.bool_] | None:
    """The requests that the claim is of, by size and by client; None: all."""
    of, chosen = point.of(name), None
    if of is not None and claim.sizes is not None:
        chosen = share_within(of.size_bytes, *claim.sizes)
    if of is not None and claim.client is not None:
        clients = point.runs[next(iter(point.runs)) if name in ORACLES else name].manifest.get("clients", [])
        if of.group is None or claim.client not in clients:
            raise NoFigure(f"{claim.client}: these responses were not kept with their clients")
        is_of_client = of.group == clients.index(claim.client)
        chosen = is_of_client if chosen is None else chosen & is_of_client
    return chosen


def kept_claims(experiment: str, found: Iterable[Found]) -> list[dict[str, Any]]:
    """The figures of claims as results keep them (`claims.json`). The claimed range stays in the experiment's file."""
    every = []
    for of in found:
        point, estimate = without_seed(of.point), of.estimate
        kept: dict[str, Any] = {"experiment": experiment, "text": of.claim.text} | ({"point": point} if point else {})
        if estimate is not None:
            kept["value"] = estimate.value
            kept |= {"ends": [estimate.low, estimate.high]} if estimate.low is not None else {}
        kept["traces"] = of.traces
        if of.verdict in (VOID, NOT_COMPARABLE, NOT_MEASURED):
            kept["not_judged"] = of.verdict.replace(" ", "-")
        every.append(kept)
    return every


def claims_json(kept: Iterable[dict[str, Any]]) -> str:
    """The text of `claims.json`: a claim a line."""
    lines = [json.dumps(claim, ensure_ascii=False, separators=(",", ":")) for claim in kept]
    return "[\n" + ",\n".join(lines) + "\n]\n"


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


def check(result: str | os.PathLike[str]) -> list[Checked]:
    """Every figure that a result publishes (`over-*.json`, `claims.json`) and that its response times give, computed again."""
    at = pathlib.Path(result)
    if not (at / RESPONSES).is_dir():
        raise FileNotFoundError(f"{at}: no {RESPONSES} are kept here")
    kept = runs(at)
    checked = [row for file in sorted(at.glob("over-*.json")) for row in _check_over(file, kept)]
    if (at / "claims.json").exists():
        above = [folder / "experiments" for folder in at.resolve().parents]
        of_project = next((folder for folder in above if folder.is_dir()), above[1])
        checked += _check_claims(json.loads((at / "claims.json").read_text()), of_project, kept)
    if not checked:
        raise ValueError(f"{at}: no figure is published here")
    return checked


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
    judged = [(name, of) for name, all_of in stated.items() for of in judge(kept, all_of)]
    found = {(name, of.claim.text, without_seed(of.point)): of.estimate for name, of in judged}
    for row in published:
        if row.get("value") is None:
            continue
        here = found.get((row["experiment"], row["text"], row.get("point", "")))
        what = f"claims.json: {row['text']} at {row.get('point', '')}"
        yield Checked(f"{what}, value", row["value"], None if here is None else here.value)
        for end, place in (("low", 0), ("high", 1)):
            if row.get("ends"):
                yield Checked(f"{what}, {end}", row["ends"][place], None if here is None else getattr(here, end))
