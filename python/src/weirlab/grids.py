"""Grids of simulations from a file: every policy at every load on every workload, each repeated with other seeds.

A cell is a combination of the values of `[grid]`, a run one of its seeds, and `weirlab sim` does it: the fields of a cell are its
flags. The same seeds are used in every cell, so under every policy the same jobs arrive. `docs/weirlab.md` has the file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
import os
import pathlib
import platform
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from . import texts
from ._files import whole, write_text
from .chapters import of_claims
from .claims import NOT_MEASURED, Claim, claims_of
from .experiments import RunError, sim
from .intervals import Estimate, mean
from .judgement import Found, claims_json, kept_claims
from .sweeps import sweep

Fields = dict[str, Any]
Metrics = dict[str, float]

_KINDS: dict[str, tuple[type, str]] = {
    "question": (str, "a text"),
    "model": (str, "a text"),
    "replications": (int, "a whole number"),
    "seed": (int, "a whole number"),
    "fixed": (dict, "a table: [fixed]"),
    "grid": (dict, "a table: [grid]"),
    "plot": (dict, "a table: [plot]"),
    "claim": (list, "a list of tables: [[claim]]"),
}
"""What the keys of an experiment are."""
_RESERVED = ("model", "replications", "seed")
_REPLICATIONS_MAX, _RUNS_MAX = 10_000, 50_000
_LEVEL = 0.99
# Fields of `weirlab sim --json` that are no result of the simulation.
_OF_THE_PROGRAM = ("spec", "simulated_jobs", "jobs_per_second", "cpu_seconds", "peak_rss_bytes")
_FILES = {"trace": "", "class_table": "", "dist": "trace:"}
"""Fields that name a file, and what stands before its name."""


class WrongFile(ValueError):
    """An experiment's file asks for what cannot be simulated."""


@dataclass(frozen=True)
class Cell:
    """A combination of the grid's values."""

    at: dict[str, Any]
    """The value on each axis, by which tables call it."""
    fields: Fields

    @property
    def labels(self) -> list[str]:
        """The same as text."""
        return [_label(value) for value in self.at.values()]


@dataclass(frozen=True)
class Plan:
    """An experiment's file."""

    file: pathlib.Path
    said: dict[str, Any]
    cells: list[Cell]
    seeds: list[int]
    claims: list[Claim]

    @property
    def y(self) -> list[str]:
        """The metrics of the table; `name` also stands for `name_mean`."""
        of: list[str] = self.said.get("plot", {}).get("y", ["response_time_ms", "slowdown_mean"])
        return of


@dataclass(frozen=True)
class Results:
    """The results of a plan's runs, for each cell in the order of the seeds."""

    plan: Plan
    metrics: list[list[Metrics]]
    theory: list[Metrics]
    """The values of closed forms, for each cell."""
    commit: str
    """That of the program that simulated."""


def read(file: str | os.PathLike[str], replications: int | None = None, only: Mapping[str, str] | None = None) -> Plan:
    """Reads an experiment, or the cells of it that have these values; WrongFile names the key that is wrong."""
    path = pathlib.Path(file)
    try:
        said = tomllib.loads(path.read_text())
        plan = _plan(path, said if replications is None else {**said, "replications": replications})
        return _restricted(plan, only or {})
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise WrongFile(f"{path}: {error}") from error


def _plan(path: pathlib.Path, said: dict[str, Any]) -> Plan:
    if "run" in said and "grid" not in said:
        raise ValueError("it has [[run]] and no [grid]: that is an experiment for weirlab run")
    _check_kinds(said)
    fixed, axes = dict(_flat(said.get("fixed", {}))), dict(_flat(said["grid"]))
    values = {name: _axis(name, of) for name, of in axes.items()}
    _check_fields(fixed, values)
    _check_plot(said.get("plot", {}))
    count, first = said.get("replications", 10), said.get("seed", 1)
    if not 1 <= count <= _REPLICATIONS_MAX:
        raise ValueError(f"replications: `{count}` is not from 1 to {_REPLICATIONS_MAX}")
    if math.prod(map(len, values.values())) * count > _RUNS_MAX:
        sizes = " x ".join(f"{len(of)} {name}" for name, of in values.items())
        raise ValueError(f"grid: {sizes} x {count} replications are more than {_RUNS_MAX} runs: make two experiments of it")
    cells = []
    for combination in itertools.product(*values.values()):
        fields = {key: value for _, sets in combination for key, value in sets.items()}
        at = {name: name_of for name, (name_of, _) in zip(values, combination, strict=True)}
        cells.append(Cell(at, {**fixed, **fields}))
    plan = Plan(path, said, cells, list(range(first, first + count)), claims_of({"claim": said.get("claim", [])}))
    for claim in plan.claims:
        for key, at in (("of", claim.of), ("over", claim.of if claim.over is None else claim.over)):
            if not isinstance(at, dict):
                raise ValueError(f"claim `{claim.text}`: {key} is `{_short(at)}`: write a table of the grid's values")
            _place(plan, claim, at)
    return plan


def _restricted(plan: Plan, only: Mapping[str, str]) -> Plan:
    """Returns the plan with the cells that have these values (`claims`: those of claims) and the claims about them alone."""
    values = {name: value for name, value in only.items() if name != "claims"}
    for name, value in values.items():
        if name not in plan.cells[0].at:
            raise ValueError(f"--only: `{name}` is not in [grid]; there is {', '.join(plan.cells[0].at)}")
        if all(_label(cell.at[name]) != value for cell in plan.cells):
            raise ValueError(f"--only: `{value}` is no value of grid.{name}")

    def is_left(at: Mapping[str, Any]) -> bool:
        return all(_label(at[name]) == value for name, value in values.items())

    claims = [of for of in plan.claims if is_left(of.of) and (of.over is None or is_left(of.over))]
    named = {_place(plan, of, at) for of in claims for at in (of.of, of.over or of.of)}
    cells = [cell for at, cell in enumerate(plan.cells) if is_left(cell.at) and (at in named or "claims" not in only)]
    if not cells:
        raise ValueError("--only: no claim is about these cells")
    return dataclasses.replace(plan, cells=cells, claims=claims)


def _check_kinds(said: Mapping[str, Any]) -> None:
    """The keys are known, and of the right kind."""
    for key, value in said.items():
        if key not in _KINDS:
            raise ValueError(f"unknown key `{key}`; there are {', '.join(_KINDS)}")
        kind, words = _KINDS[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"{key}: `{_short(value)}`: write {words}")
    for key in ("question", "model", "grid"):
        if key not in said:
            raise ValueError(f"it has no `{key}`")
    if said.get("seed", 1) < 0:
        raise ValueError(f"seed: `{said['seed']}` is below 0")
    for claim in said.get("claim", []):
        if not isinstance(claim, dict):
            raise ValueError(f"claim: `{_short(claim)}`: write a table: [[claim]]")


def _check_plot(plot: Mapping[str, Any]) -> None:
    for key in plot:
        if key != "y":
            raise ValueError(f"plot: unknown key `{key}`; there is y")
    if not isinstance(y := plot.get("y", []), list) or not all(isinstance(name, str) for name in y):
        raise ValueError(f"plot.y: `{_short(y)}`: write a list of names of metrics")


def _short(value: Any) -> str:
    """A wrong value, as far as it is shown."""
    return str(value)[:60]


def _flat(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Takes the tables in a table apart, as a dot in a key means a table: `internet.loss`."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{inner}", of) for inner, of in _flat(value))
        else:
            yield name, value


def _axis(name: str, values: Any) -> list[tuple[Any, Fields]]:
    """The values of an axis, each with what it sets: its own field, or those of a table, which goes by its `name`."""
    if not isinstance(values, list):
        raise ValueError(f"grid.{name}: a value of the grid is a list; what every run has stands in [fixed]")
    if not values:
        raise ValueError(f"grid.{name}: the list is empty: give at least one value")
    found: list[tuple[Any, Fields]] = []
    for value in values:
        if isinstance(value, dict):
            if not isinstance(value.get("name"), (str, int, float)):
                raise ValueError(f"grid.{name}: a table in the grid has a `name`, a text or number that stands for it")
            found.append((value["name"], dict(_flat({key: of for key, of in value.items() if key != "name"}))))
        else:
            found.append((value, {name: value}))
    labels = [_label(of) for of, _ in found]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"grid.{name}: `{label}` is given twice")
    return found


def _check_fields(fixed: Fields, axes: Mapping[str, list[tuple[Any, Fields]]]) -> None:
    """Each field is set in one place only, and is a value that a simulation can have."""
    places = {name: "[fixed]" for name in fixed}
    every = list(fixed.items())
    for axis, values in axes.items():
        for name in dict.fromkeys(key for _, sets in values for key in sets):
            if name in places:
                raise ValueError(f"grid.{axis}: `{name}` is set in {places[name]} too: leave one of them out")
            places[name] = f"grid.{axis}"
        every += [(key, of) for _, sets in values for key, of in sets.items()]
    for name, place in places.items():
        if name in _RESERVED:
            raise ValueError(f"{name}: it is set at the top of the file, not in {place}")
    for name, value in every:
        for of in value if isinstance(value, list) else [value]:
            if not isinstance(of, (str, bool, int, float)) or (isinstance(of, float) and not math.isfinite(of)):
                raise ValueError(f"{name}: `{of}` is no text, boolean or finite number")


def _label(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _place(plan: Plan, claim: Claim, at: Mapping[str, Any]) -> int:
    """The one cell that has these values."""
    axes = plan.cells[0].at
    for name in at:
        if name not in axes:
            raise ValueError(f"claim `{claim.text}`: `{name}` is not in [grid]")
    for name in axes:
        if name not in at:
            raise ValueError(f"claim `{claim.text}`: it says no {name}: write one of its values")
        if all(_label(cell.at[name]) != _label(at[name]) for cell in plan.cells):
            raise ValueError(f"claim `{claim.text}`: `{_label(at[name])}` is no value of grid.{name}")
    wanted = [_label(at[name]) for name in axes]
    return next(place for place, cell in enumerate(plan.cells) if cell.labels == wanted)


def conduct(
    plan: Plan,
    out: str | os.PathLike[str],
    *,
    trace: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    engine: str = "local",
    progress: Callable[[int, int], None] | None = None,
) -> Results:
    """Does the runs that are not yet in the folder `out`, and reads all. `trace` is read wherever the experiment names one.

    Raises WrongFile if a cell cannot be simulated, before any run, or if a metric is unknown, after a run of each cell, and
    SweepError as `weirlab.sweep`.
    """
    folder, model = str(plan.file.parent.resolve()), plan.said["model"]
    given = None if trace is None else os.path.abspath(trace)
    said = [_checked(plan, cell, flags(model, cell.fields, folder, given)) for cell in plan.cells]
    contents = [_files(cell.fields, folder, given) for cell in plan.cells]
    # Runs with other contents of files, and of other sources of the simulator, are other runs.
    cells = [json.dumps({"fields": cell.fields, "files": of}) for cell, of in zip(plan.cells, contents, strict=True)]
    fixed = {"model": model, "folder": folder, "trace": given, "digest": said[0]["digest"]}

    def measure(seeds: list[int]) -> list[dict[str, Any]]:
        grid: dict[str, list[Any]] = {"cell": cells, "seed": seeds}
        to = pathlib.Path(out) / "runs"
        runs = sweep(simulated, grid, to, fixed=fixed, workers=workers, engine=engine, progress=progress)
        return [json.loads(text) for text in runs["metrics"].to_pylist()]

    # The names of metrics are known once each cell has run once.
    _check_metrics(plan, measure(plan.seeds[:1]))
    measured, count = measure(plan.seeds), len(plan.seeds)
    groups = [measured[at : at + count] for at in range(0, len(measured), count)]
    metrics = [[run["metrics"] for run in group] for group in groups]
    return Results(plan, metrics, [of["theory"] for of in said], said[0]["commit"])


def _checked(plan: Plan, cell: Cell, of: Fields) -> dict[str, Any]:
    try:
        return sim(check=True, seed=1, **of)
    except RunError as error:
        reason = str(error).rpartition("exit status ")[2].partition(": ")[2].removeprefix("weirlab: ")
        raise WrongFile(f"{plan.file}: {reason}") from error


def _check_metrics(plan: Plan, measured: Iterable[Mapping[str, Any]]) -> None:
    """Raises WrongFile with the names of all metrics if the plan asks for one that no run has."""
    known = sorted({name for run in measured for name in run["metrics"]})
    of_claims = [(f"claim `{of.text}`", of.value) for of in plan.claims]
    for where, name in [("plot.y", name) for name in plan.y] + of_claims:
        if name not in known and f"{name}_mean" not in known:
            raise WrongFile(f"{plan.file}: {where}: it has no `{name}`, only {', '.join(known)}")


def simulated(cell: str, seed: int, model: str, folder: str, trace: str | None, digest: str) -> dict[str, str]:
    """Does a run, which is a point of the sweep. Its result depends on flags, digest and the files' contents."""
    said = sim(seed=seed, **flags(model, json.loads(cell)["fields"], folder, trace))
    of = {name: value for name, value in said.items() if name not in _OF_THE_PROGRAM}
    return {"metrics": json.dumps({"metrics": dict(_numbers("", of))})}


def flags(model: str, fields: Fields, folder: str, trace: str | None) -> Fields:
    """The flags of `weirlab sim` for a cell. A field with a dot is an assignment of `--set`. Files lie in `folder`."""
    found: Fields = {"model": model}
    settings = [f"{name}={_label(value)}" for name, value in fields.items() if "." in name]
    for name, value in fields.items():
        if "." not in name:
            found[name] = [_label(of) for of in value] if isinstance(value, list) else value if value is True else _label(value)
            if value is False:
                del found[name]
    for name, prefix, file in _named(fields):
        found[name] = prefix + (trace or os.path.join(folder, file))
    if settings:
        found["set"] = ",".join([found["set"]] * ("set" in found) + settings)
    # Flags have the policy of a table of classes.
    return {name: of for name, of in found.items() if name != "policy" or "class_table" not in found}


def _named(fields: Fields) -> Iterator[tuple[str, str, str]]:
    """The files that a run reads: the field that names one, what stands before the name, and the name."""
    for name, prefix in _FILES.items():
        if isinstance(fields.get(name), str) and fields[name].startswith(prefix):
            yield name, prefix, fields[name].removeprefix(prefix)


def _files(fields: Fields, folder: str, trace: str | None) -> dict[str, str]:
    """A digest of what is in each file that a run reads."""
    paths = {name: pathlib.Path(trace or os.path.join(folder, file)) for name, _, file in _named(fields)}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest()[:32] for name, path in paths.items()}


def _numbers(prefix: str, value: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Metrics go by the names of the objects that hold them, joined by `_`; those of `by_class` by their class."""
    for name, of in value.items():
        if name == "by_class":
            for group in of:
                inner = {key: number for key, number in group.items() if key != "class"}
                yield from _numbers(f"{prefix}class{group['class']}_", inner)
        elif isinstance(of, dict):
            yield from _numbers(f"{prefix}{name}_", of)
        elif isinstance(of, (int, float)) and not isinstance(of, bool):
            yield f"{prefix}{name}", float(of)


def _named_metric(of: Mapping[str, Any], name: str) -> Any:
    """The metric of this name, or else of this name with `_mean` behind it."""
    return of.get(name, of.get(f"{name}_mean"))


def estimates(runs: list[Metrics]) -> dict[str, Estimate]:
    """The mean of each metric over the seeds that have it, with its 99 % interval."""
    names = sorted({name for run in runs for name in run})
    return {name: mean((run[name] for run in runs if name in run), _LEVEL) for name in names}


def found(results: Results, claim: Claim) -> Estimate | None:
    """The estimate of a claim's figure over the seeds, or None. A ratio is that of two runs with the same seed."""
    of = [_named_metric(run, claim.value) for run in results.metrics[_place(results.plan, claim, claim.of)]]
    if claim.over is not None:
        over = [_named_metric(run, claim.value) for run in results.metrics[_place(results.plan, claim, claim.over)]]
        of = [None if base is None or top is None or not base else top / base for top, base in zip(of, over, strict=True)]
    return None if None in of else mean(of, _LEVEL)


def findings(results: Results) -> list[Found]:
    """The verdict on each claim."""
    of, count = [(claim, found(results, claim)) for claim in results.plan.claims], len(results.plan.seeds)
    return [
        Found(claim, "", None, 0, NOT_MEASURED) if value is None else Found(claim, "", value, count, *claim.judged(value, count))
        for claim, value in of
    ]


def write(results: Results, out: str | os.PathLike[str]) -> None:
    """Writes `runs.parquet`, `table.md`, `sweep.json`, and of claims `claims.json`."""
    folder, plan = pathlib.Path(out), results.plan
    with whole(folder / "runs.parquet") as part:
        pa.parquet.write_table(_runs(results), part, compression="zstd")
    write_text(folder / "table.md", table(results))
    if plan.claims:
        write_text(folder / "claims.json", claims_json(kept_claims(plan.file.stem, findings(results))))
    said = {"name": plan.file.stem, "question": plan.said["question"], "model": plan.said["model"]}
    said |= {"runs": len(plan.cells) * len(plan.seeds), "seeds": plan.seeds, "commit": results.commit}
    said |= {"kernel": platform.release(), "command": sys.argv}
    write_text(folder / "sweep.json", json.dumps(said, indent=2, ensure_ascii=False) + "\n")


def _axis_columns(results: Results) -> dict[str, pa.Array]:
    """The value of each axis, for each seed of each cell."""
    columns = {}
    for name in results.plan.cells[0].at:
        values = [cell.at[name] for cell in results.plan.cells]
        is_number = all(isinstance(of, (int, float)) and not isinstance(of, bool) for of in values)
        column = [float(of) for of in values] if is_number else [_label(of) for of in values]
        repeated = [of for of in column for _ in results.plan.seeds]
        columns[name] = pa.array(repeated, pa.float64() if is_number else pa.string())
    return columns


def _runs(results: Results) -> pa.Table:
    """The table of runs. A row has the axes, every other field, the seed and every metric of a run."""
    plan = results.plan
    columns = list(_axis_columns(results).items())
    others = sorted({name for cell in plan.cells for name in cell.fields} - set(plan.cells[0].at))
    for name in others:
        texts = [None if name not in cell.fields else _label(cell.fields[name]) for cell in plan.cells for _ in plan.seeds]
        columns.append((name, pa.array(texts, pa.string())))
    columns.append(("seed", pa.array(plan.seeds * len(plan.cells), pa.int64())))
    every = [run for cell in results.metrics for run in cell]
    for name in sorted({name for run in every for name in run}):
        columns.append((name, pa.array([run.get(name) for run in every], pa.float64())))
    return pa.table([of for _, of in columns], _distinct(name for name, _ in columns))


def _distinct(names: Iterable[str]) -> list[str]:
    """A field and a metric may have one name: what stands further left keeps it, the other is then called `measured_jobs`."""
    taken: list[str] = []
    for name in names:
        while name in taken:
            name = f"measured_{name}"
        taken.append(name)
    return taken


def table(results: Results) -> str:
    """The results as Markdown: a row per cell, a column per metric of `plot.y`, and the claims with their verdicts."""
    plan, count = results.plan, len(results.plan.seeds)
    text = f"{plan.said['question']}\n\nModel {plan.said['model']}, "
    text += "one run: no interval.\n\n" if count == 1 else f"mean \N{PLUS-MINUS SIGN} 99 % over {count} runs.\n\n"
    foretold = [name for name in plan.y if any(_named_metric(of, name) is not None for of in results.theory)]
    head = [column for name in plan.y for column in ([name, "theory"] if name in foretold else [name])]
    rows = []
    for cell, runs, theory in zip(plan.cells, results.metrics, results.theory, strict=True):
        of, row = estimates(runs), list(cell.labels)
        for name in plan.y:
            estimate, said = _named_metric(of, name), _named_metric(theory, name)
            row.append("-" if estimate is None else texts.plus_minus(estimate))
            row += ["-" if said is None else texts.figure(said)] if name in foretold else []
        rows.append(row)
    text += texts.markdown([*plan.cells[0].at, *head], rows)
    return text + ("\n" + of_claims(findings(results), "found ± 99 %") if plan.claims else "")
