#!/usr/bin/env python3
"""How soon Chromium shows pages of three sites over a busy line, by its own clock (LCP, FCP, load event): Weir, nginx and H2O.

    scripts/browsers.py run --zim WIKI.zim [--seeds 10] [--cross none] [--out runs/browsers]    # as root
    scripts/browsers.py report [--out runs/browsers] [--cross none] [--over weir-found]    # tables as Markdown

The line has 10 Mbit/s and 30 ms, on a kernel of virtual time: computing takes no time, so neither the browser's own work nor a busy host counts. The
systems take turns, each with its server started anew. Chromium loads each page of PAGES while another client downloads without end; the seed decides the
order of the pages and the pauses before them for all systems alike. What is there already is not measured again.

The sites: The Rust Book (mdBook; rustup's component rust-docs), articles of Wikipedia (Kiwix's wikipedia_en_ray_charles_2015-06.zim, whose parts are in
tests/ of its kiwix-js; read with PyPI's libzim), photographs of Debian's mate-backgrounds on pages made here with ImageMagick. Debian's chromium, nginx
with libnginx-mod-http-brotli-filter, h2o and curl. WEIR_UML_RUN names the program that runs a command on a kernel of virtual time (default:
../shared/tools/uml-run)."""

import argparse, base64, collections, glob, itertools, json, math, os, random
import shutil, signal, statistics, subprocess, sys, tempfile, time

PAGES = {
    "book": ["ch04-01-what-is-ownership.html", "ch14-02-publishing-to-crates-io.html"],
    "wiki": ["A/Ray_Charles.html"],
    "gallery": ["index.html", "Dune.html"],
}
LINE = "10mbit"
HTB = f"htb default 1; tc -n router class add dev far parent 1: classid 1:1 htb rate {LINE} burst 1600 cburst 1600 quantum 1514; " \
    "tc -n router qdisc add dev far parent 1:1 "
QUEUES = {"cake": f"cake bandwidth {LINE}", "fq_codel": HTB + "fq_codel", "fifo": HTB + "pfifo limit 100"}
ADDRESS = "198.18.0.1"
HOPS = ["server", "router", "wire", "clients"]  # the router has the queue; the wire serialises, and 15 ms each way are between it and the clients
TYPES = "text/plain text/css application/json application/javascript text/xml application/xml text/javascript image/svg+xml"
GALLERY = """<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{name}</title><link rel="stylesheet" href="style.css">
<h1>Photographs</h1>
{full}<main>
{thumbnails}</main></html>
"""
STYLE = "body{font:18px sans-serif;margin:2em;background:#222;color:#eee}main{display:grid;grid-template-columns:repeat(auto-fill,360px);gap:1em}" \
    ".full{width:100%;max-height:70vh;object-fit:contain}"
BROTLI = "/usr/lib/nginx/modules/ngx_http_brotli_filter_module.so"
NGINX = """load_module {brotli};
daemon off; user root; worker_processes 1; pid nginx.pid; error_log stderr; events {{ worker_connections 512; }}
http {{ include /etc/nginx/mime.types; sendfile on; tcp_nopush on; access_log off; brotli on; brotli_types {types}; gzip on; gzip_types {types};
server {{ listen {address}:443 ssl http2; ssl_certificate {work}/cert.pem; ssl_certificate_key {work}/key.pem; root {site}; }} }}
"""
H2O = """listen: {{ host: {address}, port: 443, ssl: {{ certificate-file: "{work}/cert.pem", key-file: "{work}/key.pem", ocsp-update-interval: 0 }} }}
compress: [br, gzip]
hosts: {{ default: {{ paths: {{ "/": {{ file.dir: "{site}" }} }} }} }}
"""
NGINX_RUN, H2O_RUN = "nginx -p {work} -c {work}/nginx.conf -e stderr", "h2o -m worker -c {work}/h2o.conf"
WEIR = "{weir} serve {site} --listen {address}:443 --cert {work}/cert.pem --key {work}/key.pem"
# Of each the server and the router's queue.
SYSTEMS = {
    "weir-found": (WEIR, "fifo"),
    "weir-configured": (WEIR + " --uplink {line}", "fifo"),
    "nginx-cake": (NGINX_RUN, "cake"),
    "h2o-cake": (H2O_RUN, "cake"),
    "nginx-fq_codel": (NGINX_RUN, "fq_codel"),
    "h2o-fq_codel": (H2O_RUN, "fq_codel"),
    "weir-found-cake": (WEIR, "cake"),
}
METRICS = ["lcp", "fcp", "load"]
CHROMIUM = "chromium --headless=new --no-sandbox --disable-gpu --in-process-gpu --ignore-certificate-errors --disable-background-networking " \
    "--disable-component-update --no-first-run --disable-breakpad --disable-sync --disable-extensions --window-size=1280,900 " \
    "--disable-features=SpareRendererForSitePerProcess,BackForwardCache --user-data-dir={work}/profile --remote-debugging-pipe " \
    "--host-resolver-rules='MAP *.site.test {address}'"
# What Chromium's own clock says, in milliseconds since the navigation began; entries of the past are kept for observers.
READ = """new Promise(done => {
    const seen = {load: 0, status: 0, protocol: '', bytes: 0, requests: 0};
    const observe = (type, note) => new PerformanceObserver(list => list.getEntries().forEach(note)).observe({type, buffered: true});
    observe('largest-contentful-paint', e => Object.assign(seen, {lcp: e.startTime, of: e.url || e.element?.tagName}));
    observe('paint', e => { if (e.name === 'first-contentful-paint') seen.fcp = e.startTime });
    for (const e of [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]) {
        if (e.entryType === 'navigation') Object.assign(seen, {load: e.loadEventEnd, status: e.responseStatus, protocol: e.nextHopProtocol});
        seen.requests += 1; seen.bytes += e.encodedBodySize;
    }
    setTimeout(() => done(JSON.stringify(seen)), 50);
})"""
SETTLE_S, LOAD_WITHIN_S, PAUSE_S = 1, 120, 1
CLIENTS, OTHER = "ip netns exec clients".split(), "198.18.5.1"  # the address of the download


def sh(command):
    done = subprocess.run(["sh", "-c", "set -e; " + command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"browsers: {command}: {done.stderr.strip()} {done.stdout.strip()}")
    return done.stdout


def gallery(photos, folder):
    """Writes a page of thumbnails, and for each photograph a page with it and all thumbnails."""
    names = sorted(os.path.basename(photo).removesuffix(".jpg") for photo in photos)
    for name, photo in zip(names, sorted(photos), strict=True):
        sh(f"cd '{folder}'; convert '{photo}' -strip -resize 1600x1200 -quality 85 {name}-full.jpg; "
           f"convert '{photo}' -strip -resize 360x240^ -gravity center -extent 360x240 -quality 80 {name}-small.jpg")
    thumbnails = "".join(f'<a href="{n}.html"><img src="{n}-small.jpg" width="360" height="240" alt="{n}"></a>\n' for n in names)
    for name in ["index", *names]:
        full = "" if name == "index" else f'<img class="full" src="{name}-full.jpg" alt="{name}">\n'
        open(f"{folder}/{name}.html", "w").write(GALLERY.format(name=name, full=full, thumbnails=thumbnails))
    open(f"{folder}/style.css", "w").write(STYLE)


def unpack(zim, folder):
    from libzim.reader import Archive

    archive = Archive(zim)
    for entry in map(archive._get_entry_by_id, range(archive.all_entry_count)):
        if not entry.is_redirect:
            os.makedirs(os.path.dirname(f"{folder}/{entry.path}"), exist_ok=True)
            open(f"{folder}/{entry.path}", "wb").write(bytes(entry.get_item().content))


def sites(flags):
    """Lays the three sites into a folder, unless they are there."""
    folder, machine = f"{flags.out}/sites", flags.machine
    book, photos = sh("rustc --print sysroot").strip() + "/share/doc/rust/html/book", glob.glob("/usr/share/backgrounds/mate/nature/*.jpg")
    needs = {f"apt-get install {name}": shutil.which(name) for name in ("chromium", "h2o", "curl")}
    needs |= {"apt-get install libnginx-mod-http-brotli-filter": os.path.exists(BROTLI), "apt-get install imagemagick": shutil.which("convert")}
    needs |= {"apt-get install mate-backgrounds": photos, "rustup component add rust-docs": os.path.isdir(book)}
    needs |= {"--zim FILE": flags.zim or os.path.isdir(f"{folder}/wiki"), f"{machine} (WEIR_UML_RUN names another)": os.access(machine, os.X_OK)}
    needs[f"{flags.weir} (cargo build --release -p weir)"] = os.access(flags.weir, os.X_OK)
    if missing := [need for need, is_there in needs.items() if not is_there]:
        print(f"SKIPPED: browsers: it needs: {'; '.join(missing)}")
        sys.exit(os.environ.get("CI") == "true")
    os.makedirs(f"{folder}/gallery", exist_ok=True)
    if not os.path.exists(f"{folder}/book"):
        shutil.copytree(book, f"{folder}/book")
    if not os.path.exists(f"{folder}/wiki"):
        unpack(flags.zim, f"{folder}/wiki")
    if not os.path.exists(f"{folder}/gallery/index.html"):
        gallery(photos, f"{folder}/gallery")
    sh(f"truncate -s 1G {folder}/download.iso")


def lay():
    """Lays the line but for the router's queue. Queues see single packets, as on a wire."""
    commands = [f"ip netns add {side}; ip -n {side} link set lo up" for side in HOPS]
    for at, (near, far) in enumerate(zip(HOPS, HOPS[1:])):
        commands.append(f"ip link add far netns {near} type veth peer name near netns {far}")
        for side, device, end in ((near, "far", 1), (far, "near", 2)):
            commands.append(f"ip netns exec {side} ethtool -K {device} tso off gso off gro off; ip -n {side} link set {device} gso_max_segs 1 up")
            commands.append(f"ip -n {side} address add 198.18.{at}.{end}/24 dev {device}")
        commands.append(f"ip -n {near} route add default via 198.18.{at}.2")
    commands += ["ip -n wire route add 198.18.0.0/24 via 198.18.1.1; ip -n clients route add default via 198.18.2.1"]
    commands += [f"ip -n clients route add local {OTHER}/32 dev lo; tc -n wire qdisc add dev far root netem limit 20000 delay 15ms rate {LINE}"]
    commands += ["tc -n clients qdisc add dev near root netem limit 20000 delay 15ms"]
    write = "ip netns exec {} sh -c 'cd /proc/sys/net/ipv4; echo 1 >ip_forward; echo 1 >tcp_no_metrics_save; echo cubic >tcp_congestion_control'"
    sh("; ".join(commands + [write.format(side) for side in HOPS]))


class Browser:
    """A Chromium, driven over DevTools' pipe: it reads commands from descriptor 3 and writes answers to 4."""

    def __init__(self, work):
        (inner_in, self.into), (self.out, inner_out) = os.pipe(), os.pipe()
        command = f"exec {CHROMIUM.format(work=work, address=ADDRESS)} 3<&{inner_in} 4>&{inner_out} 2>/dev/null"
        self.process = subprocess.Popen([*CLIENTS, "sh", "-c", command], pass_fds=(inner_in, inner_out))
        self.number, self.names, self.rest = 0, 0, b""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def receive(self):
        while b"\0" not in self.rest:
            self.rest += os.read(self.out, 1 << 20) or sys.exit("browsers: Chromium ended")
        text, _, self.rest = self.rest.partition(b"\0")
        return json.loads(text)

    def call(self, method, session=None, **params):
        self.number += 1
        os.write(self.into, json.dumps({"id": self.number, "method": method, "params": params} | ({"sessionId": session} if session else {})).encode() + b"\0")
        while (said := self.receive()).get("id") != self.number:
            pass
        if "error" in said:
            sys.exit(f"browsers: {method}: {said['error']}")
        return said["result"]

    def load(self, path, picture=None):
        """Loads a page under a host name that the browser has not seen: an empty cache and a new connection, but no new process."""
        self.names += 1
        self.call("Page.navigate", self.session, url=f"https://v{self.names}.site.test/{path}")
        seen, until = {"load": 0}, time.monotonic() + LOAD_WITHIN_S
        while not seen["load"] and time.monotonic() < until:
            time.sleep(SETTLE_S)
            seen = json.loads(self.call("Runtime.evaluate", self.session, expression=READ, awaitPromise=True)["result"]["value"])
        if picture:
            open(picture, "wb").write(base64.b64decode(self.call("Page.captureScreenshot", self.session)["data"]))
        return seen


def measure(flags, system, seed, browser, fill):
    """Starts a server, and lets the browser load pages over the line to it."""
    server, queue = SYSTEMS[system]
    chance = random.Random(seed)
    sh(f"tc -n router qdisc delete dev far root 2>/dev/null || true; tc -n router qdisc add dev far root handle 1: {QUEUES[queue]}")
    words = ["ip", "netns", "exec", "server", "env", f"STATE_DIRECTORY={tempfile.mkdtemp()}", *server.format(**fill).split()]
    serving = subprocess.Popen(words, stdout=open(f"{flags.out}/{system}.log", "w"), stderr=subprocess.STDOUT)
    time.sleep(2)
    pages = [(folder, page) for folder, pages in PAGES.items() for page in pages]
    chance.shuffle(pages)
    if flags.cross == "download":
        fetch = f"while :; do curl -sk --http2 --interface {OTHER} -o /dev/null https://{ADDRESS}/download.iso || sleep 1; done"
        download = subprocess.Popen([*CLIENTS, "sh", "-c", fetch], start_new_session=True)
    received = lambda: int(sh("ip netns exec clients cat /proc/net/dev").split("near:")[1].split()[0])
    began, before, loads = time.monotonic(), received(), []
    for folder, page in pages:
        time.sleep(chance.expovariate(1 / PAUSE_S))
        seen = browser.load(f"{folder}/{page}", f"{flags.out}/{system}-{folder}-{page.replace('/', '-')}.png" if flags.pictures else None)
        loads.append({"site": folder, "page": page, "at_s": round(time.monotonic() - began, 3)} | seen)
        if not seen["load"] or (seen["status"], seen["protocol"]) != (200, "h2"):
            sys.exit(f"browsers: {system}: {loads[-1]}")
    others = received() - before - sum(load["bytes"] for load in loads)
    of = {"system": system, "seed": seed, "cross": flags.cross, "others_bps": others * 8 / (time.monotonic() - began), "loads": loads}
    if serving.poll() is not None:
        sys.exit(f"browsers: {system}: the server ended")
    json.dump(of | {"queue": sh("tc -n router -s qdisc show dev far")}, open(f"{flags.out}/{flags.cross}_{system}_{seed}.json", "w"))
    if flags.cross == "download":
        os.killpg(download.pid, signal.SIGTERM)
    sh("kill $(ip netns pids server)")
    serving.wait()
    time.sleep(2)  # connections end


def guest(flags):
    """Measures what is not there yet, inside the machine of virtual time."""
    work, systems = tempfile.mkdtemp(), flags.systems.split(",")
    lay()
    sh(f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj /CN=localhost -keyout {work}/key.pem -out {work}/cert.pem")
    fill = {"work": work, "site": f"{flags.out}/sites", "weir": flags.weir, "address": ADDRESS, "types": TYPES, "brotli": BROTLI, "line": LINE}
    for name, text in (("nginx.conf", NGINX), ("h2o.conf", H2O)):
        open(f"{work}/{name}", "w").write(text.format(**fill))
    browser = Browser(work)
    for seed, system in itertools.product(range(flags.first, flags.first + flags.seeds), systems):
        if not os.path.exists(f"{flags.out}/{flags.cross}_{system}_{seed}.json"):
            measure(flags, system, seed, browser, fill)
            print(f"{flags.cross}, seed {seed}, {system}", flush=True)


def run(flags):
    sites(flags)
    words = [flags.machine, "--mem", "4G", "--timeout", "36000", "--share", flags.out, "--", "/usr/bin/python3", os.path.realpath(__file__), "guest"]
    words += ["--out", flags.out, "--systems", flags.systems, "--first", str(flags.first), "--seeds", str(flags.seeds)]
    return subprocess.run([*words, "--cross", flags.cross, "--weir", flags.weir, *["--pictures"] * flags.pictures]).returncode


def interval(logs):
    """The mean ratio and its 95 % interval, by Student's t over logarithms."""
    n, z = len(logs), 1.959964
    if n < 2:
        return f"{math.exp(logs[0]):.2f}"
    # The quantile of t by the expansion of Cornish and Fisher; it is 2.262 for 10 values.
    t = z + (z**3 + z) / (4 * (n - 1)) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * (n - 1) ** 2) + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * (n - 1) ** 3)
    mean, half = statistics.mean(logs), t * statistics.stdev(logs) / math.sqrt(n)
    text = f"{math.exp(mean):.2f} ({math.exp(mean - half):.2f} to {math.exp(mean + half):.2f})"
    return f"**{text}**" if mean < -half else text + ", undecided" * (mean <= half)


def report(flags):
    """Median and 95th percentile in milliseconds; then each system's times divided by those of --over, paired by seed and page; losses of --over are bold."""
    runs = collections.defaultdict(dict)
    for path in glob.glob(f"{flags.out}/{flags.cross}_*.json"):
        of = json.load(open(path))
        runs[of["system"]][of["seed"]] = {(load["site"], load["page"]): load for load in of["loads"][flags.skip :]} | {"others": of["others_bps"]}
    names = [name for name in SYSTEMS if name in runs]
    print(f"| {flags.cross} | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1))
    rows = [(site, metric) for site in [*PAGES, "all"] for metric in METRICS]
    loads = lambda run, site: {key: load for key, load in run.items() if key != "others" and site in ("all", key[0])}
    middle = lambda of: f"{statistics.median(of):.0f}, {of[math.ceil(0.95 * len(of)) - 1]:.0f}" if of else ""
    for site, metric in rows[: -len(METRICS)]:
        values = [sorted(load[metric] for run in runs[name].values() for load in loads(run, site).values()) for name in names]
        print(f"| {site}, {metric.upper()}, ms | " + " | ".join(map(middle, values)) + " |")
    print("| others, Mbit/s | " + " | ".join(f"{statistics.mean(run['others'] for run in runs[name].values()) / 1e6:.2f}" for name in names) + " |")
    print("| seeds | " + " | ".join(str(len(runs[name])) for name in names) + " |\n")
    peers = [name for name in names if name != flags.over]
    print(f"| over {flags.over} | " + " | ".join(peers) + " |\n|" + "---|" * (len(peers) + 1))
    for site, metric in rows:
        pairs = [[(loads(run, site), runs[flags.over].get(seed)) for seed, run in runs[name].items()] for name in peers]
        ratio = lambda ours, theirs: statistics.mean(math.log(load[metric] / ours[key][metric]) for key, load in theirs.items())
        logs = [[ratio(ours, theirs) for theirs, ours in of if theirs and ours] for of in pairs]
        print(f"| {site}, {metric.upper()} | " + " | ".join(interval(of) if of else "" for of in logs) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "report", "guest"])
    parser.add_argument("--out", type=os.path.abspath, default="runs/browsers")
    parser.add_argument("--zim", help="a ZIM file of Wikipedia with the articles of PAGES")
    parser.add_argument("--systems", default=",".join([*SYSTEMS][:6]), help="also weir-found-cake")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--cross", choices=["download", "none"], default="download")
    parser.add_argument("--over", default="weir-found")
    parser.add_argument("--skip", type=int, default=0, help="leaves out the first loads of each run, in which weir-found searches for the rate")
    parser.add_argument("--weir", type=os.path.realpath, default="target/release/weir")
    parser.add_argument("--pictures", action="store_true", help="keeps a picture of each page")
    flags = parser.parse_args()
    flags.machine = os.environ.get("WEIR_UML_RUN", os.path.dirname(os.path.realpath(__file__)) + "/../../shared/tools/uml-run")
    sys.exit({"run": run, "report": report, "guest": guest}[flags.what](flags))


main()
