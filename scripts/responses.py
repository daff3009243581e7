#!/usr/bin/env python3
"""The response times of a kept result, and every mean of it computed again from them, with Python's own library alone.

  scripts/responses.py keep RUNS RESULT [WEIRLAB]   writes RESULT/responses/POINT.csv.gz of an experiment's folder
  scripts/responses.py check RESULT...              compares means and factors with those of RESULT/over-*.json

A line of a file is a request in order of arrival: its size in bytes, then for each run the response time in microseconds, negative
where the request did not complete. Exit status 0 where all agree to 0.1 %, else 1.
"""

import csv
import gzip
import io
import json
import math
import pathlib
import subprocess
import sys
import tempfile

TOLERANCE = 0.001


def records(weirlab, run):
    """(size, response time in us, whether it completed) of each request of a run."""
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder, "records.csv")
        subprocess.run([weirlab, "report", run, "--records", text], check=True, stdout=subprocess.DEVNULL)
        with text.open() as lines:
            for row in csv.DictReader(lines):
                took = round((int(row["end_ns"]) - int(row["arrival_ns"])) / 1000)
                yield int(row["size_bytes"]), took, row["outcome"] == "complete"


def keep(runs, result, weirlab="target/debug/weirlab"):
    out = pathlib.Path(result, "responses")
    out.mkdir(parents=True, exist_ok=True)
    for point in sorted(folder for folder in pathlib.Path(runs).iterdir() if folder.is_dir()):
        names = sorted(folder.name for folder in point.iterdir() if (folder / "manifest.json").is_file())
        columns = [list(records(weirlab, point / name)) for name in names]
        if not columns:
            continue
        text = io.StringIO()
        print("size_bytes", *(f"{name}_us" for name in names), sep=",", file=text)
        for row in zip(*columns, strict=True):
            times = (took if done else -took for _, took, done in row)
            print(row[0][0], *times, sep=",", file=text)
        # No time in the file: the same results make the same bytes.
        (out / f"{point.name}.csv.gz").write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))


def means(file):
    """Mean response time of each run of a point, ms."""
    with gzip.open(file, "rt") as lines:
        rows = csv.reader(lines)
        names = [name.removesuffix("_us") for name in next(rows)[1:]]
        totals, count = [0] * len(names), 0
        for row in rows:
            count += 1
            for at, took in enumerate(row[1:]):
                totals[at] += abs(int(took))
    return {name: total / count / 1000 for name, total in zip(names, totals)}


def check(result):
    """The figures that do not agree, in words."""
    points = {file.name.removesuffix(".csv.gz"): means(file) for file in pathlib.Path(result, "responses").glob("*.csv.gz")}
    of_group = lambda group: [of for name, of in points.items() if name.startswith(group + "_seed-")]
    wrong, compared = [], 0
    for file in sorted(pathlib.Path(result).glob("over-*.json")):
        published = json.loads(file.read_text())
        for row in published["rows"]:
            here = [of for of in of_group(row["group"]) if row["run"] in of]
            pairs = [of for of in here if published["over"] in of]
            mean = sum(of[row["run"]] for of in here) / len(here)
            logs = [math.log(of[row["run"]] / of[published["over"]]) for of in pairs]
            found = {"mean_ms": mean, "factor": math.exp(sum(logs) / len(logs))}
            for key, value in found.items():
                if not row[key]:
                    continue
                compared += 1
                if abs(value / row[key]["value"] - 1) > TOLERANCE:
                    wrong.append(f"{file}: {row['group']} {row['run']} {key}: {row[key]['value']}, by the responses {value}")
    print(f"{result}: {compared} figures compared, {len(wrong)} wrong")
    return wrong if compared else [f"{result}: nothing to compare"]


def main(action, *arguments):
    if action == "keep":
        keep(*arguments)
        return 0
    wrong = [line for result in arguments for line in check(result)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("keep", "check"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
