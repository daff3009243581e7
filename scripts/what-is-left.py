"""Prints how many runs of experiments are left, and about how long they take: python scripts/what-is-left.py OUT FILE.toml...

A run takes the seconds of its arrivals, times what the finished ones in OUT took of a processor for a second of theirs (without any: 1).
"""

import json
import pathlib
import sys
import tomllib

from weirlab.claims import with_setups
from weirlab.folders import points_of_file


def main(out, files):
    left, count, seconds, took = 0, 0, 0.0, []
    for file in map(pathlib.Path, files):
        said = with_setups(tomllib.loads(file.read_text()), file)
        of_each = float(said.get("seconds", 100))
        for point in points_of_file(said) or [""]:
            for run in said.get("run", []):
                count += 1
                manifest = pathlib.Path(out) / file.stem / point / run["name"] / "manifest.json"
                if not manifest.is_file():
                    left, seconds = left + 1, seconds + of_each
                elif real := json.loads(manifest.read_text()).get("environment", {}).get("machine_real_seconds"):
                    took.append(float(real) / of_each)
    hours = seconds * (sum(took) / len(took) if took else 1.0) / 3600
    print(f"{left} of {count} runs are left, about {hours:.1f} hours of one processor (fewer where a queue or server is missing)")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
