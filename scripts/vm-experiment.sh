#!/usr/bin/env bash
# Runs one experiment whole in a throw-away virtual machine with a stock kernel, for queues that this one lacks:
#
#   scripts/vm-experiment.sh EXPERIMENT.toml OUT [ARGUMENT of weirlab run...]
#
# The machine is what `vm-run` makes: $WEIR_VM_RUN, or the one in ../shared/tools beside this repository. It sees
# this machine's files but an empty /tmp, and writes only to OUT, so our programs and the experiment are copied there for
# the time it takes. Its processor is emulated: right for order and for 10 Mbit/s, wrong for CPU figures; the manifests
# say `cpu = QEMU TCG ...` and its kernel. $WEIR_VM_TIMEOUT_S is for the whole of it, $WEIR_PROGRAMS the folder of
# `weir` and `weirlab` (default: target/release). Other work on this machine makes its runs late, and so void.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

if [ $# -lt 2 ]; then
    echo "usage: scripts/vm-experiment.sh EXPERIMENT.toml OUT [ARGUMENT of weirlab run...]" >&2
    exit 2
fi
experiment=$1 out=$2
shift 2

vm_run=${WEIR_VM_RUN:-$root/../shared/tools/vm-run}
programs=${WEIR_PROGRAMS:-${CARGO_TARGET_DIR:-$root/target}/release}
for needed in "$vm_run" "$programs/weir" "$programs/weirlab" "$experiment"; do
    if [ ! -f "$needed" ]; then
        echo "vm-experiment: $needed is missing; set WEIR_VM_RUN or WEIR_PROGRAMS, or build with \`cargo build --release\`" >&2
        exit 1
    fi
done

mkdir -p "$out"
out=$(realpath "$out")
copies=$out/.programs
trap 'rm -rf "$copies"' EXIT
mkdir "$copies"
cp "$programs/weir" "$programs/weirlab" "$experiment" "$copies/"
setups=$(dirname "$experiment")/../setups
if [ -d "$setups" ]; then cp -r "$setups" "$copies/"; fi

# A trace that the experiment names is beside the experiment, not beside the copy.
trace=$(sed -n 's/^trace *= *"\(.*\)".*/\1/p' "$experiment")
if [ -n "$trace" ]; then set -- --trace "$(realpath "$(dirname "$experiment")/$trace")" "$@"; fi

# The runs are made in the guest's own memory and copied out at their end: a server that opens its files across the
# machine's border waits for this machine at every request.
VM_RUN_MODULES="sch_prio sch_htb sch_tbf sch_cake sch_fq sch_ingress cls_bpf veth" \
    "$vm_run" --mem 4G --timeout "${WEIR_VM_TIMEOUT_S:-3600}" --share "$out" -- \
    sh -c 'copies=$1 out=$2; shift 2
        cp -r "$copies" /tmp/programs
        /tmp/programs/weirlab run "$@" --out /tmp/runs
        status=$?
        [ ! -d /tmp/runs ] || cp -r /tmp/runs/. "$out"
        exit $status' weir "$copies" "$out" "/tmp/programs/$(basename "$experiment")" "$@"
