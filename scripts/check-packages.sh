#!/usr/bin/env bash
# Installs, upgrades and removes the packages of `cargo xtask dist`, and runs the image, in a copy of this machine's files and a network of its
# own: nothing outside changes. Usage, as root: scripts/check-packages.sh DIR
set -euo pipefail

skip() {
    echo "SKIPPED: the check of packages: $1"
    [ "${CI:-}" = true ] && exit 1
    exit 0
}

if [ "${2:-}" != inside ]; then
    [ "$(id -u)" = 0 ] || skip "it needs root"
    dir=$(realpath "$1")
    unshare --mount --net --pid --fork --kill-child --mount-proc --propagation private true 2>/dev/null || skip "no namespaces"
    work=$(mktemp -d)
    trap 'rmdir "$work"' EXIT
    unshare --mount --net --pid --fork --kill-child --mount-proc --propagation private "$0" "$dir" inside "$work"
    exit
fi

dir=$1
work=$3
mount -t tmpfs -o size=3g tmpfs "$work"
mkdir "$work"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root" 2>/dev/null || skip "no overlay of /"
root=$work/root
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
# A container: no systemd to talk to, and nothing of an earlier installation.
mount -t tmpfs tmpfs "$root/run"
rm -rf "$root"/var/l{ib,og}/weir "$root/var/lib/weir-attach" "$root/etc/weir"
mkdir "$root/run/packages"
cp "$dir"/*.deb "$dir"/*.rpm "$dir"/*.tar "$dir"/*.tar.gz "$root/run/packages/" 2>/dev/null || true
ip link set lo up
within() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
# In a process of its own, which the program takes.
start() { exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
fail() {
    echo "check-packages: $1" >&2
    exit 1
}
# Every file that has our name, beside the program of a build.
ours() { (cd "$root" && find etc usr var srv -xdev -name '*weir*' | sort); }
answers() {
    local until=$((SECONDS + 30))
    while [ $SECONDS -lt $until ]; do
        curl -fs --max-time 5 "$1" && return
        sleep 0.2
    done
    fail "no answer at $1 within 30 s"
}
stop() {
    kill "$1"
    wait "$1" || [ $? -lt 126 ] || fail "the server ended with a signal"
}

within useradd --help >/dev/null || skip "no useradd"
before=$(ours)
began=$(date +%s%N)

deb=$(cd "$dir" && ls weir_*.deb)
within dpkg -i "/run/packages/$deb" >"$work/said" 2>&1 || fail "$deb: $(cat "$work/said")"
within id weir >/dev/null || fail "$deb: no user weir"
[ "$(within stat -c '%a %G' /etc/weir/weir.toml)" = "640 weir" ] || fail "$deb: /etc/weir/weir.toml: not readable for weir alone"
within weir check /etc/weir/weir.toml >"$work/said" 2>&1 || fail "$deb: its configuration has mistakes: $(cat "$work/said")"
start setpriv --reuid weir --regid weir --init-groups --inh-caps +net_bind_service --ambient-caps +net_bind_service \
    weir run /etc/weir/weir.toml >"$work/log" 2>&1 &
server=$!
answers http://127.0.0.1/ | grep -q 'Weir is running' || fail "$deb: not the page of welcome"
took_ms=$((($(date +%s%N) - began) / 1000000))
[ "$took_ms" -le 60000 ] || fail "$deb: $took_ms ms from the package to a page: at most 60,000"
stop $server
grep -q 'GET / ' "$root/var/log/weir/access.log" || fail "$deb: no line in the access log"
for page in man1/weir.1 man1/weir-serve.1 man5/weir.toml.5; do
    gzip -dc "$root/usr/share/man/$page.gz" | grep -q '^\.TH' || fail "$deb: no page $page"
done
within bash -c 'source /usr/share/bash-completion/completions/weir && complete -p weir' | grep -q weir || fail "$deb: no completion"
echo "deb: installed, configured, a page after $took_ms ms"

# An upgrade keeps what the administrator wrote; removal keeps the configuration, purging nothing.
echo '# mine' >>"$root/etc/weir/weir.toml"
touch "$root/etc/systemd/system/weir.service"
within dpkg -i --force-confdef --force-confold "/run/packages/$deb" >"$work/said" 2>&1 || fail "$deb: $(cat "$work/said")"
grep -q 'hides the unit' "$work/said" || fail "$deb: an old unit is not named"
rm "$root/etc/systemd/system/weir.service"
grep -q '^# mine' "$root/etc/weir/weir.toml" || fail "$deb: an upgrade dropped the administrator's configuration"
# It neither needs the file nor takes an administrator's group away.
mv "$root/etc/weir/weir.toml" "$root/etc/weir/kept"
within chgrp daemon /etc/weir
within dpkg -i --force-confdef --force-confold "/run/packages/$deb" >"$work/said" 2>&1 || fail "$deb, without weir.toml: $(cat "$work/said")"
[ "$(within stat -c %G /etc/weir)" = daemon ] || fail "$deb: an upgrade reset the group of /etc/weir"
mv "$root/etc/weir/kept" "$root/etc/weir/weir.toml"
within dpkg -r weir >/dev/null
[ -e "$root/etc/weir/weir.toml" ] && [ ! -e "$root/usr/bin/weir" ] || fail "$deb: removal"
# No systemd runs here: it is enabled for the one that will, at the first installation and at one after a removal.
enabled="$root/etc/systemd/system/multi-user.target.wants/weir.service"
within dpkg -i "/run/packages/$deb" >"$work/said" 2>&1 || fail "$deb, after a removal: $(cat "$work/said")"
[ -L "$enabled" ] || fail "$deb: not enabled after a removal and an installation"
within dpkg -P weir >/dev/null 2>&1
after=$(ours)
[ "$before" = "$after" ] || fail "$deb: purged, it leaves: $(diff <(echo "$before") <(echo "$after"))"
echo "deb: upgraded, removed, purged"

# A full disk: the installation fails as a whole, and can be repeated.
mkdir "$root/run/full"
mount -t tmpfs -o size=1m tmpfs "$root/run/full"
if within dpkg --instdir=/run/full --force-not-root -i "/run/packages/$deb" >/dev/null 2>&1; then fail "$deb: installed on a full disk"; fi
umount "$root/run/full"
within dpkg -P weir >/dev/null 2>&1 || true
echo "deb: refused by a full disk"

if rpm=$(cd "$dir" && ls weir-*.rpm 2>/dev/null) && [ -x "$root/usr/bin/rpm" ]; then
    within rpm -i --nodeps "/run/packages/$rpm" 2>"$work/rpm" || fail "$rpm: $(cat "$work/rpm")"
    within weir check /etc/weir/weir.toml >"$work/said" 2>&1 || fail "$rpm: its configuration has mistakes: $(cat "$work/said")"
    within rpm -V --nodeps weir || fail "$rpm: not as it was packaged"
    # An upgrade keeps the administrator's owners and modes.
    within chgrp daemon /etc/weir /etc/weir/weir.toml
    within chmod 755 /etc/weir
    within rpm -U --force --nodeps "/run/packages/$rpm" 2>"$work/rpm" || fail "$rpm, again: $(cat "$work/rpm")"
    for kept in "755 daemon /etc/weir" "640 daemon /etc/weir/weir.toml"; do
        [ "$(within stat -c '%a %G %n' "${kept##* }")" = "$kept" ] || fail "$rpm: an upgrade changed ${kept##* }: not $kept"
    done
    within rpm -e --nodeps weir
    [ ! -e "$root/usr/bin/weir" ] || fail "$rpm: removal"
    echo "rpm: installed, verified, removed"
else
    echo "SKIPPED: the package for Red Hat's systems: no rpm"
fi

mkdir "$work/archive" "$work/layout" "$work/image"
tar -xzf "$dir"/weir-*-linux-*.tar.gz -C "$work/archive"
"$work"/archive/weir-*/usr/bin/weir --version | grep -q '^weir ' || fail "the archive's program does not run"
echo "archive: its program runs"

tar -xf "$dir"/weir-*-image-*.tar -C "$work/layout"
for blob in "$work"/layout/blobs/sha256/*; do
    [ "$(sha256sum <"$blob" | cut -d ' ' -f 1)" = "$(basename "$blob")" ] || fail "image: $blob is not what its name says"
done
layer=$(jq -r '.[0].Layers[0]' "$work/layout/manifest.json")
tar -xzf "$work/layout/$layer" -C "$work/image"
if ldd "$work/image/usr/bin/weir" 2>&1 | grep '=>' >/dev/null; then
    echo "SKIPPED: the image: its program needs libraries (--weir); cargo xtask dist builds one that does not"
    exit 0
fi
config=$(jq -r '.[0].Config' "$work/layout/manifest.json")
mapfile -t variables < <(jq -r '.config.Env[]' "$work/layout/$config")
start_image() { exec env -i "${variables[@]}" /usr/sbin/chroot --userspec=65532:65532 "$work/image" "$@"; }
start_image /usr/bin/weir serve /srv/www --listen :8080 >"$work/log" 2>&1 &
server=$!
answers http://127.0.0.1:8080/ | grep -q 'Weir is running' || fail "image: not the page of welcome"
stop $server
if grep -q 'is not kept' "$work/log"; then fail "image: it cannot keep what it finds: $(cat "$work/log")"; fi
echo "image: its digests hold, and from nothing but its files it answers"
