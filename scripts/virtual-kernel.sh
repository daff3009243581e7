#!/usr/bin/env bash
# Builds the kernel of `weirlab run --virtual` from the distribution's source package: Linux as an ordinary program (User-Mode
# Linux) whose clock can be virtual, with the queues, filters and congestion controls of experiments. `scripts/setup.sh virtual`
# calls it after installing what a build needs.
#
#   scripts/virtual-kernel.sh [--build]
#
# About 10 minutes of two processors, once: the kernel is kept as weir/virtual/linux in the user's cache folder, beside a note of
# what it was built from, and built anew when scripts/virtual-kernel.config changes. A kernel that lies ready as
# ../shared/tools/uml-linux.xz beside this repository is unpacked instead, unless --build is given. Nothing is installed.
# WEIR_KERNEL_SUITE and WEIR_KERNEL_SOURCE name another suite and source package of Debian. Beside it stands random.so, built of
# virtual-random.c: with it all random numbers of a machine come of the seed of its run.
set -euo pipefail
cd "$(dirname "$0")"
config=$PWD/virtual-kernel.config ready=$PWD/../../shared/tools/uml-linux.xz
suite=${WEIR_KERNEL_SUITE:-trixie-backports} package=${WEIR_KERNEL_SOURCE:-linux-source-7.2}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/weir/virtual

is_ready=no
case "${1:-}" in
'') if [ -f "$ready" ]; then is_ready=yes; fi ;;
--build) ;;
*)
    echo "usage: scripts/virtual-kernel.sh [--build]" >&2
    exit 2
    ;;
esac
fail() {
    echo "virtual-kernel: $*" >&2
    exit 1
}

mkdir -p "$cache"
if [ virtual-random.c -nt "$cache/random.so" ]; then
    # Renamed into place: machines may be running with the one before.
    cc -O2 -shared -fPIC -o "$cache/random.so.$$" virtual-random.c && mv "$cache/random.so.$$" "$cache/random.so"
fi

if [ "$is_ready" = yes ]; then of=$(sha256sum <"$ready"); else of=$(echo "$suite $package" | cat - "$config" "$PWD/virtual-kernel.sh" | sha256sum); fi
of=${of%% *}
if [ -x "$cache/linux" ] && [ "$(cat "$cache/linux.of" 2>/dev/null)" = "$of" ]; then exit 0; fi

work=$(mktemp -d "$cache/build.XXXXXX")
trap 'rm -rf "$work"' EXIT

# apt with folders and a source list of its own: it fetches from the archive that this machine already uses.
fetch_source() {
    local archive
    archive=$(apt-get indextargets --format '$(COMPONENT) $(REPO_URI)' 'Created-By: Packages' | awk '$1 == "main" { print $2; exit }')
    [ -n "$archive" ] || fail "apt names no archive with a component main; put a kernel of your own where WEIR_VIRTUAL_KERNEL says"
    mkdir -p "$work"/apt/{lists,archives}/partial "$work/package"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $suite main" >"$work/apt/sources.list"
    : >"$work/apt/status"
    local options=(-qq -o Dir::Etc::SourceList="$work/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::Cache="$work/apt"
        -o Dir::State="$work/apt" -o Dir::State::Status="$work/apt/status" -o APT::Sandbox::User=root -o Acquire::Languages=none)
    apt-get "${options[@]}" update >&2 || fail "apt finds no suite $suite at its archive; WEIR_KERNEL_SUITE names another"
    (cd "$work/package" && apt-get "${options[@]}" download "$package" >&2) ||
        fail "the suite $suite has no package $package; WEIR_KERNEL_SOURCE names another"
    dpkg-deb -x "$work"/package/*.deb "$work/package"
    mkdir "$work/source"
    tar xf "$work"/package/usr/src/linux-source-*.tar.xz -C "$work/source" --strip-components=1
}

build() {
    local source=$work/source
    # Without a vDSO: User-Mode Linux's lacks getcpu, on which some run-time libraries insist where there is one.
    sed -i 's/NEW_AUX_ENT(AT_SYSINFO_EHDR, um_vdso_addr)/NEW_AUX_ENT(AT_IGNORE, 0)/' "$source/arch/x86/um/asm/elf.h"
    make -s -C "$source" ARCH=um defconfig >&2
    sed -i '/^CONFIG_\(HOSTFS\|SMP\|DEBUG_INFO_NONE\)\b/d' "$source/.config"
    cat "$config" >>"$source/.config"
    make -s -C "$source" ARCH=um olddefconfig >/dev/null 2>&1
    make -s -C "$source" ARCH=um -j"$(nproc)" linux >"$work/log" 2>&1 ||
        fail "the kernel does not build: $(grep -m 1 -i 'error\|not found' "$work/log" || tail -n 1 "$work/log")"
    strip -o "$work/linux" "$source/linux"
}

if [ "$is_ready" = yes ]; then
    xz -dc "$ready" >"$work/linux"
else
    echo "virtual-kernel: building $package of $suite, about 10 minutes of two processors" >&2
    fetch_source
    build
fi
chmod +x "$work/linux"
"$work/linux" --version >/dev/null || fail "the kernel that was built does not run on this host"
mv "$work/linux" "$cache/linux"
echo "$of" >"$cache/linux.of"
echo "virtual-kernel: Linux $("$cache/linux" --version) is $cache/linux" >&2
