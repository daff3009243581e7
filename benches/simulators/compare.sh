#!/bin/sh
# The same M/M/1 (first come, first served) and M/G/1 (processor sharing) run by SimPy, Ciw and weirlab, on one core each,
# and how many times faster weirlab is. Speeds are jobs per second of CPU time, so that a busy machine changes little.
# Needs python3 with venv and PyPI; everything is installed into a folder that is removed at the end.
#
#   benches/simulators/compare.sh [path of weirlab; default target/release/weirlab]
set -eu
here=$(dirname "$0")
weirlab=${1:-target/release/weirlab}
[ -x "$weirlab" ] || { echo "$weirlab: not there: cargo build --release -p weirlab" >&2; exit 1; }
venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet 'simpy==4.1.2' 'ciw==3.2.7'

ours() {
    "$weirlab" sim --model queue --policy "$1" --rho 0.8 --dist "$2" --link 10mbit --jobs 5000000 --seed 1 --json
}
for model in fcfs ps; do
    dist=exponential:mean=5000
    [ $model = fcfs ] || dist=bounded-pareto:alpha=1.5,min=500,max=1e6
    ours=$(ours $model "$dist")
    for simulator in simpy ciw; do
        theirs=$("$venv/bin/python" "$here/other.py" $simulator $model 200000)
        "$venv/bin/python" - "$ours" "$theirs" <<'PYTHON'
import json, sys
ours, theirs = map(json.loads, sys.argv[1:])
speed = ours["simulated_jobs"] / ours["cpu_seconds"]
print("{:5} {:6} {:>9.0f} jobs/s, mean {:7.3f} ms | weirlab {:>9.0f} jobs/s, mean {:7.3f} ms | {:.0f} times as fast".format(
    theirs["model"], theirs["simulator"], theirs["jobs_per_cpu_s"], theirs["mean_ms"],
    speed, ours["response_time_ms"]["mean"], speed / theirs["jobs_per_cpu_s"]))
PYTHON
    done
done
