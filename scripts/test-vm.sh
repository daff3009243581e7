#!/usr/bin/env bash
# Runs the kernel side's tests on a stock Debian kernel in a throw-away virtual machine: it has what the kernel below us
# may lack (prio, fq_codel, CAKE, netem, qdiscs in BPF). The tests are built here and run there, as root.
#
# WEIR_VM_RUN names the program that runs a command in such a machine (default: ../shared/tools/vm-run beside this
# repository). Where there is none this says SKIPPED and why, and succeeds, but not in CI (CI=true).
set -euo pipefail
cd "$(dirname "$0")/.."

run=${WEIR_VM_RUN:-../shared/tools/vm-run}
timeout_s=${WEIR_VM_TIMEOUT_S:-3000}
modules="sch_prio sch_netem sch_fq sch_fq_codel sch_cake sch_htb sch_tbf sch_ingress cls_bpf veth tun tls nft_chain_nat nft_redir br_netfilter"

skip() {
    echo "SKIPPED: test-vm: $1"
    [ "${CI:-}" != true ] || exit 1
    exit 0
}
[ -x "$run" ] || skip "there is no $run to start a virtual machine with (WEIR_VM_RUN names another)"
[ "$(id -u)" = 0 ] || skip "starting the virtual machine needs root"
for program in qemu-system-x86_64 busybox modprobe jq; do
    command -v "$program" >/dev/null || skip "$program is missing; run scripts/setup.sh test"
done

# Prints the test programs of what has a kernel side, one to a line. They are built again, optimised: an emulated processor is
# slow, and some of these tests need what it has.
tests() {
    CARGO_PROFILE_TEST_OPT_LEVEL=1 cargo test --locked --no-run --message-format json -p uplink -p weir --lib --test kernel |
        jq -r 'select(.executable != null and .profile.test == true and
            (.target.src_path | test("/(product/uplink/src/lib|weir/tests/kernel/main)[.]rs$"))) | .executable'
}
mapfile -t programs < <(tests)
[ "${#programs[@]}" -ge 2 ] || { echo "test-vm: the tests were not built" >&2; exit 1; }

# The machine sees this file system but for /tmp; the folder shared with it is seen wherever it is.
target=$(realpath "${CARGO_TARGET_DIR:-target}")
for kind in prio fq_codel cake netem; do
    echo "tc qdisc replace dev lo root $kind >/dev/null || { echo 'test-vm: no $kind' >&2; exit 1; }"
done >"$target/test-vm.sh"
{
    echo 'tc qdisc del dev lo root'
    for program in "${programs[@]}"; do
        # One at a time: two emulated processors, and tests that fill links.
        # The verdicts of `weir attach --try` and the parts of a link need free processors: `make test` has them in virtual time.
        skipped="--skip trial::a_gain --skip trial::without_a_queue --skip trial::a_trial_of_a_rate --skip classes::the_link_is --skip uploads::hosts_that --skip marks::clients_behind"
        echo "$program --test-threads 1 --nocapture $skipped || failed=1"
    done
    # shellcheck disable=SC2016  # expanded inside
    echo 'exit "${failed:-0}"'
} >>"$target/test-vm.sh"
VM_RUN_MODULES=$modules "$run" --share "$target" --timeout "$timeout_s" -- \
    env WEIR_REQUIRE_PRIVILEGED=1 WEIR_TEST_CLOCK=real RUST_BACKTRACE=1 bash "$target/test-vm.sh"
echo "test-vm: all passed"
