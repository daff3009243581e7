#!/usr/bin/env python3
"""What half and twice of each constant of core/sched/src/line does to the response times, simulated (lab/sim/examples/line_grid.rs).

    scripts/line-sensitivity.py FOLDER [CONSTANT...]

Works in a copy of the working tree at FOLDER, which must not exist, with its own target folder; removes it afterwards. About half a minute a
row on two cores. Of a share near one (0.985), half and twice are those of its distance from one. Prints a table in Markdown.
"""
import pathlib
import re
import shutil
import subprocess
import sys

GRIDS = {
    "steady": "link=3,10 rtt=5,30,mixed queue=20,100,fq_codel,policer rho=0.8,1.2 seeds=2",
    "lossy": "link=10 rtt=5,30 queue=100,fq_codel rho=0.8 loss=0.01 seeds=4",
    "jitter": "link=3,10 rtt=5,30 queue=20,100 rho=0.8 jitter=10 seeds=2",
    "steps": "link=10 rtt=30 queue=100 rho=0.4,0.8 steps=20:4,40:10,50:7 seeds=4 seconds=70",
}
# Sizes of tables and names of units: they bound memory, and are no part of the model.
SKIPPED = {"CLIENTS_MAX", "WAYS", "VOTERS_MAX", "PACKET_BYTES", "NOISE_GAIN"}
CONST = re.compile(r"^((?:pub(?:\(super\))? )?const (\w+): \w+ = )(.*);$", re.M)


def main() -> None:
    folder, only = pathlib.Path(sys.argv[1]), set(sys.argv[2:])
    shutil.copytree(".", folder, ignore=shutil.ignore_patterns("target", ".git", "results"))
    try:
        sources = sorted((folder / "core/sched/src/line").glob("*.rs"))
        print("| constant | " + " | ".join(f"{name}: mean, worst" for name in GRIDS) + " |")
        print("|---" * (1 + len(GRIDS)) + "|")
        print(row("as is", folder))
        for source in sources:
            text = source.read_text()
            for found in CONST.finditer(text):
                head, name, value = found.groups()
                if name in SKIPPED or only and name not in only:
                    continue
                for changed in variants(value):
                    source.write_text(text.replace(found[0], f"{head}{changed};"))
                    print(row(f"{name} {value} -> {changed}", folder), flush=True)
            source.write_text(text)
    finally:
        shutil.rmtree(folder)


def variants(value: str) -> list[str]:
    number = re.search(r"\d[\d_]*", value)
    if not number:
        return []
    was = int(number[0].replace("_", ""))
    if 850 <= was < 1500:
        new = [1000 + (was - 1000) // 2, 1000 + (was - 1000) * 2]
    else:
        new = [max(was // 2, 1), was * 2]
    return [value[: number.start()] + str(one) + value[number.end() :] for one in new if one != was]


def row(label: str, folder: pathlib.Path) -> str:
    command = "cargo run -q --release -p sim --example line_grid -- falls=0".split()
    cells = []
    for keys in GRIDS.values():
        run = subprocess.run(command + keys.split(), cwd=folder, capture_output=True, text=True)
        ratios = [float(one) for one in re.findall(r"rho \S+ +\S+ +([\d.]+) \(", run.stdout)]
        cells.append(f"{sum(ratios) / len(ratios):.3f}, {max(ratios):.2f}" if ratios else "no build")
    return f"| {label} | " + " | ".join(cells) + " |"


main()
