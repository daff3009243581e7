"""The records of runs: their folders, their requests, and the response times that kept results have of them."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from . import _weirlab
from ._columns import Numbers, to_arrow
from ._files import whole

MANIFEST = "manifest.json"
RESPONSES = "responses"

_KINDS = {"status": pa.uint16(), "group": pa.uint32(), "client": pa.uint32()}
# The file of responses where nothing varies.
_NO_POINT = "all"
# The head of a response that none came for, as the load counts it.
_HEAD_BYTES_NOMINAL = 240


@dataclass(frozen=True)
class Responses:
    """The response times of a run, one for each request in order of arrival, and what else was kept of them."""

    size_bytes: Numbers
    ms: npt.NDArray[np.float64]
    """Until the last byte, or what the request waited if it did not complete."""
    is_complete: npt.NDArray[np.bool_]
    head_bytes: Numbers | None = None
    """The size of the response's head, which is 0 if no response came."""
    arrival_ns: Numbers | None = None
    arrival_s: Numbers | None = None
    """The second of the run in which it was due."""
    first_byte_ms: npt.NDArray[np.float64] | None = None
    """Until the first byte, or what the request waited if none came."""
    body_bytes: Numbers | None = None
    """Bytes that came."""
    group: Numbers | None = None
    """The group of clients, by its place in the manifest's `clients`."""


@dataclass(frozen=True)
class Run:
    """A run of an experiment: one server and policy at one point."""

    point: str
    """Its point with the seed, `rho-0.8_seed-101`; empty where nothing varies."""
    name: str
    path: pathlib.Path
    """Its folder; of a kept result the file of its point."""
    manifest: dict[str, Any] = field(default_factory=dict, repr=False)
    """The manifest, which says how the run was made. All runs of a kept result share the manifest of one."""

    @property
    def group(self) -> str:
        """Its point without the seed."""
        return without_seed(self.point)

    @property
    def seed(self) -> int:
        """That in the name of its point, else that of its manifest."""
        word = seed_of(self.point)
        return int(word.removeprefix("seed-") if word else self.manifest.get("seed", 0))

    @property
    def environment(self) -> dict[str, str]:
        """Further facts about the run from its manifest, by name."""
        said: dict[str, str] = self.manifest.get("environment", {})
        return said

    def pages(self) -> list[dict[str, int]]:
        """The pages that it loaded, if it did."""
        file = self.path / "pages.json"
        pages: list[dict[str, int]] = _json(file) if file.exists() else []
        return pages

    def records(self) -> pa.Table:
        """The table of requests, a row for each in order of arrival."""
        if self.path.is_dir():
            return records(self.path)
        raise ValueError(f"{self.path}: a kept result has response times alone; call responses()")

    def samples(self) -> pa.Table | None:
        """The samples that were measured from outside the server during the run, or None."""
        path = self.path / "samples.parquet"
        return pa.parquet.read_table(path) if path.exists() else None

    @property
    def void(self) -> str | None:
        """The reason why the run may not be used, as `weirlab run` wrote it into the manifest, or None."""
        said: str | None = self.manifest.get("void")
        return said

    @property
    def given_up(self) -> int:
        """Connections that the server's kernel gave up in silence, if the run has its own manifest."""
        return int(self.environment.get("given_up_by_kernel", 0)) if self.path.is_dir() else 0

    def responses(self) -> Responses:
        """Its response times."""
        return _of_records(self.records()) if self.path.is_dir() else _of_kept(self.path, self.name)


def without_seed(point: str) -> str:
    """The name of a point without its seed: `rho-0.8` of `rho-0.8_seed-101`."""
    return "_".join(word for word in point.split("_") if not _is_seed(word))


def seed_of(point: str) -> str | None:
    """The seed in the name of a point: `seed-101` of `rho-0.8_seed-101`."""
    return next(filter(_is_seed, point.split("_")), None)


def _is_seed(word: str) -> bool:
    return word.startswith("seed-") and word[len("seed-") :].isdigit()


def records(path: str | os.PathLike[str]) -> pa.Table:
    """Reads what a run recorded, from its folder, or from an access log of `weir serve --log-format json`.

    The table has a row for each request, in order of arrival. `docs/weirlab.md` has the columns.
    """
    at = pathlib.Path(path)
    if at.is_file():
        columns, outcomes, classes = _weirlab.access_log(os.fspath(at))
        of = {name: to_arrow(column, _KINDS.get(name)) for name, column in columns.items()}
        of["outcome"] = pa.DictionaryArray.from_arrays(of["outcome"].cast(pa.int8()), outcomes).cast(pa.string())
        return pa.table(of).replace_schema_metadata({"classes": json.dumps(classes)})
    file = at / "records.parquet"
    if not file.exists():
        raise FileNotFoundError(f"{at}: no records.parquet: no run is here")
    try:
        return pa.parquet.read_table(file).sort_by("job")
    except pa.ArrowInvalid as error:
        raise ValueError(f"{file}: {error}") from error


def runs(folder: str | os.PathLike[str]) -> list[Run]:
    """All finished runs in a folder: of one run, of an experiment (`weirlab run --out`), or of a kept result."""
    at = pathlib.Path(folder)
    if not at.is_dir():
        raise FileNotFoundError(f"{at}: no folder is here")
    if (at / RESPONSES).is_dir():
        return kept_runs(at)
    found = []
    for manifest in sorted(at.glob(f"**/{MANIFEST}")):
        of_run = manifest.parent
        if has_records(of_run):
            found.append(run_in(of_run, of_run.parent.name if of_run != at and of_run.parent != at else ""))
    return found


def has_records(folder: pathlib.Path) -> bool:
    """Returns whether the folder has records of a run, finished or not."""
    return (folder / "records.parquet").exists()


def run_in(folder: pathlib.Path, point: str) -> Run:
    """The finished run in this folder."""
    said = _json(folder / MANIFEST)
    return Run(point, said["name"], folder, said)


def keep(folder: str | os.PathLike[str], result: str | os.PathLike[str]) -> list[pathlib.Path]:
    """Writes the response times of an experiment's runs into a result that is kept: RESULT/responses/POINT.parquet.

    A row is a request in order of arrival: its size, the least head that it had, the second in which it was due, its group of
    clients where there are several, and for each run a column `RUN_us` with the response time in microseconds, negative where it
    did not complete. Runs that had other requests than their neighbours, as clients make who wait for their answers, have a file
    each: RESULT/responses/RUN/POINT.parquet. Each file takes its name once it is whole.
    """
    out = pathlib.Path(result) / RESPONSES
    out.mkdir(parents=True, exist_ok=True)
    points: dict[str, dict[str, Responses]] = {}
    for run in runs(folder):
        points.setdefault(run.point or _NO_POINT, {})[run.name] = run.responses()
    if not points:
        raise ValueError(f"{folder}: no finished run is here")
    written = []
    for point, of in sorted(points.items()):
        together = {out: of} if _are_alike(list(of.values())) else {out / name: {name: run} for name, run in of.items()}
        written += [_write_point(folder / f"{point}.parquet", runs_of) for folder, runs_of in together.items()]
    return written


def _are_alike(runs_of: list[Responses]) -> bool:
    """Returns whether the runs had the same requests."""
    return all(np.array_equal(runs_of[0].size_bytes, other.size_bytes) for other in runs_of[1:])


def _write_point(path: pathlib.Path, runs_of: dict[str, Responses]) -> pathlib.Path:
    path.parent.mkdir(exist_ok=True)
    first = next(iter(runs_of.values()))
    columns = {"size_bytes": pa.array(first.size_bytes).cast(_width(first.size_bytes))}
    if first.group is not None and first.group.max(initial=0) > 0:
        columns["group"] = pa.array(first.group).cast(pa.int32())
    heads = least_heads(runs_of.values())
    if heads is not None:
        columns["head_bytes"] = pa.array(heads).cast(pa.int32())
    seconds = [run.arrival_s for run in runs_of.values() if run.arrival_s is not None]
    if len(seconds) == len(runs_of) and all(np.array_equal(seconds[0], of) for of in seconds):
        columns["arrival_s"] = pa.array(seconds[0]).cast(pa.int32())
    for name, run in sorted(runs_of.items()):
        us = np.maximum(np.rint(run.ms * 1e3), 1).astype(np.int64)
        signed = np.where(run.is_complete, us, -us)
        columns[f"{name}_us"] = pa.array(signed).cast(_width(us))
    split = {name: "BYTE_STREAM_SPLIT" for name in columns}
    how = {"compression": "zstd", "compression_level": 19, "use_dictionary": False, "column_encoding": split}
    with whole(path) as part:
        pa.parquet.write_table(pa.table(columns), part, **how)
    return path


def _width(values: npt.NDArray[Any]) -> pa.DataType:
    """The lesser kind of numbers that holds these."""
    return pa.int32() if values.max(initial=0) < 2**31 else pa.int64()


def least_heads(runs_of: Iterable[Responses]) -> Numbers | None:
    """The least head that any of these runs of the same requests had for each; None where none were kept."""
    heads = [of.head_bytes for of in runs_of if of.head_bytes is not None]
    if not heads:
        return None
    none = np.iinfo(np.uint64).max
    least = np.min([np.where(of == 0, none, of) for of in heads], axis=0)
    return np.where(least == none, np.uint64(_HEAD_BYTES_NOMINAL), least).astype(np.uint64)


def _of_records(table: pa.Table) -> Responses:
    def numbers(name: str) -> Numbers | None:
        if name not in table.column_names or table[name].null_count:
            return None
        return np.asarray(table[name].to_numpy()).astype(np.uint64)

    ends, arrivals = (table[name].to_numpy().astype(np.int64) for name in ("end_ns", "arrival_ns"))
    first = None
    if "first_byte_ns" in table.column_names:
        first = pc.coalesce(table["first_byte_ns"], table["end_ns"]).to_numpy().astype(np.int64)
    return Responses(
        size_bytes=table["size_bytes"].to_numpy().astype(np.uint64),
        ms=(ends - arrivals) / 1e6,
        is_complete=pc.equal(table["outcome"], "complete").to_numpy(),
        head_bytes=numbers("head_bytes"),
        arrival_ns=numbers("arrival_ns"),
        arrival_s=(arrivals // 1_000_000_000).astype(np.uint64),
        first_byte_ms=None if first is None else np.maximum(first - arrivals, 0) / 1e6,
        body_bytes=numbers("body_bytes"),
        group=numbers("group"),
    )


def kept_runs(result: pathlib.Path) -> list[Run]:
    """The runs whose response times a result keeps."""
    manifest = _json(result / MANIFEST) if (result / MANIFEST).exists() else {}
    found = []
    for file in sorted((result / RESPONSES).glob("**/*.parquet")):
        names = pa.parquet.read_schema(file).names
        point = "" if file.stem == _NO_POINT else file.stem
        found += [Run(point, name.removesuffix("_us"), file, manifest) for name in names if name.endswith("_us")]
    return found


def _of_kept(file: pathlib.Path, run: str) -> Responses:
    names = set(pa.parquet.read_schema(file).names)
    wanted = ("size_bytes", "head_bytes", "arrival_s", "group", f"{run}_us")
    table = pa.parquet.read_table(file, columns=[name for name in wanted if name in names])

    def numbers(name: str) -> Numbers | None:
        return table[name].to_numpy().astype(np.uint64) if name in names else None

    us = table[f"{run}_us"].to_numpy().astype(np.int64)
    sizes = table["size_bytes"].to_numpy().astype(np.uint64)
    heads, seconds, groups = (numbers(name) for name in ("head_bytes", "arrival_s", "group"))
    return Responses(sizes, np.abs(us) / 1e3, us >= 0, heads, arrival_s=seconds, group=groups)


def _json(path: pathlib.Path) -> Any:
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
