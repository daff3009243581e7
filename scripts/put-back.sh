#!/usr/bin/env bash
# Puts back what killed runs of our tests and experiments left on this machine, and prints a line for each thing: network
# namespaces, with what still runs in them, and their control groups; the congestion controls that processes may choose;
# files in /run/weir. Queueing disciplines, classifiers and BPF programs of the tests are in such namespaces and go with
# them; what `weir attach` or `weir uplink up` put at an interface of the machine itself stays.
#
# Only what has a name of ours, and only if the process in that name is dead. With --new-machine the list of congestion
# controls becomes that of a machine just started: what sysctl.d says, else reno and the default.
set -euo pipefail
export LC_ALL=C

if [ "$#" -gt 1 ] || { [ "$#" = 1 ] && [ "$1" != --new-machine ]; }; then
    echo "usage: scripts/put-back.sh [--new-machine]" >&2
    exit 2
fi
new_machine=${1:-}
if [ "$(id -u)" != 0 ]; then
    echo "SKIPPED: put-back: needs root"
    exit 0
fi

allowed=/proc/sys/net/ipv4/tcp_allowed_congestion_control
kept=/run/weir/allowed-congestion-control

# When a process began, in ticks: field 22 of its stat, whose second field may hold anything in parentheses.
start_of() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    cut -d ' ' -f 20 <<<"${stat##*) }"
}

# Is this the name of a namespace of ours whose process is dead? The names end with the side of the link.
is_leftover() {
    if [[ "$1" =~ ^weir-([0-9]+)-([0-9]+)-[0-9]+-(server|client|router|wire|wan)$ ]]; then
        [ "$(start_of "${BASH_REMATCH[1]}")" != "${BASH_REMATCH[2]}" ]
    elif [[ "$1" =~ ^weir-(test|loadgen)-([0-9]+)-[0-9]+-(s|c|server|client)$ ]]; then
        [ ! -e "/proc/${BASH_REMATCH[2]}" ]
    else
        return 1
    fi
}

put_back_namespaces() {
    local path name pid group
    for path in /run/netns/weir-*; do
        name=${path##*/}
        if ! is_leftover "$name"; then continue; fi
        # Half-made ones are no namespace yet: nothing runs there.
        for pid in $(ip netns pids "$name" 2>/dev/null || true); do
            echo "put-back: process $pid in namespace $name: ended"
            kill -KILL "$pid" 2>/dev/null || true
        done
        ip netns delete "$name"
        echo "put-back: namespace $name: deleted"
    done
    for group in /sys/fs/cgroup/weir-* /sys/fs/cgroup/unified/weir-*; do
        if [ -d "$group" ] && is_leftover "${group##*/}" && rmdir "$group"; then
            echo "put-back: control group $group: removed"
        fi
    done
}

# The words of a list on one line, sorted: the kernel has an order of its own.
sorted() {
    tr ' ' '\n' <<<"$1" | sed '/^$/d' | sort -u | paste -sd ' '
}

# What a machine just started allows.
congestion_of_new_machine() {
    local configured
    configured=$(sed -n 's/^ *-\{0,1\}net[./]ipv4[./]tcp_allowed_congestion_control *= *//p' \
        /usr/lib/sysctl.d/*.conf /run/sysctl.d/*.conf /etc/sysctl.d/*.conf /etc/sysctl.conf 2>/dev/null | tail -n 1) || true
    echo "${configured:-reno $(cat /proc/sys/net/ipv4/tcp_congestion_control)}"
}

# Under the lock that product/uplink/src/congestion.rs takes: a run at work is waited for.
put_back_congestion() (
    [ -w "$allowed" ] || exit 0
    exec 9<"$allowed"
    flock 9
    now=$(cat "$allowed")
    wanted=$now
    if [ -e "$kept" ] && [ "$(sorted "$(sed -n 2p "$kept")")" = "$(sorted "$now")" ]; then
        wanted=$(sed -n 1p "$kept")
    fi
    rm -f "$kept"
    if [ -n "$new_machine" ]; then wanted=$(congestion_of_new_machine); fi
    if [ "$(sorted "$wanted")" != "$(sorted "$now")" ]; then
        echo "$wanted" >"$allowed"
        echo "put-back: net.ipv4.tcp_allowed_congestion_control: was \`$now\`, now \`$(cat "$allowed")\`"
    fi
)

# Does anything hold the network namespace of this number: a thread, a mount or an open file?
is_held() {
    [ -n "$(find /proc/[0-9]*/task/*/ns/net /proc/[0-9]*/fd -lname "net:\[$1\]" -print -quit 2>/dev/null)" ] ||
        grep -qs "net:\[$1\]" /proc/[0-9]*/mountinfo
}

put_back_files() {
    local file
    # Not where only some of the processes are seen: the namespace may be another's.
    if [ "$(readlink /proc/self/ns/pid)" != "pid:[4026531836]" ]; then return; fi
    for file in /run/weir/*; do
        if [[ "${file##*/}" =~ ^(replaced|segments|upper|attached|line|classes|change)-([0-9]+)-[0-9]+((\.[0-9]+)?\.new)?$ ]] && ! is_held "${BASH_REMATCH[2]}"; then
            rm -rf "$file"
            echo "put-back: $file, of a namespace that is gone: removed"
        fi
    done
}

put_back_namespaces
put_back_congestion
put_back_files
