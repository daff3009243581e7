#!/usr/bin/env bash
# Makes the pictures of docs/pictures anew: the admin page, a listing, an error and the demo, in Chromium without a window, light and dark.
# Usage: scripts/screenshots.sh [WEIR], which is target/release/weir else. A minute; all on loopback.
set -euo pipefail
cd "$(dirname "$0")/.."

weir=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/release/weir}")
[ -x "$weir" ] || { echo "screenshots: no $weir; run: cargo build --release --locked --package weir" >&2; exit 1; }
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || { echo "screenshots: no chromium" >&2; exit 1; }
to=$PWD/docs/pictures
work=$(mktemp -d)
started=()
finish() {
    for id in "${started[@]}"; do kill "$id" 2>/dev/null || true; done
    wait
    rm -r "$work"
}
trap finish EXIT
mkdir -p "$to" "$work/site/mirror/debian-12"

# Sizes of a small mirror, all of them empty space.
while read -r size name; do truncate -s "$size" "$work/site/mirror/$name"; done <<'FILES'
4704M debian-12-amd64-dvd.iso
631M debian-12-amd64-netinst.iso
1200 SHA256SUMS
659 SHA256SUMS.sign
96K README.html
12M mirror-map.pdf
FILES
for bytes in 700 3000 9000 40000 150000; do truncate -s $bytes "$work/site/page-$bytes"; done
cat >"$work/weir.toml" <<CONFIGURATION
[server]
admin = "127.0.0.1:19180"
sandbox = false
[uplink]
rate = "20mbit"
[timeouts]
shutdown = "1s"
[[listener]]
address = "127.0.0.1:18480"
[[site]]
name = "mirror"
root = "$work/site"
autoindex = true
CONFIGURATION

"$weir" run "$work/weir.toml" >"$work/weir.log" 2>&1 &
started+=($!)
"$weir" demo --time 8s --listen 127.0.0.1:18481 >"$work/demo.log" 2>&1 &
started+=($!)
for _ in $(seq 100); do
    curl -fs -o /dev/null http://127.0.0.1:18480/page-700 && curl -fs -o /dev/null http://127.0.0.1:18481/ && break
    sleep 0.1
done
# Downloads that keep the line full, and pages beside them.
for _ in 1 2 3; do
    curl -s -o /dev/null --max-time 90 http://127.0.0.1:18480/mirror/debian-12-amd64-dvd.iso &
    started+=($!)
done
(for _ in $(seq 400); do
    curl -s -o /dev/null --max-time 5 "http://127.0.0.1:18480/page-{700,3000,9000,40000,150000}"
    sleep 0.1
done) &
started+=($!)

# A picture is taken once a page is loaded; here it is in a frame of one whose image comes that much later.
cat >"$work/late.py" <<'PROGRAM'
import http.server, time, urllib.error, urllib.parse, urllib.request
class Late(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path.startswith("/late"):
            time.sleep(min(float(self.path.split("?")[1]), 60))
            return self.send_error(404)
        if " " not in urllib.parse.unquote(self.path):
            return self.pass_on()
        address, wait_s, width = urllib.parse.unquote(self.path[1:]).split(" ")
        body = f"""<!DOCTYPE html><meta name="color-scheme" content="light dark"><style>body{{margin:0}}iframe{{border:0;width:{width};height:100vh;display:block;margin:auto}}</style>
            <iframe src="{address}"></iframe><img src="/late?{wait_s}" hidden>""".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body)
    def pass_on(self):
        """The admin page, which is shown in no frame of another origin."""
        try:
            with urllib.request.urlopen("http://127.0.0.1:19180" + self.path, timeout=5) as answer:
                body, media_type = answer.read(), answer.headers["Content-Type"]
        except (OSError, urllib.error.HTTPError):
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 18482), Late).serve_forever()
PROGRAM
python3 "$work/late.py" &
started+=($!)

# Name, address, width and height, width of the page in it, seconds to wait, further flags.
picture() {
    local name=$1 address=$2 size=$3 width=$4 wait_s=$5
    shift 5
    "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-first-run --disable-background-networking \
        --user-data-dir="$work/$name" --window-size="$size" --screenshot="$to/$name.png" "$@" "http://127.0.0.1:18482/$address%20$wait_s%20$width" \
        >"$work/$name.log" 2>&1 || { echo "screenshots: $name: $(tail -3 "$work/$name.log")" >&2; exit 1; }
    echo "docs/pictures/$name.png"
}
dark=(--force-dark-mode --blink-settings=preferredColorScheme=0)
picture listing http://127.0.0.1:18480/mirror/ 900,520 100vw 1
# No window is narrower than 500 pixels: a phone is a frame in it.
picture listing-phone http://127.0.0.1:18480/mirror/ 500,520 360px 1
picture error http://127.0.0.1:18480/nowhere 900,340 100vw 1
picture demo http://127.0.0.1:18481/ 900,760 100vw 12
# Samples of the last hour are taken every ten seconds.
picture admin http://127.0.0.1:18482/ 900,1500 100vw 30
picture admin-dark http://127.0.0.1:18482/ 900,1500 100vw 4 "${dark[@]}"
picture admin-phone http://127.0.0.1:18482/ 500,1500 360px 4
