"""A stranger's recomputation: published means of kept results, by pyarrow and arithmetic alone."""

import json
import math

import pyarrow.compute as pc
import pyarrow.parquet
import pytest


def means_of(result):
    """Of each run the mean of every seed in ms. Kept times are microseconds, negative where a request did not complete."""
    found = {}
    for file in sorted((result / "responses").glob("*.parquet")):
        table, seed = pyarrow.parquet.read_table(file), file.stem.rpartition("seed-")[2]
        for name in table.column_names:
            if name.endswith("_us"):
                found.setdefault(name.removesuffix("_us"), {})[seed] = pc.mean(pc.abs(table[name])).as_py() / 1e3
    return found


@pytest.mark.parametrize("name", ["2026-11-28-vm14-000/000-fig3-rho-0.8", "2026-11-28-vm13-003/003-fig9-d"])
def test_published_means_are_those_of_the_kept_response_times(root, name):
    result = root / "results" / name
    (file,) = result.glob("over-*.json")
    published, means = json.loads(file.read_text()), means_of(result)
    assert len(published["rows"]) >= 2
    for row in published["rows"]:
        mine, base = means[row["run"]], means[published["over"]]
        assert len(mine) == row["used"] >= 5
        assert sum(mine.values()) / len(mine) == pytest.approx(row["mean_ms"]["value"], rel=1e-3)
        if row["factor"]:
            logs = [math.log(mine[seed] / base[seed]) for seed in mine]
            assert math.exp(sum(logs) / len(logs)) == pytest.approx(row["factor"]["value"], rel=1e-3)
