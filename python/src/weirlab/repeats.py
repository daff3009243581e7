"""Repeated runs: the ratio of one run's response times to another's over several seeds, with its interval.

Seeds differ from each other by far more than servers do on one seed, so an interval around each mean would hide every difference
that is there. Runs of one seed had the same requests: their ratio is taken first, and the interval is that of the ratios.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import lines, texts
from .conditions import apart, in_words, not_a_wire, number
from .figures import nearest_rank, share_within
from .folders import Experiment
from .intervals import Estimate, mean, ratio
from .points import Point, load_of
from .recorded import Run, without_seed

# The largest requests, which may lose.
_TOP_PERCENT = 99.5
_PAGE_TIMES = {"view": "first_view_ns", "fonts": "with_fonts_ns", "whole": "full_ns"}
PAGE_MEASURES = (*(f"{name} {of}" for name in _PAGE_TIMES for of in ("mean", "p50", "p95")), "KB mean", "left %")
"""Figures of pages: time until something is seen, until fonts are there too, and until all is there (ms), size of their bodies
(KB), and the share whose visitors left before they saw anything; these count with the time that they waited."""
Row = dict[str, Any]


@dataclass
class _Repeat:
    """The figures of the run of one seed."""

    run: Run
    load: str
    mean_ms: float
    top_ms: float
    packet_bound_ratio: float | None
    pages: list[float | None] | None
    line: list[float | None] | None
    lost: tuple[int, int, float]
    """Connections that the server's kernel gave up, requests, and the mean of the requests that completed."""
    fault: tuple[str, str] | None
    """The kind of fault and the reason, if the run may not be used."""


@dataclass
class _Group:
    """Runs of several seeds that have all else in common."""

    key: tuple[Any, ...]
    experiments: list[str] = field(default_factory=list)
    seeds: set[int] = field(default_factory=set)
    runs: dict[str, dict[int, _Repeat]] = field(default_factory=dict)

    @property
    def names(self) -> str:
        """The first name, and how many others there are: `e-1 (+2)`."""
        return self.experiments[0] + (f" (+{len(self.experiments) - 1})" if len(self.experiments) > 1 else "")

    @property
    def settings(self) -> str:
        return str(self.key[0])

    @property
    def point(self) -> str:
        return str(self.key[1])

    def is_of(self, key: tuple[Any, ...], runs: Iterable[Run]) -> bool:
        """Returns whether these runs repeat the group's own runs, under the same conditions and for as long."""
        known = [(next(iter(self.runs[run.name].values())).run, run) for run in runs if self.runs.get(run.name)]
        return self.key == key and all(apart(one, run) is None for one, run in known)


def over(found_in: Iterable[Run], reference: str) -> list[Row]:
    """Each run's mean response time over the traces of its point, and over that of another run, paired: rows of `factors`."""
    rows: list[Row] = factors([Experiment("", list(found_in))], reference, may_lack=True)["rows"]
    return rows


def factors(of: Iterable[Experiment], reference: str, *, may_lack: bool = False, with_line: bool = False) -> Row:
    """Compares the time of each run with that of `reference` over the seeds. Results keep it as `over-RUN.json`.

    `with_line` adds what was seen of the line (`lines.MEASURES`).

    Losses of `reference` come first. Void runs, runs that beat their wire time and seeds without `reference` are left
    out and counted. Raises ValueError with the names of all runs if there is none of this name.
    """
    groups: list[_Group] = []
    for experiment in of:
        for name, runs in experiment.points.items():
            for seed in sorted({run.seed for run in runs}):
                point = Point(name)
                point.runs = {run.name: run for run in runs if run.seed == seed}
                if point.mismatch is not None:
                    print(f"weirlab: {experiment.name}/{name}: seed {seed} left out, {point.mismatch}", file=sys.stderr)
                    continue
                _add(groups, experiment, point, seed, with_line)
    names = list(dict.fromkeys(name for group in groups for name in group.runs))
    if reference not in names and not may_lack:
        raise ValueError(f"there is no run `{reference}`; the runs are {', '.join(names)}")
    labels = _labels(groups)
    placed = [
        (_order(row, reference, place), row)
        for place, (group, label) in enumerate(zip(groups, labels, strict=True))
        for row in (_row(group, label, name, reference) for name in group.runs)
    ]
    return {"over": reference, "rows": [row for _, row in sorted(placed, key=lambda of: of[0])]}


def _add(groups: list[_Group], experiment: Experiment, point: Point, seed: int, with_line: bool) -> None:
    first = next(iter(point.runs.values())).manifest
    said = (first.get(name) for name in ("link_bps", "rho", "per_connection", "closed", "wire"))
    key = (experiment.settings, without_seed(point.name), *said)
    group = next((group for group in groups if group.is_of(key, point.runs.values())), None)
    if group is None:
        group = _Group(key)
        groups.append(group)
    group.seeds.add(seed)
    if experiment.name not in group.experiments:
        group.experiments.append(experiment.name)
    for name, run in point.runs.items():
        repeats = group.runs.setdefault(name, {})
        if seed in repeats:
            at = f"{experiment.name}/{point.name}".rstrip("/")
            said_twice = "is there twice under the same conditions; of each seed one run counts: leave one out"
            raise ValueError(f"{at}: run `{name}` of seed {seed} {said_twice}")
        repeats[seed] = _repeat(point, run, with_line)
    point.forget()


def _repeat(point: Point, run: Run, with_line: bool) -> _Repeat:
    of = point.responses[run.name]
    bound_ms, wire = point.packet_bound_ms(run.name), not_a_wire(run, of)
    fault = ("void", run.void) if run.void is not None else ("beat their wire time", wire) if wire else None
    mean_ms, pages = float(of.ms.mean()), run.pages()
    of_pages = _page_figures(pages) if pages else None
    top_ms = float(of.ms[share_within(of.size_bytes, _TOP_PERCENT, 100)].mean())
    of_line = lines.figures_of(run, of) if with_line else None
    done = of.ms[of.is_complete]
    gone = (run.given_up, len(of.ms), float(done.mean()) if len(done) else 0.0)
    return _Repeat(run, load_of(of), mean_ms, top_ms, bound_ms and mean_ms / bound_ms, of_pages, of_line, gone, fault)


def _page_figures(pages: Sequence[dict[str, int]]) -> list[float | None]:
    found: list[float | None] = []
    for key in _PAGE_TIMES.values():
        # Earlier results have no fonts, and nobody leaves.
        ms = np.array([max(page[key] - page["arrival_ns"], 0) for page in pages if key in page]) / 1e6
        found += [float(ms.mean()), nearest_rank(ms, 500), nearest_rank(ms, 950)] if len(ms) else [None] * 3
    left = float(np.mean([page["left"] for page in pages])) * 100 if "left" in pages[0] else None
    return [*found, float(np.mean([page["bytes"] for page in pages])) / 1e3, left]


def _row(group: _Group, label: str, name: str, reference: str) -> Row:
    every, base = group.runs[name], group.runs.get(reference, {})
    left_out: dict[str, Row] = {}
    for seed in sorted(group.seeds):
        if seed not in every:
            _leave_out(left_out, "missing", seed, None)
        elif (fault := every[seed].fault) is not None:
            _leave_out(left_out, fault[0], seed, fault[1])
    used = {seed: repeat for seed, repeat in sorted(every.items()) if repeat.fault is None}
    pairs = [] if name == reference else list(_pairs(used, base, reference, left_out))
    factor = _ratio([(mine.mean_ms, theirs.mean_ms) for mine, theirs in pairs])
    factor_top = _ratio([(mine.top_ms, theirs.top_ms) for mine, theirs in pairs])
    bounds = [repeat.packet_bound_ratio for repeat in used.values() if repeat.packet_bound_ratio]
    row: Row = {"group": label, "run": name, "seeds": len(group.seeds), "used": len(used), "pairs": len(pairs)}
    row["loads"] = len({repeat.load for repeat in used.values()})
    row["mean_ms"] = mean(repeat.mean_ms for repeat in used.values()) if used else None
    row["packet_bound_ratio"] = mean(bounds) if bounds else None
    row |= {"factor": factor, "factor_top": factor_top, "standing": _standing(factor), "standing_top": _standing(factor_top)}
    for key, names, factors_of in (("pages", PAGE_MEASURES, len(PAGE_MEASURES) - 1), ("line", lines.MEASURES, lines.TIMES)):
        if measured := _measures(key, names, list(used.values()), pairs, factors_of):
            row[key] = measured
    losses = [repeat.lost for repeat in used.values()]
    if count := sum(of[0] for of in losses):
        row["given_up"], row["requests"] = count, sum(of[1] for of in losses)
        row["completed_ms"] = float(np.mean([of[2] for of in losses]))
    row["left_out"] = list(left_out.values())
    row["conditions"] = in_words(next(iter(every.values())).run)
    return row


def _pairs(
    used: dict[int, _Repeat], base: dict[int, _Repeat], reference: str, left_out: dict[str, Row]
) -> Iterable[tuple[_Repeat, _Repeat]]:
    """These runs, each with the other of its seed; those without one, or with one of other conditions, are left out."""
    for seed, mine in used.items():
        theirs = base.get(seed)
        if theirs is None or theirs.fault is not None:
            _leave_out(left_out, f"without {reference}", seed, None)
        elif (why := apart(mine.run, theirs.run)) is not None:
            _leave_out(left_out, f"not comparable with {reference}", seed, why)
        else:
            yield mine, theirs


def _leave_out(left_out: dict[str, Row], what: str, seed: int, reason: str | None) -> None:
    known = left_out.setdefault(what, {"what": what, "seeds": []} | ({} if reason is None else {"reason": reason}))
    known["seeds"].append(seed)


def _ratio(pairs: list[tuple[float, float]]) -> Estimate | None:
    return ratio(pairs) if any(mine > 0 and base > 0 for mine, base in pairs) else None


def _standing(factor: Estimate | None) -> str | None:
    """The standing of the run that others are divided by: loses, gains or open. With one seed, the value decides."""
    if factor is None:
        return None
    low, high = (factor.value if end is None else end for end in (factor.low, factor.high))
    return "loses" if high < 1 else "gains" if low > 1 else "open"


def _measures(
    key: str, names: Sequence[str], used: list[_Repeat], pairs: list[tuple[_Repeat, _Repeat]], factors_of: int
) -> list[Row]:
    """Each figure of pages or of the line over the seeds that have it; the first ones also over the other run's."""
    found: list[Row] = []
    for at, name in enumerate(names):

        def of_seed(repeat: _Repeat, at: int = at) -> float | None:
            figures = getattr(repeat, key)
            return None if figures is None else figures[at]

        values = [value for value in map(of_seed, used) if value is not None]
        both = [(mine, base) for mine, base in (tuple(map(of_seed, pair)) for pair in pairs) if mine and base]
        if values:
            row = {"measure": name, "value": mean(values), "factor": _ratio(both) if at < factors_of else None}
            found.append(row | ({"seeds": len(values)} if len(values) < len(used) else {}))
    return found


_STANDINGS = ("loses", "open", "gains")


def _order(row: Row, reference: str, place: int) -> tuple[int, int, int, float]:
    """Losses first, those of the mean before those of the largest only; last what is divided by itself."""
    of_mean, of_top = row["standing"], row["standing_top"]
    if row["run"] == reference:
        rank = (4, 0)
    elif of_mean is None:
        rank = (3, 0)
    elif of_mean == "gains":
        rank = (2, 0) if of_top in (None, "gains") else (1, _STANDINGS.index(of_top) + 1)
    else:
        rank = (0, _STANDINGS.index(of_mean) + 1)
    return (*rank, place, row["factor"].value if row["factor"] else float("inf"))


def _labels(groups: list[_Group]) -> list[str]:
    """The names of the groups: their points, and the words that distinguish groups of the same point."""
    are_of_one = all(group.settings == groups[0].settings for group in groups)
    labels: list[str] = []
    for group in groups:
        alike = [of for of in groups if of.point == group.point and (are_of_one or of.experiments[0] == group.experiments[0])]
        link_bps, rho = group.key[2], group.key[3]
        words = [] if are_of_one else [group.names]
        words += [group.point] if group.point else []
        words += [f"rho-{number(rho)}"] if any(of.key[3] != rho for of in alike) else []
        words += [f"{number(link_bps / 1e6)}mbit"] if any(of.key[2] != link_bps for of in alike) else []
        label = " ".join(words) or group.names
        free = (of for of in (label, *(f"{label} #{count}" for count in range(2, len(groups) + 2))) if of not in labels)
        labels.append(next(free))
    return labels


def to_json(of: Row) -> str:
    """The text of `over-RUN.json`."""
    return json.dumps(of, default=lambda estimate: estimate.as_json(), ensure_ascii=False, separators=(",", ":")) + "\n"


_COLUMNS = ("group", "run", "seeds", "mean, ms ± 95 %", "/ packets ± 95 %", "factor, 95 %", "top 0.5 %, 95 %", "losses")
_SEEDS_NAMED_MAX = 10


def markdown(of: Row, title: str) -> str:
    """The rows, what the columns are, and what was left out."""
    rows = []
    for row in of["rows"]:
        cells = [cell.replace("*", "\\*") for cell in _cells(row)]
        rows.append([f"**{cell}**" for cell in cells] if _losses(row) else cells)
    text = f"# {title}\n\n{_legend(of)}\n\n{texts.markdown(_COLUMNS, rows)}"
    text += "".join("\n" + texts.markdown(heading, cells) for heading, cells in _tables(of))
    remarks = _remarks(of)
    return text + ("\n" if remarks else "") + "".join(f"- {remark}\n" for remark in remarks)


def _legend(of: Row) -> str:
    other = of["over"]
    return (
        f"Factors are the mean response time of a run over that of {other}, the same of the largest 0.5 % of requests: geometric "
        "means of the ratios of each seed, with the 95 % interval of their logarithms by Student's t. "
        f"Below 1 {other} loses; losses come first, and those with a question mark have an interval that includes 1."
    )


def _cells(row: Row) -> list[str]:
    seeds = str(row["seeds"]) if row["used"] == row["seeds"] else f"{row['used']}/{row['seeds']}"
    means = [texts.plus_minus(row[key]) for key in ("mean_ms", "packet_bound_ratio")]
    ratios = [texts.with_ends(row[key]) for key in ("factor", "factor_top")]
    return [row["group"], row["run"], seeds, *means, *ratios, _losses(row) or "-"]


def _losses(row: Row) -> str:
    """The losses in the mean and in the largest requests, with a question mark where the interval includes 1."""
    marks = {"loses": "", "open": "?"}
    both = (("mean", row["standing"]), ("top", row["standing_top"]))
    return ", ".join(f"{name}{marks[standing]}" for name, standing in both if standing in marks)


_TABLES = (
    ("pages", "first view, ms (factor)", ("view mean", "view p50", "view p95"), ("mean", "p50", "p95")),
    ("pages", "first view with fonts, ms (factor)", ("fonts mean", "fonts p50", "fonts p95"), ("mean", "p50", "p95")),
    ("pages", "whole page, ms (factor)", ("whole mean", "whole p50", "whole p95"), ("mean", "p50", "p95")),
    ("pages", "bodies, KB (factor)", ("KB mean",), ("mean",)),
    ("pages", "visitors who left before the first view", ("left %",), ("%",)),
    ("line", "run", lines.MEASURES, ("small p50, ms (factor)", "small p95, ms (factor)", "of the line", "dropped", "found, s")),
)


def _tables(of: Row) -> list[tuple[list[str], list[list[str]]]]:
    """Tables of first views, whole pages and bodies where pages were loaded, and of the line where it is asked for."""
    tables = []
    for key, name, measures, columns in _TABLES:
        said = [row for row in of["rows"] if any(figure["measure"] in measures for figure in row.get(key, []))]
        rows = [[row["group"], row["run"], *(_cell(row, key, measure) for measure in measures)] for row in said]
        tables += [(["group", name, *columns], rows)] if rows else []
    return tables


def _cell(row: Row, key: str, measure: str) -> str:
    """A figure with its factor, or with the number of seeds that have it."""
    said = next((of for of in row[key] if of["measure"] == measure), None)
    if said is None:
        return "-"
    seeds = f" ({said['seeds']}/{row['used']})" if "seeds" in said else ""
    return texts.figure(said["value"].value) + (f" ({texts.with_ends(said['factor'])})" if said["factor"] else "") + seeds


def _remarks(of: Row) -> list[str]:
    remarks = [
        f"{row['group']} / {row['run']}: {_said(left_out, row['seeds'])}" for row in of["rows"] for left_out in row["left_out"]
    ]
    remarks += [
        f"{row['group']} / {row['run']}: {texts.lost(row['given_up'], row['requests'], row['completed_ms'])}"
        for row in of["rows"]
        if "given_up" in row
    ]
    few = {row["group"]: row for row in reversed(of["rows"]) if row["used"] > row["loads"]}
    for group in dict.fromkeys(row["group"] for row in of["rows"] if row["group"] in few):
        used, loads = few[group]["used"], few[group]["loads"]
        had = f"all {used} seeds had the same requests" if loads == 1 else f"{used} seeds had only {loads} different loads"
        said = "the intervals are of what machine and programs left to chance, and say nothing of other requests"
        remarks.append(f"{group}: {had}: {said}")
    if any(1 in (row["used"], row["pairs"]) for row in of["rows"]):
        remarks.append("1 seed has no interval: what another seed would give is not known")
    return remarks


def _said(left_out: Row, seeds: int) -> str:
    """`2 of 10 seeds void (3, 7): the server used 0.75 of a core, more than 0.5`."""
    those = left_out["seeds"]
    named = [str(seed) for seed in those[:_SEEDS_NAMED_MAX]] + (["…"] if len(those) > _SEEDS_NAMED_MAX else [])
    reason = f": {left_out['reason']}" if "reason" in left_out else ""
    return f"{len(those)} of {seeds} {'seed' if seeds == 1 else 'seeds'} {left_out['what']} ({', '.join(named)}){reason}"
