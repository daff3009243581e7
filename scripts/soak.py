#!/usr/bin/env python3
"""A day of `weir attach` or `weir serve` on a line that changes, in virtual time: does traffic go on, does the order return, does anything grow?

    scripts/soak.py attach|serve [--hours 24] [--seed 1] [--every 600] [--fetch 2] [--weir target/release/weir]    # as root, with nginx

A client fetches 3 KB every --fetch seconds, and 1 MB every sixty times that, over a line of 1.5 to 15 Mbit/s and 30 ms. About every --every seconds one to
three of EVENTS happen, by the seed; then a download fills the line, and fetches show whether small responses leave first. A line each hour says what
Weir and the kernel hold. Status 1 means that a bound below was passed. WEIR_UML_RUN names the program that runs a command on a kernel of virtual
time (default: ../shared/tools/uml-run)."""

import argparse, ctypes, glob, json, os, random, socket, statistics, subprocess, sys, threading, time

GAP_S = 30  # without a complete fetch while the line carries
AGAIN_S = 15  # from the events to the look at the order
ORDERED_S = 0.150  # median of fetches during a download: two round trips, and a third of the router's queue at 5 Mbit/s
GROWTH = {"rss_kb": 8192, "slab_kb": 16384, "fds": 2, "threads": 0, "programs": 0, "maps": 0, "pinned": 0, "qdiscs": 0, "kept": 2}  # kept: a lock and the rates found
BASE_BITS = 5e6
SERVER = "nsenter --net=/run/netns/server "
SHAPER = "dev lan root tbf rate {bits}bit burst 3000 limit 150000"
ADDRESS = "ip -n server address add 198.18.1.{address}/24 dev uplink; ip -n server route replace default via 198.18.1.1"
LAY = "ip -n router link add line type veth peer name uplink netns server; ip -n router address add 198.18.1.1/24 dev line; " \
    "ip -n router link set line up; ip -n server link set uplink up; " + ADDRESS
BUILD = "mkdir -p /run/soak/www /etc/weir; rm -rf /var/lib/weir-attach; cd /run/soak/www; head -c 3000 /dev/zero >small; head -c 1000000 /dev/zero >large; " \
    "head -c 30000000 /dev/zero >long; ip netns add router; ip netns add server; ip link add lan type veth peer name lan netns router; " \
    "ip address add 198.18.0.1/24 dev lan; ip link set lan up; ip route add 198.18.1.0/24 via 198.18.0.2; tc qdisc add dev lan root netem delay 30ms limit 10000; " \
    "ip -n router address add 198.18.0.2/24 dev lan; ip -n router link set lan up; tc -n router qdisc add " + SHAPER + "; " + LAY + \
    "; nsenter --net=/run/netns/router sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'"
GIVEN = "printf '[uplink]\\nport = 80\\nreplace = true\\nrate = \"{told}\"\\n' >/etc/weir/new; mv /etc/weir/new /etc/weir/attach.toml"
AUTO = GIVEN.replace("{told}", "auto")
NGINX = "user root; pid /run/soak/pid; error_log /run/soak/log; events {}\nhttp { access_log off; server { listen 80; root /run/soak/www; } }\n"
WEIR = '[[listener]]\naddress = "0.0.0.0:80"\n[[site]]\nroot = "/run/soak/www"\n'
EVENTS = {
    "line": "tc -n router qdisc change " + SHAPER + "; " + AUTO,  # a rate that was given holds no longer
    "carrier": "ip -n router link set line down; sleep {seconds}; ip -n router link set line up",
    "remade": "ip -n server link delete uplink; sleep {seconds}; " + LAY,
    "address": "ip -n server address flush dev uplink; " + ADDRESS,
    "killed": "kill -9 {processes}; sleep 5",  # the unit starts it again after five seconds
}
EVENTS_OF = {"attach": {"queue": "tc -n server qdisc replace dev uplink root {queue}", "no queue": "tc -n server qdisc delete dev uplink root || true",
                        "detach": "! " + SERVER + "{weir} attach --list --json | grep -q '\"interface\":\"uplink\"' || " + SERVER + "{weir} attach --detach uplink", "given": GIVEN},
             "serve": {"reload": "kill -HUP {youngest}", "upgrade": SERVER + "{weir} upgrade --pid {youngest} -- run /run/soak/weir.toml >>/run/soak/said 2>&1"}}


def sh(command):
    done = subprocess.run(["sh", "-c", "set -e; " + command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr.strip()} {done.stdout.strip()}")
    return done.stdout


def bpf_objects(command):
    """The number of programs (11) or maps (12) in the kernel, by BPF_..._GET_NEXT_ID."""
    count, at = 0, (ctypes.c_uint32 * 32)()
    while ctypes.CDLL(None).syscall(321, command, at, 128) == 0:
        count, at[0] = count + 1, at[1]
    return count


def processes():
    """Weir's, the youngest last."""
    stats = [open(path).read().rpartition(") ")[::2] for path in glob.glob("/proc/[0-9]*/stat")]
    return [pid for _, pid in sorted((int(rest.split()[19]), int(name.split()[0])) for name, rest in stats if "(weir" in name and rest[0] != "Z")]


def held():
    status = [line.split() for pid in processes() for line in open(f"/proc/{pid}/status")]
    files = {folder: sum(len(files) for _, _, files in os.walk(folder)) for folder in ("/sys/fs/bpf", "/run/weir", "/var/lib/weir-attach")}
    return {"rss_kb": sum(int(words[1]) for words in status if words[0] == "VmRSS:"), "threads": sum(int(words[1]) for words in status if words[0] == "Threads:"),
            "fds": sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in processes()), "programs": bpf_objects(11), "maps": bpf_objects(12),
            "slab_kb": sum(int(line.split()[1]) for line in open("/proc/meminfo") if line.startswith("SUnreclaim:")), "pinned": files.pop("/sys/fs/bpf"),
            "kept": sum(files.values()), "qdiscs": len(sh("tc -n server qdisc show").splitlines())}


class Soak:
    def __init__(self, flags):
        self.flags, self.chance, self.bits, self.address = flags, random.Random(flags.seed), BASE_BITS, 2
        self.is_attach, self.is_down, self.is_over = flags.what == "attach", False, False
        self.words = [flags.weir, *(["apply", "--watch", "--", "uplink"] if self.is_attach else ["run", "/run/soak/weir.toml"])]
        self.medians, self.shares, self.failures, self.fetched, self.missed, self.longest = [], [], 0, 0, 0, 0
        self.began = self.last = time.monotonic()

    def say(self, text, is_failure=False):
        self.failures += is_failure
        print(f"{time.monotonic() - self.began:8.0f} s  {'FAILED: ' * is_failure}{text}", flush=True)

    def do(self, command):
        queue, mine = self.chance.choice(["fq_codel", "pfifo limit 100", "cake"]), processes()
        command = command.format(bits=round(self.bits), told=f"{self.bits * 0.9:.0f}bit", address=self.address, seconds=round(self.chance.uniform(1, 20), 1),
                                 queue=queue, processes=" ".join(map(str, mine)), youngest=mine[-1] if mine else "", weir=self.flags.weir)
        sh(command)
        return command

    def start(self, *words):
        subprocess.Popen([*SERVER.split(), *words], stdout=open("/run/soak/said", "a"), stderr=subprocess.STDOUT)

    def get(self, name, until=float("inf")):
        """The bytes that came until then or the end, and the seconds that it took; none if the server is out of reach or silent for 4 s."""
        begun, came = time.monotonic(), 0
        try:
            with socket.create_connection((f"198.18.1.{self.address}", 80), timeout=4) as stream:
                stream.sendall(f"GET /{name} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
                while time.monotonic() < until and (part := stream.recv(1 << 18)):
                    came += len(part)
        except OSError:
            came = 0
        return came if came > 3000 else 0, time.monotonic() - begun

    def load(self, name, every, judge):
        while not self.is_over:
            came, took = self.get(name)
            judge(came)
            time.sleep(max(0, every - took))

    def judge(self, came):
        gap, self.fetched, self.missed = time.monotonic() - self.last, self.fetched + bool(came), self.missed + (not came)
        self.longest = max(self.longest, 0 if self.is_down else gap)
        if gap > GAP_S and not self.is_down:
            self.say(f"no fetch for {gap:.1f} s", True)
        self.last = time.monotonic() if came else self.last

    def happen(self, name):
        # Until the look, nothing need arrive; under an attach, the server goes on without Weir's process.
        self.is_down = self.is_down or name in ("carrier", "remade") or (name == "killed" and not self.is_attach)
        self.bits = BASE_BITS * 0.3 * 10 ** self.chance.random() if name == "line" else self.bits
        self.address = 2 + (self.address + (name == "address") - 2) % 200
        self.say(name + ": " + self.do((EVENTS | EVENTS_OF[self.flags.what])[name]).partition("; ip -n router link add")[0])
        if name == "killed":
            self.start(*self.words)

    def look(self):
        """Whether an attach stands, and whether small responses leave first while a download fills the line."""
        self.last, self.is_down = time.monotonic(), False
        time.sleep(AGAIN_S)
        if self.is_attach:
            found = json.loads(sh(f"{SERVER} {self.flags.weir} attach --list --json"))
            stands = len(found) == 1 and "5745:" in sh("tc -n server qdisc show dev uplink") and bpf_objects(11) == 2
            if not stands or ('"auto"' in open("/etc/weir/attach.toml").read() and not found[0]["line"].get("process")):
                self.say(f"not attached and followed {AGAIN_S} s after: {found}", True)
        until, times = time.monotonic() + 8, []
        download = threading.Thread(target=lambda: self.shares.append(self.get("long", until)[0] / self.bits))
        download.start()
        time.sleep(3)
        while time.monotonic() < until:
            came, took = self.get("small")
            times.append(took if came else 9)
            time.sleep(0.2)
        download.join()
        self.medians.append(statistics.median(times))
        if self.medians[-1] > ORDERED_S or not self.shares[-1]:
            self.say(f"fetches took {self.medians[-1]:.3f} s, at most {max(times):.3f}, during a download of {self.shares[-1]:.2f} of the line", True)

    def hour(self, number):
        # Nothing is killed in the second half, so that one process grows old.
        names = [name for name in [*EVENTS, "line", *EVENTS_OF[self.flags.what]] if name != "killed" or number <= self.flags.hours / 2]
        while time.monotonic() - self.began < number * 3600:
            time.sleep(self.chance.uniform(0.5, 1.5) * self.flags.every)
            for name in self.chance.choices(names, k=self.chance.choice([1, 1, 1, 2, 3])):
                self.happen(name)
            self.look()
        self.do(AUTO)
        time.sleep(AGAIN_S)
        holds = held()
        self.say(f"hour {number}: {holds}, {self.fetched} fetches, {self.missed} without an answer, longest gap {self.longest:.1f} s, during {len(self.medians)} "
                 f"downloads {statistics.median(self.medians):.3f} s, at most {max(self.medians):.3f}; downloads had {statistics.median(self.shares):.2f} of the line")
        return holds

    def run(self):
        self.do(BUILD + "; " + AUTO)
        open("/run/soak/weir.toml", "w").write(WEIR)
        open("/run/soak/nginx.conf", "w").write(NGINX)
        if self.is_attach:
            self.start("nginx", "-c", "/run/soak/nginx.conf")
        before = held()
        self.start(*self.words)
        self.look()
        self.last = time.monotonic()
        for words in (("small", self.flags.fetch, self.judge), ("large", 60 * self.flags.fetch, bool)):
            threading.Thread(target=self.load, args=words, daemon=True).start()
        hours = [self.hour(number) for number in range(1, self.flags.hours + 1)]
        self.is_over = True
        self.do("kill {processes}")
        time.sleep(AGAIN_S)
        if self.is_attach:
            self.do(EVENTS_OF["attach"]["detach"])
            time.sleep(1)  # the kernel frees tables after the programs
        before["slab_kb"], left = hours[0]["slab_kb"], held()
        for when, first, last in (("the last hour", hours[0], hours[-1]), ("the end", before, left)):
            for key in (key for key, bound in GROWTH.items() if last[key] > first[key] + bound):
                self.say(f"{key} was {first[key]}, and is {last[key]} at {when}", True)
        self.say(f"at the end: {left}; {self.failures} failures")
        return min(self.failures, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["attach", "serve"])
    for name, usual in (("--hours", 24), ("--seed", 1), ("--every", 600), ("--fetch", 2)):
        parser.add_argument(name, type=int, default=usual)
    parser.add_argument("--weir", type=os.path.realpath, default="target/release/weir")
    flags = parser.parse_args()
    if os.environ.get("UML_RUN_GUEST"):
        sys.exit(Soak(flags).run())
    here = os.path.realpath(__file__)
    run = os.environ.get("WEIR_UML_RUN", os.path.dirname(here) + "/../../shared/tools/uml-run")
    if not os.access(run, os.X_OK):
        print(f"SKIPPED: soak: there is no {run} to start a machine with (WEIR_UML_RUN names another)")
        sys.exit(os.environ.get("CI") == "true")
    words = [word for name in ("hours", "seed", "every", "fetch", "weir") for word in ("--" + name, str(getattr(flags, name)))]
    os.execv(run, [run, "--timeout", "15000", "--", "/usr/bin/python3", here, flags.what, *words])


main()
