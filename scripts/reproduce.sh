#!/usr/bin/env bash
# Measures the figures and tables of papers 000, 002 and 003 again, and what we ask beyond them:
#
#   scripts/reproduce.sh OUT [ARGUMENT of weirlab run...]
#
# on a real kernel in virtual time where one was built (`scripts/setup.sh virtual`; VIRTUAL=0 keeps to this host's, one run after the
# other). QUICK=1 takes a chosen subset with short runs, about 15 minutes; the whole takes hours. NASA=FILE names
# the log for figures 13 to 16 of 003, which are left out without it; TRACE=FILE replays another log than the shipped
# synthetic trace. It may be interrupted at any time: what is finished is kept, and the same command goes on from there. The
# runs are in OUT/runs, the report is OUT/report.md, the figures of its claims OUT/claims.json. $WEIR_PROGRAMS is the folder of `weir` and `weirlab`.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

if [ $# -lt 1 ]; then
    echo "usage: [QUICK=1] [NASA=FILE] [TRACE=FILE] scripts/reproduce.sh OUT [ARGUMENT of weirlab run...]" >&2
    exit 2
fi
out=$1
shift
weirlab=${WEIR_PROGRAMS:-${CARGO_TARGET_DIR:-$root/target}/release}/weirlab
if [ ! -x "$weirlab" ]; then
    echo "reproduce: $weirlab is missing; build it with \`cargo build --release\`, or set WEIR_PROGRAMS" >&2
    exit 1
fi

# What judges the runs: the environment of `make python`, or $WEIR_PYTHON.
python=${WEIR_PYTHON:-${CARGO_TARGET_DIR:-$root/target}/python/env/bin/python}
if ! "$python" -c 'import weirlab' 2>/dev/null; then
    echo "reproduce: $python has no package weirlab; run \`scripts/python.sh --install\`, or set WEIR_PYTHON" >&2
    exit 1
fi

mkdir -p "$out"
out=$(realpath "$out") NASA=${NASA:+$(realpath "$NASA")} TRACE=${TRACE:+$(realpath "$TRACE")}
cd "$root/experiments"
kernel=${WEIR_VIRTUAL_KERNEL:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/virtual/linux}
is_virtual=0
if [ "${VIRTUAL:-1}" = 1 ] && [ -x "$kernel" ]; then is_virtual=1; fi
clock=()
if [ "$is_virtual" = 1 ]; then clock=(--virtual); fi
common=("${clock[@]}" --skip-missing --json "$@")
trace=()
if [ -n "${TRACE:-}" ]; then trace=(--trace "$TRACE"); fi
status=0

# Experiments are done in OUT/runs/NAME; one that fails does not keep the others from the report.
measure() {
    local to=$out/runs
    case "${2:-}" in *.toml) ;; *) to=$to/$(basename "$1" .toml) ;; esac
    "$weirlab" run "$@" "${common[@]}" --out "$to" >/dev/null || status=$?
    if [ "$interrupted" = 1 ]; then exit 130; fi
}
interrupted=0
trap 'interrupted=1' INT TERM

# In virtual time every queue is there and nothing is late; here the papers' comparison alone, over one trace.
quick() {
    local runs=apache-fair,apache-attach-srpt,weir-bands,weir-paced
    if [ "$is_virtual" = 1 ]; then runs=$runs,nginx-fq-codel,nginx-cake; fi
    measure 000/000-fig3.toml --seconds 30 --points rho-0.6_seed-101,rho-0.8_seed-101,rho-0.9_seed-101 --only "$runs" "${trace[@]}" "$@"
    measure 003/003-w1-a.toml --seconds 50 --points seed-101 --only "$runs" "${trace[@]}" "$@"
    measure 003/003-fig11.toml --seconds 50 --points seed-101 --only apache-fair,apache-attach-srpt,weir-paced "${trace[@]}" "$@"
    measure 003/003-fig6.toml --seconds 50 --points rho-1.2_seed-101 --only apache-fair,apache-attach-srpt,weir-bands,weir-paced "${trace[@]}" "$@"
    measure 002/002-table2.toml --seconds 40 --points link-10mbit_rho-0.9_seed-101 --only ps,srpt,srrt "$@"
}

# SURGE makes its own requests, and NASA's log is another trace: the set-up tells them apart.
whole() {
    local own=() surge=() nasa=() file
    for file in 00[023]/*.toml queues/default-queues*.toml queues/traps*.toml; do
        if grep -q '^\[grid\]' "$file"; then
            continue
        elif grep -q 'nasa' "$file"; then
            nasa+=("$file")
        elif grep -q '^setup = "surge"\|^setup = "wans"\|^setup = "six-wans"\|^trace' "$file"; then
            surge+=("$file")
        else
            own+=("$file")
        fi
    done
    "$python" "$root/scripts/what-is-left.py" "$out/runs" "${own[@]}" "${surge[@]}" ${NASA:+"${nasa[@]}"}
    measure "${own[@]}" "${trace[@]}" "$@"
    measure "${surge[@]}" "$@"
    if [ -n "${NASA:-}" ]; then measure "${nasa[@]}" --trace "$NASA" "$@"; fi
}

if [ "${QUICK:-0}" = 1 ]; then length=quick; else length=whole; fi
if [ "$is_virtual" = 1 ]; then
    echo "in virtual time, with $kernel:"
fi
"$length"

"$python" -m weirlab report "$out/runs" --md "$out/report.md" --claims "$out/claims.json"
echo "the report is $out/report.md"
exit "$status"
