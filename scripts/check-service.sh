#!/usr/bin/env bash
# Boots systemd in a copy of this machine's files with the package of `cargo xtask dist` in it, and works the service as an administrator does:
# nothing outside changes. Usage, as root: scripts/check-service.sh DIR
set -euo pipefail

skip() {
    echo "SKIPPED: the check of the service: $1"
    [ "${CI:-}" = true ] && exit 1
    exit 0
}
fail() {
    echo "check-service: $1" >&2
    [ ! -e "${work:-}/boot.log" ] || within journalctl -u weir --no-pager -n 20 >&2 || tail -5 "$work/boot.log" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || skip "it needs root"
for program in systemd-nspawn systemctl nsenter dpkg; do
    command -v $program >/dev/null || skip "no $program"
done
deb=$(realpath "$1"/weir_*.deb)
work=$(mktemp -d)
machine=
finish() {
    # Ends all that runs in it.
    [ -z "$machine" ] || { kill "$machine" 2>/dev/null || true; wait "$machine" 2>/dev/null || true; }
    umount -lR "$work" 2>/dev/null || true
    rmdir "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM
mount -t tmpfs -o size=3g tmpfs "$work"
mkdir "$work"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root" 2>/dev/null || skip "no overlay of /"
root=$work/root
rm -rf "$root"/var/l{ib,og}/weir "$root"/etc/weir "$root"/etc/systemd/system/weir* "$root/usr/sbin/policy-rc.d"
cp "$deb" "$root/weir.deb"
# basic.target: none of the services of this machine. The calls of Landlock, and bpf: systemd-nspawn 252 refuses them to what it boots.
calls='landlock_create_ruleset landlock_add_rule landlock_restrict_self bpf'
systemd-nspawn --directory="$root" --register=no --keep-unit --private-network --system-call-filter="$calls" --boot -- --unit=basic.target >"$work/boot.log" 2>&1 </dev/null &
machine=$!

first=
within() { nsenter --target "$first" --mount --pid --uts --ipc --net --cgroup --root="/proc/$first/root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
# A command, until it succeeds: 60 s at most.
soon() {
    local until=$((SECONDS + 60))
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $until ] || return 1
        kill -0 "$machine" 2>/dev/null || return 1
        sleep 0.2
    done
}
is_booted() {
    first=$(pgrep -P "$machine" | head -1) && [ -n "$first" ] && within systemctl is-active basic.target
}
soon is_booted || skip "systemd does not boot here: $(tail -1 "$work/boot.log")"

main() { within systemctl show --property MainPID --value weir; }
asked() { within curl -fs --max-time 5 "$1"; }
is_active() { [ "$(within systemctl is-active weir)" = active ]; }
configured() { within sed -i "$1" /etc/weir/weir.toml; }

within dpkg -i /weir.deb >"$work/said" 2>&1 || fail "dpkg: $(cat "$work/said")"
is_active || fail "the service does not run after the installation"
soon asked http://127.0.0.1/ || fail "no page"
# /proc is hidden from the unit: an address without a host is still one of IPv6, and memory still half of the machine's.
soon asked 'http://[::1]/' || fail "no page over IPv6 with the address :80"
if within systemctl status weir --lines 50 --no-pager --full | grep -q '64 MiB of memory'; then fail "memory by a /proc that is hidden"; fi
echo "service: installed, started, IPv4 and IPv6"

# The sandbox in the unit. The unit's own filters are in /proc too, so weir's are those that a start without its sandbox lacks. Landlock is in no
# file of /proc: it alone refuses a reload that names another folder, one that everybody may read.
in_force() { within sed -n "s/^$1:[[:space:]]*//p" "/proc/$(main)/status"; }
reloads_to() {
    configured "s|^root = .*|root = \"$1\"|"
    within weir reload --pid "$(main)" >"$work/said" 2>&1
}
filters=$(in_force Seccomp_filters)
[ "$(in_force Seccomp)" = 2 ] || fail "Seccomp: $(in_force Seccomp) in /proc/PID/status, not 2"
if within journalctl -u weir --no-pager | grep -E 'no Landlock|no filter of system calls'; then fail "weir runs without its sandbox"; fi
within mkdir /srv/elsewhere
if reloads_to /srv/elsewhere; then fail "no Landlock: a reload serves a folder that was not named at the start"; fi
grep -q 'Permission denied' "$work/said" || fail "a reload to another folder: $(cat "$work/said")"
configured 's|^root = .*|root = "/usr/share/weir/welcome"|; s|^\[server\]|[server]\nsandbox = false|'
within systemctl restart weir
[ "$(in_force Seccomp_filters)" -lt "$filters" ] || fail "no filter of weir's own: $filters in its sandbox, $(in_force Seccomp_filters) without"
reloads_to /srv/elsewhere || fail "a reload to another folder without the sandbox: $(cat "$work/said")"
configured 's|^root = .*|root = "/usr/share/weir/welcome"|; /^sandbox = false/d'
within systemctl restart weir
[ "$(in_force Seccomp_filters)" = "$filters" ] || fail "$(in_force Seccomp_filters) filters after the sandbox was on again, $filters before"
echo "service: the unit keeps weir's sandbox"

before=$(main)
configured 's/^# \[uplink\]/[uplink]/; s/^# rate = .*/rate = "50mbit"/'
within systemctl reload weir || fail "reload of the rate"
[ "$(main)" = "$before" ] || fail "another process after a change of the rate"
# A change that needs another process, with a download under way.
within truncate -s 50M /usr/share/weir/welcome/large
within curl -fs --limit-rate 10M -o /dev/null http://127.0.0.1/large &
download=$!
sleep 1
configured 's/":80"/":8081"/'
within systemctl reload weir || fail "reload of the address"
soon asked 'http://[::1]:8081/' || fail "no page at the new address"
is_active || fail "not active after a reload that needs another process"
[ "$(main)" != "$before" ] || fail "the same process serves another address"
wait $download || fail "a reload cut a download"
soon test ! -e "/proc/$first/root/proc/$before" || fail "the process before is still there"
is_active || fail "systemd takes the service for ended with the process before"
configured 's/":8081"/"nowhere"/'
if within systemctl reload weir 2>/dev/null; then fail "a reload of a wrong address succeeds"; fi
soon asked 'http://[::1]:8081/' || fail "no page after a wrong configuration"
configured 's/"nowhere"/":8081"/'
echo "service: reloads, also to another address with a download under way"

# Another package, with a download under way.
before=$(main)
within curl -fs --limit-rate 10M -o /dev/null 'http://[::1]:8081/large' &
download=$!
sleep 1
within dpkg -i --force-confold /weir.deb >"$work/said" 2>&1 || fail "dpkg, again: $(cat "$work/said")"
is_active && [ "$(main)" != "$before" ] || fail "the process is that of the package before"
wait $download || fail "a package cut a download"
soon test ! -e "/proc/$first/root/proc/$before" || fail "the process of the package before is still there"
is_active || fail "not the service behind another package"
echo "service: another package with a download under way"

before=$(main)
within weir upgrade --pid "$before" >"$work/said" 2>&1 || fail "weir upgrade by root: $(cat "$work/said")"
soon test ! -e "/proc/$first/root/proc/$before" || fail "the process before the upgrade is still there"
is_active && [ "$(main)" != "$before" ] || fail "not the service after weir upgrade"
before=$(main)
if within setpriv --reuid weir --regid weir --init-groups weir upgrade --pid "$before" >"$work/said" 2>&1; then fail "weir upgrade outside of the unit by its user succeeds"; fi
grep -q 'as root' "$work/said" || fail "weir upgrade by the user: $(cat "$work/said")"
[ "$(main)" = "$before" ] && is_active || fail "a refused upgrade changes the service"
# One that is not systemd's child.
within kill -KILL "$before"
restarted() { is_active && [ "$(main)" != "$before" ] && asked 'http://[::1]:8081/'; }
soon restarted || fail "not restarted after SIGKILL"
within systemctl stop weir
[ "$(within systemctl show --property Result --value weir)" = success ] || fail "stop: $(within systemctl show --property Result weir)"
if within pgrep -x weir >/dev/null; then fail "a process is left after the stop"; fi
# An address that comes after more starts than systemd's usual limit, five in ten seconds.
configured 's/":8081"/"198.18.0.9:8081"/'
if within systemctl start weir 2>/dev/null; then fail "it starts without its address"; fi
starts_again() { [ "$(within systemctl show --property NRestarts --value weir)" -ge 6 ]; }
soon starts_again || fail "$(within systemctl show --property NRestarts weir): it is not started again without an end"
within ip address add 198.18.0.9/32 dev lo
soon asked http://198.18.0.9:8081/ || fail "no page at an address that came late"
configured 's/"198.18.0.9:8081"/":8081"/'
# The sockets, in the order of docs/service.md.
within systemctl stop weir.service
within systemctl enable --now weir.socket >"$work/said" 2>&1 || fail "weir.socket: $(cat "$work/said")"
within systemctl start weir.service || fail "start with weir.socket"
soon asked http://127.0.0.1/ || fail "no page at the socket that systemd holds"
within systemctl disable --now weir.socket weir.service >/dev/null 2>&1
within systemctl enable weir.service >/dev/null 2>&1
echo "service: at an address that came late, at systemd's socket"

# The order at an interface. Its unit detaches in whatever state the process is.
within ip link add outer type veth peer name inner
for end in outer inner; do within ip link set $end up; done
within weir attach outer --rate 50mbit --no-watch --save >"$work/said" 2>&1 || fail "weir attach: $(cat "$work/said")"
attached() { within weir attach --list | grep -q '^outer: psjf'; }
watch_state() { within systemctl show --property SubState --value weir-attach-watch@outer; }
watches() { [ "$(watch_state)" = running ] && [ "$(within systemctl show --property MainPID --value weir-attach-watch@outer)" != "${1:-0}" ]; }
killed() {
    local process
    process=$(within systemctl show --property MainPID --value weir-attach-watch@outer)
    within kill -KILL "$process"
    until [ "$(watch_state)" = auto-restart ]; do sleep 0.1; done
    echo "$process"
}
stopped() {
    within systemctl stop weir-attach@outer || fail "stop of the attach $1"
    if attached; then fail "attached after a stop $1"; fi
    [ "$(watch_state)" = dead ] || fail "after a stop $1 the watch is $(watch_state)"
}
within weir attach --detach outer >/dev/null 2>&1
within systemctl start weir-attach@outer
soon attached || fail "the unit attaches nothing: $(within journalctl -u 'weir-attach*' --no-pager -n 5)"
process=$(killed)
attached || fail "nothing is attached between SIGKILL and the next start"
soon watches "$process" || fail "no watch after SIGKILL"
attached || fail "nothing is attached after SIGKILL and a start"
stopped "while it watches"
within systemctl start weir-attach@outer
soon attached || fail "the unit does not attach again"
killed >/dev/null
stopped "before the start that follows SIGKILL"
# A file with mistakes: the process cannot start.
within systemctl start weir-attach@outer
soon attached || fail "the unit does not attach again"
within sed -i 's/rate = .*/rate = 9/' /etc/weir/attach.toml
within systemctl restart weir-attach-watch@outer || true
until [ "$(watch_state)" = auto-restart ]; do sleep 0.1; done
attached || fail "a file with mistakes takes the order away"
stopped "where the process cannot start"
within sed -i 's/rate = .*/rate = "50mbit"/' /etc/weir/attach.toml
within systemctl enable --now weir-attach@outer >"$work/said" 2>&1 || fail "enable: $(cat "$work/said")"
soon attached || fail "the enabled unit does not attach"
process=$(within systemctl show --property MainPID --value weir-attach-watch@outer)
within dpkg -i --force-confold /weir.deb >"$work/said" 2>&1 || fail "dpkg, with an attach: $(cat "$work/said")"
soon watches "$process" || fail "after another package the process before watches"
soon attached || fail "after another package nothing is attached"
echo "attach: attached, killed and restarted, stopped in each state, another package"

# Removed and installed again, it serves. A start that policy-rc.d forbids does not come.
is_active || within systemctl start weir || fail "start before the removal"
within weir attach inner --rate 50mbit --no-watch >"$work/said" 2>&1 || fail "weir attach inner: $(cat "$work/said")"
within ip link add spare type veth peer name apart
for end in spare apart; do within ip link set $end up; done
within weir uplink up spare --rate 50mbit >"$work/said" 2>&1 || fail "weir uplink up: $(cat "$work/said")"
within dpkg -r weir >"$work/said" 2>&1 || fail "removal: $(cat "$work/said")"
if is_active; then fail "active after a removal"; fi
for end in outer inner spare; do
    if within tc qdisc show dev $end | grep -q htb; then fail "$end has bands after the removal: $(cat "$work/said")"; fi
done
within sh -c 'printf "#!/bin/sh\nexit 101\n" >/usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d'
within dpkg -i --force-confold /weir.deb >"$work/said" 2>&1 || fail "dpkg, after a removal: $(cat "$work/said")"
if is_active; then fail "started although policy-rc.d forbids it"; fi
within rm /usr/sbin/policy-rc.d
within dpkg -r weir >/dev/null 2>&1 || fail "removal again"
within dpkg -i --force-confold /weir.deb >"$work/said" 2>&1 || fail "dpkg, after a removal: $(cat "$work/said")"
is_active && [ "$(within systemctl is-enabled weir)" = enabled ] || fail "neither active nor enabled after a removal and an installation: $(cat "$work/said")"
# A configuration that root reads and the unit's user does not: the process from before continues to serve.
before=$(main)
within chgrp root /etc/weir /etc/weir/weir.toml
within chmod 750 /etc/weir
within dpkg -i --force-confold /weir.deb >"$work/said" 2>&1 || fail "dpkg, with a file of root's: $(cat "$work/said")"
[ "$(within stat -c %G /etc/weir)" = root ] || fail "a package reset the group of /etc/weir"
is_active && [ "$(main)" = "$before" ] && asked 'http://[::1]:8081/' >/dev/null || fail "a package took the server down: $(cat "$work/said")"
grep -q 'continues to serve' "$work/said" || fail "it is not said that the old process serves: $(cat "$work/said")"
within rm /etc/weir/weir.toml
within dpkg -i --force-confold /weir.deb >"$work/said" 2>&1 || fail "dpkg, without weir.toml: $(cat "$work/said")"
is_active && [ "$(main)" = "$before" ] || fail "without weir.toml a package took the server down: $(cat "$work/said")"
echo "service: removed, installed again, with a file that its user cannot read, and without one"

within dpkg -P weir >/dev/null 2>&1 || fail "purge"
if within systemctl cat weir >/dev/null 2>&1; then fail "a unit is left after the purge"; fi
[ "$(watch_state)" = dead ] || fail "the watch is $(watch_state) after the purge"
if within tc qdisc show dev outer | grep -q htb; then fail "bands are left after the purge"; fi
echo "service: upgraded, killed and restarted, stopped, purged"
