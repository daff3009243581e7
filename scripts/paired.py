#!/usr/bin/env python3
"""Simulates the requests of an experiment's runs on a kernel again, and compares means and 99th percentiles.

    python scripts/paired.py WEIRLAB RUNS >table.md      # WEIRLAB: the program; RUNS: of experiments/queues/simulator.toml

A row is a run: the model is `weirlab sim --model packet` with the run's policy and shaping, over a token bucket and a wire.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import pyarrow.parquet

WITHIN = 0.1
POLICIES = {
    "nginx-fair": ("fair", "off"),
    "weir-paced": ("srpt", "paced"),
    "weir-bands": ("srpt-bands:1000,2000,5000,50000", "bands"),
}


def times(table):
    ms = (table["end_ns"].to_numpy().astype(float) - table["arrival_ns"].to_numpy()) / 1e6
    return ms.mean(), np.sort(ms)[int(np.ceil(0.99 * len(ms))) - 1]


def simulated(weirlab, kernel, run, rtt, folder):
    """The records of the same requests; the load is corrected once, so that they come at the same instants."""
    policy, shaping = POLICIES[run]
    trace, out, rho = folder / "trace.csv", folder / "out", 0.5
    arrivals, sizes = (kernel[name].to_numpy() for name in ("arrival_ns", "size_bytes"))
    trace.write_text(
        "epoch_s,size_bytes\n" + "".join(f"{at / 1e9:.6f},{size}\n" for at, size in zip(arrivals, sizes, strict=True))
    )
    for _ in range(2):
        model = ["--model", "packet", "--policy", policy, "--shaping", shaping, "--shaper", "htb-wire", "--rtt", rtt]
        subprocess.run(
            [weirlab, "sim", *model, "--trace", trace, "--rho", f"{rho:.12f}", "--out", out],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        table = pyarrow.parquet.read_table(out / "records.parquet").sort_by("job")
        span = [float(of[-1]) - float(of[0]) for of in (table["arrival_ns"].to_numpy(), arrivals)]
        rho *= span[0] / span[1]
        subprocess.run(["rm", "-r", out], check=True)
    assert np.array_equal(table["size_bytes"].to_numpy(), sizes) and abs(span[0] / span[1] - 1) < 1e-6, (run, span)
    return table


def main(weirlab, runs):
    rows = []
    for manifest in sorted(pathlib.Path(runs).glob("*/*/manifest.json")):
        said, run = json.loads(manifest.read_text()), manifest.parent.name
        kernel = pyarrow.parquet.read_table(manifest.parent / "records.parquet").sort_by("job")
        point = manifest.parent.parent.name
        with tempfile.TemporaryDirectory() as folder:
            model = simulated(weirlab, kernel, run, "50ms" if "client-50ms" in point else "0ms", pathlib.Path(folder))
        (mean, p99), (our_mean, our_p99) = times(kernel), times(model)
        print(f"{point} {run} {mean:.2f} {our_mean / mean:.3f} {p99:.1f} {our_p99 / p99:.3f}", file=sys.stderr, flush=True)
        rows.append((point, run, said.get("void"), mean, our_mean / mean, p99, our_p99 / p99))
    print(
        "| point | run | kernel's mean, ms | simulated / kernel | kernel's p99, ms | simulated / kernel |\n|---|---|---|---|---|---|"
    )
    for point, run, void, mean, of_mean, p99, of_p99 in rows:
        cells = (f"{value:.3f}" if abs(value - 1) <= WITHIN else f"**{value:.3f}**" for value in (of_mean, of_p99))
        print(f"| {point} | {run}{' (void)' if void else ''} | {mean:.2f} | {next(cells)} | {p99:.1f} | {next(cells)} |")
    within = sum(abs(of_mean - 1) <= WITHIN and abs(of_p99 - 1) <= WITHIN for *_, of_mean, _, of_p99 in rows)
    means, tails = (sum(abs(row[at] - 1) <= WITHIN for row in rows) for at in (4, 6))
    print(f"\n{within} of {len(rows)} rows are within 10 % in both, {means} in the mean, {tails} in the 99th percentile.")


if __name__ == "__main__":
    main(*sys.argv[1:])
