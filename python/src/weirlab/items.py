"""All that the five papers claim: every item of `docs/reproduction/items.toml` with the claims that name it and what became of
them, a table at the end of each paper's page, and counts on `items.md`. Of these, people write nothing but the items themselves.

Figures come of `results/*/claims.json` (`python -m weirlab report --claims`), the newest folder first; the range that a figure is
judged by comes of the experiment's file. So another rule needs no other run.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import tomllib
from dataclasses import dataclass, field
from typing import Any

from .claims import DECIDED, LARGER, NOT_MEASURED, REFUTED, REPRODUCED, TRACES_MIN, UNDECIDED, VERDICTS, Claim, claims
from .conditions import number
from .intervals import Estimate
from .texts import figure, markdown

_STATES = ("built", REPRODUCED, LARGER, REFUTED, UNDECIDED, NOT_MEASURED, "by hand", "missing", "all")
"""The states of an item, in the order of the columns of the table of all papers."""
Kept = dict[str, Any]


@dataclass(frozen=True)
class Declared:
    """A claim of an experiment's file."""

    experiment: str
    claim: Claim

    @property
    def is_simulated(self) -> bool:
        """True if the claim is about cells of a sweep."""
        return isinstance(self.claim.of, dict)

    def judge(self, kept: Kept) -> str:
        """The verdict on a figure that a result keeps."""
        if said := kept.get("not_judged"):
            return next((verdict for verdict in VERDICTS if verdict.replace(" ", "-") == said), NOT_MEASURED)
        if kept.get("value") is None:
            return NOT_MEASURED
        low, high = kept.get("ends") or (None, None)
        return self.claim.verdict(Estimate(kept["value"], low, high), kept["traces"])


@dataclass(frozen=True)
class Papers:
    """The items, the claims, and what results keep of them."""

    items: list[dict[str, Any]]
    claims: list[Declared]
    kept: dict[tuple[str, str], list[tuple[Kept, str]]] = field(default_factory=dict)
    """By experiment and text: the figure of each point, with the folder of the newest result that has it."""
    tables: dict[str, str] = field(default_factory=dict)
    """Experiments of which a table of one trace is kept, and where."""

    def of_item(self, item: int) -> list[Declared]:
        """The claims that name an item."""
        return [of for of in self.claims if item in of.claim.items]

    def judged(self, of: Declared) -> list[tuple[Kept, str, str]]:
        """The kept figure of a claim at each point, with its verdict and the folder of its result."""
        kept = self.kept.get((of.experiment, of.claim.text), [])
        return [(row, of.judge(row), folder) for row, folder in kept if of.claim.point in (None, row.get("point", ""))]

    def verdict(self, of: Declared) -> str:
        """The verdict on a claim over all its points: the worst, with undecided before reproduced."""
        verdicts = [verdict for _, verdict, _ in self.judged(of)]
        state = state_of(verdicts)
        return UNDECIDED if not verdicts and of.experiment in self.tables else state

    def state(self, item: dict[str, Any]) -> str:
        """The state of an item. Simulated claims decide it only if no run on a kernel says anything of it."""
        for key, state in (("tests", "built"), ("by_hand", "by hand"), ("gap", "missing")):
            if key in item:
                return state
        verdicts = [(of.is_simulated, self.verdict(of)) for of in self.of_item(item["number"])]
        of_kernel = [verdict for is_simulated, verdict in verdicts if not is_simulated]
        state = state_of(of_kernel)
        return state_of([verdict for _, verdict in verdicts]) if state == NOT_MEASURED else state

    def _rows(self, item: dict[str, Any]) -> list[list[str]]:
        """A row for each figure that is kept of an item's claims, and one for all other claims of an experiment."""
        shown = item.get("by_hand") or item.get("gap")
        rows = [["", shown, "", ""]] if shown else []
        if tests := item.get("tests"):
            rows.append(["", f"tests in [{tests}](../../{tests})", "", ""])
        rest: list[str] = []
        for of in self.of_item(item["number"]):
            found = self.judged(of)
            rows += [[_experiment(of, kept), _claim(of.claim), _figure(of, kept, at), verdict] for kept, verdict, at in found]
            rest += [] if found else [of.experiment]
        for name in dict.fromkeys(rest):
            table = f"one trace at most ([table](../../{self.tables[name]}))" if name in self.tables else "-"
            verdict = UNDECIDED if name in self.tables else NOT_MEASURED
            rows.append([f"`{name}`", f"{rest.count(name)} claim{'' if rest.count(name) == 1 else 's'}", table, verdict])
        head = [str(item["number"]), f"{item['what']}: **{self.state(item)}**"]
        return [[*(("", "") if at else head), *row] for at, row in enumerate(rows)]

    def pages(self, project: str | os.PathLike[str]) -> dict[pathlib.Path, str]:
        """`items.md`, and each paper's page with its items at the end."""
        folder = pathlib.Path(project) / "docs/reproduction"
        pages = {folder / "items.md": self._counts()}
        for paper in dict.fromkeys(item["paper"] for item in self.items):
            rows = [row for item in self.items if item["paper"] == paper for row in self._rows(item)]
            table = markdown(("#", "item", "experiment", "claim", "found", "verdict"), rows)
            by_hand = (folder / f"{paper}.md").read_text().partition(_HEADING)[0].rstrip()
            pages[folder / f"{paper}.md"] = f"{by_hand}\n\n{_HEADING}{table}"
        return pages

    def _counts(self) -> str:
        papers = list(dict.fromkeys(item["paper"] for item in self.items))
        rows = []
        for paper in [*papers, "all"]:
            of = [self.state(item) for item in self.items if paper in ("all", item["paper"])]
            name = paper if paper == "all" else f"[{paper}]({paper}.md#all-items)"
            rows.append([name, *(str(len(of) if state == "all" else of.count(state)) for state in _STATES)])
        declared = [of for of in self.claims if of.claim.items]
        verdicts = [[self.verdict(of) for of in declared if of.is_simulated == kind] for kind in (False, True)]
        kernel, simulator = (f"{sum(verdict in DECIDED for verdict in of)} of {len(of)}" for of in verdicts)
        said = f"{kernel} declared claims about a kernel are decided, and {simulator} about a simulator."
        return f"{_ITEMS}{markdown(['paper', *_STATES], rows)}\n{said}{self._widths(declared)}\n"

    def _widths(self, declared: list[Declared]) -> str:
        """Half-widths of intervals as parts of their figures, and traces: of all, and of headline rows, an experiment's first."""
        rows = [(of, row) for of in declared for row, _, _ in self.judged(of)]
        heads = list({of.experiment: (of, row) for of, row in reversed(rows)}.values())
        kernel = [row["traces"] for of, row in rows if not of.is_simulated]
        text = f" Of {len(kernel)} figures of a kernel {sum(of >= 10 for of in kernel)} are of ten traces or more"
        text += f", {sum(5 <= of < 10 for of in kernel)} of five to nine. An interval's half-width, as a part of its figure:\n"
        kinds = (("all figures", rows), ("of a kernel", [of for of in rows if not of[0].is_simulated]), ("headline rows", heads))
        for name, those in kinds:
            ends = [(row["ends"], row["value"]) for _, row in those if row.get("ends") and row.get("value")]
            wide = sorted((high - low) / 2 / abs(value) for (low, high), value in ends)
            narrow = sum(of <= 0.1 for of in wide)
            text += f"\n- {name}: at most 10 % in {narrow} of {len(wide)}"
            text += f" ({100 * narrow / len(wide):.0f} %), median {100 * wide[len(wide) // 2]:.1f} %" if wide else ""
        return text


_HEADING = """## All items

Generated by `python -m weirlab items`, as [items.md](items.md) says.

"""
_ITEMS = f"""# All items of the five papers

This page and the last section of each paper's page are generated by `python -m weirlab items` of [the items](items.toml), the
claims in `experiments/` and `claims.json` of the [kept results](../../results/README.md); a test holds them to that.
[Rules](verdicts.md#rules).

A claim is decided by its 95 % interval over traces with requests of their own, {TRACES_MIN} at least; a simulated one by the
99 % interval over its seeds. One trace decides nothing. An item is refuted if one of its claims is, and reproduced if all are,
at every point that was run. Simulated claims decide an item only if no run on a kernel says anything of it.

"""


def _experiment(of: Declared, kept: Kept) -> str:
    point = kept.get("point") or of.claim.point
    return f"`{of.experiment}`{f' [{point}]' if point else ''}{', simulated' if of.is_simulated else ''}"


def _claim(claim: Claim) -> str:
    if claim.least is not None and claim.most is not None:
        size = f"{number(claim.least)} to {number(claim.most)}"
    else:
        size = f"at most {number(claim.most)}" if claim.most is not None else f"at least {number(claim.least or 0)}"
    return f"{claim.text} ({size})"


def _figure(of: Declared, kept: Kept, folder: str) -> str:
    """The figure with its interval: three significant digits, or as many as half of the interval needs for one of its own."""
    ends: list[float] = kept.get("ends", [])
    half = (ends[1] - ends[0]) / 2 if ends else 0.0
    places = max(math.ceil(-math.log10(half)), 0) if half > 0 else 0
    value, *said = (max(figure(each), f"{each:.{places}f}", key=len) for each in (kept["value"], *ends))
    count, unit = kept["traces"], "seed" if of.is_simulated else "trace"
    source = f"[{count} {unit}{'' if count == 1 else 's'}](../../results/{folder})"
    return f"{value}{f' ({said[0]} to {said[1]})' if said else ''}, {source}"


def state_of(verdicts: list[str]) -> str:
    """Refuted if one verdict is; undecided if one is; reproduced or larger if all are; else not measured."""
    if REFUTED in verdicts:
        return REFUTED
    if verdicts and all(verdict in DECIDED for verdict in verdicts):
        return LARGER if LARGER in verdicts else REPRODUCED
    return UNDECIDED if any(verdict in (*DECIDED, UNDECIDED) for verdict in verdicts) else NOT_MEASURED


def read(project: str | os.PathLike[str]) -> Papers:
    """The items, the claims and what was kept below the folder of the project.

    Raises ValueError if the page would be untrue: if an item stands twice or has nothing, or a claim names none.
    """
    root = pathlib.Path(project)
    items = tomllib.loads((root / "docs/reproduction/items.toml").read_text())["item"]
    files = [
        file for folder in _folders(root / "experiments") if folder.name[:1].isdigit() for file in sorted(folder.glob("*.toml"))
    ]
    papers = Papers(items, [Declared(file.stem, claim) for file in files for claim in claims(file)])
    results = root / "results"
    for folder in sorted(of for top in _folders(results) for of in (top, *_folders(top))):
        _add_result(papers, folder, folder.relative_to(results).as_posix())
    check(papers, root)
    return papers


def _folders(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(of for of in folder.iterdir() if of.is_dir())


def _add_result(papers: Papers, folder: pathlib.Path, name: str) -> None:
    """The newest folder that has a claim at a point decides it there: dates begin their names."""
    file = folder / "claims.json"
    for row in json.loads(file.read_text()) if file.is_file() else []:
        if row.get("value") is not None:
            older = papers.kept.setdefault((row["experiment"], row["text"]), [])
            older[:] = [of for of in older if of[0].get("point", "") != row.get("point", "")] + [(row, name)]
    for table in sorted(folder.glob("*.md")):
        papers.tables.setdefault(table.stem, f"results/{name}/{table.name}")


def check(papers: Papers, root: pathlib.Path) -> None:
    """Raises ValueError if the page would be untrue."""
    for at, item in enumerate(papers.items, 1):
        name = f"items.toml: item {item['number']}"
        if item["number"] != at:
            raise ValueError(f"{name} is the one at place {at}: they count up from 1")
        if "tests" in item and not (root / item["tests"]).exists():
            raise ValueError(f"{name}: there is no {item['tests']}")
        said = [key for key in ("tests", "by_hand", "gap") if key in item]
        has_claims = bool(papers.of_item(at))
        if not said and not has_claims:
            raise ValueError(f"{name} has no claim: write tests, by_hand or gap")
        if len(said) > 1 or (said and has_claims and said != ["tests"]):
            raise ValueError(f"{name} has more than one of claims, tests, by_hand and gap")
    last = len(papers.items)
    for of in papers.claims:
        if any(not 1 <= item <= last for item in of.claim.items):
            raise ValueError(f"{of.experiment}.toml: `{of.claim.text}`: items.toml has items 1 to {last}")
