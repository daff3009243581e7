"""Experiments as Markdown: their claims with verdicts, and what every run came to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow.compute as pc

from . import figures
from .claims import NOT_COMPARABLE, REFUTED, VERDICTS, VOID, claims_of
from .conditions import not_a_wire, number
from .folders import Experiment
from .judgement import Found, findings
from .points import Point, points_in
from .recorded import Run
from .texts import lost, markdown as table, short

_BOUNDS = (
    "The bound is a fluid: any part of any response at any instant, no handshake; no schedule is lower. The "
    "packet bound is the same order of whole packets, a handshake before each connection's first, without delay or loss."
)


@dataclass(frozen=True)
class Chapter:
    """An experiment of a report."""

    experiment: Experiment
    points: list[Point]
    findings: list[Found]

    @property
    def not_here(self) -> list[tuple[str, str]]:
        """Runs and points that are not here, with the reason: those of points that have others are said at the point."""
        here = {point.name for point in self.points}
        named = [
            (point, name, why) for point, of in sorted(self.experiment.absent().items()) if point not in here for name, why in of
        ]
        broken = [(point.name, "", point.mismatch) for point in self.points if point.mismatch]
        return [
            (" / ".join(filter(None, (point, name))) or self.experiment.name, str(why)) for point, name, why in named + broken
        ]


def chapter(experiment: Experiment) -> Chapter:
    """Holds the claims of an experiment's own file against its runs."""
    try:
        stated = claims_of(experiment.file)
    except ValueError as error:
        raise ValueError(f"{experiment.name}/experiment.toml: {error}") from error
    points, absent = points_in(experiment), experiment.absent()
    for point in points:
        point.skipped = dict(absent.get(point.name, []))
        if point.mismatch:
            print(f"weirlab: {experiment.name}/{point.name}: left out, {point.mismatch}", file=sys.stderr)
    return Chapter(experiment, points, findings(points, stated))


def markdown(title: str, chapters: Iterable[Chapter]) -> str:
    """The page of these chapters."""
    return f"# {title}\n\n{_BOUNDS}\n" + "".join(map(_chapter, chapters))


def _chapter(of: Chapter) -> str:
    said, name = of.experiment.file, of.experiment.name
    figure = said.get("figure")
    text = f"\n## {f'{_title(figure)}: ' if figure else ''}{name}\n\n"
    text += f"{said['question']}\n\n" if said.get("question") else ""
    if figure:
        text += f"The paper: {figure['claim']}. **{_tally(of.findings)}**.\n\n"
    if of.findings:
        text += of_claims(of.findings, "measured ± 95 %") + "\n"
    absent = "".join(f"- not here: {names}: {why}\n" for names, why in _by_reason(of.not_here))
    text += f"{absent}\n" if absent else ""
    return text + "".join(_point(point) for point in of.points if point.mismatch is None)


def _title(figure: dict[str, str]) -> str:
    """`000, figure 3`, or `003, §5.1` where the file says so."""
    of = figure["figure"]
    return f"{figure['paper']}, {'figure ' if of[:1].isdigit() else ''}{of}"


def _tally(found: Sequence[Found]) -> str:
    """`Claims: 4 reproduced, 1 refuted`: the number of claims with each verdict."""
    counts = ((verdict, sum(of.verdict == verdict for of in found)) for verdict in VERDICTS)
    return f"Claims: {', '.join(f'{count} {verdict}' for verdict, count in counts if count) or 'none'}"


def of_claims(findings: Iterable[Found], measured: str) -> str:
    """A table of claims with what was found, which has this heading, and its verdict."""
    rows = [(f"{of.claim.text}{f' [{of.point}]' if of.point else ''}", _found(of), _verdict(of)) for of in findings]
    return table(("claim", measured, "verdict"), rows)


_TIMES = " ×"  # noqa: RUF001


def _found(found: Found) -> str:
    claim, of = found.claim, found.estimate
    if of is None:
        return "-"
    unit = _TIMES if claim.over is not None and not figures.is_of_pairs(claim.value) else ""
    ends = "" if of.low is None or of.high is None else f" ({short(of.low)} to {short(of.high)})"
    return f"{short(of.value)}{unit}{ends}, {found.traces} trace{'' if found.traces == 1 else 's'}"


def _verdict(found: Found) -> str:
    strong = found.verdict in (REFUTED, NOT_COMPARABLE, VOID)
    return (f"**{found.verdict}**" if strong else found.verdict) + (f": {found.remark}" if found.remark else "")


def _by_reason(left_out: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Runs that are not here, those of one reason together."""
    names: dict[str, list[str]] = {}
    for name, reason in left_out:
        names.setdefault(reason, []).append(name)
    return [(", ".join(of), reason) for reason, of in names.items()]


def _point(point: Point) -> str:
    rows = [_Row(point, name) for name in point.runs]
    columns = [(heading, cell) for heading, cell, is_always in _COLUMNS if is_always or any(cell(row) != "-" for row in rows)]
    cells = [[f"~~{cell(row)}~~" if row.run.void else cell(row) for _, cell in columns] for row in rows]
    text = (f"### {point.name}\n\n" if point.name else "") + table([heading for heading, _ in columns], cells) + "\n"
    for row in rows:
        reasons = (("void", row.run.void), ("not a wire", row.wire), ("lost", row.lost))
        text += "".join(f"- {what}: {row.run.name}: {why}\n" for what, why in reasons if why)
    text += "".join(f"- not here: {names}: {why}\n" for names, why in _by_reason(point.skipped.items()))
    text += f"\n{_conditions(rows[0].run)}; bound {_optional(rows[0].bound_ms)} ms, "
    text += f"packet bound {_optional(rows[0].packet_bound_ms)} ms.\n\n"
    point.forget()
    return text


def _conditions(run: Run) -> str:
    said, commit = run.manifest, run.manifest.get("commit", "")[:12]
    return f"{number(said.get('seconds', 0))} s of arrivals, seed {run.seed}, kernel {said.get('kernel', '')}, commit {commit}"


class _Row:
    """A run in the table of its point."""

    def __init__(self, point: Point, name: str) -> None:
        self.point, self.run = point, point.runs[name]
        self.of = point.responses[name]

    @cached_property
    def bound_ms(self) -> float | None:
        return self.point.bound_ms(self.run.name)

    @cached_property
    def packet_bound_ms(self) -> float | None:
        return self.point.packet_bound_ms(self.run.name)

    @cached_property
    def wire(self) -> str | None:
        return not_a_wire(self.run, self.point.responses[self.run.name])

    @property
    def lost(self) -> str | None:
        """What the server's kernel gave up, with the mean of the rest, or None."""
        count, done = self.run.given_up, self.of.ms[self.of.is_complete]
        return lost(count, len(self.of.ms), float(done.mean()) if len(done) else 0.0) if count else None

    def figure(self, name: str) -> str:
        """A figure of it, if it has it."""
        try:
            if figures.is_counter(name):
                return short(figures.counter(name, self.run.samples()))
            return short(figures.figure(name, self.of, alone_ms=self.point.alone_ms_of(self.run.name)))
        except figures.NoFigure:
            return "-"

    def incomplete(self) -> str:
        if not self.run.path.is_dir():
            return self.figure("incomplete")
        counted = pc.value_counts(self.run.records()["outcome"]).to_pylist()
        ways = {of["values"]: of["counts"] for of in counted if of["values"] != "complete"}
        ordered = sorted(ways, key=lambda way: _OUTCOMES.index(way) if way in _OUTCOMES else len(_OUTCOMES))
        return ", ".join(f"{ways[way]} {way.replace('_', ' ')}" for way in ordered) or "0"

    def over_bound(self, bound: float | None) -> str:
        return "-" if not bound else short(float(self.of.ms.mean()) / bound)

    def server(self) -> str:
        return ", ".join(str(self.run.manifest.get(key, "")) for key in ("server", "policy", "shaping"))

    def server_cpu(self) -> str:
        is_virtual = self.run.environment.get("clock") == "virtual"
        return "-" if is_virtual else _optional(self.run.manifest.get("server_cpu"))


_OUTCOMES = ("incomplete", "refused", "reset", "timed_out", "aborted", "wrong")


def _optional(value: float | None) -> str:
    return "-" if value is None else short(value)


_Column = tuple[str, Callable[[_Row], str], bool]
_COLUMNS: list[_Column] = [
    ("run", lambda row: row.run.name, True),
    ("server, policy, shaping", lambda row: row.server(), True),
    ("completed", lambda row: row.figure("completed"), True),
    ("incomplete", lambda row: row.incomplete(), True),
    ("mean, ms", lambda row: row.figure("response_time_ms.mean"), True),
    ("slowdown", lambda row: row.figure("slowdown.mean"), True),
    ("p50, ms", lambda row: row.figure("response_time_ms.p50"), True),
    ("p99, ms", lambda row: row.figure("response_time_ms.p99"), True),
    ("longest, ms", lambda row: row.figure("response_time_ms.max"), True),
    # Of a run's own requests, which are its neighbours' only under an open load.
    ("largest 1 %, ms", lambda row: short(float(row.of.ms[figures.share_within(row.of.size_bytes, 99, 100)].mean())), True),
    ("variance, ms²", lambda row: row.figure("response_time_ms.variance"), True),
    ("SCV", lambda row: row.figure("response_time_ms.scv"), True),
    ("mean / bound", lambda row: row.over_bound(row.bound_ms), True),
    ("mean / packet bound", lambda row: row.over_bound(row.packet_bound_ms), True),
    ("most connections", lambda row: row.figure("connections_max"), False),
    ("SYNs dropped", lambda row: row.figure("syn_drops"), False),
    ("server CPU", lambda row: row.server_cpu(), False),
]
