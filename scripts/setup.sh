#!/usr/bin/env bash
# Checks the Rust toolchain and installs the Debian packages that one kind of work needs: run, test, dist, bench, virtual,
# conformance, python or recipes.
# `virtual` also builds the kernel of `weirlab run --virtual`, or finds it built; `conformance` what Debian has no package of.
#
# A missing toolchain or linker ends the script: nothing can be built. A missing program only costs the checks or
# measurements that use it, so it is named, with what is lost, and the script goes on. Reads nothing from standard input.
#
# `scripts/setup.sh --missing PURPOSE` installs nothing: it prints what is missing, `program package loss` on each line.
set -euo pipefail
cd "$(dirname "$0")/.."

action=install
if [ "${1:-}" = --missing ]; then
    action=name
    shift
fi
purpose=${1:-}
case "$purpose" in
run | test | dist | bench | virtual | conformance | python | recipes) ;;
*)
    echo "usage: scripts/setup.sh [--missing] run|test|dist|bench|virtual|conformance|python|recipes" >&2
    exit 2
    ;;
esac
exec </dev/null

# One line each: the purposes that need it, the program or file, the Debian package, what is lost without it.
needs="
run,test,dist,bench,virtual,conformance,python,recipes cc build-essential -
test           c++      build-essential  -
run,test,dist,bench clang clang           the BPF programs of weir attach
run,test,dist,bench /usr/include/libelf.h libelf-dev the BPF programs of weir attach
run,test,dist,bench /usr/include/zlib.h   zlib1g-dev the BPF programs of weir attach
test,bench     nginx    nginx            runs against nginx
test           apache2  apache2-bin      runs against Apache
test,bench     caddy    caddy            runs against Caddy
test,bench     curl     curl             checks with curl
test           ip       iproute2         experiments in network namespaces
test           tc       iproute2         experiments in network namespaces
test           nft      nftables         weir attach behind redirected ports
test           ethtool  ethtool          experiments without offloads
test           strace   strace           kills of weir attach at its system calls
test           qemu-system-x86_64 qemu-system-x86 tests on another kernel
test           busybox  busybox-static   tests on another kernel
test           modprobe kmod             tests on another kernel
test,dist      jq       jq               tests on another kernel, the check of packages
test,dist      dpkg-deb dpkg             the package for Debian's systems
test,dist      systemd-nspawn systemd-container the check of the service
test,dist      rpmbuild rpm              the package for Red Hat's systems
test,dist      /etc/ssl/certs/ca-certificates.crt ca-certificates the image for containers
test           chromium chromium         looking at pages
test           go       golang-go        certificates by ACME against Pebble
test           faketime faketime         certificates with the clock moved
virtual        flex     flex             building the kernel of virtual time
virtual        bison    bison            building the kernel of virtual time
virtual        bc       bc               building the kernel of virtual time
virtual        pahole   dwarves          building the kernel of virtual time
virtual        xz       xz-utils         building the kernel of virtual time
virtual        /usr/include/libelf.h libelf-dev building the kernel of virtual time
virtual        nginx    nginx            runs against nginx
virtual        caddy    caddy            runs against Caddy
bench          taskset  util-linux       the benchmark
bench          wrk      wrk              the benchmark
bench          lighttpd lighttpd         the row of lighttpd
test,bench     h2o      h2o              runs against H2O
bench,conformance openssl openssl        every check of conformance, the benchmark under TLS
conformance    curl     curl             curl's checks
bench,conformance h2load nghttp2-client  h2load's checks, the benchmark over HTTP/2
conformance    chromium chromium         the page in Chromium
conformance    firefox-esr firefox-esr   the page in Firefox
conformance    certutil libnss3-tools    the page in Chromium and in Firefox
conformance    venv     python3-venv     the verdicts of sslyze on TLS and of redbot on caching, aioquic's checks of HTTP/3
conformance    go       golang-go        h2spec's verdict on HTTP/2, quic-go's checks of HTTP/3
python         venv     python3-venv     the Python package and its tests
recipes        curl     curl             every recipe
recipes        wget     wget             the recipes of documentation and of a mirror
recipes        openssl  openssl          the recipes over HTTPS
recipes        chromium chromium         the recipes in Chromium
recipes        venv     python3-venv     the recipes of documentation and of programs
recipes        git      git              the recipe of programs
recipes        npm      npm              the recipe of an app of one page
recipes        php-fpm  php-fpm          the recipe of WordPress
recipes        php-mysql php-mysql  the recipe of WordPress
recipes        mariadbd mariadb-server   the recipe of WordPress
recipes        go       golang-go        certificates by ACME against Pebble
"

check_toolchain() {
    local wanted have
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
        echo "setup: Rust is missing; install $wanted or newer from https://rustup.rs, then run this again" >&2
        exit 1
    fi
    have=$(rustc --version | cut -d ' ' -f 2)
    if [ "$(printf '%s\n%s\n' "$wanted" "${have%%-*}" | sort -V | head -n 1)" != "$wanted" ]; then
        echo "setup: Rust $have is too old, $wanted or newer is needed; run: rustup update stable" >&2
        exit 1
    fi
    if [ "$purpose" = test ]; then
        cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
        cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
    fi
}

# A clang that product/uplink/build.rs takes: the verifier refuses what those before this one make.
clang_min=15
has_clang() {
    local name major
    for name in ${WEIR_CLANG:-} clang clang-{22..15}; do
        major=$("$name" -dumpversion 2>/dev/null | cut -d . -f 1) || true
        if [ "${major:-0}" -ge "$clang_min" ]; then return; fi
    done
    return 1
}

# What the distribution calls a clang that will do: the one that all was tried with, else its newest. Its `clang` may be too
# old (14 in Debian 12 and Ubuntu 22.04).
clang_tried=16
clang_package() {
    local majors major
    majors=$(apt-cache pkgnames clang- | sed -n 's/^clang-\([0-9]\+\)$/\1/p' | sort -n)
    major=$(grep -x "$clang_tried" <<<"$majors" || tail -n 1 <<<"$majors")
    if [ "${major:-0}" -ge "$clang_min" ]; then echo "clang-$major"; else echo clang; fi
}

# A program of this name, or a file of this path.
is_there() {
    case "$1" in
    clang) has_clang ;;
    php-fpm) compgen -c php-fpm >/dev/null ;;
    php-mysql) php -m 2>/dev/null | grep -qx mysqli ;;
    venv) python3 -c 'import ensurepip' 2>/dev/null ;;
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

# Prints `program package loss` for everything this purpose needs and the machine does not have.
missing() {
    local purposes program package loss
    while read -r purposes program package loss; do
        if [[ ",$purposes," == *",$purpose,"* ]] && ! is_there "$program"; then
            echo "$program $package $loss"
        fi
    done <<<"$needs"
}

# Runs a command as root; fails, without asking for a password, where that is not allowed.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# Debian starts a server as soon as its package is installed, and at every boot. Neither is wanted here: a port would be
# taken. policy-rc.d (see invoke-rc.d(8)) forbids the first while this runs, systemctl disable the second.
install_packages() {
    local policy=/usr/sbin/policy-rc.d made_policy=no status=0 unit packages
    if [ ! -e "$policy" ]; then
        made_policy=yes
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        trap 'as_root rm -f /usr/sbin/policy-rc.d' EXIT
        as_root chmod 755 "$policy"
    fi
    {
        # What a set-up that ran out of time left half done.
        as_root env DEBIAN_FRONTEND=noninteractive dpkg --configure -a &&
            as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
            mapfile -t packages < <(printf '%s\n' "$@" | sed "s/^clang$/$(clang_package)/") &&
            as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}"
    } >&2 || status=$?
    if [ "$made_policy" = yes ]; then
        as_root rm -f "$policy"
        trap - EXIT
    fi
    if [ -d /run/systemd/system ]; then
        for unit in nginx caddy lighttpd h2o mariadb; do
            if [[ " $* " == *" $unit "* ]]; then as_root systemctl disable --quiet --now "$unit" || true; fi
        done
    fi
    return "$status"
}

export PATH="$PATH:$HOME/.cargo/bin:/usr/local/go/bin:/usr/sbin:/sbin"
if [ "$action" = name ]; then
    missing
    exit 0
fi
check_toolchain
# What is left to be done once the packages are there.
finish() {
    if [ "$purpose" = virtual ]; then exec scripts/virtual-kernel.sh; fi
    if [ "$purpose" = conformance ]; then exec scripts/conformance-tools.sh; fi
    if [ "$purpose" = test ] || [ "$purpose" = recipes ]; then exec scripts/pebble.sh; fi
    exit 0
}
absent=$(missing)
if [ -z "$absent" ]; then finish; fi

mapfile -t packages < <(echo "$absent" | cut -d ' ' -f 2 | sort -u)
if ! command -v apt-get >/dev/null; then
    echo "setup: no apt-get here; install by hand what Debian calls: ${packages[*]}" >&2
elif ! as_root true 2>/dev/null; then
    echo "setup: not root and no sudo without a password; to install: sudo apt-get install ${packages[*]}" >&2
else
    echo "setup: installing ${packages[*]}"
    install_packages "${packages[@]}" || echo "setup: apt-get could not install ${packages[*]}" >&2
fi

absent=$(missing)
if [ -z "$absent" ]; then finish; fi
while read -r program package loss; do
    if [ "$loss" = - ]; then
        echo "setup: no $program, so nothing can be built; install the package $package" >&2
        exit 1
    fi
    echo "setup: without $program (package $package) this is skipped: $loss" >&2
done <<<"$absent"
finish
